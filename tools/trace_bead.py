"""Trace one bead from plan to closed, and print the rooms that it goes through.

    make trace

A plan of one sprint is compiled by `mason` and worked through by `run`, with the scripted agent, in a scratch
repository. A call into another room than that of the call before it on the same thread is a room change. It
goes upwards where the caller lies in a lower layer: listeners of the journal, and functions that were handed
down. The journal tells which stage the bead is at.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import architecture_page
from tools.metrics import levels

SOURCE: Final = str(architecture_page.PROJECT / "src" / "beads_ralph") + os.sep
FRONT_DOOR: Final = "__init__.py"
"""The public API belongs to no room; its `__getattr__` only imports."""
BLOCK: Final = "trace"
JOURNAL: Final = "journal"
WIDTH: Final = 116

PLAN: Final = """\
# One bead

### Sprint 1.1: A greeting

**Tasks**:
- Write `hello.txt`

**Verify**: `test -f hello.txt`
"""
SCRIPT: Final = """\
beads:
  "*":
    dev:
      - write: {hello.txt: "hello\\n"}
      - commit: Say hello
"""
SETTINGS: Final = """\
store: embedded
forge: local
executor: local
min_free_gb: 0
plan:
  source_branch: main
  dev_agents: [{agent: developer, executable: scripted, model: script}]
  qa_agents: [{agent: reviewer, executable: scripted, model: script}]
"""
FILES: Final = {"plan.md": PLAN, "script.yaml": SCRIPT, "beads-ralph.yaml": SETTINGS}
GIT: Final = (
    ("init", "--quiet", "--initial-branch=main"),
    ("config", "user.name", "Trace"),
    ("config", "user.email", "trace@localhost"),
    ("config", "commit.gpgSign", "false"),
    ("add", "--all"),
    ("commit", "--quiet", "--message=Plan"),
)

COMPILE: Final = "compile"
START: Final = "start"
FINISH: Final = "finish"
NEXT: Final[Mapping[str, str]] = {
    "bead_claimed": "prepare",
    "agent_started dev": "develop",
    "agent_ended dev": "check",
    "agent_started qa": "review",
    "verdict_given": "propose",
    "pull_request_opened": "close",
    "bead_closed": FINISH,
}
"""What the journal says → the stage that begins with it."""


@dataclass(frozen=True)
class Entry:
    """A room that a thread entered at some stage, and the file that it came to."""

    stage: str
    room: str
    file: str
    upwards: bool
    aside: bool
    """Beneath a call that goes upwards, and so not on the line itself."""


@dataclass
class Journal:
    """Follows the journal of the run that is traced, to know the stage that the bead is at."""

    root: Path
    stage: str = COMPILE
    path: Path | None = None
    read: int = 0

    def now(self) -> str:
        self.path = self.path or next(self.root.glob(".ralph/runs/*/events.jsonl"), None)
        if self.path and self.path.stat().st_size > self.read:
            with self.path.open(encoding="utf-8") as file:
                file.seek(self.read)
                for line in file:
                    self._heard(json.loads(line))
                self.read = file.tell()
        return self.stage

    def _heard(self, event: Mapping[str, Any]) -> None:
        role = event.get("role")
        self.stage = NEXT.get(f"{event['kind']} {role}" if role else event["kind"], self.stage)


@dataclass
class Trace:
    """What was entered, in order; threads are told apart."""

    journal: Journal
    levels: Mapping[str, int] = field(default_factory=levels)
    entries: list[Entry] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    thread: threading.local = field(default_factory=threading.local)

    def hear(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of a call, as `sys.setprofile` reports it."""
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(SOURCE) or _resumed(frame):
            return
        file = name.removeprefix(SOURCE)
        if file == FRONT_DOOR:
            return
        room = room_of(file)
        entered = room != getattr(self.thread, "room", None)
        if (entered or file not in self.files) and not _importing(frame):
            self.files.add(file)
            self.thread.room = room
            if entered:
                self.entries.append(Entry(self._stage(frame), room, file, *self._ups(frame, room)))

    def _ups(self, frame: FrameType, room: str) -> tuple[bool, bool]:
        """Whether this call goes upwards, and whether any that led to it does."""
        way = [self.levels[room], *(self.levels[room_of(file)] for file, _ in _callers(frame))]
        ups = [caller > called for called, caller in pairwise(way)]
        return any(ups[:1]), any(ups)

    def _stage(self, frame: FrameType) -> str:
        """Whoever listens to the journal still belongs to the stage that an event ends."""
        listening = any(room_of(file) == JOURNAL for file, _ in _callers(frame))
        return self.journal.stage if listening else self.journal.now()


def _resumed(frame: FrameType) -> bool:
    """A coroutine or a generator that goes on where it was is reported as called once more."""
    return frame.f_lineno != frame.f_code.co_firstlineno


def _importing(frame: FrameType) -> bool:
    """Modules are imported where they are needed first, which says nothing about the way of a bead."""
    return frame.f_code.co_name == "<module>" or any(name == "<module>" for _, name in _callers(frame))


def _callers(frame: FrameType) -> Iterator[tuple[str, str]]:
    """File and name of every function of ours that led to this call, the nearest first."""
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_filename.startswith(SOURCE):
            yield caller.f_code.co_filename.removeprefix(SOURCE), caller.f_code.co_name
        caller = caller.f_back


def room_of(file: str) -> str:
    """The package that a file lies in, or the file itself where it lies loose."""
    return file.partition(os.sep)[0].removesuffix(".py")


# --- the run ------------------------------------------------------------------------------------------


def trace(root: Path) -> Trace:
    """Compile the plan and run it, and take note of both."""
    command = _prepared(root)
    found = Trace(Journal(root))
    threading.setprofile(found.hear)
    sys.setprofile(found.hear)
    try:
        _call(command, "mason", "plan.md")
        found.journal.stage = START
        _call(command, "run")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if found.journal.now() != FINISH:
        raise RuntimeError(f"the bead was not closed: it came to '{found.journal.stage}'")
    return found


def _prepared(root: Path) -> Callable[[], int]:
    """Make a repository with a plan and settings; give the command, to be called in this process."""
    root.mkdir()
    for name, content in FILES.items():
        (root / name).write_text(content, encoding="utf-8")
    for words in GIT:
        subprocess.run(["git", *words], cwd=root, check=True)
    os.environ.update(HOME=str(root.parent), BEADS_RALPH_SCRIPT=str(root / "script.yaml"))
    os.chdir(root)
    command = _command()
    _call(command, "init", "--no-agents")
    return command


def _command() -> Callable[[], int]:
    """The function behind `beads-ralph`, as pyproject.toml names it."""
    settings = tomllib.loads((architecture_page.PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = settings["project"]["scripts"]["beads-ralph"].partition(":")
    found: Callable[[], int] = getattr(import_module(module), name)
    return found


def _call(command: Callable[[], int], *words: str) -> None:
    printed = StringIO()
    sys.argv = ["beads-ralph", *words]
    with redirect_stdout(printed), redirect_stderr(printed):
        code = command()
    if code:
        raise RuntimeError(f"beads-ralph {' '.join(words)} ended with {code}:\n{printed.getvalue()}")


# --- the answer ---------------------------------------------------------------------------------------


def text(found: Trace) -> str:
    """The rooms in the order in which they are first entered: on the whole way, and at each stage."""
    rooms = list(dict.fromkeys(entry.room for entry in found.entries if not entry.aside))
    upwards = sum(entry.upwards for entry in found.entries)
    stages = [
        _stage(name, list(entries)) for name, entries in groupby(found.entries, lambda entry: entry.stage)
    ]
    totals = (
        f"{len(found.entries):,} room changes, {upwards} of them upwards, through {len(found.files)} files"
    )
    return "\n".join([_line("plan", [*rooms, "closed"]), "", *stages, "", f"{totals} in {len(rooms)} rooms"])


def _stage(name: str, entries: list[Entry]) -> str:
    """The file by which each room was first entered; below it, who was called back."""
    down = _first([entry for entry in entries if not entry.aside])
    up = _first([entry for entry in entries if entry.upwards])
    return "\n".join([_line(name, down), *([_line("", up, "↑")] if up else [])])


def _first(entries: list[Entry]) -> list[str]:
    found: dict[str, str] = {}
    for entry in entries:
        found.setdefault(entry.room, entry.file)
    return list(found.values())


def _line(name: str, words: list[str], arrow: str = "→") -> str:
    """Fold a line at its arrows."""
    lines = [f"{name:<9}"]
    for word in words:
        if len(lines[-1]) + len(word) > WIDTH:
            lines.append(" " * 9)
        lines[-1] += f" {arrow} {word}"
    return "\n".join(lines)


def to_json(found: Trace) -> dict[str, Any]:
    return {
        "room_changes": len(found.entries),
        "upwards": sum(entry.upwards for entry in found.entries),
        "files": sorted(found.files),
        "rooms": list(dict.fromkeys(entry.room for entry in found.entries)),
        "entries": [[entry.stage, entry.room, entry.file] for entry in found.entries],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Trace one bead from plan to closed.")
    parser.add_argument("--json", action="store_true", help="print every room change as JSON")
    parser.add_argument("--write", action="store_true", help="put the trace into the architecture page")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beads-ralph-trace-") as folder:
        found = trace(Path(folder) / "greeting")
        os.chdir(architecture_page.PROJECT)
    if wanted.write:
        architecture_page.put(BLOCK, f"```text\n{text(found)}\n```")
    print(json.dumps(to_json(found)) if wanted.json else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
