"""What runs in a job's tmux pane: starts the program, shows what it prints, tells how it ended.

The executor waits on a socket. It hands over the job and its open files there and gets back one JSON
object per line: {"started": pid} or {"refused": why}, then {"exit": code}. It is no part of the executors'
package, because every job pays for what is imported here.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from beads_ralph.process import job_groups, jobs, reaper
from beads_ralph.process.jobs import Job

FILES: Final = 4
"""The job's description, its stdin, stdout and stderr."""
SHOWN_BYTES: Final = 64 * 1024
"""Of a flood only the last is shown: the transcript has it all."""
SHOW_SECONDS: Final = 0.2


def main(path: str) -> None:
    """Run the job that waits at the socket; when nobody is there any more, there is nothing to do."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(path)
            _, files, _, _ = socket.recv_fds(line, 1, FILES)
        except OSError:
            return
        if len(files) == FILES:
            _run(line, *files)
    sys.stdout.flush()
    os._exit(0)  # the thread that shows the output may be held up by a person's Ctrl-S


def _run(line: socket.socket, description: int, stdin: int, stdout: int, stderr: int) -> None:
    with open(description, "rb") as file:
        told = json.load(file)
    job = Job(argv=tuple(told["argv"]), cwd=Path(told["cwd"]), env=told["env"])
    views = [View(Path(told["out"]), stdout), View(Path(told["err"]), stderr)]
    reaper.inherit_orphans()
    keyboard = Keyboard()
    groups = reaper.told_groups(told)
    try:
        with job_groups.born_in(groups):
            process = jobs.start(job, stdin, stdout, stderr)
    except (OSError, ValueError) as problem:
        reaper.say(line, {"refused": jobs.why(problem)})
        return
    keyboard.belongs_to(process.pid)
    reaper.say(line, {"started": process.pid})
    ended = threading.Event()
    showing = threading.Thread(target=_show, args=(views, ended), daemon=True)
    showing.start()
    code = reaper.exit_code(process)
    ended.set()
    showing.join(timeout=1.0)
    reaper.say(line, {"exit": code})
    reaper.leave(line, groups)


class Keyboard:
    """Ctrl-C and Ctrl-\\ reach the program, which has a session of its own, also where they were typed while
    it was being started; Ctrl-Z would stop only us."""

    def __init__(self) -> None:
        self.leader = 0
        self.typed: list[int] = []
        signal.signal(signal.SIGINT, self._pass_on)
        signal.signal(signal.SIGQUIT, self._pass_on)
        signal.signal(signal.SIGTSTP, lambda *_: None)

    def belongs_to(self, leader: int) -> None:
        self.leader = leader
        for number in self.typed:
            self._pass_on(number)

    def _pass_on(self, number: int, _frame: FrameType | None = None) -> None:
        if not self.leader:
            self.typed.append(number)
            return
        with suppress(OSError):
            os.killpg(self.leader, number)


# --- what a person sees ---------------------------------------------------------------------------


class View:
    """A transcript from here on."""

    def __init__(self, path: Path, written: int) -> None:
        self.path = path
        self.position = os.fstat(written).st_size

    def more(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                self.position = max(self.position, os.fstat(file.fileno()).st_size - SHOWN_BYTES)
                file.seek(self.position)
                data = file.read(SHOWN_BYTES)
        except OSError:
            return b""
        self.position += len(data)
        return data


def _show(views: list[View], ended: threading.Event) -> None:
    last = False
    while not last:
        last = ended.wait(SHOW_SECONDS)
        for view in views:
            _print(view.more())


def _print(data: bytes) -> None:
    with suppress(OSError):  # the pane is gone
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
