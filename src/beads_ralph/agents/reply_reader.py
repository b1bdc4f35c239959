"""The answer of a program without an adapter of its own: a JSON block on stdout, notices on stderr.

The result of a QA or scrum-master agent is the last fenced block marked `json` on stdout, or all of
stdout where that is one JSON object. Two verdicts in one answer are none: one of them may be a quotation.

    ```json
    {"status": "pass", "message": "12 tests, all green"}
    ```

Tildes do for backticks, and text may stand before the opening fence on its line. A block that is never
closed is the answer of a program that was cut off, so there is no result then, whatever came before it.
A block must be one object of at most 1 MiB; a key given twice, NaN and Infinity make it unreadable.

Notices are whole lines on stderr, which is where the program speaks and not the text it read. Of several
of a kind the last one counts. They must be among the last lines, of which the executor keeps the tail.

    BEADS_RALPH_LIMIT {"reset_at": "2026-03-01T14:30:00Z"}   gave up at a rate limit; null: nobody knows
    BEADS_RALPH_USAGE {"input_tokens": 1, "output_tokens": 2, "cache_tokens": 3, "cost_usd": 0.04}
                                                             with "of_session": true, since it began
    BEADS_RALPH_SESSION some-id                              what to go on with next time
    BEADS_RALPH_TROUBLE {"kind": "server", "detail": "502"}  or one of TROUBLES: see `Trouble`
    BEADS_RALPH_DENIED {"tools": ["Bash"]}                   what it was not allowed to use

A limit goes before any other trouble, and that before an answer which cannot be read. A notice that
cannot be read is passed over and named in the reply's detail.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from beads_ralph.agents.protocol import AgentCLI, ProgramWait, Reply
from beads_ralph.agents.transcript import Cost, Note, TranscriptLine
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.bead.words import utc_text
from beads_ralph.process.jobs import Exit, Job, Profile

MAX_BLOCK: Final = 1024 * 1024
LONGEST_LINE: Final = 16 * 1024 * 1024
MAX_TEXT: Final = 64 * 1024
MAX_NOTES: Final = 3
MAX_DETAIL: Final = 500
MAX_DENIED: Final = 20
TROUBLES: Final[tuple[Trouble, ...]] = (
    *("server", "auth", "credit", "configuration", "refused", "too_long", "stalled", "forgotten"),
)
"""Troubles that a program may report besides a limit."""
ALMOST_A_SECOND: Final = timedelta(microseconds=999_999)
FENCE: Final = re.compile(r"`{3,}|~{3,}")
OPENING: Final = re.compile(r"\s*(`{3,}|~{3,})[^`]*")
JSON_INFO: Final = re.compile(r"\s*json(?:\s+(?P<more>.*)|(?P<touching>\{.*))?\s*", re.DOTALL | re.IGNORECASE)
NOTICE: Final = re.compile(r"BEADS_RALPH_(LIMIT|USAGE|SESSION|TROUBLE|DENIED)\s+(.*\S)\s*")
SESSION_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")  # may become an argument: no dash first


def read(ended: Exit, lines: Iterable[str]) -> Reply:
    """The reply of a program that follows the conventions above, in memory of a bounded size."""
    answer = _Answer.of(lines)
    result, complaint = answer.result()
    said, notes = _notices(ended.stderr)
    trouble = "limit" if "limit_reset_at" in said else said.get("trouble")
    said["trouble"] = trouble or ("unreadable" if complaint else "")
    said["detail"] = "; ".join(note for note in (said.get("detail"), complaint, *notes) if note)
    return Reply(text=answer.text.value, result=result, **said)


def answer_in(lines: Iterable[str]) -> tuple[Mapping[str, Any] | None, str]:
    """The structured answer in a text, or what is wrong with it; neither where none is given."""
    return _Answer.of(lines).result()


def lines_of(path: Path, longest: int = MAX_BLOCK + 1) -> Iterator[str]:
    """A transcript's lines, each without its end. Of a longer line only the beginning comes: no answer
    is that long, and a program may print for hours without a line end."""
    with path.open("rb") as source:
        while piece := source.readline(longest):
            start = piece
            while not piece.endswith(b"\n") and (piece := source.readline(longest)):
                pass
            yield start.rstrip(b"\r\n").decode("utf-8", "replace")


def output_of(job: Job, longest: int = MAX_BLOCK + 1) -> Iterator[str]:
    """All that an adapter reads of a job that has ended: what it printed, then its report. Nothing where it
    removed its own transcript, or left no report."""
    if job.transcript:
        with suppress(FileNotFoundError):
            yield from lines_of(job.transcript.out, longest)
    if job.report:
        with suppress(OSError):  # in a place that is the program's own
            wanted = re.compile(job.report.lines).match
            yield from (line for line in lines_of(job.report.path, longest) if wanted(line))


def heard(cli: AgentCLI, job: Job, ended: Exit) -> Reply:
    """The reply of a job that has ended."""
    return explained(cli.reply(ended, output_of(job, LONGEST_LINE)), cli.profile, job.env or {})


def explained(reply: Reply, profile: Profile, env: Mapping[str, str]) -> Reply:
    """Whoever is not let in is told what to do about it, once; but not to set a key that is set."""
    key = next((name for name in profile.keys if env.get(name)), None)
    advice = f"{key} is set, and was not accepted" if key else profile.sign_in
    if reply.trouble != "auth" or not advice or advice in reply.detail:
        return reply
    return replace(reply, detail=f"{advice}: {reply.detail}".removesuffix(": "))


# --- stdout -----------------------------------------------------------------------------------------


@dataclass
class _Kept:
    """Lines up to a size: beyond it nothing is kept but the fact."""

    lines: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, line: str) -> None:
        self.size += len(line) + 1
        if self.too_long:
            self.lines.clear()
        else:
            self.lines.append(line)

    @property
    def too_long(self) -> bool:
        return self.size > MAX_BLOCK

    @property
    def value(self) -> str:
        return "\n".join(self.lines)


@dataclass
class _Tail:
    """The last lines, as many as fit."""

    lines: deque[str] = field(default_factory=deque)
    size: int = 0

    def add(self, line: str) -> None:
        self.lines.append(line[-MAX_TEXT:])
        self.size += len(self.lines[-1]) + 1
        while self.size > MAX_TEXT + 1:
            self.size -= len(self.lines.popleft()) + 1

    @property
    def value(self) -> str:
        return "\n".join(self.lines).strip()


@dataclass
class _Fence:
    """An open fenced block; `kept` is None where it is not JSON."""

    mark: str
    kept: _Kept | None = None
    rest: str = ""
    """The beginning of its JSON, where that stands on the line that opens it."""
    after_text: bool = False
    """True if other text stands before it on its line."""

    def ends_at(self, line: str) -> bool:
        """No line of JSON ends in a fence, so for JSON the fence need not stand alone."""
        stripped = line.strip()
        if self.kept is not None:
            return stripped.endswith(self.mark)
        return stripped.startswith(self.mark) and not stripped.strip(self.mark[0])


@dataclass
class _Answer:
    """Takes stdout line by line and remembers the last JSON block."""

    text: _Tail = field(default_factory=_Tail)
    whole: _Kept = field(default_factory=_Kept)
    fence: _Fence | None = None
    last: _Kept | None = None
    verdicts: int = 0

    @classmethod
    def of(cls, lines: Iterable[str]) -> _Answer:
        answer = cls()
        for line in lines:
            answer.take(line.rstrip("\r\n"))
        return answer

    def take(self, line: str) -> None:
        self.text.add(line)
        self.whole.add(line)
        opened = _opening(line) if "```" in line or "~~~" in line else None
        if opened is not None and self._opens(opened):
            self.fence, line = opened, opened.rest
            if not line:
                return
        if self.fence is not None:
            self._go_on(self.fence, line)
        else:
            self.verdicts += _is_verdict(line)

    def _opens(self, opened: _Fence) -> bool:
        """Inside a block only a line that begins with `json` opens another: the first one was never
        closed then. A longer fence around it quotes it, though."""
        if self.fence is None:
            return True
        nested = opened.kept is not None and not opened.after_text
        return nested and opened.mark.startswith(self.fence.mark)

    def _go_on(self, fence: _Fence, line: str) -> None:
        ended = fence.ends_at(line)
        if fence.kept is not None:
            fence.kept.add(line.rstrip().rstrip(fence.mark[0]) if ended else line)
        if ended:
            self.fence = None
            self.last = fence.kept or self.last
            self.verdicts += fence.kept is not None and _is_verdict(fence.kept.value)

    def result(self) -> tuple[Mapping[str, Any] | None, str]:
        """The result, or what is wrong with it; neither where none was given."""
        whole = self.whole.value.strip()
        if whole.startswith("{") and whole.endswith("}") and (bare := parse(whole)[0]) is not None:
            return bare, ""
        if self.fence is not None and self.fence.kept is not None:
            return None, "unclosed JSON: the output ends inside its last JSON block"
        if self.last is None:
            return None, ""
        if self.last.too_long:
            return None, f"bad JSON: the last JSON block is larger than {MAX_BLOCK // 1024} KiB"
        if self.verdicts > 1 and _is_verdict(self.last.value):
            return None, f"bad JSON: {self.verdicts} verdicts in one answer, and only one may be there"
        return parse(self.last.value)


def _opening(line: str) -> _Fence | None:
    plain = OPENING.fullmatch(line)
    return _json_opening(line) or (_Fence(plain[1]) if plain else None)


def _json_opening(line: str) -> _Fence | None:
    """A fence and json: alone on the line, after other text, or with the object following at once."""
    for found in FENCE.finditer(line):
        info = JSON_INFO.fullmatch(line, found.end())
        if info is None:
            continue
        rest = (info["more"] or info["touching"] or "").strip()
        after_text = bool(line[: found.start()].strip())
        if not rest or rest.startswith("{"):
            return _Fence(found[0], _Kept(), rest, after_text)
        if not after_text:  # other words of an info string, such as a title
            return _Fence(found[0], _Kept())
    return None


def _is_verdict(text: str) -> bool:
    """One JSON object that rules, wherever it stands: quoted or meant."""
    if '"status"' not in text or not text.strip().startswith("{"):
        return False
    value, _ = parse(text)
    return value is not None and value.get("status") in ("pass", "fail", "stop")


def parse(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """One JSON object, or what is wrong with the text."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        # Written and read once more: halves of surrogate pairs and 1e999 would spoil the records.
        value = json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except RecursionError:
        return None, "bad JSON: nested too deeply"
    except ValueError as problem:
        return None, f"bad JSON: {problem}"
    if not isinstance(value, dict):
        return None, "bad JSON: not an object"
    return value, ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# --- stderr -----------------------------------------------------------------------------------------


def _notices(stderr: str) -> tuple[dict[str, Any], list[str]]:
    """What the notices say, as fields of a reply; and notes of those that cannot be read."""
    said: dict[str, Any] = {}
    unread: list[str] = []
    for line in map(str.rstrip, stderr.split("\n")):
        match = NOTICE.fullmatch(line)
        found = READERS[match[1]](match[2]) if match else {}
        if found is None:
            unread.append(f"unreadable notice: {line[:120]}")
        else:
            said |= found
    more = len(unread) - MAX_NOTES
    return said, [*unread[:MAX_NOTES], *([f"and {more} more"] if more > 0 else [])]


def _session(text: str) -> dict[str, Any] | None:
    return {"session_id": text} if SESSION_ID.fullmatch(text) else None


def _usage(text: str) -> dict[str, Any] | None:
    given = parse(text)[0]
    if given is None or not all(_is_amount(given.get(key)) for key in COUNTS):
        return None
    *tokens, cost = (given.get(key) for key in COUNTS)
    if any(isinstance(count, float) for count in tokens):
        return None
    whose = given.get("of_session", False)
    if not isinstance(whose, bool):
        return None
    told = Usage(*tokens) + Usage(cost_usd=None if cost is None else float(cost))
    return {"session_usage" if whose else "usage": told}


def _is_amount(value: Any) -> bool:
    """Nothing, or a number that one can spend; True is a number to Python."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)


def _limit(text: str) -> dict[str, Any] | None:
    """The time as we write times, never too early; one without a zone would be a guess."""
    given = parse(text)[0]
    if given is None or given.get("reset_at") is None:
        return None if given is None else {"limit_reset_at": None}
    try:
        moment = datetime.fromisoformat(given["reset_at"])
        return {"limit_reset_at": utc_text(moment + ALMOST_A_SECOND)} if moment.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def _trouble(text: str) -> dict[str, Any] | None:
    given = parse(text)[0] or {}
    kind, detail = given.get("kind"), given.get("detail", "")
    if kind not in TROUBLES or not isinstance(detail, str):
        return None
    return {"trouble": kind, "detail": detail[:MAX_DETAIL]}


def _denied(text: str) -> dict[str, Any] | None:
    tools = (parse(text)[0] or {}).get("tools")
    if not isinstance(tools, list) or not all(isinstance(tool, str) and tool for tool in tools):
        return None
    return {"denied": tuple(tool[:MAX_DETAIL] for tool in tools[:MAX_DENIED])}


class Notices:
    """Hears the notices of a program while it runs. One that has told of trouble and does not end waits."""

    def __init__(self) -> None:
        self.waiting: ProgramWait | None = None
        self.model = ""
        self.so_far = Usage()

    def printed(self, line: str) -> None:
        """Words on stdout are no notices, but a program that goes on does not wait."""
        self.waiting = None if line.strip() else self.waiting

    def complained(self, line: str) -> None:
        said, _ = _notices(line)
        tries = self.waiting.tries + 1 if self.waiting else 1
        self.so_far = said.get("usage", self.so_far)
        if "limit_reset_at" in said:
            seconds = _seconds_until(said["limit_reset_at"])
            self.waiting = ProgramWait("limit", "it waits for a limit to end", seconds, tries)
        elif "trouble" in said:
            self.waiting = ProgramWait(said["trouble"], said["detail"], None, tries)


def shown(stderr: str) -> Iterator[TranscriptLine]:
    """A line of stderr for people: a notice as what it means, anything else as it is."""
    said, _ = _notices(stderr)
    for name in ("usage", "session_usage"):
        if name in said:
            yield Cost(said[name], of_session=name == "session_usage")
    if "trouble" in said:
        yield Note(f"{said['trouble']}: {said['detail']}".rstrip(": "), trouble=True)
    if "limit_reset_at" in said:
        yield Note(f"a limit is reached, until {said['limit_reset_at'] or 'nobody knows when'}", trouble=True)
    if "denied" in said:
        yield Note(f"refused: {', '.join(said['denied'])}", trouble=True)
    if not said:
        yield Note(stderr)


def _seconds_until(moment: str | None) -> float | None:
    return None if moment is None else (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


READERS: Final[Mapping[str, Callable[[str], dict[str, Any] | None]]] = {
    "LIMIT": _limit,
    "USAGE": _usage,
    "SESSION": _session,
    "TROUBLE": _trouble,
    "DENIED": _denied,
}
