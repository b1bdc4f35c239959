"""The patterns of variables, matched in a time that no pattern can blow up.

Patterns come out of files of strangers, and Python's own matcher can take for ever on a short one. So
they are matched as Go does it, which is what bd does: all ways at once, character by character.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from beads_ralph.formula.regex_syntax import (
    Choice,
    Edge,
    One,
    PatternError,
    Repeat,
    Row,
    Test,
    Tree,
    is_word,
    parse,
)

LONGEST: Final = 2000
"""Characters of a pattern."""
LARGEST: Final = 10_000
"""States of a pattern, which counts such as `{1000}` multiply."""
MOST_WORK: Final = 20_000_000
"""States times characters of one match: some seconds at the very most."""


def fault(pattern: str) -> str | None:
    """Why a text is no pattern that can be used, None where it is one."""
    try:
        _compiled(pattern)
    except PatternError as problem:
        return str(problem)
    return None


def refusal(pattern: str, text: str) -> str | None:
    """Why a value is not one that the pattern allows: some part of it must match, as in Go."""
    try:
        machine = _compiled(pattern)
    except PatternError as problem:
        return f"has a pattern that cannot be used: {problem}"
    if len(machine.states) * len(text) > MOST_WORK:
        return f"is too long to be checked against its pattern ({len(text)} characters)"
    return None if machine.finds(text) else f"must match {pattern}, not be {_shown(text)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


SHOWN: Final = 60


@dataclass(frozen=True)
class State:
    """Where a match can stand: it goes on with a character, at an edge, or at once; or it is done."""

    test: Test | None = None
    edge: str = ""
    ways: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Machine:
    """All states of a pattern; it begins in `start`, and has matched in `end`."""

    states: Sequence[State]
    start: int
    end: int

    def finds(self, text: str) -> bool:
        """Whether some part of the text matches."""
        current: set[int] = set()
        for at in range(len(text) + 1):
            current = self._reached({*current, self.start}, text, at)
            if self.end in current:
                return True
            if at < len(text):
                current = self._stepped(current, text[at])
        return False

    def _stepped(self, current: Iterable[int], char: str) -> set[int]:
        found: set[int] = set()
        for number in current:
            state = self.states[number]
            if state.test is not None and state.test(char):
                found.update(state.ways)
        return found

    def _reached(self, current: Iterable[int], text: str, at: int) -> set[int]:
        """Where one gets without another character."""
        found, left = set[int](), list(current)
        while left:
            number = left.pop()
            if number in found:
                continue
            found.add(number)
            state = self.states[number]
            if state.test is None and (not state.edge or _holds(state.edge, text, at)):
                left += state.ways
        return found


def _holds(edge: str, text: str, at: int) -> bool:
    if edge in "bB":
        before, after = at > 0 and is_word(text[at - 1]), at < len(text) and is_word(text[at])
        return (before is not after) is (edge == "b")
    if edge in "A^":
        return at == 0 or (edge == "^" and text[at - 1] == "\n")
    return at == len(text) or (edge == "$" and text[at] == "\n")


# --- a tree → a machine -----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Machine:
    if len(pattern) > LONGEST:
        raise PatternError(f"is longer than {LONGEST} characters")
    building = _Building()
    end = building.state(State())
    return Machine(building.states, building.before(parse(pattern), end), end)


class _Building:
    """Built backwards: each part knows what comes after it."""

    def __init__(self) -> None:
        self.states: list[State] = []

    def state(self, state: State) -> int:
        if len(self.states) >= LARGEST:
            raise PatternError("is too large: its counts multiply")
        self.states.append(state)
        return len(self.states) - 1

    def before(self, tree: Tree, after: int) -> int:
        """The state in which the tree begins, where `after` is the one behind it."""
        if isinstance(tree, One):
            return self.state(State(test=tree.test, ways=[after]))
        if isinstance(tree, Edge):
            return self.state(State(edge=tree.kind, ways=[after]))
        if isinstance(tree, Choice):
            return self.state(State(ways=[self.before(option, after) for option in tree.options]))
        if isinstance(tree, Row):
            for part in reversed(tree.parts):
                after = self.before(part, after)
            return after
        return self.repeated(tree, after)

    def repeated(self, tree: Repeat, after: int) -> int:
        if tree.most is None:
            again = self.state(State(ways=[after]))
            self.states[again].ways.append(self.before(tree.part, again))
            after = again
        for _ in range((tree.most or tree.least) - tree.least):
            after = self.state(State(ways=[after, self.before(tree.part, after)]))
        for _ in range(tree.least):
            after = self.before(tree.part, after)
        return after
