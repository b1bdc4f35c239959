"""A sprint that names a formula → the molecule that stands in its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from beads_ralph.compile.formula_inputs import Around, offer
from beads_ralph.compile.metadata import labels
from beads_ralph.compile.molecule import Molecule, compose
from beads_ralph.compile.origin import Place
from beads_ralph.compile.setting import Setting
from beads_ralph.config import PlanDefaults
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.formula.model import Formula
from beads_ralph.formula.variables import used_names, values
from beads_ralph.plan import At, Plan, Sprint


@dataclass(frozen=True)
class SprintPours:
    """Pours one sprint after the other from the same setting."""

    plan: Plan
    setting: Setting
    defaults: PlanDefaults

    def molecule(self, sprint: Sprint, around: Around) -> tuple[Molecule | None, list[Fault]]:
        """The molecule of a sprint, or every fault of its values and of the beads they make."""
        if sprint.formula is None:
            return None, []  # the plan's own faults say what is wrong with its **Pour**
        if self.setting.schema == "legacy":
            return None, [self._legacy(sprint, sprint.formula)]
        found = self.setting.formulas.get(sprint.formula.value)
        if not isinstance(found, Formula):
            return None, self._refused(sprint, found or _unknown(sprint.formula.value))
        try:
            molecule = self._composed(sprint, found, around)
        except RalphError as error:
            return None, self._refused(sprint, error)
        faults = [replace(fault, file=self.plan.file) for fault in molecule.faults]
        return (None if faults else molecule), faults

    def _composed(self, sprint: Sprint, formula: Formula, around: Around) -> Molecule:
        given = {name: value.value for name, value in sprint.pour.values.items()} if sprint.pour else {}
        offered = offer(sprint, self.setting, self.defaults, around)
        found = values(formula, offered.to(formula, given))
        molecule = compose(formula, found, self.setting, self._place(sprint, formula, around))
        return replace(molecule, root=molecule.root.model_copy(update=self._root(sprint, around, molecule)))

    def _place(self, sprint: Sprint, formula: Formula, around: Around) -> Place:
        known = self.setting.molecules.get(sprint.id.text)
        return Place(
            root_id=around.root_id,
            file=self.setting.plan_file,
            sprint=_left(sprint, formula),
            branch=around.branch,
            waits=tuple(around.waits),
            branches=around.branches,
            defaults=self.defaults,
            known=known.steps if known else {},
            line=_line(sprint),
            label=f"sprint {sprint.id}",
        )

    def _root(self, sprint: Sprint, around: Around, molecule: Molecule) -> dict[str, object]:
        """The root stands for the sprint; what is in its metadata finds it again, whatever its title."""
        place = {
            "plan_file": self.setting.plan_file,
            "plan_section": sprint.heading,
            "plan_sprint_id": sprint.id.text,
            "branch": around.branch,
        }
        words = "\n\n".join(part for part in (sprint.description, *sprint.notes) if part)
        return {
            "title": sprint.title,
            "description": words or molecule.root.description,
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

    def _refused(self, sprint: Sprint, error: RalphError) -> list[Fault]:
        faults = error.faults or (Fault(error.code, error.message, suggested_action=error.suggested_action),)
        return [self._at(sprint, fault) for fault in faults]

    def _at(self, sprint: Sprint, fault: Fault) -> Fault:
        name = (fault.field or "").removeprefix("vars.") if (fault.field or "").startswith("vars.") else None
        given = sprint.pour.values.get(name) if sprint.pour and name else None
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
"""What belongs to the whole sprint, by the names under which a formula may take it."""


def _left(sprint: Sprint, formula: Formula) -> Sprint:
    """The sprint without what its formula takes as a variable: that goes where the formula puts it."""
    names = {*formula.vars, *used_names(formula)}
    taken = {field for field, words in TAKEN.items() if names.intersection(words)}
    empty: dict[str, Any] = {field: "" if field == "description" else () for field in taken}
    if "description" in taken:
        empty["notes"] = ()
    return replace(sprint, **empty)


def _line(sprint: Sprint) -> int:
    return sprint.formula.line if sprint.formula else sprint.line


def _unknown(name: str) -> RalphError:
    return RalphError(Code.FORMULA_NOT_FOUND, f"there is no formula {name}")
