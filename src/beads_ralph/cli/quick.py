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
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from beads_ralph.cli import bead_names
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import COMMANDS, Command, refuse_agents

QUICK: Final = ("list", "ready", "run", "show", "status")
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
        said = parsed(found, words[1:])
    except NotPlainError:
        return None
    return partial(_called, found, said, words[0] if row.changes else "")


def _called(command: Callable[..., Answer], said: Mapping[str, Any], changing: str) -> Answer:
    if changing:
        refuse_agents(changing)
    return bead_names.call(command, said)


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
        if not (name or expected.repeats) and expected.key in said:
            raise NotPlainError
        text = value if equals else name if expected.kind is bool else next(rest, "")
        said.setdefault(expected.key, []).append(_value(expected, text))
    if any(one.required and one.key not in said for one in known.values()):
        raise NotPlainError
    repeated = {one.key for one in known.values() if one.repeats}
    return {key: values if key in repeated else values[-1] for key, values in said.items()}


@dataclass(frozen=True)
class ExpectedWord:
    """One option or argument of a command."""

    key: str
    kind: Any
    repeats: bool
    settings: Mapping[str, Any]
    required: bool
    refused: str = ""
    """The name by which a flag is said not to be."""


def _expected(command: Callable[..., Answer]) -> dict[str, ExpectedWord]:
    """By each of its names; an argument has none."""
    found: dict[str, ExpectedWord] = {}
    hints = get_type_hints(command, include_extras=True)
    for key, parameter in signature(command).parameters.items():
        kind, said = get_args(hints[key])
        if get_origin(kind) in (Union, UnionType):
            (kind,) = (one for one in get_args(kind) if one is not NoneType)
        repeats = get_origin(kind) is list
        needed = not said.names and parameter.default is Parameter.empty
        names = [name for both in said.names for name in both.split("/")]
        refused = next((both.partition("/")[2] for both in said.names if "/" in both), "")
        inner = get_args(kind)[0] if repeats else kind
        one = ExpectedWord(key, inner, repeats, said.settings, needed, refused)
        found |= dict.fromkeys(names or ("",), one)
    return found


def _value(expected: ExpectedWord, text: str) -> Any:
    kind = expected.kind
    if kind is bool:
        return text != expected.refused
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
