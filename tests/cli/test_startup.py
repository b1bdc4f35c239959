"""Start-up is part of the product: a command loads what it needs, and no other command's weight."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import compiled_here, run
from tests.compile.plans import plan, sprint

HEAVY = {
    "asyncio",
    "beads_ralph.loop",
    "beads_ralph.session",
    "beads_ralph.report.run_page",
    "beads_ralph.demo.demonstration",
    "ssl",
}


def loaded(*words: str, cwd: Path) -> set[str]:
    """The modules that a command has imported when it ends, as the interpreter itself tells them."""
    done = run((sys.executable, "-X", "importtime", "-m", "beads_ralph"), *words, cwd=cwd)
    assert done.code == 0, done.err
    rows = (row for row in done.err.splitlines() if row.startswith("import time:"))
    return {row.rpartition("|")[2].strip() for row in rows}


@pytest.mark.parametrize("words", ["--help", "run --help", "demo --help", "plan check --help"])
def test_help_loads_no_loop(words: str, tmp_path: Path) -> None:
    assert not loaded(*words.split(), cwd=tmp_path) & HEAVY


@pytest.mark.parametrize(
    "words",
    [
        "formula list",
        "plan check plan.md",
        "status",
        "list",
        "ready",
        "config show",
        "clean",
        "show bd-1-1-setup",
    ],
)
def test_only_a_run_loads_the_loop(words: str, repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    assert not loaded(*words.split(), cwd=repo) & HEAVY


def test_the_weight_is_noticed_where_it_belongs(repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup", source_branch="main")))
    assert {"asyncio", "beads_ralph.loop", "beads_ralph.session"} <= loaded("run", "--dry-run", cwd=repo)
