"""The values of a pour's variables: placeholders filled with them, and what is given, checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.formula import expressions
from beads_ralph.formula.model import (
    PLACEHOLDER,
    Formula,
    Step,
    Var,
    all_steps,
    leaves,
    meant,
    plain_text,
    shown,
)

Value = str | int | bool | tuple[str, ...]


@dataclass(frozen=True)
class Values(Mapping[str, Value]):
    """Name → value, typed as the variable says; checked, and with the defaults filled in."""

    typed: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.typed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.typed)

    def __len__(self) -> int:
        return len(self.typed)

    def text(self, name: str) -> str:
        """As it stands in a text: a list is its lines, a boolean `true` or `false`."""
        value = self.typed[name]
        if isinstance(value, tuple):
            return "\n".join(value)
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def entries(self, name: str) -> tuple[str, ...]:
        """The entries of a list; any other value is its only entry."""
        value = self.typed[name]
        return value if isinstance(value, tuple) else (self.text(name),)

    def texts(self) -> dict[str, str]:
        """All of them as texts, which is how bd takes them."""
        return {name: self.text(name) for name in self.typed}


# --- placeholders -----------------------------------------------------------------------------------


NAMED: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""`{{variable}}`, or `{round}` of a loop."""


@dataclass(frozen=True)
class Filling:
    """The values of variables, and the rounds of the loops around a step."""

    values: Values
    rounds: Mapping[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        return NAMED.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        variable, loop_name = found.groups()
        if variable is None:
            return self.rounds.get(loop_name, found[0])
        if variable in self.values:
            return self.values.text(variable)
        return self.rounds.get(variable, found[0])

    def entries(self, texts: Sequence[str]) -> tuple[str, ...]:
        """A list's texts; list variables are spliced in, and what is empty falls out."""
        found = [entry for text in texts for entry in self._spliced(text) or (self.text(text),)]
        return tuple(entry for entry in found if entry.strip())

    def _spliced(self, entry: Any) -> tuple[str, ...] | None:
        """The entries of the list variable that an entry of a list is nothing but the placeholder of."""
        value = self.values.get(sole_name(entry) or "") if isinstance(entry, str) else None
        return value if isinstance(value, tuple) else None

    def json(self, value: Any) -> Any:
        """Inside of objects and lists too; keys stay as they are. A text that is nothing but the
        placeholder of a number or a boolean becomes that; in a list, a list variable is spliced in."""
        if isinstance(value, dict):
            return {key: self.json(inner) for key, inner in value.items()}
        if isinstance(value, list):
            spliced = [(entry, self._spliced(entry)) for entry in value]
            return [
                inner
                for entry, texts in spliced
                for inner in (texts if texts is not None else (self.json(entry),))
            ]
        return self.typed(value) if isinstance(value, str) else value

    def typed(self, text: str) -> str | int:
        value = self.values.get(sole_name(text) or "")
        return value if isinstance(value, int) else self.text(text)


def sole_name(text: str) -> str | None:
    """The variable of a text that is nothing but its placeholder."""
    found = PLACEHOLDER.fullmatch(text)
    return found[1] if found else None


def names_in(text: str) -> list[str]:
    return PLACEHOLDER.findall(text)


# --- where placeholders count -----------------------------------------------------------------------


def texts_of(step: Step) -> Iterator[tuple[str, str]]:
    """Every text of a step that is filled in, with its field; steps inside are not looked at."""
    for name in ("title", "description", "notes", "type", "assignee", "bead_id"):
        yield name, getattr(step, name)
    if isinstance(step.priority, str):
        yield "priority", step.priority
    for name in ("labels", "after"):
        yield from ((f"{name}[{at}]", text) for at, text in enumerate(getattr(step, name)))
    inside = leaves(step.metadata, "metadata")
    yield from ((path, value) for path, value in inside if isinstance(value, str))
    if step.gate is not None:
        for name in ("type", "id", "await_id", "timeout", "repo"):
            yield f"gate.{name}", getattr(step.gate, name)


def names_of(step: Step) -> list[str]:
    """The names in a step's own texts and in the range of its loop."""
    found = [name for _, text in texts_of(step) for name in names_in(text)]
    return found + (expressions.range_names(step.loop.range) if step.loop is not None else [])


def names_of_root(formula: Formula) -> list[str]:
    """The root takes its title and description from variables of these names, where there are such."""
    shown = "" if "desc" in formula.vars else formula.description
    return [*(name for name in ("title", "desc") if name in formula.vars), *names_in(shown)]


Given = str | int | bool | Sequence[str]
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
YES: Final = frozenset({"true", "yes", "on", "1"})


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
    used = names_of_root(formula)
    for _, step in all_steps(formula.steps):
        condition = expressions.parse_condition(step.condition)
        used += [*names_of(step), *([condition.name] if condition is not None else ())]
    return list(dict.fromkeys((*used, *(source for name in used for source in _sources(formula, name)))))


def accepted(formula: Formula) -> list[str]:
    """Every variable that may be given: those declared, and those that a pour may ask for."""
    return list(dict.fromkeys((*formula.vars, *used_names(formula))))


def _sources(formula: Formula, name: str) -> list[str]:
    """The variable that another one is derived from."""
    call = expressions.parse_derivation(formula.vars[name].derive) if name in formula.vars else None
    return [call.source] if call is not None else []


def _remaining(steps: Sequence[Step], texts: Mapping[str, str]) -> Iterator[Step]:
    """The steps that no condition leaves out."""
    for step in steps:
        condition = expressions.parse_condition(step.condition)
        if condition is None or condition.holds(lambda name: texts.get(name, "")):
            yield step
            yield from _remaining(step.inner, texts)


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
        known = accepted(self.formula)
        found = {name: value for name in known if (value := self._one(name, given)) is not None}
        found |= self._derived(found)
        self._demand(found, given)
        self._check_ranges(found)
        unknown = [name for name in given if name not in known]
        self.faults += [unknown_variable(self.formula, name, known, self.file) for name in unknown]
        self.faults.sort(key=lambda fault: fault.code is not Code.MISSING_VAR)
        return found

    def _one(self, name: str, given: Mapping[str, Given]) -> Value | None:
        """The value of one variable; None where it has none, or not a good one."""
        var = self.formula.vars.get(name, Var())
        said: Any = given.get(name, var.default)
        if said is None or (var.default is None and said in ("", [], ())):
            return None
        if name not in given and said == "" and var.type == "string":
            return ""  # an empty default stands for "nothing", whatever the rules say; as in bd
        value = _allowed(var, said)
        if not isinstance(value, _Refused):
            return value
        self._invalid(name, value.reason)
        return None

    def _derived(self, found: Mapping[str, Value]) -> dict[str, Value]:
        """Derive the missing values; a rule may refuse one as if it had been given."""
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
        wanted = names_of_root(self.formula)
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
        loops = [step.loop for _, step in all_steps(self.formula.steps) if step.loop is not None]
        for name in dict.fromkeys(name for loop in loops for name in expressions.range_names(loop.range)):
            if name in values and not WHOLE.fullmatch(values.text(name)):
                self._invalid(
                    name, f"must be a whole number, not {shown(values.text(name))}: a loop counts with it"
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


def unknown_variable(formula: Formula, name: str, known: Sequence[str], file: str | None) -> Fault:
    message = f"variable {name} of {formula.name} does not exist{meant(name, known)}"
    action = f"Its variables are: {', '.join(known)}" if known else f"{formula.name} has no variables"
    return Fault(Code.INVALID_VAR, message, file, None, f"vars.{name}", action)


# --- one value --------------------------------------------------------------------------------------


def _typed(var: Var, said: Any) -> Value | _Refused:
    if var.type == "list":
        return entries_of(said)
    if isinstance(said, list | tuple):
        return _Refused("takes one value, not a list")
    text = plain_text(said)
    if not isinstance(text, str):
        return _Refused(f"takes a text, not {shown(said)}")
    if var.type == "int":
        whole = WHOLE.fullmatch(text.strip())
        return int(text) if whole else _Refused(f"must be a whole number, not {shown(text)}")
    if var.type == "bool":
        word = text.strip().lower()
        known = word in YES or word in expressions.NO
        return word in YES if known else _Refused(f"must be true or false, not {shown(text)}")
    return text


def entries_of(said: Any) -> tuple[str, ...] | _Refused:
    """A list as it may be given: one entry a line, a JSON array, or a list already."""
    if isinstance(said, str):
        if not said.lstrip().startswith("["):
            return tuple(line.strip() for line in said.splitlines() if line.strip())
        try:
            said = json.loads(said)
        except (ValueError, RecursionError):
            return _Refused("begins with [ but is not a JSON array")
    entries = [plain_text(entry) for entry in said] if isinstance(said, list | tuple) else [said]
    if not all(isinstance(entry, str) for entry in entries):
        return _Refused("takes a list of texts")
    return tuple(entry for entry in entries if entry.strip())


def _allowed(var: Var, said: Any) -> Value | _Refused:
    value = _typed(var, said)
    return value if isinstance(value, _Refused) else _refusal(var, value) or value


def _refusal(var: Var, value: Value) -> _Refused | None:
    """Apply the variable's own rules; in a list, every entry must keep them."""
    for text in Values({"value": value}).entries("value"):
        if var.enum and text not in var.enum:
            return _Refused(f"must be one of {', '.join(var.enum)}, not {shown(text)}")
        wrong = expressions.pattern_refusal(var.pattern, text) if var.pattern else None
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
