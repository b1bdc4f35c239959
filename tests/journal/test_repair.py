"""Validating and mending: the seed's command lines, older records, and files that are no records at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beads_ralph.journal.records import repair
from beads_ralph.journal.records.agreement import contradictions
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.model import MODELS, Kind
from tests.cli.running import environment, ralph
from tests.journal import samples
from tests.selection import examples

PROJECT = Path(__file__).parents[2]
SCRIPT = PROJECT / "scripts" / "validate-state.sh"
SAMPLES: dict[Kind, Any] = {"run": samples.run, "result": samples.result}


def put(folder: Path, name: str, raw: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")
    return path


def script(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *words], cwd=cwd, env=environment({}), capture_output=True, text=True, check=False
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    put(folder / "runs", "bd-abc.json", samples.run())
    put(folder / "results", "bd-abc.json", samples.result())
    return folder


# --- the script -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--runs", "--results", "--all"])
def test_s4_v1_s4_v2_s4_v5_all_valid_is_0_and_any_fault_is_1(state: Path, flag: str) -> None:
    assert script(state.parent, flag).returncode == 0
    for folder in ("runs", "results"):
        put(state / folder, "bd-odd.json", {"bead": "bd-odd"})
    ended = script(state.parent, flag)
    assert ended.returncode == 1
    assert "bd-odd.json: field status is required" in ended.stderr


def test_s4_v1_s4_v2_each_flag_looks_at_its_own(state: Path) -> None:
    put(state / "runs", "bd-odd.json", {"bead": "bd-odd"})
    assert [script(state.parent, flag).returncode for flag in ("--runs", "--results", "--all")] == [1, 0, 1]


def test_s4_v3_one_file_is_validated_alone(state: Path) -> None:
    put(state / "runs", "bd-odd.json", {"bead": "bd-odd"})
    assert script(state.parent, "--runs", "state/runs/bd-abc.json").returncode == 0
    assert script(state.parent, "--runs", "state/runs/bd-odd.json").returncode == 1
    assert script(state.parent, "--runs", "state/runs/nowhere.json").returncode == 1
    assert script(state.parent, "--results", "state/runs/bd-abc.json").returncode == 1


def test_s4_v4_s4_v5_fix_adds_missing_nullable_fields_and_keeps_the_old_file(state: Path) -> None:
    old = samples.run()
    for name in ("output_summary", "failure_reason", "template_name", "prompt_full"):
        del old[name]
    path = put(state / "runs", "bd-abc.json", old)
    assert script(state.parent, "--runs").returncode == 1
    assert script(state.parent, "--fix", "--runs").returncode == 0
    added = {"output_summary": None, "failure_reason": None, "template_name": None}
    assert json.loads(path.read_text()) == old | added | {"prompt_full": old["prompt"]}
    assert json.loads(path.with_name("bd-abc.json.bak").read_text()) == old
    assert script(state.parent, "--runs").returncode == 0


@pytest.mark.parametrize("words", [(), ("--fix",), ("state/runs/bd-abc.json",), ("--bogus", "--runs")])
def test_without_a_kind_it_says_how_it_is_called_and_fails(state: Path, words: tuple[str, ...]) -> None:
    ended = script(state.parent, *words)
    assert ended.returncode == 1
    assert "Usage: validate-state.sh --runs|--results|--all [--fix] [FILE]" in ended.stderr


def test_a_copy_of_the_script_uses_what_is_installed(state: Path, tmp_path: Path) -> None:
    copy = shutil.copy(SCRIPT, tmp_path / "elsewhere.sh")
    path = f"{PROJECT / '.venv' / 'bin'}:{os.environ['PATH']}"
    put(state / "runs", "two words & more.json", {"bead": "bd-odd"})
    for flag, code in (("--results", 0), ("--runs", 1)):
        ended = subprocess.run(
            [str(copy), flag], cwd=state.parent, env=environment({"PATH": path}), check=False
        )
        assert ended.returncode == code


# --- the command ------------------------------------------------------------------------------------


def test_the_command_names_every_fault_of_every_file(state: Path) -> None:
    put(state / "runs", "bd-odd.json", samples.run(bead="bd-odd", attempt=0, status="lost"))
    ran = ralph("state", "validate", "--json", cwd=state.parent)
    assert ran.code == 1
    told = ran.error["details"]
    assert {fault["field"] for fault in told["faults"]} == {"attempt", "status"}
    assert (told["valid"], told["invalid"]) == (2, 1)


def test_s4_s1_s4_s5_a_result_must_match_its_run(state: Path) -> None:
    put(state / "results", "bd-abc.json", samples.result(attempt=2))
    report = repair.check(state / "results" / "bd-abc.json", "result")
    assert [fault.field for fault in report.faults] == ["attempt"]
    put(state / "runs", "bd-abc.attempt-2.json", samples.run(attempt=2))
    assert not repair.check(state / "results" / "bd-abc.json", "result").faults


def test_s4_s1_a_result_without_any_run_is_warned_of(state: Path) -> None:
    path = put(state / "results", "bd-lone.json", samples.result(bead="bd-lone"))
    report = repair.check(path, "result")
    assert not report.faults
    assert [warning.message for warning in report.warnings] == ["there is no run record of bd-lone"]


BAD = {
    "cut": json.dumps(samples.run())[:90],
    "empty": "",
    "foreign": '{"name": "package", "version": 1}',
    "list": "[]",
    "deep": "[" * 50_000,
    "constant": '{"bead": NaN}',
    "twice": '{"bead": "a", "bead": "b"}',
    "half": '{"bead": "\\ud800"}',
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_record_is_reported_and_left_as_it_is(state: Path, name: str) -> None:
    path = put(state / "runs", f"{name}.json", BAD[name])
    assert repair.check(path, "run").faults
    assert repair.fix(path, "run").faults
    assert path.read_text() == BAD[name]
    assert sorted(one.name for one in path.parent.iterdir()) == sorted(["bd-abc.json", path.name])


def test_bytes_folders_pipes_links_and_huge_files_are_reported_too(state: Path) -> None:
    runs = state / "runs"
    (runs / "bytes.json").write_bytes(b"\xff\xfe{}")
    (runs / "folder.json").mkdir()
    os.mkfifo(runs / "pipe.json")
    (runs / "link.json").symlink_to("nowhere")
    with (runs / "huge.json").open("wb") as huge:
        huge.truncate(33 * 1024 * 1024)
    ended = script(state.parent, "--all", "--fix")
    assert ended.returncode == 1
    for name in ("bytes", "folder", "pipe", "link", "huge"):
        assert f"{name}.json: " in ended.stderr
    assert "5 not valid" in ended.stderr


def test_a_byte_order_mark_is_a_fault_that_can_be_mended(state: Path) -> None:
    path = put(state / "runs", "bd-abc.json", "\ufeff" + json.dumps(samples.run()))
    assert [fault.message for fault in repair.check(path, "run").faults] == [
        "begins with a byte order mark, which is not JSON"
    ]
    assert repair.fix(path, "run").mended == ("byte order mark removed",)
    assert not repair.check(path, "run").faults


def test_what_has_no_place_is_kept_in_extra(state: Path) -> None:
    long = samples.run(failure_reason="the cat", status="failed", output_summary="x" * 600, host="h1")
    whole = hashlib.sha256(b"p" * 300).hexdigest()
    said = {"prompt": "p" * 300, "prompt_full": "p" * 300, "prompt_hash": whole}
    path = put(state / "runs", "bd-abc.json", long | said)
    assert not repair.fix(path, "run").faults
    found = json.loads(path.read_text())
    assert found["extra"] == {"failure_detail": "the cat", "output_full": "x" * 600, "x_host": "h1"}
    assert (found["failure_reason"], found["prompt"], len(found["output_summary"])) == (
        "other",
        "p" * 200,
        500,
    )


EARLIER = "2026-02-11T09:00:00Z"
UNTRUE: list[tuple[Kind, dict[str, Any], str]] = [
    ("run", {"finished_at": EARLIER}, "finished_at"),
    ("run", {"status": "failed"}, "failure_reason"),
    ("run", {"failure_reason": "qa-failed"}, "failure_reason"),
    ("run", {"prompt_hash": "0" * 64}, "prompt_hash"),
    ("result", {"finished_at": EARLIER}, "finished_at"),
    ("result", {"will_retry": True}, "will_retry"),
    ("result", {"status": "failed"}, "status"),
]


@pytest.mark.parametrize(("kind", "changes", "field"), UNTRUE)
def test_a_record_that_contradicts_itself_or_its_run_is_not_valid(
    state: Path, kind: Kind, changes: dict[str, Any], field: str
) -> None:
    put(state / "runs", "bd-abc.json", samples.run(**(changes if kind == "run" else {})))
    put(state / "results", "bd-abc.json", samples.result(**(changes if kind == "result" else {})))
    faults = [fault for report in repair.check_all(repair.find(state, [kind])) for fault in report.faults]
    assert [fault.field for fault in faults] == [field]
    assert repair.fix(state / f"{kind}s" / "bd-abc.json", kind).mended == (), "nobody guesses which is true"


def test_an_attempt_has_one_file_and_a_bead_that_was_made_anew_begins_again(state: Path) -> None:
    once_more = {"started_at": "2026-02-12T10:00:00Z", "finished_at": "2026-02-12T10:05:00Z"}
    put(state / "runs", "bd-abc.json", samples.run(**once_more))
    put(state / "runs", "bd-abc.attempt-1.json", samples.run())
    assert not any(report.faults for report in repair.check_all(repair.find(state, ["run"])))
    put(state / "runs", "bd-abc.attempt-1-2.json", samples.run())
    put(state / "runs", "bd-abc.attempt-1-3.json", samples.run())
    wrong = [report.path.name for report in repair.check_all(repair.find(state, ["run"])) if report.faults]
    assert len(wrong) == 2
    assert set(wrong) < {f"bd-abc.attempt-1{more}.json" for more in ("", "-2", "-3")}


def test_a_hash_that_a_shell_made_with_a_line_end_is_one_too() -> None:
    echoed = hashlib.sha256(f"{samples.PROMPT}\n".encode()).hexdigest()
    assert [*contradictions(samples.run(prompt_hash=echoed), "run")] == []


def test_no_backup_is_overwritten(state: Path) -> None:
    path = state / "runs" / "bd-abc.json"
    olds = []
    for number in range(3):
        old = samples.run(attempt=number + 1)
        del old["template_name"]
        olds.append(put(state / "runs", "bd-abc.json", old).read_text())
        assert repair.fix(path, "run").mended
    kept = ["bd-abc.json.bak", "bd-abc.json-2.bak", "bd-abc.json-3.bak"]
    assert [(path.with_name(name)).read_text() for name in kept] == olds


@settings(max_examples=examples(40))
@given(st.data(), st.sampled_from(["run", "result"]))
def test_s4_v4_what_validates_survives_write_read_fix_and_validate_unchanged(
    tmp_path_factory: Any, data: st.DataObject, kind: Kind
) -> None:
    raw = data.draw(samples.RUNS if kind == "run" else samples.RESULTS)
    record = MODELS[kind].model_validate(raw)
    state = StateFolder(tmp_path_factory.mktemp("state"))
    state.prepare()
    state.write(record)
    path = state.run_file(raw["bead"]) if kind == "run" else state.result_file(raw["bead"])
    before = path.read_bytes()
    untrue = [name for name, _ in contradictions(raw, kind)]
    assert [fault.field for fault in repair.check(path, kind).faults] == untrue
    assert not repair.fix(path, kind).mended
    assert path.read_bytes() == before
    assert MODELS[kind].model_validate(json.loads(before)) == record
    assert [one.name for one in path.parent.glob("*.bak")] == []


@settings(max_examples=examples(40))
@given(st.data(), st.sampled_from(["run", "result"]))
def test_mending_is_whole_or_not_at_all_and_loses_nothing(
    tmp_path_factory: Any, data: st.DataObject, kind: Kind
) -> None:
    raw = dict(SAMPLES[kind](), **data.draw(st.dictionaries(samples.TEXT, samples.ANYTHING, max_size=2)))
    for name in data.draw(st.lists(st.sampled_from(sorted(raw)), unique=True)):
        del raw[name]
    path = put(tmp_path_factory.mktemp("state") / f"{kind}s", "bd-abc.json", raw)
    before = path.read_bytes()
    report = repair.fix(path, kind)
    if report.mended:
        assert report.backup is not None
        assert report.backup.read_bytes() == before
        now = json.loads(path.read_bytes())
        MODELS[kind].model_validate(now)
        known = MODELS[kind].model_fields
        assert all(now[key] == value for key, value in raw.items() if key in known and key != "extra")
        assert all(now["extra"][f"x_{key}"] == value for key, value in raw.items() if key not in known)
    else:
        assert path.read_bytes() == before
