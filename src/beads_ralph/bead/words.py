"""Times, durations and counts, as we write and read them; and the words of others, fit to be shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

NUMBER: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", re.ASCII)
SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def moment_of(text: str) -> datetime:
    """An ISO 8601 time; one without a zone is in UTC. ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def clock(at: str | None, now: datetime | None = None) -> str:
    """`14:30`, by the clock of whoever looks; with `now`, `Tue 14:30` where that is another day."""
    try:
        moment = moment_of(at).astimezone() if at else None
    except (ValueError, OverflowError):
        return at or ""
    if moment is None:
        return ""
    other = now is not None and moment.date() != now.astimezone().date()
    return f"{moment:%a %H:%M}" if other else f"{moment:%H:%M}"


def seconds_of(text: str) -> float | None:
    """`30s`, `15m`, `1h30m` or a number of seconds; None for anything else."""
    if NUMBER.fullmatch(text):
        return float(text)
    parts = DURATION.findall(text)
    if not parts or DURATION.sub("", text).strip():
        return None
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def utc_text(moment: datetime) -> str:
    """The one way we write a time: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


SEVERAL: Final = 5
SHORT: Final = 300


def several(names: Sequence[str], between: str = ", ") -> str:
    """As many names as one reads, and how many more there are."""
    more = f" and {len(names) - SEVERAL} more" if len(names) > SEVERAL else ""
    return f"{between.join(names[:SEVERAL])}{more}"


def shortened(text: str) -> str:
    """On one line, and no longer than a report has room for."""
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[:SHORT].rstrip()}…"


def plural(number: int, noun: str) -> str:
    """`1 check`, `2 checks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- what a terminal would obey ---------------------------------------------------------------------

COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
OBEYED: Final = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"},
    **{code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F)},
    **{code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))},
}
"""Control characters, and those that turn the direction of a line, each in a form that can be seen;
those that may stand in JSON in JSON's own."""


def visible(text: str) -> str:
    """The text as a terminal may have it: nothing in it moves the cursor, sets a title or hides a word."""
    return text if text.isprintable() else text.translate(OBEYED)
