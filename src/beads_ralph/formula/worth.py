"""What a formula saves: how much of the texts need not be written again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from beads_ralph.formula.definitions import BeadJson, Instance
from beads_ralph.formula.file_format import cell
from beads_ralph.formula.model import PLACEHOLDER
from beads_ralph.formula.spellings import words_of

ENOUGH: Final = 0.3
"""Below that a formula and its rows say hardly less than the sprints themselves."""
ALIKE: Final = 0.3
"""So many of the words of two instances are the same where one may be a repetition of the other."""
A_VARIABLE: Final = 10
"""Each costs whoever gives it as much as so many characters."""
SEPARATED: Final = 2
"""What stands between two values in a file of rows."""
BOOKKEEPING: Final = ("sprint_id", "phase", "after", "plan_file", "plan_section")
"""What tells where beads belong, and not what they are about."""


class Poured(Protocol):
    """A formula with the rows that give its instances back."""

    @property
    def formula(self) -> dict[str, Any]: ...

    @property
    def rows(self) -> list[dict[str, Any]]: ...


def own_texts(bead: BeadJson) -> Iterator[tuple[str, str]]:
    """What somebody wrote for the sprint itself, by its place."""
    metadata = bead["metadata"]
    yield "title", bead["title"]
    for key in ("dev_prompts", "acceptance_criteria"):
        yield from ((f"{key}.{at}", text) for at, text in enumerate(metadata.get(key) or ()))
    checks = (metadata.get("dod") or {}).get("verifiers") or ()
    yield from ((f"dod.{at}", check["command"]) for at, check in enumerate(checks))


def text_columns(instances: Sequence[Instance]) -> Iterator[list[str]]:
    """The texts that stand at the same place in all instances, place by place."""
    for at in range(len(instances[0])):
        rows = [dict(own_texts(instance[at])) for instance in instances]
        yield from ([row[place] for row in rows] for place in rows[0] if all(place in row for row in rows))


def to_give(made: Poured) -> int:
    """How much whoever pours has to give for all the rows."""
    return _length(made, A_VARIABLE)


def _length(made: Poured, for_each: int) -> int:
    rows = [row.items() for row in made.rows]
    given = [cell(value) for row in rows for name, value in row if not name.endswith(BOOKKEEPING)]
    return sum(map(len, given)) + for_each * len(given)


def score(made: Poured, instances: Sequence[Instance]) -> float:
    """1 where nothing has to be said again, 0 where all of it has to: the formula and its rows are compared
    with all that the sprints say."""
    said = sum(len(text) for instance in instances for bead in instance for _, text in own_texts(bead))
    stays = sum(
        len(PLACEHOLDER.sub("", text)) for step in made.formula["steps"] for _, text in own_texts(step)
    )
    return round(max(0.0, 1 - (stays + _length(made, SEPARATED)) / max(said, 1)), 2)


def alike(instances: Sequence[Instance]) -> list[list[Instance]]:
    """Instances that use the same words, together; the first of a group speaks for it."""
    groups: list[tuple[frozenset[str], list[Instance]]] = []
    for instance in instances:
        own = frozenset(word for bead in instance for _, text in own_texts(bead) for word in words_of(text))
        fitting = next((group for words, group in groups if _likeness(words, own) >= ALIKE), None)
        if fitting is None:
            groups.append((own, [instance]))
        else:
            fitting.append(instance)
    return [group for _, group in groups]


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(len(one | other), 1)
