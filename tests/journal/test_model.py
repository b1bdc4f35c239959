"""Run and result records: their fields, and that the published schemas say what the models do."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import ValidationError

from beads_ralph.journal.records.model import (
    MODELS,
    REASONS,
    Broken,
    Called,
    Checked,
    Extra,
    Kind,
    ResultRecord,
    RunRecord,
    Spent,
    Verification,
    json_schema,
)
from tests.journal import samples

FORMATS = FormatChecker(())


@FORMATS.checks("date-time", ValueError)
def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or bool(datetime.fromisoformat(value))


VALIDATORS = {kind: Draft202012Validator(json_schema(kind), format_checker=FORMATS) for kind in MODELS}
SAMPLES: dict[Kind, Any] = {"run": samples.run, "result": samples.result}


def accepted(kind: Kind, raw: Any) -> bool:
    """What the model says, having made sure that the published schema says the same."""
    try:
        MODELS[kind].model_validate(raw)
        taken = True
    except ValidationError:
        taken = False
    assert VALIDATORS[kind].is_valid(raw) == taken
    return taken


def refused_fields(kind: Kind, raw: Any) -> list[str]:
    with pytest.raises(ValidationError) as problem:
        MODELS[kind].model_validate(raw)
    assert not VALIDATORS[kind].is_valid(raw)
    return [str(error["loc"][0]) for error in problem.value.errors() if error["loc"]]


# --- the seed's fields ------------------------------------------------------------------------------


def test_s4_r1_s4_r17_a_record_of_the_seeds_own_fields_is_valid() -> None:
    assert accepted("run", samples.run())
    assert accepted("result", samples.result())


@pytest.mark.parametrize("kind", MODELS)
def test_the_schemas_are_valid_schemas(kind: Kind) -> None:
    Draft202012Validator.check_schema(json_schema(kind))


@pytest.mark.parametrize(
    "name", ["bead", "agent", "model", "repo", "prompt", "prompt_hash", "started_at", "status", "attempt"]
)
def test_s4_r1_s4_r2_s4_r3_s4_r4_s4_r7_s4_r8_a_run_without_it_is_refused(name: str) -> None:
    raw = samples.run()
    del raw[name]
    assert refused_fields("run", raw) == [name]


NULLABLE = (
    "finished_at",
    "duration_seconds",
    "exit_code",
    "output_summary",
    "failure_reason",
    "template_name",
)


@pytest.mark.parametrize("name", NULLABLE)
def test_s4_r9_s4_r10_s4_r14_s4_r16_may_be_null_but_must_be_there(name: str) -> None:
    raw = samples.run(**{name: None})
    assert accepted("run", raw)
    del raw[name]
    assert refused_fields("run", raw) == [name]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("bead", "../../etc/passwd"),
        ("bead", ""),
        ("bead", "two words"),
        ("agent", " "),
        ("repo", "relative/path"),
        ("prompt", "x" * 201),
        ("prompt_full", None),
        ("prompt_hash", "A" * 64),
        ("prompt_hash", "a" * 63),
        ("started_at", "yesterday"),
        ("started_at", "2026-02-30T10:00:00Z"),
        ("started_at", None),
        ("finished_at", "2026-02-11"),
        ("duration_seconds", -1),
        ("duration_seconds", "300"),
        ("status", "success"),
        ("attempt", 0),
        ("attempt", 1.5),
        ("attempt", True),
        ("max_retries", 0),
        ("exit_code", "0"),
        ("output_summary", "x" * 501),
        ("failure_reason", "because"),
        ("template_name", ""),
        ("schema_version", 2),
        ("schema_version", True),
        ("unheard_of", 1),
    ],
)
def test_s4_r5_s4_r6_s4_r11_s4_r12_s4_r13_s4_r15_a_wrong_value_is_refused(name: str, wrong: Any) -> None:
    assert refused_fields("run", samples.run(**{name: wrong})) == [name]


@pytest.mark.parametrize("status", ["running", "done", "failed", "timeout"])
def test_s4_b1_s4_s2_there_are_four_statuses(status: str) -> None:
    finished = None if status == "running" else "2026-02-11T10:05:00Z"
    assert accepted("run", samples.run(status=status, finished_at=finished))
    assert accepted("result", samples.result(status=status, finished_at=finished))


@pytest.mark.parametrize("kind", MODELS)
def test_s4_r9_what_is_running_is_not_finished(kind: Kind) -> None:
    assert not accepted(kind, SAMPLES[kind](status="running"))


@pytest.mark.parametrize("name", sorted(samples.result()))
def test_s4_s1_s4_s3_s4_s4_s4_s5_s4_s6_s4_s8_s4_s9_every_field_of_a_result_is_needed(name: str) -> None:
    raw = samples.result()
    del raw[name]
    assert refused_fields("result", raw) == [name]


@pytest.mark.parametrize(
    ("name", "wrong"), [("will_retry", None), ("will_retry", 1), ("reason", ""), ("reason", None)]
)
def test_s4_s7_s4_s10_whether_it_goes_on_and_why_it_ended(name: str, wrong: Any) -> None:
    assert refused_fields("result", samples.result(**{name: wrong})) == [name]


def test_any_program_may_be_the_agent_and_times_may_have_any_zone() -> None:
    assert accepted("run", samples.run(agent="opencode", started_at="2026-02-11T10:00:00.25+01:00"))
    assert accepted("run", samples.run(failure_reason="watch-timeout-3600s", attempt=2.0))


def test_every_reason_has_a_meaning() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "records.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| \S.* \|$", text, re.MULTILINE)
    assert [name for name in rows if name in REASONS] == list(REASONS)


def test_every_field_and_every_reason_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "records.md").read_text(encoding="utf-8")
    parts = (RunRecord, ResultRecord, Extra, Called, Checked, Broken, Spent, Verification)
    names = [name for model in parts for name in model.model_fields]
    assert [name for name in (*names, *REASONS) if f"`{name}`" not in text] == []


# --- for every record -------------------------------------------------------------------------------


@given(samples.RUNS)
def test_s4_d1_a_run_survives_a_round_trip(raw: dict[str, Any]) -> None:
    assert accepted("run", raw)
    record = RunRecord.model_validate(raw)
    again = json.loads(json.dumps(record.to_json()))
    assert accepted("run", again)
    assert RunRecord.model_validate(again) == record
    assert {key: again[key] for key in raw if key not in ("extra", "verification")} == {
        key: value for key, value in raw.items() if key not in ("extra", "verification")
    }


@given(samples.RESULTS)
def test_s4_d1_a_result_survives_a_round_trip(raw: dict[str, Any]) -> None:
    assert accepted("result", raw)
    record = ResultRecord.model_validate(raw)
    again = json.loads(json.dumps(record.to_json()))
    assert accepted("result", again)
    assert ResultRecord.model_validate(again) == record


@given(st.data(), st.sampled_from(["run", "result"]))
def test_s4_d1_schema_and_model_agree_on_every_record_with_one_value_changed(
    data: st.DataObject, kind: Kind
) -> None:
    raw = dict(data.draw(samples.RUNS if kind == "run" else samples.RESULTS))
    name = data.draw(st.sampled_from([*raw, "unheard_of"]))
    if data.draw(st.booleans()):
        raw.pop(name, None)
    else:
        raw[name] = data.draw(samples.ANYTHING)
    accepted(kind, raw)
