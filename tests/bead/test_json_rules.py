"""The exported JSON Schema and the validator say the same of what one field holds."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beads_ralph.bead import schema
from beads_ralph.bead.field_types import FrozenModel, Timestamp
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import DevExecution
from tests.bead.samples import GONE, NEW, blamed, changed, sample, work

BEAD = jsonschema.Draft202012Validator(schema.json_schema("Bead"))
ODD = "ab1Z_-./\\@{~^:?*[] \n\t\0\x1f\x7f\xa0\xad\u200b\u2028\u3000é漢"
TEXTS = st.text(st.sampled_from(ODD), max_size=8)


def both(raw: Any) -> bool:
    """What both say of it; they must agree."""
    by_schema, by_model = BEAD.is_valid(raw), not blamed(raw)
    assert by_schema == by_model, (by_schema, blamed(raw))
    return by_schema


@pytest.mark.parametrize(
    "path",
    [
        "id",
        "title",
        "parent",
        "dependencies",
        "labels",
        "metadata.rig",
        "metadata.branch",
        "metadata.source_branch",
        "metadata.worktree_path",
        "metadata.team_name",
        "metadata.dev_prompts",
        "metadata.dev_agents.0.agent",
        "metadata.dev_agents.0.fallback",
        "metadata.pr_url",
        "metadata.scrum_master_session_id",
    ],
)
@given(
    text=TEXTS
    | st.sampled_from(
        [
            *(
                "HEAD",
                "@",
                "a/HEAD",
                "a.lock",
                "a.lock/b",
                "x/.a",
                "a.",
                "a/b\n",
                "-x",
                "a..b",
                "C:/x",
                "//s/t",
            ),
            *(
                "\\\\s\\t",
                "\\\\s",
                "claude:gpt",
                "claude:opus",
                "claude:opus\n",
                "codex:",
                "x:y",
                "/a\0",
                "/\n",
            ),
        ]
    )
)
def test_a_text(path: str, text: str) -> None:
    several = path in ("dependencies", "labels", "metadata.dev_prompts", "metadata.dev_agents.0.fallback")
    both(changed(sample("work"), path, [text] if several else text))


@given(phase=st.text("1\N{DEVANAGARI DIGIT ONE}a.-\n", max_size=4), sprint=st.text("1a.-\n", max_size=4))
@example(phase="1\n", sprint="1")
@example(phase="1", sprint="1\n")
def test_a_number_of_a_sprint(phase: str, sprint: str) -> None:
    both(changed(work("metadata.phase", phase), "metadata.sprint", f"{phase}.{sprint}"))


CLOCKS = st.sampled_from(
    [
        *("", "T10", "T10:00", " 10:00:00", "T100000", "T10:00:00.123456789", "T10:00:00,5"),
        *("T24:00", "T10:60", "x1", "T23:59:60", "T1000:00"),
    ]
)
ZONES = st.sampled_from(["", "Z", "z", "+01:00", "-0530", "+05", "+24:00", "+01:00:30", "+1", "Zz", "Z\n"])
DATES = st.builds(
    lambda year, month, day, dash: f"{year:04}{dash}{month:02}{dash}{day:02}",
    st.sampled_from([0, 1900, 2000, 2023, 2024, 9998]),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from(["-", "", "/"]),
) | st.sampled_from(["2026-W01", "2026-W52-7", "2026W011", "2026-W00", "2026-W10-8", "26-02-07", "soon", ""])


@given(DATES, CLOCKS, ZONES)
@example("2023-02-29", "T10:00", "Z")
@example("2024-02-29", "T10:00", "Z")
@example("1900-02-29", "T10:00", "Z")
def test_a_time(date: str, clock: str, zone: str) -> None:
    both(work("created_at", f"{date}{clock}{zone}"))


def leaves(value: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of a bead where something stands."""
    if way:
        yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from leaves(below, (*way, str(key)))


VALUES: list[Any] = [
    *(None, "", " ", "x", "a/b", "../x", "/abs", "x\n", "2026-02-30T10:00:00Z", "2026-02-28T10:00:00Z"),
    *(0, -1, 5, 10**10, 1.5, -0.5, True, [], [""], ["x"], [1], {}, {"a": 1}, GONE),
    {"properties": {"status": {"enum": ["pass"]}, "message": {}}, "required": ["status", "message"]},
    {"verifiers": [{"name": "x", "command": "make"}]},
]
CROSSING = ("metadata.phase", "metadata.sprint")
"""Rules between two fields are not for a JSON Schema to say."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NEW)
def test_any_value_in_the_place_of_any_other(name: str) -> None:
    raw = sample(name)
    places = [".".join(way) for way in leaves(raw)]
    extra = [f"metadata.{place}" for place in ("dod", "budget_usd", "deadline", "dev_agents.0.output_schema")]
    for place in (*places, *extra):
        if place not in CROSSING:
            for value in VALUES if place in places else VALUES[:-3]:
                both(changed(raw, place, value))


def test_where_verifiers_prove_nobody_need_judge() -> None:
    raw = work("metadata.qa_agents", [])
    assert not both(raw)
    assert both(changed(raw, "metadata.dod", {"verifiers": [{"name": "x", "command": "make"}]}))
    assert not both(changed(raw, "metadata.dod", None))


# --- Python's own times -------------------------------------------------------------------------------


class Timed(FrozenModel):
    at: Timestamp


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)), st.integers(-14, 14))  # noqa: DTZ001
def test_a_time_of_python_is_the_same_moment_as_a_text(moment: datetime, hours: int) -> None:
    for given_time in (moment, moment.replace(tzinfo=timezone(timedelta(hours=hours)))):
        text = Timed(at=given_time).at  # type: ignore[arg-type]
        known = given_time if given_time.tzinfo else given_time.replace(tzinfo=UTC)
        assert datetime.fromisoformat(text) == known.replace(microsecond=0)
        assert text.endswith("Z")


def test_beads_and_their_parts_take_times_of_python() -> None:
    moment = datetime(2026, 2, 7, 10, 0, tzinfo=UTC)
    assert Bead.model_validate(work("created_at", moment)).to_json()["created_at"] == "2026-02-07T10:00:00Z"
    row = {"attempt": 1, "agent_path": "x", "started_at": moment, "status": "completed"}
    assert DevExecution.model_validate(row).to_json()["started_at"] == "2026-02-07T10:00:00Z"
