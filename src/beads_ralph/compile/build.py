"""Plan → validated beads with their ids and dependencies; pure, and every fault of the plan at once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from beads_ralph.bead import graph, personas, schema
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import MERGE, SprintId
from beads_ralph.compile.formula_sprints import SprintPours
from beads_ralph.compile.molecule import Molecule
from beads_ralph.compile.places import branch_clashes, place_faults
from beads_ralph.compile.setting import Place, Setting
from beads_ralph.compile.sprints import (
    bead_json,
    compile_edges,
    judges,
    kind_and_merged,
    name_beads,
    repeated,
    sounds_like_merge,
    unique,
)
from beads_ralph.config.model import PlanDefaults
from beads_ralph.config.read import plan_defaults
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.formula.expansion import expanded
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.plan import At, Plan, Sprint, parse
from beads_ralph.store.protocol import AnyBead, Stored

REQUIRED: Final = {
    "Source Branch": "source_branch",
    "Dev Agents": "dev_agents",
    "QA Agents": "qa_agents",
    "Tasks": "tasks",
}
"""What every sprint must have, by its label."""
SETTABLE: Final = ["Source Branch", "Dev Agents", "QA Agents"]


@dataclass(frozen=True)
class Built:
    """A compiled plan. Every sprint that compiled is in `beads`, or in `molecules` where it names a
    formula; `faults` says why others did not."""

    plan: Plan
    ids: Mapping[str, str]
    """Sprint → the id of its bead, or of the root of its molecule."""
    edges: Mapping[str, Sequence[str]]
    beads: Mapping[str, AnyBead]
    molecules: Mapping[str, Molecule]
    faults: tuple[Fault, ...]
    sprint_faults: Mapping[str, tuple[Fault, ...]]
    warnings: tuple[Fault, ...]

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        return concerning(self, self.sprint_faults)


def concerning(built: Built, sprints: Iterable[str]) -> tuple[Fault, ...]:
    """The faults of the whole and of these sprints, in the order of the plan. What is wrong with many of them
    for one and the same reason is one fault."""
    own = (fault for sprint in sprints for fault in built.sprint_faults.get(sprint, ()))
    return tuple(_by_line(dict.fromkeys([*built.faults, *own])))


def build(plan: Plan, setting: Setting) -> Built:
    """Compile the whole plan: ids, dependencies, beads, molecules, checks."""
    said = plan.front_matter.value if plan.front_matter else {}
    own, faults, warnings = plan_defaults(said, plan.file, plan.front_matter_lines)
    ids, id_faults = name_beads(plan, setting)
    edges, edge_faults = compile_edges(plan, ids)
    drafts = _Drafts(plan, setting, own.over(setting.config.plan), ids, edges)
    for sprint_id, fault in id_faults:
        drafts.faults[sprint_id].append(fault)
    drafts.compile()
    faults = _by_line([*plan.faults, *faults, *repeated(plan), *edge_faults])
    if not edge_faults:
        faults += _hidden_cycle(plan, drafts)
    order = [sprint.id.text for sprint in unique(plan.sprints)]
    kept = {sprint_id: tuple(found) for sprint_id, found in drafts.faults.items() if found}
    warnings = [*setting.warnings, *plan.warnings, *warnings, *drafts.warnings, *_phase_warnings(plan)]
    return Built(
        plan,
        ids,
        edges,
        {sprint: drafts.beads[sprint] for sprint in order if sprint in drafts.beads},
        {sprint: drafts.molecules[sprint] for sprint in order if sprint in drafts.molecules},
        tuple(faults),
        kept,
        tuple(_by_line(warnings)),
    )


def _by_line(faults: Iterable[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: fault.line or 0)


# --- beads ------------------------------------------------------------------------------------------


@dataclass
class _Drafts:
    """Builds one bead or molecule after the other from the same setting."""

    plan: Plan
    setting: Setting
    defaults: PlanDefaults
    ids: Mapping[str, str]
    edges: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        self.beads: dict[str, AnyBead] = {}
        self.molecules: dict[str, Molecule] = {}
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.warnings: list[Fault] = []
        self.branches = {sprint.id.text: self._branch(sprint) for sprint in unique(self.plan.sprints)}
        """By sprint; and by id of what is compiled already."""

    def compile(self) -> None:
        """What waits comes last: it must know the last steps of a formula before it."""
        sprints = {sprint.id.text: sprint for sprint in unique(self.plan.sprints)}
        early = [name for wave in graph.waves(self.edges) for name in wave]
        for name in dict.fromkeys((*early, *sprints)):
            if not self.faults[name]:  # without an id of its own it would only show the same fault again
                (self._pour if sprints[name].is_poured else self._compile)(sprints[name])
        for name, fault in (*self._clashes(sprints), *self._same_ids(sprints)):
            self.faults[name].append(fault)

    def _compile(self, sprint: Sprint) -> None:
        bead, found = self._bead(sprint)
        self.faults[sprint.id.text] += found
        if bead is not None:
            self.beads[sprint.id.text] = bead
            self.branches[bead.id] = bead.metadata.branch

    def _pour(self, sprint: Sprint) -> None:
        name = sprint.id.text
        waits = tuple(self.ids.get(other, other) for other in self._waits(name))
        branch = self.branches[name]
        named = None if branch.startswith("/") else branch  # no source branch, unless the formula has one
        file = self.setting.plan_file
        around = Place(self.ids[name], file, branch=named, waits=waits, branches=self.branches)
        pours = SprintPours(self.plan, self.setting, self.defaults)
        molecule, found = pours.molecule(sprint, around)
        self.faults[name] += found
        self.warnings += pours.unheeded(sprint)
        if molecule is not None:
            self.molecules[name] = molecule
            beads = (member for member in molecule.members if isinstance(member, Bead))
            self.branches |= {bead.id: bead.metadata.branch for bead in beads}
        if sprint.type is not None:
            said = "**Type** says nothing of a sprint that is poured; its steps have types"
            self._warn(f"sprint {sprint.id}: {said}", sprint.type.line)

    def _waits(self, sprint: str) -> list[str]:
        """Sprints and ids; the last steps of a poured sprint in its place, so that their work is there."""
        found = [
            each
            for other in self.edges[sprint]
            for each in (self.molecules[other].exits if other in self.molecules else (other,))
        ]
        return list(dict.fromkeys(found))

    def _branch(self, sprint: Sprint) -> str:
        if sprint.branch is not None:
            return sprint.branch.value
        _, known = self.setting.known_place(sprint)
        if known is not None and not self.setting.is_impossible(known):
            return known
        source = sprint.source_branch.value if sprint.source_branch else self.defaults.source_branch or ""
        return self.setting.branch(source, sprint.id.text, sprint.title, self.defaults)

    def _bead(self, sprint: Sprint) -> tuple[AnyBead | None, list[Fault]]:
        missing = list(self._missing(sprint))
        if missing or sprint.unread.intersection(REQUIRED.values()):
            return None, missing
        waits = self._waits(sprint.id.text)
        raw = bead_json(sprint, self.setting, self.defaults, self.ids, waits, self.branches)
        self._notice_oddities(sprint, raw)
        checked = schema.check(raw, self.setting.schema)
        faults = [self._at(sprint, fault) for fault in checked.faults]
        if isinstance(checked.bead, Bead) and self.setting.agent_check:
            absent = personas.check_agents(checked.bead, self.setting.root)
            faults.extend(self._at(sprint, fault) for fault in absent)
        return checked.bead, faults

    def _missing(self, sprint: Sprint) -> Iterator[Fault]:
        """A section that nothing supplies. Where verifiers prove the work, nobody else need judge it; a merge
        needs no tasks."""
        verified = (sprint.verify or self.defaults.verify) and self.setting.schema != "legacy"
        wanted = {
            "Source Branch": sprint.source_branch or self.defaults.source_branch,
            "Dev Agents": sprint.dev_agents or self.defaults.dev_agents,
            "QA Agents": judges(sprint, self.defaults) or verified,
            "Tasks": sprint.tasks or self._kind(sprint) == MERGE,
        }
        lacking = [label for label, key in REQUIRED.items() if not wanted[label] and key not in sprint.unread]
        if not self.setting.is_set_up and lacking[: len(SETTABLE)] == SETTABLE:
            yield self._no_settings
            lacking = lacking[len(SETTABLE) :]
        for label in lacking:
            key = REQUIRED[label]
            action = f"Add **{label}** to the sprint, or {key} to the plan's front matter or to {CONFIG_NAME}"
            if label == "QA Agents":
                action += "; or **Verify** with commands that prove the work"
            if label == "Tasks":
                action = "Add **Tasks**: and at least one bullet below it"
            message = f"sprint {sprint.id} has no **{label}** section"
            yield Fault(Code.MISSING_SECTION, message, self.plan.file, sprint.line, None, action)

    def _kind(self, sprint: Sprint) -> str:
        return kind_and_merged(sprint, self._waits(sprint.id.text), self.branches)[0]

    @property
    def _no_settings(self) -> Fault:
        """One for all the sprints of a plan whose repository was never set up."""
        lacking = "nothing names a **Source Branch**, **Dev Agents** and **QA Agents**"
        message = f"{lacking}: there is no {CONFIG_NAME} here, and the plan's front matter has none of them"
        action = "Run: beads-ralph init. Add them to the front matter where you want no settings"
        return Fault(Code.MISSING_SECTION, message, self.plan.file, 1, None, action)

    def _at(self, sprint: Sprint, fault: Fault) -> Fault:
        message = f"sprint {sprint.id}: {fault.message}"
        line = _line_of(sprint, fault.field or "")
        return Fault(fault.code, message, self.plan.file, line, fault.field, fault.suggested_action)

    def _notice_oddities(self, sprint: Sprint, raw: Mapping[str, Any]) -> None:
        if sounds_like_merge(sprint) and sprint.type is None and raw["issue_type"] != "beads-ralph-merge":
            said = "sounds like a merge, but has fewer than two sprints to merge; it is a work bead"
            settled = "say **Type**: work or merge to settle it"
            self._warn(f"sprint {sprint.id}: '{sprint.title}' {said} ({settled})", sprint.line)
        if self.setting.schema == "legacy" and len(sprint.dev_agents) > 1:
            said = "the legacy schema holds one dev agent; the others are left out"
            self._warn(f"sprint {sprint.id}: {said}", sprint.dev_agents[1].line)

    def _warn(self, message: str, line: int) -> None:
        self.warnings.append(Fault(Code.CONSTRAINT, message, self.plan.file, line))

    # --- the whole

    def placed(self) -> Iterator[tuple[str, str, Stored]]:
        """Everything that was made: the sprint, the words for people, the thing itself."""
        for name, bead in self.beads.items():
            yield name, f"sprint {name}", bead
        for name, molecule in self.molecules.items():
            for member in molecule.batch:
                yield name, f"sprint {name} ({member.id})", member

    def _clashes(self, sprints: Mapping[str, Sprint]) -> Iterator[tuple[str, Fault]]:
        order = {name: at for at, name in enumerate(sprints)}
        placed = sorted(self.placed(), key=lambda one: order[one[0]])
        beads = {words: thing for _, words, thing in placed if not isinstance(thing, Item)}
        owners = {words: name for name, words, _ in placed}
        found = [*place_faults(beads, self.setting), *branch_clashes(beads)]
        for clash in found:
            sprint = sprints[owners[clash.owner]]
            line = _line_of(sprint, clash.field)
            fault = Fault(Code.CONSTRAINT, clash.message, self.plan.file, line, None, clash.action)
            yield sprint.id.text, fault

    def _same_ids(self, sprints: Mapping[str, Sprint]) -> Iterator[tuple[str, Fault]]:
        """A formula may give ids of its own choosing, the same ones every time."""
        counts = Counter(thing.id for _, _, thing in self.placed())
        for name, _, thing in self.placed():
            if counts[thing.id] > 1 and name in self.molecules:
                message = f"sprint {name}: another sprint has the id {thing.id} too"
                formula = sprints[name].formula
                line = formula.line if formula else sprints[name].line
                action = "Give the steps of that formula ids with a variable in them, or none"
                yield name, Fault(Code.DUPLICATE_ID, message, self.plan.file, line, None, action)


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
        "metadata.may_change": sprint.may_change,
    }
    entry = re.fullmatch(r"(.+?)\.(\d+)(?:\..*)?", field)
    if entry is not None and int(entry[2]) < len(several.get(entry[1], ())):
        return several[entry[1]][int(entry[2])].line
    value = single.get(field)
    return value.line if value is not None else sprint.line


# --- the whole plan ---------------------------------------------------------------------------------


def _hidden_cycle(plan: Plan, drafts: _Drafts) -> Iterator[Fault]:
    """A formula's own `after`, or **Depends On** with the id of a step, may close what sprints leave open."""
    if not drafts.molecules:
        return
    things = {thing.id: name for name, _, thing in drafts.placed()}
    path = graph.cycle({thing.id: thing.dependencies for _, _, thing in drafts.placed()})
    if path:
        sprint = plan.sprint(things[path[0]])
        message = f"Circular dependency: {' → '.join(path)}"
        yield Fault(Code.CYCLE_DETECTED, message, plan.file, sprint.line if sprint else None)


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
            message = f"sprint {sprint.id} is below the heading of phase {above.phase}"
            action = (
                f"Move it below a heading of phase {sprint.id.phase}, or give it a number of {above.phase}"
            )
            yield Fault(Code.PLAN_PATTERN, message, plan.file, sprint.line, None, action)


# --- from a file ------------------------------------------------------------------------------------


def read_plan(path: Path) -> Plan:
    return parse(text_files.read_text(path), str(path))


def setting_of(workspace: Workspace, file: Path) -> Setting:
    """What is known besides a file from which beads are made."""
    return Setting(
        root=workspace.root,
        plan_file=workspace.relative(file),
        now=datetime.now(UTC),
        config=workspace.config,
        is_set_up=bool(workspace.config.model_fields_set),
        branches=workspace.branches(),
        checked_out=workspace.repository.current_branch() if workspace.repository else None,
        warnings=workspace.warnings,
        checkout=workspace.checkout,
    )


def plan_setting(
    workspace: Workspace,
    plan: Plan,
    *,
    schema: Literal["4.1a", "legacy"] = "4.1a",
    id_suffix: str = "",
    agent_check: bool = True,
) -> Setting:
    """The same besides a plan, with the formulas that it names."""
    return replace(
        setting_of(workspace, Path(plan.file)),
        schema=schema,
        id_suffix=id_suffix,
        agent_check=agent_check,
        formulas=_formulas(workspace, plan),
    )


def _formulas(workspace: Workspace, plan: Plan) -> dict[str, Formula | RalphError]:
    """The formulas that the plan names, or why one cannot be poured."""
    folders = Folders.of(workspace.root, workspace.checkout)
    found: dict[str, Formula | RalphError] = {}
    for name in sorted({sprint.formula.value for sprint in plan.sprints if sprint.formula}):
        try:
            found[name] = expanded(folders.load(name), folders.load)
        except RalphError as error:
            found[name] = error
    return found


def compile_plan(workspace: Workspace, path: Path, *, agent_check: bool = True) -> Built:
    """Compile a plan; its faults are in the answer."""
    plan = read_plan(path)
    return build(plan, plan_setting(workspace, plan, agent_check=agent_check))


def require_graph(built: Built) -> Built:
    """Refuse what cannot even be drawn; missing sections do not hinder a drawing."""
    if built.faults:
        raise gathered(built.faults, built.plan.file, built.warnings)
    return built
