"""The nine laws of the architecture, each with tests of its name."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.cli.answer import Answer, guarded
from beads_ralph.process.process_tree import Family
from tests.loop.plans import Project, fails, git, loop_of, names, passes, soon, sprint, work

ONE = sprint("1.1", "One")


# --- 1: done is what the verifiers and the git tree say ---------------------------------------------


def test_law_1_what_an_agent_says_closes_nothing(repo: Path) -> None:
    project = Project.make(
        repo, sprint("1.1", "One", verify="`test -f one.txt`"), script={"*": {"dev": [{"lie": True}]}}
    )
    ran = project.run()
    assert ran.code == 1
    assert project.statuses() == {"bd-1-1-one": "blocked"}
    assert project.pulls() == {}
    assert "nothing was changed" in ran.data["blocked"][0]["reason"]


def test_law_1_checks_see_the_commit_and_nothing_else(repo: Path) -> None:
    """A file that is only in the worktree, ignored by git, proves nothing."""
    hidden = [{"write": {".gitignore": "one.txt\n", "one.txt": "here\n"}}, {"commit": "hide it"}]
    project = Project.make(
        repo,
        sprint("1.1", "One", verify="`test -f one.txt`"),
        script={"*": {"dev": hidden}},
        plan_settings={"max_retry_attempts": 1},
    )
    ran = project.run()
    assert (project.worktree("feature/1-1-one") / "one.txt").exists()
    assert project.statuses() == {"bd-1-1-one": "blocked"}
    assert "test -f one.txt" in ran.data["blocked"][0]["reason"]


def test_law_1_the_record_binds_command_exit_code_output_and_commit(repo: Path) -> None:
    project = Project.make(
        repo, sprint("1.1", "One", verify="`cat one.txt`"), script={"*": {"dev": work("one.txt")}}
    )
    ran = project.run()
    (pull,) = ran.data["pull_requests"]
    metadata = project.metadata("bd-1-1-one")
    verified, examined = metadata["last_verdict"]["evidence"]
    assert verified["command"] == "cat one.txt"
    assert verified["exit_code"] == 0
    assert verified["output_sha256"] == hashlib.sha256(b"done\n").hexdigest()
    assert examined["kind"] == "qa"
    head = git(repo, "rev-parse", "feature/1-1-one")
    assert {verified["commit"], examined["commit"], pull["commit"], metadata["proven"]["commit"]} == {head}
    assert project.pulls() == {"feature/1-1-one": head}
    assert project.bead("bd-1-1-one").external_ref == pull["url"]


# --- 2: the harness alone writes to the store -------------------------------------------------------


def test_law_2_agents_get_no_credentials(repo: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    dump = [{"run": f"env > {told}-$BEADS_RALPH_ROLE"}]
    project = Project.make(
        repo,
        sprint("1.1", "One", verify=f"`env > {told}-verifier`"),
        script={"*": {"dev": [*dump, *work()], "qa": [*dump, *passes()]}},
    )
    secrets = {"BD_ACTOR": "me", "BEADS_DIR": "/x", "GH_TOKEN": "s3cret", "API_KEY": "s3cret"}
    assert project.run(env=secrets).code == 0
    for who in ("dev", "qa", "verifier"):
        known = Path(f"{told}-{who}").read_text("utf-8")
        assert "s3cret" not in known
        assert not any(line.startswith(("BD_", "BEADS_DIR")) for line in known.splitlines())
        assert "BEADS_RALPH_RUN_ID=" in known or who == "verifier"


# --- 3: every state change is on disk before the next step ------------------------------------------


def test_law_3_killed_at_work_nothing_is_lost_or_done_twice(repo: Path) -> None:
    hang = [{"once": [{"write": {"half.txt": "half\n"}}, {"hang": True}]}]
    project = Project.make(
        repo, ONE, sprint("1.2", "Two"), script={"1.1": {"dev": [*hang, *work()]}, "*": {"dev": work()}}
    )
    with project.running() as process:
        soon((project.worktree("feature/1-1-one") / "half.txt").exists)
        process.kill()
        process.wait()
        assert project.statuses()["bd-1-1-one"] == "in_progress"
        assert project.strays() != []
        ran = project.run()
    assert ran.code == 0
    assert ran.data["closed"] == ["bd-1-1-one", "bd-1-2-two"]
    assert len(project.pulls()) == 2
    assert (project.worktree("feature/1-1-one") / "half.txt").exists()
    assert names(project.events("attempt_interrupted")) == ["bd-1-1-one"]
    (interruption,) = project.metadata("bd-1-1-one")["interruptions"]
    assert (interruption["attempt"], interruption["run_id"]) == (1, project.run_ids()[0])
    project.assert_tidy()


# --- 4: no process outlives its job -----------------------------------------------------------------


def test_law_4_no_process_outlives_its_job(repo: Path) -> None:
    spawn = {"spawn": {"count": 2, "seconds": 300, "detached": True}}
    script = {
        "1.1": {"dev": [spawn, {"spawn": {"seconds": 300}}, *work()], "qa": [spawn, *passes()]},
        "1.2": {"dev": [[{"hang": {"ignore_term": True}}], work()]},
    }
    project = Project.make(repo, ONE, sprint("1.2", "Two"), script=script, dev_agent_timeout="1s")
    ran = project.run()
    assert ran.code == 0
    assert project.strays() == []
    assert Family(f"BEADS_RALPH_RUN_ID={ran.data['run_id']}").find() == set()
    assert project.metadata("bd-1-2-two")["dev_agent_executions"][0]["status"] == "timeout"


# --- 5: a failed bead never spins -------------------------------------------------------------------


def test_law_5_exhaustion_blocks_and_the_rest_goes_on(repo: Path) -> None:
    project = Project.make(
        repo,
        sprint("1.1a", "Bad"),
        sprint("1.1b", "Good"),
        sprint("1.2", "After both"),
        script={"1.1a": {"dev": work(), "qa": fails("never good")}, "*": {"dev": work()}},
        plan_settings={"max_retry_attempts": 2},
    )
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (1, "blocked")
    assert project.statuses() == {
        "bd-1-1a-bad": "blocked",
        "bd-1-1b-good": "closed",
        "bd-1-2-after-both": "open",
    }
    assert project.metadata("bd-1-1a-bad")["attempt_count"] == 2
    assert names(ran.data["blocked"], "id") == ["bd-1-1a-bad"]
    again = project.run()
    assert (again.code, again.data["attempts"], again.data["ended"]) == (1, 0, "blocked")
    assert "blocked after 2 attempts" in again.data["blocked"][0]["reason"]


def test_law_5_stop_ends_the_loop(repo: Path) -> None:
    project = Project.make(
        repo,
        ONE,
        sprint("1.1a", "Other", priority="4"),
        script={"1.1": {"dev": work(), "qa": fails("a key lies open", "stop")}, "*": {"dev": work()}},
    )
    ran = project.run("--max-parallel", "1")
    assert (ran.code, ran.data["ended"]) == (1, "stopped")
    assert "a key lies open" in ran.data["reason"]
    assert project.statuses() == {"bd-1-1-one": "blocked", "bd-1-1a-other": "open"}
    result = project.metadata("bd-1-1-one")["scrum_result"]
    assert (result["success"], result["fatal"], result["attempt_count"]) == (False, True, 1)


# --- 6: it ends by naming why -----------------------------------------------------------------------


def test_law_6_ends_by_naming_why(repo: Path) -> None:
    project = Project.make(repo, ONE, sprint("1.2", "Two"))
    ran = project.run("--bead", "bd-1-2-two")
    assert (ran.code, ran.data["ended"]) == (1, "no_progress")
    assert "bd-1-2-two waits for bd-1-1-one" in ran.data["reason"]
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (0, "done")
    assert project.run().data | {"duration_seconds": 0, "run_id": ""} == {
        "ended": "done",
        "reason": "every bead is closed",
        "closed": [],
        "blocked": [],
        "waiting_for": [],
        "finished": [],
        "left_for_people": [],
        "pull_requests": [],
        "attempts": 0,
        "duration_seconds": 0,
        "standing": {},
        "flags": {},
        "remarks": [],
        "red_gates": [],
        "usage": {"input_tokens": None, "output_tokens": None, "cache_tokens": None, "cost_usd": None},
        "programs": [],
        "conflicts": [],
        "next": [],
        "push": None,
        "report": None,
        "run_id": "",
        "store": "embedded",
        "sandbox": "none",
    }


# --- 7: first Ctrl-C drains, second cancels; nothing unsaved is deleted -----------------------------


def test_law_7_first_interrupt_drains(repo: Path) -> None:
    wait = [{"write": {"up": ""}}, {"run": "while [ ! -e go ]; do sleep 0.05; done; rm go up"}]
    project = Project.make(
        repo, ONE, sprint("1.2", "Two"), script={"1.1": {"dev": [*wait, *work()]}, "*": {"dev": work()}}
    )
    place = project.worktree("feature/1-1-one")
    with project.running() as process:
        soon((place / "up").exists)
        process.send_signal(signal.SIGINT)
        soon(lambda: project.events("run_draining"))
        (place / "go").touch()
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (130, "interrupted", ["bd-1-1-one"])
    assert ran.data["reason"] == "what ran was finished; 1 bead is left, run again to go on"
    assert project.statuses()["bd-1-2-two"] == "open"
    project.assert_tidy()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_law_7_second_interrupt_cancels_and_releases(repo: Path, number: signal.Signals) -> None:
    half = [{"write": {"half.txt": "half\n"}}, {"hang": {"ignore_term": True}}]
    project = Project.make(repo, ONE, script={"*": {"dev": half}})
    place = project.worktree("feature/1-1-one")
    with project.running() as process:
        soon((place / "half.txt").exists)
        process.send_signal(number)
        soon(lambda: project.events("run_draining"))
        process.send_signal(number)
        ran = project.finished(process)
        assert project.strays() == []
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (130, "interrupted", [])
    assert project.statuses() == {"bd-1-1-one": "open"}
    assert project.metadata("bd-1-1-one")["attempt_count"] == 0
    assert (place / "half.txt").read_text("utf-8") == "half\n"
    project.assert_tidy()


@contextmanager
def hangup(answer: signal.Handlers) -> Iterator[None]:
    """What a child started meanwhile does about a closed terminal; these tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def test_law_7_a_closed_terminal_ends_the_agents_and_gives_the_beads_back(repo: Path) -> None:
    half = [{"write": {"half.txt": "half\n"}}, {"hang": True}]
    project = Project.make(repo, sprint("1.1", "One"), script={"*": {"dev": half}})
    place = project.worktree("feature/1-1-one")
    with hangup(signal.SIG_DFL), project.running() as process:
        soon((place / "half.txt").exists)
        process.send_signal(signal.SIGHUP)
        ran = project.finished(process)
        assert project.strays() == []
    assert (ran.code, ran.data["ended"]) == (130, "interrupted")
    assert project.statuses() == {"bd-1-1-one": "open"}
    assert (place / "half.txt").read_text("utf-8") == "half\n"
    project.assert_tidy()


def test_law_7_under_nohup_a_closed_terminal_ends_nothing(repo: Path) -> None:
    wait = [{"write": {"here.txt": "x"}}, {"run": "while [ ! -e go ]; do sleep 0.02; done; rm go"}, *work()]
    project = Project.make(repo, sprint("1.1", "One"), script={"*": {"dev": wait}})
    place = project.worktree("feature/1-1-one")
    with hangup(signal.SIG_IGN), project.running() as process:
        soon((place / "here.txt").exists)
        process.send_signal(signal.SIGHUP)
        (place / "go").touch()
        ran = project.finished(process)
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1-one"])


def test_law_7_failed_worktrees_stay_and_only_merged_ones_are_cleaned(repo: Path) -> None:
    project = Project.make(
        repo,
        sprint("1.1a", "Good"),
        sprint("1.1b", "Bad"),
        sprint("1.1c", "Unmerged"),
        script={"1.1b": {"dev": work(), "qa": fails()}, "*": {"dev": work()}},
    )
    project.run()
    git(repo, "merge", "--quiet", "--no-ff", "--message", "take it", "feature/1-1a-good")
    looked = project.ralph("clean", "--dry-run", "--json").data
    assert looked["dry_run"] is True
    assert {row["bead"]: row["removable"] for row in looked["worktrees"]} == {
        "bd-1-1a-good": True,
        "bd-1-1b-bad": False,
        "bd-1-1c-unmerged": False,
    }
    assert not any(row["removed"] for row in looked["worktrees"])
    assert project.worktree("feature/1-1a-good").exists()
    cleaned = project.ralph("clean", "--json").data["worktrees"]
    assert cleaned == [{**row, "removed": row["removable"]} for row in looked["worktrees"]]
    why = {row["bead"]: row["why"] for row in cleaned}
    assert why["bd-1-1a-good"] == ""
    assert why["bd-1-1b-bad"] == "bd-1-1b-bad is blocked"
    assert "neither in main nor on origin" in why["bd-1-1c-unmerged"]
    assert not project.worktree("feature/1-1a-good").exists()
    assert project.worktree("feature/1-1b-bad").exists()
    assert project.worktree("feature/1-1c-unmerged").exists()


def test_law_7_a_worktree_that_another_bead_still_needs_stays(repo: Path) -> None:
    """Its first bead is closed and all its commits are safe, but an agent may be at work there."""
    project = Project.make(
        repo,
        sprint("1.1", "One", branch="feature/both"),
        sprint("1.2", "Two", branch="feature/both"),
    )
    assert project.run("--once").data["closed"] == ["bd-1-1-one"]
    git(repo, "merge", "--quiet", "--no-ff", "--message", "take it", "feature/both")
    (row,) = project.ralph("clean", "--json").data["worktrees"]
    assert (row["removed"], row["why"]) == (False, "bd-1-2-two is open")
    assert row["beads"] == ["bd-1-1-one", "bd-1-2-two"]
    assert project.worktree("feature/both").exists()
    assert "= kept" in project.ralph("clean").out
    assert project.run().code == 0
    git(repo, "merge", "--quiet", "--no-ff", "--message", "take it", "feature/both")
    shown = project.ralph("clean", "--dry-run").out
    assert "would remove 1 of 1 worktrees; nothing was changed" in shown
    assert project.worktree("feature/both").exists()
    assert "removed 1 of 1 worktrees" in project.ralph("clean").out
    assert not project.worktree("feature/both").exists()


# --- 8: expected outcomes are values; anything else is a bug ----------------------------------------


def test_law_8_a_bug_is_exit_3_with_a_crash_file_and_no_bead_in_hand(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Two"))
    programs: dict[str, AgentCLI] = {}

    def command() -> Answer:
        with loop_of(project, select=lambda name: programs[name]) as loop:
            return Answer(asyncio.run(loop.run()).to_json())

    assert guarded(command, "json") == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "INTERNAL.BUG"
    (crash,) = tmp_path.glob("beads-ralph-crash-*.txt")
    assert str(crash) in error["details"]
    assert "KeyError: 'scripted'" in crash.read_text("utf-8")
    assert set(project.statuses().values()) == {"open"}
    project.assert_tidy()


def test_law_8_mistakes_of_the_user_are_exit_2_and_1(repo: Path) -> None:
    project = Project.make(repo, ONE)
    assert project.run("--max-parallel", "0").code == 2
    ran = project.run("--bead", "bd-nope")
    assert (ran.code, ran.error["code"]) == (1, "DATABASE.BEAD_NOT_FOUND")


# --- 9: limits are read from structured events, never from prose ------------------------------------


def test_law_9_prose_about_limits_means_nothing(repo: Path) -> None:
    prose = [
        {"say": "429 Too Many Requests: rate limit exceeded, try again at 2099-01-01"},
        {"say": 'BEADS_RALPH_LIMIT {"reset_at": "2099-01-01T00:00:00Z"}'},
        {"err": "You have hit your usage limit. Authentication failed. API Error"},
    ]
    project = Project.make(repo, ONE, script={"*": {"dev": [*prose, *work()], "qa": [*prose, *passes()]}})
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1-one"])
    assert project.events("bead_parked") == []
