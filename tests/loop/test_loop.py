"""What starts when, what a person can steer, and what a script is told."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.model import Bead
from beads_ralph.errors import Code, RalphError
from beads_ralph.loop import Ended, Loop
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes, Claim
from tests.cli.running import RALPH, environment
from tests.loop.plans import Project, Steps, fails, git, loop_of, names, passes, soon, sprint, work

ONE, TWO = sprint("1.1", "One"), sprint("1.2", "Two")


def gate(name: str) -> Steps:
    """A developer who says that it is at work, and waits to be let on."""
    return [
        {"run": f"touch up-{name}; while [ ! -e go-{name} ]; do sleep 0.05; done; rm up-{name} go-{name}"}
    ]


# --- order ------------------------------------------------------------------------------------------


def test_priority_goes_first_then_what_the_longest_chain_hangs_on(repo: Path) -> None:
    project = Project.make(
        repo,
        sprint("1b.1", "Short"),
        sprint("1a.1", "Long"),
        sprint("1a.2", "Longer"),
        sprint("1a.3", "Longest"),
        sprint("1c.1", "Urgent", priority="0"),
    )
    assert project.run("--max-parallel", "1").code == 0
    assert names(project.events("bead_claimed")) == [
        "bd-1c-1-urgent",
        "bd-1a-1-long",
        "bd-1a-2-longer",
        "bd-1b-1-short",
        "bd-1a-3-longest",
    ]


def most_at_once(project: Project) -> int:
    at_work, most = 0, 0
    for event in project.events("bead_claimed", "bead_closed"):
        at_work += 1 if event["kind"] == "bead_claimed" else -1
        most = max(most, at_work)
    return most


def test_no_more_than_max_parallel_at_once(repo: Path) -> None:
    beads = [sprint(f"1.1{letter}", f"Part {letter}") for letter in "abcde"]
    project = Project.make(repo, *beads)
    assert project.run("--max-parallel", "2").code == 0
    assert most_at_once(project) == 2


def test_a_dependent_starts_because_its_dependency_ended_not_because_of_a_poll(repo: Path) -> None:
    project = Project.make(repo, ONE, TWO, poll_interval="1h")
    assert project.run().data["closed"] == ["bd-1-1-one", "bd-1-2-two"]
    assert git(repo, "ls-tree", "--name-only", "feature/1-2-two").splitlines().count("bd-1-1-one.txt") == 1


def test_beads_of_one_branch_follow_one_another_in_one_worktree(repo: Path) -> None:
    shared = {"branch": "`feature/shared`"}
    project = Project.make(repo, sprint("1.1a", "One", **shared), sprint("1.1b", "Two", **shared))
    ran = project.run("--max-parallel", "4")
    assert ran.data["closed"] == ["bd-1-1a-one", "bd-1-1b-two"]
    assert most_at_once(project) == 1
    assert len(project.pulls()) == 1
    text = (repo / ".ralph" / "pulls" / "1.md").read_text("utf-8")
    assert "beads: bd-1-1a-one, bd-1-1b-two" in text


def test_s0_tg1_s0_tg2_the_beads_of_a_team_share_its_session(repo: Path) -> None:
    """Neither the sprint's number nor the branch makes a team; what becomes ready later joins it."""
    project = Project.make(
        repo, sprint("1.1a", "One", team="core"), sprint("1.1b", "Other"), sprint("1.2", "Two", team="core")
    )
    assert project.run().code == 0
    sessions = {bead: project.metadata(bead)["scrum_master_session_id"] for bead in project.statuses()}
    assert sessions["bd-1-1a-one"] == sessions["bd-1-2-two"] != sessions["bd-1-1b-other"]
    assert "core" in sessions["bd-1-1a-one"]


def test_s0_qo2_s1_fr4_4_pass_goes_on_fail_is_tried_again_stop_ends_it(repo: Path) -> None:
    script = {
        "1.1": {"dev": work(), "qa": passes()},
        "1.2": {"dev": work(), "qa": [fails("not yet"), passes()]},
        "1.3": {"dev": work(), "qa": fails("a key lies open", "stop")},
        "1.4": {"dev": work()},
    }
    project = Project.make(
        repo, ONE, TWO, sprint("1.3", "Three"), sprint("1.4", "Four", depends_on="1.2"), script=script
    )
    ran = project.run("--max-parallel", "1")
    assert (ran.code, ran.data["ended"]) == (1, "stopped")
    tried = {bead: project.metadata(bead)["attempt_count"] for bead in project.statuses()}
    assert tried == {"bd-1-1-one": 1, "bd-1-2-two": 2, "bd-1-3-three": 1, "bd-1-4-four": 0}
    assert project.statuses() | {"bd-1-4-four": "open"} == project.statuses()


def test_s1_n1_2_the_loop_in_its_order(repo: Path) -> None:
    """ready → claim → worktree → dev → QA → pull request → closed with it → ready."""
    project = Project.make(repo, ONE, TWO)
    assert project.run().code == 0
    told = [(row["kind"], row.get("role")) for row in project.events(bead="bd-1-1-one")]
    steps = [(kind, role) for kind, role in told if kind != "baseline_taken"]
    assert steps == [
        ("bead_claimed", None),
        ("worktree_prepared", None),
        ("agent_started", "dev"),
        ("agent_ended", "dev"),
        ("agent_started", "qa"),
        ("agent_ended", "qa"),
        ("review_given", None),
        ("verdict_given", None),
        ("pull_request_opened", None),
        ("bead_closed", None),
    ]
    order = names(project.events("bead_claimed", "bead_closed"))
    assert order == ["bd-1-1-one", "bd-1-1-one", "bd-1-2-two", "bd-1-2-two"]
    metadata = project.metadata("bd-1-1-one")
    assert project.bead("bd-1-1-one").external_ref == metadata["pr_url"] == metadata["scrum_result"]["pr_url"]


# --- what is asked for ------------------------------------------------------------------------------


def test_once_works_on_what_is_ready_now(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Other"), TWO)
    ran = project.run("--once", "--max-parallel", "1")
    assert (ran.code, ran.data["ended"]) == (0, "done")
    assert sorted(ran.data["closed"]) == ["bd-1-1a-one", "bd-1-1b-other"]
    assert project.statuses()["bd-1-2-two"] == "open"
    assert project.run("--once").data["closed"] == ["bd-1-2-two"]


def test_team_and_bead_narrow_a_run(repo: Path) -> None:
    project = Project.make(
        repo, sprint("1.1a", "One", team="red"), sprint("1.1b", "Two", team="blue"), sprint("1.1c", "Three")
    )
    ran = project.run("--team", "blue")
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1b-two"])
    ran = project.run("--bead", "bd-1-1c-three")
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1c-three"])
    assert project.statuses()["bd-1-1a-one"] == "open"


def test_dry_run_shows_waves_and_starts_nothing(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Other"), TWO)
    ran = project.run("--dry-run")
    assert ran.code == 0
    assert ran.data["waves"] == [["bd-1-1a-one", "bd-1-1b-other"], ["bd-1-2-two"]]
    # Nothing is written, not even the plan's beads; one of them may be asked for all the same.
    assert (project.run_ids(), project.statuses()) == ([], {})
    ran = project.run("--dry-run", "--bead", "bd-1-2-two")
    assert (ran.data["waves"], names(ran.data["waiting"], "id")) == ([], ["bd-1-2-two"])


def test_dry_run_says_what_would_not_start(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Other"), TWO, sprint("1.3", "Three"))
    assert project.run("--bead", "bd-1-1b-other").code == 0
    project.store.update("bd-1-1a-one", Changes(status="blocked"))
    ran = project.run("--dry-run")
    assert (ran.code, ran.data["waves"]) == (0, [])
    assert ran.data["waiting"] == [
        {"id": "bd-1-1a-one", "reason": "is blocked"},
        {"id": "bd-1-2-two", "reason": "waits for bd-1-1a-one"},
        {"id": "bd-1-3-three", "reason": "waits for bd-1-2-two"},
    ]
    assert "✗ bd-1-2-two  waits for bd-1-1a-one" in project.ralph("run", "plan.md", "--dry-run").out


def test_run_compiles_the_plan_first_and_only_once(repo: Path) -> None:
    project = Project.make(repo, ONE)
    assert project.run().data["closed"] == ["bd-1-1-one"]
    (repo / "plan.md").write_text((repo / "plan.md").read_text("utf-8") + TWO, encoding="utf-8")
    assert project.run().data["closed"] == ["bd-1-2-two"]
    assert project.run().data["closed"] == []
    assert len(project.statuses()) == 2


def test_a_whole_plan_runs_on_any_program(repo: Path) -> None:
    program = repo.parent / "agent"
    program.write_text(
        '#!/bin/sh\nprompt=$(cat)\ncase "$BEADS_RALPH_ROLE" in\n'
        'dev) echo "$BEADS_RALPH_BRANCH" > "$BEADS_RALPH_BEAD.txt"; git add -A; git commit -qm work;;\n'
        'qa) printf \'```json\\n{"status": "pass", "message": "%s"}\\n```\\n\' "$BEADS_RALPH_ATTEMPT";;\n'
        "esac\n",
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    agents = {"dev_agents": ["claude (sonnet)"], "qa_agents": ["claude (haiku) - Look"]}
    defaults = {"default_executable": str(program)}
    project = Project.make(repo, ONE, TWO, plan_settings=agents, agent_defaults=defaults)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1-one", "bd-1-2-two"]), ran.out
    assert git(repo, "show", "feature/1-2-two:bd-1-2-two.txt") == "feature/1-2-two"


# --- for scripts ------------------------------------------------------------------------------------


def test_the_envelope_of_run(repo: Path) -> None:
    project = Project.make(
        repo,
        sprint("1.1a", "Good"),
        sprint("1.1b", "Bad"),
        script={"1.1b": {"dev": work(), "qa": fails()}, "*": {"dev": work()}},
        plan_settings={"max_retry_attempts": 1},
    )
    ran = project.run()
    assert ran.code == 1
    data = ran.data
    head = git(repo, "rev-parse", "feature/1-1a-good")
    assert data["ended"] == "blocked"
    assert data["closed"] == ["bd-1-1a-good"]
    (blocked,) = data["blocked"]
    assert (blocked["id"], blocked["reason"][:31]) == ("bd-1-1b-bad", "blocked after 1 attempt; last f")
    (pull,) = data["pull_requests"]
    assert pull == {
        "bead": "bd-1-1a-good",
        "number": 1,
        "url": (repo / ".ralph" / "pulls" / "1.md").as_uri(),
        "branch": "feature/1-1a-good",
        "target": "main",
        "commit": head,
    }
    assert data["attempts"] == 2
    assert data["duration_seconds"] > 0
    result = project.metadata("bd-1-1a-good")["scrum_result"]
    assert result == {
        "bead_id": "bd-1-1a-good",
        "success": True,
        "pr_url": pull["url"],
        "pr_number": 1,
        "bead_updated": True,
        "attempt_count": 1,
        "qa_results": [
            {
                "agent_path": "claude",
                "status": "pass",
                "message": "the script has nothing against it",
                "details": {},
            }
        ],
        "error": None,
        "fatal": False,
    }


def test_status_logs_and_events(repo: Path) -> None:
    project = Project.make(
        repo,
        ONE,
        TWO,
        script={
            "1.1": {"dev": [{"say": "hello there"}, *gate("a"), *work()]},
            "*": {"dev": [{"say": "second in line"}, *work()]},
        },
    )
    place = project.worktree("feature/1-1-one")
    with project.running() as process:
        soon((place / "up-a").exists)
        shown = project.ralph("status", "--json").data
        assert shown["running"] is True
        assert shown["counts"] == {"in_progress": 1, "open": 1}
        (row,) = shown["at_work"]
        assert (row["bead"], row["attempt"], row["role"]) == ("bd-1-1-one", 1, "dev")
        assert re.search(r"▶ bd-1-1-one  attempt 1  dev scripted  \d+ s\n", project.ralph("status").out)
        followed = subprocess.Popen(
            [*RALPH, "events", "-f"], cwd=repo, env=environment({}), stdout=subprocess.PIPE, text=True
        )
        waiting = subprocess.Popen(  # nothing was run for that one yet
            [*RALPH, "logs", "bd-1-2-two", "-f"],
            cwd=repo,
            env=environment({}),
            stdout=subprocess.PIPE,
            text=True,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=2)
        (place / "go-a").touch()
        assert project.finished(process).code == 0
        text = followed.communicate(timeout=60)[0]
        later = waiting.communicate(timeout=60)[0]
    assert (waiting.returncode, "second in line" in later) == (0, True)
    assert "✓ bd-1-1-one  reviewed on" in text
    assert text.rstrip().splitlines()[-1].endswith("· run_ended")
    shown = project.ralph("status", "--json").data
    assert (shown["running"], shown["at_work"], shown["counts"]) == (False, [], {"closed": 2})
    told = project.ralph("events", "--json").data["events"]
    assert [row["kind"] for row in told][:2] == ["run_started", "bead_claimed"]
    assert told == project.events()
    logs = project.ralph("logs", "bd-1-1-one")
    assert "hello there" in logs.out
    assert project.ralph("logs", "bd-1-1-one", "--json").data["files"]
    assert "hello there" in project.ralph("logs", "bd-1-1-one", "-f").out
    assert "2 closed" in project.ralph("status", "--watch").out
    assert project.ralph("logs", "nope", "--json").error["code"] == "IO.FILE_NOT_FOUND"


def test_people_see_lines_and_a_summary(repo: Path) -> None:
    project = Project.make(repo, ONE)
    ran = project.ralph("run", "plan.md")
    assert "▶ bd-1-1-one  attempt 1  One" in ran.err
    assert "✓ done: every bead is closed" in ran.out
    assert "file://" in ran.out


def test_people_are_told_what_to_do_next(repo: Path) -> None:
    project = Project.make(
        repo, ONE, script={"*": {"dev": work(), "qa": fails()}}, plan_settings={"max_retry_attempts": 1}
    )
    assert "wave 1  bd-1-1-one" in project.ralph("run", "plan.md", "--dry-run").out
    ran = project.ralph("run", "plan.md")
    assert "✗ blocked: 1 bead is blocked" in ran.out
    assert "→ beads-ralph retry bd-1-1-one" in ran.out
    assert "✗ bd-1-1-one  blocked after 1 attempt" in project.ralph("status").out
    cleaned = project.ralph("clean").out
    assert "removed 0 of 1 worktrees" in cleaned
    assert "bd-1-1-one is blocked" in cleaned


def seen_at_a_terminal(repo: Path, *words: str) -> str:
    """What the command writes to a terminal; it must succeed."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*RALPH, *words],
        cwd=repo,
        env=environment({"TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": ""}),
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # how a terminal says that nobody writes to it any more
            while more := os.read(ours, 65536):
                seen += more
        os.close(ours)
    assert process.returncode == 0
    return seen.decode("utf-8", "replace")


def test_people_at_a_terminal_see_lines_in_colour_where_no_board_can_be_shown(repo: Path) -> None:
    Project.make(repo, ONE, script={"*": {"dev": work()}})
    text = seen_at_a_terminal(repo, "run", "plan.md", "--plain")
    assert "dev scripted" in text  # who is at work
    assert "\x1b[32m✓\x1b[0m bd-1-1-one  reviewed on" in text
    assert "✓ done\x1b[0m: every bead is closed" in text


def test_people_at_a_terminal_see_what_waits_for_a_limit(repo: Path) -> None:
    limited = {"once": [{"limit": {"reset_in": 2}}]}
    project = Project.make(repo, ONE, script={"*": {"dev": [limited, *work()]}})
    text = seen_at_a_terminal(repo, "run", "plan.md")
    (parked,) = project.events("bead_parked")
    assert text.index(f"resumes {parked['until']}") < text.index("✓\x1b[0m bd-1-1-one  reviewed on")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_run_goes_on_when_nobody_looks_any_more(repo: Path, *, terminal: bool) -> None:
    """`beads-ralph run 2>&1 | head -1`, or a window that is closed."""
    project = Project.make(repo, ONE, TWO)
    ours, theirs = os.openpty() if terminal else os.pipe()
    with subprocess.Popen(
        [*RALPH, "run", "plan.md"], cwd=repo, env=environment({}), stdout=subprocess.DEVNULL, stderr=theirs
    ) as process:
        os.close(theirs)
        assert os.read(ours, 1)
        os.close(ours)
    assert process.returncode == 0
    assert project.statuses() == {"bd-1-1-one": "closed", "bd-1-2-two": "closed"}


# --- steering ---------------------------------------------------------------------------------------


def test_a_second_loop_is_refused_and_the_first_goes_on(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [*gate("a"), *work()]}})
    place = project.worktree("feature/1-1-one")
    with project.running() as process:
        soon((place / "up-a").exists)
        second = project.run()
        assert (second.code, second.error["code"]) == (1, "DATABASE.CONFLICT")
        assert str(process.pid) in second.error["message"]
        refused = project.ralph("release", "bd-1-1-one", "--json")
        assert refused.error["message"] == "bd-1-1-one is held by the running loop"
        (place / "go-a").touch()
        assert project.finished(process).data["closed"] == ["bd-1-1-one"]
    assert len(project.run_ids()) == 1


def test_pause_resume_and_stop(repo: Path) -> None:
    script = {
        "1.1": {"dev": [*gate("a"), *work()]},
        "1.2": {"dev": [*gate("b"), *work()]},
        "*": {"dev": work()},
    }
    project = Project.make(repo, ONE, TWO, sprint("1.3", "Three"), script=script)
    first, second = project.worktree("feature/1-1-one"), project.worktree("feature/1-2-two")
    assert project.ralph("pause", "--json").error["message"] == "no loop is running here"
    with project.running() as process:
        soon((first / "up-a").exists)
        assert project.ralph("pause", "--json").code == 0
        soon(lambda: project.events("run_paused"))
        (first / "go-a").touch()
        soon(lambda: project.events("bead_closed"))
        assert project.ralph("status", "--json").data["order"] == "pause"
        assert names(project.events("bead_claimed")) == ["bd-1-1-one"]
        assert project.ralph("resume", "--json").code == 0
        soon((second / "up-b").exists)
        assert project.ralph("stop", "--json").code == 0
        soon(lambda: project.events("run_draining"))
        told = project.ralph("status").out.splitlines()[0]
        assert told.startswith("running, starts nothing more (told to stop), finishes 1 bead")
        assert project.ralph("status", "--json").data["draining"] == "told to stop"
        (second / "go-b").touch()
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"], ran.data["reason"]) == (1, "stopped", "told to stop")
    assert ran.data["closed"] == ["bd-1-1-one", "bd-1-2-two"]
    assert project.run().data["closed"] == ["bd-1-3-three"]


def test_release_frees_a_bead_of_a_dead_run(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [*gate("a"), *work()]}})
    with project.running() as process:
        soon((project.worktree("feature/1-1-one") / "up-a").exists)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (row,) = project.ralph("status", "--json").data["orphans"]
        assert (row["bead"], row["run_id"]) == ("bd-1-1-one", *project.run_ids())
        told = project.ralph("status").out
        assert f"of run {row['run_id']} is still at work on bd-1-1-one, since " in told
        assert f"to end it now: kill {row['pid']}" in told
        assert project.ralph("release", "bd-1-1-one", "--json").code == 0
        assert project.statuses() == {"bd-1-1-one": "open"}
        project.end_strays()
        assert project.ralph("status", "--json").data["orphans"] == []
    assert project.ralph("release", "bd-1-1-one", "--json").error["code"] == "DATABASE.CONFLICT"


def test_a_bead_that_is_opened_again_while_the_loop_runs_is_taken_up(repo: Path) -> None:
    script = {
        "1.1a": {"dev": [*gate("a"), *work()]},
        "1.1b": {"dev": work(), "qa": [fails(), passes()]},
    }
    project = Project.make(
        repo,
        sprint("1.1a", "Slow"),
        sprint("1.1b", "Twice"),
        script=script,
        plan_settings={"max_retry_attempts": 1},
        poll_interval="300ms",
    )
    with project.running() as process:
        soon(lambda: project.events("bead_blocked"))
        assert project.ralph("retry", "bd-1-1b-twice", "--json").code == 0
        soon(lambda: project.events("bead_closed"))
        (project.worktree("feature/1-1a-slow") / "go-a").touch()
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"], ran.data["blocked"]) == (0, "done", [])


def test_the_worktree_of_a_pushed_bead_is_removed_where_that_is_wanted(repo: Path) -> None:
    remote = repo.parent / "remote.git"
    git(repo.parent, "init", "--quiet", "--bare", str(remote))
    git(repo, "remote", "add", "origin", str(remote))
    project = Project.make(repo, ONE, TWO, cleanup_on_complete=True)
    assert project.run().code == 0
    assert not project.worktree("feature/1-1-one").exists()
    assert git(remote, "rev-parse", "feature/1-2-two") == git(repo, "rev-parse", "feature/1-2-two")


# --- budgets ----------------------------------------------------------------------------------------


def test_a_budget_pauses_the_run_and_the_next_one_goes_on(repo: Path) -> None:
    spend: dict[str, Any] = {"usage": {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.5}}
    project = Project.make(repo, ONE, TWO, script={"*": {"dev": [spend, *work()]}}, budget_tokens=100)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "stopped", ["bd-1-1-one"])
    assert "token budget of 100 is used up" in ran.data["reason"]
    assert project.metadata("bd-1-1-one")["spent"]["cost_usd"] == 0.5
    assert project.run().data["ended"] == "done"


def test_a_budget_holds_within_a_bead_too(repo: Path) -> None:
    spend: dict[str, Any] = {"usage": {"cost_usd": 1.5}}
    script = {"*": {"dev": [spend, *work()], "qa": [fails("again"), passes()]}}
    project = Project.make(repo, ONE, script=script, budget_usd=1.0)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["attempts"]) == (1, "stopped", 1)
    assert project.statuses() == {"bd-1-1-one": "open"}
    assert project.metadata("bd-1-1-one")["attempt_count"] == 1
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1)
    assert "again" in project.feedback("bd-1-1-one")[1]


def test_a_bead_has_budgets_of_its_own(repo: Path) -> None:
    spend: dict[str, Any] = {"usage": {"cost_usd": 1.5}}
    project = Project.make(repo, ONE, script={"*": {"dev": [spend, *work()], "qa": fails()}})
    project.ralph("mason", "plan.md", "--json")
    project.store.update("bd-1-1-one", Changes(metadata={"budget_usd": 2.0}))
    ran = project.run()
    assert (ran.data["ended"], ran.data["attempts"]) == ("blocked", 2)
    assert "the bead's cost budget (USD) of 2 is used up" in ran.data["blocked"][0]["reason"]


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"bead_budget_usd": 2.0}, "cost budget (USD) of 2"),
        ({"bead_budget_tokens": 150}, "token budget of 150"),
    ],
)
def test_the_settings_give_every_bead_a_budget(repo: Path, said: dict[str, Any], word: str) -> None:
    spend: dict[str, Any] = {"usage": {"input_tokens": 80, "output_tokens": 20, "cost_usd": 1.5}}
    script = {"1.1a": {"dev": [spend, *work()], "qa": fails()}, "1.1b": {"dev": [spend, *work()]}}
    project = Project.make(repo, sprint("1.1a", "Dear"), sprint("1.1b", "Cheap"), script=script, **said)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", ["bd-1-1b-cheap"])
    (blocked,) = ran.data["blocked"]
    assert f"the bead's {word} is used up" in blocked["reason"]
    assert "beads-ralph retry bd-1-1a-dear" in blocked["reason"]
    assert project.metadata("bd-1-1a-dear")["attempt_count"] == 2
    # What was done so far stays, and a person who says so gives it as much again.
    project.write_script({"*": {"dev": [spend, *work()]}})
    assert project.ralph("retry", "bd-1-1a-dear").code == 0
    assert project.run().data["ended"] == "done"
    assert (project.worktree("feature/1-1a-dear") / "bd-1-1a-dear.txt").read_text("utf-8") == "1\n2\n3\n"


def test_what_a_bead_says_of_its_budget_goes_before_the_settings(repo: Path) -> None:
    spend: dict[str, Any] = {"usage": {"cost_usd": 1.5}}
    script = {"*": {"dev": [spend, *work()], "qa": [fails("again"), passes()]}}
    project = Project.make(repo, ONE, script=script, bead_budget_usd=1.0)
    project.ralph("mason", "plan.md", "--json")
    project.store.update("bd-1-1-one", Changes(metadata={"budget_usd": 10.0}))
    assert project.run().data["ended"] == "done"


def test_the_time_of_a_bead_ends_an_agent_that_would_take_longer(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [{"hang": True}]}}, bead_budget_minutes=0.05)
    ran = project.run()
    assert (ran.data["ended"], ran.data["attempts"]) == ("blocked", 1)
    assert "the bead's time budget (minutes) of 0.05 is used up" in ran.data["blocked"][0]["reason"]
    (execution,) = project.metadata("bd-1-1-one")["dev_agent_executions"]
    assert execution["status"] == "timeout"
    project.assert_tidy()


# --- the log ----------------------------------------------------------------------------------------


def test_the_log_of_a_run_is_for_finding_faults(repo: Path) -> None:
    project = Project.make(repo, ONE, logging={"level": "debug", "format": "json", "file": "../out/run.log"})
    assert project.run().code == 0
    rows = [json.loads(row) for row in (repo.parent / "out" / "run.log").read_text("utf-8").splitlines()]
    gits = [row for row in rows if row["module"] == "beads_ralph.process.jobs" and "git" in row["message"]]
    assert any(row["message"].startswith("exit 0 after") and " status " in row["message"] for row in gits)
    assert {row["level"] for row in gits} == {"debug"}
    assert not (repo / ".ralph" / "beads-ralph.log").exists()


def test_without_a_word_about_it_only_warnings_are_logged(repo: Path) -> None:
    project = Project.make(repo, ONE)
    assert project.run().code == 0
    assert (repo / ".ralph" / "beads-ralph.log").read_text("utf-8") == ""


def test_a_log_that_cannot_be_written_is_said_before_anything_starts(repo: Path) -> None:
    project = Project.make(repo, ONE, logging={"file": "plan.md/run.log"})
    ran = project.run()
    assert (ran.code, ran.error["code"]) == (1, "IO.WRITE_FAILED")
    assert "logging.file" in ran.error["suggested_action"]
    assert project.statuses() == {"bd-1-1-one": "open"}


def test_a_run_has_a_budget_of_time(repo: Path) -> None:
    slow = [{"run": "sleep 0.7"}, *work()]
    project = Project.make(repo, ONE, TWO, script={"*": {"dev": slow}}, budget_minutes=0.01)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "stopped", ["bd-1-1-one"])
    assert "time budget (minutes) of 0.01 is used up; run again to go on" in ran.data["reason"]
    assert project.statuses()["bd-1-2-two"] == "open"


def test_a_long_run_keeps_no_finished_bead_in_memory(repo: Path) -> None:
    """With all its history and evidence each would be tens of kilobytes, and a night has hundreds."""
    project = Project.make(repo, ONE, TWO)

    def beads() -> set[int]:
        gc.collect()
        return {id(found) for found in gc.get_objects() if isinstance(found, Bead)}

    with loop_of(project) as loop:
        before = beads()
        ended = asyncio.run(loop.run())
        assert ended.closed == ("bd-1-1-one", "bd-1-2-two")
        assert beads() <= before
        assert set(loop.pool.known) == {"bd-1-1-one", "bd-1-2-two"}


# --- leases and the store's moods -------------------------------------------------------------------


def test_a_lost_lease_ends_the_work_and_closes_nothing(repo: Path) -> None:
    half = [{"write": {"half.txt": "half\n"}}, {"hang": True}]
    project = Project.make(repo, ONE, script={"*": {"dev": half}})
    store = EmbeddedStore(repo)

    async def story(loop: Loop) -> Ended:
        running = asyncio.create_task(loop.run())
        while not (project.worktree("feature/1-1-one") / "half.txt").exists():
            await asyncio.sleep(0.02)
        store.release("bd-1-1-one", loop.settings.actor, status="open")
        assert store.claim("bd-1-1-one", "another").won
        return await running

    with loop_of(project, heartbeat_seconds=0.2) as loop:
        ended = asyncio.run(story(loop))
    assert (ended.why, ended.closed) == ("no_progress", ())
    assert "bd-1-1-one is held by another" in ended.reason
    assert (store.show("bd-1-1-one").model_extra or {})["claimed_by"] == "another"
    assert project.strays() == []


def test_a_bead_that_another_took_is_theirs_to_close(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [*gate("a"), *work()]}})
    store, place = EmbeddedStore(repo), project.worktree("feature/1-1-one")

    async def story(loop: Loop) -> Ended:
        running = asyncio.create_task(loop.run())
        while not (place / "up-a").exists():
            await asyncio.sleep(0.02)
        store.release("bd-1-1-one", loop.settings.actor, status="open")
        assert store.claim("bd-1-1-one", "another").won
        (place / "go-a").touch()
        return await running

    with loop_of(project) as loop:
        ended = asyncio.run(story(loop))
    assert (ended.why, ended.closed) == ("no_progress", ())
    assert project.statuses() == {"bd-1-1-one": "in_progress"}


def test_what_is_blocked_again_is_given_back_instead_of_closed(repo: Path) -> None:
    """Its dependency is opened again while it is at work: bd and we refuse to close on such ground."""
    script = {"1.2": {"dev": [*gate("a"), *work()]}, "*": {"dev": work()}}
    project = Project.make(repo, ONE, TWO, script=script)
    store, place = EmbeddedStore(repo), project.worktree("feature/1-2-two")

    async def story(loop: Loop) -> Ended:
        running = asyncio.create_task(loop.run())
        async with asyncio.timeout(60):
            while not (place / "up-a").exists():
                await asyncio.sleep(0.02)
        for status in ("open", "blocked"):  # so that this run does not work on it again
            store.update("bd-1-1-one", Changes(status=status))
        (place / "go-a").touch()
        return await running

    with loop_of(project) as loop:
        ended = asyncio.run(story(loop))
    assert ended.closed == ("bd-1-1-one",)
    assert project.statuses()["bd-1-2-two"] == "open"
    assert any("bd-1-1-one" in str(comment) for comment in store.show("bd-1-2-two").comments)


class Moody(EmbeddedStore):
    """Has its bad moments, as bd has under load."""

    moods = 3

    def claim(self, bead_id: str, actor: str) -> Claim:
        if self.moods:
            self.moods -= 1
            raise RalphError(Code.DATABASE_TIMEOUT, "the database is busy")
        return super().claim(bead_id, actor)


@pytest.mark.parametrize(("moods", "closed"), [(3, True), (4, False)])
def test_claims_are_tried_four_times(repo: Path, moods: int, closed: bool) -> None:
    project = Project.make(repo, ONE)
    store = Moody(repo)
    store.moods = moods
    with loop_of(project, store) as loop:
        if closed:
            assert asyncio.run(loop.run()).closed == ("bd-1-1-one",)
            return
        with pytest.raises(RalphError, match="the database is busy"):
            asyncio.run(loop.run())
    assert project.statuses() == {"bd-1-1-one": "open"}


# --- the other store and the other executor ---------------------------------------------------------

PATHS = (
    sprint("1.1a", "Left", verify="`test -f bd-1-1a-left.txt`"),
    sprint("1.1b", "Right", verify="`test -f bd-1-1b-right.txt`"),
    sprint("1.2", "Merge both", type="merge"),
)
PATHS_SCRIPT = {"1.1a": {"dev": work(), "qa": [fails("once more"), passes()]}, "*": {"dev": work()}}


@pytest.mark.bd
def test_the_whole_path_on_bd(bd_repo: Path) -> None:
    project = Project.make(bd_repo, PATHS[0], sprint("1.2", "After"), script=PATHS_SCRIPT, store="bd")
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["store"]) == (0, "done", "bd"), ran.out
    assert len(project.pulls()) == 2
    assert set(project.statuses().values()) == {"closed"}
    bead = project.bead("bd-1-1a-left")
    assert bead.metadata.attempt_count == 2
    assert bead.external_ref is not None
    assert bead.metadata.scrum_result is not None
    project.assert_tidy()


@pytest.mark.tmux
@pytest.mark.parametrize("who", ["dev", "verifier"])
def test_a_tmux_server_that_dies_costs_no_attempt(
    repo: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", str(repo.parent))
    mark = repo.parent / "killed"
    end = "kill -9 $(tmux -L beads-ralph display-message -p '#{pid}')"
    once = f"test -e {mark} || {{ touch {mark}; {end}; sleep 60; }}"
    script = {"*": {"dev": [*([{"run": once}] if who == "dev" else []), *work()]}}
    verify = f"`test ! -e bd-1-1-one.txt || {{ {once}; }}`" if who == "verifier" else "`true`"
    one = sprint("1.1", "One", verify=verify)
    settings: dict[str, Any] = {"executor": "tmux", "sandbox": "none", "verifier_sandbox": "none"}
    project = Project.make(repo, one, script=script, agent_env=["TMUX_TMPDIR"], **settings)
    ran = project.run()
    assert mark.exists()
    assert (ran.data["closed"], ran.data["attempts"]) == (["bd-1-1-one"], 1)


@pytest.mark.tmux
def test_the_whole_path_in_tmux(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", str(repo.parent))
    project = Project.make(repo, *PATHS, script=PATHS_SCRIPT)
    ran = project.run("--executor", "tmux")
    assert (ran.code, ran.data["ended"]) == (0, "done"), ran.out
    assert len(project.pulls()) == 3
    project.assert_tidy()


@pytest.mark.tmux
def test_a_person_attaches_to_an_agent_by_the_name_of_its_bead(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", str(repo.parent))
    script = {"*": {"dev": [{"say": "I am at it"}, *gate("a"), *work()]}}
    project = Project.make(repo, ONE, script=script, executor="tmux")
    ask = ("tmux", "-L", "beads-ralph", "capture-pane", "-p", "-t", "=agent-bd-1-1-one:")

    def seen() -> bool:
        return b"I am at it" in subprocess.run(ask, capture_output=True, check=False).stdout

    with project.running() as process:
        soon(seen)
        (project.worktree("feature/1-1-one") / "go-a").touch()
        assert project.finished(process).code == 0
    summaries = {row["role"]: row["output_summary"] for row in project.events("agent_ended")}
    assert summaries["dev"].startswith("I am at it")
    assert '"status"' in summaries["qa"]
    project.assert_tidy()


def test_the_journal_is_json_lines_of_one_writer(repo: Path) -> None:
    project = Project.make(repo, ONE)
    project.run()
    (run_id,) = project.run_ids()
    lines = (repo / ".ralph" / "runs" / run_id / "events.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["run_id"] for row in rows} == {run_id}
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)


@pytest.mark.full
@pytest.mark.bd
def test_a_bead_that_the_store_will_not_close_is_blocked_and_not_worked_on_for_ever(bd_repo: Path) -> None:
    """bd closes no bead with open children, and lists it as ready all the same."""
    project = Project.make(bd_repo, ONE, store="bd")
    assert project.ralph("mason", "plan.md").code == 0
    child = ["bd", "create", "A child", "--deps", "parent-child:bd-1-1-one"]
    subprocess.run(child, cwd=bd_repo, check=True, capture_output=True, timeout=60)
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (1, "blocked"), ran.data
    (row,) = ran.data["blocked"]
    assert "will not take its end" in row["reason"]
    assert project.metadata("bd-1-1-one")["attempt_count"] == 1, "the proof holds; only the end is refused"
    project.assert_tidy()
