"""Between a bead's agents its worktree is nobody's: what others do there gets into no commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loop.plans import Project, git, sprint, work


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("meddling", "told"),
    [
        ("echo x > foreign.txt", "foreign.txt in the worktree was changed"),
        ("echo x > foreign.txt && git add foreign.txt", "foreign.txt in the worktree was changed"),
        ("echo x >> kept.txt && rm plan.md", "kept.txt, plan.md in the worktree was changed"),
        ("echo x > foreign.txt && git add --all && git commit --quiet -m x", "was moved to"),
    ],
    ids=["new", "staged", "changed", "committed"],
)
def test_what_others_do_to_a_worktree_at_rest_is_taken_out_kept_and_told(
    repo: Path, meddling: str, told: str
) -> None:
    (repo / "kept.txt").write_text("kept\n", "utf-8")
    tree = repo.parent / f"{repo.name}-worktrees" / "feature" / "1-1-one"
    wait = f"test -d {tree} || exit 1; cd {tree}"
    verify = f"test -e done.txt || {{ {wait}; {meddling}; exit 1; }}"
    dev = [{"run": "if test -e first.txt; then touch done.txt; fi; touch first.txt"}, {"commit": "work"}]
    project = Project.make(
        repo,
        sprint("1.1", "One"),
        script={"*": {"dev": dev}},
        plan_settings={"verify": [verify], "max_retry_attempts": 2},
        verifier_sandbox="none",
    )
    ran = project.run()
    assert ran.data["closed"] == ["bd-1-1-one"], ran.out
    commit = ran.data["pull_requests"][0]["commit"]
    names = git(repo, "diff", "--name-only", "main", commit).split()
    assert sorted(names) == ["done.txt", "first.txt"]
    messages = [row["message"] for row in project.events("warning_given")]
    found = [text for text in messages if told in text and "none of the bead's agents was at work" in text]
    assert len(found) == 2  # after the baseline, and between the attempts
    kept = found[0].rpartition("kept in " if "kept in " in found[0] else "(kept as ")[2].rstrip(")")
    assert Path(kept).is_dir() or git(repo, "rev-parse", kept)


def test_what_an_agent_did_not_commit_is_flagged_where_others_could_write_there(repo: Path) -> None:
    left = [{"run": "echo done > one.txt && git add one.txt && git commit -qm one; echo x > left.txt"}]
    project = Project.make(
        repo,
        sprint("1.1a", "One"),
        sprint("1.1b", "Two"),
        script={"1.1a": {"dev": left}, "*": {"dev": work()}},
        max_parallel_sessions=2,
    )
    flags = project.run().data["flags"]
    said = "not committed by the agent itself: left.txt; agents of other beads could write there, too"
    assert said in flags.get("bd-1-1a-one", []), flags
