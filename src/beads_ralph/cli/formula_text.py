"""Formulas as text, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from beads_ralph.bead.words import plural
from beads_ralph.errors import Fault, RalphError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from beads_ralph.formula.folders import ListedFormula
    from beads_ralph.formula.model import Formula, Var
    from beads_ralph.formula.render import Outline
    from beads_ralph.plan.draw import Drawing

KINDS: Final = {"beads": "bead for agents", "tasks": "task for people", "epics": "epic", "gates": "gate"}
PLURALS: Final = {"bead for agents": "beads for agents", "task for people": "tasks for people"}
SHOWN_DEFAULT: Final = 60


def size(formula: Formula) -> int:
    """The steps to be done that are written down; those of a loop once."""
    from beads_ralph.formula.model import all_steps

    return sum(1 for _, step in all_steps(formula.steps) if step.loop is None and not step.children)


# --- list -------------------------------------------------------------------------------------------


def first_fault(entry: ListedFormula) -> Fault:
    """A broken formula as a warning in a list; check tells the rest."""
    first = entry.faults[0]
    more = f" (and {len(entry.faults) - 1} more: beads-ralph formula check {entry.name})"
    said = f"{entry.name} is broken: {first.message}" + (more if len(entry.faults) > 1 else "")
    return Fault(first.code, said, file=first.file, line=first.line, field=first.field)


def listing(console: Console, entries: Sequence[ListedFormula]) -> None:
    if not entries:
        console.print(
            "no formulas yet; write one into .beads/formulas/, or see: beads-ralph formula make --help"
        )
        return
    table = _table("formula", "from", "steps")
    table.add_column("variables", overflow="fold")
    table.add_column("description", overflow="fold")
    for entry in entries:
        _list_row(table, entry)
    console.print(table)


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _list_row(table: Table, entry: ListedFormula) -> None:
    from rich.text import Text

    formula = entry.formula
    mark = "shadowed: " if entry.shadowed else ""
    style = "dim" if entry.shadowed else ""
    if formula is None:
        table.add_row(Text(entry.name, style), str(entry.place), "", "", Text(f"{mark}broken", "red"))
        return
    words = (entry.name, str(entry.place), str(size(formula)), ", ".join(formula.vars) or "none")
    table.add_row(*(Text(word, style) for word in (*words, mark + _one_line(formula.description))))


def _one_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


# --- check ------------------------------------------------------------------------------------------


def verdicts(entries: Sequence[ListedFormula]) -> str:
    return "\n".join(map(_verdict, entries)) or "there is no formula here"


def _verdict(entry: ListedFormula) -> str:
    if entry.formula is None:
        return f"✗ {entry.name}: {plural(len(entry.faults), 'fault')}"
    formula = entry.formula
    said = f"{plural(size(formula), 'step')}, {plural(len(formula.vars), 'variable')}"
    shadow = ", shadowed by another" if entry.shadowed else ""
    return f"✓ {entry.name} ({entry.place or entry.file}{shadow}): {said}; {who_pours(formula)}"


def who_pours(formula: Formula) -> str:
    """Of the bd store; on the embedded one it is always us."""
    from beads_ralph.formula.bd_compatible import unsupported, why_not_plain

    why = why_not_plain(formula)
    if why is not None:
        return f"beads-ralph pours it itself: {why}"
    beyond = unsupported(formula)
    elsewhere = f", and nobody on the embedded one: {beyond[0].message}" if beyond else ""
    return f"on the bd store bd itself pours it{elsewhere}"


def failure(entries: Sequence[ListedFormula], error: RalphError) -> str:
    """Every verdict, then every fault of the broken ones, and what to do."""
    lines = [_verdict(entry) for entry in entries]
    lines += [f"error: {fault} [{fault.code}]" for fault in error.faults]
    lines += [f"warning: {warning}" for warning in error.warnings]
    return "\n".join([*lines, f"  → {error.suggested_action}"])


# --- show -------------------------------------------------------------------------------------------


def whole(console: Console, formula: Formula, outline: Outline, file: str) -> None:
    from rich.markup import escape

    console.print(
        f"[bold]{escape(formula.name)}[/bold]  {escape(_one_line(formula.description))}", emoji=False
    )
    rows = [("file", file + (f" ({formula.place})" if formula.place else ""))]
    rows += [("extends", ", ".join(formula.extends))] if formula.extends else []
    rows += [("phase", formula.phase)] if formula.phase else []
    rows.append(("pour", who_pours(formula)))
    for name, value in rows:
        console.print(f"  [dim]{name:<9}[/dim]{escape(value)}", emoji=False)
    _variables(console, formula)
    _steps(console, formula, outline)


def _variables(console: Console, formula: Formula) -> None:
    from rich.text import Text

    if not formula.vars:
        return
    table = _table("variable", "")
    table.add_column("", overflow="fold")
    table.add_column("", overflow="fold")
    for name, var in formula.vars.items():
        words = (_given(var), "; ".join(_allowed(var)), _one_line(var.description))
        table.add_row(Text(name, "bold"), *map(Text, words))
    console.print()
    console.print(table)


def _given(var: Var) -> str:
    if var.derive:
        return f"follows: {var.derive}"
    if var.default is None:
        return "required" if var.required else "no default"
    shown = var.default if len(var.default) <= SHOWN_DEFAULT else var.default[:SHOWN_DEFAULT] + "…"
    return f"default {shown!r}" if not shown or shown != shown.strip() else f"default {shown}"


def _allowed(var: Var) -> Iterator[str]:
    if var.type != "string":
        yield var.type
    if var.enum:
        yield f"one of {', '.join(var.enum)}"
    if var.pattern:
        yield f"matches {var.pattern}"


def _steps(console: Console, formula: Formula, outline: Outline) -> None:
    from beads_ralph.plan import draw

    console.print()
    if outline.hindrances:
        console.print(f"{plural(size(formula), 'step')}, which cannot be drawn beforehand:")
        for fault in outline.hindrances:
            console.print(f"  {fault.message}", markup=False)
        return
    drawing = drawing_of(outline)
    gates = outline.makes["gates"]
    steps = plural(len(drawing.nodes) - gates, "step")
    draw.text(drawing, console, steps + (f" and {plural(gates, 'gate')}" if gates else ""))
    made = [_counted(number, KINDS[kind]) for kind, number in outline.makes.items() if number]
    console.print(f"pouring it makes a molecule with {', '.join(made)}")
    if outline.conditions:
        console.print("? is there only where its condition holds", style="dim")


def _counted(number: int, noun: str) -> str:
    return plural(number, noun) if number == 1 else f"{number} {PLURALS.get(noun, noun + 's')}"


def drawing_of(outline: Outline) -> Drawing:
    """What is worked on or waited for; a container is neither."""
    from beads_ralph.plan.draw import Drawing, Node

    nodes, edges = [], dict[str, list[str]]()
    for step in outline.steps:
        if step.is_epic:
            continue
        edges[step.key] = list(step.needs)
        if step.gate is not None:
            gate = f"gate-{step.key}"
            shown = " ".join(filter(None, (step.gate.type, step.gate.await_id or step.gate.timeout)))
            nodes.append(Node(gate, "", f"Gate: {shown}", 0))
            edges[gate] = []
            edges[step.key].append(gate)
        mark = f"? {outline.conditions[step.key]}: " if step.key in outline.conditions else ""
        nodes.append(Node(step.key, "", f"{mark}{step.title}", 0))
    return Drawing.of(nodes, edges)
