"""A formula with its values → one molecule: the root, and every bead and item below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.bead import graph, personas, schema
from beads_ralph.bead.field_types import SPRINT_PATTERN
from beads_ralph.bead.items import GateRule, Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import GATE, ISSUE_TYPES, MOLECULE, WORK, SprintId
from beads_ralph.compile.setting import Place, Setting, member_id
from beads_ralph.compile.step import Slot, branch_of, raw_bead
from beads_ralph.config.model import Config, FormulaSettings
from beads_ralph.errors import Code, Fault
from beads_ralph.formula.model import Formula
from beads_ralph.formula.render import Ready, render
from beads_ralph.formula.variables import Values

Part = tuple[Formula, Values]
MAX_TITLE: Final = 500


@dataclass(frozen=True)
class Molecule:
    """The result of one pour; complete only where there are no faults."""

    root: Item
    members: tuple[Bead | Item, ...]
    faults: tuple[Fault, ...]
    entries: tuple[str, ...]
    """The steps that wait for nothing inside."""
    exits: tuple[str, ...]
    """What waits for the whole molecule waits for these: the steps that nothing inside waits for, and
    where such a step is no bead, the beads before it too, so that their work is there."""
    given_ids: frozenset[str] = frozenset()
    """Ids that the formula itself names; the others follow the number of the pour."""

    @property
    def batch(self) -> list[Bead | Item]:
        return [self.root, *self.members]

    @property
    def outside(self) -> frozenset[str]:
        """Ids outside that its members wait for."""
        own = {member.id for member in self.members}
        return frozenset(name for member in self.members for name in member.dependencies if name not in own)


def compose(
    formula: Formula,
    values: Values,
    setting: Setting,
    place: Place,
    *,
    wisp: bool = False,
    assignee: str | None = None,
    attached: Sequence[Part] = (),
    handed: FormulaSettings | None = None,
) -> Molecule:
    """One molecule, every fault inside. What is attached comes after what stands before it. `handed` says
    who does plain steps; without it the settings of each formula do."""
    first = render(formula, values)
    steps = list(_steps(first.steps, formula.name, ""))
    for at, (other, own) in enumerate(attached):
        times = [part.name for part, _ in attached[:at]].count(other.name)
        prefix = f"{other.name}-{times + 1}." if times else f"{other.name}."
        added = list(_steps(render(other, own).steps, other.name, prefix))
        # The first of the added steps wait for the last ones of those before them.
        ends, begins = _ends(steps), _begins(added)
        steps += [replace(one, needs=(*one.needs, *ends)) if one.key in begins else one for one in added]
    root = Item(
        id=place.root_id,
        title=first.title.strip()[:MAX_TITLE] or formula.name,
        issue_type=MOLECULE,
        description=first.description,
        assignee=assignee,
        metadata={"formula": formula.name},
    )
    steps = [_handed(step, handed or handed_over(setting.config, step.formula)) for step in steps]
    composing = _Composing(steps, values, setting, place, wisp=wisp)
    return composing.molecule(root.model_copy(update=composing.mark))


def _steps(steps: Iterable[Ready], formula: str, prefix: str) -> Iterator[Ready]:
    for step in steps:
        yield replace(
            step,
            key=prefix + step.key,
            needs=tuple(prefix + key for key in step.needs),
            parent=None if step.parent is None else prefix + step.parent,
            formula=formula,
        )


def handed_over(config: Config, formula: str) -> FormulaSettings:
    """What the settings say of a formula's plain steps."""
    return config.formulas.get(formula) or FormulaSettings()


def _handed(step: Ready, how: FormulaSettings) -> Ready:
    """A person's step as one for agents. Gates stay people's: somebody wanted to be asked."""
    if not how.for_agents or not _is_work(step) or step.issue_type in ISSUE_TYPES:
        return step
    who = {"dev_agents": [how.agent.to_json()]} if how.agent else {}
    return replace(step, issue_type=WORK, assignee="", metadata={**who, **step.metadata})


def _is_work(step: Ready) -> bool:
    """True for a step with work in it: containers only hold steps, and gates only hold them up."""
    return not step.is_epic and step.issue_type != GATE


def _begins(steps: Iterable[Ready]) -> list[str]:
    """The steps that need no other one."""
    work = {step.key: step for step in steps if _is_work(step)}
    return [key for key, step in work.items() if work.keys().isdisjoint(step.needs)]


def _ends(steps: Iterable[Ready]) -> list[str]:
    """The steps that no other needs."""
    work = {step.key: step for step in steps if _is_work(step)}
    needed = {key for step in work.values() for key in step.needs}
    return [key for key in work if key not in needed]


class _Composing:
    def __init__(
        self, steps: Sequence[Ready], values: Values, setting: Setting, place: Place, *, wisp: bool
    ) -> None:
        self.steps = {step.key: step for step in steps}
        self.values = values
        self.setting = setting
        self.place = place
        self.mark: dict[str, Any] = {"ephemeral": True} if wisp else {}
        self.faults: list[Fault] = []
        self.ids = {key: self._id(step) for key, step in self.steps.items()}
        self.begins = frozenset(_begins(steps))
        self.sprints = self._sprints()
        self.alone = len(self.sprints) == 1
        self.branches = {self.ids[key]: self._branch(key, sprint) for key, sprint in self.sprints.items()}

    def molecule(self, root: Item) -> Molecule:
        members = [member for key in self.steps for member in self._members(key)]
        self.faults += self._same_ids()
        self.faults += self._cycles()
        ends = _ends(self.steps.values())
        exits = dict.fromkeys((*(self.ids[key] for key in ends), *self._beads_behind(ends)))
        entries = tuple(self.ids[key] for key in self.steps if key in self.begins)
        given = frozenset(self.ids[key] for key, step in self.steps.items() if step.bead_id)
        return Molecule(root, tuple(members), tuple(self.faults), entries, tuple(exits), given)

    # --- ids and sprints

    def _id(self, step: Ready) -> str:
        known = self.place.known.get(step.key)
        if known is not None:
            return known.id
        suffix = f"-{self.setting.id_suffix}" if self.setting.id_suffix else ""
        given = step.bead_id + suffix if step.bead_id else ""
        if given and not (self.place.sprint is not None and given == self.place.root_id):
            return given
        return member_id(self.place.root_id, step.key)  # in a plan the sprint's own id is the root's

    def _branch(self, key: str, sprint: SprintId) -> str:
        word = self._word(key, sprint)
        return branch_of(self.steps[key], self.setting, self.place, word, alone=self.alone)

    def _sprints(self) -> dict[str, SprintId]:
        """Step → sprint, of the beads; without a word of their own they are counted."""
        found: dict[str, SprintId] = {}
        beads = [step for step in self.steps.values() if step.issue_type in ISSUE_TYPES]
        for at, step in enumerate(beads, 1):
            text = self._sprint_text(step, at)
            sprint = SprintId.parse(text) if isinstance(text, str) else None
            if sprint is None:
                message = f"{text!r} is not a sprint id: it must match {SPRINT_PATTERN}"
                self._fault(step, Fault(Code.FIELD_PATTERN, message, field="metadata.sprint"))
            else:
                found[step.key] = sprint
        return found

    def _sprint_text(self, step: Ready, at: int) -> Any:
        if self.place.sprint is not None:
            return self.place.sprint.id.text
        given = self.values.text("sprint_id") if "sprint_id" in self.values else f"{self.place.number}.{at}"
        return step.metadata.get("sprint", given)

    def _word(self, key: str, sprint: SprintId) -> str:
        """The sprint's word in a branch. Counted ones are the same in every formula, so that there
        the formula and the number of the pour stand for them."""
        counted = self.place.sprint is None and "sprint_id" not in self.values
        if counted and "sprint" not in self.steps[key].metadata:
            return self.place.root_id.partition("-")[2]
        return sprint.text

    # --- members

    def _members(self, key: str) -> Iterator[Bead | Item]:
        step = self.steps[key]
        member = self._bead(key) if step.issue_type in ISSUE_TYPES else self._item(step)
        if member is not None:
            yield member
        gate = self._gate(step, step.gate) if step.gate is not None else None
        if gate is not None:
            yield gate

    def _bead(self, key: str) -> Bead | None:
        if key not in self.sprints:
            return None
        step, identity = self.steps[key], self.ids[key]
        waits = self._waits(step)
        known = (self.branches, self.place.branches)
        branches = {one: there[one] for one in (identity, *waits) for there in known if one in there}
        slot = Slot(identity, self.sprints[key], waits, branches, self.alone)
        raw, faults = raw_bead(step, slot, self.setting, self.place)
        bead: Bead | None = None
        if raw is not None:
            raw |= {"parent": self._parent(step), **self.mark}
            checked = schema.check(raw, "4.1a")
            faults = [*checked.faults]
            bead = checked.bead if isinstance(checked.bead, Bead) else None
        if bead is not None and self.setting.agent_check:
            faults += personas.check_agents(bead, self.setting.root)
        for fault in faults:
            self._fault(step, fault)
        return bead

    def _item(self, step: Ready) -> Item | None:
        given: dict[str, Any] = {
            "id": self.ids[step.key],
            "title": step.title,
            "issue_type": step.issue_type,
            "description": step.description,
            "notes": step.notes,
            "assignee": step.assignee or None,
            "dependencies": self._waits(step),
            "labels": list(step.labels),
            "metadata": dict(step.metadata),
        }
        if step.priority is not None:
            given["priority"] = step.priority
        return self._checked(step, given)

    def _gate(self, step: Ready, rule: GateRule) -> Item | None:
        what = f"{rule.type} {rule.await_id}" if rule.await_id else rule.type
        return self._checked(
            step,
            {
                "id": self._gate_id(step),
                "title": f"Gate: {what}",
                "issue_type": GATE,
                "description": f"Async gate for step {step.key}",
                "metadata": {"gate": rule.to_json()},
            },
        )

    def _gate_id(self, step: Ready) -> str:
        return member_id(self.place.root_id, f"gate-{step.key}")

    def _checked(self, step: Ready, given: dict[str, Any]) -> Item | None:
        try:
            return Item.model_validate(given | {"parent": self._parent(step)} | self.mark)
        except ValidationError as problem:
            for fault in schema.faults_of(problem):
                self._fault(step, fault)
            return None

    def _parent(self, step: Ready) -> str:
        return self.place.root_id if step.parent is None else self.ids[step.parent]

    def _fault(self, step: Ready, fault: Fault) -> None:
        where = f"{self.place.label}: step {step.key}" if self.place.label else f"step {step.key}"
        field = f"steps.{step.key}.{fault.field}" if fault.field else f"steps.{step.key}"
        message = f"{where}: {fault.message}"
        file = self.place.file
        self.faults.append(replace(fault, message=message, file=file, line=self.place.line, field=field))

    # --- what waits for what

    def _waits(self, step: Ready) -> list[str]:
        """The dependencies of a step. One that waits for something that is no bead, such as a person's task,
        also waits for the beads before that: their branches go into its own."""
        own = [*(self.ids[key] for key in step.needs), *self._outside(step)]
        if step.issue_type in ISSUE_TYPES:
            own += self._beads_behind(step.needs)
        if step.gate is not None:
            own.append(self._gate_id(step))
        return list(dict.fromkeys(own))

    def _outside(self, step: Ready) -> Sequence[str]:
        """Ids outside of the molecule that a step waits for."""
        return (*step.after, *(self.place.waits if step.key in self.begins else ()))

    def _beads_behind(self, keys: Iterable[str]) -> Iterator[str]:
        """The nearest beads behind the items among these, and what those items wait for outside."""
        left, seen = list(keys), set[str]()
        while left:
            key = left.pop(0)
            step = self.steps[key]
            if key in seen or step.issue_type in ISSUE_TYPES:
                continue
            seen.add(key)
            yield from (self.ids[one] for one in step.needs if self.steps[one].issue_type in ISSUE_TYPES)
            left += step.needs
            yield from self._outside(step)

    # --- the whole

    def _same_ids(self) -> Iterator[Fault]:
        gates = {f"gate-{key}": self._gate_id(step) for key, step in self.steps.items() if step.gate}
        everyone: Mapping[str, str] = {**self.ids, **gates}
        counts = Counter([self.place.root_id, *everyone.values()])
        for key, identity in everyone.items():
            if counts[identity] > 1:
                message = f"step {key}: another step has the id {identity} too"
                yield Fault(Code.DUPLICATE_ID, message, self.place.file, self.place.line, f"steps.{key}")

    def _cycles(self) -> Iterator[Fault]:
        path = graph.cycle({key: step.needs for key, step in self.steps.items()})
        if path:
            message = f"the steps wait for one another: {' → '.join(path)}"
            field = f"steps.{path[0]}.needs"
            yield Fault(Code.CYCLE_DETECTED, message, self.place.file, self.place.line, field)
