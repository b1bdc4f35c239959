"""Frozen dataclasses as JSON objects, and back.

What an older version did not write gets its default; what a later one writes besides is kept in `extra`,
where a class has that. A value of another type is a FieldError, which names its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from dataclasses import field as dataclass_field
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
EXTRA: Final = "extra"
Argument = Annotated[str, "argument"]
"""A text that becomes an argument of a command or the name of a file."""
Moment = Annotated[str, "moment"]
"""An ISO 8601 time."""
SCALARS: Final[Mapping[Any, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
}


LISTS: Final = (tuple, Sequence)


class FieldError(ValueError):
    """A key whose value is not of the type that it should be."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}" if key else problem)
        self.key = key
        self.problem = problem


def seldom(default: T) -> T:
    """A field that is only written where it says something else than its default."""
    found: T = dataclass_field(default=default, metadata={"seldom": True})
    return found


def unwritten(default: T) -> T:
    """A field that is never written: whoever listens has it, whoever reads finds the default."""
    found: T = dataclass_field(default=default, metadata={"unwritten": True})
    return found


# --- writing ------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Plain JSON; of a dataclass, its fields in their order, and what it has in `extra` after them."""
    if is_dataclass(value) and not isinstance(value, type):
        written = (one for one in fields(value) if _is_written(one, getattr(value, one.name)))
        row = {one.name: to_json(getattr(value, one.name)) for one in written}
        return {**row, **getattr(value, EXTRA, {})}
    if isinstance(value, Mapping):
        return {key: to_json(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(one) for one in value]
    return value


def _is_written(one: Field[Any], value: Any) -> bool:
    if one.name == EXTRA or "unwritten" in one.metadata:
        return False
    return "seldom" not in one.metadata or value != one.default


# --- reading ------------------------------------------------------------------------------------------


def from_json(kind: type[T], row: Mapping[str, Any]) -> T:
    """The object that was written as `row`, by this version or another one."""
    known = {one.name: one for one in fields(kind) if one.name != EXTRA}  # type: ignore[arg-type]
    said = {name: _field(kind, one, row) for name, one in known.items() if "unwritten" not in one.metadata}
    if EXTRA in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        said[EXTRA] = {key: value for key, value in row.items() if key not in known}
    return kind(**said)


def _field(kind: type, one: Field[Any], row: Mapping[str, Any]) -> Any:
    wanted, raw = _types(kind)[one.name], row.get(one.name)
    if raw is None and not (one.name in row and NoneType in get_args(wanted)):
        if one.default is not MISSING:
            return one.default
        return one.default_factory() if one.default_factory is not MISSING else _nothing(wanted, one.name)
    return decoded(wanted, raw, one.name)


@cache
def _types(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _nothing(wanted: Any, key: str) -> Any:
    """What stands for a value that was never written."""
    if NoneType in get_args(wanted):
        return None
    if wanted in SCALARS:
        return wanted()
    if get_origin(wanted) in LISTS:
        return ()
    if is_dataclass(wanted) and isinstance(wanted, type):
        return from_json(wanted, {})
    raise FieldError(key, "is missing")


def decoded(wanted: Any, raw: Any, key: str) -> Any:
    """A value of that type; `key` is where it stands."""
    if wanted is Any:
        return raw
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return _one_of(get_args(wanted), raw, key)
    if origin is Literal:
        return _required(raw, key, isinstance(raw, str) and raw in get_args(wanted))
    if origin in LISTS:
        _required(raw, key, isinstance(raw, list | tuple))
        return tuple(decoded(get_args(wanted)[0], one, f"{key}.{at}") for at, one in enumerate(raw))
    if wanted in SCALARS:
        fits = isinstance(raw, SCALARS[wanted]) and (wanted is bool or not isinstance(raw, bool))
        return _required(raw, key, fits)
    _required(raw, key, isinstance(raw, Mapping))
    return _object(wanted, raw, key)


def _object(wanted: Any, raw: Mapping[str, Any], key: str) -> Any:
    if is_dataclass(wanted) and isinstance(wanted, type):
        try:
            return from_json(wanted, raw)
        except FieldError as wrong:
            raise FieldError(f"{key}.{wrong.key}", wrong.problem) from None
    values = get_args(wanted)[1]
    return {name: decoded(values, one, f"{key}.{name}") for name, one in raw.items()}


def _one_of(kinds: Sequence[Any], raw: Any, key: str) -> Any:
    if raw is None and NoneType in kinds:
        return None
    first, *others = (kind for kind in kinds if kind is not NoneType)
    for kind in others:
        try:
            return decoded(kind, raw, key)
        except FieldError:
            continue
    return decoded(first, raw, key)


def _required(raw: Any, key: str, fits: bool) -> Any:
    if not fits:
        raise FieldError(key, f"cannot be {raw!r:.80}")
    return raw
