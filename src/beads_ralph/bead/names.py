"""Names: the kinds of beads and items, personas, sprint ids such as `3a.2b`, and slugs of titles."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import total_ordering
from pathlib import PurePath
from typing import Final, Self

ASSIGNEE: Final = "beads-ralph-scrum-master"
WORK: Final = "beads-ralph-work"
MERGE: Final = "beads-ralph-merge"
ISSUE_TYPES: Final = (WORK, MERGE)
RUNS_ON: Final = "runs-on:"
"""How a label begins that names something which the machine must have."""
MERGE_WORDS: Final = re.compile(r"merge|integration", re.IGNORECASE)
"""A sprint with one of these in its title and two others before it merges them, unless it has a type."""

MOLECULE: Final = "molecule"
"""The root of what one pour made; it closes when everything below it is closed."""
EPIC: Final = "epic"
"""A step with steps of its own; it closes as a molecule does."""
GATE: Final = "gate"
"""Holds up a step until a person, a clock, or something outside lets it pass."""
CONVOY: Final = "convoy"
"""Follows a set of beads, wherever they come from; it closes when all of them are closed."""
TASK: Final = "task"
"""A step for a person."""
CONTAINERS: Final = (MOLECULE, EPIC, CONVOY)

AGENTS_DIR: Final = ".claude/agents/"
MAX_DIGITS: Final = 9  # larger numbers are slips of the keyboard, and Python refuses to parse huge ones


@dataclass(frozen=True)
class ItemBrief:
    """What a person knows an item by."""

    id: str
    type: str
    title: str


# --- personas ---------------------------------------------------------------------------------------


def persona_path(name: str) -> str:
    """`.claude/agents/x.md` for `x`, `x.md` and `.claude/agents/x`; "claude" stays as it is."""
    if name == "claude":
        return name
    path = name if "/" in name else AGENTS_DIR + name
    return path if path.endswith(".md") else f"{path}.md"


def persona_name(agent: str) -> str:
    """`x` for `.claude/agents/x.md`: what people call it."""
    return agent.removeprefix(AGENTS_DIR).removesuffix(".md")


def doer(agent: str, program: str, model: str = "") -> str:
    """Who really does the work: `python-dev (codex, gpt-5)`, `claude (sonnet)`, `agent.sh`. The plain CLI is
    nobody but the program that plays it."""
    played = PurePath(program).name
    who = played if agent == "claude" and played else persona_name(agent)
    how = ", ".join(word for word in (played, model) if word and word != who)
    return f"{who} ({how})" if how else who


# --- sprints ----------------------------------------------------------------------------------------


@total_ordering
@dataclass(frozen=True)
class SprintId:
    """`3a.2b`: phase number 3, track a, sprint number 2, parallel sprint b."""

    phase_number: int
    phase_suffix: str
    sprint_number: int
    sprint_suffix: str
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The id, or None where the text is not one."""
        match = re.fullmatch(r"(\d+)([a-z]*)\.(\d+)([a-z]*)", text, re.ASCII)
        if match is None or max(len(match[1]), len(match[3])) > MAX_DIGITS:
            return None
        return cls(int(match[1]), match[2], int(match[3]), match[4], text)

    @property
    def phase(self) -> str:
        return self.text.partition(".")[0]

    @property
    def sprint_part(self) -> str:
        return self.text.partition(".")[2]

    @property
    def sprint_base(self) -> str:
        return f"{self.phase}.{self.sprint_part.rstrip('abcdefghijklmnopqrstuvwxyz')}"

    @property
    def dashed(self) -> str:
        return self.text.replace(".", "-")

    @property
    def track(self) -> tuple[int, str]:
        """The key that orders phases: 1 < 2 < 3a < 3b < 4."""
        return (self.phase_number, self.phase_suffix)

    @property
    def key(self) -> tuple[int, str, int, str]:
        return (self.phase_number, self.phase_suffix, self.sprint_number, self.sprint_suffix)

    def __lt__(self, other: Self) -> bool:
        return self.key < other.key

    def __str__(self) -> str:
        return self.text


# --- slugs ------------------------------------------------------------------------------------------


ID_LENGTH: Final = 30


def slug(title: str, limit: int = ID_LENGTH) -> str:
    """Lower case, blanks to hyphens, no punctuation, no hyphen runs, cut at `limit`; may be empty.

    Accents are dropped; letters of other scripts stay, since a title made of them needs a name too.
    """
    folded = _without_accents(title.casefold())
    spaced = re.sub(r"\s+", "-", folded.strip())
    kept = "".join(char for char in spaced if char == "-" or char.isalnum())
    return re.sub(r"-+", "-", kept)[:limit].strip("-")


def branch_slug(title: str) -> str:
    """The same for branches, whose pattern knows ASCII only."""
    ascii_only = _without_accents(title.casefold()).encode("ascii", "ignore").decode()
    return slug(ascii_only, limit=len(ascii_only))


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)
