"""Run state that somebody has spoiled: the bead is named with its field, all others go on, retry heals it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from beads_ralph.bead.run_state import KEYS_IN_ORDER, RunState
from tests import selection
from tests.loop.plans import Project, sprint, work

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
HEALTHY = "bd-1-1z-healthy"


def parts(annotation: Any) -> set[type[BaseModel]]:
    """The models that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return set().union(*map(parts, get_args(annotation)))


def near(key: str) -> st.SearchStrategy[Any]:
    """Anything, or something that looks like the key's value but for a field or two."""
    names = sorted(
        {name for model in parts(RunState.model_fields[key].annotation) for name in model.model_fields}
    )
    if not names:
        return ANYTHING
    alike = st.dictionaries(st.sampled_from(names), ANYTHING, max_size=3)
    return ANYTHING | alike | st.lists(alike, max_size=2)


STATES = st.fixed_dictionaries({key: near(key) for key in KEYS_IN_ORDER})
BY_HAND: dict[str, Any] = {
    "parked": "x",
    "proven": ["c"],
    "spent": {"seconds": "long"},
    "dev_agent_executions": [{"attempt": 1}],
    "attempt_count": None,
    "interruptions": [7],
}


def bead_of(key: str) -> str:
    return f"bd-1-1{letter(key)}-spoiled"


def letter(key: str) -> str:
    return chr(ord("a") + KEYS_IN_ORDER.index(key))


def is_sound(key: str, value: Any) -> bool:
    try:
        RunState.model_validate({key: value})
    except ValidationError:
        return False
    return True


def write(project: Project, bead: str, key: str, value: Any) -> None:
    """As a person would: behind the store's back."""
    if project.store_kind == "bd":
        words = ["bd", "update", bead, "--metadata", json.dumps({key: value}), "--json"]
        subprocess.run(words, cwd=project.root, check=True, capture_output=True, timeout=120)
        return
    with closing(sqlite3.connect(project.root / ".ralph" / "beads.db")) as database, database:
        (text,) = database.execute("SELECT metadata FROM beads WHERE id = ?", (bead,)).fetchone()
        changed = json.dumps({**json.loads(text), key: value})
        database.execute("UPDATE beads SET metadata = ? WHERE id = ?", (changed, bead))


def poured(root: Path, keys: tuple[str, ...], store: str) -> Project:
    """A bead for each key, and a healthy one."""
    others = [sprint(f"1.1{letter(key)}", "Spoiled") for key in keys]
    project = Project.make(root, sprint("1.1z", "Healthy"), *others, store=store)
    assert project.ralph("mason", "plan.md", "--json").code == 0
    return project


def hold(project: Project, state: dict[str, Any]) -> None:
    for key, value in state.items():
        write(project, bead_of(key), key, value)
    spoiled = {bead_of(key): key for key, value in state.items() if not is_sound(key, value)}

    ran = project.run("--once")
    assert ran.code in (0, 1), ran.err
    assert HEALTHY in ran.data["closed"]
    told = {row["id"]: row["reason"] for row in ran.data["blocked"]}
    for bead, key in spoiled.items():
        assert f"metadata.{key}" in told[bead]
    for words in (["list"], ["status"]):
        rows = {row["id"]: row["faults"] for row in project.ralph(*words, "--json").data["unreadable"]}
        assert rows.keys() == spoiled.keys()
        assert all(rows[bead][0]["field"].startswith(f"metadata.{key}") for bead, key in spoiled.items())

    for bead, key in spoiled.items():
        healed = project.ralph("retry", bead, "--json")
        assert healed.code == 0, healed.err
        assert all(field.startswith(f"metadata.{key}") for field in healed.data["dropped"])
    assert project.ralph("list", "--json").data["unreadable"] == []


@settings(
    max_examples=selection.few(4), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(state=STATES)
def test_arbitrary_json_in_each_key_ends_no_run(
    repo: Path, tmp_path_factory: pytest.TempPathFactory, state: dict[str, Any]
) -> None:
    root = tmp_path_factory.mktemp("spoiled") / "app"
    shutil.copytree(repo, root, symlinks=True)
    hold(poured(root, KEYS_IN_ORDER, "embedded"), state)


@pytest.mark.parametrize("store", ["embedded", "bd"])
def test_what_a_hand_has_spoiled_ends_no_run(request: pytest.FixtureRequest, store: str) -> None:
    root: Path = request.getfixturevalue("bd_repo" if store == "bd" else "repo")
    project = poured(root, tuple(BY_HAND), store)
    hold(project, BY_HAND)
    again = project.ralph("run", "--once", "--json")
    assert set(again.data["closed"]) == {bead_of(key) for key in BY_HAND}, "healed, they are worked on"


SPOILS = """
import json, os, sqlite3
database = sqlite3.connect({path!r})
(text,) = database.execute("SELECT metadata FROM beads WHERE id = 'bd-1-1a-spoiled'").fetchone()
changed = json.dumps(json.loads(text) | {{"gate_results": 7}})
database.execute("UPDATE beads SET metadata = ? WHERE id = 'bd-1-1a-spoiled'", (changed,))
database.commit()
"""


def test_a_bead_that_is_spoiled_while_it_is_worked_on_is_let_go(repo: Path) -> None:
    file = repo.parent / "spoil.py"
    file.write_text(SPOILS.format(path=str(repo / ".ralph" / "beads.db")), "utf-8")
    spoils = [{"run": f"{sys.executable} {file}"}, *work()]
    script = {"1.1a": {"dev": spoils}, "*": {"dev": work()}}
    project = Project.make(repo, sprint("1.1z", "Healthy"), sprint("1.1a", "Spoiled"), script=script)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (1, [HEALTHY])
    ((bead, reason),) = [(row["id"], row["reason"]) for row in ran.data["blocked"]]
    assert bead == "bd-1-1a-spoiled"
    assert "metadata.gate_results" in reason
    assert project.ralph("retry", bead, "--json").data["dropped"] == ["metadata.gate_results"]
    assert project.statuses() == {HEALTHY: "closed", bead: "open"}


def test_what_builds_on_a_closed_bead_waits_until_that_can_be_read(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "First"), sprint("1.2", "Second"))
    assert project.run("--bead", "bd-1-1-first").code == 0
    write(project, "bd-1-1-first", "proven", 7)
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.data["closed"]) == (1, [])
    assert "metadata.proven" in {row["id"]: row["reason"] for row in ran.data["blocked"]}["bd-1-1-first"]
    assert project.ralph("retry", "bd-1-1-first", "--json").code == 0
    assert project.ralph("run", "--json").data["closed"] == ["bd-1-2-second"]
