"""Sprints and whole phases of one shape → the formula that gives them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.names import ASSIGNEE
from beads_ralph.formula import worth
from beads_ralph.formula.columns import (
    Columns,
    Ingredient,
    Template,
    Variable,
    known,
    macro,
    said,
    used,
)
from beads_ralph.formula.definitions import (
    BeadJson,
    Instance,
    definition,
    essence,
    fields_of,
    inner_edges,
    name_all,
    ordered,
    step_keys,
    written,
)
from beads_ralph.formula.spellings import VaryingName, varying_names

SHOWN_SPRINTS: Final = 8


@dataclass(frozen=True)
class InferenceContext:
    """Input of the inference besides the beads."""

    name: str
    file: str
    """The formula's file as beads name it, from the root of the repository."""
    plan: str
    worktree: Callable[[str], str]
    """The worktree that a bead of this branch gets where nobody names one."""
    relative: Callable[[str], str]
    """A worktree's path in the form that holds on other machines too."""


@dataclass(frozen=True)
class Made:
    """A formula as its file says it, and the values that give its instances back."""

    formula: dict[str, Any]
    rows: list[dict[str, Any]]
    fields: Mapping[str, str]
    """Variable → the field that it came from."""


def make(instances: Sequence[Instance], around: InferenceContext) -> Made:
    """Infer the formula of instances of one shape: with names found inside of their texts as variables
    where less has to be given then."""
    plain = _Making(instances, around).made()
    names = varying_names(worth.text_columns(instances)) if len(instances) > 1 else []
    if not names:
        return plain
    return min(plain, _Making(instances, around, names).made(), key=worth.to_give)


class _Making:
    def __init__(
        self, instances: Sequence[Instance], around: InferenceContext, names: Sequence[VaryingName] = ()
    ) -> None:
        self.instances = instances
        self.around = around
        self.count = len(instances)
        self.keys = step_keys(instances)
        self.plan_file = Variable("plan_file", self._column("plan_file"))
        shared = Columns(self.count, None)
        self.steps: list[_Step] = []
        shared.take_names(names)
        for at in range(len(self.keys)):
            own = at if len(self.keys) > 1 else None
            columns = Columns(self.count, own, list(shared.words), shared.variables, shared.followers)
            self.steps.append(_Step(at, [instance[at] for instance in instances], columns))

    def made(self) -> Made:
        self._name_instances()
        nodes = [step.node(self) for step in self.steps]
        found = list(dict.fromkeys(used(nodes)))
        name_all(found, self.keys)
        fields = fields_of(found, nodes)
        variables = ordered(found)
        # What is poured later is not a sprint of that plan, and waits for nothing unless somebody says so.
        usual = {"plan_file": self.around.file, "plan_section": self.around.name, "after": ""}
        usual |= self._next_number()
        formula = {
            "formula": self.around.name,
            "description": self._description(),
            "version": 1,
            "type": "workflow",
            "phase": "liquid",
            "vars": {one.name: definition(one, fields[one.name], usual.get(one.base)) for one in variables},
            "steps": [said(node) for node in nodes],
        }
        given = [variable for variable in variables if variable.derive is None]
        rows = [{variable.name: variable.values[at] for variable in given} for at in range(self.count)]
        return Made(formula, rows, fields)

    def _column(self, key: str) -> list[Any]:
        return [instance[0]["metadata"][key] for instance in self.instances]

    def _name_instances(self) -> None:
        """Name what tells one instance from the next: a phase where all steps lie in it, else their sprints.
        A step may speak of the others, too."""
        phase = self._shared_phase()
        for step in self.steps:
            step.take_sprint(phase)
            step.take_title()
        own = [list(step.columns.words) for step in self.steps]
        for at, step in enumerate(self.steps):
            step.columns.words += [word for other, words in enumerate(own) if other != at for word in words]

    def _next_number(self) -> dict[str, str]:
        """The number after the last one, for what is poured later: there a name tells beads apart."""
        if not any(variable.varies for variable in used(list(self.steps[0].bead_id))):
            return {}
        phase, _, number = self.steps[0].sprints[-1].partition(".")
        if len(self.steps) == 1:
            return {"sprint_id": f"{phase}.{_number(number) + 1}"}
        return {"phase": str(_number(phase) + 1)} if self._shared_phase() is not None else {}

    def _shared_phase(self) -> Variable | None:
        """Where the sprints of every instance have the same places in one phase, its number says it all."""
        if len(self.steps) == 1:
            return None
        rows = [[bead["metadata"] for bead in instance] for instance in self.instances]
        parts = {tuple(one["sprint"].partition(".")[2] for one in row) for row in rows}
        alone = all(len({one["phase"] for one in row}) == 1 for row in rows)
        return Variable("phase", self._column("phase")) if alone and len(parts) == 1 else None

    def _description(self) -> str:
        sprints = [written(instance) for instance in self.instances]
        named = ", ".join(sprints[:SHOWN_SPRINTS])
        more = f" and {len(sprints) - SHOWN_SPRINTS} more" if len(sprints) > SHOWN_SPRINTS else ""
        plan = self.around.plan.replace("{", "(").replace("}", ")")  # braces would read as a variable
        return f"Made from {'sprint' if len(sprints) == 1 else 'sprints'} {named}{more} of {plan}"


class _Step:
    """One step: the beads that stand at its place, one for each instance."""

    def __init__(self, at: int, beads: Sequence[BeadJson], columns: Columns) -> None:
        self.at = at
        self.beads = beads
        self.columns = columns
        self.sprints = [bead["metadata"]["sprint"] for bead in beads]
        self.sprint: Template = ()
        self.slug: Template = ()
        self.phase: Template = ()
        self.phase_number: Template = ()
        self.title: Template = ()
        self.bead_id: Template = ()

    # --- what it is called

    def take_sprint(self, phase: Variable | None) -> None:
        columns = self.columns
        if phase is None:
            sprint = columns.variable("sprint_id", self.sprints)
            self.sprint = (sprint,)
            self.slug = (columns.derived("sprint_slug", "dashed", sprint),)
            self.phase = (columns.derived("phase", "phase", sprint),)
            number = columns.derived("phase_number", "phase_number", sprint)
        else:
            part = self.sprints[0].partition(".")[2]
            self.sprint, self.slug, self.phase = (phase, f".{part}"), (phase, f"-{part}"), (phase,)
            number = columns.derived("phase_number", "phase_number", phase)
        self.phase_number = (number,)
        self._add_words(self.sprint, self.slug)
        if phase is not None and len(self.beads) > 1:
            self._add_words(self.phase)

    def take_title(self) -> None:
        self.title = self.columns.text("title", [bead["title"] for bead in self.beads])
        self._add_words(self.title)
        self.bead_id = self._id()
        if len(self.beads) > 1 and _sole(self.sprint):  # a lone digit, seen once, says nothing
            self._add_words(self.phase)

    def _add_words(self, *templates: Template) -> None:
        """Other texts may be made of these, where they vary."""
        varying = [one for one in templates if any(isinstance(piece, Variable) for piece in one)]
        self.columns.words += [macro(template, len(self.beads)) for template in varying]

    def _id(self) -> Template:
        """`bd-<sprint>-<name>` as mason names beads, with the name as a variable of its own."""
        ids = [bead["id"] for bead in self.beads]
        starts = [f"bd-{sprint.replace('.', '-')}-" for sprint in self.sprints]
        pairs = list(zip(ids, starts, strict=True))
        if not all(ident.startswith(start) and ident != start for ident, start in pairs):
            return self.columns.text("bead_id", ids)
        name = self._name([ident.removeprefix(start) for ident, start in pairs])
        self._add_words(name)
        return ("bd-", *self.slug, "-", *name)

    def _name(self, names: Sequence[str]) -> Template:
        if (title := _sole(self.title)) is not None:
            from_title = self.columns.derived("name", "slug", title)
            if list(from_title.values) == list(names):
                return (from_title,)
        return self.columns.text("name", names)

    # --- what it says

    def node(self, making: _Making) -> dict[str, Any]:
        bead = [essence(bead) for bead in self.beads]
        metadata = self._metadata(making, [one["metadata"] for one in bead])
        return {
            "id": making.keys[self.at],
            "title": self.title,
            "description": self._description([one["description"] for one in bead], metadata),
            "type": bead[0]["issue_type"],
            "priority": self.columns.node(("priority",), [one["priority"] for one in bead]),
            "labels": self._labels([one["labels"] for one in bead]),
            "assignee": ASSIGNEE,
            "bead_id": self.bead_id,
            **self._waits(making),
            "metadata": metadata,
        }

    def _metadata(self, making: _Making, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        columns = self.columns
        bound = {"sprint": self.sprint, "phase": self.phase, "plan_file": (making.plan_file,)}
        if all(row["plan_sprint_id"] == row["sprint"] for row in rows):
            bound["plan_sprint_id"] = self.sprint
        found: dict[str, Any] = {}
        for key in _in_order(rows[0]):
            values = [row[key] for row in rows]
            if key in bound:
                found[key] = bound[key]
            elif key == "worktree_path":
                if values != [making.around.worktree(row["branch"]) for row in rows]:
                    # Left out where the branch says it: the folder belongs to this machine.
                    paths = [making.around.relative(value) for value in values]
                    found[key] = columns.text(key, paths, self._title_words())
            elif key in ("branch", "team_name"):
                found[key] = columns.text(key, values, self._title_words())
                self._add_words(found[key] if key == "branch" else ())
            else:
                found[key] = columns.node((key,), values)
            self._learn(key, found.get(key))
        return {key: found[key] for key in rows[0] if key in found}

    def _title_words(self) -> list[Ingredient]:
        """Other names that mason makes of a title."""
        title = _sole(self.title)
        if title is None:
            return []
        made = (("title_slug", "slug"), ("branch_name", "branch_slug"))
        return [known(self.columns.derived(base, rule, title)) for base, rule in made]

    def _learn(self, key: str, node: Any) -> None:
        """Tasks and criteria appear in other texts again."""
        if key not in ("dev_prompts", "acceptance_criteria") or not isinstance(node, list):
            return
        for entry in node:
            if isinstance(entry, Variable) and key == "acceptance_criteria":
                bullets = self.columns.derived("criteria_bullets", "bullets", entry)
                self.columns.words.append(known(bullets))
            elif isinstance(entry, tuple):
                self._add_words(entry)

    def _description(self, values: Sequence[str], metadata: Mapping[str, Any]) -> Template:
        extra = [
            known(self.columns.derived("tasks_prose", "sentences", entry))
            for entry in metadata["dev_prompts"]
            if isinstance(entry, Variable)
        ]
        return self.columns.text("description", values, extra)

    def _labels(self, rows: Sequence[Sequence[str]]) -> list[Any]:
        own = [f"phase-{int(re.match(r'[0-9]+', sprint)[0]):02d}" for sprint in self.sprints]  # type: ignore[index]
        if not all(row[:1] == [label] for row, label in zip(rows, own, strict=True)):
            return list(self.columns.texts("labels", rows))
        return [("phase-", *self.phase_number), *self.columns.texts("labels", [row[1:] for row in rows])]

    def _waits(self, making: _Making) -> dict[str, Any]:
        """Beads of the same instance are steps; all others are outside."""
        needs = [making.keys[other] for other in inner_edges(making.instances[0])[self.at]]
        after = [
            [other for other in bead["dependencies"] if other not in {own["id"] for own in instance}]
            for bead, instance in zip(self.beads, making.instances, strict=True)
        ]
        found: dict[str, Any] = {"needs": needs} if needs else {}
        if any(after):
            found["after"] = [self.columns.variable("after", after, "list")]
        return found


def _number(text: str) -> int:
    """The number that a part of a sprint's begins with: 2 of `2b`."""
    found = re.match(r"[0-9]+", text)
    return int(found[0]) if found else 0


def _in_order(metadata: Mapping[str, Any]) -> list[str]:
    """Names before what is named after them, tasks and criteria before what repeats them."""
    first = ("branch", "dev_prompts", "acceptance_criteria")
    return sorted(metadata, key=lambda key: first.index(key) if key in first else len(first))


def _sole(template: Template) -> Variable | None:
    return template[0] if len(template) == 1 and isinstance(template[0], Variable) else None
