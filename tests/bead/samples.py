"""The seed's beads, ways to break them, and beads at random."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from beads_ralph.bead import schema
from beads_ralph.bead.schema import SchemaName

PROJECT = Path(__file__).parents[2]
FIXTURES = PROJECT / "tests" / "fixtures" / "beads"
NEW = ("work", "merge", "completed", "migration_after")
OLD = ("legacy", "migration_before")
GONE = object()
"""The value of a field that is to be left out."""


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def changed(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the value at `metadata.dev_agents.0.role` replaced, or left out where it is GONE."""
    bead = copy.deepcopy(raw)
    *way, last = path.split(".")
    place: Any = bead
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    key: Any = int(last) if isinstance(place, list) else last
    if value is GONE:
        del place[key]
    else:
        place[key] = value
    return bead


def work(path: str, value: Any) -> dict[str, Any]:
    """The seed's work bead with one value changed."""
    return changed(sample("work"), path, value)


def messages(raw: Any, name: SchemaName = "4.1a") -> list[str]:
    return [fault.message for fault in schema.check(raw, name).faults]


def blamed(raw: Any, name: SchemaName = "4.1a") -> list[str | None]:
    """The field paths of all faults."""
    return [fault.field for fault in schema.check(raw, name).faults]


# --- beads at random --------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
FILLED = TEXT.filter(lambda text: bool(text.strip()))
# What a run passes to programs: a null character in it would end the run.
WORDS = TEXT.filter(lambda text: "\0" not in text)
KEYS = st.text("abcdefgh_", min_size=1, max_size=6).map(lambda name: f"x_{name}")
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(KEYS, JSON, max_size=3)
IDS = st.from_regex(r"bd-[a-z0-9-]{1,12}", fullmatch=True)
PHASES = st.from_regex(r"[0-9]{1,4}[a-z]{0,2}", fullmatch=True)
BRANCHES = st.from_regex(r"[a-z0-9_]{1,6}(/[a-zA-Z0-9_-]{1,8}){0,2}", fullmatch=True)
TIMES = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
MODEL = st.sampled_from(["haiku", "sonnet", "opus"])


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Any part of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def with_unknown(known: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(known, UNKNOWN).map(lambda pair: {**pair[1], **pair[0]})


AGENTS = with_unknown(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["polecat", "witness", "mayor"]), "agent": FILLED},
        optional={
            "model": st.none() | MODEL,
            "executable": st.just("claude"),
            "options": st.none() | st.lists(TEXT, max_size=2),
            "context": st.none() | TEXT,
            "agent_id": st.none() | TEXT,
            "env": st.none() | st.dictionaries(TEXT, TEXT, max_size=2),
        },
    )
)
DEV_EXECUTIONS = with_unknown(
    st.fixed_dictionaries(
        {
            "attempt": st.integers(1, 9),
            "agent_path": WORDS,
            "started_at": TIMES,
            "status": st.sampled_from(["completed", "failed", "timeout"]),
        },
        optional={"session_id": st.none() | WORDS, "model": WORDS, "completed_at": st.none() | TIMES},
    )
)
TRACKING: dict[str, st.SearchStrategy[Any]] = {
    "max_retry_attempts": st.integers(1, 9),
    "attempt_count": st.integers(0, 9),
    "scrum_master_session_id": st.none() | WORDS,
    "dev_agent_session_id": st.none() | WORDS,
    "dev_agent_executions": st.none() | st.lists(DEV_EXECUTIONS, max_size=2),
    "qa_agent_executions": st.just([]),
    "pr_url": st.none() | WORDS,
    "pr_number": st.none() | st.integers(1, 9),
}
CORE: dict[str, st.SearchStrategy[Any]] = {
    "description": TEXT,
    "priority": st.integers(0, 4),
    "owner": st.none() | TEXT,
    "labels": st.lists(FILLED, max_size=2),
    "comments": st.lists(TEXT | st.dictionaries(TEXT, JSON, max_size=2), max_size=2),
    "external_ref": st.none() | TEXT,
    "created_at": st.none() | TIMES,
    "updated_at": TIMES,
}


@st.composite
def places(draw: st.DrawFn) -> dict[str, Any]:
    """The metadata that both schemas share."""
    phase = draw(PHASES)
    sprint = f"{phase}.{draw(PHASES)}"
    return {
        "branch": draw(BRANCHES),
        "source_branch": draw(BRANCHES),
        "phase": phase,
        "sprint": sprint,
        "plan_file": draw(FILLED),
        "plan_section": draw(FILLED),
        "plan_sprint_id": sprint,
        "dev_prompts": draw(st.lists(FILLED, min_size=1, max_size=2)),
        **draw(some(TRACKING)),
        **draw(UNKNOWN),
    }


@st.composite
def beads(draw: st.DrawFn, metadata: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    bead_id, *needs = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    merge = draw(st.booleans())
    branches = draw(st.lists(BRANCHES, min_size=1, max_size=2)) if merge else None
    return {
        "id": bead_id,
        "title": draw(FILLED),
        "status": draw(st.sampled_from(["open", "in_progress", "closed", "blocked"])),
        "issue_type": "beads-ralph-merge" if merge else "beads-ralph-work",
        "assignee": "beads-ralph-scrum-master",
        "dependencies": needs,
        **draw(some(CORE)),
        **draw(UNKNOWN),
        "metadata": {**draw(metadata), "branches_to_merge": branches},
    }


@st.composite
def new_metadata(draw: st.DrawFn) -> dict[str, Any]:
    return {
        **draw(places()),
        "rig": draw(FILLED),
        "worktree_path": "/" + draw(TEXT.filter(lambda text: "\0" not in text)),
        "team_name": draw(FILLED),
        "scrum_master_agent": draw(AGENTS),
        "dev_agents": draw(st.lists(AGENTS, min_size=1, max_size=2)),
        "qa_agents": draw(st.lists(AGENTS, min_size=1, max_size=2)),
    }


OLD_QA = with_unknown(
    st.fixed_dictionaries(
        {"agent_path": FILLED, "model": MODEL},
        optional={"prompt": st.none() | TEXT, "agent_type": st.none() | TEXT},
    )
)
OLD_SCRUM = (
    st.none()
    | TEXT
    | with_unknown(st.fixed_dictionaries({"bead_id": TEXT, "success": st.booleans()}))
)  # fmt: skip


@st.composite
def old_metadata(draw: st.DrawFn) -> dict[str, Any]:
    return {
        **draw(places()),
        "rig": "beads-ralph",
        "worktree_path": draw(FILLED.filter(lambda text: "\0" not in text)),
        "dev_agent_path": draw(FILLED),
        "dev_model": draw(MODEL),
        "qa_agents": draw(st.lists(OLD_QA, min_size=1, max_size=2)),
        **draw(some({"agent_type": TEXT, "team_name": st.none() | FILLED, "scrum_result": OLD_SCRUM})),
    }
