"""formula list, formula show, formula check: patterns of work, before anything is poured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from beads_ralph.bead.words import plural
from beads_ralph.cli import formula_text, options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.errors import Fault, RalphError, gathered
from beads_ralph.git import commands

if TYPE_CHECKING:
    from beads_ralph.formula.folders import Folders, ListedFormula
    from beads_ralph.formula.model import Formula, Var


SUFFIXES: Final = (".json", ".toml")


def list_formulas(json_: options.Json = False) -> Answer:
    """List the formulas that can be poured here, and where each one comes from."""
    here = _Here.find()
    entries = here.folders.listing()
    broken = [formula_text.first_fault(entry) for entry in entries if entry.faults]
    data = {"formulas": [_row(entry) for entry in entries]}
    return Answer(data, lambda console: formula_text.listing(console, entries), broken)


def show(
    name: Annotated[str, typer.Argument(help="The formula's name.", show_default=False)],
    json_: options.Json = False,
) -> Answer:
    """Show a formula: its variables, its steps as a graph, and what pouring it makes."""
    from beads_ralph.formula.render import outline

    here = _Here.find()
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
    return Answer(data, lambda console: formula_text.whole(console, formula, outlined, file), entry.warnings)


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|FILE…", help="Formulas; without any, all of them.", show_default=False),
    ] = None,
    json_: options.Json = False,
) -> Answer:
    """Find every fault of formulas at once; exit 0 only when there is none."""
    here = _Here.find()
    entries = [here.entry_or_fault(name) for name in names] if names else here.folders.listing()
    entries = [_with_dead_ends(entry) for entry in entries]
    faults = [fault for entry in entries for fault in entry.faults]
    warnings = [warning for entry in entries for warning in entry.warnings]
    data = {"formulas": [_checked(entry) for entry in entries]}
    if not faults:
        return Answer(data, lambda _: out(formula_text.verdicts(entries)), warnings)
    error = gathered(faults, plural(len(entries), "formula"), warnings)
    return Answer(data, None, warnings, error, error_text=lambda: formula_text.failure(entries, error))


# --- finding ----------------------------------------------------------------------------------------


class _Here:
    """The folders around us. Settings play no part, so a fault in them does not hinder anything."""

    def __init__(self, root: Path, folders: Folders) -> None:
        self.root = root
        self.folders = folders

    @classmethod
    def find(cls) -> _Here:
        from beads_ralph.formula.folders import Folders

        here = Path.cwd()
        repository = commands.find(here)
        root = repository.root if repository else here
        return cls(root, Folders.of(root, commands.toplevel(here) if repository else None))

    def entry(self, name: str) -> ListedFormula:
        """By name; or by a path, wherever that is."""
        is_path = "/" in name or name.endswith(SUFFIXES)
        return self.folders.entry_of(Path(name)) if is_path else self.folders.entry(name)

    def entry_or_fault(self, name: str) -> ListedFormula:
        """One that is not there must not keep the others from being told."""
        from beads_ralph.formula.folders import ListedFormula

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
        "steps": formula_text.size(formula) if formula is not None else None,
        "variables": list(formula.vars) if formula is not None else [],
        "faults": [fault.to_json() for fault in entry.faults],
    }


def _head(entry: ListedFormula, formula: Formula | None) -> dict[str, Any]:
    """What show and check say of a formula: what it is, and who pours it on the bd store."""
    from beads_ralph.formula.bd_compatible import unsupported, why_not_plain

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
    from dataclasses import replace

    from beads_ralph.formula.bd_compatible import unsupported, why_not_plain

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
