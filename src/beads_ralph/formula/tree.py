"""Steps → a tree with loops written out and conditions asked; and who names whom, and waits for whom."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from beads_ralph.bead import graph
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.formula import expressions
from beads_ralph.formula.model import BranchRule, Formula, Step, StepLoop, meant
from beads_ralph.formula.variables import Filling, Values

MOST_STEPS: Final = 10_000
"""Of one pour: a slip in a range must not fill the store."""


@dataclass(eq=False)
class Round:
    """One round of a loop; the formula's own steps are a round of no loop."""

    filling: Filling
    prefix: str = ""
    loop: StepNode | None = None
    earlier: Round | None = None
    """The nearest round before it that has something to do."""
    nodes: list[StepNode] = field(default_factory=list)
    scope: dict[str, StepNode] = field(default_factory=dict)
    """The steps that may name one another; those around the loop come behind them."""

    def leaves(self) -> Iterator[StepNode]:
        return (leaf for node in self.nodes for leaf in node.leaves())

    def left_out_leaves(self) -> Iterator[StepNode]:
        return (leaf for node in self.nodes for leaf in node.left_out_leaves())

    def named(self, name: str) -> StepNode | None:
        """The step that a name means here: the nearest one."""
        if name in self.scope or self.loop is None:
            return self.scope.get(name)
        return self.loop.round.named(name)


@dataclass(eq=False)
class StepNode:
    """A step as it is rendered: itself, a container of others, or a loop with its rounds."""

    key: str
    path: str
    """Its field in the formula, such as `steps[2].children[0]`."""
    step: Step
    round: Round
    parent: StepNode | None
    children: list[StepNode] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    left_out: bool = False

    @property
    def filling(self) -> Filling:
        return self.round.filling

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


def around(node: StepNode) -> Iterator[StepNode | Round]:
    """The containers, rounds and loops that a node is in, the nearest first."""
    if node.parent is not None:
        yield from (node.parent, *around(node.parent))
    elif node.round.loop is not None:
        yield from (node.round, node.round.loop, *around(node.round.loop))


class Growing:
    """Builds the tree of one formula; for a look at all of it, without asking the conditions."""

    def __init__(self, formula: Formula, values: Values, *, ask: bool = True) -> None:
        self.formula = formula
        self.values = values
        self.ask = ask
        self.count = 0

    def grow(self) -> list[StepNode]:
        return self._steps(self.formula.steps, "steps", Round(Filling(self.values)), None)

    def _steps(self, steps: Sequence[Step], path: str, one: Round, parent: StepNode | None) -> list[StepNode]:
        nodes = []
        for at, step in enumerate(steps):
            self.count += 1
            if self.count > MOST_STEPS:
                raise self._fault(path, f"makes more than {MOST_STEPS} steps")
            node = StepNode(f"{one.prefix}{step.id}", f"{path}[{at}]", step, one, parent)
            one.scope[step.id] = node
            holder = parent or one.loop
            node.left_out = (holder is not None and holder.left_out) or not self._holds(node)
            nodes.append(node)
            if step.loop is not None:
                node.rounds = list(self._rounds(node, step.loop))
            else:
                node.children = self._steps(step.children, f"{node.path}.children", one, node)
        return nodes

    def _holds(self, node: StepNode) -> bool:
        if not (self.ask and node.step.condition.strip()):
            return True
        condition = expressions.parse_condition(node.step.condition)
        if condition is None:
            raise self._fault(f"{node.path}.condition", f"{node.step.condition!r} is not a condition")
        return condition.holds(lambda name: self.values.text(name) if name in self.values else "")

    def _rounds(self, node: StepNode, loop: StepLoop) -> Iterator[Round]:
        # What is left out counts only by what it waits for, for which one round is enough.
        first, last = (1, 1) if node.left_out else self._bounds(node, loop)
        earlier: Round | None = None
        for number, value in enumerate(range(first, last + 1), 1):
            said = {**node.filling.rounds, **({loop.var: str(value)} if loop.var else {})}
            one = Round(Filling(self.values, said), f"{node.key}.iter{number}.", node, earlier)
            one.nodes = self._steps(loop.body, f"{node.path}.loop.body", one, None)
            yield one
            earlier = one if any(one.leaves()) else earlier

    def _bounds(self, node: StepNode, loop: StepLoop) -> tuple[int, int]:
        if loop.count is not None or loop.until:  # nobody repeats what is poured
            return 1, loop.count or 1
        try:
            return expressions.range_bounds(loop.range, {**self.values.texts(), **node.filling.rounds})
        except expressions.RangeError as problem:
            varies = expressions.range_names(loop.range)
            said = ", ".join(f"{name}={self.values.text(name)}" for name in varies if name in self.values)
            shown = f"{loop.range!r}" + (f" with {said}" if said else "")
            code = Code.INVALID_VAR if varies else Code.FORMULA_INVALID
            raise self._fault(f"{node.path}.loop.range", f"{shown} {problem}", code) from None

    def _fault(self, path: str, message: str, code: Code = Code.FORMULA_INVALID) -> RalphError:
        return gathered([self.formula.fault(path, message, code)], self.formula.name)


# --- who names whom ---------------------------------------------------------------------------------


Finding = tuple[str, str]
"""A field path, and what is wrong there."""
Scope = ChainMap[str, str]
"""Id → field path of the steps that may name one another: those of a loop's body, then those around it."""


class References:
    """Faults of the names in a formula, and the graph of its steps: each name once, known, in no circle."""

    def __init__(self, formula: Formula) -> None:
        self.findings: list[Finding] = []
        self.hints: list[Finding] = []
        """Warnings: legal, but hardly meant."""
        self.edges: dict[str, list[str]] = {}
        """Of the beginnings and ends of steps, by field path."""
        self._bodies: dict[str, str] = {}
        """Steps inside of loops, and the loop they are in."""
        scope = self._scope(formula.steps, "steps", Scope())
        self._look(formula.steps, "steps", scope, None)
        for at, branch in enumerate(formula.branches):
            self._branch(f"compose.branch[{at}]", branch, scope)

    def circle(self) -> list[str]:
        """The field paths along a circle, empty where there is none."""
        path = graph.cycle(self.edges)
        return list(dict.fromkeys(node.partition(" ")[0] for node in path))

    def _scope(self, steps: Sequence[Step], path: str, outer: Scope) -> Scope:
        scope = outer.new_child()
        for here, step in _in_scope(steps, path):
            first = scope.maps[0].setdefault(step.id, here)
            if first != here and step.id:
                self.findings.append((f"{here}.id", f"{step.id!r} is the id of {first} already"))
            for _, inner in _in_scope(step.loop.body if step.loop is not None else (), ""):
                self._bodies.setdefault(inner.id, step.id)
        return scope

    def _look(self, steps: Sequence[Step], path: str, scope: Scope, container: str | None) -> None:
        for at, step in enumerate(steps):
            here = f"{path}[{at}]"
            self._stand(here, container)
            for where, name in _names(step):
                if name in scope:
                    self.edges[f"{here} begin"].append(f"{scope[name]} end")
                else:
                    self.findings.append((f"{here}.{where}", self._unknown(name, scope)))
            self._waits_for(f"{here}.waits_for", step)
            self._look(step.children, f"{here}.children", scope, here)
            if step.loop is not None:
                body = f"{here}.loop.body"
                self._look(step.loop.body, body, self._scope(step.loop.body, body, scope), here)

    def _stand(self, here: str, container: str | None) -> None:
        """A step ends after its beginning; what it is in begins before it, and ends after it."""
        self.edges.setdefault(f"{here} end", []).append(f"{here} begin")
        self.edges.setdefault(f"{here} begin", [])
        if container is not None:
            self.edges[f"{here} begin"].append(f"{container} begin")
            self.edges[f"{container} end"].append(f"{here} end")

    def _unknown(self, name: str, scope: Scope) -> str:
        if name in self._bodies:
            return f"{name!r} is a step inside of the loop {self._bodies[name]!r}; name the loop itself"
        return f"there is no step {name!r}{meant(name, scope)}"

    def _waits_for(self, path: str, step: Step) -> None:
        if step.waits_for in ("all-children", "any-children"):
            if not step.needs:
                self.hints.append((path, "has no effect without needs: the first of needs has the children"))
        elif step.waits_for and step.children_of is None:
            known = "all-children, any-children or children-of(step)"
            self.findings.append((path, f"must be {known}, not {step.waits_for!r}"))

    def _branch(self, path: str, branch: BranchRule, scope: Scope) -> None:
        ends = {"from": branch.from_, "join": branch.join}
        wanted = {**ends, "steps": branch.steps}
        self.findings += [(f"{path}.{where}", "is required") for where, said in wanted.items() if not said]
        named = [(where, name) for where, name in ends.items() if name]
        named += [(f"steps[{at}]", name) for at, name in enumerate(branch.steps)]
        for where, name in named:
            if name not in scope:
                self.findings.append((f"{path}.{where}", self._unknown(name, scope)))
        pairs = [pair for name in branch.steps for pair in ((name, branch.from_), (branch.join, name))]
        for later, earlier in pairs:
            if later in scope and earlier in scope:
                self.edges[f"{scope[later]} begin"].append(f"{scope[earlier]} end")


def _in_scope(steps: Sequence[Step], path: str) -> Iterator[tuple[str, Step]]:
    """The steps and their children, but not what is inside of loops."""
    for at, step in enumerate(steps):
        here = f"{path}[{at}]"
        yield here, step
        yield from _in_scope(step.children, f"{here}.children")


def _names(step: Step) -> Iterator[Finding]:
    """The fields of a step that name others, and the names."""
    for where in ("depends_on", "needs"):
        yield from ((f"{where}[{at}]", name) for at, name in enumerate(getattr(step, where)))
    if step.children_of is not None:
        yield "waits_for", step.children_of


# --- who waits for whom -----------------------------------------------------------------------------


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
            names = [
                *node.step.waits,
                *(self._joined.get(node.step.id, ()) if node.round.loop is None else ()),
            ]
            names += [node.step.children_of] if node.step.children_of is not None else []
            targets = [target for name in names if (target := node.round.named(name)) is not None]
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
        if not isinstance(place, StepNode) or place.is_epic:  # a loop's are those of its rounds
            for gone in place.left_out_leaves():
                yield from self._inner(gone, place)
        if not leaves and isinstance(place, StepNode):  # else its first leaves wait for all this themselves
            for one in (place, *around(place)):
                yield from self._before(one)


def _first_part(place: StepNode | Round) -> StepNode | Round:
    """Of a loop its first round that has something to do."""
    if isinstance(place, StepNode) and place.step.loop is not None:
        return next((one for one in place.rounds if any(one.leaves())), place)
    return place
