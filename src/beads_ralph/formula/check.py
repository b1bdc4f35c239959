"""Everything that is wrong with a formula: what bd refuses, and what it accepts but cannot work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead import run_state
from beads_ralph.bead.field_types import FrozenModel
from beads_ralph.bead.names import ISSUE_TYPES
from beads_ralph.errors import Code, Fault
from beads_ralph.formula import expressions
from beads_ralph.formula.bd_compatible import unheeded_fields
from beads_ralph.formula.model import (
    GATE_TYPES,
    PRIORITIES,
    READERS_OWN,
    Compose,
    Formula,
    Step,
    StepGate,
    StepLoop,
    Var,
    all_steps,
    is_duration,
    meant,
)
from beads_ralph.formula.tree import MOST_STEPS, References
from beads_ralph.formula.variables import default_refusal, names_in, sole_name, texts_of, used_names

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
STEP_ID: Final = re.compile(r"\w[\w.-]*")
LONGEST_ID: Final = 80
ID_RULE: Final = f"letters, digits, _, - and single dots, at most {LONGEST_ID}"
OF_NO_USE: Final = (
    *("description", "notes", "type", "priority", "labels"),
    *("metadata", "assignee", "bead_id", "after"),
)
"""Fields without effect on a loop's own step."""


@dataclass(frozen=True)
class Origins:
    """Where the parts of a formula that extends others come from."""

    file: Path | None
    steps: Sequence[tuple[Path, int]] = ()
    """For each step its file, and its number there."""
    variables: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class FormulaReport:
    """The outcome of looking at one formula."""

    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()


def check(formula: Formula, origins: Origins | None = None) -> FormulaReport:
    """A formula whose `extends` are resolved; `origins` says where its steps stand."""
    looking = _Looking(formula, origins or Origins(formula.file))
    looking.look()
    return FormulaReport(tuple(looking.faults), tuple(looking.warnings))


class _Looking:
    """Gathers what is wrong with one formula."""

    def __init__(self, formula: Formula, origins: Origins) -> None:
        self.formula = formula
        self.origins = origins
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.steps = list(all_steps(formula.steps))

    def look(self) -> None:
        self._head()
        for name, var in self.formula.vars.items():
            self._variable(name, var)
        for path, step in self.steps:
            self._step(path, step)
        self._references()
        self._placeholders()
        for path, message in strangers(self.formula):
            self.warn(path, message)
        self._composition(self.formula.compose)
        for path, message in unheeded_fields(self.formula):
            self.warn(path, message)

    # --- telling

    def _place(self, path: str) -> tuple[str | None, str]:
        """The file that a field of the resolved formula stands in, and its path there."""
        file, found = self.origins.file, re.match(r"steps\[(\d+)\]", path)
        if found and int(found[1]) < len(self.origins.steps):
            file, number = self.origins.steps[int(found[1])]
            path = f"steps[{number}]{path[found.end() :]}"
        elif path.startswith("vars."):
            file = self.origins.variables.get(path.split(".")[1], file)
        return (str(file) if file is not None else None), path

    def wrong(self, path: str, message: str) -> None:
        self.faults.append(self._fault(path, message))

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(self._fault(path, message))

    def _fault(self, path: str, message: str) -> Fault:
        file, there = self._place(path)
        return Fault(Code.FORMULA_INVALID, f"{there}: {message}" if there else message, file, field=there)

    # --- the head and the variables

    def _head(self) -> None:
        formula = self.formula
        if not formula.formula.strip():
            self.wrong("formula", "is required: the formula's name")
        elif formula.formula != formula.name:
            self.warn("formula", f"says {formula.formula!r}, but the file's name counts: {formula.name!r}")
        if not _fits_an_id(formula.name) and formula.formula.strip():
            self.wrong("", f"the name {formula.name!r} cannot become part of a bead's id: {ID_RULE}")
        if formula.version < 1:
            self.wrong("version", "must be 1 or more")
        if formula.phase not in ("", "liquid", "vapor"):
            self.warn("phase", f"{formula.phase!r} is neither liquid (to be poured) nor vapor (for wisps)")
        if not formula.steps and formula.type == "workflow":
            self.warn("steps", "there are none, so that there is nothing to pour")

    def _variable(self, name: str, var: Var) -> None:
        path = f"vars.{name}"
        if NAME.fullmatch(name) is None:
            self.wrong(path, "the name of a variable is letters, digits and _, and no digit first")
        if var.required and var.default is not None:
            self.wrong(path, "cannot be required and have a default")
        if var.derive:
            self._derive(f"{path}.derive", var)
        broken = expressions.pattern_fault(var.pattern) if var.pattern else None
        if broken is not None:
            self.wrong(f"{path}.pattern", f"{var.pattern!r} is not a regular expression for bd: {broken}")
        elif (refusal := default_refusal(var)) is not None:
            self.wrong(f"{path}.default", f"breaks the variable's own rule: it {refusal}")
        for at, word in enumerate(var.enum if broken is None else ()):
            refusal = default_refusal(var.model_copy(update={"default": word, "enum": []}))
            if refusal is not None:
                self.wrong(f"{path}.enum[{at}]", f"breaks the variable's own rule: it {refusal}")

    def _derive(self, path: str, var: Var) -> None:
        call = expressions.parse_derivation(var.derive)
        if call is None:
            rules = ", ".join(expressions.DERIVATIONS)
            self.wrong(path, f"{var.derive!r} must be rule(variable), the rule one of {rules}")
            return
        self._known(path, call.source)
        if self.formula.vars.get(call.source, Var()).derive:
            self.wrong(path, f"{call.source} follows from another one itself")
        if var.required or var.default is not None:
            self.wrong(path, "what follows from another variable is neither required nor has a default")
        if var.type != "string":
            self.wrong(path, f"gives a text, and the variable is of type {var.type}")

    # --- a step

    def _step(self, path: str, step: Step) -> None:
        if not step.id:
            self.wrong(f"{path}.id", "is required")
        elif not _fits_an_id(step.id):
            self.wrong(f"{path}.id", f"{step.id!r} cannot become part of a bead's id: {ID_RULE}")
        if not step.title.strip() and not step.expand:
            self.wrong(f"{path}.title", "is required")
        if step.type.strip() in ISSUE_TYPES and step.children:
            kind = step.type.strip()
            self.wrong(f"{path}.type", f"a step with children cannot be a {kind}: who would work on it?")
        self._priority(f"{path}.priority", step.priority)
        self._condition(f"{path}.condition", step.condition)
        if step.type.strip() in ISSUE_TYPES:  # a person's task may say what it likes
            for key in (key for key, value in step.metadata.items() if run_state.is_said(key, value)):
                self.wrong(f"{path}.metadata.{key}", run_state.RESERVED)
        if step.gate is not None:
            self._gate(f"{path}.gate", step.gate)
        if step.loop is not None:
            self._loop(path, step, step.loop)
        if step.on_complete is not None:
            self._on_complete(f"{path}.on_complete", step.on_complete)

    def _priority(self, path: str, said: int | str | None) -> None:
        if isinstance(said, str):
            var = self.formula.vars.get(sole_name(said) or "")
            if var is None or var.type != "int":
                self.wrong(path, f"must be 0 to 4, or the placeholder of an int, not {said!r}")
        elif said is not None and said not in PRIORITIES:
            self.wrong(path, f"must be 0 to 4, not {said}")

    def _condition(self, path: str, said: str) -> None:
        condition = expressions.parse_condition(said)
        if condition is not None:
            self._known(path, condition.name)
        elif said.strip():
            forms = "{{name}}, !{{name}}, {{name}} == value or {{name}} != value"
            self.wrong(path, f"{said!r} is not a condition; write {forms}")

    def _known(self, path: str, name: str) -> None:
        if name not in self.formula.vars:
            self.wrong(path, f"{name} is not a variable{meant(name, self.formula.vars)}")

    def _gate(self, path: str, gate: StepGate) -> None:
        if not gate.type.strip():
            self.wrong(f"{path}.type", f"is required: {', '.join(GATE_TYPES)}")
        if gate.timeout and not names_in(gate.timeout) and not is_duration(gate.timeout):
            self.wrong(f"{path}.timeout", f"must be a time such as 30m or 1h30m, not {gate.timeout!r}")
        if gate.type == "timer" and not gate.timeout:
            self.wrong(f"{path}.timeout", "is required: without it a timer never ends")
        if gate.type in ("gh:run", "gh:pr", "bead") and not (gate.await_id or gate.id):
            self.warn(f"{path}.await_id", "is missing, so that only a person can open the gate")

    def _loop(self, path: str, step: Step, loop: StepLoop) -> None:
        here = f"{path}.loop"
        ways = [loop.count is not None, bool(loop.until), bool(loop.range)]
        if not loop.body:
            self.wrong(f"{here}.body", "is required: the steps to repeat")
        if sum(ways) != 1:
            several = ", not several" if any(ways) else ""
            self.wrong(here, f"must have one of count, range and until{several}")
        if loop.count is not None and not 1 <= loop.count <= MOST_STEPS:
            self.wrong(f"{here}.count", f"must be 1 to {MOST_STEPS}, not {loop.count}")
        if loop.until and (loop.max is None or loop.max < 1):
            self.wrong(f"{here}.max", "is required with until, and must be positive")
        if loop.var:
            self._round_name(here, loop)
        if loop.range:
            self._range(f"{here}.range", loop)
        if step.children:
            self.wrong(f"{path}.children", "a loop repeats its body, and has no children")
        for name in OF_NO_USE:
            if getattr(step, name):
                self.warn(f"{path}.{name}", "has no effect: a loop makes only the steps of its body")

    def _round_name(self, here: str, loop: StepLoop) -> None:
        if NAME.fullmatch(loop.var) is None:
            self.wrong(f"{here}.var", "is letters, digits and _, and no digit first")
        elif not loop.range:
            self.warn(f"{here}.var", "is only filled in with range")
        elif loop.var in self.formula.vars:
            self.wrong(f"{here}.var", f"{loop.var} is a variable already")

    def _range(self, path: str, loop: StepLoop) -> None:
        names = expressions.range_names(loop.range)
        others = [step.loop for _, step in self.steps if step.loop is not None and step.loop is not loop]
        for name in (name for name in names if name not in {other.var for other in others}):
            self._known(path, name)
        try:
            first, last = expressions.range_bounds(loop.range, dict.fromkeys(names, "1"))
        except expressions.RangeError as problem:
            if not (names and "before it starts" in str(problem)):  # other values may well do
                self.wrong(path, f"{loop.range!r} {problem}")
            return
        if not names and last - first >= MOST_STEPS:
            self.wrong(path, f"makes more than {MOST_STEPS} rounds")

    def _composition(self, rules: Compose | None) -> None:
        """The rules that say something about a step, which bd looks at, too."""
        known = {step.id for _, step in self.steps}
        for at, rule in enumerate(rules.gate if rules else ()):
            here = f"compose.gate[{at}]"
            for name in ("before", "condition"):
                if not rule.get(name):
                    self.wrong(f"{here}.{name}", "is required")
            if (before := str(rule.get("before") or "")) and before not in known:
                self.wrong(f"{here}.before", f"there is no step {before!r}{meant(before, known)}")
        for at, rule in enumerate(rules.hooks if rules else ()):
            for name in ("trigger", "attach"):
                if not rule.get(name):
                    self.wrong(f"compose.hooks[{at}].{name}", "is required")

    def _on_complete(self, path: str, said: Mapping[str, Any]) -> None:
        each, bond = said.get("for_each"), said.get("bond")
        if bool(each) != bool(bond):
            self.wrong(path, "for_each and bond belong together")
        if isinstance(each, str) and each and not each.startswith("output."):
            self.wrong(f"{path}.for_each", f"must start with 'output.', not be {each!r}")
        if said.get("parallel") and said.get("sequential"):
            self.wrong(path, "cannot be both parallel and sequential")

    # --- the whole

    def _references(self) -> None:
        references = References(self.formula)
        for path, message in references.findings:
            self.wrong(path, message)
        for path, message in references.hints:
            self.warn(path, message)
        if circle := references.circle():
            ids = dict(self.steps)
            names = " → ".join(dict.fromkeys(ids[path].id for path in circle))
            self.wrong(f"{circle[0]}.needs", f"the steps wait for one another: {names}")

    def _placeholders(self) -> None:
        """Variables that nothing uses, and names that are nearly one."""
        used, own = used_names(self.formula), self.formula
        others = json.dumps([own.template, own.advice, own.legs, own.synthesis], ensure_ascii=False)
        for name in own.vars:
            told = own.type == "convoy" and own.vars[name].required  # told to all of its legs
            if name not in used and f"{{{name}}}" not in others and f"{{.{name}}}" not in others and not told:
                self.warn(f"vars.{name}", "is not used by any step")
        if not self.formula.vars:
            return
        texts = [(f"{path}.{name}", text) for path, step in self.steps for name, text in texts_of(step)]
        for path, name in ((path, name) for path, text in texts for name in names_in(text)):
            if name not in self.formula.vars and (close := meant(name, self.formula.vars)):
                self.warn(path, f"{{{{{name}}}}} is not a variable{close}")


def _fits_an_id(text: str) -> bool:
    return STEP_ID.fullmatch(text) is not None and ".." not in text and len(text) <= LONGEST_ID


# --- fields that nobody knows -----------------------------------------------------------------------


def strangers(formula: Formula) -> Iterator[tuple[str, str]]:
    """Fields that are not part of the language, which bd and we pass over."""
    yield from _strange("", formula)
    for name, var in formula.vars.items():
        yield from _strange(f"vars.{name}.", var)
    for path, step in all_steps(formula.steps):
        parts: dict[str, FrozenModel | None] = {"": step, "gate.": step.gate, "loop.": step.loop}
        for prefix, part in parts.items():
            yield from _strange(f"{path}.{prefix}", part)
    yield from _strange("compose.", formula.compose)


def _strange(prefix: str, part: FrozenModel | None) -> Iterator[tuple[str, str]]:
    if part is None:
        return
    known = [field.alias or key for key, field in type(part).model_fields.items()]
    for name in part.model_extra or {}:
        close = meant(name.lower(), [key for key in known if key not in READERS_OWN])
        yield f"{prefix}{name}", f"is not part of the language, and passed over{close}"
