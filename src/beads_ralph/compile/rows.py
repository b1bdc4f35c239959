"""Rows of values: read from CSV or JSON, checked, made into molecules, compared with what they came from."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final

from beads_ralph.bead import schema
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.compile.molecule import Molecule, compose, handed_over
from beads_ralph.compile.places import branch_clashes
from beads_ralph.compile.setting import Place, Setting, root_id
from beads_ralph.config.model import FormulaSettings
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files.text_files import MAX_BYTES
from beads_ralph.formula.definitions import BeadJson, Instance
from beads_ralph.formula.model import Formula
from beads_ralph.formula.variables import Given, Values, accepted, unknown_variable, values

RANGE: Final = re.compile(r"(?P<first>\d{1,9})?(?P<dash>-)?(?P<last>\d{1,9})?")


@dataclass(frozen=True)
class ValueRow:
    """The values of one row. In a CSV file the header is row 1, as a spreadsheet shows it; in JSON the
    first object is row 1."""

    number: int | None
    given: Mapping[str, Given]
    file: str = ""

    @property
    def label(self) -> str:
        return f"{self.file} row {self.number}" if self.number is not None else ""

    @property
    def start(self) -> str:
        """The beginning of a message about the row."""
        return f"{self.label}: " if self.label else ""


def read(text: str, file: str) -> list[ValueRow]:
    """The rows of a file: JSON where the name says so, or where its text is an array; CSV otherwise."""
    text = text.removeprefix("\ufeff")
    is_json = file.endswith(".json") or (not file.endswith(".csv") and text.lstrip().startswith("["))
    found = list(_json_rows(text, file) if is_json else _csv_rows(text, file))
    if not found:
        raise _refused(file, "has no rows", "Give it at least one row below the header")
    return found


def choose(rows: Sequence[ValueRow], asked: str | None) -> list[ValueRow]:
    """`41-`, `2-40`, `7` or `2,5,9-`: the rows with these numbers, in the order of the file."""
    if asked is None:
        return list(rows)
    ranges = [_range(part.strip()) for part in asked.split(",")]
    chosen = [row for row in rows if any(low <= (row.number or 0) <= high for low, high in ranges)]
    if not chosen:
        numbers = [row.number for row in rows]
        action = f"The file has the rows {numbers[0]} to {numbers[-1]}"
        raise RalphError(Code.USAGE, f"--rows {asked} leaves no row", suggested_action=action)
    return chosen


def _range(text: str) -> tuple[int, float]:
    found = RANGE.fullmatch(text)
    if found is None or not text.strip("-"):
        message = f"--rows {text!r} is not a range of rows"
        raise RalphError(Code.USAGE, message, suggested_action="Write for example: --rows 41- or --rows 2-40")
    first = int(found["first"] or 0)
    if not found["dash"]:
        return first, first
    return first, int(found["last"]) if found["last"] else float("inf")


# --- CSV --------------------------------------------------------------------------------------------


def _csv_rows(text: str, file: str) -> Iterator[ValueRow]:
    records = _records(text, file)
    header = next(records, (1, []))[1]
    names = [name.strip() for name in header]
    if not any(names):
        raise _refused(file, "is empty", "Write the names of the variables into its first line")
    twice = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if twice:
        raise _refused(file, f"has the column {twice[0]} twice", "Keep one of the two")
    for number, cells in records:
        columns = list(zip_longest(names, cells, fillvalue=""))[: len(cells)]
        stray = [cell for name, cell in columns if cell.strip() and not name]
        if stray:
            message = f"row {number} has a cell without a heading: {stray[0]!r}"
            raise _refused(file, message, "Quote a value that holds a comma, or name the column")
        if any(cells):
            yield ValueRow(number, {name: cell for name, cell in columns if name and cell}, file)


def _records(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with its number, empty lines counted too."""
    csv.field_size_limit(MAX_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        yield from enumerate(reader, 1)
    except csv.Error as problem:
        raise _refused(file, f"cannot be read near line {reader.line_num}: {problem}", None) from None


# --- JSON -------------------------------------------------------------------------------------------


def _json_rows(text: str, file: str) -> Iterator[ValueRow]:
    try:
        said = schema.load_json(text)
    except RalphError as problem:
        raise _refused(file, f"is {problem.message}", "Write an array of objects, one a pour") from None
    if not isinstance(said, list):
        raise _refused(file, "is not an array", "Write an array of objects, one a pour")
    strange = [number for number, entry in enumerate(said, 1) if not isinstance(entry, dict)]
    if strange:
        raise gathered([_fault(file, f"row {number} is not an object") for number in strange], file)
    for number, entry in enumerate(said, 1):
        yield ValueRow(number, dict(_given(entry, f"{file} row {number}")), file)


def _given(entry: Mapping[str, Any], row: str) -> Iterator[tuple[str, Given]]:
    """null is not given; a number with a fraction is the text that stands for it."""
    for name, value in entry.items():
        flat = all(isinstance(entry, str | int) for entry in value) if isinstance(value, list) else True
        if isinstance(value, dict) or not flat:
            raise gathered([_fault(row, f"{name} is neither a text, a number, true, false nor a list")], row)
        if isinstance(value, float):
            yield name, repr(value)
        elif value is not None:
            yield name, value


def _fault(file: str, message: str, action: str | None = None) -> Fault:
    return Fault(Code.INVALID_VAR, message, file=file, suggested_action=action)


def _refused(file: str, message: str, action: str | None) -> RalphError:
    fault = _fault(file, message, action)
    return RalphError(fault.code, f"{file} {message}", faults=[fault], suggested_action=fault.remedy)


def spelled(numbers: Sequence[int]) -> str:
    """`41-57,60`: what --rows takes for these rows."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


@dataclass(frozen=True)
class Recipe:
    """The part of a pour that is the same in every row."""

    formula: Formula
    setting: Setting
    file: str
    """The formula's name in beads: its file from the root, or `formula:<name>` of a shipped one."""
    attached: tuple[Formula, ...] = ()
    wisp: bool = False
    assignee: str | None = None
    handed: FormulaSettings | None = None
    """Who does plain steps, where the pour itself says so."""
    branches: Mapping[str, str] = field(default_factory=dict)
    """The branches of beads outside that steps wait for."""

    @property
    def formulas(self) -> tuple[Formula, ...]:
        return (self.formula, *self.attached)

    @property
    def is_for_agents(self) -> bool:
        """True where agents do the plain steps of one of the formulas."""
        config = self.setting.config
        how = [self.handed or handed_over(config, one.name) for one in self.formulas]
        return any(one.for_agents for one in how)

    def molecule(self, order: FilledRow, number: int) -> Molecule:
        root = root_id(self.formula.name, number)
        place = Place(root, self.file, number, branches=self.branches, label=order.row.label)
        own, *others = order.values
        return compose(
            self.formula,
            own,
            self.setting,
            place,
            wisp=self.wisp,
            assignee=self.assignee,
            attached=list(zip(self.attached, others, strict=True)),
            handed=self.handed,
        )


@dataclass(frozen=True)
class FilledRow:
    """One row, its values checked: those of the formula, then those of each attached one."""

    row: ValueRow
    values: tuple[Values, ...]


# --- values -----------------------------------------------------------------------------------------


def orders(recipe: Recipe, rows: Sequence[ValueRow], common: Mapping[str, Given]) -> list[FilledRow]:
    """Every row with its values, or every fault of every row at once."""
    found: list[FilledRow] = []
    faults: list[Fault] = []
    for row in rows:
        given = {**common, **row.given}
        try:
            own = [{name: given[name] for name in accepted(one) if name in given} for one in recipe.formulas]
            pairs = zip(recipe.formulas, own, strict=True)
            found.append(FilledRow(row, tuple(values(one, said, row=row.label) for one, said in pairs)))
        except RalphError as error:
            faults += error.faults
    faults += _strange_names(recipe.formulas, rows, common)
    if faults:
        raise gathered(faults, rows[0].file or f"the variables of {recipe.formula.name}")
    return found


def _strange_names(
    formulas: Sequence[Formula], rows: Sequence[ValueRow], common: Mapping[str, Given]
) -> list[Fault]:
    """Names that are variables of none of the formulas, each told once."""
    known = list(dict.fromkeys(name for one in formulas for name in accepted(one)))
    strange = {name: "" for name in common if name not in known}
    for row in rows:
        strange |= {name: row.label for name in row.given if name not in known and name not in strange}
    return [unknown_variable(formulas[0], name, known, row or None) for name, row in strange.items()]


# --- molecules --------------------------------------------------------------------------------------


def molecules(recipe: Recipe, ordered: Sequence[FilledRow], first: int) -> list[Molecule]:
    """Compose every row, numbered from `first`; or FORMULA.POUR_FAILED with every fault of it."""
    made: list[Molecule] = []
    unfit: list[Fault] = []
    for number, order in enumerate(ordered, first):
        try:
            made.append(recipe.molecule(order, number))
        except RalphError as error:
            if error.code is Code.FORMULA_UNSUPPORTED:  # whatever the values are
                raise
            unfit += [replace(fault, message=order.row.start + fault.message) for fault in error.faults]
    if unfit:
        raise gathered(unfit, recipe.formula.name)
    faults = [fault for molecule in made for fault in molecule.faults]
    faults += _twice(recipe, ordered, made)
    faults += _clashes(recipe, ordered, made)
    if faults:
        raise refused(recipe, faults)
    return made


def _twice(recipe: Recipe, ordered: Sequence[FilledRow], made: Sequence[Molecule]) -> Iterable[Fault]:
    """Ids that the formula names, and gives to two rows."""
    first: dict[str, str] = {}
    for order, molecule in zip(ordered, made, strict=True):
        for identity in sorted(molecule.given_ids):
            label = first.setdefault(identity, order.row.label)
            if label != order.row.label:
                message = f"{order.row.label}: {identity} is the id of a bead of {label} too"
                yield Fault(Code.DUPLICATE_ID, message, recipe.file, None, "bead_id")


def _clashes(recipe: Recipe, ordered: Sequence[FilledRow], made: Sequence[Molecule]) -> Iterable[Fault]:
    beads: dict[str, Bead] = {}
    for order, molecule in zip(ordered, made, strict=True):
        members = (member for member in molecule.members if isinstance(member, Bead))
        beads |= {order.row.start + bead.id: bead for bead in members}
    for clash in branch_clashes(beads):
        yield Fault(Code.CONSTRAINT, clash.message, recipe.file, None, clash.field, clash.action)


def refused(recipe: Recipe, faults: Sequence[Fault]) -> RalphError:
    """Nothing was written; all that is wrong."""
    many = f" ({len(faults)} faults in all)" if len(faults) > 1 else ""
    message = f"{recipe.formula.name} was not poured: {faults[0].message}{many}"
    return RalphError(Code.POUR_FAILED, message, faults=faults, suggested_action=faults[0].remedy)


# --- there and back ---------------------------------------------------------------------------------


COMPARED: Final = ("title", "description", "issue_type", "priority", "assignee", "labels")


@dataclass(frozen=True)
class Loss:
    """One thing that does not come back as it was."""

    bead: str
    field: str
    wanted: Any
    got: Any


def losses(
    formula: Formula, rows: Sequence[Mapping[str, Given]], instances: Sequence[Instance], setting: Setting
) -> Iterator[Loss]:
    """Every difference between the beads of the instances and what their rows give."""
    for number, (row, instance) in enumerate(zip(rows, instances, strict=True), 1):
        place = Place(root_id(formula.name, number), setting.plan_file, number)
        try:
            molecule = compose(formula, values(formula, row), setting, place)
        except RalphError as refused:
            yield Loss(instance[0]["id"], "variables", "", refused.message)
            continue
        for fault in molecule.faults:
            yield Loss(instance[0]["id"], fault.field or "", "", fault.message)
        poured = {member.id: member.to_json() for member in molecule.members if not isinstance(member, Item)}
        yield from _between(instance, poured)


def _between(instance: Instance, poured: Mapping[str, BeadJson]) -> Iterator[Loss]:
    for bead in instance:
        if bead["id"] not in poured:
            yield Loss(bead["id"], "id", bead["id"], ", ".join(poured) or "no bead")
        else:
            yield from differences(bead, poured[bead["id"]])


def differences(one: BeadJson, other: BeadJson) -> Iterator[Loss]:
    """Where two beads are not the same, times and the place in a molecule aside."""
    for name in COMPARED:
        if one[name] != other[name]:
            yield Loss(one["id"], name, one[name], other[name])
    if set(one["dependencies"]) != set(other["dependencies"]):
        yield Loss(one["id"], "dependencies", one["dependencies"], other["dependencies"])
    for key in dict.fromkeys((*one["metadata"], *other["metadata"])):
        wanted, got = one["metadata"].get(key), other["metadata"].get(key)
        if wanted != got or (key in one["metadata"]) != (key in other["metadata"]):
            yield Loss(one["id"], f"metadata.{key}", wanted, got)
