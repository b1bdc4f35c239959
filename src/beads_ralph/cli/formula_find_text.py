"""Patterns and new formulas as people read them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.bead.words import plural

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.formula.patterns import Pattern

SHOWN_VALUES: Final = 3
SHOWN_FIELDS: Final = 6
SHOWN_LENGTH: Final = 40


def make_line(pattern: Pattern, plan: Path) -> str:
    words = ["formula", "make", pattern.name, "--from", str(plan), "--sprints", pattern.sprints]
    return shlex.join(["beads-ralph", *words])


def pour_line(name: str, variables: Mapping[str, Mapping[str, Any]], rows: Path | None) -> str:
    """The rows once more, or the next sprint with values of its own."""
    needed = [word for word, said in variables.items() if said.get("required")]
    given = [part for word in needed for part in ("--var", f"{word}=VALUE")]
    return shlex.join(["beads-ralph", "pour", name, *(["--vars-file", str(rows)] if rows else given)])


def show_found(console: Console, plan: Path, sprints: int, patterns: Sequence[Pattern]) -> None:
    from rich.markup import escape

    every = plural(sprints, "sprint")
    for number, pattern in enumerate(patterns, 1):
        _show_pattern(console, number, pattern, plan)
    if patterns:
        console.print(f"✓ {plural(len(patterns), 'pattern')} in {every}; nothing was written")
    else:
        console.print(f"no sprints of {escape(str(plan))} repeat ({every}): mason is the way for them")


def _show_pattern(console: Console, number: int, pattern: Pattern, plan: Path) -> None:
    from rich.markup import escape

    bulk = ", bulk" if pattern.is_bulk else ""
    repeats, beads = plural(len(pattern.instances), "repeat"), plural(pattern.beads, "bead")
    console.print(f"[bold]{number}. {escape(pattern.name)}[/bold]: {repeats}, replaces {beads}{bulk}")
    for word, text in _facts(pattern):
        console.print(f"   {word:9} {escape(text)}")
    console.print(f"   → {escape(make_line(pattern, plan))}")


def _facts(pattern: Pattern) -> Iterator[tuple[str, str]]:
    """The fields in short, and every variable with its values: the others follow from them."""
    yield "sprints", _listed(pattern.sprints.split(","))
    yield "steps", ", ".join(pattern.steps)
    constant = [f"{field} = {short(value)}" for field, value in pattern.constant.items()]
    yield "constant", _counted(constant)
    yield "varies", _counted(list(pattern.varying))
    for name in pattern.made.rows[0]:
        values = [short(row[name]) for row in pattern.made.rows]
        yield "variable", f"{name}: {_listed(values if len(set(values)) > 1 else values[:1])}"
    yield "derived", ", ".join(_derived(pattern.made.formula["vars"]))


def _derived(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{name} = {said['derive']}" for name, said in found.items() if "derive" in said]


def _counted(words: Sequence[str]) -> str:
    return f"{plural(len(words), 'field')}: {_listed(words, SHOWN_FIELDS)}" if words else "nothing"


def _listed(words: Sequence[str], count: int = SHOWN_VALUES) -> str:
    more = f", … ({len(words)} in all)" if len(words) > count else ""
    return ", ".join(words[:count]) + more


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    if _is_texts(value):
        text = "; ".join(value) or "none"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"


def _variables(found: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Which must be given, which may be, and which follow from others."""
    usual = [f"{name} = {short(said['default'])!r}" for name, said in found.items() if "default" in said]
    rows = {
        "give": [name for name, said in found.items() if said.get("required")],
        "may give": usual,
        "derived": _derived(found),
    }
    return ((word, ", ".join(names)) for word, names in rows.items() if names)


def show_made(console: Console, data: Mapping[str, Any]) -> None:
    from rich.markup import escape

    for step in data["steps"]:
        needs = f"  ← {', '.join(step['needs'])}" if step["needs"] else ""
        console.print(f"{escape(step['id'])}  {escape(step['title'])}[dim]{escape(needs)}[/dim]")
    for word, text in _variables(data["vars"]):
        console.print(f"  {word:8} {escape(text)}")
    given_back = f"gives back {plural(data['beads'], 'bead')}"
    console.print(f"✓ {escape(data['formula_path'])}: {plural(len(data['steps']), 'step')}, {given_back}")
    if data["rows_path"]:
        console.print(f"✓ {escape(data['rows_path'])}: {plural(len(data['rows']), 'row')}")
    console.print(f"→ {escape(data['pour_command'])}")
