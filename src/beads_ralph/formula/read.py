"""One formula file → a Formula, or every fault of its form."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from beads_ralph.bead import schema
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.formula.model import READERS_OWN, Formula, Place

MAX_BYTES: Final = 4 * 1024 * 1024
LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")
BOM: Final = "\ufeff"
SHOWN: Final = 60


@dataclass(frozen=True)
class Read:
    """What one file says; `formula` is None where it has faults."""

    formula: Formula | None
    faults: tuple[Fault, ...] = ()


def read(file: Path, place: Place | None = None) -> Read:
    """Read a file; what it extends is left alone."""
    try:
        text = text_files.read_text(file, MAX_BYTES)
    except RalphError as error:
        return Read(None, (Fault(error.code, error.message, suggested_action=error.suggested_action),))
    return read_text(text, file, place)


def read_text(text: str, file: Path, place: Place | None = None) -> Read:
    """What a file of this text says; its name tells TOML from JSON."""
    try:
        raw = _toml(text, file) if file.name.endswith(".toml") else _json(text, file)
    except RalphError as error:
        return Read(None, error.faults)
    return parse(raw, file, place, bom=text.startswith(BOM))


def parse(raw: Any, file: Path, place: Place | None = None, *, bom: bool = False) -> Read:
    """The value of a file → a formula."""
    if not isinstance(raw, dict):
        return Read(None, (_fault(file, "", "a formula must be an object with keys"),))
    said = {key: value for key, value in _without_null(raw).items() if key not in READERS_OWN}
    said |= _null_variables(raw, said)
    try:
        formula = Formula.model_validate(said)
    except ValidationError as problem:
        return Read(None, tuple(_in_words(error, file) for error in problem.errors(include_url=False)))
    reasons = ["its file begins with a byte order mark, which bd cannot read"] if bom else []
    reasons += _beyond_bd(raw.get("vars") or {}, is_json=not file.name.endswith(".toml"))
    told = {"file": file, "place": place, "only_here": tuple(reasons)}
    return Read(formula.model_copy(update=told))


def _without_null(value: Any, key: str = "") -> Any:
    """A key without a value is one that is not there, but for what is kept as it stands."""
    if isinstance(value, dict) and key != "metadata":
        return {name: _without_null(inner, name) for name, inner in value.items() if inner is not None}
    return [_without_null(inner, key) for inner in value] if isinstance(value, list) else value


def _null_variables(raw: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """A variable without anything is one all the same."""
    variables = raw.get("vars")
    if not isinstance(variables, dict) or None not in variables.values():
        return {}
    return {"vars": {name: said["vars"].get(name, {}) for name in variables}}


def _beyond_bd(variables: Mapping[str, Any], *, is_json: bool) -> Iterator[str]:
    """How variables may be written here and not for bd."""
    for name, said in variables.items():
        if said is None:
            yield f"vars.{name} is null, on which bd stops"
        elif not isinstance(said, dict):
            if is_json or not isinstance(said, str):
                yield f"vars.{name} is a bare value, which bd takes only as a text in TOML"
        elif not all(isinstance(word, str) for word in (said.get("default", ""), *said.get("enum", ()))):
            yield f"vars.{name} has a number or a boolean, for which bd wants a text"


# --- syntax -----------------------------------------------------------------------------------------


def _toml(text: str, file: Path) -> Any:
    try:
        value = tomllib.loads(text.removeprefix(BOM))
        as_json = json.dumps(value, default=_moment, ensure_ascii=False)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        said = str(problem)
        found = LINE.search(said)
        line = int(found[1]) if found else text.count("\n") + 1
        raise _syntax(file, f"not valid TOML: {LINE.sub('', said).strip()}", line) from None
    try:
        return schema.load_json(as_json)  # the same limits: no infinity, no endless nesting
    except RalphError as error:
        said = error.faults[0].message.removeprefix("not valid JSON: ")
        raise _syntax(file, said.replace(" is not JSON", " cannot be kept"), None) from None


def _moment(value: Any) -> str:
    """TOML knows dates and times."""
    return str(value.isoformat())


def _json(text: str, file: Path) -> Any:
    try:
        return schema.load_json(text.removeprefix(BOM))
    except RalphError as error:
        empty = not text.removeprefix(BOM).strip()
        first = error.faults[0]
        raise _syntax(file, "the file is empty" if empty else first.message, first.line) from None


def _syntax(file: Path, message: str, line: int | None) -> RalphError:
    fault = Fault(Code.FORMULA_INVALID, message, file=str(file), line=line)
    return RalphError(Code.FORMULA_INVALID, str(fault), faults=[fault])


# --- faults -----------------------------------------------------------------------------------------


def _in_words(error: ErrorDetails, file: Path) -> Fault:
    """`steps[2].needs[0]: should be a valid string (found 3)`."""
    path = field_path(error["loc"])
    if error["type"] == "missing":
        return _fault(file, path, "is required")
    said = re.sub(r"^(Input|List|String|Value error,) ", "", error["msg"])
    found = json.dumps(error["input"], ensure_ascii=False, default=str)
    return _fault(file, path, f"{said} (found {found if len(found) <= SHOWN else found[:SHOWN] + '…'})")


def field_path(parts: Iterable[int | str]) -> str:
    """`steps[2].needs[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _fault(file: Path, path: str, message: str) -> Fault:
    said = f"{path}: {message}" if path else message
    return Fault(Code.FORMULA_INVALID, said, file=str(file), field=path)
