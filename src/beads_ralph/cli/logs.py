"""logs: what the agents and checks of a bead did."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from beads_ralph.agents.bead_outputs import BeadOutput, OutputReader, chosen, outputs
from beads_ralph.agents.transcript import as_text
from beads_ralph.bead.words import COLOUR, several
from beads_ralph.cli import executions, options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.commands import Option
from beads_ralph.cli.text import printable
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import journal, runs


def logs(
    bead: options.BeadId,
    attempt: Annotated[int | None, Option("--attempt", min=1, help="Only this attempt.")] = None,
    role: Annotated[
        str | None, Option("--role", help="Only this role: dev, qa, …, or check for what no agent printed.")
    ] = None,
    tail: Annotated[int | None, Option("--tail", min=0, help="Only the last N lines.")] = None,
    follow: options.Follow = False,
    raw: Annotated[bool, Option("--raw", help="Every file as it was printed.")] = False,
    json_: options.Json = False,
) -> Answer:
    """Print what the agents and checks of a bead did, oldest first."""
    space = workspace.find()
    if next(_transcripts(space, bead), None) is None:
        bead = _known_as(bead)
    wanted = _Wanted(space, bead, attempt, role)
    files, found = list(_transcripts(space, bead)), wanted.outputs()
    if not found and not (follow and executions.is_anything_running(space)):
        raise _nothing_run(bead, wanted, files)
    data = {"bead": bead, "files": [str(path) for path in files], "outputs": [_row(one) for one in found]}
    if raw:
        return Answer(data, lambda _: _follow_raw(space, bead) if follow else _print_all(files))
    if follow:
        return Answer(data, lambda _: _follow(wanted, tail))
    return Answer(data, lambda _: _print_tail(_rendered(found), tail))


def _known_as(bead: str) -> str:
    """Its id in full. Beads of `exec` are in no store, and need none."""
    from beads_ralph.cli import bead_names

    try:
        return bead_names.resolved(bead)
    except RalphError as problem:
        if problem.code is Code.BEAD_NOT_FOUND:
            raise
        return bead


@dataclass(frozen=True)
class _Wanted:
    """The outputs that somebody asks for."""

    space: Workspace
    bead: str
    attempt: int | None
    role: str | None

    def outputs(self) -> list[BeadOutput]:
        homes = (self.space.home, *executions.homes(self.space))
        found = [one for home in homes for run in runs.folders(home) for one in outputs(run, self.bead)]
        return chosen(found, self.attempt, self.role)


def _nothing_run(bead: str, wanted: _Wanted, files: Sequence[Path]) -> RalphError:
    if not files:
        action = "See the beads with: beads-ralph list, and start them with: beads-ralph run, or exec"
        return RalphError(Code.FILE_NOT_FOUND, f"nothing was run for {bead} yet", suggested_action=action)
    there = {(one.attempt, one.role) for one in replace(wanted, attempt=None, role=None).outputs()}
    known = several([f"attempt {attempt} {role}" for attempt, role in sorted(there)])
    message = f"{bead} has no such output; there is {known}"
    return RalphError(Code.FILE_NOT_FOUND, message, suggested_action="Leave --attempt and --role out")


def _row(output: BeadOutput) -> dict[str, Any]:
    facts = {
        name: getattr(output, name) for name in ("run_id", "name", "attempt", "role", "program", "model")
    }
    return {**facts, "out": str(output.out), "err": str(output.err)}


# --- for people ---------------------------------------------------------------------------------------


def _heading(output: BeadOutput) -> str:
    who = " ".join(filter(None, (output.program, output.model)))
    return f"--- attempt {output.attempt}  {output.role}  {who or output.name}  (run {output.run_id})"


def _rendered(found: Iterable[BeadOutput]) -> Iterator[str]:
    """Each output below its heading; nothing of one that is empty."""
    for output in found:
        said = (as_text(line) for line in output.reader().end())
        if (first := next(said, None)) is not None:
            yield from (_heading(output), first, *said)


def _print_tail(texts: Iterable[str], tail: int | None) -> None:
    lines: Iterable[str] = (line for text in texts for line in text.split("\n"))
    for line in lines if tail is None else deque(lines, maxlen=tail):
        out(line)


def _follow(wanted: _Wanted, tail: int | None) -> None:
    """What is there, then what comes, until nothing runs any more or somebody has seen enough."""
    with suppress(KeyboardInterrupt):
        readers: dict[Path, OutputReader] = {}
        shown: list[Path] = []
        _print_tail(_news(wanted, readers, shown, over=False), tail)
        while True:
            sys.stdout.flush()
            over = not executions.is_anything_running(wanted.space)
            _print_tail(_news(wanted, readers, shown, over=over), None)
            if over:
                return
            time.sleep(journal.POLL_SECONDS)


def _news(
    wanted: _Wanted, readers: dict[Path, OutputReader], shown: list[Path], *, over: bool
) -> Iterator[str]:
    for output in wanted.outputs():
        reader = readers.setdefault(output.out, output.reader())
        for line in reader.end() if over else reader.more():
            if shown[-1:] != [output.out]:
                shown.append(output.out)
                yield _heading(output)
            yield as_text(line)


# --- as it was printed --------------------------------------------------------------------------------


def _transcripts(space: Workspace, bead: str) -> Iterator[Path]:
    folders = [home / runs.RUNS for home in (space.home, *executions.homes(space))]
    there = [folder for folder in folders if folder.is_dir() and "/" not in bead]
    found = [path for folder in there for path in folder.glob(f"*/jobs/{bead}/*")]
    yield from sorted((path for path in found if path.stat().st_size), key=lambda path: path.stat().st_mtime)


def _print_all(files: Sequence[Path]) -> None:
    for path in files:
        out(f"--- {path.parent.parent.parent.name} {path.name}")
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                _put(text)


def _put(text: str) -> None:
    """As it was printed; a terminal gets it without colours, and obeys nothing of it."""
    plain = COLOUR.sub("", text).replace("\r\n", "\n") if sys.stdout.isatty() else text
    sys.stdout.write(printable(plain))


def _follow_raw(space: Workspace, bead: str) -> None:
    """New output as it comes, until the run is over."""
    seen: dict[Path, int] = {}
    with suppress(KeyboardInterrupt):
        while True:
            over = not executions.is_anything_running(space)
            for path in _transcripts(space, bead):
                if path not in seen:
                    out(f"--- {path.name}")
                with path.open("rb") as file:
                    file.seek(seen.get(path, 0))
                    more = file.read()
                seen[path] = seen.get(path, 0) + len(more)
                _put(more.decode("utf-8", "replace"))
            sys.stdout.flush()
            if over:
                return
            time.sleep(journal.POLL_SECONDS)
