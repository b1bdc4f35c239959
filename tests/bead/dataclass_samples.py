"""Values of any dataclass, made from the types of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from beads_ralph.bead.json_fields import LISTS

T = TypeVar("T")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    bool: st.booleans(),
    int: st.integers(),
    float: NUMBERS,
    NoneType: st.none(),
    Any: st.recursive(
        st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
        max_leaves=4,
    ),
}


def values_of(kind: type[T]) -> st.SearchStrategy[T]:
    """Every field filled in, but for `extra` and what is never written."""
    types = get_type_hints(kind)
    named = {
        one.name: of_type(types[one.name])
        for one in fields(kind)  # type: ignore[arg-type]
        if one.name != "extra" and "unwritten" not in one.metadata
    }
    return st.builds(kind, **named)


def of_type(wanted: Any) -> st.SearchStrategy[Any]:
    if wanted in SCALARS:
        return SCALARS[wanted]
    arguments = get_args(wanted)
    if get_origin(wanted) in (Union, UnionType):
        return st.one_of([of_type(one) for one in arguments])
    if get_origin(wanted) is Literal:
        return st.sampled_from(arguments)
    if get_origin(wanted) in LISTS:
        return st.lists(of_type(arguments[0]), max_size=3).map(tuple)
    if is_dataclass(wanted) and isinstance(wanted, type):
        return values_of(wanted)
    return st.dictionaries(TEXTS, of_type(arguments[1]), max_size=2)
