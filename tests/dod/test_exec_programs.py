"""`beads-ralph exec` calls its agents as a run does: stand-ins, limits, budgets, a record of every call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Ran, ralph
from tests.dod.beads import bead, execute, one, put, read

IN_AN_HOUR = timedelta(hours=1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder without git and without a store."""
    path = tmp_path / "work"
    path.mkdir()
    return path


def program(place: Path, name: str, script: str = "touch done.txt") -> str:
    """A shell script that notes its sessions and its prompts; `$N` is how often it was called."""
    path = place.parent / name
    log = place.parent / f"{name}.sessions"
    path.write_text(
        f'#!/bin/sh\necho "$BEADS_RALPH_SESSION" >> {log}\nN=$(wc -l < {log} | tr -d " ")\n'
        f'cat > {place.parent}/{name}.$N.prompt\necho "BEADS_RALPH_SESSION $BEADS_RALPH_SESSION" >&2\n'
        f"{script}\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


def prompt(place: Path, name: str, call: int) -> str:
    return (place.parent / f"{name}.{call}.prompt").read_text("utf-8")


def sessions(place: Path, name: str) -> list[str]:
    path = place.parent / f"{name}.sessions"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def marker(kind: str, said: Any, when: str = "true") -> str:
    told = json.dumps(said).replace('"', '\\"')
    return f'if {when}; then echo "BEADS_RALPH_{kind} {told}" >&2; exit 1; fi\n'


def limit(lifts_in: timedelta | None, when: str = "true") -> str:
    said = None if lifts_in is None else {"reset_at": (datetime.now(UTC) + lifts_in).isoformat()}
    return marker("LIMIT", said, when)


def played(place: Path, own: str, *stand_ins: str, **settings: Any) -> Ran:
    """The bead `gt-one` of a.json, played by `own` or by those that stand in for it."""
    agents = {"agent": "claude", "executable": own, "fallback": list(stand_ins)}
    written = {"sandbox": "none", "plan": {"dev_agents": [agents]}, **settings}
    (place / "beads-ralph.yaml").write_text(json.dumps(written), encoding="utf-8")
    return execute(place, "a.json")


def calls(place: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(place / "a.json")["ralph_meta"]["dev_agent_executions"]
    return rows


def told(place: Path, kind: str) -> list[dict[str, Any]]:
    """The events of that kind, of every execution."""
    journals = sorted((place / ".ralph" / "exec" / "gt-one" / "runs").glob("*/events.jsonl"))
    rows = [json.loads(line) for path in journals for line in path.read_text("utf-8").splitlines()]
    return [row for row in rows if row["kind"] == kind]


def names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [Path(row["program"]).name for row in rows]


# --- stand-ins ------------------------------------------------------------------------------------------


def test_another_program_stands_in_for_one_at_a_limit_in_the_same_attempt(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    first = program(place, "first", "echo half > half.txt; echo I am half done\n" + limit(IN_AN_HOUR))
    done = one(played(place, first, program(place, "second")))
    assert (done["status"], done["attempts"]) == ("completed", 1)
    assert names(calls(place)) == ["first", "second"]
    assert [row["trouble"] for row in calls(place)] == ["limit", ""]
    (replaced,) = told(place, "program_replaced")
    assert (Path(replaced["program"]).name, Path(replaced["by"]).name) == ("first", "second")
    assert "was begun before you" in prompt(place, "second", 1), "it is told that it goes on"
    assert "I am half done" in prompt(place, "second", 1)


def test_a_program_that_rests_is_not_asked_again_for_the_next_attempt_nor_for_the_next_bead(
    place: Path,
) -> None:
    put(place / "a.json", bead("test -f two.txt"))
    put(place / "b.json", {**bead("test -f three.txt"), "id": "gt-two"})
    first = program(place, "first", limit(IN_AN_HOUR))
    second = program(place, "second", "[ $N = 2 ] && touch two.txt; [ $N = 3 ] && touch three.txt; exit 0")
    agents = {"agent": "claude", "executable": first, "fallback": [second]}
    settings = {"sandbox": "none", "plan": {"dev_agents": [agents]}}
    (place / "beads-ralph.yaml").write_text(json.dumps(settings), encoding="utf-8")
    ran = execute(place, "a.json", "b.json")
    assert [(row["status"], row["attempts"]) for row in ran.data["beads"]] == [
        ("completed", 2),
        ("completed", 1),
    ]
    assert len(sessions(place, "first")) == 1
    assert len(told(place, "program_unavailable")) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["auth", "server", "credit", "configuration", "refused", "too_long"])
def test_another_program_stands_in_for_trouble_that_is_not_the_works(place: Path, kind: str) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    first = program(place, "first", marker("TROUBLE", {"kind": kind, "detail": "so it goes"}))
    done = one(played(place, first, program(place, "second")))
    assert (done["status"], done["attempts"]) == ("completed", 1)
    assert names(calls(place))[-1] == "second"


def test_another_program_stands_in_for_one_that_is_missing(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    done = one(played(place, "no-such-program", program(place, "second")))
    assert (done["status"], done["attempts"]) == ("completed", 1)
    assert names(calls(place)) == ["second"]


def test_the_stand_ins_of_the_settings_serve_the_program_of_the_command_line(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    settings = {"sandbox": "none", "agent_defaults": {"fallback": [program(place, "second")]}}
    (place / "beads-ralph.yaml").write_text(json.dumps(settings), encoding="utf-8")
    first = program(place, "first", limit(IN_AN_HOUR))
    assert one(execute(place, "a.json", "--agent", first))["status"] == "completed"
    assert names(calls(place)) == ["first", "second"]


def test_each_program_goes_on_with_its_own_session(place: Path) -> None:
    """The first works, meets a limit, and is asked again once it has lifted, which the second waits for."""
    put(place / "a.json", bead("test -f done.txt"))
    lifts = '{\\"reset_at\\": \\"$(date -u -d "+1 second" +%FT%TZ)\\"}'
    first = program(
        place,
        "first",
        f'[ $N = 2 ] && echo "BEADS_RALPH_LIMIT {lifts}" >&2 && exit 1\n[ $N = 3 ] && touch done.txt\nexit 0',
    )
    second = program(place, "second", "sleep 3")
    assert one(played(place, first, second))["status"] == "completed"
    assert len(set(sessions(place, "first"))) == 1
    assert len(sessions(place, "first")) == 3
    assert set(sessions(place, "first")).isdisjoint(sessions(place, "second"))


# --- limits ---------------------------------------------------------------------------------------------


def test_a_limit_is_waited_out_and_costs_no_attempt(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    first = program(place, "first", limit(timedelta(seconds=1), when="[ $N = 1 ]") + "touch done.txt")
    done = one(played(place, first))
    assert (done["status"], done["attempts"]) == ("completed", 1)
    assert [row["attempt"] for row in calls(place)] == [1, 1]
    assert len(set(sessions(place, "first"))) == 1, "it goes on where it was"


def test_a_limit_that_lifts_after_the_deadline_ends_the_work_at_once(place: Path) -> None:
    deadline = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
    put(place / "a.json", bead("test -f done.txt", constraints={"deadline": deadline}))
    ran = played(place, program(place, "first", limit(IN_AN_HOUR)))
    done = one(ran)
    assert (ran.code, done["status"], done["attempts"]) == (1, "failed", 1)
    assert "deadline" in done["reason"]
    assert len(sessions(place, "first")) == 1


def test_where_nobody_is_signed_in_that_is_an_error_and_costs_no_attempt(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    asked = marker("TROUBLE", {"kind": "auth", "detail": "log in first"}, when="[ ! -e signed-in ]")
    first = program(place, "first", asked + "touch done.txt")
    ran = played(place, first)
    assert (ran.code, ran.error["code"]) == (1, "EXECUTION.UNAVAILABLE")
    assert "first is not signed in: log in first" in ran.error["message"]
    assert read(place / "a.json")["status"] == "in_progress"
    (place / "signed-in").touch()
    assert one(played(place, first))["attempts"] == 1


def test_an_outage_is_waited_out_and_ends_with_patience(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    down = marker("TROUBLE", {"kind": "server", "detail": "502"}, when="[ ! -e up ]")
    first = program(place, "first", down + "touch done.txt")
    ran = played(place, first, outage_patience="1s")
    assert (ran.code, ran.error["code"]) == (1, "EXECUTION.UNAVAILABLE")
    assert "outage_patience is over" in ran.error["message"]
    (place / "up").touch()
    assert one(played(place, first))["attempts"] == 1, "no attempt was spent on it"


def test_a_refusal_ends_one_bead_without_an_attempt_and_the_next_is_done(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    put(place / "b.json", {**bead("test -f other.txt"), "id": "gt-two"})
    refuses = marker(
        "TROUBLE", {"kind": "refused", "detail": "not that"}, when="[ $BEADS_RALPH_BEAD = gt-one ]"
    )
    agents = {"agent": "claude", "executable": program(place, "first", refuses + "touch other.txt")}
    settings = {"sandbox": "none", "plan": {"dev_agents": [agents]}}
    (place / "beads-ralph.yaml").write_text(json.dumps(settings), encoding="utf-8")
    ran = execute(place, "a.json", "b.json")
    assert [(row["status"], row["attempts"]) for row in ran.data["beads"]] == [
        ("failed", 0),
        ("completed", 1),
    ]
    assert "refuses this: not that" in ran.data["beads"][0]["reason"]
    assert "beads-ralph exec" in ran.data["beads"][0]["reason"]
    assert len(sessions(place, "first")) == 2


# --- budgets and records --------------------------------------------------------------------------------


def test_what_calls_cost_counts_against_the_budget_of_a_bead(place: Path) -> None:
    put(place / "a.json", bead("false"))
    spends = 'echo "BEADS_RALPH_USAGE {\\"cost_usd\\": 0.6}" >&2'
    done = one(played(place, program(place, "first", spends), bead_budget_usd=1.0))
    assert (done["status"], done["attempts"]) == ("failed", 2)
    assert "cost budget (USD) of 1 is used up" in done["reason"]
    assert read(place / "a.json")["ralph_meta"]["spent"]["cost_usd"] == pytest.approx(1.2)
    (blocked,) = told(place, "bead_blocked")
    assert blocked["failure_reason"] == "budget-used-up"


def test_tools_that_an_agent_was_denied_are_told_with_the_verdict(place: Path) -> None:
    put(place / "a.json", bead("false", constraints={"max_iterations": 1}))
    denied = 'echo "BEADS_RALPH_DENIED {\\"tools\\": [\\"Bash\\"]}" >&2'
    played(place, program(place, "first", denied))
    (verdict,) = told(place, "verdict_given")
    assert any("was denied Bash" in flag for flag in verdict["flags"])


def test_what_a_killed_execution_has_spent_and_its_sessions_are_not_forgotten(place: Path) -> None:
    put(place / "a.json", bead("test -f done.txt"))
    first = program(place, "first", 'echo "BEADS_RALPH_USAGE {\\"input_tokens\\": 5}" >&2')
    played(place, first, exec_max_iterations=1)
    raw = read(place / "a.json")
    put(
        place / "a.json",
        {**raw, "status": "in_progress", "ralph_meta": {**raw["ralph_meta"], "stage": "agent"}},
    )
    program(place, "first", 'echo "BEADS_RALPH_USAGE {\\"input_tokens\\": 5}" >&2; touch done.txt')
    assert one(played(place, first))["attempts"] == 1
    assert read(place / "a.json")["ralph_meta"]["spent"]["input_tokens"] == 10
    assert len(set(sessions(place, "first"))) == 1


def test_a_file_of_the_version_before_goes_on_with_its_session(place: Path) -> None:
    meta = {
        "stage": "verifying",
        "attempt_count": 1,
        "started_at": "2026-02-07T10:00:00Z",
        "elapsed_seconds": 12.5,
        "session": {"id": "from-before", "counted": {"input_tokens": 3}},
    }
    put(place / "a.json", {**bead("test -f done.txt"), "status": "in_progress", "ralph_meta": meta})
    done = one(played(place, program(place, "first")))
    assert (done["status"], done["attempts"]) == ("completed", 2)
    assert sessions(place, "first") == ["from-before"]
    assert done["seconds"] >= 12.5


@pytest.mark.parametrize("spoiled", [7, "x", [7], [{"attempt": "x"}], {"a": 1}])
@pytest.mark.parametrize("key", ["dev_agent_executions", "spent", "interruptions", "session"])
def test_whatever_somebody_wrote_there_the_bead_goes_on(place: Path, key: str, spoiled: Any) -> None:
    meta = {"stage": "verifying", "attempt_count": 1, key: spoiled}
    put(place / "a.json", {**bead("test -f done.txt"), "status": "in_progress", "ralph_meta": meta})
    assert one(played(place, program(place, "first")))["status"] == "completed"
    assert ralph("state", "validate", "--all", cwd=place).code == 0
