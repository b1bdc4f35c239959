"""What a bead costs in processes of git, all safeguards of its proof included."""

from __future__ import annotations

from pathlib import Path

from bench import git_processes
from tests.conftest import need_bwrap
from tests.loop.plans import Project, sprint

CHAIN = 5
HOOKS = (
    *("post-checkout", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit"),
    *("post-merge", "post-rewrite", "reference-transaction", "post-index-change", "pre-push"),
)
"""bd, among others, has hooks of its own."""


def test_a_bead_costs_at_most_twelve_git_processes_and_runs_no_hook(repo: Path, tmp_path: Path) -> None:
    need_bwrap()
    names = [f"1.{number}" for number in range(1, CHAIN + 1)]
    sprints = [sprint(name, f"Part {name}", verify=f"`test -f {name}.txt`") for name in names]
    script = {name: {"dev": [{"write": {f"{name}.txt": "done\n"}}]} for name in names}
    project = Project.make(repo, *sprints, script=script, sandbox="bwrap")
    for name in HOOKS:
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/hooks-that-ran\n", encoding="utf-8")
        hook.chmod(0o755)
    traced = tmp_path / "traced"
    traced.mkdir()
    ran = project.run(env={git_processes.VARIABLE: str(traced)})
    assert len(ran.data["closed"]) == CHAIN
    closed = [event["at"] for event in project.events("bead_closed")]
    each = git_processes.of_a_bead(git_processes.found(traced), closed)
    assert 0 < sum(each.values()) <= git_processes.MOST, each
    assert not (tmp_path / "hooks-that-ran").exists()
