"""Runs whose sessions are on other machines: the same ends, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.hosts import Machines, machines
from tests.engine.servers import TemporalServer
from tests.loop.plans import git, soon, sprint

BEAD = "bd-1-1-one"


def once_each(found: Machines) -> None:
    """Every bead closed once, with one pull request, and nothing left anywhere."""
    closed = Counter(row["bead"] for row in found.project.events("bead_closed"))
    assert set(closed.values()) == {1}
    assert set(found.project.statuses().values()) == {"closed"}
    pulls = found.project.pulls()
    assert len(pulls) == len(closed)
    for branch, commit in pulls.items():
        assert git(found.remote, "rev-parse", f"refs/heads/{branch}") == commit
        assert git(found.project.root, "rev-parse", f"refs/heads/{branch}") == commit
    found.assert_tidy()


def test_a_plan_is_worked_through_on_two_hosts(repo: Path, temporal_server: TemporalServer) -> None:
    sprints = [sprint("1.1", "One"), sprint("1.2", "Two"), sprint("2.1", "Three")]
    with machines(repo, temporal_server, *sprints) as found:
        for name in ("a", "b"):
            found.worker(name, "--slots", "1")
        assert found.ended(found.run()) == 0
        once_each(found)
        placed = found.project.events("worktree_prepared")
        assert {row["host"] for row in placed} <= {"a", "b"}
        assert len(placed) == 3
        for row in found.project.events("agent_ended"):
            transcript = Path(row["transcript"])
            assert transcript.is_relative_to(found.project.root)
            assert transcript.is_file()


@pytest.mark.parametrize("killed", ["worker", "coordinator", "server", "all"])
def test_a_kill_costs_no_agent(repo: Path, temporal_server: TemporalServer, killed: str) -> None:
    """The very process that was at work goes on, and its work is taken once."""
    with machines(repo, temporal_server, script=Machines.patient(repo.parent)) as found:
        worker, run = found.worker("a"), found.run()
        soon(lambda: found.begun and found.project.events("agent_started"), 120)
        if killed in ("worker", "all"):
            worker.kill()
            worker.wait()
        if killed in ("coordinator", "all"):
            run.kill()
            run.wait()
        if killed in ("server", "all"):
            temporal_server.kill()
            temporal_server.start()
        if killed in ("worker", "all"):
            found.worker("a")
        if killed in ("coordinator", "all"):
            run = found.run()
        found.go()
        assert found.ended(run) == 0, found.log("run")
        assert len(found.begun) == 1
        once_each(found)
        assert len(found.project.metadata(BEAD)["dev_agent_executions"]) == 1
        assert not found.project.metadata(BEAD).get("interruptions")


def test_a_host_that_was_given_up_cannot_publish(repo: Path, temporal_server: TemporalServer) -> None:
    quick = {"heartbeat_timeout": "5s"}
    script = Machines.patient(repo.parent)
    with machines(repo, temporal_server, script=script, temporal=quick) as found:
        worker, run = found.worker("a"), found.run()
        soon(lambda: found.begun and found.project.events("agent_started"), 120)
        frozen = [worker.pid, *found.sessions()]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        found.worker("b")
        soon(lambda: len(found.begun) == 2, 180)
        found.go()
        assert found.ended(run) == 0, found.log("run")
        pulls = found.project.pulls()
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        soon(lambda: found.sessions() == [], 120)
        assert found.project.pulls() == pulls
        assert [row["host"] for row in found.project.events("worktree_prepared")] == ["a", "b"]
        once_each(found)


def test_cancelled_it_ends_the_agents_wherever_they_are(repo: Path, temporal_server: TemporalServer) -> None:
    with machines(repo, temporal_server, script=Machines.patient(repo.parent)) as found:
        found.worker("a")
        run = found.run()
        soon(lambda: found.begun and found.project.events("agent_started"), 120)
        for number in (signal.SIGINT, signal.SIGINT):
            run.send_signal(number)
            soon(lambda: found.project.events("run_draining"))
        assert found.ended(run) == 130
        soon(lambda: not Path(f"/proc/{found.begun[0]}").exists())
        soon(lambda: found.sessions() == [])
        assert found.project.statuses() == {BEAD: "open"}


def test_a_worker_that_drains_finishes_what_it_has(repo: Path, temporal_server: TemporalServer) -> None:
    sprints = [sprint("1.1", "One"), sprint("1.2", "Two")]
    with machines(repo, temporal_server, *sprints, script=Machines.patient(repo.parent)) as found:
        worker, run = found.worker("a", "--slots", "1"), found.run()
        soon(lambda: found.begun, 120)
        soon(lambda: " on a\n" in found.project.ralph("status").out)
        worker.terminate()
        soon(lambda: "takes no more beads" in found.log("worker-a"))
        found.go()
        assert found.ended(worker) == 0
        assert [row["host"] for row in found.project.events("worktree_prepared")] == ["a"]
        found.worker("b")
        assert found.ended(run) == 0
        once_each(found)


def test_what_is_wrong_with_the_engine_is_said_before_anything_starts(
    repo: Path, temporal_server: TemporalServer
) -> None:
    with machines(repo, temporal_server, temporal={"namespace": "nowhere"}) as found:
        assert found.ended(found.run()) != 0
        assert "has no namespace nowhere" in found.log("run")
        found.project.assert_tidy()
        assert found.project.events("bead_claimed") == []
        away = found.project.ralph("run", "--json", env={"BEADS_RALPH_SET_TEMPORAL__ADDRESS": "127.0.0.1:9"})
        assert away.code != 0
        assert "no Temporal server answers at 127.0.0.1:9" in away.error["message"]


def test_a_worker_without_what_a_bead_needs_says_so(repo: Path, temporal_server: TemporalServer) -> None:
    with machines(repo, temporal_server, agent_env=["SECRET_OF_OURS"]) as found:
        found.worker("a")
        os.environ["SECRET_OF_OURS"] = "x"
        try:
            run = found.run()
        finally:
            del os.environ["SECRET_OF_OURS"]
        assert found.ended(run) != 0
        assert "it lacks the variables SECRET_OF_OURS" in found.log("run")
        assert f"beads-ralph retry {BEAD}" in found.log("run")
        assert found.project.statuses() == {BEAD: "blocked"}


def test_a_second_coordinator_is_refused(repo: Path, tmp_path: Path, temporal_server: TemporalServer) -> None:
    """The same project from another place, as from another machine."""
    quick = {"project": "shop"}
    with machines(repo, temporal_server, script=Machines.patient(repo.parent), temporal=quick) as found:
        found.worker("a")
        run = found.run()
        soon(lambda: found.begun, 120)
        other = tmp_path / "other" / "app"
        other.parent.mkdir()
        git(tmp_path, "clone", "--quiet", str(found.remote), str(other))
        second = replace(found.project, root=other).run()
        assert second.code != 0
        assert "another run coordinates this project already" in second.error["message"]
        found.go()
        assert found.ended(run) == 0
        once_each(found)


def test_a_bead_goes_to_a_host_that_has_what_it_needs(repo: Path, temporal_server: TemporalServer) -> None:
    sprints = [sprint("1.1a", "One", runs_on="gpu"), sprint("1.1b", "Two")]
    with machines(repo, temporal_server, *sprints) as found:
        found.worker("plain")
        run = found.run()
        soon(lambda: found.project.events("bead_closed"), 120)
        found.worker("gpu", "--labels", "GPU,linux")
        assert found.ended(run) == 0
        once_each(found)
        hosts = {row["bead"]: row["host"] for row in found.project.events("worktree_prepared")}
        assert hosts == {"bd-1-1a-one": "gpu", "bd-1-1b-two": "plain"}
        assert "runs-on:gpu" in found.project.bead("bd-1-1a-one").labels
