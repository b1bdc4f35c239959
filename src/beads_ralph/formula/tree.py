"""Steps → a tree with loops written out and conditions asked, and what each step of it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.formula import expressions
from beads_ralph.formula.model import BranchRule, Formula, Step, StepLoop
from beads_ralph.formula.variables import Filling, Values

MOST_STEPS: Final = 10_000
"""Of one pour: a slip in a range must not fill the store."""
Scope = Mapping[str, "StepNode"]


@dataclass(eq=False)
class StepNode:
    """A step as it is rendered: itself, a container of others, or a loop with its rounds."""

    key: str
    path: str
    """Its field in the formula, such as `steps[2].children[0]`."""
    step: Step
    filling: Filling
    scope: dict[str, StepNode]
    """The steps that it may name; those around a loop are behind `outer`."""
    parent: StepNode | None
    above: Round | None
    """The round of a loop that it is an immediate part of."""
    children: list[StepNode] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    left_out: bool = False

    @property
    def is_epic(self) -> bool:
        return bool(self.step.children) and self.step.loop is None

    @property
    def is_leaf(self) -> bool:
        return not self.is_epic and self.step.loop is None

    def leaves(self) -> Iterator[StepNode]:
        """The steps that remain to be done of it, in order."""
        if self.left_out:
            return
        if self.is_leaf:
            yield self
        for inner in self.inner():
            yield from inner.leaves()

    def left_out_leaves(self) -> Iterator[StepNode]:
        if self.is_leaf and self.left_out:
            yield self
        for inner in self.inner():
            yield from inner.left_out_leaves()

    def inner(self) -> Iterator[StepNode]:
        yield from self.children
        for one in self.rounds:
            yield from one.nodes

    def named(self, name: str) -> StepNode | None:
        """The step that a name means here: the nearest one."""
        place: StepNode | None = self
        while place is not None:
            if name in place.scope:
                return place.scope[name]
            place = place.outer
        return None

    @property
    def outer(self) -> StepNode | None:
        """The loop whose body it is in."""
        place = self
        while place.above is None:
            if place.parent is None:
                return None
            place = place.parent
        return place.above.loop


@dataclass(eq=False)
class Round:
    """One round of a loop."""

    loop: StepNode
    earlier: Round | None
    """The nearest round before it that has something to do."""
    nodes: list[StepNode] = field(default_factory=list)

    def leaves(self) -> Iterator[StepNode]:
        for node in self.nodes:
            yield from node.leaves()

    def left_out_leaves(self) -> Iterator[StepNode]:
        for node in self.nodes:
            yield from node.left_out_leaves()


class Growing:
    """Builds the tree of one formula; for a look at all of it, without asking the conditions."""

    def __init__(self, formula: Formula, values: Values, *, ask: bool = True) -> None:
        self.formula = formula
        self.values = values
        self.ask = ask
        self.count = 0

    def grow(self) -> list[StepNode]:
        return self._steps(self.formula.steps, "steps", "", Filling(self.values), {}, None, None)

    def _steps(
        self,
        steps: Sequence[Step],
        path: str,
        prefix: str,
        filling: Filling,
        scope: dict[str, StepNode],
        parent: StepNode | None,
        above: Round | None,
    ) -> list[StepNode]:
        nodes = []
        for at, step in enumerate(steps):
            self._count(path)
            node = StepNode(f"{prefix}{step.id}", f"{path}[{at}]", step, filling, scope, parent, above)
            scope[step.id] = node
            around = parent or (above.loop if above is not None else None)
            node.left_out = (around is not None and around.left_out) or not self._holds(node)
            nodes.append(node)
            if step.loop is not None:
                node.rounds = list(self._rounds(node, step.loop))
            else:
                below = f"{node.path}.children"
                node.children = self._steps(step.children, below, prefix, filling, scope, node, None)
        return nodes

    def _holds(self, node: StepNode) -> bool:
        if not (self.ask and node.step.condition.strip()):
            return True
        condition = expressions.parse_condition(node.step.condition)
        if condition is None:
            raise self._fault(f"{node.path}.condition", f"{node.step.condition!r} is no condition")
        return condition.holds(lambda name: self.values.text(name) if name in self.values else "")

    def _rounds(self, node: StepNode, loop: StepLoop) -> Iterator[Round]:
        # What is left out counts only by what it waits for, for which one round is enough.
        first, last = (1, 1) if node.left_out else self._bounds(node, loop)
        earlier: Round | None = None
        for number, value in enumerate(range(first, last + 1), 1):
            said = {**node.filling.rounds, **({loop.var: str(value)} if loop.var else {})}
            one = Round(node, earlier)
            prefix, path = f"{node.key}.iter{number}.", f"{node.path}.loop.body"
            filling = Filling(self.values, said)
            one.nodes = self._steps(loop.body, path, prefix, filling, {}, None, one)
            yield one
            earlier = one if any(one.leaves()) else earlier

    def _bounds(self, node: StepNode, loop: StepLoop) -> tuple[int, int]:
        if loop.count is not None:
            return 1, loop.count
        try:
            return expressions.range_bounds(loop.range, {**self.values.texts(), **node.filling.rounds})
        except expressions.RangeError as problem:
            varies = expressions.range_names(loop.range)
            said = ", ".join(f"{name}={self.values.text(name)}" for name in varies if name in self.values)
            shown = f"{loop.range!r}" + (f" with {said}" if said else "")
            code = Code.INVALID_VAR if varies else Code.FORMULA_INVALID
            raise self._fault(f"{node.path}.loop.range", f"{shown} {problem}", code) from None

    def _count(self, path: str) -> None:
        self.count += 1
        if self.count > MOST_STEPS:
            raise self._fault(path, f"makes more than {MOST_STEPS} steps")

    def _fault(self, path: str, message: str, code: Code = Code.FORMULA_INVALID) -> RalphError:
        return invalid(self.formula, path, message, code)


def invalid(formula: Formula, path: str, message: str, code: Code = Code.FORMULA_INVALID) -> RalphError:
    fault = fault_of(formula, path, message, code)
    return gathered([fault], formula.name)


def fault_of(formula: Formula, path: str, message: str, code: Code = Code.FORMULA_INVALID) -> Fault:
    """At a field of a formula; the file is its own, also where the step comes from one that it extends."""
    file = str(formula.file) if formula.file is not None else None
    return Fault(code, f"{path}: {message}", file=file, field=path)


# --- what each step waits for -----------------------------------------------------------------------


CHILDREN_OF = "children-of("


def spawner(node: StepNode) -> str | None:
    """The step whose children `waits_for` means; without a name the first of `needs`, as in bd."""
    said = node.step.waits_for
    if said.startswith(CHILDREN_OF):
        return said.removeprefix(CHILDREN_OF).removesuffix(")")
    return node.step.needs[0] if said and node.step.needs else None


class Edges:
    """Needs by node. A step that a condition left out is bridged: who waits for it waits for what it
    would have waited for."""

    def __init__(self, branches: Sequence[BranchRule] = ()) -> None:
        self._joined: dict[str, list[str]] = {}
        for branch in branches:
            for name in branch.steps:
                self._joined.setdefault(name, []).append(branch.from_)
            self._joined.setdefault(branch.join, []).extend(branch.steps)
        self._said: dict[StepNode, list[StepNode]] = {}
        self._entries: dict[StepNode | Round, list[StepNode]] = {}
        self._ends: dict[StepNode | Round, list[StepNode]] = {}

    def needs(self, node: StepNode) -> list[StepNode]:
        """The remaining leaves that a remaining step waits for."""
        found = dict.fromkeys(self._own(node))
        if not node.is_epic:
            for one in around(node):
                if node in self.entries(one):
                    found.update(dict.fromkeys(self._before(one)))
        found.pop(node, None)
        return list(found)

    def beginning(self, leaf: StepNode) -> list[StepNode]:
        """The containers and loops that a leaf is among the first of."""
        return [one for one in around(leaf) if isinstance(one, StepNode) and leaf in self.entries(one)]

    def entries(self, place: StepNode | Round) -> list[StepNode]:
        """The leaves of a container, loop or round that wait for nothing inside of it."""
        if place not in self._entries:
            self._entries[place] = []  # a circle, which the caller finds in the result, must end here
            leaves = list(_first_part(place).leaves())
            inside = set(leaves)
            self._entries[place] = [
                leaf for leaf in leaves if not inside.intersection(self._inner(leaf, place))
            ]
        return self._entries[place]

    def _own(self, node: StepNode) -> list[StepNode]:
        """The steps that a step names itself as its needs."""
        if node not in self._said:
            names = [*node.step.waits, *(self._joined.get(node.step.id, ()) if node.outer is None else ())]
            watched = spawner(node)
            names += [watched] if watched is not None else []
            targets = [target for name in names if (target := node.named(name)) is not None]
            self._said[node] = list(dict.fromkeys(end for target in targets for end in self._ending(target)))
        return self._said[node]

    def _inner(self, leaf: StepNode, place: StepNode | Round) -> list[StepNode]:
        """The needs of a leaf that are stated inside a container, loop or round."""
        found = [*self._own(leaf)]
        for nearer in around(leaf):
            if nearer is place or (isinstance(nearer, Round) and nearer.loop is place):
                break
            found += self._before(nearer)
        return found

    def _before(self, place: StepNode | Round) -> list[StepNode]:
        """The steps to finish before a container, a loop or a round begins."""
        if isinstance(place, StepNode):
            return self._own(place)
        return self._ending(place.earlier) if place.earlier is not None else []

    def _ending(self, place: StepNode | Round) -> list[StepNode]:
        """The remaining leaves that must be done for a step, container, loop or round to be done."""
        if place not in self._ends:
            self._ends[place] = []  # on a circle: nothing, as the caller finds out
            self._ends[place] = list(dict.fromkeys(self._last(place)))
        return self._ends[place]

    def _last(self, place: StepNode | Round) -> Iterator[StepNode]:
        leaves = list(place.leaves())
        if isinstance(place, StepNode) and place.step.loop is not None:
            yield from (end for one in place.rounds[-1:] for end in self._ending(one))
        elif isinstance(place, Round):
            needed = {other for leaf in leaves for other in self._inner(leaf, place)}
            yield from (leaf for leaf in leaves if leaf not in needed)
        else:
            yield from leaves
        for gone in _gone(place):
            yield from self._inner(gone, place)
        if not leaves and isinstance(place, StepNode):  # else its first leaves wait for all this themselves
            for one in (place, *around(place)):
                yield from self._before(one)


def _gone(place: StepNode | Round) -> Iterator[StepNode]:
    """The leaves that conditions took out of a container or round; a loop's are those of its rounds."""
    if not isinstance(place, StepNode) or place.is_epic:
        yield from place.left_out_leaves()


def _first_part(place: StepNode | Round) -> StepNode | Round:
    """Of a loop its first round that has something to do."""
    if isinstance(place, StepNode) and place.step.loop is not None:
        return next((one for one in place.rounds if any(one.leaves())), place)
    return place


def around(node: StepNode) -> list[StepNode | Round]:
    """The containers, rounds and loops that a node is in, the nearest first."""
    found: list[StepNode | Round] = []
    place: StepNode | None = node
    while place is not None:
        if place.above is not None:
            found += [place.above, place.above.loop]
            place = place.above.loop
        else:
            place = place.parent
            found += [place] if place is not None else []
    return found
