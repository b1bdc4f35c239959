"""Formulas for tests, out of as little as the test is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beads_ralph.errors import RalphError
from beads_ralph.formula.file_format import parse
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.formula.render import Ready, Rendered, render
from beads_ralph.formula.variables import Given, values

FIXTURES = Path(__file__).parents[1] / "fixtures" / "formulas"


def step(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"id": name, "title": name.title(), **more}
    return said | ({"needs": list(needs)} if needs else {})


def formula(*steps: dict[str, Any], variables: dict[str, Any] | None = None, **more: Any) -> Formula:
    """A formula that has the right form; whether it makes sense is the test's affair."""
    raw: dict[str, Any] = {"formula": "x", "steps": list(steps), **more}
    raw |= {"vars": variables} if variables is not None else {}
    said = parse(raw, Path("x.formula.json"))
    assert said.formula is not None, said.faults
    return said.formula


def poured(made: Formula, **given: Given) -> Rendered:
    return render(made, values(made, given))


def by_key(made: Formula, **given: Given) -> dict[str, Ready]:
    return {ready.key: ready for ready in poured(made, **given).steps}


def needs(made: Formula, **given: Given) -> dict[str, tuple[str, ...]]:
    return {key: ready.needs for key, ready in by_key(made, **given).items()}


def write(folder: Path, name: str, raw: dict[str, Any] | str) -> Path:
    """A formula file; a text is written as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")
    return file


def project(root: Path) -> Path:
    return root / ".beads" / "formulas"


def loaded(root: Path, name: str) -> Formula:
    return Folders.of(root).load(name)


def faults(error: RalphError) -> list[tuple[str | None, str]]:
    return [(fault.field, fault.message) for fault in error.faults]
