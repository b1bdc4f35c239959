"""A formula → the text of its file, JSON or TOML, as bd reads it too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from beads_ralph.errors import Code, RalphError

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


def null_in(value: Any, path: str = "") -> str | None:
    """Where the first null stands, which JSON can say and TOML cannot; None where there is none."""
    if value is None:
        return path
    inner: Sequence[tuple[str, Any]] = ()
    if isinstance(value, Mapping):
        inner = [(f"{path}.{key}" if path else str(key), entry) for key, entry in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{at}]", entry) for at, entry in enumerate(value)]
    return next((found for place, entry in inner if (found := null_in(entry, place)) is not None), None)


# --- TOML -------------------------------------------------------------------------------------------


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    """The plain values of a table first, since a header ends it; then the tables inside."""
    for key, value in table.items():
        if not _is_table(value) and not _is_tables(value):
            yield f"{_key(key)} = {_value(value, (*path, key))}"
    for key, value in table.items():
        below = (*path, key)
        header = ".".join(map(_key, below))
        if _is_table(value):
            yield from _section(f"[{header}]", below, value)
        elif _is_tables(value):
            for entry in value:
                yield from ("", f"[[{header}]]", *_table(below, entry))


def _section(header: str, path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    """Without a header of its own where it holds tables alone."""
    if not table or any(not _is_table(value) and not _is_tables(value) for value in table.values()):
        yield from ("", header)
    yield from _table(path, table)


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
    if "\n" not in text:
        return f"'{text}'" if _reads_as_it_is(text) else _basic(text)
    escaped = CLOSING.sub(r'\\"', _escaped(text.replace("\\", "\\\\")))
    return f'"""\n{escaped}"""'


def _reads_as_it_is(text: str) -> bool:
    """Patterns read best without escapes."""
    return "\\" in text and "'" not in text and CONTROL.search(text) is None


def _basic(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{_escaped(escaped)}"'


def _escaped(text: str) -> str:
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
