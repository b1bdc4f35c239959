"""What "done" means: the truth table of a run's ends, its laws, and each of its new rows as a real run."""

from __future__ import annotations

import json
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.items import Item
from beads_ralph.bead.names import MOLECULE, TASK
from beads_ralph.journal.events import RedGate
from beads_ralph.loop.run_end import ENDS, HeldUp, RunFacts, Why, ending
from tests.loop.plans import Project, sprint, work

ONE = "bd-1-1-one"
RED = RedGate("smoke", "exit code 1")
FORCED = replace(RED, overridden_by="run --force-gates")
TIMER = HeldUp("1 bead waits for timer gate t", by_people=False, hopeful=False)
PERSON = replace(TIMER, by_people=True)
HOPEFUL = replace(TIMER, hopeful=True)

TABLE: list[tuple[dict[str, Any], Why, str | None]] = [
    ({}, "empty", "there is no bead to work on"),
    ({"in_scope": 1}, "done", "every bead is closed"),
    ({"in_scope": 1, "one_round": True}, "done", "every bead of the one round is closed"),
    ({"in_scope": 2, "stopped": "told to stop"}, "done", "every bead is closed"),
    ({"unmatched": ("--team nobody",)}, "no_match", "no bead matches --team nobody"),
    (
        {"in_scope": 2, "unmatched": ("--team nobody",)},
        "no_match",
        "no bead matches --team nobody; every other bead is closed (2)",
    ),
    (
        {"in_scope": 1, "red_gates": (RED,)},
        "gates_red",
        "every bead is closed, but gate smoke is red: exit code 1",
    ),
    (
        {"in_scope": 1, "red_gates": (FORCED,)},
        "gates_red",
        "every bead is closed, but gate smoke is red: exit code 1 (overridden by run --force-gates)",
    ),
    ({"red_gates": (RED,)}, "gates_red", "gate smoke is red: exit code 1"),
    ({"in_scope": 1, "red_gates": (RED,), "stopped": "told to stop"}, "stopped", "told to stop"),
    (
        {"in_scope": 1, "left": ("a",), "red_gates": (RED,)},
        "blocked",
        "1 bead is left: gate smoke is red: exit code 1",
    ),
    (
        {"in_scope": 1, "left": ("a",), "red_gates": (FORCED,), "stuck": "a is open"},
        "no_progress",
        "1 bead is left, and none is ready: a is open",
    ),
    (
        {"in_scope": 1, "plan": ("sprint 1.1 reads differently",)},
        "plan_differs",
        "every bead is closed, but the plan differs from the store: sprint 1.1 reads differently",
    ),
    (
        {"in_scope": 1, "people": ("t",)},
        "for_people",
        "every bead is closed; 1 step is left for people: t",
    ),
    (
        {"people": ("t", "u")},
        "for_people",
        "there is no bead for agents; 2 steps are left for people: t, u",
    ),
    ({"in_scope": 1, "people": ("t",), "plan": ("x",)}, "plan_differs", None),
    ({"in_scope": 2, "unreadable": ("a",)}, "unreadable", "1 bead cannot be read: a; 0 more not done"),
    (
        {"in_scope": 2, "unreadable": ("a",), "left": ("b",)},
        "unreadable",
        "1 bead cannot be read: a; 1 more not done",
    ),
    (
        {"in_scope": 3, "unreadable": ("a",), "blocked": ("b",), "left": ("b", "c")},
        "blocked",
        "2 beads are blocked, 1 more not done",
    ),
    ({"in_scope": 1, "blocked": ("a",)}, "blocked", "1 bead is blocked, 0 more not done"),
    ({"in_scope": 1, "left": ("a",), "stuck": "a is held by b"}, "no_progress", None),
    ({"in_scope": 1, "left": ("a",), "held_up": TIMER}, "no_progress", TIMER.text),
    ({"in_scope": 1, "left": ("a",), "held_up": PERSON}, "blocked", PERSON.text),
    ({"in_scope": 1, "left": ("a",), "held_up": HOPEFUL}, "stopped", HOPEFUL.text),
    (
        {"in_scope": 1, "left": ("a",), "parked": "a waits until noon"},
        "stopped",
        "1 bead is left: a waits until noon",
    ),
    ({"in_scope": 1, "left": ("a",), "stopped": "told to stop"}, "stopped", "told to stop"),
    (
        {"in_scope": 1, "left": ("a",), "stopped": "cancelled", "interrupted": True},
        "interrupted",
        "cancelled",
    ),
]


@pytest.mark.parametrize(("known", "why", "reason"), TABLE)
def test_the_truth_table(known: dict[str, Any], why: Why, reason: str | None) -> None:
    found = ending(RunFacts(**known))
    assert (found.why, reason or found.reason) == (why, found.reason)


def test_the_truth_table_has_every_end() -> None:
    assert {why for _, why, _ in TABLE} == set(get_args(Why)) == ENDS.keys()


IDS = st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(tuple)
FACTS = st.builds(
    RunFacts,
    in_scope=st.integers(0, 4),
    filters=st.sampled_from([(), ("--team a", "--bead b")]),
    unmatched=st.sampled_from([(), ("--team nobody",)]),
    left=IDS,
    stuck=st.just("a is open"),
    blocked=IDS,
    unreadable=IDS,
    red_gates=st.sampled_from([(), (RED,), (FORCED,), (RED, FORCED)]),
    parked=st.sampled_from(["", "a waits until noon"]),
    held_up=st.sampled_from([None, TIMER, PERSON, HOPEFUL]),
    people=IDS,
    plan=st.sampled_from([(), ("x",)]),
    stopped=st.sampled_from(["", "told to stop"]),
    interrupted=st.booleans(),
    one_round=st.booleans(),
)
OPEN = ("left", "blocked", "unreadable", "red_gates", "people", "plan", "unmatched")


@given(FACTS)
def test_done_means_that_there_was_something_and_that_nothing_is_open(facts: RunFacts) -> None:
    found = ending(facts)
    finished = facts.in_scope > 0 and not any(getattr(facts, name) for name in OPEN)
    assert (found.why == "done") == finished
    assert (ENDS[found.why].exit_code == 0) == finished
    assert found.reason
    assert ("every bead" in found.reason and " closed" in found.reason) <= facts.all_closed


@given(FACTS, st.sampled_from(OPEN))
def test_nothing_that_is_found_open_makes_an_end_better(facts: RunFacts, name: str) -> None:
    more: Any = {"red_gates": (RED,), "unmatched": ("--team nobody",)}.get(name, ("z",))
    worse = ending(replace(facts, **{name: more}))
    assert worse.why not in ("done", "empty")


@given(FACTS)
def test_an_end_is_told_by_what_it_is_about(facts: RunFacts) -> None:
    """Each end needs what it names; no other combination leads to it."""
    needs = {
        "empty": facts.in_scope == 0,
        "no_match": bool(facts.unmatched),
        "gates_red": bool(facts.red_gates) and facts.all_closed,
        "plan_differs": bool(facts.plan) and facts.all_closed,
        "for_people": bool(facts.people) and facts.all_closed,
        "unreadable": bool(facts.unreadable) and not facts.blocked,
        "interrupted": facts.interrupted and bool(facts.stopped),
        "no_progress": bool(facts.left),
    }
    assert needs.get(ending(facts).why, True)


def test_the_laws_draw_every_fact() -> None:
    drawn = {
        *OPEN,
        "in_scope",
        "filters",
        "stuck",
        "parked",
        "held_up",
        "stopped",
        "interrupted",
        "one_round",
    }
    assert drawn == {one.name for one in fields(RunFacts)}


# --- as real runs -----------------------------------------------------------------------------------


@pytest.fixture(params=["embedded", pytest.param("bd", marks=[pytest.mark.bd])])
def made(request: pytest.FixtureRequest) -> Project:
    """A compiled plan of one sprint."""
    kind = str(request.param)
    root: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    project = Project.make(root, sprint("1.1", "One"), store=kind)
    assert project.ralph("mason", "plan.md", "--json").code == 0
    return project


def red_gate(root: Path) -> None:
    verifier = {"name": "Starts", "command": "false"}
    bead = {"id": "smoke", "name": "Smoke", "type": "gate", "intent": "It starts", "verifiers": [verifier]}
    (root / ".ralph" / "gates").mkdir(parents=True)
    (root / ".ralph" / "gates" / "smoke.json").write_text(json.dumps(bead), encoding="utf-8")


def test_a_run_is_done_only_when_nothing_is_open(made: Project) -> None:
    """One store, from a filter that matches nothing to the end."""
    nobody = made.ralph("run", "--team", "nobody", "--json")
    assert (nobody.code, nobody.data["ended"], nobody.data["closed"]) == (5, "no_match", []), nobody.out
    assert (nobody.data["reason"], nobody.data["next"]) == (
        "no bead matches --team nobody",
        ["beads-ralph list"],
    )
    red_gate(made.root)
    forced = made.ralph("run", "--force-gates", "--json")
    assert (forced.code, forced.data["ended"], forced.data["closed"]) == (1, "gates_red", [ONE]), forced.out
    (gate,) = forced.data["red_gates"]
    assert (gate["id"], gate["overridden_by"]) == ("smoke", "run --force-gates")
    assert forced.data["next"] == ["beads-ralph gate check"]
    (made.root / ".ralph" / "gates" / "smoke.json").unlink()
    made.store.create(
        [
            Item(id="bd-m", title="Release", issue_type=MOLECULE),
            Item(id="bd-m-ask", title="Ask", issue_type=TASK, parent="bd-m"),
            Item(id="bd-m-tell", title="Tell", issue_type=TASK, parent="bd-m", dependencies=["bd-m-ask"]),
        ]
    )
    people = made.ralph("run", "--json")
    assert (people.code, people.data["ended"]) == (6, "for_people"), people.out
    assert people.data["reason"].startswith("every bead is closed; 2 steps are left for people: bd-m-")
    assert people.data["next"] == ["beads-ralph close bd-m-ask"]
    for step in ("bd-m-ask", "bd-m-tell"):
        assert made.ralph("close", step, "--json").code == 0
    done = made.ralph("run", "--json")
    assert (done.code, done.data["ended"], done.data["reason"]) == (0, "done", "every bead is closed"), (
        done.out
    )


def test_an_empty_store_is_nothing_done(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    assert project.ralph("init", "--json").code == 0
    ran = project.ralph("run")
    assert (ran.code, "○ nothing to do: there is no bead to work on" in ran.out) == (4, True), ran.out
    assert "→ beads-ralph run PLAN" in ran.out


def test_a_team_that_nobody_is_in_is_named_beside_one_that_has_beads(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    ran = project.run("--team", "sprint-1-1-one", "--team", "nobody")
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (5, "no_match", [ONE]), ran.out
    assert ran.data["reason"] == "no bead matches --team nobody; every other bead is closed (1)"
    warned = [row["message"] for row in project.events("warning_given")]
    assert "no bead matches --team nobody" in warned, "said when the run begins"
    both = project.run("--team", "sprint-1-1-one", "--bead", ONE)
    assert (both.code, both.data["ended"]) == (0, "done")
    assert both.data["reason"] == f"every bead that matches --team sprint-1-1-one, --bead {ONE} is closed"


def test_filters_without_a_bead_in_common_are_named_together(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Two"))
    ran = project.run("--team", "sprint-1-1a-one", "--bead", "bd-1-1b-two")
    assert (ran.code, ran.data["ended"]) == (5, "no_match"), ran.out
    assert ran.data["reason"] == "no bead matches --team sprint-1-1a-one --bead bd-1-1b-two"


def test_a_bead_that_cannot_be_read_has_its_own_end(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    assert project.run().code == 0
    path = str(repo / ".ralph" / "beads.db")
    subprocess.run(["sqlite3", path, "UPDATE beads SET title = ''"], check=True)
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.data["ended"]) == (1, "unreadable"), ran.out
    assert ran.data["reason"] == f"1 bead cannot be read: {ONE}; 0 more not done"


@pytest.mark.bd
def test_an_empty_and_an_unreadable_bd_database_have_the_same_ends(bd_repo: Path, bd_path: Path) -> None:
    project = Project.make(bd_repo, sprint("1.1", "One"), store="bd")
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.data["ended"], ran.data["next"]) == (4, "empty", ["beads-ralph run PLAN"]), ran.out
    assert project.ralph("mason", "plan.md", "--json").code == 0
    spoil = [str(bd_path), "update", ONE, "--metadata", '{"dev_agents": 7}']
    subprocess.run(spoil, cwd=bd_repo, check=True, capture_output=True)
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.data["ended"]) == (1, "unreadable"), ran.out
    assert ran.data["reason"] == f"1 bead cannot be read: {ONE}; 0 more not done"
    assert ran.data["next"] == [f"beads-ralph show {ONE}"]


# --- what the end says besides ------------------------------------------------------------------------


def test_the_end_names_the_pull_requests_that_conflict_and_what_it_cost(repo: Path) -> None:
    """Three change one line, one after the other, so that no warning was given on the way."""
    used = [{"usage": {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.25}}]
    script = {f"1.1{name}": {"dev": [*used, *work("same.txt", f"{name}\n")]} for name in "abc"}
    project = Project.make(
        repo,
        *(sprint(f"1.1{name}", "Side") for name in "abcd"),
        script={**script, "*": {"dev": work("other.txt")}},
    )
    ran = project.ralph("run", "plan.md", "--max-parallel", "1")
    assert ran.code == 0, ran.out
    names = {name: f"bd-1-1{name}-side" for name in "abcd"}
    for pair in ("ab", "ac", "bc"):
        both = " and ".join(names[name] for name in pair)
        assert f"! the pull requests of {both} conflict in same.txt" in ran.out
    assert names["d"] not in "".join(line for line in ran.out.splitlines() if "conflict" in line)
    assert "4 closed, 0 blocked, 4 attempts, " in ran.out
    assert "$0.75, 360 tokens" in ran.out
    assert "→ git diff main...feature/1-1a-side" in ran.out
    (ended,) = project.events("run_ended")
    assert ended["conflicts"][0] == {
        "beads": [names["a"], names["b"]],
        "branches": ["feature/1-1a-side", "feature/1-1b-side"],
        "files": ["same.txt"],
    }
    assert ended["usage"] == {
        "input_tokens": 300,
        "output_tokens": 60,
        "cache_tokens": None,
        "cost_usd": 0.75,
    }
    assert ended["next"] == ["git diff main...feature/1-1a-side"]


# --- the journal of a run, after one that did nothing ---------------------------------------------------


def test_events_shows_the_latest_run_that_worked_on_something(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    assert project.run().code == 0
    assert project.ralph("run", "--team", "nobody").code == 5
    worked, empty = project.run_ids()
    told = project.ralph("events", "--json").data
    assert (told["run_id"], told["runs"], told["later"]) == (worked, [worked], [empty])
    assert "bead_closed" in [row["kind"] for row in told["events"]]
    first, *_ = project.ralph("events").out.splitlines()
    assert first == f"= this is run {worked}; nothing was worked on in 1 later run: {empty}"
    every = project.ralph("events", "--all", "--json").data
    assert (every["run_id"], every["runs"]) == (empty, [worked, empty])
    assert [row["run_id"] for row in every["events"] if row["kind"] == "run_ended"] == [worked, empty]
    named = project.ralph("events", "--run", empty[:-2], "--json").data
    assert {row["run_id"] for row in named["events"]} == {empty}
    for wrong, code in (("nope", "IO.FILE_NOT_FOUND"), ("2", "IO.FILE_NOT_FOUND")):
        assert project.ralph("events", "--run", wrong, "--json").error["code"] == code
    both = project.ralph("events", "--run", empty, "--all", "--json")
    assert (both.code, both.error["code"]) == (2, "USAGE.INVALID")
