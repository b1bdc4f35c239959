"""Reading: run and result put together by bead and attempt, and whatever lies about there survived."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from beads_ralph.journal.records import LARGEST, Attempt, read_all
from tests.journal import samples
from tests.selection import examples


def put(folder: Path, name: str, raw: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")
    return path


def attempts(state: Path) -> list[Attempt]:
    return list(read_all(state))


def test_s4_b4_run_and_result_are_put_together_by_bead(tmp_path: Path) -> None:
    put(tmp_path / "runs", "bd-abc.json", samples.run(status="running", finished_at=None, exit_code=None))
    put(tmp_path / "results", "bd-abc.json", samples.result(reason="proven"))
    [one] = attempts(tmp_path)
    assert (one.status, one.reason, one.will_retry, one.exit_code) == ("done", "proven", False, 0)
    assert (one.model, one.template, one.seconds, one.final) == ("sonnet", "feature", 300.0, True)


def test_s4_b2_every_attempt_is_read_in_order_and_only_the_last_has_the_result(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    put(runs, "bd-abc.json", samples.run(attempt=10))
    for number in (2, 1, 9):
        failed = samples.run(attempt=number, status="failed", failure_reason="qa-failed")
        put(runs, f"bd-abc.attempt-{number}.json", failed)
    put(tmp_path / "results", "bd-abc.json", samples.result(attempt=10))
    found = attempts(tmp_path)
    assert [one.attempt for one in found] == [1, 2, 9, 10]
    assert [one.latest for one in found] == [False, False, False, True]
    assert [one.will_retry for one in found] == [None, None, None, False]
    assert [one.failure_reason for one in found] == ["qa-failed"] * 3 + [None]


def test_s4_s5_a_result_of_another_attempt_is_not_taken_for_this_one(tmp_path: Path) -> None:
    put(tmp_path / "runs", "bd-abc.json", samples.run(attempt=2, status="running", finished_at=None))
    put(tmp_path / "runs", "bd-abc.attempt-1.json", samples.run(status="failed"))
    put(tmp_path / "results", "bd-abc.json", samples.result(status="failed", will_retry=True))
    first, second = attempts(tmp_path)
    assert (first.status, first.will_retry, first.final) == ("failed", True, False)
    assert (second.status, second.will_retry, second.final) == ("running", None, False)


def test_a_result_without_its_run_is_an_attempt_all_the_same(tmp_path: Path) -> None:
    put(tmp_path / "results", "bd-abc.json", samples.result())
    [one] = attempts(tmp_path)
    assert (one.bead, one.status, one.model, one.latest) == ("bd-abc", "done", None, True)


def test_a_later_result_without_its_run_leaves_the_bead_one_latest_attempt(tmp_path: Path) -> None:
    put(tmp_path / "runs", "bd-abc.json", samples.run(attempt=1, status="failed"))
    put(tmp_path / "results", "bd-abc.json", samples.result(attempt=2))
    assert [(one.attempt, one.status, one.latest) for one in attempts(tmp_path)] == [
        (1, "failed", False),
        (2, "done", True),
    ]


def test_what_is_no_record_is_told_of_and_the_rest_is_read(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    put(runs, "bd-abc.json", samples.run())
    put(runs, "bom.json", "\ufeff" + json.dumps(samples.run(bead="bom")))
    put(runs, "cut.json", json.dumps(samples.run())[:100])
    put(runs, "list.json", [1, 2])
    put(runs, "deep.json", "[" * 100_000)
    put(runs, "foreign.json", {"name": "package"})
    put(runs, "empty.json", "")
    (runs / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (runs / "folder.json").mkdir()
    (runs / "gone.json").symlink_to(runs / "nowhere")
    with (runs / "huge.json").open("wb") as huge:
        huge.truncate(LARGEST + 1)
    put(runs, "bd-abc.json.bak", "old")
    put(runs, ".bd-abc.json.1a2b.tmp", "half")
    told: dict[str, str] = {}
    found = list(read_all(tmp_path, lambda path, why: told.update({path.name: why})))
    assert [one.bead for one in found] == ["bd-abc", "bom"]
    bad = ["cut", "list", "deep", "foreign", "empty", "bytes", "folder", "gone", "huge"]
    assert sorted(told) == sorted(f"{name}.json" for name in bad)
    assert all(told.values())


def test_a_record_with_faults_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    odd = {"bead": "x", "status": "failed", "started_at": "soon", "attempt": "one", "duration_seconds": -4}
    put(tmp_path / "runs", "x.json", odd | {"exit_code": True, "extra": [1], "max_retries": None})
    [one] = attempts(tmp_path)
    assert (one.attempt, one.started_at, one.seconds, one.exit_code) == (1, None, None, None)
    assert (one.agent, one.extra, one.max_retries) == ("unknown", {}, None)


def test_no_folder_is_no_attempt(tmp_path: Path) -> None:
    assert attempts(tmp_path / "nowhere") == []


@settings(max_examples=examples(60))
@given(st.dictionaries(st.sampled_from([*samples.run(), "extra"]), samples.ANYTHING))
def test_no_value_of_any_field_is_fatal(tmp_path_factory: Any, changes: dict[str, Any]) -> None:
    state = tmp_path_factory.mktemp("state")
    put(state / "runs", "bd-abc.json", samples.run(**changes))
    put(state / "results", "bd-abc.json", samples.result(**changes) | {"bead": "bd-abc"})
    assert len(attempts(state)) <= 2
