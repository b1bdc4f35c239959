"""What each sprint's bead is called, and what it waits for; with every fault of both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from beads_ralph.bead import graph
from beads_ralph.bead.names import SprintId, slug
from beads_ralph.compile.setting import ID_PREFIX, Setting
from beads_ralph.errors import Code, Fault
from beads_ralph.plan import Plan, Sprint


def unique(sprints: Iterable[Sprint]) -> Iterator[Sprint]:
    seen = set[str]()
    for sprint in sprints:
        if sprint.id.text not in seen:
            seen.add(sprint.id.text)
            yield sprint


# --- ids --------------------------------------------------------------------------------------------


def name_beads(plan: Plan, setting: Setting) -> tuple[dict[str, str], list[tuple[str, Fault]]]:
    """The id of each sprint's bead, or of the root of its molecule; with faults for titles without a letter
    and for ids that collide."""
    ids: dict[str, str] = {}
    faults: list[tuple[str, Fault]] = []
    for sprint in unique(plan.sprints):
        known = _known_id(sprint, setting)
        ids[sprint.id.text] = known or bead_id(sprint, setting.id_suffix)
        if sprint.bead_name is None and not slug(sprint.title) and known is None:
            message = f"sprint {sprint.id}: the title '{sprint.title}' has no letter to name a bead by"
            action = "Add a line such as: **Bead Name**: setup"
            faults.append(
                (sprint.id.text, Fault(Code.PLAN_PATTERN, message, plan.file, sprint.line, None, action))
            )
    counts = Counter(ids.values())
    for sprint in unique(plan.sprints):
        if counts[ids[sprint.id.text]] > 1:
            message = f"sprint {sprint.id}: another sprint has the bead id {ids[sprint.id.text]} too"
            faults.append((sprint.id.text, Fault(Code.DUPLICATE_ID, message, plan.file, sprint.line)))
    return ids, faults


def _known_id(sprint: Sprint, setting: Setting) -> str | None:
    """A sprint that was written out and is poured now, or the other way round, has no id yet."""
    if sprint.is_poured:
        molecule = setting.molecules.get(sprint.id.text)
        return molecule.root if molecule else None
    bead = setting.known.get(sprint.id.text)
    return bead.id if bead else None


def bead_id(sprint: Sprint, suffix: str = "") -> str:
    """`bd-<phase>-<sprint>-<name>`; a **Bead Name** that is a whole id is taken as it stands."""
    end = f"-{suffix}" if suffix else ""
    given = sprint.bead_name.value if sprint.bead_name else ""
    if given.startswith(f"{ID_PREFIX}-"):
        return given + end
    name = slug(given or sprint.title)
    return "-".join(part for part in (ID_PREFIX, sprint.id.dashed, name) if part) + end


# --- dependencies -----------------------------------------------------------------------------------


def compile_edges(plan: Plan, ids: Mapping[str, str]) -> tuple[dict[str, list[str]], list[Fault]]:
    """Sprint id → what it waits for, sprint ids and outside bead ids; with every fault of the graph.

    A bead id of the plan's own means its sprint, so that no cycle hides behind two kinds of names.
    """
    named = {bead: sprint for sprint, bead in ids.items()}
    sprints = {sprint.id.text: sprint for sprint in unique(plan.sprints)}
    law = graph.dependencies(sprint.id for sprint in sprints.values())
    edges: dict[str, list[str]] = {}
    faults: list[Fault] = []
    for sprint in sprints.values():
        waits = [before.text for before in law[sprint.id]]
        for reference in sprint.depends_on:
            other = named.get(reference.value, reference.value)
            fault = _reference_fault(plan, sprint, other, sprints, reference.line)
            if fault is not None:
                faults.append(fault)
            elif other not in waits:
                waits.append(other)
        edges[sprint.id.text] = waits
    return edges, [*faults, *_cycle_faults(plan, edges, sprints, named)]


def _reference_fault(
    plan: Plan, sprint: Sprint, reference: str, sprints: Mapping[str, Sprint], line: int
) -> Fault | None:
    if reference == sprint.id.text:
        return Fault(Code.SELF_DEP, f"Self-dependency: {reference} depends on itself", plan.file, line)
    if reference in sprints:
        return None
    if re.fullmatch(r"[^\W\d_][^/]*-[^/]+", reference):
        return None  # a bead outside the plan; the store knows whether it exists
    why = "which does not exist"
    if any(struck.id.text == reference for struck in plan.struck):
        why = "which is struck out"
    message = f"Unknown dependency: {sprint.id} depends on {reference} {why}"
    return Fault(Code.UNRESOLVED, message, plan.file, line)


def _cycle_faults(
    plan: Plan, edges: Mapping[str, Sequence[str]], sprints: Mapping[str, Sprint], named: Mapping[str, str]
) -> Iterator[Fault]:
    """One fault for each cycle, and one for each sprint that waits behind one."""
    left = {node: edges[node] for node in graph.stuck(edges)}
    while path := graph.cycle(left):
        shown = " → ".join(f"{node} ({plan.file}:{sprints[node].line})" for node in path)
        line = _cycle_line(path, sprints, named)
        yield Fault(Code.CYCLE_DETECTED, f"Circular dependency: {shown}", plan.file, line)
        on_it = set(path)
        left = {node: others for node, others in left.items() if node not in on_it}
    for node in left:
        message = f"sprint {node} can never start: it waits behind a circular dependency"
        yield Fault(Code.CYCLE_DETECTED, message, plan.file, sprints[node].line)


def _cycle_line(path: Sequence[str], sprints: Mapping[str, Sprint], named: Mapping[str, str]) -> int:
    """The **Depends On** that closes the cycle: numbers alone cannot make one."""
    for node, other in pairwise(path):
        for reference in sprints[node].depends_on:
            if named.get(reference.value, reference.value) == other:
                return reference.line
    return sprints[path[0]].line


def repeated(plan: Plan) -> Iterator[Fault]:
    """The same sprint id under two headings, `1.1` and `1.01` counting as the same."""
    first: dict[SprintId, Sprint] = {}
    for sprint in plan.sprints:
        before = first.setdefault(sprint.id, sprint)
        if before is not sprint:
            message = f"sprint {sprint.id} stands on line {before.line} already (as {before.id})"
            yield Fault(Code.DUPLICATE_ID, message, plan.file, sprint.line)
