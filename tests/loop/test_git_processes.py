"""What a bead costs in processes of git, all safeguards of its proof included."""

from __future__ import annotations

from pathlib import Path

from bench import git_processes
from tests.conftest import need_bwrap
from tests.loop.plans import Project, sprint

MOST = 12
CHAIN = 5


def test_a_bead_costs_at_most_twelve_git_processes(repo: Path, tmp_path: Path) -> None:
    need_bwrap()
    names = [f"1.{number}" for number in range(1, CHAIN + 1)]
    sprints = [sprint(name, f"Part {name}", verify=f"`test -f {name}.txt`") for name in names]
    script = {name: {"dev": [{"write": {f"{name}.txt": "done\n"}}]} for name in names}
    project = Project.make(repo, *sprints, script=script, sandbox="bwrap")
    traced = tmp_path / "traced"
    traced.mkdir()
    ran = project.run(env={git_processes.VARIABLE: str(traced)})
    assert len(ran.data["closed"]) == CHAIN
    closed = [event["at"] for event in project.events("bead_closed")]
    each = git_processes.of_a_bead(git_processes.found(traced), closed)
    assert 0 < sum(each.values()) <= MOST, each
