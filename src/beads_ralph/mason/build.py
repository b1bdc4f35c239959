"""Plan → validated beads with their dependencies; pure, and every fault of the plan at once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from beads_ralph import config, graph, personas, schema
from beads_ralph.config import PlanDefaults
from beads_ralph.drafts import places
from beads_ralph.drafts.metadata import bead_json, sounds_like_merge
from beads_ralph.drafts.setting import ID_PREFIX, Setting
from beads_ralph.errors import Code, Fault
from beads_ralph.legacy import LegacyBead
from beads_ralph.models import Bead
from beads_ralph.plan import At, Plan, Sprint
from beads_ralph.slugs import slug
from beads_ralph.sprints import SprintId


@dataclass(frozen=True)
class Built:
    """A compiled plan. `beads` has every sprint that compiled; `faults` says why others did not."""

    plan: Plan
    ids: Mapping[str, str]
    edges: Mapping[str, Sequence[str]]
    beads: Mapping[str, Bead | LegacyBead]
    faults: tuple[Fault, ...]
    sprint_faults: Mapping[str, tuple[Fault, ...]]
    warnings: tuple[Fault, ...]

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        gathered = [*self.faults, *(fault for faults in self.sprint_faults.values() for fault in faults)]
        return tuple(sorted(gathered, key=lambda fault: fault.line or 0))


def build(plan: Plan, setting: Setting) -> Built:
    """Compile the whole plan: ids, dependencies, beads, checks."""
    said = plan.front_matter.value if plan.front_matter else {}
    own, faults, warnings = config.plan_defaults(said, plan.file, plan.front_matter_lines)
    defaults = own.over(setting.config.plan)
    ids, id_faults = name_beads(plan, setting)
    edges, edge_faults = compile_edges(plan, ids)
    faults = _by_line([*plan.faults, *faults, *_repeated(plan), *edge_faults])
    sprint_faults: dict[str, list[Fault]] = defaultdict(list)
    for sprint_id, fault in id_faults:
        sprint_faults[sprint_id].append(fault)
    beads: dict[str, Bead | LegacyBead] = {}
    drafts = _Drafts(plan, setting, defaults, ids, edges)
    for sprint in _unique(plan.sprints):
        if sprint_faults[sprint.id.text]:
            continue  # without an id of its own a bead would only show the same fault in other words
        bead, found = drafts.bead(sprint)
        sprint_faults[sprint.id.text].extend(found)
        if bead is not None:
            beads[sprint.id.text] = bead
    for sprint_id, fault in _place_faults(plan, beads):
        sprint_faults[sprint_id].append(fault)
    kept = {sprint_id: tuple(found) for sprint_id, found in sprint_faults.items() if found}
    warnings = [*setting.warnings, *plan.warnings, *warnings, *drafts.warnings, *_phase_warnings(plan)]
    return Built(plan, ids, edges, beads, tuple(faults), kept, tuple(_by_line(warnings)))


def _by_line(faults: Iterable[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: fault.line or 0)


def _unique(sprints: Iterable[Sprint]) -> Iterator[Sprint]:
    seen = set[str]()
    for sprint in sprints:
        if sprint.id.text not in seen:
            seen.add(sprint.id.text)
            yield sprint


# --- ids --------------------------------------------------------------------------------------------


def name_beads(plan: Plan, setting: Setting) -> tuple[dict[str, str], list[tuple[str, Fault]]]:
    """The id of each sprint's bead; faults for titles without a letter and for ids that collide."""
    ids: dict[str, str] = {}
    faults: list[tuple[str, Fault]] = []
    for sprint in _unique(plan.sprints):
        known = setting.known.get(sprint.id.text)
        ids[sprint.id.text] = known.id if known else bead_id(sprint, setting.id_suffix)
        if sprint.bead_name is None and not slug(sprint.title) and known is None:
            message = f"sprint {sprint.id}: the title '{sprint.title}' has no letter to name a bead by"
            action = "Add a line such as: **Bead Name**: setup"
            faults.append(
                (sprint.id.text, Fault(Code.PLAN_PATTERN, message, plan.file, sprint.line, None, action))
            )
    counts = Counter(ids.values())
    for sprint in _unique(plan.sprints):
        if counts[ids[sprint.id.text]] > 1:
            message = f"sprint {sprint.id}: another sprint has the bead id {ids[sprint.id.text]} too"
            faults.append((sprint.id.text, Fault(Code.DUPLICATE_ID, message, plan.file, sprint.line)))
    return ids, faults


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
    sprints = {sprint.id.text: sprint for sprint in _unique(plan.sprints)}
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


def _repeated(plan: Plan) -> Iterator[Fault]:
    """The same sprint id under two headings, `1.1` and `1.01` counting as the same."""
    first: dict[SprintId, Sprint] = {}
    for sprint in plan.sprints:
        before = first.setdefault(sprint.id, sprint)
        if before is not sprint:
            message = f"sprint {sprint.id} stands on line {before.line} already (as {before.id})"
            yield Fault(Code.DUPLICATE_ID, message, plan.file, sprint.line)


# --- beads ------------------------------------------------------------------------------------------


@dataclass
class _Drafts:
    """Builds one bead after the other from the same setting."""

    plan: Plan
    setting: Setting
    defaults: PlanDefaults
    ids: Mapping[str, str]
    edges: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        self.warnings: list[Fault] = []
        self.branches = {sprint.id.text: self._branch(sprint) for sprint in _unique(self.plan.sprints)}

    def _branch(self, sprint: Sprint) -> str:
        if sprint.branch is not None:
            return sprint.branch.value
        known = self.setting.known.get(sprint.id.text)
        if known is not None and not self._is_impossible(known.metadata.branch):
            return known.metadata.branch
        source = sprint.source_branch.value if sprint.source_branch else self.defaults.source_branch or ""
        return self.setting.branch(source, sprint.id.text, sprint.title, self.defaults)

    def _is_impossible(self, branch: str) -> bool:
        """`main/x` beside a `main` that was made since: git will not have it, so no work can be there."""
        return any(branch.startswith(f"{other}/") for other in self.setting.branches)

    def bead(self, sprint: Sprint) -> tuple[Bead | LegacyBead | None, list[Fault]]:
        missing = list(self._missing(sprint))
        if missing:
            return None, missing
        raw = bead_json(
            sprint, self.setting, self.defaults, self.ids, self.edges[sprint.id.text], self.branches
        )
        self._notice_oddities(sprint, raw)
        checked = schema.check(raw, self.setting.schema)
        faults = [self._at(sprint, fault) for fault in checked.faults]
        if isinstance(checked.bead, Bead) and self.setting.agent_check:
            absent = personas.check_agents(checked.bead, self.setting.root)
            faults.extend(self._at(sprint, fault) for fault in absent)
        return checked.bead, faults

    def _missing(self, sprint: Sprint) -> Iterator[Fault]:
        wanted = {
            "Source Branch": sprint.source_branch or self.defaults.source_branch,
            "Dev Agents": sprint.dev_agents or self.defaults.dev_agents,
            "QA Agents": sprint.qa_agents or self.defaults.qa_agents,
            "Tasks": sprint.tasks,
        }
        for label, value in wanted.items():
            if not value:
                message = f"sprint {sprint.id} has no **{label}** section"
                yield Fault(Code.MISSING_SECTION, message, self.plan.file, sprint.line, None, _remedy(label))

    def _at(self, sprint: Sprint, fault: Fault) -> Fault:
        message = f"sprint {sprint.id}: {fault.message}"
        line = _line_of(sprint, fault.field or "")
        return Fault(fault.code, message, self.plan.file, line, fault.field, fault.suggested_action)

    def _notice_oddities(self, sprint: Sprint, raw: Mapping[str, Any]) -> None:
        if sounds_like_merge(sprint) and sprint.type is None and raw["issue_type"] != "beads-ralph-merge":
            message = (
                f"sprint {sprint.id}: '{sprint.title}' sounds like a merge, but has fewer than two sprints "
                "to merge; it is a work bead (say **Type**: work or merge to settle it)"
            )
            self.warnings.append(Fault(Code.CONSTRAINT, message, self.plan.file, sprint.line))
        if self.setting.schema == "legacy" and len(sprint.dev_agents) > 1:
            message = f"sprint {sprint.id}: the legacy schema holds one dev agent; the others are left out"
            self.warnings.append(Fault(Code.CONSTRAINT, message, self.plan.file, sprint.dev_agents[1].line))
        if sprint.formula is not None:
            message = f"sprint {sprint.id}: compiled as it stands; its formula is only recorded"
            self.warnings.append(Fault(Code.CONSTRAINT, message, self.plan.file, sprint.formula.line))


def _remedy(label: str) -> str:
    key = label.lower().replace(" ", "_")
    if label == "Tasks":
        return "Add **Tasks**: and at least one bullet below it"
    return f"Add **{label}** to the sprint, or {key} to the plan's front matter or to beads-ralph.yaml"


def _line_of(sprint: Sprint, field: str) -> int:
    """The line that a faulty bead field came from."""
    single: dict[str, At[str] | None] = {
        "id": sprint.bead_name,
        "issue_type": sprint.type,
        "metadata.branch": sprint.branch,
        "metadata.source_branch": sprint.source_branch,
        "metadata.worktree_path": sprint.worktree,
        "metadata.team_name": sprint.team,
        "metadata.branches_to_merge": sprint.type,
    }
    several: dict[str, Sequence[At[Any]]] = {
        "metadata.branches_to_merge": sprint.branches_to_merge,
        "metadata.dev_agents": sprint.dev_agents,
        "metadata.qa_agents": sprint.qa_agents,
        "metadata.dev_prompts": sprint.tasks,
        "metadata.dod.verifiers": sprint.verify,
    }
    entry = re.fullmatch(r"(.+?)\.(\d+)(?:\..*)?", field)
    if entry is not None and int(entry[2]) < len(several.get(entry[1], ())):
        return several[entry[1]][int(entry[2])].line
    value = single.get(field)
    return value.line if value is not None else sprint.line


# --- what git would refuse --------------------------------------------------------------------------


def _place_faults(plan: Plan, beads: Mapping[str, Bead | LegacyBead]) -> Iterator[tuple[str, Fault]]:
    sprints = {f"sprint {sprint.id}": sprint for sprint in _unique(plan.sprints)}
    compiled = {owner: beads[one.id.text] for owner, one in sprints.items() if one.id.text in beads}
    for clash in places.clashes(compiled):
        sprint = sprints[clash.owner]
        line = _line_of(sprint, clash.field)
        yield sprint.id.text, Fault(Code.CONSTRAINT, clash.message, plan.file, line)


def _phase_warnings(plan: Plan) -> Iterator[Fault]:
    """A sprint below the heading of another phase is compiled by its number; its author may be surprised."""
    phases = sorted(plan.phases, key=lambda phase: phase.line)
    at = 0
    for sprint in plan.sprints:
        while at + 1 < len(phases) and phases[at + 1].line < sprint.line:
            at += 1
        if not phases or phases[at].line > sprint.line:
            continue
        above = phases[at]
        number = SprintId.parse(f"{above.phase}.1")
        if number is None or number.phase_number != sprint.id.phase_number:
            message = f"sprint {sprint.id} stands below the heading of phase {above.phase}"
            yield Fault(Code.PLAN_PATTERN, message, plan.file, sprint.line)
