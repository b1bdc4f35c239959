"""Jobs in tmux sessions of their own, so that a person can attach and watch."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import scratch
from beads_ralph.process import job_groups, jobs, reaper
from beads_ralph.process.jobs import RUN_ID, Exit, Job, Limit, Watcher
from beads_ralph.process.process_table import has_table, is_gone, start_of
from beads_ralph.process.process_tree import PATIENCE, Family, reaper_command
from beads_ralph.process.supervise import (
    MARK,
    Output,
    ended_whole,
    entry,
    given,
    marked,
    readable,
    unnamed,
    watch,
)

OPTION: Final = "@beads_ralph_job"
"""Where a session of ours keeps the mark of its job."""
TMUX_SECONDS: Final = 10.0
PANE_SECONDS: Final = 30.0
"""How long the pane may take to call back, on a machine under load."""
NAMES: Final = 100
TRIES: Final = 5
END_SECONDS: Final = 1.0
"""How long a server may take to end after its last session."""


class TmuxExecutor:
    """Every job in a detached session on a tmux server of our own, which ends with its last session."""

    kind = "tmux"

    def __init__(self, socket: str = "beads-ralph") -> None:
        self.socket = socket

    async def run(self, job: Job, watcher: Watcher | None = None) -> Exit:
        self._program()
        job = marked(job)
        with Output(job) as output, Door() as door:
            family = Family(entry(job), keeper=job.keeper, groups=job_groups.for_job(job))
            try:
                ended = await self._run(job, output, door, family, watcher)
                family.spare_none()
                for pause in family.killing(PATIENCE):
                    await asyncio.sleep(pause)
                return ended
            finally:
                if not family.gone or family.spared:
                    family.spare_none()
                    family.kill_now()
                family.remove_groups()

    async def _run(
        self, job: Job, output: Output, door: Door, family: Family, watcher: Watcher | None
    ) -> Exit:
        pane, server = self._open_session(job, door.path)
        family.since = start_of(pane)
        family.adopt(pane)
        family.orphans = lambda table: [one for one in table.values() if one.parent == pane]
        family.spared.add(pane)  # it keeps the program's number taken, and tells the exit code
        with closing(await self._answer(door)) as line:
            hand_over(job, family, output, line)
            told = await line.fact()
            if "started" not in told:
                return output.refused(job, told.get("refused", "the tmux session was closed"))
            family.leader = told["started"]
            told, limit = await _to_the_end(job, output, line, family, watcher)
            # A pane that closes without a word was closed by a person, as a terminal is, or with its server.
            ended = output.exit(told.get("exit", -signal.SIGHUP), limit)
            if told or limit or not await self._has_ended(server):
                return ended
            return replace(ended, abandoned=f"the tmux server (tmux -L {self.socket}) ended under a job")

    async def _has_ended(self, server: int) -> bool:
        """True if all its sessions are gone with the server, and not only ours; it may be just about to."""
        until = time.monotonic() + END_SECONDS
        while not is_gone(server) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        return is_gone(server)

    async def _answer(self, door: Door) -> PaneLine:
        try:
            # Not wait_for, which can swallow a cancellation in Python 3.11.
            async with asyncio.timeout(PANE_SECONDS):
                return await door.answer()
        except TimeoutError:
            raise _unusable("nothing runs in the new one", self.socket) from None

    # --- sessions ---------------------------------------------------------------------------------

    def _open_session(self, job: Job, door: str) -> tuple[int, int]:
        """The numbers of the processes of pane and server. Synchronous, so that no cancellation can come
        between."""
        wanted = session_name(job.name or f"job-{job.mark}")
        for count in range(1, NAMES):
            session = wanted if count == 1 else f"{wanted}-{count}"
            opened = self._new_session(session, job, door)
            if opened is not None:
                return opened
        raise _unusable(f"there are {NAMES} sessions named like {wanted}", self.socket)

    def _new_session(self, session: str, job: Job, door: str) -> tuple[int, int] | None:
        """None where the name is taken by someone alive."""
        complaint = ""
        for _ in range(TRIES):
            done = self._tmux(*_new_session_words(session, job, door))
            if done.ok:
                pane, server = done.stdout.split()
                return int(pane), int(server)
            complaint = done.stderr.strip()
            if done.timed_out:
                break
            if "duplicate session" in complaint and not self._remove_dead(session):
                return None
            # Otherwise the server was just ending with its last session: the next try starts another.
        raise _unusable(complaint or "tmux does not answer", self.socket)

    def _remove_dead(self, session: str) -> bool:
        shown = self._tmux("show-options", "-qv", "-t", f"={session}:", OPTION)
        mark = shown.stdout.strip()
        if shown.ok and (not mark or not has_table() or Family(f"{MARK}={mark}").find()):
            return False
        self._tmux("kill-session", "-t", f"={session}")
        return True

    def _tmux(self, *words: str) -> Exit:
        # The server takes its environment from whoever starts it, and serves other runs too: it must not
        # be swept up with this one.
        env = jobs.environment({}, (MARK, RUN_ID, "TMUX_PANE"))
        env.pop("TMUX", None)
        argv = (self._program(), "-L", self.socket, "-f", os.devnull, *words)
        return jobs.run(Job(argv, cwd=Path("/"), env=env, timeout=TMUX_SECONDS))

    def _program(self) -> str:
        program = jobs.which("tmux")
        if program is None:
            message = "the tmux executor needs tmux, which is not on PATH"
            action = "Install tmux (with apt, dnf or brew), or use the local executor"
            raise RalphError(Code.UNAVAILABLE, message, suggested_action=action)
        return program


def session_name(name: str) -> str:
    """tmux gives meanings to dots, colons and more."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


def _new_session_words(session: str, job: Job, door: str) -> list[str]:
    identity = {name: value for name, value in (job.env or {}).items() if name in {MARK, RUN_ID}}
    # Through env, not as the session's environment: a window that a person opens there is no part of it.
    pane = ["env", *(f"{name}={value}" for name, value in identity.items())]
    pane += reaper_command("pane", door)
    new = ["new-session", "-d", "-s", session, "-x", "200", "-y", "50", "-c", str(job.cwd)]
    return [
        *new,
        "-P",
        "-F",
        "#{pane_pid} #{pid}",
        *pane,
        ";",
        "set-option",
        "-t",
        f"={session}:",
        OPTION,
        job.mark,
    ]


def _unusable(reason: str, socket: str) -> RalphError:
    action = f"Look at: tmux -L {shlex.quote(socket)} list-sessions; or use the local executor"
    return RalphError(Code.UNAVAILABLE, f"cannot open a tmux session: {reason}", suggested_action=action)


# --- talking with the pane ------------------------------------------------------------------------


async def _to_the_end(
    job: Job, output: Output, line: PaneLine, family: Family, watcher: Watcher | None
) -> tuple[Mapping[str, Any], Limit]:
    """What the pane told at the end, and the limit that the job was ended for."""
    ended = asyncio.ensure_future(line.fact())
    try:
        async with ended_whole(family, job.grace):
            limit = await watch(ended, job, output, family, watcher)
        await asyncio.wait([ended], timeout=1.0)
        told = ended.result() if ended.done() else {"exit": -signal.SIGKILL}
    finally:
        ended.cancel()
        reaper.let_go(line.socket)
    return told, limit


def hand_over(job: Job, family: Family, output: Output, line: PaneLine) -> None:
    told = {
        "argv": job.argv,
        "cwd": str(job.cwd),
        "env": dict(job.env or {}),
        "out": str(output.transcript.out.absolute()),
        "err": str(output.transcript.err.absolute()),
        "groups": [str(group.path) for group in family.groups],
    }
    # As open files: an environment may hold secrets, and neither it nor a prompt fits through a socket.
    with unnamed(json.dumps(told).encode()) as description, given(job.stdin) as stdin:
        files = [description, stdin, output.out, output.err]
        with suppress(OSError):  # a pane that is gone tells nothing, which its reader notices
            socket.send_fds(line.socket, [b"\0"], [file.fileno() for file in files])


class PaneLine:
    """Our end of the connection to a pane."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._heard = b""

    def close(self) -> None:
        self.socket.close()

    async def fact(self) -> Mapping[str, Any]:
        """The next thing it tells; nothing where it ended."""
        while b"\n" not in self._heard:
            try:
                more = await asyncio.get_running_loop().sock_recv(self.socket, 4096)
            except ConnectionError:
                more = b""
            if not more:
                return {}
            self._heard += more
        told, self._heard = self._heard.split(b"\n", 1)
        fact: Mapping[str, Any] = json.loads(told)
        return fact


class Door:
    """Where the pane calls back: a socket in a directory that only we can enter."""

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            folder = scratch.make()  # swept by the next run, should this one be killed
            opened.callback(scratch.discard, folder)
            self.path = str(folder / "door")
            self._listening = opened.enter_context(socket.socket(socket.AF_UNIX))
            self._listening.setblocking(False)
            try:
                self._listening.bind(self.path)
            except OSError as problem:
                raise RalphError(Code.WRITE_FAILED, f"cannot make {self.path}: {problem}") from None
            self._listening.listen(1)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    async def answer(self) -> PaneLine:
        await readable(self._listening.fileno())
        connected, _ = self._listening.accept()
        connected.setblocking(False)
        self._opened.close()  # nobody else is to come, and a killed loop cannot tidy up
        return PaneLine(connected)


EXECUTOR: Final = TmuxExecutor
