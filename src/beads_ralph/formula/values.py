"""The values of a pour's variables, and placeholders filled with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from beads_ralph.formula import expressions
from beads_ralph.formula.model import PLACEHOLDER, Formula, Step

Value = str | int | bool | tuple[str, ...]


@dataclass(frozen=True)
class Values(Mapping[str, Value]):
    """Name → value, typed as the variable says; checked, and with the defaults filled in."""

    typed: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.typed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.typed)

    def __len__(self) -> int:
        return len(self.typed)

    def text(self, name: str) -> str:
        """As it stands in a text: a list is its lines, a boolean `true` or `false`."""
        value = self.typed[name]
        if isinstance(value, tuple):
            return "\n".join(value)
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def entries(self, name: str) -> tuple[str, ...]:
        """The entries of a list; any other value is its only entry."""
        value = self.typed[name]
        return value if isinstance(value, tuple) else (self.text(name),)

    def texts(self) -> dict[str, str]:
        """All of them as texts, which is how bd takes them."""
        return {name: self.text(name) for name in self.typed}


# --- placeholders -----------------------------------------------------------------------------------


NAMED: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`{{variable}}`, or `{round}` of a loop."""


@dataclass(frozen=True)
class Filling:
    """The values of variables, and the rounds of the loops around a step."""

    values: Values
    rounds: Mapping[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        return NAMED.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        variable, loop_name = found.groups()
        if variable is None:
            return self.rounds.get(loop_name, found[0])
        if variable in self.values:
            return self.values.text(variable)
        return self.rounds.get(variable, found[0])

    def entries(self, texts: Sequence[str]) -> tuple[str, ...]:
        """A list's texts; list variables are spliced in, and what is empty falls out."""
        found = [entry for text in texts for entry in self._spliced(text)]
        return tuple(entry for entry in found if entry.strip())

    def _spliced(self, text: str) -> tuple[str, ...]:
        name = sole_name(text)
        if name is not None and isinstance(self.values.get(name), tuple):
            return self.values.entries(name)
        return (self.text(text),)

    def json(self, value: Any) -> Any:
        """Inside of objects and lists too; keys stay as they are. A text that is nothing but the
        placeholder of a number or a boolean becomes that; in a list, a list variable is spliced in."""
        if isinstance(value, dict):
            return {key: self.json(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [inner for entry in value for inner in self._json_entries(entry)]
        return self.typed(value) if isinstance(value, str) else value

    def _json_entries(self, entry: Any) -> Sequence[Any]:
        name = sole_name(entry) if isinstance(entry, str) else None
        spliced = name is not None and isinstance(self.values.get(name), tuple)
        return self.values.entries(name) if name is not None and spliced else (self.json(entry),)

    def typed(self, text: str) -> str | int:
        name = sole_name(text)
        value = self.values.get(name) if name is not None else None
        return value if isinstance(value, int) else self.text(text)


def sole_name(text: str) -> str | None:
    """The variable of a text that is nothing but its placeholder."""
    found = PLACEHOLDER.fullmatch(text)
    return found[1] if found else None


def names_in(text: str) -> list[str]:
    return PLACEHOLDER.findall(text)


# --- where placeholders count -----------------------------------------------------------------------


def texts_of(step: Step) -> Iterator[tuple[str, str]]:
    """Every text of a step that is filled in, with its field; steps inside are not looked at."""
    for name in ("title", "description", "notes", "type", "assignee", "bead_id"):
        yield name, getattr(step, name)
    if isinstance(step.priority, str):
        yield "priority", step.priority
    for name in ("labels", "after"):
        yield from ((f"{name}[{at}]", text) for at, text in enumerate(getattr(step, name)))
    yield from texts_in(step.metadata, "metadata")
    if step.gate is not None:
        for name in ("type", "id", "await_id", "timeout", "repo"):
            yield f"gate.{name}", getattr(step.gate, name)


def texts_in(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from texts_in(inner, f"{path}[{at}]")


def names_of(step: Step) -> list[str]:
    """The names in a step's own texts and in the range of its loop."""
    found = [name for _, text in texts_of(step) for name in names_in(text)]
    return found + (expressions.range_names(step.loop.range) if step.loop is not None else [])


def names_of_root(formula: Formula) -> list[str]:
    """The root takes its title and description from variables of these names, where there are such."""
    shown = "" if "desc" in formula.vars else formula.description
    return [*(name for name in ("title", "desc") if name in formula.vars), *names_in(shown)]
