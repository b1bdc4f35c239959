"""Plans with repeated work, and what the inference needs to know around them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from beads_ralph.compile.setting import Setting
from beads_ralph.formula.definitions import Instance
from beads_ralph.formula.patterns import InferenceContext, Made, make
from tests.compile import plans

SETTING = plans.SETTING


def endpoint(number: str, thing: str, **fields: str) -> str:
    """A sprint as people write them many times over."""
    tasks = (f"Write {thing}/model.py", "Document it")
    return plans.sprint(number, f"{thing.capitalize()} endpoint", tasks=tasks, **fields)


def surroundings(name: str = "work", setting: Setting = SETTING) -> InferenceContext:
    return InferenceContext(
        name,
        f".beads/formulas/{name}.formula.toml",
        setting.plan_file,
        lambda branch: setting.worktree(branch, setting.config.plan),
        lambda path: os.path.relpath(path, setting.root),
    )


def instances(text: str, *groups: str, setting: Setting = SETTING, **changes: Any) -> list[Instance]:
    """`instances(plan, "2.1+2.2", "3.1+3.2")`: their beads as JSON."""
    beads = plans.beads_of(text, setting, **changes)
    return [[beads[sprint].to_json() for sprint in group.split("+")] for group in groups]


def made(text: str, *groups: str, setting: Setting = SETTING) -> Made:
    return make(instances(text, *groups, setting=setting), surroundings(setting=setting))


def sample(name: str) -> str:
    """A plan of the test fixtures, or the one that comes with the program."""
    project = Path(__file__).parents[2]
    folders = [project / "tests" / "fixtures" / "plans", project / "src" / "beads_ralph" / "demo"]
    return next(folder / name for folder in folders if (folder / name).exists()).read_text(encoding="utf-8")
