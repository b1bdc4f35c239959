"""Values for many pours → the text of a file of rows, CSV or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

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
