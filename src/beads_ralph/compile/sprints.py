"""Sprints → ids, dependencies and the JSON of their beads, in schema 4.1a or as it was before."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from beads_ralph.bead import graph, run_state
from beads_ralph.bead.legacy import default_team
from beads_ralph.bead.model import OUTPUT_SCHEMA, AgentSpec
from beads_ralph.bead.names import ASSIGNEE, MERGE, MERGE_WORDS, RUNS_ON, WORK, SprintId, slug
from beads_ralph.bead.words import utc_text
from beads_ralph.compile.setting import DEFAULT_RIG, ID_PREFIX, Setting
from beads_ralph.config.model import PlanDefaults
from beads_ralph.errors import Code, Fault
from beads_ralph.plan import Plan, Sprint

TWO: Final = 2


def bead_json(
    sprint: Sprint,
    setting: Setting,
    defaults: PlanDefaults,
    ids: Mapping[str, str],
    waits: Sequence[str],
    branches: Mapping[str, str],
) -> dict[str, Any]:
    """All fifteen core fields and the metadata, in the seed's order."""
    moment = utc_text(setting.now)
    kind, merged = kind_and_merged(sprint, waits, branches)
    priority = sprint.priority.value if sprint.priority else defaults.priority
    place = _place(sprint, setting, defaults, branches[sprint.id.text])
    return {
        "id": ids[sprint.id.text],
        "title": sprint.title,
        "description": description(sprint),
        "status": "open",
        "priority": 1 if priority is None else priority,
        "issue_type": kind,
        "assignee": ASSIGNEE,
        "owner": None,
        "dependencies": [ids.get(other, other) for other in waits],
        "labels": labels(sprint, defaults),
        "comments": [],
        "external_ref": None,
        "created_at": moment,
        "updated_at": moment,
        "closed_at": None,
        "metadata": {
            **place,
            "branches_to_merge": merged,
            **_agents(sprint, setting, defaults),
            **tracking(setting, defaults),
            **_extras(sprint, setting, defaults),
        },
    }


def description(sprint: Sprint) -> str:
    """The sprint's own prose, else its tasks as sentences; labels of the author's own come behind."""
    tasks = "".join(f"{task.value.rstrip('. ')}. " for task in sprint.tasks).rstrip()
    return "\n\n".join(filter(None, [sprint.description or tasks, *sprint.notes]))


def sounds_like_merge(sprint: Sprint) -> bool:
    return MERGE_WORDS.search(sprint.title) is not None


def kind_and_merged(
    sprint: Sprint, waits: Sequence[str], branches: Mapping[str, str]
) -> tuple[str, list[str] | None]:
    """The type of the sprint's bead, and the branches that it merges."""
    kind = issue_type(sprint, waits)
    merged = branches_to_merge(sprint, kind, waits, branches)
    if not merged and sprint.type is None:  # a title alone makes no merge out of one shared branch
        return WORK, None
    return kind, merged


def issue_type(sprint: Sprint, waits: Sequence[str]) -> str:
    """The plan's own word; else a merge where the title says so and there are branches to merge."""
    if sprint.type is not None:
        return sprint.type.value
    merges = sprint.branches_to_merge or (sounds_like_merge(sprint) and len(waits) >= TWO)
    return MERGE if merges else WORK


def branches_to_merge(
    sprint: Sprint, kind: str, waits: Sequence[str], branches: Mapping[str, str]
) -> list[str] | None:
    if kind != MERGE:
        return None
    if sprint.branches_to_merge:
        return [branch.value for branch in sprint.branches_to_merge]
    own = branches[sprint.id.text]
    named = [branches[other] for other in waits if other in branches]
    return [branch for branch in dict.fromkeys(named) if branch != own]


def labels(sprint: Sprint, defaults: PlanDefaults) -> list[str]:
    given = [label.value for label in sprint.labels] or defaults.labels or []
    own = [f"phase-{sprint.id.phase_number:02d}", f"sprint-{sprint.id.dashed}"]
    needs = [f"{RUNS_ON}{word.value.lower()}" for word in sprint.runs_on]
    return list(dict.fromkeys([*own, *given, *needs]))


def _place(sprint: Sprint, setting: Setting, defaults: PlanDefaults, branch: str) -> dict[str, Any]:
    source = sprint.source_branch.value if sprint.source_branch else defaults.source_branch
    place = {
        "rig": DEFAULT_RIG if setting.schema == "legacy" else defaults.rig or DEFAULT_RIG,
        "worktree_path": _worktree(sprint, setting, defaults, branch),
        "branch": branch,
        "source_branch": source,
        "phase": sprint.id.phase,
        "sprint": sprint.id.text,
        "plan_file": setting.plan_file,
        "plan_section": sprint.heading,
        "plan_sprint_id": sprint.id.text,
    }
    return place if setting.schema == "legacy" else place | {"team_name": _team(sprint, setting, defaults)}


def _team(sprint: Sprint, setting: Setting, defaults: PlanDefaults) -> str:
    if sprint.team is not None:
        return sprint.team.value
    if defaults.team is not None:
        return defaults.team
    known = setting.known.get(sprint.id.text)
    return known.metadata.team_name if known else default_team(sprint.id.text, slug(sprint.title))


def _worktree(sprint: Sprint, setting: Setting, defaults: PlanDefaults, branch: str) -> str:
    if sprint.worktree is None:
        known = setting.known.get(sprint.id.text)
        if known is not None and known.metadata.branch == branch:
            return known.metadata.worktree_path
        return setting.worktree(branch, defaults)
    if setting.schema == "legacy":
        return sprint.worktree.value
    return setting.absolute(sprint.worktree.value)


def tracking(setting: Setting, defaults: PlanDefaults) -> dict[str, Any]:
    return {
        "max_retry_attempts": defaults.max_retry_attempts or setting.config.max_retry_attempts,
        **run_state.UNTOUCHED.to_metadata(),
    }


def _extras(sprint: Sprint, setting: Setting, defaults: PlanDefaults) -> dict[str, Any]:
    """Keys that only some beads have."""
    if setting.schema == "legacy":
        return {}
    extras: dict[str, Any] = {}
    verifiers = [{"name": check.value.name, "command": check.value.command} for check in sprint.verify]
    verifiers = verifiers or [verifier.to_json() for verifier in defaults.verify or []]
    if verifiers:
        extras["dod"] = {"verifiers": verifiers}
    if sprint.criteria:
        extras["acceptance_criteria"] = [criterion.value for criterion in sprint.criteria]
    if sprint.may_change:
        extras["may_change"] = [pattern.value for pattern in sprint.may_change]
    template = sprint.template.value if sprint.template else defaults.template
    if template is not None:
        extras["template"] = template
    return extras


# --- agents -----------------------------------------------------------------------------------------


def _agents(sprint: Sprint, setting: Setting, defaults: PlanDefaults) -> dict[str, Any]:
    dev = [agent.value for agent in sprint.dev_agents] or defaults.dev_agents or []
    qa = judges(sprint, defaults)
    tasks = [task.value for task in sprint.tasks]
    if setting.schema == "legacy":
        return {
            "dev_agent_path": dev[0].agent.removesuffix(".md"),
            "dev_model": dev[0].model or "sonnet",
            "dev_prompts": tasks,
            "qa_agents": [_legacy_qa(spec) for spec in qa],
        }
    scrum_master = setting.scrum_master(defaults).to_json()
    return {
        "scrum_master_agent": {"context": f"Sprint {sprint.id} - {sprint.title}", **scrum_master},
        "dev_agents": [spec.to_json() for spec in dev],
        "dev_prompts": tasks,
        "qa_agents": [_qa_agent(spec, sprint) for spec in qa],
    }


def judges(sprint: Sprint, defaults: PlanDefaults) -> Sequence[AgentSpec]:
    """The QA agents of a sprint; nobody where it says so, or where nothing names any."""
    own = [agent.value for agent in sprint.qa_agents]
    return own if own or sprint.without_qa else defaults.qa_agents or []


def _qa_agent(spec: AgentSpec, sprint: Sprint) -> dict[str, Any]:
    """Acceptance criteria have no field of their own in the seed: every QA agent is told them."""
    given = spec.to_json()
    given.setdefault("output_schema", dict(OUTPUT_SCHEMA))
    if sprint.criteria:
        criteria = "\n".join(f"- {criterion.value}" for criterion in sprint.criteria)
        parts = [given.get("context"), f"Acceptance criteria:\n{criteria}"]
        given["context"] = "\n\n".join(part for part in parts if part)
    return given


def _legacy_qa(spec: AgentSpec) -> dict[str, Any]:
    plain = {"status": {"enum": ["pass", "fail", "stop"]}, "message": {"type": "string"}}
    return {
        "agent_path": spec.agent.removesuffix(".md"),
        "model": spec.model or "sonnet",
        "prompt": spec.context or "",
        "output_schema": {"type": "object", "properties": plain, "required": ["status", "message"]},
    }


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
        known, _ = setting.known_place(sprint)
        ids[sprint.id.text] = known or _free_id(bead_id(sprint, setting.id_suffix), setting.taken)
        if sprint.bead_name is None and not slug(sprint.title) and known is None:
            message = f"sprint {sprint.id}: the title '{sprint.title}' has no letter to name a bead by"
            action = "Add a line such as: **Bead Name**: setup"
            fault = Fault(Code.PLAN_PATTERN, message, plan.file, sprint.line, None, action)
            faults.append((sprint.id.text, fault))
    counts = Counter(ids.values())
    for sprint in unique(plan.sprints):
        if counts[ids[sprint.id.text]] > 1:
            message = f"sprint {sprint.id}: another sprint has the bead id {ids[sprint.id.text]} too"
            action = "Give one of them another **Bead Name**"
            fault = Fault(Code.DUPLICATE_ID, message, plan.file, sprint.line, None, action)
            faults.append((sprint.id.text, fault))
    return ids, faults


def _free_id(wanted: str, taken: Collection[str]) -> str:
    """`bd-1-1-start-2` where a bead of another sprint, renumbered since, has the plain one."""
    names = (wanted, *(f"{wanted}-{number}" for number in range(TWO, len(taken) + TWO + 1)))
    return next(name for name in names if name not in taken)


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
        action = f"Remove {reference} from its own **Depends On**"
        said = f"Self-dependency: {reference} depends on itself"
        return Fault(Code.SELF_DEP, said, plan.file, line, None, action)
    if reference in sprints or re.fullmatch(r"[^\W\d_][^/]*-[^/]+", reference):
        return None  # in the plan, or a bead outside; the store knows whether that exists
    struck = any(struck.id.text == reference for struck in plan.struck)
    why = "which is struck out" if struck else "which does not exist"
    message = f"Unknown dependency: {sprint.id} depends on {reference} {why}"
    close = difflib.get_close_matches(reference, sprints, n=1)
    hint = f"; did you mean {close[0]}?" if close and not struck else ""
    action = f"Check the sprint ids in **Depends On** of sprint {sprint.id}{hint}"
    return Fault(Code.UNRESOLVED, message, plan.file, line, None, action)


def _cycle_faults(
    plan: Plan, edges: Mapping[str, Sequence[str]], sprints: Mapping[str, Sprint], named: Mapping[str, str]
) -> Iterator[Fault]:
    """One fault for each cycle, and one for each sprint that waits behind one."""
    left = {node: edges[node] for node in graph.stuck(edges)}
    while path := graph.cycle(left):
        shown = " → ".join(f"{node} ({plan.file}:{sprints[node].line})" for node in path)
        line = _cycle_line(path, sprints, named)
        action = f"Remove one **Depends On** along the circle, such as the one on line {line}"
        yield Fault(Code.CYCLE_DETECTED, f"Circular dependency: {shown}", plan.file, line, None, action)
        on_it = set(path)
        left = {node: others for node, others in left.items() if node not in on_it}
    for node in left:
        message = f"sprint {node} can never start: it waits behind a circular dependency"
        action = "Break the circle named above; nothing is wrong here"
        yield Fault(Code.CYCLE_DETECTED, message, plan.file, sprints[node].line, None, action)


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
            action = f"Give the sprint on line {sprint.line} a number of its own, or strike one of them out"
            yield Fault(Code.DUPLICATE_ID, message, plan.file, sprint.line, None, action)
