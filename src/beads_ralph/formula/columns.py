"""Columns of values, one per instance of a pattern → the text or variable that a formula has for them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from beads_ralph.bead.names import AGENTS_DIR, persona_name
from beads_ralph.formula.expressions import DERIVATIONS
from beads_ralph.formula.model import PLACEHOLDER
from beads_ralph.formula.spellings import VaryingName

# --- templates --------------------------------------------------------------------------------------


SAMPLE: Final = 4
"""Instances read side by side; the others only confirm what these say."""
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
    """The rule and the variable that it is derived from, so that nobody needs to give it."""
    name: str = ""
    varies: bool = False
    """A name found inside of texts: whoever pours again gives another one."""

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
    inner: bool = False
    """It may be part of a word, where that goes on with a capital: `Users` of `UsersHandler`."""


def known(variable: Variable, *, inner: bool = False) -> Ingredient:
    return Ingredient((variable,), variable.values, inner)


def macro(pieces: Template, count: int) -> Ingredient:
    return Ingredient(pieces, [filled(pieces, at) for at in range(count)])


def filled(template: Template, at: int) -> str:
    """The text that a template gives for one instance."""
    return "".join(piece if isinstance(piece, str) else str(piece.values[at]) for piece in template)


def text_of(template: Template) -> str:
    """The template as a formula has it."""
    return "".join(piece if isinstance(piece, str) else piece.placeholder for piece in template)


def is_plain(text: str) -> bool:
    """True where a formula can hold this text as it stands: what looks like a variable would be one."""
    return PLACEHOLDER.search(text) is None


def express(values: Sequence[str], words: Sequence[Ingredient]) -> Template | None:
    """A template that gives every one of the values; None where there is no evident one.

    It is read from a few instances and confirmed on all. One that objects joins the few.
    """
    sample = _spread(len(values))
    for _ in range(TRIES):
        sampled = [replace(word, values=[word.values[at] for at in sample]) for word in words]
        template = _parse([values[at] for at in sample], sampled)
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


@dataclass(frozen=True)
class _State:
    """The position in each value, and the piece that led there."""

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
        if all(map(partial(_stands_alone, inner=word.inner), values, word.values, state.at)):
            at = tuple(at + len(part) for part, at in zip(word.values, state.at, strict=True))
            yield _State(at, word.pieces, state)


def _stands_alone(value: str, part: str, at: int, *, inner: bool) -> bool:
    """True where `part` stands there as a whole word: `2` is not in `12` nor in `v2`."""
    if not value.startswith(part, at):
        return False
    end = at + len(part)
    before = at > 0 and _goes_on(value[at - 1], part[0], inner)
    after = end < len(value) and _goes_on(part[-1], value[end], inner)
    return not (before or after)


def _goes_on(one: str, other: str, inner: bool) -> bool:
    """True where two characters belong to one word, or to one part of a word in camel case."""
    return one.isalnum() and other.isalnum() and not (inner and one.islower() and other.isupper())


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
    """True where a reader finds the same variables in it: braces beside one could hide it."""
    shown = "".join(piece if isinstance(piece, str) else "{{v}}" for piece in template)
    spans, at = [], 0
    for piece in template:
        length = len(piece) if isinstance(piece, str) else len("{{v}}")
        if not isinstance(piece, str):
            spans.append((at, at + length))
        at += length
    return [match.span() for match in PLACEHOLDER.finditer(shown)] == spans


# --- columns ----------------------------------------------------------------------------------------


HEADS: Final[Mapping[str, str]] = {
    "dev_agents": "dev",
    "qa_agents": "qa",
    "scrum_master_agent": "scrum_master",
    "dod.verifiers": "verify",
    "dev_prompts": "tasks",
    "acceptance_criteria": "criteria",
}
"""Everyday names of the metadata's fields."""
SINGLES: Final[Mapping[str, str]] = {
    "tasks": "task",
    "criteria": "criterion",
    "labels": "label",
    "branches_to_merge": "branch_to_merge",
}
OWN: Final = frozenset({"title", "description", "tasks", "task", "criteria", "criterion"})
"""Texts that every sprint words for itself, also where only one sprint was seen."""
NAMES: Final = frozenset({"name", "bead_id", "branch", "worktree_path", "team_name", "plan_section"})


@dataclass
class Columns:
    """Reads the columns of one step, and makes variables of what nothing else explains."""

    count: int
    step: int | None
    words: list[Ingredient] = field(default_factory=list)
    """Ingredients of the texts, the likeliest first."""
    variables: list[Variable] = field(default_factory=list)
    """All that were made, of all steps."""
    followers: dict[tuple[str, str, Variable], Variable] = field(default_factory=dict)
    """Those that follow from others, each made once."""

    def variable(self, base: str, values: Sequence[Any], kind: str = "string") -> Variable:
        """A new one, or that of another step which always has the same values."""
        for other in self.variables:
            if other.base == base and other.kind == kind and list(other.values) == list(values):
                other.step = None if other.step != self.step else other.step
                return other
        made = Variable(base, list(values), kind, self.step)
        self.variables.append(made)
        return made

    def derived(self, base: str, rule: str, source: Variable) -> Variable:
        """One that follows from another; it counts only where a text uses it."""
        key = (base, rule, source)
        if key not in self.followers:
            values = [DERIVATIONS[rule](value) for value in source.values]
            self.followers[key] = Variable(base, values, "string", source.step, (rule, source))
        return self.followers[key]

    def take_names(self, names: Iterable[VaryingName]) -> None:
        """Names that were found inside of texts, in all the spellings that they may have there."""
        for name in names:
            source = Variable(name.base, name.values, varies=True)
            self.variables.append(source)
            self.words.append(known(source, inner=True))
            for rule, _ in name.spellings():
                self.words.append(known(self.derived(f"{name.base}_{rule}", rule, source), inner=True))

    # --- texts

    def text(self, base: str, values: Sequence[str], extra: Sequence[Ingredient] = ()) -> Template:
        """A text that stays, or one made of what is known, or a variable."""
        return self._explained(base, values, NAMES | OWN, extra) or (self.variable(base, values),)

    def _explained(
        self, base: str, values: Sequence[str], own: Container[str], extra: Sequence[Ingredient] = ()
    ) -> Template | None:
        """A text without a variable of its own, if there is one. Seen once is not seen to be the same:
        then even a constant may hide a name in it, and what is the sprint's `own` may be anything."""
        constant = (values[0],) if len(set(values)) == 1 and is_plain(values[0]) else None
        if self.count > 1 and constant is not None:
            return constant
        if self.count > 1 or base not in OWN or extra:
            template = express(values, [*self.words, *extra])
            if template is not None and any(isinstance(piece, Variable) for piece in template):
                return template
        return constant if self.count == 1 and base not in own else None

    def persona(self, base: str, values: Sequence[str]) -> Template:
        """Agents are called by name; where the files lie is the same for all."""
        if len(set(values)) == 1 and is_plain(values[0]):
            return (values[0],)
        if all(value == f"{AGENTS_DIR}{persona_name(value)}.md" for value in values):
            return (AGENTS_DIR, self.variable(base, [persona_name(value) for value in values]), ".md")
        return self.text(base, values)

    # --- lists

    def texts(self, base: str, rows: Sequence[Sequence[str]]) -> list[Template | Variable]:
        """Keep the entries that all lists begin and end with; a variable carries those between."""
        shortest = min(map(len, rows))
        begin = list(self._run(base, [[row[at] for row in rows] for at in range(shortest)]))
        left = range(1, shortest - len(begin) + 1)
        end = list(self._run(base, [[row[-at] for row in rows] for at in left]))[::-1]
        middle = [list(row[len(begin) : len(row) - len(end)]) for row in rows]
        if not any(middle):
            return [*begin, *end]
        return [*begin, self._between(base, middle, is_framed=bool(begin or end)), *end]

    def _run(self, base: str, entries: Iterable[Sequence[str]]) -> Iterator[Template]:
        """Entries from the first one on, as far as they need no variable."""
        for values in entries:
            template = self._explained(base, values, OWN)
            if template is None:
                return
            yield template

    def _between(self, base: str, middle: Sequence[list[str]], *, is_framed: bool) -> Template | Variable:
        """One entry among others that stay is a text; a list of its own may grow, its variable alone in the
        place of the entries."""
        if is_framed and all(len(row) == 1 for row in middle):
            single = SINGLES.get(base, f"{base}_entry")
            return (self.variable(single, [row[0] for row in middle]),)
        return self.variable(base, middle, "list")

    # --- everything

    def node(self, path: Sequence[str | int], values: Sequence[Any]) -> Any:
        """Any JSON of one shape."""
        first = values[0]
        if isinstance(first, dict):
            return self._object(path, values)
        if isinstance(first, list):
            return self._list(path, values)
        if isinstance(first, str):
            base = base_name(path)
            return self.persona(base, values) if path[-1] == "agent" else self.text(base, values)
        if all(value == first for value in values):
            return first
        return (self.variable(base_name(path), values, "bool" if isinstance(first, bool) else "int"),)

    def _object(self, path: Sequence[str | int], values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        found = {key: self.node((*path, key), [value[key] for value in values]) for key in self._keys(values)}
        if "name" not in found and "name" in values[0]:
            found = {"name": found["command"], **found}
        return found

    def _keys(self, values: Sequence[Mapping[str, Any]]) -> list[str]:
        """All of them; but a check without a name of its own is called by its command."""
        unnamed = all("name" in value and value["name"] == value.get("command") for value in values)
        return [key for key in values[0] if key != "name" or not unnamed]

    def _list(self, path: Sequence[str | int], values: Sequence[Any]) -> list[Any]:
        if all(isinstance(entry, str) for value in values for entry in value):
            return list(self.texts(base_name(path), values))
        return [self.node((*path, at), [value[at] for value in values]) for at in range(len(values[0]))]


def base_name(path: Sequence[str | int]) -> str:
    """`dev_model` of dev_agents.0.model, `dev_model_2` of dev_agents.1.model."""
    words = [word for word in path if isinstance(word, str)]
    places = [word for word in path if isinstance(word, int)]
    whole = ".".join(words)
    head = next((head for head in HEADS if whole == head or whole.startswith(f"{head}.")), None)
    if head is not None:
        whole = HEADS[head] + whole.removeprefix(head)
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", whole).strip("_") or "value"
    plain = f"v_{plain}" if plain[0].isdigit() else plain
    return "_".join([plain, *(str(place + 1) for place in places if place)])


def said(node: Any) -> Any:
    """The node as the formula's file has it, once its variables have names."""
    if isinstance(node, Variable):
        return node.placeholder
    if isinstance(node, tuple):
        return text_of(node)
    if isinstance(node, dict):
        return {key: said(value) for key, value in node.items()}
    return [said(entry) for entry in node] if isinstance(node, list) else node


def used(node: Any) -> Iterator[Variable]:
    """The variables of a node in the order of their appearance, each behind those that it follows from."""
    if isinstance(node, Variable):
        if node.derive is not None:
            yield from used(node.derive[1])
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from used(value)
    elif isinstance(node, list | tuple):
        for entry in node:
            yield from used(entry)
