"""The live model: the same however the journal was cut, on any store, of a run that goes on or has ended."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beads_ralph.board.expecting import forecast
from beads_ralph.board.folding import WANTED, apply_all
from beads_ralph.board.journal_tail import JournalTail
from beads_ralph.board.model import PIPELINE, BoardState
from beads_ralph.board.source import BoardSource, change
from beads_ralph.board.told import Told
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import runs
from beads_ralph.report.past import History
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.board.journals import RUN, call, claimed, row, started, verdict, whole_run, write_journal
from tests.cli.running import compiled_here, tree
from tests.compile.plans import plan
from tests.loop.plans import Project, fails, passes, soon, sprint, work
from tests.report.made import attempt, several

WORK = {"kind": "work"}


def told(path: Path) -> Told:
    return apply_all(Told(), JournalTail(path).new_rows())


# --- the journal --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_journal_tells_the_same_however_it_was_cut(data: st.DataObject, tmp_path: Path) -> None:
    path = write_journal(tmp_path, whole_run())
    whole = path.read_bytes()
    expected = told(path)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    path.write_bytes(b"")
    tail, state = JournalTail(path), Told()
    for cut in [*cuts, len(whole)]:
        path.write_bytes(whole[:cut])
        apply_all(state, tail.new_rows())
    assert state == expected
    assert (tail.offset, tail.broken) == (len(whole), 0)


SPOILED = [b"{", b"[1]", b"\xff\xfe", b'{"kind": "bead_claimed"}', b'{"kind": 3, "at": null}', b"[" * 100_000]


def test_a_broken_line_is_left_out_and_counted(repo: Path) -> None:
    path = write_journal(repo, whole_run())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\n".join(SPOILED) + b"\n" + b"".join(lines) + b'{"kind": "bead_cl')
    state = BoardSource.open(repo).snapshot()
    assert state.run.broken_lines == len(SPOILED)
    said = {one.text for one in state.attention if one.kind == "unreadable"}
    assert said == {f"{len(SPOILED)} lines of the journal cannot be read, and were left out"}
    assert [bead.id for bead in state.beads] == ["bd-1", "bd-2", "bd-3", "bd-4"]


def test_the_pipeline_says_what_was_done_and_why_an_attempt_failed(repo: Path) -> None:
    write_journal(repo, whole_run())
    state = BoardSource.open(repo).snapshot()
    bead = state.bead("bd-1")
    assert bead is not None
    assert [(stage.name, stage.state) for stage in bead.pipeline] == [(name, "done") for name in PIPELINE]
    assert [(one.attempt, one.ruling, one.checks) for one in bead.attempts] == [
        (1, "fail", ("pytest",)),
        (2, "pass", ()),
    ]
    assert (bead.tokens, bead.cost_usd, bead.last_failure) == (15, 0.75, "fail it is")
    assert (bead.pull_request, bead.standing, bead.status) == ("http://pull/1", "proven", "closed")


def test_a_check_that_failed_marks_its_stage(repo: Path) -> None:
    write_journal(repo, whole_run()[:9])
    with runs.exclusive(repo / ".ralph", RUN):
        bead = BoardSource.open(repo).snapshot().bead("bd-1")
    assert bead is not None
    assert [stage.state for stage in bead.pipeline] == ["done", "failed", "waits", "waits", "waits"]
    assert [step.name for step in bead.pipeline[0].steps] == ["worktree", "baseline", "claude (sonnet)"]


def test_a_conflict_that_was_merged_has_not_failed(repo: Path) -> None:
    conflict = row("worktree_prepared", 2, "bd-1", path="/w", branch="b", conflict="in model.py")
    merged = call("agent_ended", "bd-1", 4, "merge", seconds=1.0, problem="", trouble="", usage={})
    rows = [started(), claimed("bd-1", 1), conflict, call("agent_started", "bd-1", 3, "merge"), merged]
    for count, state in ((3, "failed"), (4, "now"), (5, "done")):
        write_journal(repo, [*rows[:count], *([verdict("bd-1", 9, "pass")] if count == 5 else [])])
        bead = BoardSource.open(repo).snapshot().bead("bd-1")
        assert bead is not None
        assert bead.pipeline[0].state == state
        assert bead.pipeline[0].steps[0].note == "in model.py"


def test_a_bead_is_shown_with_the_machine_that_it_is_worked_on(repo: Path) -> None:
    write_journal(repo, [started(), claimed("bd-1", 1), call("agent_started", "bd-1", 2, host="crane-2")])
    with runs.exclusive(repo / ".ralph", RUN):
        bead = BoardSource.open(repo).snapshot().bead("bd-1")
    assert bead is not None
    assert bead.host == "crane-2"


def test_lines_that_tell_a_board_nothing_are_not_read_and_change_nothing(tmp_path: Path) -> None:
    rows = [one for line in whole_run() for one in (line, row("review_given", 30, "bd-1"))]
    path = write_journal(tmp_path, [*rows, row("something_new", 31)])
    path.write_bytes(path.read_bytes() + b'{"kind": "review_given", "at": \n')
    tail = JournalTail(path, WANTED)
    few = list(tail.new_rows())
    assert {one["kind"].encode() for one in few} <= WANTED
    assert (tail.offset, tail.broken) == (path.stat().st_size, 1)
    every = apply_all(Told(), JournalTail(path).new_rows())
    every.last_at = (seen := apply_all(Told(), few)).last_at
    assert seen == every


# --- a run --------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_is_told_from_one_that_was_killed(repo: Path) -> None:
    write_journal(repo, whole_run()[:-2])
    with runs.exclusive(repo / ".ralph", RUN):
        source = BoardSource.open(repo)
        state = source.snapshot()
        assert (state.run.mode, state.run.workers, state.running) == ("running", 1, ("bd-2",))
        assert [program.program for program in state.run.programs] == ["codex"]
        assert {one.kind for one in state.attention} == {"limited", "flagged"}
        waits = {bead.id: [wait.kind for wait in bead.waits] for bead in state.beads if bead.waits}
        assert waits == {"bd-3": ["limit"], "bd-4": ["team"]}
    dead = BoardSource.open(repo).snapshot()
    assert dead.run.mode == "dead"
    assert dead.attention[0].kind == "interrupted"


def test_a_new_run_takes_the_place_of_the_old(repo: Path) -> None:
    write_journal(repo, whole_run())
    source = BoardSource.open(repo)
    later = "20261116T110000000Z-abcd"
    write_journal(repo, [started(7) | {"run_id": later}], later)
    state = source.poll()
    assert (state.run.id, state.run.parallel, state.beads) == (later, 7, ())
    assert BoardSource.open(repo, run=RUN[:17]).snapshot().run.id == RUN


def test_the_number_grows_with_every_change_and_with_nothing_else(repo: Path) -> None:
    path = write_journal(repo, whole_run()[:2])
    with runs.exclusive(repo / ".ralph", RUN):
        source = BoardSource.open(repo)
        first = source.snapshot()
        assert source.poll() is first
        with path.open("a") as file:
            file.write(json.dumps(call("agent_started", "bd-1", 4)) + "\n")
        second = source.poll()
    assert second.seq == first.seq + 1
    assert change(first, second).changed == ("bd-1",)
    assert change(None, second).changed == ("bd-1",)


def test_what_is_kept_of_the_last_look_changes_nothing(repo: Path) -> None:
    """A board that has followed from the first line shows what one shows that comes at the end."""
    rows = whole_run()
    path = write_journal(repo, [])
    with runs.exclusive(repo / ".ralph", RUN):
        source = BoardSource.open(repo)
        for line in rows:
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            late = BoardSource.open(repo).snapshot()
            assert replace(source.poll(), seq=0) == replace(late, seq=0)


def test_two_failed_attempts_need_attention(repo: Path) -> None:
    rows = [started(), claimed("bd-1", 1), verdict("bd-1", 2, "fail"), verdict("bd-1", 3, "fail", 2)]
    write_journal(repo, [*rows, call("agent_started", "bd-1", 4, attempt=3)])
    with runs.exclusive(repo / ".ralph", RUN):
        (found,) = BoardSource.open(repo).snapshot().attention
    assert (found.kind, found.bead) == ("failed_twice", "bd-1")
    assert found.text == "attempt 3 of 3; the last failed: fail it is"


def test_a_red_gate_a_budget_and_a_plan_that_differs_need_attention(repo: Path) -> None:
    gate = row("gate_checked", 1, "gate-1", ruling="fail", message="lint", commit="c", source="s")
    budget = row("run_draining", 2, reason="cost budget (USD) of 1 is used up", running=[])
    ended = row("run_ended", 3, ended="plan_differs", reason="1.1 reads differently", duration_seconds=3.0)
    write_journal(repo, [started(), gate, budget, ended])
    state = BoardSource.open(repo).snapshot()
    assert [one.kind for one in state.attention] == ["budget", "gate_red", "plan_differs"]
    assert (state.run.mode, state.run.words) == ("ended", "plan differs: 1.1 reads differently")


def test_a_run_says_when_it_will_probably_be_done(repo: Path) -> None:
    """Of what a person does not have to see to; and only while it runs, where the past says enough."""
    compiled_here(repo, plan(*(sprint(number, f"S {number}") for number in ("1.1", "1.2", "1.3"))))
    first, second, _ = names = ("bd-1-1-s-11", "bd-1-2-s-12", "bd-1-3-s-13")
    write_journal(repo, [started(), claimed(first, 0)])
    now, past = datetime(2026, 11, 16, 10, 5, tzinfo=UTC), History.of(several(attempt, 40, extra=WORK))
    with runs.exclusive(repo / ".ralph", RUN):
        state = BoardSource.open(repo).snapshot()
    found = forecast(state, past, now)
    assert found is not None
    assert found.earliest <= found.done_at <= found.latest
    # Each takes five minutes, the first of them is about to end.
    assert "2026-11-16T10:12" <= found.done_at <= "2026-11-16T10:20"
    assert found.attempts == 40
    assert forecast(state, History.of(several(attempt, 4)), now) is None
    stuck = [replace(one, status="blocked") if one.id == second else one for one in state.beads]
    sooner = forecast(replace(state, beads=tuple(stuck)), past, now)
    assert sooner is not None
    assert sooner.done_at < found.done_at
    done = tuple(replace(one, status="closed") for one in state.beads)
    assert [one.id for one in done] == list(names)
    assert forecast(replace(state, beads=done), past, now) is None


def test_the_forecast_is_in_the_state_of_a_run_with_a_past(repo: Path) -> None:
    project = Project.make(repo, *(sprint(f"1.{at}", f"S {at}") for at in range(1, 8)))
    assert project.run().data["ended"] == "done"
    write_journal(repo, [started(), claimed("bd-1-1-s-1", 1)], "20991116T100000000Z-abcd")
    EmbeddedStore(repo).update("bd-1-2-s-2", Changes(status="open", expected_status="closed"))
    with runs.exclusive(repo / ".ralph", "20991116T100000000Z-abcd"):
        source = BoardSource.open(repo)
        assert source.snapshot().run.forecast is None
        state = source.poll()
        assert state.run.forecast is not None
        assert source.poll() is state
        said = project.ralph("status").out
    assert "probably done at" in said
    assert project.ralph("status", "--json").data["run"]["forecast"] is None


# --- the store ----------------------------------------------------------------------------------------


def test_an_empty_repository_has_a_board(repo: Path) -> None:
    before = tree(repo)
    state = BoardSource.open(repo).snapshot()
    assert (state.run.mode, state.run.words, state.beads, state.attention) == ("none", "no run yet", (), ())
    assert tree(repo) == before


def test_the_graph_says_what_a_bead_waits_for(repo: Path) -> None:
    compiled_here(repo, plan(*(sprint(number, f"S {number}") for number in ("1.1", "1.2a", "1.2b", "1.3"))))
    state = BoardSource.open(repo).snapshot()
    assert state.next == ("bd-1-1-s-11", "bd-1-2a-s-12a", "bd-1-2b-s-12b", "bd-1-3-s-13")
    assert [(bead.number, bead.wave, bead.critical) for bead in state.beads] == [
        ("1.1", 1, True),
        ("1.2a", 2, True),
        ("1.2b", 2, False),
        ("1.3", 3, True),
    ]
    assert [[wait.ids for wait in bead.waits] for bead in state.beads] == [
        [],
        [("bd-1-1-s-11",)],
        [("bd-1-1-s-11",)],
        [("bd-1-2a-s-12a", "bd-1-2b-s-12b")],
    ]


def test_a_store_that_cannot_be_read_is_told_and_the_journal_shown(repo: Path) -> None:
    write_journal(repo, whole_run())
    (repo / ".ralph" / "beads.db").write_bytes(b"no database")
    state = BoardSource.open(repo).snapshot()
    assert state.run.problem
    assert "the store cannot be read" in {one.text.partition(":")[0] for one in state.attention}
    assert state.bead("bd-1") is not None


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def project(request: pytest.FixtureRequest) -> Project:
    root = request.getfixturevalue("bd_repo" if request.param == "bd" else "repo")
    script = {
        "1.1": {"dev": work("one.txt")},
        "1.2": {"dev": work("two.txt"), "qa": fails("no")},
        "1.3": {"dev": work("three.txt")},
    }
    sprints = (sprint("1.1", "One"), sprint("1.2", "Two"), sprint("1.3", "Three"))
    return Project.make(root, *sprints, script=script, store=request.param)


def laws(state: BoardState) -> None:
    """What holds of every state: a contract for whoever shows it."""
    ids = [bead.id for bead in state.beads]
    assert len(set(ids)) == len(ids)
    assert sorted([*state.running, *state.next, *state.done]) == sorted(ids)
    lanes = {bead.id: bead.lane for bead in state.beads}
    for lane in ("running", "next", "done"):
        assert {lanes[name] for name in getattr(state, lane)} <= {lane}
    assert sum((state.run.counts or {}).values()) == len(ids)
    assert json.loads(json.dumps(state.as_json())) == state.as_json()


def test_a_run_that_has_ended_is_shown_as_the_store_and_its_journal_tell(project: Project) -> None:
    ran = project.run()
    source = BoardSource.open(project.root)
    state = source.snapshot()
    laws(state)
    assert {bead.id: bead.status for bead in state.beads} == project.statuses()
    assert (state.run.mode, state.run.end) == ("ended", ran.data["ended"])
    assert state.run.store == project.store_kind
    two = next(bead for bead in state.beads if bead.number == "1.2")
    assert (two.status, two.attempt, len(two.attempts)) == ("blocked", 3, 3)
    assert [one.bead for one in state.attention if one.kind == "blocked"] == [two.id]
    said = project.ralph("status", "--json").data
    assert said["counts"] == {name: count for name, count in (state.run.counts or {}).items() if count}
    assert said["attention"] == state.as_json()["attention"]


def test_a_run_is_followed_while_it_goes_on_and_after_it_was_killed(repo: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = [{"run": f"while [ ! -e {go} ]; do sleep 0.05; done"}]
    project = Project.make(repo, sprint("1.1", "One"), script={"1.1": {"dev": waits, "qa": passes()}})
    with project.running() as process:
        soon(lambda: project.events("agent_started"))
        source = BoardSource.open(repo)
        state = source.snapshot()
        laws(state)
        assert (state.run.mode, state.running) == ("running", ("bd-1-1-one",))
        process.send_signal(signal.SIGKILL)
        process.wait()
        project.end_strays()
        soon(lambda: source.poll().run.mode == "dead")
    laws(source.snapshot())
    assert {one.kind for one in source.snapshot().attention} == {"interrupted"}


def test_a_run_that_is_not_there_is_refused(repo: Path) -> None:
    with pytest.raises(RalphError) as refused:
        BoardSource.open(repo, run="nothing")
    assert refused.value.code == Code.FILE_NOT_FOUND
