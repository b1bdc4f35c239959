"""Macros: steps that another formula stands for, and steps woven around others, written out as bd does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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
OF_A_CONVOY: Final = re.compile(r"\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
LEGS: Final = "bd makes nothing of the legs of a convoy"
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
    if formula.type == "expansion" and formula.template and not steps:
        steps = _Macro(formula, formula, {}).steps(Step(id=MAIN, title=formula.name))
    if formula.type == "convoy" and not steps:
        steps = _legs(formula)
    steps = _inline(formula, steps, load, 0)
    rules = formula.compose
    for rule in (*rules.expand, *rules.map) if rules else ():
        steps = _replaced(formula, steps, str(rule.get("target") or rule.get("select")), rule, load)
    for aspect in [formula, *(load(name) for name in (rules.aspects if rules else ()))]:
        steps = [woven for step in steps for woven in _woven(formula, step, aspect.advice)]
    cleared = _cleared(formula)
    return formula.model_copy(update={"steps": steps, **cleared}) if cleared else formula


def _cleared(formula: Formula) -> dict[str, Any]:
    """The fields that are written out, emptied; nothing where there is none."""
    own = ("template", "advice", "pointcuts", "legs")
    fields: dict[str, Any] = {name: [] for name in own if getattr(formula, name)}
    rules = formula.compose
    used = [name for name in ("expand", "map", "aspects") if getattr(rules, name, None)]
    if rules is not None and used:
        fields["compose"] = rules.model_copy(update={name: [] for name in used})
    inline = {step.id for _, step in all_steps(formula.steps) if step.expand}
    if any(not inline.isdisjoint(step.waits) for _, step in all_steps(formula.steps)):
        fields["only_here"] = (*formula.only_here, FORGOTTEN)
    if formula.type == "convoy" and formula.legs:
        fields |= {"synthesis": None, "only_here": (*formula.only_here, LEGS)}
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


def _inline(formula: Formula, steps: Sequence[Step], load: Load, depth: int) -> list[Step]:
    """`expand` of a step itself, its children and what comes of it included."""
    found: list[Step] = []
    for step in steps:
        inner = step.model_copy(update={"children": _inline(formula, step.children, load, depth)})
        found.append(inner if step.children else step)
    for step in [one for one in found if one.expand]:
        if depth >= DEEPEST:
            raise _refused(formula, f"step {step.id}: macros lie more than {DEEPEST} deep in one another")
        rule = {"with": step.expand, "vars": step.expand_vars}
        found = _replaced(formula, found, step.id, rule, load)
        found = _inline(formula, found, load, depth + 1)
    return found


def _replaced(
    formula: Formula, steps: Sequence[Step], pattern: str, rule: Mapping[str, Any], load: Load
) -> list[Step]:
    """Write a macro out in the place of every step that fits; who waited for it waits for its last steps."""
    macro = _Macro(formula, load(str(rule.get("with"))), rule.get("vars") or {})
    if not macro.macro.template:
        raise _refused(formula, f"{macro.macro.name} is not a macro: it has no template")
    found: list[Step] = []
    ends: dict[str, list[str]] = {}
    for step in steps:
        made = macro.steps(step) if fnmatchcase(step.id, pattern) else [step]
        found += made
        if fnmatchcase(step.id, pattern):
            needed = {name for one in made for name in one.waits}
            ends[step.id] = [one.id for one in made if one.id not in needed]
    return [_rewired(step, ends) for step in found]


def _rewired(step: Step, ends: Mapping[str, Sequence[str]]) -> Step:
    if ends.keys().isdisjoint(step.waits) and not step.children:
        return step
    needs = [other for name in step.waits for other in ends.get(name, (name,))]
    children = [_rewired(child, ends) for child in step.children]
    return step.model_copy(
        update={"needs": list(dict.fromkeys(needs)), "depends_on": [], "children": children}
    )


# --- aspects ----------------------------------------------------------------------------------------


def _woven(formula: Formula, step: Step, advice: Sequence[Mapping[str, Any]]) -> list[Step]:
    """A step with what comes before and after it: it waits for the one, and the other waits for it."""
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
    own = step.model_copy(update=_more(step, [one.id for one in before])) if before else step
    return [*before, own, *(one.model_copy(update=_more(one, [step.id])) for one in after)]


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


def _refused(formula: Formula, message: str) -> RalphError:
    return gathered([formula.fault("steps", message, Code.FORMULA_INVALID)], formula.name)
