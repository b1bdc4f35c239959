"""formula list, formula show, formula check: patterns of work, before anything is poured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import escape, lines, table
from beads_ralph.config import workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.formula.bd_compatible import unsupported, why_not_plain
from beads_ralph.formula.expansion import expanded
from beads_ralph.formula.folders import Folders, ListedFormula
from beads_ralph.formula.model import Formula, Var, all_steps
from beads_ralph.formula.render import Outline, outline

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from beads_ralph.plan.draw import Drawing

SUFFIXES: Final = (".json", ".toml")
KINDS: Final = {"beads": "bead for agents", "tasks": "task for people", "epics": "epic", "gates": "gate"}
PLURALS: Final = {"bead for agents": "beads for agents", "task for people": "tasks for people"}
SHOWN_DEFAULT: Final = 60


def list_formulas(json_: options.Json = False) -> Answer:
    """List the formulas that can be poured here, and where each one comes from."""
    here = _Here()
    entries = here.folders.listing()
    broken = [_first_fault(entry) for entry in entries if entry.faults]
    data = {"formulas": [_row(entry) for entry in entries]}
    return Answer(data, lambda console: _show_list(console, entries), broken)


def show(
    name: Annotated[str, typer.Argument(help="The formula's name.")], json_: options.Json = False
) -> Answer:
    """Show a formula: its variables, its steps as a graph, and what pouring it makes."""
    here = _Here()
    entry = here.entry(name)
    formula = entry.sound()
    outlined = outline(formula)
    data = {
        **_head(entry, formula),
        "formula": formula.to_json(),
        "variables": [_variable(word, var) for word, var in formula.vars.items()],
        "steps": outlined.to_json(),
        "makes": outlined.makes,
        "hindrances": [fault.to_json() for fault in outlined.hindrances],
    }
    file = here.shown(entry.file)
    return Answer(data, lambda console: _show(console, formula, outlined, file), entry.warnings)


def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME|FILE…", help="Formulas; without any, all of them.")
    ] = None,
    json_: options.Json = False,
) -> Answer:
    """Find every fault of formulas at once; exit 0 only when there is none."""
    here = _Here()
    entries = [here.entry_or_fault(name) for name in names] if names else here.folders.listing()
    entries = [_with_dead_ends(entry) for entry in entries]
    faults = [fault for entry in entries for fault in entry.faults]
    warnings = [warning for entry in entries for warning in entry.warnings]
    data = {"formulas": [_checked(entry) for entry in entries]}
    verdicts = [_verdict(entry) for entry in entries]
    if not faults:
        return Answer(data, lines(*verdicts or ["there is no formula here"]), warnings)
    error = gathered(faults, plural(len(entries), "formula"), warnings)
    return Answer(data, None, warnings, error, error_text=lambda: _failure(verdicts, error))


# --- finding ----------------------------------------------------------------------------------------


class _Here:
    """The folders around us. Settings play no part, so a fault in them does not hinder anything."""

    def __init__(self) -> None:
        here = workspace.place()
        self.root = here.root
        self.folders = Folders.of(here.root, here.checkout)

    def entry(self, name: str) -> ListedFormula:
        """By name; or by a path, wherever that is."""
        is_path = "/" in name or name.endswith(SUFFIXES)
        return self._written_out(self.folders.entry_of(Path(name)) if is_path else self.folders.entry(name))

    def _written_out(self, entry: ListedFormula) -> ListedFormula:
        """Without macros, as it is poured; as it stands where one of them is not to be had here. A macro
        that cannot be written out is a fault of the formula."""
        if entry.formula is None:
            return entry
        try:
            return replace(entry, formula=expanded(entry.formula, self.folders.load))
        except RalphError as error:
            is_wrong = error.code is Code.FORMULA_INVALID
            return replace(entry, formula=None, faults=tuple(error.faults)) if is_wrong else entry

    def entry_or_fault(self, name: str) -> ListedFormula:
        """One that is not there must not keep the others from being told."""
        try:
            return self.entry(name)
        except RalphError as error:
            fault = Fault(error.code, error.message, suggested_action=error.suggested_action)
            return ListedFormula(name, Path(name), None, faults=(fault,))

    def shown(self, file: Path) -> str:
        """From the root, where it lies below it."""
        return str(file.relative_to(self.root) if file.is_relative_to(self.root) else file)


# --- data -------------------------------------------------------------------------------------------


def _row(entry: ListedFormula) -> dict[str, Any]:
    formula = entry.formula
    return {
        "name": entry.name,
        "place": entry.place,
        "file": str(entry.file),
        "shadowed": entry.shadowed,
        "valid": formula is not None,
        "type": formula.type if formula is not None else None,
        "phase": formula.phase or None if formula is not None else None,
        "description": formula.description if formula is not None else "",
        "steps": _size(formula) if formula is not None else None,
        "variables": list(formula.vars) if formula is not None else [],
        "faults": [fault.to_json() for fault in entry.faults],
    }


def _head(entry: ListedFormula, formula: Formula | None) -> dict[str, Any]:
    """What show and check say of a formula: what it is, and who pours it on the bd store."""
    why = why_not_plain(formula) if formula is not None else None
    pourer = None if formula is None else "bd" if why is None else "beads-ralph"
    return {
        "name": entry.name,
        "place": entry.place,
        "file": str(entry.file),
        "poured_by": pourer,
        "why": why,
        "only_bd": [fault.message for fault in unsupported(formula)] if formula is not None else [],
    }


def _with_dead_ends(entry: ListedFormula) -> ListedFormula:
    """What only bd can do, in a formula that bd would not do justice: nobody can pour that."""
    if entry.formula is None or entry.formula.type != "workflow":
        return entry
    why = why_not_plain(entry.formula)
    beyond = unsupported(entry.formula)
    if why is None or not beyond:
        return entry
    told = [replace(fault, message=f"{fault.message}; but bd cannot pour it: {why}") for fault in beyond]
    return replace(entry, formula=None, faults=tuple(told))


def _variable(name: str, var: Var) -> dict[str, Any]:
    return {
        "name": name,
        "description": var.description,
        "required": var.required,
        "default": var.default,
        "type": var.type,
        "enum": list(var.enum),
        "pattern": var.pattern or None,
        "derive": var.derive or None,
    }


def _checked(entry: ListedFormula) -> dict[str, Any]:
    return {
        **_head(entry, entry.formula),
        "valid": entry.formula is not None,
        "shadowed": entry.shadowed,
        "faults": [fault.to_json() for fault in entry.faults],
        "warnings": [warning.to_json() for warning in entry.warnings],
    }


def _size(formula: Formula) -> int:
    """The steps to be done that are written down; those of a loop once."""
    return sum(1 for _, step in all_steps(formula.steps) if step.loop is None and not step.children)


# --- list, for people -----------------------------------------------------------------------------


def _first_fault(entry: ListedFormula) -> Fault:
    """A broken formula as a warning in a list; check tells the rest."""
    first = entry.faults[0]
    more = f" (and {len(entry.faults) - 1} more: beads-ralph formula check {entry.name})"
    said = f"{entry.name} is broken: {first.message}" + (more if len(entry.faults) > 1 else "")
    return Fault(first.code, said, file=first.file, line=first.line, field=first.field)


def _show_list(console: Console, entries: Sequence[ListedFormula]) -> None:
    if not entries:
        how = "write one into .beads/formulas/, or see: beads-ralph formula make --help"
        console.print(f"no formulas yet; {how}")
        return
    rows = table("formula", "from", "steps", folding=("variables", "description"))
    for entry in entries:
        rows.add_row(*_cells(entry))
    console.print(rows)


def _cells(entry: ListedFormula) -> Iterable[Text | str]:
    from rich.text import Text

    formula = entry.formula
    mark = "shadowed: " if entry.shadowed else ""
    style = "dim" if entry.shadowed else ""
    if formula is None:
        return Text(entry.name, style), str(entry.place), "", "", Text(f"{mark}broken", "red")
    given = [name for name, var in formula.vars.items() if not var.derive]  # the others follow from these
    words = (entry.name, str(entry.place), str(_size(formula)), ", ".join(given) or "none")
    return (Text(word, style) for word in (*words, mark + _one_line(formula.description)))


def _one_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


# --- check, for people ----------------------------------------------------------------------------


def _verdict(entry: ListedFormula) -> str:
    if entry.formula is None:
        return f"✗ {entry.name}: {plural(len(entry.faults), 'fault')}"
    formula = entry.formula
    said = f"{plural(_size(formula), 'step')}, {plural(len(formula.vars), 'variable')}"
    shadow = ", shadowed by another" if entry.shadowed else ""
    return f"✓ {entry.name} ({entry.place or entry.file}{shadow}): {said}; {_who_pours(formula)}"


def _who_pours(formula: Formula) -> str:
    """Of the bd store; on the embedded one it is always us."""
    why = why_not_plain(formula)
    if why is not None:
        return f"beads-ralph pours it itself: {why}"
    beyond = unsupported(formula)
    elsewhere = f", and nobody on the embedded one: {beyond[0].message}" if beyond else ""
    return f"on the bd store bd itself pours it{elsewhere}"


def _failure(verdicts: Sequence[str], error: RalphError) -> str:
    """Every verdict, then every fault of the broken ones, and what to do."""
    faults = [f"error: {fault} [{fault.code}]" for fault in error.faults]
    warnings = [f"warning: {warning}" for warning in error.warnings]
    return "\n".join([*verdicts, *faults, *warnings, f"  → {error.suggested_action}"])


# --- show, for people -----------------------------------------------------------------------------


def _show(console: Console, formula: Formula, outline: Outline, file: str) -> None:
    console.print(
        f"[bold]{escape(formula.name)}[/bold]  {escape(_one_line(formula.description))}", emoji=False
    )
    rows = [("file", file + (f" ({formula.place})" if formula.place else ""))]
    rows += [("extends", ", ".join(formula.extends))] if formula.extends else []
    rows += [("phase", formula.phase)] if formula.phase else []
    rows.append(("pour", _who_pours(formula)))
    for name, value in rows:
        console.print(f"  [dim]{name:<9}[/dim]{escape(value)}", emoji=False)
    _variables(console, formula)
    _steps(console, formula, outline)


def _variables(console: Console, formula: Formula) -> None:
    from rich.text import Text

    if not formula.vars:
        return
    rows = table("variable", "", folding=("", ""))
    for name, var in formula.vars.items():
        words = (_given(var), "; ".join(_allowed(var)), _one_line(var.description))
        rows.add_row(Text(name, "bold"), *map(Text, words))
    console.print()
    console.print(rows)


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
        console.print(f"{plural(_size(formula), 'step')}, which cannot be drawn beforehand:")
        for fault in outline.hindrances:
            console.print(f"  {fault.message}", markup=False)
        return
    drawing = _drawing(outline)
    gates = outline.makes["gates"]
    steps = plural(len(drawing.nodes) - gates, "step")
    draw.text(drawing, console, steps + (f" and {plural(gates, 'gate')}" if gates else ""))
    made = [_counted(number, KINDS[kind]) for kind, number in outline.makes.items() if number]
    console.print(f"pouring it makes a molecule with {', '.join(made)}")
    if outline.conditions:
        console.print("? is there only where its condition holds", style="dim")


def _counted(number: int, noun: str) -> str:
    return plural(number, noun) if number == 1 else f"{number} {PLURALS.get(noun, noun + 's')}"


def _drawing(outline: Outline) -> Drawing:
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
