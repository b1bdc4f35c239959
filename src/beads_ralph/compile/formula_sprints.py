"""A sprint that names a formula → the molecule that stands in its place, filled with what the sprint says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from beads_ralph.bead.legacy import default_team
from beads_ralph.bead.model import CLAUDE, AgentSpec
from beads_ralph.bead.names import persona_name, slug
from beads_ralph.compile.molecule import Molecule, compose
from beads_ralph.compile.setting import DEFAULT_RIG, ID_PREFIX, Place, Setting
from beads_ralph.compile.sprints import labels
from beads_ralph.config.model import PlanDefaults
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.formula.bd_compatible import unheeded
from beads_ralph.formula.model import Formula, Var
from beads_ralph.formula.variables import accepted, values
from beads_ralph.plan import At, Given, Plan, Sprint


@dataclass(frozen=True)
class SprintPours:
    """Pours one sprint after the other from the same setting."""

    plan: Plan
    setting: Setting
    defaults: PlanDefaults

    def molecule(self, sprint: Sprint, around: Place) -> tuple[Molecule | None, list[Fault]]:
        """The molecule of a sprint, or every fault of its values and of the beads they make."""
        if sprint.formula is None:
            return None, []  # the plan's own faults say what is wrong with its **Pour**
        if self.setting.schema == "legacy":
            return None, [self._legacy(sprint, sprint.formula)]
        found = self.setting.formulas.get(sprint.formula.value)
        try:
            if not isinstance(found, Formula):
                raise found or RalphError(
                    Code.FORMULA_NOT_FOUND, f"there is no formula {sprint.formula.value}"
                )
            molecule = self._composed(sprint, found, around)
        except RalphError as error:
            own = Fault(error.code, error.message, suggested_action=error.suggested_action)
            return None, [self._at(sprint, fault) for fault in error.faults or (own,)]
        faults = [replace(fault, file=self.plan.file) for fault in molecule.faults]
        return (None if faults else molecule), faults

    def unheeded(self, sprint: Sprint) -> list[Fault]:
        """What the formula says, and nobody acts on once it is poured."""
        found = self.setting.formulas.get(sprint.formula.value) if sprint.formula else None
        return [self._at(sprint, fault) for fault in unheeded(found)] if isinstance(found, Formula) else []

    def _composed(self, sprint: Sprint, formula: Formula, around: Place) -> Molecule:
        given = {name: value.value for name, value in sprint.pour.values.items()} if sprint.pour else {}
        offered = offer(sprint, self.setting, self.defaults, around)
        found = values(formula, offered.to(formula, given))
        known = self.setting.molecules.get(sprint.id.text)
        place = replace(
            around,
            sprint=_left(sprint, formula),
            defaults=self.defaults,
            known=known.steps if known else {},
            line=_line(sprint),
            label=f"sprint {sprint.id}",
        )
        molecule = compose(formula, found, self.setting, place)
        return replace(molecule, root=molecule.root.model_copy(update=self._root(sprint, around, molecule)))

    def _root(self, sprint: Sprint, around: Place, molecule: Molecule) -> dict[str, object]:
        """The root stands for the sprint; what is in its metadata finds it again, whatever its title."""
        place = {
            "plan_file": self.setting.plan_file,
            "plan_section": sprint.heading,
            "plan_sprint_id": sprint.id.text,
            "branch": around.branch,
        }
        return {
            "title": sprint.title,
            "description": _prose(sprint) or molecule.root.description,
            "labels": labels(sprint, self.defaults),
            "metadata": {**molecule.root.metadata, **place},
        }

    # --- faults, at the plan's lines

    def _legacy(self, sprint: Sprint, formula: At[str]) -> Fault:
        message = (
            f"sprint {sprint.id}: the legacy schema knows no formulas, and this sprint pours {formula.value}"
        )
        action = "Leave out --schema legacy, or write the sprint's tasks instead of the formula"
        return Fault(Code.CONSTRAINT, message, self.plan.file, formula.line, None, action)

    def _at(self, sprint: Sprint, fault: Fault) -> Fault:
        kind, _, name = (fault.field or "").partition("vars.")
        name = "" if kind else name
        given = sprint.pour.values.get(name) if sprint.pour else None
        where = f"{fault.place}: " if fault.file else ""
        message = f"sprint {sprint.id}: {where}{fault.message}"
        action = fault.suggested_action
        if name and fault.code == Code.MISSING_VAR:
            action = f"Add a line to the sprint's **Pour**, such as: - {name}: VALUE"
        elif name and fault.code == Code.INVALID_VAR and given is None:
            message += " (taken from the sprint itself)"
            action = f"Give another value below **Pour**: - {name}: VALUE"
        line = given.line if given else _line(sprint)
        return Fault(fault.code, message, self.plan.file, line, fault.field, action)


TAKEN: Final = {
    "tasks": ("tasks", "task", "dev_prompts"),
    "criteria": ("acceptance_criteria", "criteria", "criterion"),
    "verify": ("verify", "verifiers", "verify_command", "test_command"),
    "description": ("description", "desc", "goal", "symptom"),
}
"""Fields of the whole sprint, by the names under which a formula may take them."""


def _left(sprint: Sprint, formula: Formula) -> Sprint:
    """The sprint without what its formula takes as a variable: that goes where the formula puts it."""
    names = accepted(formula)
    taken = {field for field, words in TAKEN.items() if not set(words).isdisjoint(names)}
    empty: dict[str, Any] = {field: "" if field == "description" else () for field in taken}
    if "description" in taken:
        empty["notes"] = ()
    return replace(sprint, **empty)


def _prose(sprint: Sprint) -> str:
    return "\n\n".join(part for part in (sprint.description, *sprint.notes) if part)


def _line(sprint: Sprint) -> int:
    return sprint.formula.line if sprint.formula else sprint.line


# --- what a sprint offers to its formula ------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """`said` goes before the default of a variable, `assumed` only where it has none."""

    said: Mapping[str, Given]
    assumed: Mapping[str, Given]

    def to(self, formula: Formula, given: Mapping[str, Given]) -> dict[str, Given]:
        """Values for the variables that the formula has; what the **Pour** block gives goes first."""
        values = dict(given)
        for name in accepted(formula):
            var = formula.vars.get(name, Var())
            value = self.said.get(name)
            if value is None and var.default is None:
                value = self.assumed.get(name)
            # What follows from another variable does so whoever gives that one.
            if value is not None and name not in values and not var.derive:
                values[name] = _shaped(value, var)
        return values


def _shaped(value: Given, var: Var) -> Given:
    """A list for a variable that takes one; its lines for one that takes a text."""
    if isinstance(value, tuple):
        return value if var.type == "list" else "\n".join(value)
    return (value,) if var.type == "list" else value


def offer(sprint: Sprint, setting: Setting, defaults: PlanDefaults, around: Place) -> Offer:
    said = {
        **_identity(sprint, setting, defaults, around),
        **_words(sprint),
        **_agents("dev", [agent.value for agent in sprint.dev_agents]),
        **_agents("qa", [agent.value for agent in sprint.qa_agents]),
        "depends_on": around.waits,
        "after": around.waits,
    }
    assumed = {
        "source_branch": defaults.source_branch or "",
        "rig": defaults.rig or DEFAULT_RIG,
        "team": defaults.team or default_team(sprint.id.text, slug(sprint.title)),
        "labels": tuple(defaults.labels or ()),
        "priority": "" if defaults.priority is None else str(defaults.priority),
        **_agents("dev", defaults.dev_agents or ()),
        **_agents("qa", defaults.qa_agents or ()),
    }
    return Offer(_filled(_with_aliases(said), keep=("depends_on", "after")), _filled(_with_aliases(assumed)))


ALIASES = {
    "sprint": "sprint_id",
    "sprint_title": "title",
    "slug": "name",
    "worktree": "worktree_path",
    "team_name": "team",
    "desc": "description",
    "goal": "description",
    "symptom": "description",
    "test_command": "verify_command",
    "dev_prompts": "tasks",
    "criteria": "acceptance_criteria",
    "verifiers": "verify",
}


def _with_aliases(values: Mapping[str, Given]) -> dict[str, Given]:
    return {**values, **{other: values[name] for other, name in ALIASES.items() if name in values}}


def _filled(values: Mapping[str, Given], keep: Iterable[str] = ()) -> dict[str, Given]:
    """Without what says nothing; a sprint that waits for nothing says so."""
    return {name: value for name, value in values.items() if value or name in keep}


def _identity(sprint: Sprint, setting: Setting, defaults: PlanDefaults, around: Place) -> dict[str, Given]:
    made = setting.worktree(around.branch, defaults) if around.branch else ""
    folder = setting.absolute(sprint.worktree.value) if sprint.worktree else made
    given = sprint.bead_name.value if sprint.bead_name else ""
    return {
        "sprint_id": sprint.id.text,
        "sprint_slug": sprint.id.dashed,
        "phase": sprint.id.phase,
        "phase_number": f"{sprint.id.phase_number:02d}",
        "title": sprint.title,
        "name": given if given and not given.startswith(f"{ID_PREFIX}-") else slug(sprint.title),
        "bead_id": around.root_id,
        "branch": around.branch or "",
        "worktree_path": folder,
        "plan_file": setting.plan_file,
        "plan_section": sprint.heading,
        "plan_sprint_id": sprint.id.text,
    }


def _words(sprint: Sprint) -> dict[str, Given]:
    return {
        "description": _prose(sprint),
        "source_branch": sprint.source_branch.value if sprint.source_branch else "",
        "team": sprint.team.value if sprint.team else "",
        "tasks": tuple(task.value for task in sprint.tasks),
        "task": _only(sprint.tasks),
        "criterion": _only(sprint.criteria),
        "acceptance_criteria": tuple(criterion.value for criterion in sprint.criteria),
        "verify": tuple(check.value.command for check in sprint.verify),
        "verify_command": sprint.verify[0].value.command if len(sprint.verify) == 1 else "",
        "labels": tuple(label.value for label in sprint.labels),
        "priority": str(sprint.priority.value) if sprint.priority else "",
        "template": sprint.template.value if sprint.template else "",
        "branches_to_merge": tuple(branch.value for branch in sprint.branches_to_merge),
    }


def _only(entries: Sequence[At[str]]) -> str:
    """The one entry of a list that has one."""
    return entries[0].value if len(entries) == 1 else ""


def _agents(role: str, specs: Sequence[AgentSpec]) -> dict[str, Given]:
    """`dev_agent` and `dev_model` are the first one's; `dev_agents` are all, as a plan writes them."""
    if not specs:
        return {}
    first = specs[0]
    return {
        f"{role}_agents": tuple(_short(spec) for spec in specs),
        f"{role}_agent": persona_name(first.agent),
        f"{role}_model": _program(first),
    }


def _short(spec: AgentSpec) -> str:
    program = f" ({_program(spec)})" if _program(spec) else ""
    note = f" - {spec.context}" if spec.context else ""
    return f"{persona_name(spec.agent)}{program}{note}"


def _program(spec: AgentSpec) -> str:
    """`opus`, or `codex:gpt-5` for another program; empty where the defaults decide."""
    if spec.model is None or spec.executable in (None, CLAUDE):
        return spec.model or ""
    return f"{spec.executable}:{spec.model}"
