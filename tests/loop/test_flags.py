"""What failed nothing and a person should know is shown wherever the bead is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loop.plans import Project, Steps, sprint
from tests.session.test_gate_files import CHECK, HONEST, VERIFY, commit

FLAG = "check.py is named by a verifier, and was changed"
BEAD = "bd-1-1-one"
READS = """#!/bin/sh
cat > {place}/prompt
echo '```json'
echo '{{"status": "pass", "message": "fine"}}'
echo '```'
"""


@pytest.fixture
def flagged(repo: Path) -> Project:
    """A bead whose developer has touched its own check, and done right; its reviewer keeps the prompt."""
    commit(repo, CHECK)
    reviewer = repo.parent / "reviewer"
    reviewer.write_text(READS.format(place=repo.parent), encoding="utf-8")
    reviewer.chmod(0o755)
    dev: Steps = [{"write": {"check.py": CHECK["check.py"] + "# clearer\n"}}, *HONEST]
    qa = [{"agent": "claude", "executable": str(reviewer)}]
    return Project.make(
        repo,
        sprint("1.1", "One", verify=f"`{VERIFY}`"),
        script={"*": {"dev": dev}},
        plan_settings={"qa_agents": qa},
    )


def words(text: str) -> str:
    return " ".join(text.split())


def test_flags_are_shown_wherever_the_bead_is(flagged: Project) -> None:
    ran = flagged.ralph("run", "plan.md")
    assert ran.code == 0, ran.err
    assert f"! look at: {FLAG}" in words(ran.out)
    assert f"look at: {FLAG}" in words(ran.err)
    assert [event["flags"] for event in flagged.events("verdict_given")] == [[FLAG]]
    assert [event["flags"] for event in flagged.events("run_ended")] == [{BEAD: [FLAG]}]
    assert f"look at: {FLAG}" in words(flagged.ralph("events").out)
    assert f"look at {FLAG}" in words(flagged.ralph("show", BEAD).out)
    assert f"{BEAD} look at: {FLAG}" in words(flagged.ralph("status").out)
    assert "(1 flag)" in flagged.ralph("list").out
    assert flagged.ralph("status", "--json").data["flagged"] == [{"id": BEAD, "flags": [FLAG]}]
    listed = flagged.ralph("list", "--json").data["beads"]
    shown = flagged.ralph("show", BEAD, "--json").data["beads"]
    assert [bead["flags"] for bead in (*listed, *shown)] == [[FLAG], [FLAG]]
    (page,) = (flagged.root / ".ralph" / "pulls").glob("*.md")
    assert FLAG in page.read_text("utf-8")
    assert f"```text\n1. {FLAG}\n```" in (flagged.root.parent / "prompt").read_text("utf-8")


def test_a_bead_without_flags_shows_none(repo: Path) -> None:
    commit(repo, CHECK)
    it = Project.make(repo, sprint("1.1", "One", verify=f"`{VERIFY}`"), script={"*": {"dev": HONEST}})
    ran = it.run()
    assert (ran.data["closed"], ran.data["flags"]) == ([BEAD], {}), ran.out
    assert "flags" not in it.ralph("list", "--json").data["beads"][0]
    assert it.ralph("status", "--json").data["flagged"] == []
    assert "flag" not in it.ralph("list").out
