"""A formula's file, TOML or JSON: its text → a Formula or every fault of its form; and back to text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from beads_ralph.bead import schema
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.formula.model import READERS_OWN, Formula, Place, leaves, shown

MAX_BYTES: Final = 4 * 1024 * 1024
LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")
BOM: Final = "\ufeff"


@dataclass(frozen=True)
class Read:
    """The content of one file; `formula` is None where it has faults."""

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
    """Read the text of a file; its name tells TOML from JSON."""
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
    reasons += ["bd does not treat its inputs as variables"] if raw.get("inputs") and formula.vars else []
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
    """Forms of variables that we take and bd does not."""
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
        as_json = json.dumps(value, default=lambda moment: moment.isoformat(), ensure_ascii=False)
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
    return _fault(file, path, f"{said} (found {shown(error['input'])})")


def field_path(parts: Iterable[int | str]) -> str:
    """`steps[2].needs[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _fault(file: Path, path: str, message: str) -> Fault:
    said = f"{path}: {message}" if path else message
    return Fault(Code.FORMULA_INVALID, said, file=str(file), field=path)


# --- back to text -----------------------------------------------------------------------------------


Format = Literal["toml", "json"]
BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
CLOSING: Final = re.compile(r'"(?="")|"\Z')
"""Quotes that would end a text of several lines too early."""
WIDE: Final = 100


def dumps(formula: Mapping[str, Any], form: Format) -> str:
    if form == "json":
        return json.dumps(formula, indent=2, ensure_ascii=False) + "\n"
    return "\n".join(_table((), formula)).lstrip("\n") + "\n"


def null_in(value: Any) -> str | None:
    """Where the first null stands, which JSON can say and TOML cannot; None where there is none."""
    return next((path.removeprefix(".") for path, leaf in leaves(value, "") if leaf is None), None)


# --- TOML -------------------------------------------------------------------------------------------


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    """The plain values of a table first, since a header ends it; then the tables inside."""
    for key, value in table.items():
        if not _is_table(value) and not _is_tables(value):
            yield f"{_key(key)} = {_value(value, (*path, key))}"
    for key, value in table.items():
        below = (*path, key)
        header = ".".join(map(_key, below))
        if _is_table(value):  # without a header of its own where it holds tables alone
            if not value or not all(_is_table(entry) or _is_tables(entry) for entry in value.values()):
                yield from ("", f"[{header}]")
            yield from _table(below, value)
        elif _is_tables(value):
            for entry in value:
                yield from ("", f"[[{header}]]", *_table(below, entry))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_table(entry) for entry in value)


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _basic(key)


def _value(value: Any, path: Sequence[str]) -> str:
    if value is None:
        message = f"{'.'.join(path)} is null, which TOML cannot say"
        raise RalphError(Code.FORMULA_INVALID, message, suggested_action="Write it with --format json")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return _array([_value(entry, path) for entry in value])
    if isinstance(value, Mapping):  # among other values of a list
        inner = (f"{_key(key)} = {_value(entry, (*path, key))}" for key, entry in value.items())
        return f"{{ {', '.join(inner)} }}" if value else "{}"
    return json.dumps(value)


def _array(entries: Sequence[str]) -> str:
    line = f"[{', '.join(entries)}]"
    if len(line) <= WIDE and "\n" not in line:
        return line
    return "[\n" + "".join(f"  {entry},\n" for entry in entries) + "]"


def _text(text: str) -> str:
    if "\n" not in text:  # patterns read best without escapes
        as_it_is = "\\" in text and "'" not in text and CONTROL.search(text) is None
        return f"'{text}'" if as_it_is else _basic(text)
    escaped = CLOSING.sub(r'\\"', _escaped(text.replace("\\", "\\\\")))
    return f'"""\n{escaped}"""'


def _basic(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{_escaped(escaped)}"'


def _escaped(text: str) -> str:
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# --- rows of values ---------------------------------------------------------------------------------


SPECIAL: Final = re.compile(r'[,"\r\n]|^\s|\s$')


def sheet(rows: Sequence[Mapping[str, Any]], form: Literal["csv", "json"]) -> str:
    """The rows as `pour --vars-file` reads them."""
    if form == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
    names = list(rows[0])
    lines = [names, *([cell(row[name]) for name in names] for row in rows)]
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines)


def _quoted(text: str) -> str:
    """The csv module leaves a lone carriage return bare, and cannot read it back."""
    return '"' + text.replace('"', '""') + '"' if SPECIAL.search(text) else text


def cell(value: Any) -> str:
    """A value as text: a list is its lines, or a JSON array where its lines would say something else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, list | tuple):
        return str(value)
    lines = "\n".join(value)
    readable = [line.strip() for line in lines.splitlines() if line.strip()]
    is_plain = readable == list(value) and not lines.startswith("[")
    return lines if is_plain else json.dumps(list(value), ensure_ascii=False)
