"""The patterns of variables, matched in a time that no pattern can blow up.

Patterns come out of files of strangers, and Python's own matcher can take for ever on a short one. That of
pydantic cannot: it looks for all ways at once, as Go's does, which bd uses. Both have one language, but for
the few escapes that are translated here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

LONGEST: Final = 2000
"""Characters of a pattern."""
SHOWN: Final = 60
ESCAPE: Final = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.", re.DOTALL)
MEANING: Final = {
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": "[0-9A-Za-z_]",
    r"\W": "[^0-9A-Za-z_]",
    r"\s": r"[\t\n\f\r ]",
    r"\S": r"[^\t\n\f\r ]",
    r"\b": r"(?-u:\b)",
}
"""What Go takes for ASCII alone, and the other matcher for any script."""


def fault(pattern: str) -> str | None:
    """Why a text is no pattern that can be used, None where it is one."""
    if len(pattern) > LONGEST:
        return f"it has {len(pattern)} characters, and at most {LONGEST} are allowed"
    try:
        _matcher(pattern)
    except SchemaError as problem:
        return str(problem).rpartition("error: ")[2].rpartition("SchemaError: ")[2].strip()
    return None


def refusal(pattern: str, text: str) -> str | None:
    """Why a value is not one that the pattern allows: some part of it must match, as in Go."""
    broken = fault(pattern)
    if broken is not None:
        return f"has a pattern that cannot be used: {broken}"
    try:
        _matcher(pattern).validate_python(text)
    except ValidationError:
        return f"must match {pattern}, not be {text if len(text) <= SHOWN else text[:SHOWN] + '…'!r}"
    return None


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, Field(pattern=ESCAPE.sub(_translated, pattern))])


def _translated(escape: re.Match[str]) -> str:
    if escape["quoted"] is not None:
        return re.escape(escape["quoted"])
    return MEANING.get(escape[0], escape[0])
