"""Shared by the adapters of real agent CLIs: JSON events, line by line, and the answer in a final text."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.agents import reply_reader
from beads_ralph.bead.model import MODELS
from beads_ralph.bead.words import utc_text

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.bead.agent_call import Trouble
    from beads_ralph.process.jobs import Exit

Event = Mapping[str, Any]
MAX_DETAIL: Final = 1000
MAX_WORDS: Final = 2 * reply_reader.MAX_BLOCK
BLOCK: Final = 64 * 1024


def events(lines: Iterable[str]) -> Iterator[Event]:
    """Every line that is a JSON object. CLIs print banners and warnings among them, and a line that was
    cut in the middle is what a killed one leaves."""
    for line in lines:
        if line.lstrip().startswith("{"):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def part(event: Event, *names: str) -> Event:
    """An object inside an event, by the names that lead to it; empty where there is none."""
    found: Any = event
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def count(event: Event, name: str) -> int | None:
    """A number of tokens; True is a number to Python, and no CLI counts below nothing."""
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def amount(event: Event, name: str) -> float | None:
    value = event.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < float("inf") else None


@dataclass
class Words:
    """An agent's words, piece by piece: the last of it, as much as an answer can be long.

    Pieces can be single letters, each of which costs Python as much as a line, so they are put together.
    """

    blocks: deque[str] = field(default_factory=deque)
    size: int = 0
    """Of the blocks."""
    fresh: list[str] = field(default_factory=list)
    fresh_size: int = 0

    def add(self, piece: str) -> None:
        if not piece:
            return
        self.fresh.append(piece[-MAX_WORDS:])
        self.fresh_size += len(self.fresh[-1])
        if self.fresh_size >= BLOCK:
            self._put_together()

    def _put_together(self) -> None:
        self.blocks.append("".join(self.fresh))
        self.size += self.fresh_size
        self.fresh, self.fresh_size = [], 0
        while self.size - len(self.blocks[0]) > MAX_WORDS:
            self.size -= len(self.blocks.popleft())

    def __str__(self) -> str:
        return "".join((*self.blocks, *self.fresh))


def answer(final_text: str) -> tuple[Mapping[str, Any] | None, str]:
    """The structured answer in an agent's last words, or what is wrong with it; neither where none is."""
    return reply_reader.answer_in(_lines(final_text))


def _lines(whole: str) -> Iterator[str]:
    """One at a time: as a list, short ones take several times the memory of their text."""
    start = 0
    while (end := whole.find("\n", start)) >= 0:
        yield whole[start:end]
        start = end + 1
    yield whole[start:]


def unfinished(ended: Exit) -> tuple[Trouble, str]:
    """What it means that a CLI's own last event is missing, and what it said: its exit code tells how it
    died, unless that is 0."""
    said = last_line(ended.stderr)
    if ended.code == 0:
        return "unfinished", said or "it ended without saying that it had finished"
    return "", said


def last_line(stderr: str) -> str:
    """Where a program that dies says why."""
    lines = stderr.rstrip().splitlines()
    return lines[-1].strip()[:MAX_DETAIL] if lines else ""


def of_status(status: int) -> Trouble:
    """The kind of trouble that a model server's HTTP status means."""
    if status == 429:  # noqa: PLR2004 - these numbers are names
        return "limit"
    if status in (401, 403):
        return "auth"
    return "server" if status in (408, 499) or status >= 500 else "refused"  # noqa: PLR2004


def given(options: Sequence[str] | None, *names: str) -> bool:
    """True where the user's options say something that we would say otherwise. A value may follow its name
    after `=`, and after a short name at once."""
    return any(
        word == name or word.startswith(f"{name}=") or (not name.startswith("--") and word.startswith(name))
        for word in options or ()
        for name in names
    )


def since_1970(seconds: float | None) -> str | None:
    """A time as we write times, never too early."""
    try:
        return None if seconds is None else utc_text(datetime.fromtimestamp(math.ceil(seconds), UTC))
    except (OverflowError, ValueError, OSError):
        return None


def own_model(task: AgentTask) -> str | None:
    """The model to ask another CLI than Claude Code for. Claude's own words mean nothing to it, and stand
    in a task only because nobody named another: the CLI's default is better than an error."""
    return None if task.model in MODELS else task.model


def instructed(task: AgentTask) -> str:
    """The prompt, for a CLI that takes no system prompt: who to be goes first."""
    return f"{task.persona.body}\n\n{task.prompt}" if task.persona and task.persona.body else task.prompt
