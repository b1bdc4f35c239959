"""Texts that vary from one instance to the next, said with the variables that are known already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

PLACEHOLDER: Final = re.compile(r"\{\{[A-Za-z_][A-Za-z0-9_]*\}\}")
SAMPLE: Final = 4
"""How many instances are read side by side; the others only confirm what these say."""
TRIES: Final = 8
MAX_STATES: Final = 20_000
"""Where a text is that ambiguous, a person would not see the pattern either."""


@dataclass(eq=False)
class Variable:
    """A column of values, one for each instance, that becomes a variable of the formula."""

    base: str
    values: Sequence[Any]
    kind: str = "string"
    step: int | None = None
    """The step whose variable it is; None where all steps share it."""
    derive: tuple[str, Variable] | None = None
    """How it follows from another one, so that nobody needs to give it."""
    name: str = ""

    @property
    def placeholder(self) -> str:
        return "{{" + self.name + "}}"


Piece = str | Variable
Template = tuple[Piece, ...]


@dataclass(frozen=True)
class Ingredient:
    """Something that a text may be made of: a variable, or a template made of several."""

    pieces: Template
    values: Sequence[str]


def known(variable: Variable) -> Ingredient:
    return Ingredient((variable,), variable.values)


def macro(pieces: Template, count: int) -> Ingredient:
    return Ingredient(pieces, [filled(pieces, at) for at in range(count)])


def filled(template: Template, at: int) -> str:
    """The text that a template gives for one instance."""
    return "".join(piece if isinstance(piece, str) else str(piece.values[at]) for piece in template)


def text_of(template: Template) -> str:
    """The template as a formula has it."""
    return "".join(piece if isinstance(piece, str) else piece.placeholder for piece in template)


def is_plain(text: str) -> bool:
    """Whether a formula can hold this text as it stands: what looks like a variable would be one."""
    return PLACEHOLDER.search(text) is None


def express(values: Sequence[str], words: Sequence[Ingredient]) -> Template | None:
    """A template that gives every one of the values; None where there is no evident one.

    It is read from a few instances and confirmed on all. One that objects joins the few.
    """
    sample = _spread(len(values))
    for _ in range(TRIES):
        template = _parse([values[at] for at in sample], [_cut(word, sample) for word in words])
        if template is None or not _is_sound(template):
            return None
        wrong = next((at for at, value in enumerate(values) if filled(template, at) != value), None)
        if wrong is None:
            return template
        sample = [*sample, wrong]
    return None


def _spread(count: int) -> list[int]:
    """Instances from the beginning to the end."""
    if count <= SAMPLE:
        return list(range(count))
    return [at * (count - 1) // (SAMPLE - 1) for at in range(SAMPLE)]


def _cut(word: Ingredient, sample: Sequence[int]) -> Ingredient:
    return Ingredient(word.pieces, [word.values[at] for at in sample])


@dataclass(frozen=True)
class _State:
    """How far each value has been read, and by what."""

    at: tuple[int, ...]
    piece: Template = ()
    before: _State | None = None


def _parse(values: Sequence[str], words: Sequence[Ingredient]) -> Template | None:
    """All values read side by side from left to right: the next thing is one word in all of them, or one
    and the same character."""
    words = [word for word in words if all(word.values)]
    end = tuple(map(len, values))
    waiting = [_State((0,) * len(values))]
    seen = set[tuple[int, ...]]()
    while waiting and len(seen) < MAX_STATES:
        state = waiting.pop()
        if state.at == end:
            return _joined(state)
        if state.at in seen:
            continue
        seen.add(state.at)
        waiting.extend(reversed([*_by_word(values, words, state), *_by_character(values, state)]))
    return None


def _by_word(values: Sequence[str], words: Sequence[Ingredient], state: _State) -> Iterator[_State]:
    for word in words:
        if all(map(_stands_alone, values, word.values, state.at)):
            at = tuple(at + len(part) for part, at in zip(word.values, state.at, strict=True))
            yield _State(at, word.pieces, state)


def _stands_alone(value: str, part: str, at: int) -> bool:
    """Whether `part` stands there, and not as a piece of a longer word: `2` is not in `12` nor in `v2`."""
    if not value.startswith(part, at):
        return False
    end = at + len(part)
    before = at > 0 and value[at - 1].isalnum() and part[0].isalnum()
    after = end < len(value) and value[end].isalnum() and part[-1].isalnum()
    return not (before or after)


def _by_character(values: Sequence[str], state: _State) -> Iterator[_State]:
    following = {value[at : at + 1] for value, at in zip(values, state.at, strict=True)}
    if len(following) == 1 and following != {""}:
        yield _State(tuple(at + 1 for at in state.at), tuple(following), state)


def _joined(last: _State) -> Template:
    pieces: list[Piece] = []
    state: _State | None = last
    while state is not None:
        pieces.extend(reversed(state.piece))
        state = state.before
    return merged(tuple(reversed(pieces)))


def merged(pieces: Template) -> Template:
    """The same with neighbouring texts as one."""
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)


def _is_sound(template: Template) -> bool:
    """Whether the formula's reader sees the same variables in it: braces beside one could hide it."""
    shown = "".join(piece if isinstance(piece, str) else "{{v}}" for piece in template)
    spans, at = [], 0
    for piece in template:
        length = len(piece) if isinstance(piece, str) else len("{{v}}")
        if not isinstance(piece, str):
            spans.append((at, at + length))
        at += length
    return [match.span() for match in PLACEHOLDER.finditer(shown)] == spans
