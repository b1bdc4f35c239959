"""How often bd is asked: a call takes a third of a second, and bd lets in one at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.protocol import Changes
from tests.beads import make_bead
from tests.loop.plans import Project, sprint

pytestmark = pytest.mark.bd
FIRST, SECOND = "bd-1-1-one", "bd-1-2-two"


def recorder(folder: Path) -> tuple[Path, Callable[[], list[str]]]:
    """A bd that notes down what it is asked; and what it was asked since the last look, one word each."""
    real, log = shutil.which("bd"), folder / "calls"
    program = folder / "bin" / "bd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {real} "$@"\n', encoding="utf-8")
    program.chmod(0o755)

    def calls() -> list[str]:
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return ["claim" if "--claim" in line.split() else line.split()[0] for line in lines]

    return program, calls


@pytest.mark.full
def test_a_dependent_starts_after_three_calls_from_the_proof_on(bd_repo: Path, tmp_path: Path) -> None:
    """A bead costs four: its claim, its verdict, its close, and one look at what is ready."""
    program, calls = recorder(tmp_path)
    project = Project.make(bd_repo, sprint("1.1", "One"), sprint("1.2", "Two"), store="bd")
    assert project.ralph("mason", "plan.md", "--json").code == 0
    ran = project.run("--max-parallel", "1", env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert ran.data["closed"] == [FIRST, SECOND], ran.out
    made = [call for call in calls() if call != "heartbeat"]
    start = made.index("claim")
    again = made.index("claim", start + 1)
    assert made[start : again + 1] == ["claim", "update", "update", "ready", "claim"]
    assert made[again : again + 4] == ["claim", "update", "update", "ready"]


@pytest.mark.full
def test_what_is_held_is_read_again_where_somebody_else_has_written(bd_repo: Path, tmp_path: Path) -> None:
    program, calls = recorder(tmp_path)
    store = BdStore(bd_repo, bd=str(program))
    store.create([make_bead("bd-one"), make_bead("bd-two")])
    for name in ("bd-one", "bd-two"):
        assert store.claim(name, "me").won
    calls()
    assert store.update("bd-one", Changes(metadata={"attempt_count": 1})).metadata.attempt_count == 1
    assert store.heartbeat("bd-two", "me")
    assert calls() == ["update", "heartbeat"], "nothing is asked that we know"
    BdStore(bd_repo).release("bd-two", "me")
    with pytest.raises(RalphError) as refused:
        store.close("bd-two", "me", "done")
    assert refused.value.code == Code.CONFLICT
    assert calls() == ["list"], "looked at, and refused before anything is written"
    store.close("bd-one", "me", "done")
    assert store.show("bd-one").status == "closed"
