"""The loop's own laws, tried once more with its sessions on another machine.

The tests are those of `tests/loop`. Only the repository differs: it has a remote that follows every commit,
and a worker takes the sessions.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import RALPH, environment
from tests.engine.servers import TemporalServer
from tests.git.repos import git
from tests.loop.test_budgets import test_calls_side_by_side_spend_from_one_budget
from tests.loop.test_loop import (
    test_a_bead_has_budgets_of_its_own,
    test_a_budget_holds_within_a_bead_too,
    test_a_budget_pauses_the_run_and_the_next_one_goes_on,
    test_beads_of_one_branch_follow_one_another_in_one_worktree,
    test_no_more_than_max_parallel_at_once,
    test_once_works_on_what_is_ready_now,
    test_priority_goes_first_then_what_the_longest_chain_hangs_on,
    test_run_compiles_the_plan_first_and_only_once,
    test_s0_qo2_s1_fr4_4_pass_goes_on_fail_is_tried_again_stop_ends_it,
    test_team_and_bead_narrow_a_run,
)
from tests.loop.test_merge_sprints import (
    test_a_conflict_is_resolved_before_the_tasks_are_given,
    test_a_merge_sprint_without_tasks_is_gits_alone,
)

__all__ = [
    "test_a_bead_has_budgets_of_its_own",
    "test_a_budget_holds_within_a_bead_too",
    "test_a_budget_pauses_the_run_and_the_next_one_goes_on",
    "test_a_conflict_is_resolved_before_the_tasks_are_given",
    "test_a_merge_sprint_without_tasks_is_gits_alone",
    "test_beads_of_one_branch_follow_one_another_in_one_worktree",
    "test_calls_side_by_side_spend_from_one_budget",
    "test_no_more_than_max_parallel_at_once",
    "test_once_works_on_what_is_ready_now",
    "test_priority_goes_first_then_what_the_longest_chain_hangs_on",
    "test_run_compiles_the_plan_first_and_only_once",
    "test_s0_qo2_s1_fr4_4_pass_goes_on_fail_is_tried_again_stop_ends_it",
    "test_team_and_bead_narrow_a_run",
]

FOLLOWS = "#!/bin/sh\nexec git push --quiet --force origin HEAD:refs/heads/main\n"


@pytest.fixture(autouse=True)
def on_another_machine(
    repo: Path, tmp_path: Path, temporal_server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Whatever runs in the test's repository has its sessions with a worker."""
    remote = tmp_path / "remote.git"
    git(repo, "clone", "--quiet", "--bare", str(repo), str(remote))
    git(repo, "remote", "add", "origin", str(remote))
    git(repo, "fetch", "--quiet")
    hook = repo / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(FOLLOWS, encoding="utf-8")
    hook.chmod(0o755)
    monkeypatch.setenv("BEADS_RALPH_SET_ENGINE", "temporal")
    monkeypatch.setenv("BEADS_RALPH_SET_TEMPORAL__ADDRESS", temporal_server.address)
    words = ["worker", "--slots", "8", "--home", str(tmp_path / "host"), "--name", "elsewhere"]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            [*RALPH, *words],
            cwd=tmp_path,
            env=environment({}),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
        assert list(tmp_path.glob("host/clones/*/*/clone/.git")), "no session was on another machine"
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        try:
            worker.wait(timeout=60)
        finally:
            worker.kill()
            worker.wait()
