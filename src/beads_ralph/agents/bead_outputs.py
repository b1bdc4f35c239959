"""What was run for a bead: each call of an agent and each check, with the files that hold its output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.agents.following import LiveLines
from beads_ralph.agents.protocol import ShownCLI, select
from beads_ralph.agents.transcript import LineJoiner, TranscriptLine
from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.journal import journal
from beads_ralph.journal.events import AgentStarted
from beads_ralph.journal.runs import RunFolder

ATTEMPT: Final = re.compile(r"a(\d+)-(.+?)(?:-\d+)?\Z")
CHECK: Final = "check"
"""The role of what is no agent's."""


@dataclass(frozen=True)
class BeadOutput:
    """What one call of an agent, or one check, has printed."""

    run_id: str
    bead: str
    name: str
    """`a1-dev`: the file's, without its ending."""
    out: Path
    attempt: int
    role: str
    """`dev`, `qa`, …, or `check`."""
    program: str = ""
    """Empty for a check."""
    model: str = ""

    @property
    def err(self) -> Path:
        return self.out.with_suffix(".err")

    def reader(self, tail: int | None = None) -> OutputReader:
        """Read it from its beginning, or from `tail` bytes before its end as it is now."""
        return OutputReader(self.out, self.err, self.program, tail)


class OutputReader:
    """Reads what was printed so far, and then what is added."""

    def __init__(self, out: Path, err: Path, program: str = "", tail: int | None = None) -> None:
        own, plain = select(program or "command"), select("command")
        self._cli = next(cli for cli in (own, plain) if isinstance(cli, ShownCLI))
        self._out, self._err = LiveLines(out, _start(out, tail)), LiveLines(err, _start(err, tail))
        self._joiner = LineJoiner()
        self._skip_first = _start(out, tail) > 0

    def more(self) -> Iterator[TranscriptLine]:
        """What was added since the last look: stdout first, then stderr."""
        yield from self._read(self._out.all(), self._err.all())

    def end(self) -> Iterator[TranscriptLine]:
        """What is left when nobody writes any more."""
        yield from self.more()
        yield from self._read(self._out.rest(), self._err.rest())
        yield from self._joiner.end()

    def _read(self, out: Iterator[str], err: Iterator[str]) -> Iterator[TranscriptLine]:
        for line in out:
            if self._skip_first:  # it began in the middle
                self._skip_first = False
                continue
            yield from self._joiner.take(self._cli.shown(line))
        for line in err:
            yield from self._joiner.take(self._cli.shown_complaint(line))


def _start(path: Path, tail: int | None) -> int:
    if tail is None:
        return 0
    try:
        return max(path.stat().st_size - tail, 0)
    except OSError:
        return 0


def outputs(folder: RunFolder, bead: str) -> list[BeadOutput]:
    """Those of one run, oldest first; nothing where nothing was run."""
    place = folder.path / "jobs" / bead
    if "/" in bead or not place.is_dir():
        return []
    calls = {Path(call.transcript).name: call for call in calls_of(folder, bead) if call.transcript}
    files = sorted(place.glob("*.out"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return [_output(folder.run_id, bead, path, calls.get(path.name)) for path in files]


def calls_of(folder: RunFolder, bead: str) -> Iterator[AgentCall]:
    """The calls that were begun, as the journal has them."""
    wanted = f'"{bead}"'.encode()
    try:
        with folder.journal.open("rb") as file:
            for line in file:
                if b'"agent_started"' not in line or wanted not in line:
                    continue
                event = journal.parsed(line.decode("utf-8", "replace"))
                if isinstance(event, AgentStarted) and event.bead == bead:
                    yield event.call
    except OSError:
        return


def _output(run_id: str, bead: str, out: Path, call: AgentCall | None) -> BeadOutput:
    if call is not None:
        facts = (call.attempt, call.role, call.program, call.model)
        return BeadOutput(run_id, bead, out.stem, out, *facts)
    named = ATTEMPT.match(out.stem)
    return BeadOutput(run_id, bead, out.stem, out, int(named[1]) if named else 0, CHECK)


def chosen(
    found: Sequence[BeadOutput], attempt: int | None = None, role: str | None = None
) -> list[BeadOutput]:
    """Those of this attempt and this role; all where neither is said."""
    return [one for one in found if attempt in (None, one.attempt) and role in (None, one.role)]
