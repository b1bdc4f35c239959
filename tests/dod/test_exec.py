"""`beads-ralph exec`: verifiers, agent, verifiers, until all hold; and what it leaves when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from beads_ralph import __version__
from beads_ralph.process.calls import Retry
from tests.cli.running import PROJECT, RALPH, environment, ralph, run
from tests.dod.beads import (
    EXAMPLE_NAMES,
    EXAMPLES,
    PATIENCE,
    SEED_SCHEMA,
    agent,
    bead,
    calls,
    check,
    execute,
    one,
    put,
    read,
    soon,
)

SCRIPT = (sys.executable, str(PROJECT / "scripts" / "ralph" / "ralph-executor-standalone.py"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder without git and without a store."""
    path = tmp_path / "work"
    path.mkdir()
    return path


# --- the loop -------------------------------------------------------------------------------------------


def test_what_is_green_already_is_completed_without_an_agent(place: Path) -> None:
    path = put(place / "a.json", bead("true"))
    agent(place, "exit 0")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"], done["passed"]) == ("completed", 0, True)
    assert calls(place) == 0
    assert not (place / ".git").exists()


@pytest.mark.parametrize(("commands", "standing"), [(["true"], "proven"), (["false"], None)])
def test_only_what_passed_a_verifier_is_called_proven(
    place: Path, commands: list[str], standing: str | None
) -> None:
    agent(place, "exit 0")
    path = put(place / "a.json", bead(*commands, constraints={"max_iterations": 1}))
    assert one(execute(place, path, "--agent", "./agent.sh"))["standing"] == standing


def test_red_then_agent_then_green_with_the_failures_fed_back(place: Path) -> None:
    path = put(
        place / "a.json",
        bead(
            check("cat one.txt", "One is there", expect={"stdout_contains": "yes"}),
            check("test -f two.txt", "Two is there", on_failure="continue"),
            check("test -f three.txt", "Three is there"),
        ),
    )
    agent(place, "[ $n -ge 2 ] && echo yes > one.txt\n[ $n -ge 3 ] && touch two.txt three.txt\nexit 0")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"]) == ("completed", 3)
    first, second, third = ((place / f"prompt-{n}.txt").read_text("utf-8") for n in (1, 2, 3))
    assert "Make it so" in first
    assert "One is there: exit code 1 (expected 0)" in first
    assert "No such file" in first, "what the command printed"
    assert "Two is there: exit" not in second, "the first failure stops the list"
    assert "Two is there: exit code 1 (expected 0)" in third
    assert "Three is there: exit code 1 (expected 0)" in third, "the second one says continue"


def test_the_bead_says_how_far_it_is(place: Path) -> None:
    raw = {**bead("test -f done.txt"), "owner": {"name": "Zoë"}, "zebra": [1, 2.5, None], "alpha": "last"}
    path = place / "a.json"
    path.write_text("\ufeff" + json.dumps(raw, ensure_ascii=False), encoding="utf-8")
    agent(place, "touch done.txt")
    assert execute(place, path, "--agent", "./agent.sh").code == 0
    found = read(path)
    meta = found.pop("ralph_meta")
    assert list(found) == [*raw, "status"], "keys keep their order, and strangers stay"
    assert {key: found[key] for key in raw} == raw
    assert found["status"] == "completed"
    assert meta["attempt_count"] == 1
    assert meta["executor_version"] == __version__
    assert [row["ruling"] for row in meta["verifier_results"]] == ["pass"]
    assert datetime.fromisoformat(meta["last_attempt"])
    assert Draft7Validator(SEED_SCHEMA).is_valid(read(path))


def test_max_iterations_are_attempts_in_all(place: Path) -> None:
    path = put(place / "a.json", bead(check("false", "Never"), constraints={"max_iterations": 2}))
    agent(place, "exit 0")
    ran = execute(place, path, "--agent", "./agent.sh")
    done = one(ran)
    assert ran.code == 1
    assert (done["status"], done["attempts"], calls(place)) == ("failed", 2, 2)
    assert "max_iterations" in done["reason"]
    meta = read(path)["ralph_meta"]
    assert meta["failure_reason"] == done["reason"]
    assert meta["last_failure_summary"] == "Never: exit code 1 (expected 0)"
    (record,) = (place / ".ralph" / "evidence" / "gt-one").glob("failure-*.json")
    assert read(record)["status"] == "failed"


def test_ten_attempts_where_nobody_says_how_many(place: Path) -> None:
    path = put(place / "a.json", bead("false"))
    agent(place, "exit 0")
    assert one(execute(place, path, "--agent", "./agent.sh"))["attempts"] == 10


def test_a_failed_agent_uses_an_attempt_and_nothing_is_verified(place: Path) -> None:
    path = put(
        place / "a.json", bead("echo x >> verified; test -f done.txt", constraints={"max_iterations": 3})
    )
    agent(place, "touch done.txt; [ $n -ge 2 ] || exit 7")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"]) == ("completed", 2)
    assert (place / "verified").read_text("utf-8").count("x") == 2, "before, and after the second attempt"
    assert "exit code 7" in (place / "prompt-2.txt").read_text("utf-8")


def test_a_failed_bead_may_be_tried_again_from_the_first_attempt(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt", constraints={"max_iterations": 1}))
    agent(place, "[ $n -ge 2 ] && touch done.txt; exit 0")
    assert execute(place, path, "--agent", "./agent.sh").code == 1
    assert one(execute(place, path, "--agent", "./agent.sh"))["status"] == "completed"
    meta = read(path)["ralph_meta"]
    assert (meta["attempt_count"], meta["earlier_attempts"]) == (1, 1)


def test_a_missing_program_is_the_users_mistake_and_costs_no_attempt(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt", constraints={"max_iterations": 1}))
    ran = execute(place, path, "--agent", "no-such-program")
    assert (ran.code, ran.error["code"]) == (1, "IO.FILE_NOT_FOUND")
    assert read(path)["status"] == "in_progress"
    agent(place, "touch done.txt")
    assert one(execute(place, path, "--agent", "./agent.sh"))["attempts"] == 1


# --- exact texts, time ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expect", "passes"),
    [
        ("printf 'All Good'", {"stdout_contains": "All Good"}, True),
        ("printf 'all good'", {"stdout_contains": "All Good"}, False),
        ("printf 'abc'", {"stdout_contains": "a*c"}, False),
        ("printf 'a*c [x]'", {"stdout_contains": "*c [x]"}, True),
        ("printf 'a.c'", {"stdout_contains": "a.c"}, True),
        ("true", {"stdout_contains": ""}, True),
        ("echo oops >&2", {"stdout_contains": "oops"}, False),
        ("echo oops >&2", {"stderr_contains": "oops"}, True),
        ("exit 3", {"exit_code": 3}, True),
        ("exit 0", {"exit_code": 3}, False),
        ("echo yes; exit 1", {"stdout_contains": "yes"}, False),
    ],
)
def test_s3_v2_s3_v3_s3_v4_what_is_expected_is_taken_literally(
    place: Path, command: str, expect: dict[str, Any], passes: bool
) -> None:
    path = put(place / "a.json", bead(check(command, expect=expect)))
    ran = execute(place, path, "--verify-only")
    assert one(ran)["passed"] is passes
    assert ran.code == (0 if passes else 1)


def test_s3_v5_a_timeout_ends_the_whole_group_and_what_left_it(place: Path) -> None:
    command = "setsid sleep 600 & sleep 600 & sleep 600"
    path = put(place / "a.json", bead(check(command, "Hangs", timeout_seconds=1)))
    (row,) = one(execute(place, path, "--verify-only"))["verifiers"]
    assert (row["ruling"], row["message"]) == ("fail", "timed out after 1 s")
    # The fixture of every test finds what is left.


def test_s3_e2_a_verifier_may_start_a_server_beside_it(place: Path) -> None:
    server = f"{sys.executable} -m http.server 0 --bind 127.0.0.1"
    path = put(
        place / "a.json", bead(check(f"{server} & sleep 1 && echo up", expect={"stdout_contains": "up"}))
    )
    assert one(execute(place, path, "--verify-only"))["passed"] is True


def test_a_deadline_that_has_passed_calls_nobody(place: Path) -> None:
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    path = put(place / "a.json", bead("false", constraints={"deadline": past}))
    agent(place, "exit 0")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"], calls(place)) == ("failed", 0, 0)
    assert "deadline" in done["reason"]


def test_a_deadline_ends_an_agent_that_goes_on_past_it(place: Path) -> None:
    soon_over = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    path = put(place / "a.json", bead("false", constraints={"deadline": soon_over}))
    agent(place, "sleep 600")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"]) == ("failed", 1)
    assert "deadline" in done["reason"]


def test_a_time_budget_of_nothing_is_used_up(place: Path) -> None:
    path = put(place / "a.json", bead("false", constraints={"time_budget_minutes": 0}))
    agent(place, "exit 0")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], calls(place)) == ("failed", 0)
    assert "time budget of 0 minutes" in done["reason"]


def test_a_pause_that_would_outlast_the_budget_is_not_begun(place: Path) -> None:
    path = put(place / "a.json", bead("false", constraints={"time_budget_minutes": 1}))
    agent(place, "exit 0")
    done = one(execute(place, path, "--agent", "./agent.sh", backoff="3600"))
    assert (done["status"], done["attempts"]) == ("failed", 1)
    assert "time budget of 1 minutes" in done["reason"]


def test_pauses_double_up_to_the_most() -> None:
    pace = Retry(first=30, longest=300, jitter=0)
    assert [pace.pause(n) for n in range(1, 8)] == [30, 60, 120, 240, 300, 300, 300]
    assert replace(pace, first=0).pause(5) == 0
    assert pace.pause(10**6) == 300


def test_the_pause_is_in_the_bead_while_it_waits(place: Path) -> None:
    (place / "beads-ralph.yaml").write_text("exec_backoff: 600\n", encoding="utf-8")
    path = put(place / "a.json", bead("false"))
    agent(place, "exit 0")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon(lambda: read(path).get("ralph_meta", {}).get("stage") == "waiting")
        assert read(path)["ralph_meta"]["retry_backoff_seconds"] == 600
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130
    assert read(path)["status"] == "in_progress"


# --- evidence -------------------------------------------------------------------------------------------


def test_s3_f7_without_the_evidence_that_is_required_it_is_not_completed(place: Path) -> None:
    path = put(place / "a.json", bead("true", evidence=True, constraints={"max_iterations": 2}))
    old = put(place / ".ralph" / "evidence" / "gt-one" / "old.json", {})
    put(old.with_name("success-20260101T000000000Z.json"), {})
    agent(place, "exit 0")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"], done["evidence"]) == ("failed", 2, [])
    assert read(path)["ralph_meta"]["last_failure_summary"].startswith("evidence: no evidence")
    assert ".ralph/evidence/gt-one/" in (place / "prompt-1.txt").read_text("utf-8")


@pytest.mark.parametrize(
    "how",
    ['echo it works > "$BEADS_RALPH_EVIDENCE/shot.txt"', "cp -p old.txt .ralph/evidence/gt-one/shot.txt"],
)
def test_s3_f7_evidence_of_the_agent_counts(place: Path, how: str) -> None:
    path = put(place / "a.json", bead("true", evidence=True))
    put(place / "old.txt", {"made": "long ago"})
    os.utime(place / "old.txt", (1, 1))
    agent(place, how)
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["evidence"]) == ("completed", [".ralph/evidence/gt-one/shot.txt"])
    (record,) = (place / ".ralph" / "evidence" / "gt-one").glob("success-*.json")
    assert set(read(record)["sha256"]) == {".ralph/evidence/gt-one/shot.txt"}


def test_s3_f7_evidence_of_a_verifier_counts_and_an_empty_file_does_not(place: Path) -> None:
    path = put(place / "a.json", bead('echo 12 passed | tee "$BEADS_RALPH_EVIDENCE/log"', evidence=True))
    assert one(execute(place, path, "--agent", "no-such-program"))["status"] == "completed"
    again = one(execute(place, path, "--verify-only"))
    assert again["passed"] is True
    empty = put(place / "b.json", {**bead("true", evidence=True), "id": "gt-two"})
    agent(place, ': > "$BEADS_RALPH_EVIDENCE/log"')
    assert execute(place, empty, "--agent", "./agent.sh").code == 1


def test_a_completed_bead_that_still_holds_needs_no_new_evidence(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt", evidence=True))
    agent(place, 'touch done.txt; echo $n > "$BEADS_RALPH_EVIDENCE/log"')
    assert execute(place, path, "--agent", "./agent.sh").code == 0
    assert one(execute(place, path, "--agent", "./agent.sh"))["status"] == "completed"
    assert calls(place) == 1
    (place / "done.txt").unlink()
    assert one(execute(place, path, "--agent", "./agent.sh"))["status"] == "completed"
    assert calls(place) == 2


# --- killed, interrupted, shared ------------------------------------------------------------------------


class started:  # noqa: N801 - reads as a verb
    """`exec` as a process of its own."""

    def __init__(self, place: Path, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [*RALPH, "exec", *map(str, words), "--json"],
            cwd=place,
            env=environment({}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE)


def test_killed_with_its_agent_the_same_attempt_is_made_again(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt", constraints={"max_iterations": 2}))
    agent(place, "case $n in 1) exit 0;; 2) setsid sleep 600 & sleep 600 || exit 1;; esac; touch done.txt")
    with started(place, path, "--agent", "./agent.sh", "--backoff", "0") as process:
        soon(lambda: calls(place) == 2)
        process.kill()
    meta = read(path)["ralph_meta"]
    assert (meta["attempt_count"], meta["stage"]) == (2, "agent")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"]) == ("completed", 2), "neither lost nor counted twice"
    assert calls(place) == 3
    (row,) = read(path)["ralph_meta"]["interruptions"]
    assert row["attempt"] == 2
    # What the dead run had left is ended by the next: the fixture of every test finds what is not.


def _called(place: Path, times: int) -> None:
    soon(lambda: calls(place) == times)


def test_killed_again_and_again_it_is_still_the_same_attempt(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt", constraints={"max_iterations": 1}))
    agent(place, "[ $n -ge 4 ] || sleep 600 || exit 1; touch done.txt")
    for count in (1, 2, 3):
        with started(place, path, "--agent", "./agent.sh") as process:
            _called(place, count)
            process.kill()
    assert one(execute(place, path, "--agent", "./agent.sh"))["attempts"] == 1
    assert len(read(path)["ralph_meta"]["interruptions"]) == 3


def test_killed_while_verifying_the_attempt_counts(place: Path) -> None:
    command = "test -f slow && sleep 600; test -f done.txt"
    path = put(place / "a.json", bead(command, constraints={"max_iterations": 2}))
    agent(place, "[ $n -ge 2 ] && touch done.txt || touch slow")
    with started(place, path, "--agent", "./agent.sh", "--backoff", "0") as process:
        soon(lambda: (place / "slow").exists() and read(path)["ralph_meta"]["stage"] == "verifying")
        process.kill()
    (place / "slow").unlink()
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert (done["status"], done["attempts"], calls(place)) == ("completed", 2, 2)


def test_work_that_a_killed_agent_had_finished_is_found_done(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt"))
    agent(place, "touch done.txt; sleep 600")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon((place / "done.txt").exists)
        process.kill()
    done = one(execute(place, path, "--agent", "no-such-program"))
    assert (done["status"], done["attempts"]) == ("completed", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_its_agent_and_stays_as_far_as_it_is(place: Path, number: signal.Signals) -> None:
    path = put(place / "a.json", bead("test -f done.txt"))
    agent(place, "[ $n -ge 2 ] || sleep 600 || exit 1; touch done.txt")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon(lambda: calls(place) == 1)
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 130
    assert read(path)["status"] == "in_progress"
    assert one(execute(place, path, "--agent", "./agent.sh"))["attempts"] == 1


def test_one_bead_is_worked_on_by_one_executor(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt"))
    agent(place, "sleep 600")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon(lambda: calls(place) == 1)
        second = execute(place, path, "--agent", "./agent.sh")
        assert (second.code, second.error["code"]) == (1, "DATABASE.CONFLICT")
        assert "gt-one is worked on already" in second.error["message"]
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)


def test_an_agent_cannot_rewrite_its_own_definition_of_done(place: Path) -> None:
    path = put(place / "a.json", bead("false", constraints={"max_iterations": 1}))
    agent(place, "sed -i s/false/true/ a.json")
    done = one(execute(place, path, "--agent", "./agent.sh"))
    assert done["status"] == "failed"
    assert read(path)["dod"]["verifiers"][0]["command"] == "false"
    (text,) = done["warnings"]
    assert "a.json was changed meanwhile" in text
    (kept,) = (place / ".ralph" / "exec" / "gt-one").glob("changed-*.json")
    assert read(kept)["dod"]["verifiers"][0]["command"] == "true"


# --- files ----------------------------------------------------------------------------------------------


def test_s3_l3_s3_l4_an_active_bead_moves_when_it_is_completed(place: Path) -> None:
    active = put(place / ".beads" / "active" / "gt-one.json", bead("true"))
    other = put(place / ".beads" / "active" / "gt-two.json", {**bead("false"), "id": "gt-two"})
    agent(place, "exit 1")
    ran = execute(place, active, other, "--agent", "./agent.sh")
    assert ran.code == 1
    moved = place / ".beads" / "completed" / "gt-one.json"
    assert not active.exists()
    assert read(moved)["status"] == "completed"
    assert Path(ran.data["beads"][0]["file"]).resolve() == moved
    assert read(other)["status"] == "failed", "what is not completed stays"


def test_s3_l4_an_older_completed_bead_of_that_name_is_kept(place: Path) -> None:
    old = put(place / ".beads" / "completed" / "gt-one.json", {"old": True})
    put(place / ".beads" / "active" / "gt-one.json", bead("true"))
    assert execute(place, ".beads/active/gt-one.json").code == 0
    assert read(old) == {"old": True}
    assert read(old.with_name("gt-one-2.json"))["status"] == "completed"


def test_s3_l2_standalone_beads_stay_where_they_are(place: Path) -> None:
    path = put(place / ".ralph" / "beads" / "my-bead.json", bead("true"))
    assert execute(place, ".ralph/beads/my-bead.json").code == 0
    assert read(path)["status"] == "completed"


def test_several_go_by_priority_then_by_name(place: Path) -> None:
    for name, priority in (("c", 1), ("a", 3), ("b", 1), ("d", 0)):
        put(place / f"{name}.json", {**bead(f"echo {name} >> order"), "id": name, "priority": priority})
    ran = execute(place, "a.json", "b.json", "c.json", "d.json")
    assert (place / "order").read_text("utf-8").split() == ["d", "b", "c", "a"]
    assert [row["id"] for row in ran.data["beads"]] == ["d", "b", "c", "a"]


def test_faults_of_all_files_are_told_before_anything_runs(place: Path) -> None:
    good = put(place / "a.json", bead("touch ran"))
    put(place / "b.json", {"dod": {"verifiers": []}})
    ran = execute(place, good, "b.json", "missing.json")
    assert ran.code == 1
    told = [fault["message"] for fault in ran.error["details"]["faults"]]
    assert told == ["Missing intent", "Missing verifiers", "missing.json does not exist"]
    assert not (place / "ran").exists()


def test_two_files_of_one_id_are_refused(place: Path) -> None:
    put(place / "a.json", bead("true"))
    put(place / "b.json", bead("true"))
    assert execute(place, "a.json", "b.json").error["code"] == "DEPENDENCY.DUPLICATE_ID"


def test_an_id_cannot_lead_out_of_the_folder(place: Path) -> None:
    put(place / "a.json", {**bead("true"), "id": "../../../escape"})
    assert execute(place, "a.json").code == 0
    (folder,) = (place / ".ralph" / "evidence").iterdir()
    assert folder.name.startswith("escape-")
    assert {path.relative_to(place).parts[0] for path in tmp_below(place.parent, "escape")} == {".ralph"}


def tmp_below(root: Path, part: str) -> list[Path]:
    return [path for path in root.rglob("*") if part in path.name]


# --- dry runs, the script -------------------------------------------------------------------------------


def test_a_dry_run_and_verify_only_leave_the_bead_as_it_is(place: Path) -> None:
    path = put(place / "a.json", bead("touch ran"))
    before = path.read_bytes()
    dry = execute(place, path, "--dry-run")
    assert (dry.code, dry.data["dry_run"]) == (0, True)
    assert sorted(entry.name for entry in place.iterdir()) == ["a.json"]
    assert execute(place, path, "--verify-only").code == 0
    assert (place / "ran").exists()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("-BeadFile", "my-bead.json", "-Standalone"),
        ("--bead-file=my-bead.json", "--standalone"),
        ("-beadfile", "my-bead.json", "-STANDALONE"),
    ],
)
def test_s3_a1_s3_a4_the_standalone_executor_validates_and_executes(
    place: Path, words: tuple[str, ...]
) -> None:
    path = put(place / "my-bead.json", bead("true"))
    ran = run(SCRIPT, *words, cwd=place)
    assert ran.code == 0, ran.err
    assert "Bead is valid" in ran.out.splitlines()
    assert read(path)["status"] == "completed"


@pytest.mark.parametrize(
    ("raw", "text"),
    [({"dod": {"verifiers": [{}]}}, "Missing intent"), ({"intent": "x"}, "Missing verifiers")],
)
def test_s3_a2_s3_a3_the_standalone_executor_refuses(place: Path, raw: dict[str, Any], text: str) -> None:
    put(place / "my-bead.json", raw)
    ran = run(SCRIPT, "-BeadFile", "my-bead.json", "-Standalone", cwd=place)
    assert ran.code == 1
    assert text in ran.err
    assert "Bead is valid" not in ran.out


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_s3_a4_the_seeds_examples_are_valid_to_the_executor(place: Path, name: str) -> None:
    ran = run(SCRIPT, "--bead-file", EXAMPLES / f"{name}.json", "--standalone", "--dry-run", cwd=place)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "Bead is valid")


def test_the_agent_of_the_settings_is_called_with_its_persona(repo: Path) -> None:
    script = repo.parent / "script.yaml"
    script.write_text(
        'beads:\n  "*":\n    dev:\n      - - say: nothing yet\n      - - write: {done.txt: "1"}\n',
        encoding="utf-8",
    )
    (repo / "beads-ralph.yaml").write_text(
        "plan:\n  dev_agents:\n    - agent: claude\n      executable: scripted\n"
        f"      env: {{BEADS_RALPH_SCRIPT: {script}}}\n",
        encoding="utf-8",
    )
    put(repo / "a.json", bead("test -f done.txt"))
    done = one(execute(repo, "a.json"))
    assert (done["status"], done["attempts"]) == ("completed", 2)
    assert len(done["verifiers"][0]["commit"]) == 40


def test_text_for_people(place: Path) -> None:
    put(place / "a.json", bead(check("false", "Never"), constraints={"max_iterations": 1}))
    agent(place, "exit 0")
    ran = ralph("exec", "a.json", "--agent", "./agent.sh", cwd=place)
    assert ran.out.splitlines()[0] == "Bead is valid"
    assert "✗ gt-one  failed after 1 attempt" in ran.out
    assert "✗ Never: exit code 1 (expected 0)" in ran.err


# --- records --------------------------------------------------------------------------------------------


def records(place: Path, kind: str) -> dict[str, dict[str, Any]]:
    return {path.stem: read(path) for path in sorted((place / "state" / kind).glob("*.json"))}


def test_every_attempt_leaves_a_run_record_and_the_last_a_result(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt", evidence=True, constraints={"max_iterations": 4}))
    agent(
        place,
        'case $n in 1) exit 7;; 2) exit 0;; 3) touch done.txt;; 4) echo 1 > "$BEADS_RALPH_EVIDENCE/x";; esac',
    )
    assert one(execute(place, path, "--agent", "./agent.sh"))["attempts"] == 4
    found = records(place, "runs")
    by_attempt = {raw["attempt"]: raw for raw in found.values()}
    assert sorted(by_attempt) == [1, 2, 3, 4]
    assert [by_attempt[n]["failure_reason"] for n in (1, 2, 3, 4)] == [
        "agent-crash",
        "verifier-failed",
        "evidence-missing",
        None,
    ]
    last = found["gt-one"]
    assert (last["status"], last["agent"], last["max_retries"]) == ("done", "agent.sh", 4)
    assert (last["extra"]["source"], last["extra"]["kind"]) == ("exec", "dod")
    assert "Make it so" in last["prompt_full"]
    result = records(place, "results")["gt-one"]
    assert (result["status"], result["attempt"], result["will_retry"]) == ("done", 4, False)
    assert ralph("state", "validate", "--all", cwd=place).code == 0


def test_a_bead_that_is_given_up_has_a_result_that_says_so(place: Path) -> None:
    path = put(place / "a.json", bead("false", constraints={"time_budget_minutes": 1}))
    agent(place, "exit 0")
    assert execute(place, path, "--agent", "./agent.sh", backoff="3600").code == 1
    result = records(place, "results")["gt-one"]
    assert (result["status"], result["attempt"], result["will_retry"]) == ("failed", 1, False)


def test_a_killed_attempt_is_one_record_of_both_beginnings(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt"))
    agent(place, "[ $n -ge 2 ] || sleep 600 || exit 1; touch done.txt")
    with started(place, path, "--agent", "./agent.sh") as process:
        _called(place, 1)
        process.kill()
    assert records(place, "runs")["gt-one"]["status"] == "running"
    assert execute(place, path, "--agent", "./agent.sh").code == 0
    (run,) = records(place, "runs").values()
    assert (run["status"], run["attempt"]) == ("done", 1)
    assert [row["failure_reason"] for row in run["extra"]["broken_off"]] == ["interrupted"]


def test_work_that_a_killed_agent_had_finished_is_its_attempts(place: Path) -> None:
    path = put(place / "a.json", bead("test -f done.txt"))
    agent(place, "touch done.txt; sleep 600")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon((place / "done.txt").exists)
        process.kill()
    assert execute(place, path, "--agent", "./agent.sh").code == 0
    (run,) = records(place, "runs").values()
    assert (run["status"], run["attempt"], run["agent"]) == ("done", 1, "agent.sh")
    assert ralph("state", "validate", "--all", cwd=place).code == 0


# --- watching ---------------------------------------------------------------------------------------


def executions(place: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ralph("status", "--json", cwd=place).data["executions"]
    return found


def test_status_and_logs_show_an_execution_while_it_is_at_work_and_afterwards(place: Path) -> None:
    path = put(place / "a.json", bead("test -f go", constraints={"max_iterations": 1}))
    agent(place, "echo I am at it; while [ ! -e go ]; do sleep 0.05; done")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon(lambda: any(row.get("stage") == "agent_started" for row in executions(place)))
        (row,) = executions(place)
        assert (row["bead"], row["running"], row["attempt"], row["role"]) == ("gt-one", True, 1, "dev")
        assert "▶ gt-one  exec  attempt 1  dev agent.sh" in ralph("status", cwd=place).out
        soon(lambda: "I am at it" in ralph("logs", "gt-one", cwd=place).out)
        (place / "go").touch()
        assert process.wait(timeout=PATIENCE) == 0
    (row,) = executions(place)
    assert (row["running"], row["ended"], row["attempt"]) == (False, "completed", 1)
    assert "1 bead completed by exec" in ralph("status", cwd=place).out
    assert "I am at it" in ralph("logs", "gt-one", cwd=place).out


def test_status_says_why_an_execution_came_to_nothing(place: Path) -> None:
    path = put(place / "a.json", bead("false", constraints={"max_iterations": 1}))
    agent(place, "exit 0")
    assert execute(place, path, "--agent", "./agent.sh").code == 1
    (row,) = executions(place)
    assert (row["ended"], row["attempt"]) == ("failed", 1)
    assert "max_iterations reached" in row["reason"]
    assert "✗ gt-one  exec  max_iterations reached" in ralph("status", cwd=place).out


def test_logs_follow_an_execution_until_it_ends(place: Path) -> None:
    path = put(place / "a.json", bead("test -f go"))
    agent(place, "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last")
    with started(place, path, "--agent", "./agent.sh") as process:
        soon(lambda: "first" in ralph("logs", "gt-one", cwd=place).out)
        with subprocess.Popen(
            [*RALPH, "logs", "gt-one", "--follow"], cwd=place, env=environment({}), stdout=subprocess.PIPE
        ) as following:
            (place / "go").touch()
            told, _ = following.communicate(timeout=PATIENCE)
        assert process.wait(timeout=PATIENCE) == 0
    assert b"first" in told
    assert b"last" in told


def test_an_execution_that_only_looks_is_none(place: Path) -> None:
    execute(place, put(place / "a.json", bead("true")), "--verify-only")
    assert executions(place) == []
