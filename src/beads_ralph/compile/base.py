"""The plan as it was last compiled, kept with each bead, and the merge of a field: that, the plan now, the
store now."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal

from beads_ralph.bead import personas, run_state
from beads_ralph.bead.model import Bead
from beads_ralph.plan import Plan, marks
from beads_ralph.store.protocol import Stored

KEY: Final = run_state.PLANNED
"""The metadata that holds it: field → a hash of its value; labels and dependencies in full; `text`."""
TEXT: Final = "text"
ORPHANED: Final = "orphaned"
CORE_FIELDS: Final = ("title", "description", "priority", "issue_type", "labels", "dependencies")
LISTS: Final = ("labels", "dependencies")
PLACE: Final = ("metadata.phase", "metadata.sprint", "metadata.plan_file", "metadata.plan_sprint_id")
"""Where in which plan the sprint stands: nobody else says that."""
ALWAYS_PLANNED: Final = frozenset({*PLACE, "metadata.plan_section", "metadata.worktree_path"})
"""The same, and where on this machine it is worked on."""
PLAN_ONLY: Final = frozenset({"dod", "acceptance_criteria", "may_change", "formula", "template"})
"""Optional keys that only a plan writes: gone from the plan means gone from the bead."""
NUMBERED: Final = re.compile(r"phase-\d+|sprint-[\da-z]+-[\da-z]+")
"""Labels that follow from the sprint's number."""
HEADING: Final = re.compile(r"#{1,3}\s")
REMARK: Final = re.compile(r"\s*<!--\s*beads-ralph:.*-->\s*")

Side = Literal["plan", "person", "both"]


# --- fields -----------------------------------------------------------------------------------------


def fields_of(bead: Bead) -> dict[str, Any]:
    """Everything of a bead that a plan says."""
    said = bead.to_json()
    metadata = personas.without_sessions(said["metadata"])
    core = {name: said.get(name) for name in CORE_FIELDS}
    return core | {f"metadata.{key}": metadata[key] for key in metadata.keys() - run_state.KEYS}


def is_same(name: str, one: Any, other: Any) -> bool:
    """Lists of labels and of dependencies have no order."""
    if name in LISTS:
        return sorted(one or ()) == sorted(other or ())
    return bool(one == other)


def differing(stored: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """The fields that the plan says otherwise; what others have put into the metadata is theirs."""
    gone = (name for name in stored if name.removeprefix("metadata.") in PLAN_ONLY and name not in planned)
    names = [*CORE_FIELDS, *sorted({*planned, *gone} - {*CORE_FIELDS})]
    return [name for name in names if not is_same(name, stored.get(name), planned.get(name))]


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return blake2b(text.encode(), digest_size=6).hexdigest()


NOTHING: Final = digest(None)


# --- what is kept -----------------------------------------------------------------------------------


def kept(planned: Bead, reading: str = "") -> dict[str, Any]:
    """The plan as it is compiled now."""
    said = fields_of(planned)
    hashes = {
        name: digest(value)
        for name, value in said.items()
        if value is not None and name not in LISTS and name not in ALWAYS_PLANNED
    }
    lists = {name: list(said[name] or ()) for name in LISTS}
    return {**lists, **dict(sorted(hashes.items())), **({TEXT: reading} if reading else {})}


def with_base(thing: Stored, reading: str = "") -> Stored:
    """What goes into the store for the first time; items and beads of the old schema keep no plan."""
    if not isinstance(thing, Bead):
        return thing
    metadata = thing.metadata.model_copy(update={KEY: kept(thing, reading)})
    return thing.model_copy(update={"metadata": metadata})


@dataclass(frozen=True)
class Base:
    """The plan as last compiled into one bead. Older beads have none: there the plan counts, but labels that
    do not follow from a number are kept, and so is what the bead waits for outside of its plan."""

    said: Mapping[str, Any] | None
    bead: Bead
    own: Collection[str] = ()
    """The ids of the plan's own beads."""

    @classmethod
    def of(cls, bead: Bead, own: Collection[str] = ()) -> Base:
        return cls(bead.metadata.planned or None, bead, own)

    @property
    def reading(self) -> str:
        found = (self.said or {}).get(TEXT)
        return found if isinstance(found, str) else ""

    def entries(self, name: str) -> Collection[str]:
        """The labels or dependencies that the plan has given the bead."""
        found = None if self.said is None else self.said.get(name)
        if isinstance(found, list):
            given = {entry for entry in found if isinstance(entry, str)}
        elif name == "labels":
            given = {label for label in self.bead.labels if NUMBERED.fullmatch(label)}
        else:
            given = {one for one in self.bead.dependencies if one in self.own}
        return given | {ORPHANED} if name == "labels" else given

    def changed_by(self, name: str, stored: Any, planned: Any) -> Side:
        """Who has changed a field that is stored differently from what the plan says."""
        if self.said is None or name in ALWAYS_PLANNED:
            return "plan"
        before = self.said.get(name, NOTHING)
        if digest(planned) == before:
            return "person"
        return "plan" if digest(stored) == before else "both"

    def merged(self, name: str, stored: Sequence[str], planned: Sequence[str]) -> list[str]:
        """A list with the plan's edits; entries that a person put there stay, those taken out stay out."""
        before = self.entries(name)
        left = [entry for entry in stored if entry in planned or entry not in before]
        new = [entry for entry in planned if entry not in stored and entry not in before]
        if self.said is None:  # what it lacks, nobody can have taken out
            new = [entry for entry in planned if entry not in stored]
        return [*left, *new]


# --- how a sprint reads -----------------------------------------------------------------------------


def readings(text: str, plan: Plan) -> dict[str, str]:
    """Sprint → a hash of its section as it is written: its title and its lines, not its number, nor marks of
    what has become of it."""
    lines = text.splitlines()
    return {sprint.id.text: digest([sprint.title, *_section(lines, sprint.line)]) for sprint in plan.sprints}


def _section(lines: Sequence[str], start: int) -> Iterator[str]:
    fenced = False
    for line in (lines[at] for at in range(start, len(lines))):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if not fenced and HEADING.match(line):
            return
        if line.strip() and not REMARK.fullmatch(line) and not marks.STATUS.match(line):
            yield " ".join(marks.BOX.sub(r"\1", line).split())
