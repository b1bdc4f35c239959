"""Names of steps: each once, each one known where it is used, and no circle among them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from beads_ralph.bead import graph
from beads_ralph.formula.model import BranchRule, Formula, Step, StepLoop
from beads_ralph.formula.tree import CHILDREN_OF

Finding = tuple[str, str]
"""A field path, and what is wrong there."""


@dataclass
class StepScope:
    """The steps that may name one another: those of the formula, or those of one loop's body."""

    steps: dict[str, str] = field(default_factory=dict)
    """Id → field path."""
    outer: StepScope | None = None

    def find(self, name: str) -> str | None:
        return self.steps.get(name) or (self.outer.find(name) if self.outer is not None else None)

    def known(self) -> list[str]:
        return [*self.steps, *(self.outer.known() if self.outer is not None else ())]


class References:
    """What is wrong with the names in a formula, and what waits for what."""

    def __init__(self, formula: Formula) -> None:
        self.findings: list[Finding] = []
        self.hints: list[Finding] = []
        """What can be meant, but hardly is."""
        self.edges: dict[str, list[str]] = {}
        """Of the beginnings and ends of steps, by field path."""
        self._bodies: dict[str, str] = {}
        """Steps inside of loops, and the loop they are in."""
        scope = self._scope(formula.steps, "steps", None)
        self._look(formula.steps, "steps", scope, None)
        for at, branch in enumerate(formula.compose.branch if formula.compose is not None else ()):
            self._branch(f"compose.branch[{at}]", branch, scope)

    def circle(self) -> list[str]:
        """The field paths along a circle, empty where there is none."""
        path = graph.cycle(self.edges)
        return list(dict.fromkeys(node.partition(" ")[0] for node in path))

    # --- who is there

    def _scope(self, steps: Sequence[Step], path: str, outer: StepScope | None) -> StepScope:
        scope = StepScope(outer=outer)
        for here, step in _in_scope(steps, path):
            first = scope.steps.setdefault(step.id, here)
            if first != here and step.id:
                self.findings.append((f"{here}.id", f"{step.id!r} is the id of {first} already"))
            if step.loop is not None:
                self._note_body(step.loop, step.id)
        return scope

    def _note_body(self, loop: StepLoop, name: str) -> None:
        for _, step in _in_scope(loop.body, ""):
            self._bodies.setdefault(step.id, name)

    # --- who names whom

    def _look(self, steps: Sequence[Step], path: str, scope: StepScope, container: str | None) -> None:
        for at, step in enumerate(steps):
            here = f"{path}[{at}]"
            self._stand(here, container)
            for where, name in _names(step):
                self._name(here, where, name, scope)
            if step.waits_for:
                self._waits_for(here, step)
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

    def _name(self, here: str, where: str, name: str, scope: StepScope) -> None:
        target = scope.find(name)
        if target is None:
            self.findings.append((f"{here}.{where}", self._unknown(name, scope)))
        else:
            self.edges[f"{here} begin"].append(f"{target} end")

    def _unknown(self, name: str, scope: StepScope) -> str:
        loop = self._bodies.get(name)
        if loop is not None:
            return f"{name!r} is a step inside of the loop {loop!r}; name the loop itself"
        close = difflib.get_close_matches(name, scope.known(), n=1)
        return f"there is no step {name!r}" + (f"; did you mean {close[0]}?" if close else "")

    def _waits_for(self, here: str, step: Step) -> None:
        said = step.waits_for
        if said in ("all-children", "any-children"):
            if not step.needs:
                self.hints.append(
                    (f"{here}.waits_for", "has no effect without needs: the first of needs has the children")
                )
        elif not (said.startswith(CHILDREN_OF) and said.endswith(")")):
            known = "all-children, any-children or children-of(step)"
            self.findings.append((f"{here}.waits_for", f"must be {known}, not {said!r}"))

    def _branch(self, path: str, branch: BranchRule, scope: StepScope) -> None:
        ends = {"from": branch.from_, "join": branch.join}
        for name in (name for name, value in ends.items() if not value):
            self.findings.append((f"{path}.{name}", "is required"))
        if not branch.steps:
            self.findings.append((f"{path}.steps", "is required"))
        named = [*((name, value) for name, value in ends.items() if value)]
        named += [(f"steps[{at}]", name) for at, name in enumerate(branch.steps)]
        for where, name in named:
            if scope.find(name) is None:
                self.findings.append((f"{path}.{where}", self._unknown(name, scope)))
        self._join(branch, scope.steps)

    def _join(self, branch: BranchRule, known: Mapping[str, str]) -> None:
        pairs = [(name, branch.from_) for name in branch.steps] + [
            (branch.join, name) for name in branch.steps
        ]
        for later, earlier in pairs:
            if later in known and earlier in known:
                self.edges[f"{known[later]} begin"].append(f"{known[earlier]} end")


def _in_scope(steps: Sequence[Step], path: str) -> Iterator[tuple[str, Step]]:
    """The steps and their children, but not what is inside of loops."""
    for at, step in enumerate(steps):
        here = f"{path}[{at}]"
        yield here, step
        yield from _in_scope(step.children, f"{here}.children")


def _names(step: Step) -> Iterator[tuple[str, str]]:
    """The fields of a step that name others."""
    for field_name in ("depends_on", "needs"):
        yield from ((f"{field_name}[{at}]", name) for at, name in enumerate(getattr(step, field_name)))
    said = step.waits_for
    if said.startswith(CHILDREN_OF) and said.endswith(")"):
        yield "waits_for", said.removeprefix(CHILDREN_OF).removesuffix(")")
