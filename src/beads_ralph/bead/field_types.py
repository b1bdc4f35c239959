"""The kinds of values that fields can have, each with its rule and the words for breaking it."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from beads_ralph.bead import json_rules
from beads_ralph.bead.json_rules import JsonRule
from beads_ralph.bead.words import moment_of

PHASE_PATTERN: Final = r"^\d+[a-z]*$"
SPRINT_PATTERN: Final = r"^\d+[a-z]*\.\d+[a-z]*$"
BRANCH_PATTERN: Final = r"^[a-zA-Z0-9/_-]+$"

SPACE: Final = 0x20
DELETE: Final = 0x7F
SHOWN_LENGTH: Final = 60
MAX_DEPTH: Final = 100  # no bead is that deep, and deeper ones cannot be written back
MAX_ID_LENGTH: Final = 200  # ids become file names and database keys


def pattern_fault(pattern: str) -> PydanticCustomError:
    return PydanticCustomError("pattern", "must match pattern {pattern}", {"pattern": pattern})


def constraint_fault(message: str, field: str = "") -> PydanticCustomError:
    """A broken rule; `field` is added to the path where a rule of the whole model blames one field."""
    return PydanticCustomError("constraint", "{message}", {"message": message, "field": field})


def storable_fault(problem: ValueError, field: str = "") -> PydanticCustomError:
    """A value that no store can keep, whatever its type."""
    return PydanticCustomError("storable", "{message}", {"message": str(problem), "field": field})


def _matching(pattern: str) -> AfterValidator:
    """A string that matches all of `pattern`, with `\\d` meaning the ten ASCII digits."""
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"), re.ASCII)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise pattern_fault(pattern)
        return value

    return AfterValidator(check)


def one_of(shapes: str) -> WrapValidator:
    """One fault, at the field itself, where a value has none of several shapes."""

    def check(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError:
            raise PydanticCustomError("shape", "should be {shapes}", {"shapes": shapes}) from None

    return WrapValidator(check)


def _filled(value: str) -> str:
    if not value.strip():
        raise constraint_fault("must not be empty")
    return value


def _safe_id(value: str) -> str:
    """Ids become file names and command arguments, so they must not be able to leave their place."""
    if not value.strip():
        raise constraint_fault("must not be empty")
    if any(part in value for part in ("/", "\\", "..")) or value.startswith("-"):
        raise constraint_fault("must not contain '/', '\\' or '..' nor start with '-'")
    if len(value) > MAX_ID_LENGTH or any(char.isspace() or not char.isprintable() for char in value):
        raise constraint_fault(f"must be at most {MAX_ID_LENGTH} printable characters without spaces")
    return value


def _git_branch(value: str) -> str:
    """The rules of git check-ref-format, and no name that a command could take for a flag."""
    parts = value.split("/")
    wrong = (
        value.startswith("-")
        or value in ("@", "HEAD")
        or any(not part or part.startswith(".") or part.endswith((".", ".lock")) for part in parts)
        or ".." in value
        or "@{" in value
        or any(char in "~^:?*[\\" or ord(char) <= SPACE or ord(char) == DELETE for char in value)
    )
    if wrong:
        raise constraint_fault("is not a name that git accepts for a branch")
    return value


def is_absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


def _absolute(value: str) -> str:
    if not is_absolute(value) or "\0" in value:
        raise constraint_fault("must be an absolute path")
    return value


def _time_text(value: Any) -> Any:
    """A time of Python's as we write times; one without a zone is in UTC, as in a text."""
    if not isinstance(value, datetime):
        return value
    try:
        moment = value.astimezone(UTC) if value.tzinfo else value
    except OverflowError:
        return str(value)  # which is refused as any such time is
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _timestamp(value: str) -> str:
    try:
        moment_of(value).astimezone(UTC)
    except (ValueError, OverflowError):  # a time at the edge of the calendar may have none in UTC
        raise constraint_fault("must be an ISO 8601 time such as 2026-02-07T10:00:00Z") from None
    return value


def _prose(value: str) -> str:
    if not is_text(value):
        raise constraint_fault("must not hold half of a surrogate pair")
    return value


def _word(value: str) -> str:
    if "\0" in value:
        raise constraint_fault("must not hold a null character")
    return value


Prose = Annotated[str, AfterValidator(_prose)]
Word = Annotated[Prose, AfterValidator(_word), JsonRule(pattern=json_rules.NO_NULL)]
"""A text that becomes an argument of a command or the name of a file."""
Filled = Annotated[str, AfterValidator(_filled), Field(min_length=1), JsonRule(pattern=json_rules.FILLED)]
BeadId = Annotated[
    str,
    AfterValidator(_safe_id),
    Field(min_length=1, max_length=MAX_ID_LENGTH),
    JsonRule(pattern=json_rules.BEAD_ID),
]
PhaseText = Annotated[str, _matching(PHASE_PATTERN), JsonRule(pattern=json_rules.PHASE)]
SprintText = Annotated[str, _matching(SPRINT_PATTERN), JsonRule(pattern=json_rules.SPRINT)]
BranchName = Annotated[
    str, _matching(BRANCH_PATTERN), AfterValidator(_git_branch), JsonRule(pattern=json_rules.BRANCH)
]
SourceBranch = Annotated[
    str,
    AfterValidator(_filled),
    AfterValidator(_git_branch),
    Field(min_length=1),
    JsonRule(pattern=json_rules.SOURCE_BRANCH),
]
AbsolutePath = Annotated[
    str, AfterValidator(_filled), AfterValidator(_absolute), JsonRule(pattern=json_rules.ABSOLUTE_PATH)
]
Timestamp = Annotated[
    str,
    BeforeValidator(_time_text),
    AfterValidator(_timestamp),
    JsonRule(format="date-time", pattern=json_rules.TIMESTAMP),
]
"""An ISO 8601 time; Python's own times are taken, too."""
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


def require_storable(value: Any) -> None:
    """Raise ValueError for what JSON text can say but no store can keep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        for item in level:
            if isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number is too large")
            if isinstance(item, str) and not is_text(item):
                raise ValueError(f"half of a surrogate pair in {ascii(item)[:SHOWN_LENGTH]}")
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _inside(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [*item, *item.values()]
    return item if isinstance(item, list) else []


class FrozenModel(BaseModel):
    """Strictly typed and frozen; keys it does not know are kept, never dropped."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", defer_build=True)

    def to_json(self) -> dict[str, Any]:
        """Exactly the keys that were given, so that reading and writing changes nothing."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)
