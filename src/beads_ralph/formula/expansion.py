"""Macros: steps that another formula stands for, and steps woven around others, written out as bd does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.formula.model import PLACEHOLDER, Formula, Step, all_steps, leaves

Load = Callable[[str], Formula]
MAIN: Final = "main"
"""The target of a macro that is poured by itself."""
DEEPEST: Final = 5
"""Macros inside of macros; bd stops there, too."""
FORGOTTEN: Final = "another step needs one that is a macro (expand), which bd forgets"
SEVERAL: Final = "a macro ends with several steps, and bd lets others wait for the very last one only"
LOST_IN_MACROS: Final = ("condition", "metadata", "gate", "notes", "waits_for", "loop", "expand")
"""Of a step in a template, what bd does not take over."""
OF_A_CONVOY: Final = re.compile(r"\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
LEGS: Final = "bd makes nothing of the legs of a convoy"
ASPECT: Final = "bd makes an empty molecule of an aspect"
EMPTY: Final[Mapping[str, str]] = {
    "convoy": "its type is convoy, and it has no legs",
    "aspect": "its type is aspect, which only says what other formulas do around their steps. "
    "Name it in compose.aspects of a workflow, and pour that",
    "expansion": "its type is expansion, and it has no template",
    "workflow": "it has no steps of its own, or its conditions leave none with these values",
}


def why_empty(formula: Formula) -> str:
    """Why a formula makes nothing."""
    return EMPTY[formula.type]


def expanded(formula: Formula, load: Load) -> Formula:
    """The formula without macros and aspects; itself where it has none."""
    steps = list(formula.steps)
    lost: list[str] = []
    if formula.type == "expansion" and formula.template and not steps:
        steps = _Macro(formula, formula, {}).steps(Step(id=MAIN, title=formula.name))
        lost += _forgotten(steps)
    if formula.type == "convoy" and not steps:
        steps = _legs(formula)
    work = _Work(formula, load, _woven(formula, steps, formula.advice), lost)
    work.inline()
    work.composed()
    for name in formula.compose.aspects if formula.compose else ():
        work.steps = _woven(formula, work.steps, load(name).advice)
    cleared = _cleared(formula, work.lost)
    return formula.model_copy(update={"steps": work.steps, **cleared}) if cleared else formula


def _cleared(formula: Formula, lost: Sequence[str]) -> dict[str, Any]:
    """The fields that are written out, emptied; nothing where there is none."""
    own = ("template", "advice", "pointcuts", "legs")
    fields: dict[str, Any] = {name: [] for name in own if getattr(formula, name)}
    rules = formula.compose
    used = [name for name in ("expand", "map", "aspects") if getattr(rules, name, None)]
    if rules is not None and used:
        fields["compose"] = rules.model_copy(update={name: [] for name in used})
    inline = {step.id for _, step in all_steps(formula.steps) if step.expand}
    reasons = list(lost)
    if any(not inline.isdisjoint(step.waits) for _, step in all_steps(formula.steps)):
        reasons.append(FORGOTTEN)
    if formula.type == "convoy" and formula.legs:
        fields["synthesis"] = None
        reasons.append(LEGS)
    if formula.type == "aspect" and not formula.steps:
        reasons.append(ASPECT)
    if reasons:
        fields["only_here"] = tuple(dict.fromkeys((*formula.only_here, *reasons)))
    return fields or ({"template": []} if inline else {})


# --- convoys ----------------------------------------------------------------------------------------


def _legs(formula: Formula) -> list[Step]:
    """The legs of a convoy as steps side by side, and the synthesis as one that waits for them."""
    rows = [_leg(row, f"leg-{number}") for number, row in enumerate(formula.legs, 1)]
    legs = [_step(formula, row) for row in _told(formula, rows)]
    if not legs or not formula.synthesis:
        return legs
    said = formula.synthesis
    after = said.get("depends_on") or said.get("needs") or [leg.id for leg in legs]
    row = {"title": "Synthesis", **_leg(said, "synthesis"), "needs": after}
    return [*legs, *(_step(formula, one) for one in _told(formula, [row]))]


def _told(formula: Formula, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows that say what the convoy is about: where none of them names a variable that must be given,
    each is told it at its end. `{{.name}}` is how convoys write a variable."""
    plain = [_in_our_words(row) for row in rows]
    named = {name for _, text in leaves(plain, "") for name in PLACEHOLDER.findall(str(text))}
    missing = [name for name, var in formula.vars.items() if var.required and name not in named]
    said = "\n".join(f"{name}: {{{{{name}}}}}" for name in missing)
    more = f"\n\n{said}" if said else ""
    return [{**row, "description": row["description"] + more} for row in plain]


def _in_our_words(value: Any) -> Any:
    if isinstance(value, str):
        return OF_A_CONVOY.sub(r"{{\1}}", value)
    if isinstance(value, list):
        return [_in_our_words(one) for one in value]
    return {key: _in_our_words(one) for key, one in value.items()} if isinstance(value, dict) else value


def _leg(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A leg may have a focus, a line on what it looks at; more than bd's own fields is not for us."""
    described = said.get("description") or said.get("focus") or ""
    row = {key: said[key] for key in ("id", "title", "notes", "priority", "labels") if key in said}
    return {"id": name, **row, "description": described}


# --- macros -----------------------------------------------------------------------------------------


class _Macro:
    """The template of an expansion, to be written out in the place of a step."""

    def __init__(self, into: Formula, macro: Formula, given: Mapping[str, Any]) -> None:
        defaults = {name: var.default for name, var in macro.vars.items() if var.default is not None}
        self.into, self.macro = into, macro
        self.values = {**defaults, **{name: str(value) for name, value in given.items()}}

    def steps(self, target: Step) -> list[Step]:
        words = {"target.title": target.title, "target.description": target.description}
        words |= {"target.id": target.id, "target": target.id, **self.values}
        made = [_step(self.into, _filled(row, words)) for row in self.macro.template]
        inside = {step.id for step in made}
        return [
            step if inside.intersection(step.waits) else step.model_copy(update=_more(step, target.waits))
            for step in made
        ]


def _more(step: Step, needs: Iterable[str]) -> dict[str, Any]:
    return {"needs": list(dict.fromkeys((*step.needs, *needs)))}


def _forgotten(made: Sequence[Step]) -> Iterator[str]:
    """What the steps of a macro say that bd does not take over from the template."""
    said = {name for step in _tree(made) for name in LOST_IN_MACROS if getattr(step, name)}
    yield from (f"a step of a macro has {name}, which bd forgets" for name in LOST_IN_MACROS if name in said)


class _Work:
    """The steps of a formula while its macros are written out."""

    def __init__(self, formula: Formula, load: Load, steps: list[Step], lost: list[str]) -> None:
        self.formula, self.load, self.steps = formula, load, steps
        self.lost = lost
        """Why bd would make something else of it."""

    def inline(self) -> None:
        """`expand` of a step itself, its children and what comes of it included."""
        for depth in range(DEEPEST + 1):
            found = [step for step in _tree(self.steps) if step.expand]
            for step in found:
                if depth == DEEPEST:
                    message = f"step {step.id}: macros lie more than {DEEPEST} deep in one another"
                    raise _refused(self.formula, message)
                self._replace(step.id, {"with": step.expand, "vars": step.expand_vars})

    def composed(self) -> None:
        """The rules of `compose`: each step is replaced once, those inside of others included."""
        rules = self.formula.compose
        done: set[str] = set()
        for at, rule in enumerate(rules.expand if rules else ()):
            target = str(rule.get("target"))
            if all(step.id != target for step in _tree(self.steps)):
                raise _refused(self.formula, f"there is no step {target!r}", f"compose.expand[{at}].target")
            self._replace_new([target], rule, done)
        for rule in rules.map if rules else ():
            fits = [step.id for step in _tree(self.steps) if fnmatchcase(step.id, str(rule.get("select")))]
            self._replace_new(fits, rule, done)

    def _replace_new(self, targets: Sequence[str], rule: Mapping[str, Any], done: set[str]) -> None:
        for target in targets:
            if target not in done:
                self._replace(target, rule)
            done.add(target)

    def _replace(self, name: str, rule: Mapping[str, Any]) -> None:
        """Write a macro out in the place of a step; who waited for that waits for the macro's last steps."""
        target = next((step for step in _tree(self.steps) if step.id == name), None)
        if target is None:
            return
        macro = _Macro(self.formula, self.load(str(rule.get("with"))), rule.get("vars") or {})
        if not macro.macro.template:
            raise _refused(self.formula, f"{macro.macro.name} is not a macro: it has no template")
        made = macro.steps(target)
        needed = {name for step in _tree(made) for name in step.waits}
        ends = [step.id for step in made if step.id not in needed]
        self.lost += _forgotten(made)
        if ends != [made[-1].id] and any(target.id in step.waits for step in _tree(self.steps)):
            self.lost.append(SEVERAL)
        self.steps = _with_macro(self.steps, target.id, made, ends)


def _tree(steps: Sequence[Step]) -> Iterator[Step]:
    """Every step and those inside of it."""
    for step in steps:
        yield step
        yield from _tree(step.children)


def _with_macro(steps: Sequence[Step], target: str, made: Sequence[Step], ends: Sequence[str]) -> list[Step]:
    found: list[Step] = []
    for step in steps:
        if step.id == target:
            found += made
            continue
        changed: dict[str, Any] = {}
        if target in step.waits:
            needs = [other for name in step.waits for other in (ends if name == target else (name,))]
            changed = {"needs": list(dict.fromkeys(needs)), "depends_on": []}
        if step.children:
            changed["children"] = _with_macro(step.children, target, made, ends)
        found.append(step.model_copy(update=changed) if changed else step)
    return found


# --- aspects ----------------------------------------------------------------------------------------


def _woven(formula: Formula, steps: Sequence[Step], advice: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The steps with what comes before and after each, one after the other, as in bd."""
    return [woven for step in steps for woven in _around(formula, step, advice)] if advice else list(steps)


def _around(formula: Formula, step: Step, advice: Sequence[Mapping[str, Any]]) -> list[Step]:
    before: list[Step] = []
    after: list[Step] = []
    words = {"step.id": step.id, "step.title": step.title, "step.description": step.description}
    for row in advice:
        if not fnmatchcase(step.id, str(row.get("target"))):
            continue
        around = row.get("around") or {}
        first = [*([row["before"]] if row.get("before") else []), *(around.get("before") or ())]
        last = [*([row["after"]] if row.get("after") else []), *(around.get("after") or ())]
        before += [_step(formula, _filled(one, words)) for one in first]
        after += [_step(formula, _filled(one, words)) for one in last]
    if step.children:
        step = step.model_copy(update={"children": _woven(formula, step.children, advice)})
    found = [*before, step, *after]
    return [
        one.model_copy(update=_more(one, [found[at - 1].id])) if at else one for at, one in enumerate(found)
    ]


# --- rows into steps --------------------------------------------------------------------------------


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """`{target}` and the like; `{{name}}` is the pour's own."""
    if isinstance(value, str):
        for name, word in words.items():
            value = value.replace(f"{{{{{name}}}}}", f"\0{name}\0").replace(f"{{{name}}}", word)
            value = value.replace(f"\0{name}\0", f"{{{{{name}}}}}")
        return value
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, words) for key, one in value.items()}
    return value


def _step(formula: Formula, row: Any) -> Step:
    try:
        return Step.model_validate(row)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _refused(
            formula, f"a step of a macro or aspect cannot be read: {where}: {first['msg']}"
        ) from None


def _refused(formula: Formula, message: str, path: str = "steps") -> RalphError:
    return gathered([formula.fault(path, message, Code.FORMULA_INVALID)], formula.name)
