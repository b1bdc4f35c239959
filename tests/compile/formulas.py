"""Formulas for tests: `formula("feature", work("code"), person("agree", needs=["code"]))`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from beads_ralph.bead.names import MERGE, WORK
from beads_ralph.compile.build import Built, build
from beads_ralph.compile.setting import Setting
from beads_ralph.errors import RalphError
from beads_ralph.formula.file_format import parse as parse_formula
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.plan import parse
from tests.cli.running import write
from tests.compile.plans import SETTING

Raw = dict[str, Any]


def work(step: str, **said: Any) -> Raw:
    """A step for an agent."""
    return {"id": step, "title": f"Do {step}", "type": WORK, **said}


def merge(step: str, **said: Any) -> Raw:
    return {"id": step, "title": f"Merge {step}", "type": MERGE, **said}


def person(step: str, **said: Any) -> Raw:
    """A step that no agent takes."""
    return {"id": step, "title": f"Decide {step}", **said}


def raw(name: str, *steps: Raw, variables: Mapping[str, Any] | None = None, **said: Any) -> Raw:
    return {"formula": name, "vars": dict(variables or {}), "steps": list(steps), **said}


def formula(name: str, *steps: Raw, **said: Any) -> Formula:
    return formula_of(raw(name, *steps, **said))


def formula_of(given: Raw) -> Formula:
    found = parse_formula(given, Path(f"/srv/shop/.beads/formulas/{given['formula']}.formula.json"))
    assert found.formula is not None, found.faults
    return found.formula


def written(root: Path, *formulas: Raw) -> None:
    """As files of a repository."""
    for given in formulas:
        write(root / ".beads" / "formulas" / f"{given['formula']}.formula.json", json.dumps(given))


def loaded(root: Path, *names: str) -> dict[str, Formula | RalphError]:
    """By the same way as the commands take; an unknown one as its error."""
    found: dict[str, Formula | RalphError] = {}
    for name in names:
        try:
            found[name] = Folders.of(root).load(name)
        except RalphError as error:
            found[name] = error
    return found


def poured(sprint_id: str, title: str, name: str, **fields: str) -> str:
    """A section that names a formula; `fields` are labels with their values."""
    lines = [f"### Sprint {sprint_id}: {title}\n", f"**Formula**: {name}\n"]
    lines += [f"**{label.replace('_', ' ').title()}**: {value}\n" for label, value in fields.items()]
    return "\n".join(lines)


def compiled(text: str, *formulas: Formula, setting: Setting = SETTING, **changes: Any) -> Built:
    known: dict[str, Formula | RalphError] = {one.name: one for one in formulas}
    return build(parse(text, setting.plan_file), replace(setting, **{"formulas": known, **changes}))


def whole(text: str, *formulas: Formula, **changes: Any) -> Built:
    """The same of a plan without faults."""
    built = compiled(text, *formulas, **changes)
    assert [str(fault) for fault in built.all_faults] == []
    return built
