"""What is given → the values of a pour: defaults filled in, every fault of theirs at once."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.formula import expressions
from beads_ralph.formula.model import Formula, Step, Var, plain_text
from beads_ralph.formula.values import Value, Values, names_of, names_of_root

Given = str | int | bool | Sequence[str]
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
YES: Final = frozenset({"true", "yes", "on", "1"})
SHOWN: Final = 60


def values(formula: Formula, given: Mapping[str, Given], *, row: str = "") -> Values:
    """The values of every variable; FORMULA.MISSING_VAR and FORMULA.INVALID_VAR, gathered.

    `row` is where the values come from, such as `rows.csv:3`.
    """
    checking = _Checking(formula, row or None)
    found = checking.all(given)
    if checking.faults:
        raise gathered(checking.faults, row or f"the variables of {formula.name}")
    return Values(found)


def used_names(formula: Formula) -> list[str]:
    """Every variable that a pour may ask for, conditions and ranges included."""
    wanted = [name for step in _every(formula.steps) for name in (*names_of(step), *_condition_name(step))]
    used = [*names_of_root(formula), *wanted]
    return list(dict.fromkeys((*used, *(source for name in used for source in _sources(formula, name)))))


def _sources(formula: Formula, name: str) -> list[str]:
    """What a variable follows from where it is not given."""
    call = expressions.parse_derivation(formula.vars[name].derive) if name in formula.vars else None
    return [call.source] if call is not None else []


def _every(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from _every(step.children)
        yield from _every(step.loop.body if step.loop is not None else ())


def _condition_name(step: Step) -> list[str]:
    condition = expressions.parse_condition(step.condition)
    return [condition.name] if condition is not None else []


def _remaining(steps: Sequence[Step], texts: Mapping[str, str]) -> Iterator[Step]:
    """The steps that no condition leaves out."""
    for step in steps:
        condition = expressions.parse_condition(step.condition)
        if condition is None or condition.holds(lambda name: texts.get(name, "")):
            yield step
            yield from _remaining(step.children, texts)
            yield from _remaining(step.loop.body if step.loop is not None else (), texts)


@dataclass(frozen=True)
class _Refused:
    """Why a value cannot be taken."""

    reason: str


class _Checking:
    """One set of values against one formula."""

    def __init__(self, formula: Formula, file: str | None) -> None:
        self.formula = formula
        self.file = file
        self.faults: list[Fault] = []

    def all(self, given: Mapping[str, Given]) -> dict[str, Value]:
        unknown = [name for name in given if name not in self._accepted()]
        found = {name: value for name in self._names(given) if (value := self._one(name, given)) is not None}
        found |= self._derived(found)
        self._demand(found, given)
        self._check_ranges(found)
        for name in unknown:
            self._unknown(name)
        self.faults.sort(key=lambda fault: fault.code is not Code.MISSING_VAR)
        return found

    def _accepted(self) -> set[str]:
        return {*self.formula.vars, *used_names(self.formula)}

    def _names(self, given: Mapping[str, Given]) -> list[str]:
        accepted = self._accepted()
        return list(dict.fromkeys((*self.formula.vars, *(name for name in given if name in accepted))))

    def _one(self, name: str, given: Mapping[str, Given]) -> Value | None:
        """The value of one variable; None where it has none, or not a good one."""
        var = self.formula.vars.get(name, Var())
        said: Any = given.get(name, var.default)
        if said is None or (var.default is None and _is_empty(said)):
            return None
        if name not in given and said == "" and var.type == "string":
            return ""  # an empty default stands for "nothing", whatever the rules say; as in bd
        value = _allowed(var, said)
        if not isinstance(value, _Refused):
            return value
        self._invalid(name, value.reason)
        return None

    def _derived(self, found: Mapping[str, Value]) -> dict[str, Value]:
        """What follows from the values that there are; a rule may refuse it as if it had been given."""
        made: dict[str, Value] = {}
        for name, var in self.formula.vars.items():
            call = expressions.parse_derivation(var.derive)
            if call is None or name in found or call.source not in found or self._is_blamed(name):
                continue
            source = found[call.source]
            text = call.value(source if isinstance(source, tuple) else Values(found).text(call.source))
            value = _allowed(var, text) if text else text
            if isinstance(value, _Refused):
                self._invalid(name, f"follows from {call.source}, and {value.reason}", f"Give {name} itself")
            else:
                made[name] = value
        return made

    def _is_blamed(self, name: str) -> bool:
        return any(fault.field == f"vars.{name}" for fault in self.faults)

    def _demand(self, found: Mapping[str, Value], given: Mapping[str, Given]) -> None:
        """A variable without a value is missing where it must be given, or where a step uses it."""
        texts = Values(found).texts()
        wanted = [*names_of_root(self.formula)]
        wanted += [name for step in _remaining(self.formula.steps, texts) for name in names_of(step)]
        wanted += [name for name, var in self.formula.vars.items() if var.required]
        wanted = [source for name in wanted for source in (_sources(self.formula, name) or [name])]
        for name in dict.fromkeys(wanted):
            # Where a formula declares variables, other names in braces are text, as in bd.
            declared = name in self.formula.vars or not self.formula.vars
            if declared and name not in found and not self._is_blamed(name):
                self._missing(name, empty=name in given)

    def _check_ranges(self, found: Mapping[str, Value]) -> None:
        values = Values(found)
        loops = [step.loop for step in _every(self.formula.steps) if step.loop is not None]
        for name in dict.fromkeys(name for loop in loops for name in expressions.range_names(loop.range)):
            if name in values and not WHOLE.fullmatch(values.text(name)):
                self._invalid(
                    name, f"must be a whole number, not {_shown(values.text(name))}: a loop counts with it"
                )

    def _missing(self, name: str, *, empty: bool) -> None:
        described = self.formula.vars.get(name, Var()).description
        message = f"variable {name} of {self.formula.name} {'must not be empty' if empty else 'is missing'}"
        self.faults.append(
            Fault(
                Code.MISSING_VAR,
                message + (f": {described}" if described else ""),
                file=self.file,
                field=f"vars.{name}",
                suggested_action=f"Give it: --var {name}=VALUE" if self.file is None else None,
            )
        )

    def _invalid(self, name: str, reason: str, action: str | None = None) -> None:
        message = f"variable {name} of {self.formula.name} {reason}"
        self.faults.append(
            Fault(Code.INVALID_VAR, message, file=self.file, field=f"vars.{name}", suggested_action=action)
        )

    def _unknown(self, name: str) -> None:
        known = list(dict.fromkeys((*self.formula.vars, *used_names(self.formula))))
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        action = (
            f"Its variables are: {', '.join(known)}" if known else f"{self.formula.name} has no variables"
        )
        self._invalid(name, f"does not exist{meant}", action)


# --- one value --------------------------------------------------------------------------------------


def _is_empty(said: Any) -> bool:
    return isinstance(said, str | list | tuple) and not said


def _typed(var: Var, said: Any) -> Value | _Refused:
    if var.type == "list":
        return entries_of(said)
    if isinstance(said, list | tuple):
        return _Refused("takes one value, not a list")
    text = plain_text(said)
    if not isinstance(text, str):
        return _Refused(f"takes a text, not {_shown(said)}")
    if var.type == "int":
        return (
            int(text)
            if WHOLE.fullmatch(text.strip())
            else _Refused(f"must be a whole number, not {_shown(text)}")
        )
    if var.type == "bool":
        word = text.strip().lower()
        known = word in YES or word in expressions.NO
        return word in YES if known else _Refused(f"must be true or false, not {_shown(text)}")
    return text


def entries_of(said: Any) -> tuple[str, ...] | _Refused:
    """A list as it may be given: one entry a line, a JSON array, or a list already."""
    if isinstance(said, str):
        if not said.lstrip().startswith("["):
            return tuple(line.strip() for line in said.splitlines() if line.strip())
        try:
            said = json.loads(said)
        except (ValueError, RecursionError):
            return _Refused("begins with [ but is no JSON array")
    entries = [plain_text(entry) for entry in said] if isinstance(said, list | tuple) else [said]
    if not all(isinstance(entry, str) for entry in entries):
        return _Refused("takes a list of texts")
    return tuple(entry for entry in entries if entry.strip())


def _allowed(var: Var, said: Any) -> Value | _Refused:
    value = _typed(var, said)
    return value if isinstance(value, _Refused) else _refusal(var, value) or value


def _refusal(var: Var, value: Value) -> _Refused | None:
    """What the variable's own rules say; of a list, each entry must keep them."""
    single = Values({"value": value})
    for text in single.entries("value"):
        if var.enum and text not in var.enum:
            return _Refused(f"must be one of {', '.join(var.enum)}, not {_shown(text)}")
        if var.pattern:
            wrong = expressions.pattern_refusal(var.pattern, text)
            if wrong is not None:
                return _Refused(wrong)
    return None


def default_refusal(var: Var) -> str | None:
    """Why a variable refuses its own default."""
    if var.default is None or (var.default == "" and var.type == "string"):
        return None
    value = _allowed(var, var.default)
    return value.reason if isinstance(value, _Refused) else None


def typed_default(var: Var) -> Value | None:
    """A variable's default as the value that it stands for; None where it has none, or not a good one."""
    value = _allowed(var, var.default) if var.default is not None else None
    return None if isinstance(value, _Refused) else value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
