"""What an agent did, line by line, for people: its words, tools, commands with their results, cost.

Each adapter turns an event of its own program into these lines; `LineJoiner` puts them together as they come.
The text of a line is the agent's: it is bounded, and nothing in it moves the cursor of a terminal. A page
must still escape it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import COLOUR, visible

LONGEST_TEXT: Final = 40_000
"""The most characters of one line; the middle of a longer text is left out."""
LONGEST_CAPTION: Final = 300
SHOWN_LINES: Final = 12
"""So many lines of a command's output are shown."""
SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
MARKS: Final = {"thought": "~", "command": "$", "note": "·", "trouble": "!"}
WORTH_NAMING: Final = (
    *("file_path", "path", "notebook_path", "absolute_path", "filePath", "file", "dir_path"),
    *("pattern", "query", "url", "skill", "subagent_type", "description", "prompt", "title", "name"),
)
"""Arguments of tools that say what a call is about, the best first."""


@dataclass(frozen=True)
class Said:
    """Words of the agent."""

    kind: ClassVar = "said"
    text: str
    message: str = ""
    """Pieces with the same id belong together; a message without one comes whole."""


@dataclass(frozen=True)
class Thought:
    """Words that the agent kept to itself."""

    kind: ClassVar = "thought"
    text: str
    message: str = ""


@dataclass(frozen=True)
class ToolUse:
    """A tool that was called: `→ Edit src/app.py`."""

    kind: ClassVar = "tool"
    tool: str
    about: str = ""
    call: str = ""
    """The id by which its result names it."""


@dataclass(frozen=True)
class ShellCommand:
    """A command that was started: `$ make test`."""

    kind: ClassVar = "command"
    command: str
    call: str = ""


@dataclass(frozen=True)
class ToolResult:
    """The end of a tool or a command."""

    kind: ClassVar = "result"
    output: str
    call: str = ""
    exit_code: int | None = None
    """None where the program does not say."""
    failed: bool = False
    of: str = ""
    """Whose result it is, where that is not the last call before it."""


@dataclass(frozen=True)
class Note:
    """A word of the program itself, such as an error of the model's server."""

    kind: ClassVar = "note"
    text: str
    trouble: bool = False


@dataclass(frozen=True)
class Cost:
    """Tokens and money, as the program counts them."""

    kind: ClassVar = "cost"
    usage: Usage
    of_session: bool = False
    """Counted since the session began, which may be several calls ago."""


TranscriptLine: TypeAlias = Said | Thought | ToolUse | ShellCommand | ToolResult | Note | Cost


# --- for adapters -------------------------------------------------------------------------------------


def tool_call(tool: str, arguments: Any, call: str = "") -> ToolUse | ShellCommand:
    """The line of a call, by the arguments that the program gave to the tool."""
    given = arguments if isinstance(arguments, Mapping) else {}
    if (command := _command_of(given)) is not None:
        return ShellCommand(command, call)
    about = next((given[name] for name in WORTH_NAMING if isinstance(given.get(name), str)), "")
    return ToolUse(tool or "a tool", " ".join(about.split())[:LONGEST_CAPTION], call)


def _command_of(given: Mapping[str, Any]) -> str | None:
    for name in ("command", "cmd"):
        value = given.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return unwrapped(shlex.join(value))
    return None


def unwrapped(command: str) -> str:
    """The command that a shell is started for: `make test` of `/bin/bash -lc 'make test'`."""
    if command.partition(" ")[0].rpartition("/")[2] not in SHELLS:
        return command
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else command  # noqa: PLR2004


def text_in(content: Any) -> str:
    """The text of a result: itself, or that of the parts it consists of."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


# --- as it comes --------------------------------------------------------------------------------------


class LineJoiner:
    """Puts the lines of one call together: pieces of a message are joined, results find their call."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._last = ""
        self._noted: TranscriptLine | None = None
        self._open: Said | Thought | None = None

    def take(self, lines: Iterable[TranscriptLine]) -> Iterator[TranscriptLine]:
        """Take what an adapter made of the next line; gives what is whole by now."""
        for line in lines:
            if isinstance(line, Said | Thought) and line.message:
                yield from self._join(line)
            else:
                yield from self.end()
                yield from self._whole(line)

    def end(self) -> Iterator[TranscriptLine]:
        """The rest of a message of which no more pieces come."""
        if self._open is not None and self._open.text.strip():
            yield _safe(self._open)
        self._open = None

    def _join(self, piece: Said | Thought) -> Iterator[TranscriptLine]:
        """Whole lines of a message go out at once; what follows the last line end waits for its own."""
        before = self._open
        if before is not None and (type(before), before.message) != (type(piece), piece.message):
            yield from self.end()
            before = None
        text = f"{before.text}{piece.text}" if before else piece.text
        done, line_end, rest = text.rpartition("\n")
        if len(rest) > LONGEST_TEXT:
            done, line_end, rest = text, "\n", ""
        if line_end and done.strip():
            yield _safe(replace(piece, text=done))
        self._open = replace(piece, text=rest)

    def _whole(self, line: TranscriptLine) -> Iterator[TranscriptLine]:
        if isinstance(line, ToolUse | ShellCommand):
            if line.call and line.call in self._calls:
                return  # programs tell of a call when it is asked for and again when it starts
            self._last = line.call
            self._calls[line.call] = as_text(_safe(line)).partition("\n")[0]
        elif isinstance(line, ToolResult):
            caption = self._calls.get(line.call, "")
            line = replace(line, of="" if line.call == self._last else caption)
        elif isinstance(line, Said | Thought | Note) and not line.text.strip():
            return
        if line != self._noted:  # programs repeat what they complain of
            yield _safe(line)
        self._noted = line if isinstance(line, Note) else None


def _safe(line: TranscriptLine) -> TranscriptLine:
    """The line with its texts bounded, and made visible where a terminal would obey them."""
    changes: dict[str, Any] = {
        name: tidy(value) for name, value in vars(line).items() if isinstance(value, str)
    }
    return replace(line, **changes) if changes != vars(line) else line


def tidy(text: str) -> str:
    """A text of a stranger as one may show it: of a line that was overwritten the last state, no colours,
    nothing that a terminal would obey, and not too much of it."""
    text = bounded(text)
    if text.isprintable():
        return text
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in COLOUR.sub("", text).split("\n"))
    return visible("\n".join(shown)).strip("\n")


def bounded(text: str, most: int = LONGEST_TEXT) -> str:
    """The text, or its beginning and its end with a word on how much is left out."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 4], text[-(most - most // 4) :]
    return f"{head}\n… {len(text) - most:,} characters left out …\n{tail}"


# --- for readers --------------------------------------------------------------------------------------


def as_text(line: TranscriptLine, output_lines: int = SHOWN_LINES) -> str:
    """The line as a terminal shows it; of a long output its beginning and its end."""
    match line:
        case Said(text):
            return text.strip("\n")
        case Thought(text) | Note(text) | ShellCommand(text):
            mark = MARKS["trouble" if isinstance(line, Note) and line.trouble else line.kind]
            return f"{mark} {text.strip()}".replace("\n", "\n  ")
        case ToolUse(tool, about):
            return f"→ {tool} {about}".rstrip()
        case ToolResult():
            return _result(line, output_lines)
        case Cost(usage):
            return f"Σ {cost_words(usage)}{' since the session began' if line.of_session else ''}"


def _result(result: ToolResult, most: int) -> str:
    lines = result.output.strip("\n").split("\n") if result.output.strip() else []
    if len(lines) > most:
        head, tail = most // 3, most - most // 3
        lines = [*lines[:head], f"… {len(lines) - most:,} more lines", *lines[-tail:]]
    of = [f"of {result.of}"] if result.of else []
    code = result.exit_code
    failed = result.failed or code not in (0, None)
    end = [f"✗ exit {code}" if code is not None else "✗ failed"] if failed else [] if lines else ["✓"]
    return "\n".join(f"  {line}".rstrip() for line in (*of, *lines, *end))


def cost_words(usage: Usage) -> str:
    """`2,100 in · 41 out · 600 cached · $0.0049`: as much as is known."""
    counts = {"in": usage.input_tokens, "out": usage.output_tokens, "cached": usage.cache_tokens}
    said = [f"{count:,} {name}" for name, count in counts.items() if count is not None]
    money = [] if usage.cost_usd is None else [f"${usage.cost_usd:.4f}"]
    return " · ".join((*said, *money)) or "not told"


def to_json(line: TranscriptLine) -> dict[str, Any]:
    """The line for a script or a page: its kind, and its fields."""
    return {"kind": line.kind, **asdict(line)}


def last_text(lines: Sequence[TranscriptLine]) -> str:
    """The last thing that the agent did, on one line; empty where it did nothing yet."""
    done = (line for line in reversed(lines) if not isinstance(line, ToolResult | Cost))
    return next((" ".join(as_text(line).split())[:LONGEST_CAPTION] for line in done), "")
