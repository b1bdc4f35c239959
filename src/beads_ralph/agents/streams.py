"""Shared by the adapters of real agent CLIs: our flags, their JSON events, and the answer in a final text."""

from __future__ import annotations

import json
import math
import os
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from beads_ralph.agents import environment, reply_reader
from beads_ralph.agents.protocol import AgentTask, ProgramWait, Reply
from beads_ralph.agents.transcript import Note, Said, TranscriptLine
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.personas import Persona, model_asked
from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import utc_text
from beads_ralph.process.jobs import Exit, Job, JobReport, Profile, Transcript

Event = Mapping[str, Any]
Problem = tuple[Trouble, str]
"""What kept a CLI from its work, and what it said."""
LONGEST_ARGUMENT: Final = 100_000  # the kernel's limit for one is 128 KiB
MAX_DETAIL: Final = 1000
MAX_WORDS: Final = 2 * reply_reader.MAX_BLOCK
BLOCK: Final = 64 * 1024
LONG_LINE: Final = re.compile(r" … \[cut off: a line of ([\d.]+ MB)\]\Z")
"""How the beginning of a line ends that is too long to be read."""


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


def objects(event: Event, name: str) -> Iterator[Event]:
    """The objects of a list inside an event."""
    found = event.get(name)
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield one


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


def tokens(counts: Event, given: str, answered: str, *cached: str, within: bool = True) -> Usage:
    """A count of tokens, by the CLI's names; most have the cached ones `within` those of the input."""
    known = [number for name in cached if (number := count(counts, name)) is not None]
    fresh = count(counts, given)
    return Usage(
        input_tokens=max(fresh - sum(known), 0) if within and fresh is not None else fresh,
        output_tokens=count(counts, answered),
        cache_tokens=sum(known) if known else None,
    )


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


@dataclass
class Seen(ABC):
    """The state after the events so far; each CLI has its own class, which says what they mean."""

    session: str | None = None
    words: Words = field(default_factory=Words)
    """Those of the last message that has any."""
    message: object = None
    """Which one that is."""
    usage: Usage = field(default_factory=Usage)
    session_usage: Usage = field(default_factory=Usage)
    denied: list[str] = field(default_factory=list)
    reset: str | None = None
    """When a limit is over, where an event says it."""
    waiting: ProgramWait | None = None
    """What it waits for, if that was the last that it told."""
    model: str = ""
    """The model that answers, where it has told."""

    @property
    def so_far(self) -> Usage:
        """What this call has used, as far as it has told."""
        return self.usage

    @abstractmethod
    def take(self, event: Event) -> None:
        """Learn from the next event."""

    def printed(self, line: str) -> None:
        for event in events((line,)):
            self.take(event)

    def complained(self, line: str) -> None:  # noqa: B027 - most say all of it on stdout
        """Hear the next line of stderr, while it runs."""

    def waits(self, trouble: Trouble, said: str, seconds: float | None = None) -> None:
        """Note that it waits, once more if it waited already."""
        tries = self.waiting.tries + 1 if self.waiting else 1
        self.waiting = ProgramWait(trouble, said[:MAX_DETAIL], seconds, tries)

    @abstractmethod
    def trouble(self, ended: Exit) -> Problem:
        """What kept it from its work, now that it has ended; empty where nothing did."""

    def say(self, words: str, message: object = None) -> None:
        """Hear the next words of a message; one that is not named comes whole."""
        if message is None or message != self.message:
            self.words = Words()
        self.message = message
        self.words.add(words)

    def answer(self) -> tuple[Mapping[str, Any] | None, str]:
        """The structured answer in the last words, or what is wrong with it; neither where none is."""
        return reply_reader.answer_in(_lines(str(self.words)))

    def can_go_on(self) -> bool:
        """Tell whether the session can be resumed."""
        return True

    def reset_at(self, said: str) -> str | None:
        """When the limit is over of which it said this."""
        return self.reset

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        """The whole reply of a CLI that has ended."""
        for event in events(lines):
            self.take(event)
        if ended.limit and self.waiting is not None:
            trouble, detail = self.waiting.trouble, self.waiting.said
        else:
            trouble, detail = self.trouble(ended)
        result, complaint = (None, "") if trouble else self.answer()
        return Reply(
            session_id=self.session if self.can_go_on() and trouble != "forgotten" else None,
            text=str(self.words),
            result=result,
            usage=self.so_far,
            session_usage=self.session_usage,
            denied=tuple(dict.fromkeys(self.denied)),
            trouble=trouble or ("unreadable" if complaint else ""),
            detail=(detail or complaint)[:MAX_DETAIL],
            limit_reset_at=self.reset_at(detail) if trouble == "limit" else None,
            no_session=not self.can_go_on(),
            model=self.model,
        )


class StreamCLI:
    """What the adapters of CLIs that print events have in common."""

    name: ClassVar[str]
    profile: ClassVar[Profile]
    quiet: ClassVar[Mapping[str, str]] = {}
    """Variables of its own, which the user's go before."""
    seen: ClassVar[type[Seen]]

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        self.inherited = inherited

    def passes(self, task: AgentTask) -> str:
        """What it may inherit besides."""
        return self.profile.passes

    def env(self, task: AgentTask, transcript: Transcript) -> dict[str, str]:
        return {**self.quiet, **environment.of_task(task, transcript, self.inherited, self.passes(task))}

    def job(
        self,
        task: AgentTask,
        transcript: Transcript,
        arguments: Iterable[str],
        stdin: str,
        env: Mapping[str, str] | None = None,
        files: Mapping[Path, str] | None = None,
        report: JobReport | None = None,
    ) -> Job:
        """The process that is given the prompt on stdin."""
        argv = (task.spec.executable or self.name, *arguments)
        env = env or self.env(task, transcript)
        return environment.job_of(task, transcript, argv, env, stdin, files, report)

    def listener(self) -> Seen:
        return self.seen()

    def shown(self, line: str) -> Iterator[TranscriptLine]:
        """A line of its output for people; one that is no event is a word of the program itself."""
        event = next(events((line,)), None)
        if event is not None:
            yield from self.told(event)
        elif line.lstrip().startswith("{"):
            yield Note(f"not shown: {_why_unread(line)}")
        else:
            yield Note(line)

    def shown_complaint(self, line: str) -> Iterator[TranscriptLine]:
        yield Note(line)

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        """What an event tells people: by the names that are usual, where the adapter knows no better."""
        yield Said(text(event, "text") or text(event, "content") or text(event, "message"))

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        return self.listener().reply(ended, lines)


def _why_unread(line: str) -> str:
    long = LONG_LINE.search(line)
    return f"a line of {long[1]}" if long else "a line that ends in the middle"


def _lines(whole: str) -> Iterator[str]:
    """One at a time: as a list, short ones take several times the memory of their text."""
    start = 0
    while (end := whole.find("\n", start)) >= 0:
        yield whole[start:end]
        start = end + 1
    yield whole[start:]


def unfinished(ended: Exit) -> Problem:
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


TOO_LONG: Final = re.compile(
    r"(prompt|input|request|context|conversation)[^.]{0,40} (is )?too (long|large)"
    r"|context[ _]length[ _]exceeded|maximum (context|number of tokens)"
    r"|exceeds? the (model's )?(effective )?(context|maximum)|context window"
    r"|input token count[^.]{0,40}exceeds",
    re.IGNORECASE,
)
NO_CREDIT: Final = re.compile(
    r"credit balance is too low|exceeded your current quota|insufficient[ _](credits?|funds|balance)"
    r"|billing (hard )?limit|payment required|out of credits",
    re.IGNORECASE,
)
NO_MODEL: Final = re.compile(
    r"model_not_found|\bmodels?\b[^.]{0,80} (is not|not|isn't) (found|supported|available)"
    r"|\bmodels?\b[^.]{0,80} does(n't| not) exist|\bunknown model\b|\bno such model\b",
    re.IGNORECASE,
)
STATUSES: Final[Mapping[int, Trouble]] = {
    **dict.fromkeys((401, 403), "auth"),
    402: "credit",
    404: "configuration",
    **dict.fromkeys((408, 499), "server"),
    413: "too_long",
    429: "limit",
}
SERVER_ERRORS: Final = 500


def of_status(status: int, said: str = "") -> Trouble:
    """The kind of trouble that a model server's HTTP status means, with what it said. Vendors differ in the
    status for a used-up account, a prompt that is too long and a model that is not there."""
    if status < SERVER_ERRORS and NO_CREDIT.search(said):
        return "credit"
    if status in (400, 413, 422) and TOO_LONG.search(said):
        return "too_long"
    if status in (400, 403, 404, 422) and NO_MODEL.search(said):
        return "configuration"
    return STATUSES.get(status) or ("server" if status >= SERVER_ERRORS else "refused")


def given(options: Sequence[str] | None, *names: str) -> bool:
    """True where the user's options say something that we would say otherwise. A value may follow its name
    after `=`, and after a short name at once."""
    return any(
        word == name or word.startswith(f"{name}=") or (not name.startswith("--") and word.startswith(name))
        for word in options or ()
        for name in names
    )


def flags(task: AgentTask, wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Our flags, each with the names of options by which the user decides it otherwise: its own, where none
    are given."""
    return [
        flag
        for flag, names in wanted.items()
        if flag and not given(task.spec.options, *(names or [flag.partition("=")[0]]))
    ]


def since_1970(seconds: float | None) -> str | None:
    """A time as we write times, never too early."""
    try:
        return None if seconds is None else utc_text(datetime.fromtimestamp(math.ceil(seconds), UTC))
    except (OverflowError, ValueError, OSError):
        return None


def own_model(task: AgentTask) -> str | None:
    """The model to ask another CLI than Claude Code for. Claude's own words mean nothing to it, and stand
    in a task only because nobody named another: the CLI's default is better than an error."""
    return model_asked("", task.model) or None


def model_flag(task: AgentTask) -> str:
    model = own_model(task)
    return f"--model={model}" if model else ""


def instructed(task: AgentTask) -> str:
    """The prompt, for a CLI that takes no system prompt: who to be goes first."""
    return f"{task.body}\n\n{task.prompt}" if task.body else task.prompt


def agent_name(persona: Persona) -> str:
    """The persona's name as CLIs take names."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", persona.name).strip("-") or "agent"
