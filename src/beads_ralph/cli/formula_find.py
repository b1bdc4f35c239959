"""formula find: sprints of a plan that repeat; nothing is written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.formula_make import derived, plain_beads, short, surroundings
from beads_ralph.cli.plan import compiled
from beads_ralph.cli.text import escape
from beads_ralph.config import workspace
from beads_ralph.formula import repeats
from beads_ralph.formula.repeats import Pattern

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_VALUES: Final = 3
SHOWN_FIELDS: Final = 6


def find(
    plan: options.PlanFile,
    no_agent_check: options.NoAgentCheck = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Report sprints and phases that repeat, and the formulas that could replace them."""
    space = workspace.find(config_file=config)
    setting, built = compiled(space, plan, agent_check=False)
    beads = plain_beads(built)
    found = repeats.find(beads, lambda name: surroundings(name, "toml", space, setting))
    rows = [_pattern_json(pattern, plan) for pattern in found]
    data = {
        "plan": str(plan),
        "sprints": len(beads),
        "patterns": rows,
        "warnings": [warning.to_json() for warning in built.warnings],
    }
    return Answer(data, lambda console: _show(console, plan, len(beads), found), built.warnings)


def _pattern_json(pattern: Pattern, plan: Path) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "sprints": [list(instance) for instance in pattern.instances],
        "repeats": len(pattern.instances),
        "steps": list(pattern.steps),
        "beads": pattern.beads,
        "bulk": pattern.is_bulk,
        "score": pattern.score,
        "constant": dict(pattern.constant),
        "varying": {field: list(values) for field, values in pattern.varying.items()},
        "vars": pattern.made.formula["vars"],
        "command": _make_line(pattern, plan),
    }


# --- for people -----------------------------------------------------------------------------------


def _make_line(pattern: Pattern, plan: Path) -> str:
    words = ["formula", "make", pattern.name, "--from", str(plan), "--sprints", pattern.sprints]
    return shlex.join(["beads-ralph", *words])


def _show(console: Console, plan: Path, sprints: int, patterns: Sequence[Pattern]) -> None:
    every = plural(sprints, "sprint")
    for number, pattern in enumerate(patterns, 1):
        _show_pattern(console, number, pattern, plan)
    if patterns:
        console.print(f"✓ {plural(len(patterns), 'pattern')} in {every}; nothing was written")
    else:
        looked = f"{every} of {escape(str(plan))}"
        console.print(f"nothing here is worth a formula ({looked}): mason is the way for them")


def _show_pattern(console: Console, number: int, pattern: Pattern, plan: Path) -> None:
    bulk = ", bulk" if pattern.is_bulk else ""
    times, beads = plural(len(pattern.instances), "repeat"), plural(pattern.beads, "bead")
    said = f"{times}, replaces {beads}{bulk}, saves {pattern.score:.0%}"
    console.print(f"[bold]{number}. {escape(pattern.name)}[/bold]: {said}")
    for word, text in _facts(pattern):
        console.print(f"   {word:9} {escape(text)}")
    console.print(f"   → {escape(_make_line(pattern, plan))}")


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
    yield "derived", ", ".join(derived(pattern.made.formula["vars"]))


def _counted(words: Sequence[str]) -> str:
    return f"{plural(len(words), 'field')}: {_listed(words, SHOWN_FIELDS)}" if words else "nothing"


def _listed(words: Sequence[str], count: int = SHOWN_VALUES) -> str:
    more = f", … ({len(words)} in all)" if len(words) > count else ""
    return ", ".join(words[:count]) + more
