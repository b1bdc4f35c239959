"""What every wire format is read into and written from: a question to the model, and its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Json = dict[str, Any]
# What CLIs add to a conversation on their own: reminders, the environment, the folder's instructions.
ADDED = re.compile(
    r"<(?P<tag>system-reminder|environment_context|session_context|user_instructions|INSTRUCTIONS|info-msg"
    r"|current_datetime|reminder|sqlite_tables|skills_instructions)\b[^>]*>.*?</(?P=tag)>",
    re.DOTALL,
)


@dataclass(frozen=True)
class Tool:
    """One offered tool. `code` is a tool that takes a program instead of fields."""

    name: str
    schema: Json
    code: bool = False
    namespace: str = ""


@dataclass(frozen=True)
class Item:
    """One thing in a conversation, in order."""

    kind: Literal["user", "assistant", "call", "result"]
    text: str = ""

    @property
    def is_said(self) -> bool:
        """A user turn that says more than what the CLI adds by itself."""
        return self.kind == "user" and bool(ADDED.sub("", self.text).strip())


@dataclass(frozen=True)
class Question:
    """One request for a completion, whatever format it came in."""

    model: str
    system: str
    items: tuple[Item, ...]
    tools: tuple[Tool, ...] = ()
    schema: Json | None = None
    """What the answer must look like, when the request says so."""
    streams: bool = False

    @property
    def results(self) -> int:
        """The tool results in the whole history: what the usage figures are computed from."""
        return sum(item.kind == "result" for item in self.items)

    @property
    def said(self) -> str:
        """Everything in the user turns."""
        return "\n".join(item.text for item in self.items if item.kind == "user")

    @property
    def turn(self) -> tuple[Item, ...]:
        """From the last thing that the user said on; a CLI may put its own additions after it."""
        said = [at for at, item in enumerate(self.items) if item.is_said]
        start = said[-1] if said else 0
        while start > 0 and self.items[start - 1].kind == "user":
            start -= 1
        return self.items[start:]

    @property
    def asked(self) -> str:
        """What the user says in this turn."""
        return "\n".join(item.text for item in self.turn if item.kind == "user")

    @property
    def done(self) -> tuple[str, ...]:
        """The tool results of this turn."""
        return tuple(item.text for item in self.turn if item.kind == "result")

    def tool(self, *names: str) -> Tool | None:
        """The first of the names that is offered."""
        offered = {tool.name: tool for tool in reversed(self.tools)}
        return next((offered[name] for name in names if name in offered), None)


@dataclass(frozen=True)
class Say:
    """A text, which ends the turn."""

    text: str


@dataclass(frozen=True)
class Call:
    """A tool call. The arguments are a program for a tool that takes one."""

    tool: Tool
    arguments: Json | str


Answer = Say | Call


@dataclass(frozen=True)
class Usage:
    """Fixed figures, so that a test can compute the sums: n is the number of tool results so far."""

    n: int
    fresh: int = field(init=False)
    output: int = field(init=False)
    cached: int = 300
    written: int = 50
    """Into the cache; only Anthropic tells it."""
    reasoning: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "fresh", 1000 + 100 * self.n)
        object.__setattr__(self, "output", 20 + self.n)

    @property
    def prompt(self) -> int:
        """The input as OpenAI and Google count it: with the cached part."""
        return self.fresh + self.cached


@dataclass(frozen=True)
class Refusal:
    """An error status, and when it is worth trying again."""

    status: int
    after: int = 1
    """Seconds until the limit is over."""
    exhausted: bool = False
    """The quota is used up: vendors tell this apart from too many requests at once."""
    kind: Literal["", "too_long", "credit"] = ""
    """What vendors say in their own words, with a status that means other things, too."""


class Wire(Protocol):
    """One wire format."""

    @property
    def name(self) -> str: ...

    def read(self, path: str, body: Json) -> Question: ...

    def whole(self, question: Question, answer: Answer, usage: Usage) -> Json: ...

    def events(self, question: Question, answer: Answer, usage: Usage) -> Iterator[bytes]:
        """The pieces of a streamed answer, each as it goes over the wire."""
        ...

    def refuse(self, refusal: Refusal, now: float) -> tuple[Json, dict[str, str]]:
        """The body and the headers of an error."""
        ...


def text_of(content: object) -> str:
    """The text of a message's content, whichever of the usual shapes it has."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return next((text_of(content[key]) for key in ("text", "content", "output") if key in content), "")
    return ""


def pieces(text: str, size: int = 4096) -> Iterator[str]:
    """The text as a stream brings it; at least one piece."""
    for start in range(0, max(len(text), 1), size):
        yield text[start : start + size]
