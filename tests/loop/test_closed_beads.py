"""Closed needs a proof: whoever closes a bead, a run calls it done only where it was proven or accepted."""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
from pathlib import Path

import pytest

from beads_ralph.journal.proofs import Ledger
from tests.loop.plans import Project, Steps, passes, sprint, work
from tests.store.by_hand import database_of

ONE, TWO, THREE = "bd-1-1-one", "bd-1-2-two", "bd-1-3-three"
CHAIN = (sprint("1.1", "One"), sprint("1.2", "Two"), sprint("1.3", "Three"))


def sql(root: Path, statement: str) -> Steps:
    """An agent's step that writes to the embedded store behind everybody's back."""
    code = f"import sqlite3; sqlite3.connect({str(database_of(root))!r}).executescript({statement!r})"
    return [{"run": f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"}]


def closes(root: Path, bead: str) -> Steps:
    close = f"UPDATE beads SET status = 'closed', claimed_by = NULL WHERE id = '{bead}'"  # noqa: S608
    return sql(root, close)


def close_by_hand(project: Project, bead: str) -> None:
    with sqlite3.connect(database_of(project.root)) as connection:
        connection.execute("UPDATE beads SET status = 'closed' WHERE id = ?", (bead,))


def agent_runs(project: Project) -> set[str]:
    return {row["bead"] for row in project.events("agent_started")}


# --- agents -------------------------------------------------------------------------------------------


def test_a_bead_that_its_own_agent_closes_is_opened_again_and_ends_as_its_work_did(repo: Path) -> None:
    script = {"1.1": {"dev": closes(repo, ONE)}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script, plan_settings={"max_retry_attempts": 1})
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", []), ran.out
    assert project.statuses()[ONE] == "blocked"
    assert "closed while its agents were at work" in project.events("bead_reopened")[0]["reason"]
    assert agent_runs(project) == {ONE}


def test_honest_work_is_proven_although_its_agent_closed_the_bead(repo: Path) -> None:
    script = {"1.1": {"dev": [*work(), *closes(repo, ONE)]}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [ONE, TWO, THREE]), ran.out
    assert project.metadata(ONE)["proven"]["commit"] == Ledger(repo / ".ralph").rows()[ONE].commit


def test_a_bead_that_another_ones_agent_closed_is_opened_again_and_worked_on(repo: Path) -> None:
    script = {"1.1": {"dev": [*work(), *closes(repo, TWO)]}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [ONE, TWO, THREE]), ran.out
    assert [row["bead"] for row in project.events("bead_reopened")] == [TWO]
    assert agent_runs(project) == {ONE, TWO, THREE}


def test_a_bead_that_something_closes_again_and_again_is_never_called_done(repo: Path) -> None:
    trigger = f"""CREATE TRIGGER lie AFTER UPDATE ON beads WHEN NEW.id = '{TWO}' AND NEW.status = 'open'
        BEGIN UPDATE beads SET status = 'closed' WHERE id = '{TWO}'; END"""  # noqa: S608
    script = {"1.1": {"dev": [*work(), *sql(repo, trigger), *closes(repo, TWO)]}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", [ONE]), ran.out
    blocked = {row["id"]: row["reason"] for row in ran.data["blocked"]}
    assert f"beads-ralph accept {TWO}" in blocked[TWO]
    assert agent_runs(project) == {ONE}


def test_a_proof_that_an_agent_made_up_counts_for_nothing(repo: Path) -> None:
    forged = json.dumps({"commit": "0" * 40, "of": "0" * 16})
    lie = sql(repo, f"UPDATE beads SET metadata = json_set(metadata, '$.proven', json('{forged}'))")  # noqa: S608
    script = {"1.1": {"dev": [*work(), *lie, *closes(repo, TWO)]}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [ONE, TWO, THREE]), ran.out
    assert agent_runs(project) == {ONE, TWO, THREE}
    ledger = Ledger(repo / ".ralph").rows()
    assert {name: project.metadata(name)["proven"]["commit"] for name in (ONE, TWO)} == {
        name: ledger[name].commit for name in (ONE, TWO)
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["dod", "acceptance_criteria", "branch", "dev_prompts"])
def test_work_that_was_changed_while_the_run_was_on_is_not_taken_up(repo: Path, key: str) -> None:
    value = {"dod": '{"verifiers": [{"name": "t", "command": "true"}]}', "branch": '"other/branch"'}.get(
        key, '["x"]'
    )
    change = f"UPDATE beads SET metadata = json_set(metadata, '$.{key}', json('{value}')) WHERE id = '{TWO}'"  # noqa: S608
    script = {"1.1": {"dev": [*work(), *sql(repo, change)]}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (1, [ONE]), ran.out
    blocked = {row["id"]: row["reason"] for row in ran.data["blocked"]}
    assert "changed while the run was on" in blocked[TWO]
    assert agent_runs(project) == {ONE}


def test_a_bead_that_is_gone_from_the_store_is_not_done(repo: Path) -> None:
    script = {
        "1.1": {"dev": [*work(), *sql(repo, f"DELETE FROM beads WHERE id = '{THREE}'")]},  # noqa: S608
        "*": {"dev": work()},
    }
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.ralph("run", "plan.md", "--json")
    assert ran.code == 1, ran.out
    blocked = {row["id"]: row["reason"] for row in ran.data["blocked"]}
    assert "gone from the store" in blocked[THREE]


@pytest.mark.full
def test_on_bd_an_agent_that_follows_its_advice_to_close_the_issue_closes_nothing(bd_repo: Path) -> None:
    script = {"1.1": {"dev": [{"run": f"bd close {ONE} --force"}]}, "*": {"dev": work()}}
    settings = {"max_retry_attempts": 1}
    project = Project.make(bd_repo, *CHAIN, script=script, store="bd", plan_settings=settings)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", []), ran.out
    assert project.statuses()[ONE] == "blocked"
    assert agent_runs(project) == {ONE}


# --- people -------------------------------------------------------------------------------------------


def test_a_bead_closed_by_hand_waits_for_a_word_and_is_then_shown_as_accepted(repo: Path) -> None:
    project = Project.make(repo, *CHAIN)
    project.ralph("mason", "plan.md")
    close_by_hand(project, ONE)
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", []), ran.out
    said = project.ralph("accept", ONE, "--reason", "written last week", "--json")
    assert (said.code, said.data["reason"]) == (0, "written last week")
    assert project.metadata(ONE)["accepted"]["reason"] == "written last week"
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [TWO, THREE]), ran.out


def test_the_setting_says_what_a_close_by_hand_counts_for(repo: Path) -> None:
    project = Project.make(repo, *CHAIN, closed_by_hand="accept")
    project.ralph("mason", "plan.md")
    close_by_hand(project, ONE)
    assert project.run().data["closed"] == [TWO, THREE]


def test_a_close_by_hand_may_be_set_to_count_for_nothing(repo: Path) -> None:
    project = Project.make(repo, *CHAIN, closed_by_hand="reopen")
    project.ralph("mason", "plan.md")
    close_by_hand(project, ONE)
    assert project.run().data["closed"] == [ONE, TWO, THREE]
    assert "without a proof" in project.events("bead_reopened")[0]["reason"]


def test_what_is_accepted_during_a_run_lets_it_go_on_next_time(repo: Path) -> None:
    project = Project.make(repo, *CHAIN, script={"*": {"dev": work(), "qa": passes()}})
    project.ralph("mason", "plan.md")
    said = project.ralph("accept", ONE, "--reason", "done by hand")
    assert said.code == 0, said.out
    assert project.statuses()[ONE] == "closed"
    assert project.run().data["closed"] == [TWO, THREE]
    assert project.ralph("retry", ONE).code == 0
    assert project.run().data["closed"] == [ONE]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((ONE, "--reason", " "), "the reason is empty"),
        ((TWO, "--reason", "done"), "cannot be closed yet"),
        (("bd-nothing", "--reason", "done"), "bd-nothing"),
    ],
)
def test_what_cannot_be_accepted_is_refused(repo: Path, words: tuple[str, ...], message: str) -> None:
    project = Project.make(repo, *CHAIN)
    project.ralph("mason", "plan.md")
    said = project.ralph("accept", *words)
    assert said.code != 0
    assert message in said.err
    assert set(project.statuses().values()) == {"open"}


def test_a_proven_bead_needs_no_acceptance_and_cannot_be_retried(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    project.run()
    assert "is proven" in project.ralph("accept", ONE, "--reason", "me too").err
    assert "with its proof" in project.ralph("retry", ONE).err


# --- the ledger ---------------------------------------------------------------------------------------


def test_a_line_that_a_crash_cut_off_spoils_no_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.prove("bd-1", "c1", "run-1")
    with ledger.path.open("a", encoding="utf-8") as file:
        file.write('{"bead": "bd-2", "kind"')
    ledger.prove("bd-3", "c3", "run-2")
    assert {name: row.commit for name, row in ledger.rows().items()} == {"bd-1": "c1", "bd-3": "c3"}
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_the_last_word_on_a_bead_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.accept("bd-1", "me", "done")
    ledger.reopen("bd-1")
    assert ledger.rows()["bd-1"].kind == "reopened"
    ledger.prove("bd-1", "c1", "run-1")
    assert ledger.rows()["bd-1"].kind == "proven"


# --- between two runs ---------------------------------------------------------------------------------


def test_what_changed_in_the_store_between_two_runs_is_told_and_taken(repo: Path) -> None:
    """People edit their plans; but whoever did it, the run that takes the bead up says so."""
    project = Project.make(repo, *CHAIN)
    assert project.run("--bead", ONE).code == 0
    plan = repo / "plan.md"
    plan.write_text(plan.read_text("utf-8").rstrip("\n") + "\n\n**Verify**: `true`\n", "utf-8")
    assert project.ralph("mason", "plan.md", "--update").code == 0
    assert project.run("--bead", TWO).code == 0
    assert project.events("warning_given") == []
    assert project.run().code == 0
    (text,) = [row["message"] for row in project.events("warning_given")]
    assert text.startswith(f"the verifiers of {THREE} changed since a run last saw them, at 20")


def test_what_an_agent_changed_while_a_run_was_on_is_told_by_the_next_one(repo: Path) -> None:
    moves = f"UPDATE beads SET metadata = json_set(metadata, '$.branch', 'x') WHERE id = '{TWO}'"  # noqa: S608
    script = {"1.1": {"dev": [*sql(repo, moves), *work()]}, "*": {"dev": work()}}
    project = Project.make(repo, *CHAIN, script=script)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (1, [ONE]), ran.out
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [TWO, THREE]), ran.out
    told = [row["message"] for row in project.events("warning_given")]
    assert any(text.startswith(f"the work or its place of {TWO} changed") for text in told)
