"""What each step of a tree waits for, down to the steps that remain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beads_ralph.formula.model import BranchRule
from beads_ralph.formula.tree import Round, StepNode

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
        """What a step waits for by what is said of itself."""
        if node not in self._said:
            names = [*node.step.waits, *(self._joined.get(node.step.id, ()) if node.outer is None else ())]
            watched = spawner(node)
            names += [watched] if watched is not None else []
            targets = [target for name in names if (target := node.named(name)) is not None]
            self._said[node] = list(dict.fromkeys(end for target in targets for end in self._ending(target)))
        return self._said[node]

    def _inner(self, leaf: StepNode, place: StepNode | Round) -> list[StepNode]:
        """What a leaf waits for by what is said inside of a container, loop or round."""
        found = [*self._own(leaf)]
        for nearer in around(leaf):
            if nearer is place or (isinstance(nearer, Round) and nearer.loop is place):
                break
            found += self._before(nearer)
        return found

    def _before(self, place: StepNode | Round) -> list[StepNode]:
        """What must be done before a container or loop begins, or a round of one."""
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
