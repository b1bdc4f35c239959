"""A Ralph bead is what the seed's schema accepts, to two validators that know nothing of one another."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from pydantic import ValidationError

from beads_ralph.dod import files
from beads_ralph.dod.files import RalphBead
from beads_ralph.errors import RalphError
from tests.cli.running import ralph
from tests.dod.beads import EXAMPLE_NAMES, SEED_SCHEMA, bead, check, example

OURS = json.loads(files.schema_text())
SEED = Draft7Validator(SEED_SCHEMA)
PUBLISHED = Draft7Validator(OURS)


def accepted(raw: Any) -> bool:
    """By the model, which knows no JSON Schema."""
    try:
        RalphBead.model_validate(raw)
    except ValidationError:
        return False
    return True


# --- documents, some right and most of them wrong -------------------------------------------------------

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.sampled_from([0.0, 1.0, 2.5, 5.0]),
    st.sampled_from(["", "x", "task", "feature", "gate", "fast", "stop", "continue", "pending", "completed"]),
    st.just([]),
    st.just({}),
)


def mapping(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional | {"more": odd})


text = st.sampled_from(["", "x", "Build it", "naïve ✓"])
number = st.sampled_from([1, 2, 3, 4.0, 5])
verifier = mapping(
    {"name": text, "command": text},
    {
        "expect": mapping({}, {"exit_code": number, "stdout_contains": text, "stderr_contains": text}),
        "timeout_seconds": number,
        "on_failure": st.sampled_from(["stop", "continue"]),
    },
)
dod = mapping({"verifiers": st.lists(verifier, max_size=3)}, {"evidence_required": st.booleans()})
sound = mapping(
    {"intent": text, "dod": dod},
    {
        "id": text,
        "title": text,
        "type": st.sampled_from(["task", "feature", "bugfix", "gate"]),
        "priority": st.sampled_from([0, 1, 5, 2.0]),
        "lane": st.sampled_from(["fast", "feature", "maintenance", "experimental"]),
        "constraints": mapping(
            {}, {"max_iterations": number, "time_budget_minutes": st.integers(-5, 5), "deadline": text}
        ),
        "ralph_meta": mapping(
            {},
            {
                "attempt_count": st.integers(-1, 3),
                "executor_version": text,
                "retry_backoff_seconds": number,
                "last_attempt": text,
                "verifier_results": st.lists(odd, max_size=2),
            },
        ),
        "status": st.sampled_from(["pending", "in_progress", "completed", "failed", "blocked"]),
    },
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [found for key, inner in inside for found in places(inner, (*path, key))]
    return [*([path] if path else []), *below]


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A sound document in which something was put into the place of something else, or taken away."""
    raw = json.loads(json.dumps(draw(sound)))
    *way, last = draw(st.sampled_from(places(raw)))
    inside = raw
    for key in way:
        inside = inside[key]
    if draw(st.booleans()):
        del inside[last]
    else:
        inside[last] = draw(odd)
    return raw


documents = st.one_of(sound, spoiled(), odd)


@given(documents)
def test_s3_l5_the_seeds_schema_ours_and_the_model_accept_the_same_documents(raw: Any) -> None:
    wanted = SEED.is_valid(raw)
    assert PUBLISHED.is_valid(raw) == wanted
    assert accepted(raw) == wanted


@given(sound)
def test_s3_f13_what_is_accepted_is_written_back_key_for_key(raw: dict[str, Any]) -> None:
    again = RalphBead.model_validate(raw).to_json()
    assert again == raw
    assert SEED.is_valid(again)


def test_the_documents_are_of_both_kinds() -> None:
    """Otherwise the tests above could not fail."""
    found: dict[bool, int] = {True: 0, False: 0}

    @settings(max_examples=100)
    @given(documents)
    def count(raw: Any) -> None:
        found[SEED.is_valid(raw)] += 1

    count()
    assert min(found.values()) > 5


def test_s3_l5_the_schema_is_draft_07_and_sound(repo: Path) -> None:
    Draft7Validator.check_schema(OURS)
    assert OURS["$schema"] == SEED_SCHEMA["$schema"]
    assert OURS["required"] == SEED_SCHEMA["required"]
    made = ralph("init", "--json", cwd=repo)
    assert files.SCHEMA in made.data["created"]
    written = repo / ".beads" / "schemas" / "ralph-bead.schema.json"
    assert json.loads(written.read_text("utf-8")) == OURS
    written.write_text("{}", encoding="utf-8")
    assert files.SCHEMA in ralph("init", "--json", cwd=repo).data["kept"]
    assert written.read_text("utf-8") == "{}", "what exists is kept"


# --- the seed's tables and examples ---------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_s3_e1_s3_e2_s3_e3_the_seeds_examples_are_beads(name: str) -> None:
    raw = example(name)
    assert SEED.is_valid(raw)
    assert PUBLISHED.is_valid(raw)
    assert files.faults_of(raw) == []
    assert RalphBead.model_validate(raw).to_json() == raw


def test_s3_e1_the_feature_says_what_it_says() -> None:
    found = files.check(example("gt-feature-login-001"))
    assert (found.type, found.priority, found.lane) == ("feature", 1, "feature")
    assert found.dod.evidence_required is True
    assert found.constraints.max_iterations == 5
    assert found.budget_seconds() == 3600


FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("intent", {"intent": 5}),
    ("id", {"id": 5}),
    ("title", {"title": None}),
    ("type", {"type": "bug"}),
    ("priority", {"priority": 6}),
    ("priority", {"priority": -1}),
    ("lane", {"lane": "slow"}),
    ("dod.evidence_required", {"dod": {"verifiers": [check("true")], "evidence_required": "yes"}}),
    ("constraints.max_iterations", {"constraints": {"max_iterations": 0}}),
    ("constraints.time_budget_minutes", {"constraints": {"time_budget_minutes": 1.5}}),
    ("constraints.deadline", {"constraints": {"deadline": "tomorrow"}}),
    ("ralph_meta.attempt_count", {"ralph_meta": {"attempt_count": "1"}}),
    ("ralph_meta.verifier_results", {"ralph_meta": {"verifier_results": {}}}),
    ("status", {"status": "done"}),
    ("dod.verifiers.0.name", {"dod": {"verifiers": [{"command": "true"}]}}),
    ("dod.verifiers.0.command", {"dod": {"verifiers": [{"name": "x"}]}}),
    ("dod.verifiers.0.command", {"dod": {"verifiers": [check(" ", "x")]}}),
    ("dod.verifiers.0.expect.exit_code", {"dod": {"verifiers": [check("true", expect={"exit_code": "0"})]}}),
    ("dod.verifiers.0.timeout_seconds", {"dod": {"verifiers": [check("true", timeout_seconds=0)]}}),
    ("dod.verifiers.0.on_failure", {"dod": {"verifiers": [check("true", on_failure="retry")]}}),
]


@pytest.mark.parametrize(("field", "wrong"), FAULTS, ids=[field for field, _ in FAULTS])
def test_s3_f1_s3_f2_s3_f3_s3_f4_s3_f5_s3_f6_s3_f7_s3_f8_s3_f9_s3_f10_s3_f11_s3_f12_a_fault_names_its_field(
    field: str, wrong: dict[str, Any]
) -> None:
    (fault,) = files.faults_of({**bead("true"), **wrong})
    assert fault.field == field


def test_s3_v1_s3_v2_s3_v3_s3_v4_s3_v5_s3_v6_what_a_verifier_need_not_say() -> None:
    (found,) = files.check(bead(check("make test", "Tests pass"))).verifiers()
    assert (found.name, found.command) == ("Tests pass", "make test")
    assert found.expect.exit_code == 0
    assert found.expect.stdout_contains is None
    assert found.expect.stderr_contains is None
    assert found.timeout_seconds == 300
    assert found.on_failure == "stop"


@pytest.mark.parametrize("empty", [None, "", "  \n"])
def test_s3_a2_missing_intent(empty: str | None) -> None:
    raw = {**bead("true"), "intent": empty}
    for document in (raw, {key: value for key, value in raw.items() if key != "intent"}):
        assert [fault.message for fault in files.faults_of(document)] == ["Missing intent"]


@pytest.mark.parametrize("dod", [None, {}, {"verifiers": []}, {"verifiers": None}, "tests", []])
def test_s3_a3_missing_verifiers(dod: Any) -> None:
    raw = {"intent": "x", "dod": dod}
    assert [fault.message for fault in files.faults_of(raw)] == ["Missing verifiers"]
    assert [fault.message for fault in files.faults_of({})] == ["Missing intent", "Missing verifiers"]


def test_a_number_that_no_clock_can_hold_is_a_long_time() -> None:
    found = files.check(bead(check("true", timeout_seconds=10**400)))
    assert math.isfinite(float(found.verifiers()[0].timeout_seconds))


@pytest.mark.parametrize(
    "data", [b"[]", b"nonsense", b"\xff\xfe{", b'{"intent": "a", "intent": "b"}', b"", b"[" * 100_000]
)
def test_what_is_no_bead_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(RalphError):
        files.parse(data, "bead.json")


@given(st.text(max_size=40))
def test_every_id_becomes_a_name_that_stays_in_its_folder(text: str) -> None:
    key = files.key_of(text)
    assert files.SAFE.fullmatch(key)
    assert ".." not in key
    assert (Path("/a/b") / key).resolve().parent == Path("/a/b")
