"""The commands that people call all day, parsed without typer, whose import alone takes longer than they do.

Only what is plain to see is understood here: known options in full, each with a value that fits. Whatever is
not (--help, a slip, a completion) is left to typer, so that its answers stay the same. What the options are
is written down once, at the commands themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import COMMANDS, Command

QUICK: Final = ("list", "ready", "show", "status")
COMPLETING: Final = "_BEADS_RALPH_COMPLETE"


class NotPlainError(Exception):
    """These words are typer's."""


def understood(words: Sequence[str]) -> Callable[[], Answer] | None:
    """The command that these words call, with its options; None where typer has to be asked."""
    row = COMMANDS.get(words[0]) if words and words[0] in QUICK else None
    if not isinstance(row, Command) or COMPLETING in os.environ:
        return None
    module, _, function = row.target.partition(":")
    found: Callable[..., Answer] = getattr(import_module(f"beads_ralph.cli.{module}"), function)
    try:
        return partial(found, **parsed(found, words[1:]))
    except NotPlainError:
        return None


def parsed(command: Callable[..., Answer], words: Sequence[str]) -> dict[str, Any]:
    """The values that a command is called with."""
    known = _expected(command)
    said: dict[str, list[Any]] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=") if word.startswith("-") else ("", "=", word)
        expected = known.get(name)
        if expected is None or (expected.kind is bool and equals):
            raise NotPlainError
        text = value if equals or expected.kind is bool else next(rest, "")
        said.setdefault(expected.key, []).append(_value(expected, text))
    if any(one.required and one.key not in said for one in known.values()):
        raise NotPlainError
    repeated = {one.key for one in known.values() if one.repeats}
    return {key: values if key in repeated else values[-1] for key, values in said.items()}


@dataclass(frozen=True)
class Expected:
    """One option or argument of a command."""

    key: str
    kind: Any
    repeats: bool
    settings: Mapping[str, Any]
    required: bool


def _expected(command: Callable[..., Answer]) -> dict[str, Expected]:
    """By each of its names; an argument has none."""
    found: dict[str, Expected] = {}
    for key, hint in get_type_hints(command, include_extras=True).items():
        if key == "return":
            continue
        kind, said = get_args(hint)
        if get_origin(kind) in (Union, UnionType):
            (kind,) = (one for one in get_args(kind) if one is not NoneType)
        repeats = get_origin(kind) is list
        one = Expected(
            key, get_args(kind)[0] if repeats else kind, repeats, said.settings, required=not said.names
        )
        found |= dict.fromkeys(said.names or ("",), one)
    return found


def _value(expected: Expected, text: str) -> Any:
    kind = expected.kind
    if kind is bool:
        return True
    fits = bool(text) and not text.startswith("-")
    if kind is int:
        fits = fits and text.isascii() and text.isdigit() and int(text) >= expected.settings["min"]
    elif kind is Path:
        fits = fits and (not os.path.lexists(text) or os.access(text, os.R_OK))
    elif get_origin(kind) is Literal:
        fits = text in get_args(kind)
    elif issubclass(kind, Enum):
        fits = text in {one.value for one in kind}
    if not fits:
        raise NotPlainError
    return text if get_origin(kind) is Literal else kind(text)
