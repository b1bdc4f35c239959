"""Small formulas, and the setting in which the tests compose them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beads_ralph.bead.model import Bead
from beads_ralph.compile.molecule import Molecule, compose
from beads_ralph.compile.setting import Place, Setting, root_id
from beads_ralph.config.model import Config
from beads_ralph.formula.file_format import parse
from beads_ralph.formula.model import Formula
from beads_ralph.formula.variables import Given, values

NOW = datetime(2026, 2, 7, 10, 0, tzinfo=UTC)
DEFAULTS: dict[str, Any] = {
    "rig": "shop",
    "source_branch": "develop",
    "dev_agents": ["python-dev (opus) - write it"],
    "qa_agents": ["qa-review (haiku) - read it"],
}
WORK = "beads-ralph-work"
MERGE = "beads-ralph-merge"


def formula(*steps: dict[str, Any], name: str = "pattern", **keys: Any) -> Formula:
    said = {"formula": name, "version": 1, "type": "workflow", **keys}
    read = parse(said | {"steps": list(steps)}, Path(f"/repo/.beads/formulas/{name}.formula.json"), "project")
    assert read.formula is not None, read.faults
    return read.formula


def step(key: str, kind: str = "task", **keys: Any) -> dict[str, Any]:
    return {"id": key, "title": f"Step {key}", "type": kind, **keys}


def setting(root: Path = Path("/repo"), **defaults: Any) -> Setting:
    config = Config.model_validate({"plan": DEFAULTS | defaults})
    return Setting(root=root, plan_file="plan.md", now=NOW, config=config, branches=frozenset({"develop"}))


def composed(
    source: Formula, given: dict[str, Given] | None = None, place: Place | None = None, **keys: Any
) -> Molecule:
    place = place or Place(root_id(source.name, 7), f".beads/formulas/{source.name}.formula.json", 7)
    keys.setdefault("setting", setting())
    return compose(source, values(source, given or {}), keys.pop("setting"), place, **keys)


def sound(molecule: Molecule) -> Molecule:
    assert molecule.faults == ()
    return molecule


def members(molecule: Molecule) -> dict[str, Any]:
    """Everything below the root, by what follows the root's id."""
    start = f"{molecule.root.id}-"
    return {member.id.removeprefix(start): member for member in sound(molecule).members}


def bead(molecule: Molecule, name: str) -> Bead:
    found = members(molecule)[name]
    assert isinstance(found, Bead)
    return found
