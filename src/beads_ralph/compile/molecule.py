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
from beads_ralph.bead.names import GATE, ISSUE_TYPES, MOLECULE, SprintId
from beads_ralph.compile.setting import Place, Setting, member_id
from beads_ralph.compile.step import Slot, branch_of, raw_bead
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
) -> Molecule:
    """One molecule, every fault inside. What is attached comes after what stands before it."""
    first = render(formula, values)
    steps = list(_steps(first.steps, formula.name, ""))
    for at, (other, own) in enumerate(attached):
        prefix = _prefix(other.name, [part.name for part, _ in attached[:at]])
        added = list(_steps(render(other, own).steps, other.name, prefix))
        steps = _followed(steps, added)
    root = Item(
        id=place.root_id,
        title=first.title.strip()[:MAX_TITLE] or formula.name,
        issue_type=MOLECULE,
        description=first.description,
        assignee=assignee,
        metadata={"formula": formula.name},
    )
    composing = _Composing(steps, values, setting, place, wisp=wisp)
    return composing.molecule(root.model_copy(update=composing.mark))


def _prefix(name: str, before: Sequence[str]) -> str:
    times = before.count(name)
    return f"{name}." if not times else f"{name}-{times + 1}."


@dataclass(frozen=True)
class Placed:
    """A step, and the formula it is from."""

    step: Ready
    formula: str

    @property
    def key(self) -> str:
        return self.step.key


def _steps(steps: Iterable[Ready], formula: str, prefix: str) -> Iterator[Placed]:
    for step in steps:
        moved = replace(
            step,
            key=prefix + step.key,
            needs=tuple(prefix + key for key in step.needs),
            parent=None if step.parent is None else prefix + step.parent,
        )
        yield Placed(moved, formula)


def _followed(steps: list[Placed], added: list[Placed]) -> list[Placed]:
    """The first of the added steps wait for the last ones of those before them."""
    last = tuple(_ends(steps))
    first = {placed.key for placed in _begins(added)}
    return [*steps, *(_waiting(one, last) if one.key in first else one for one in added)]


def _waiting(placed: Placed, last: tuple[str, ...]) -> Placed:
    return replace(placed, step=replace(placed.step, needs=(*placed.step.needs, *last)))


def _is_work(step: Ready) -> bool:
    """True for a step with work in it: containers only hold steps, and gates only hold them up."""
    return not step.is_epic and step.issue_type != GATE


def _begins(steps: Sequence[Placed]) -> list[Placed]:
    """The steps that need no other one."""
    work = {placed.key for placed in steps if _is_work(placed.step)}
    return [placed for placed in steps if placed.key in work and not work.intersection(placed.step.needs)]


def _ends(steps: Sequence[Placed]) -> list[str]:
    """The steps that no other needs."""
    needed = {key for placed in steps if _is_work(placed.step) for key in placed.step.needs}
    return [placed.key for placed in steps if _is_work(placed.step) and placed.key not in needed]


class _Composing:
    def __init__(
        self, steps: Sequence[Placed], values: Values, setting: Setting, place: Place, *, wisp: bool
    ) -> None:
        self.steps = {placed.key: placed for placed in steps}
        self.values = values
        self.setting = setting
        self.place = place
        self.mark: dict[str, Any] = {"ephemeral": True} if wisp else {}
        self.faults: list[Fault] = []
        self.ids = {key: self._id(placed.step) for key, placed in self.steps.items()}
        self.begins = {placed.key for placed in _begins(steps)}
        self.sprints = self._sprints()
        self.alone = len(self.sprints) == 1
        self.branches = {self.ids[key]: self._branch(key, sprint) for key, sprint in self.sprints.items()}

    def molecule(self, root: Item) -> Molecule:
        members = [member for key in self.steps for member in self._members(key)]
        self.faults += self._same_ids()
        self.faults += self._cycles()
        entries = [self.ids[key] for key in self.steps if key in self.begins]
        given = [self.ids[key] for key, placed in self.steps.items() if placed.step.bead_id]
        return Molecule(
            root, tuple(members), tuple(self.faults), tuple(entries), tuple(self._exits()), frozenset(given)
        )

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

    def _branches_among(self, ids: Iterable[str]) -> dict[str, str]:
        known = (self.branches, self.place.branches)
        return {one: there[one] for one in ids for there in known if one in there}

    def _branch(self, key: str, sprint: SprintId) -> str:
        word = self._word(key, sprint)
        return branch_of(self.steps[key].step, self.setting, self.place, word, alone=self.alone)

    def _sprints(self) -> dict[str, SprintId]:
        """Step → sprint, of the beads; without a word of their own they are counted."""
        found: dict[str, SprintId] = {}
        beads = [placed.step for placed in self.steps.values() if placed.step.issue_type in ISSUE_TYPES]
        for at, step in enumerate(beads, 1):
            text = self._sprint_text(step, at)
            sprint = SprintId.parse(text) if isinstance(text, str) else None
            if sprint is None:
                message = f"{text!r} is no sprint id: it must match {SPRINT_PATTERN}"
                self._fault(step, Fault(Code.FIELD_PATTERN, message, field="metadata.sprint"))
            else:
                found[step.key] = sprint
        return found

    def _sprint_text(self, step: Ready, at: int) -> Any:
        if self.place.sprint is not None:
            return self.place.sprint.id.text
        if "sprint" in step.metadata:
            return step.metadata["sprint"]
        return self.values.text("sprint_id") if "sprint_id" in self.values else f"{self.place.number}.{at}"

    def _word(self, key: str, sprint: SprintId) -> str:
        """The sprint's word in a branch. Counted ones are the same in every formula, so that there
        the formula and the number of the pour stand for them."""
        counted = self.place.sprint is None and "sprint_id" not in self.values
        if counted and "sprint" not in self.steps[key].step.metadata:
            return self.place.root_id.partition("-")[2]
        return sprint.text

    # --- members

    def _members(self, key: str) -> Iterator[Bead | Item]:
        step = self.steps[key].step
        member = self._bead(key) if step.issue_type in ISSUE_TYPES else self._item(step)
        if member is not None:
            yield member
        if step.gate is not None:
            gate = self._gate(step, step.gate)
            if gate is not None:
                yield gate

    def _bead(self, key: str) -> Bead | None:
        placed = self.steps[key]
        step = placed.step
        if key not in self.sprints:
            return None
        sprint = self.sprints[key]
        waits = self._waits(step)
        slot = Slot(
            self.ids[key],
            sprint,
            self._word(key, sprint),
            waits,
            self._branches_among((self.ids[key], *waits)),
            placed.formula,
            self.alone,
        )
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
        own = list(self._direct(step))
        if step.issue_type in ISSUE_TYPES:
            own += self._beads_behind(step.needs)
        if step.gate is not None:
            own.append(self._gate_id(step))
        return list(dict.fromkeys(own))

    def _direct(self, step: Ready) -> Iterator[str]:
        yield from (self.ids[key] for key in step.needs)
        yield from step.after
        if step.key in self.begins:
            yield from self.place.waits

    def _beads_behind(self, keys: Iterable[str]) -> Iterator[str]:
        """The nearest beads behind the items among these, and what those items wait for outside."""
        left, seen = list(keys), set[str]()
        while left:
            key = left.pop(0)
            placed = self.steps[key].step
            if key in seen or placed.issue_type in ISSUE_TYPES:
                continue
            seen.add(key)
            for other in placed.needs:
                if self.steps[other].step.issue_type in ISSUE_TYPES:
                    yield self.ids[other]
            left += placed.needs
            yield from placed.after
            if key in self.begins:
                yield from self.place.waits

    def _exits(self) -> list[str]:
        ends = [self.steps[key].step for key in _ends(list(self.steps.values()))]
        found = [self.ids[step.key] for step in ends]
        return list(dict.fromkeys((*found, *self._beads_behind(step.key for step in ends))))

    # --- the whole

    def _same_ids(self) -> Iterator[Fault]:
        gates = {f"gate-{key}": self._gate_id(one.step) for key, one in self.steps.items() if one.step.gate}
        everyone: Mapping[str, str] = {**self.ids, **gates}
        counts = Counter([self.place.root_id, *everyone.values()])
        for key, identity in everyone.items():
            if counts[identity] > 1:
                message = f"step {key}: another step has the id {identity} too"
                yield Fault(Code.DUPLICATE_ID, message, self.place.file, self.place.line, f"steps.{key}")

    def _cycles(self) -> Iterator[Fault]:
        path = graph.cycle({key: placed.step.needs for key, placed in self.steps.items()})
        if path:
            message = f"the steps wait for one another: {' → '.join(path)}"
            field = f"steps.{path[0]}.needs"
            yield Fault(Code.CYCLE_DETECTED, message, self.place.file, self.place.line, field)
