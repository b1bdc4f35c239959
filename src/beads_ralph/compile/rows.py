"""Files of values: one pour a row, from CSV or JSON; numbered as people count them."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead import schema
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files.text_files import MAX_BYTES
from beads_ralph.formula.variables import Given

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
        message = f"--rows {text!r} is no range of rows"
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
    _check_header(names, file)
    for number, cells in records:
        filled = dict(enumerate(cells))
        stray = [at for at, cell in filled.items() if cell.strip() and (at >= len(names) or not names[at])]
        if stray:
            message = f"row {number} has a cell without a heading: {cells[stray[0]]!r}"
            raise _refused(file, message, "Quote a value that holds a comma, or name the column")
        given = {name: cells[at] for at, name in enumerate(names) if name and at < len(cells) and cells[at]}
        if any(cells):
            yield ValueRow(number, given, file)


def _records(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with its number, empty lines counted too."""
    csv.field_size_limit(MAX_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        yield from enumerate(reader, 1)
    except csv.Error as problem:
        raise _refused(file, f"cannot be read near line {reader.line_num}: {problem}", None) from None


def _check_header(names: Sequence[str], file: str) -> None:
    twice = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if twice:
        raise _refused(file, f"has the column {twice[0]} twice", "Keep one of the two")


# --- JSON -------------------------------------------------------------------------------------------


def _json_rows(text: str, file: str) -> Iterator[ValueRow]:
    try:
        said = schema.load_json(text)
    except RalphError as problem:
        raise _refused(file, f"is {problem.message}", "Write an array of objects, one a pour") from None
    if not isinstance(said, list):
        raise _refused(file, "is no array", "Write an array of objects, one a pour")
    faults = [
        _fault(file, f"row {number} is no object")
        for number, entry in enumerate(said, 1)
        if not isinstance(entry, dict)
    ]
    if faults:
        raise gathered(faults, file)
    for number, entry in enumerate(said, 1):
        yield ValueRow(number, dict(_given(entry, f"{file} row {number}")), file)


def _given(entry: Mapping[str, Any], row: str) -> Iterator[tuple[str, Given]]:
    """null is not given; a number with a fraction is the text that stands for it."""
    for name, value in entry.items():
        if isinstance(value, dict) or (isinstance(value, list) and not _is_flat(value)):
            raise gathered([_fault(row, f"{name} is neither a text, a number, true, false nor a list")], row)
        if isinstance(value, float):
            yield name, repr(value)
        elif value is not None:
            yield name, value


def _is_flat(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str | int) for value in values)


def _fault(file: str, message: str, action: str | None = None) -> Fault:
    return Fault(Code.INVALID_VAR, message, file=file, suggested_action=action)


def _refused(file: str, message: str, action: str | None) -> RalphError:
    fault = _fault(file, message, action)
    return RalphError(
        fault.code, f"{file} {message}", faults=[fault], suggested_action=action or fault.remedy
    )


def spelled(numbers: Sequence[int]) -> str:
    """`41-57,60`: what --rows takes for these rows."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
