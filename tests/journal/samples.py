"""Records to test with: one of each kind, and strategies for many."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import strategies as st

from beads_ralph.journal.records.model import FOREIGN, REASONS

PROMPT = "Build the parser.\nUse the grammar in docs/grammar.md."


def run(**changes: Any) -> dict[str, Any]:
    """A run record with the seed's fields and no others."""
    return {
        "bead": "bd-abc",
        "agent": "claude",
        "model": "sonnet",
        "repo": "/home/you/shop",
        "prompt": PROMPT,
        "prompt_full": PROMPT,
        "prompt_hash": hashlib.sha256(PROMPT.encode()).hexdigest(),
        "started_at": "2026-02-11T10:00:00Z",
        "finished_at": "2026-02-11T10:05:00Z",
        "duration_seconds": 300,
        "status": "done",
        "attempt": 1,
        "max_retries": 2,
        "exit_code": 0,
        "output_summary": "all green",
        "failure_reason": None,
        "template_name": "feature",
    } | changes


def result(**changes: Any) -> dict[str, Any]:
    """A result record with the seed's fields and no others."""
    return {
        "bead": "bd-abc",
        "status": "done",
        "agent": "claude",
        "started_at": "2026-02-11T10:00:00Z",
        "finished_at": "2026-02-11T10:05:00Z",
        "duration_seconds": 300,
        "attempt": 1,
        "max_retries": 2,
        "will_retry": False,
        "exit_code": 0,
        "output_summary": "all green",
        "reason": "every check passed",
    } | changes


# --- strategies -------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SAID = TEXT.filter(lambda text: text.strip() != "" and any(not char.isspace() for char in text)).map(
    lambda text: text + "x"
)
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds") + "Z")
AMOUNTS = st.floats(0, 1e9) | st.integers(0, 10**9)
CODES = st.none() | st.integers(-255, 255)
STATUSES = st.sampled_from(["running", "done", "failed", "timeout"])
BEADS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,20}", fullmatch=True)
REASONS_GIVEN = st.sampled_from([*REASONS, *FOREIGN, "watch-timeout-3600s"])
USAGE = st.fixed_dictionaries({}, optional={"input_tokens": st.integers(0, 10**9), "cost_usd": AMOUNTS})
EXTRA = st.fixed_dictionaries(
    {},
    optional={
        "run_id": SAID,
        "team": st.none() | TEXT,
        "parallel": st.integers(0, 64),
        "usage": USAGE,
        "calls": st.lists(st.fixed_dictionaries({"role": SAID, "agent": SAID}, optional={"usage": USAGE})),
        "checks": st.lists(
            st.fixed_dictionaries(
                {"name": TEXT, "kind": SAID, "ruling": st.sampled_from(["pass", "fail", "stop"])},
                optional={"seconds": AMOUNTS, "red_before": st.none() | st.booleans()},
            )
        ),
        "of_a_later_version": st.lists(st.integers()),
    },
)
VERIFICATION = st.none() | st.fixed_dictionaries(
    {}, optional={"lint": st.sampled_from(["pass", "fail", "skipped"]), "ubs": st.just("clean")}
)
SHARED: dict[str, st.SearchStrategy[Any]] = {
    "bead": BEADS,
    "status": STATUSES,
    "agent": SAID,
    "started_at": MOMENTS,
    "finished_at": st.none() | MOMENTS,
    "duration_seconds": st.none() | AMOUNTS,
    "attempt": st.integers(1, 99),
    "max_retries": st.integers(1, 99),
    "exit_code": CODES,
    "output_summary": st.none() | TEXT,
}
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "schema_version": st.just(1),
    "verification": VERIFICATION,
    "extra": st.none() | EXTRA,
}


def _sound(raw: dict[str, Any]) -> dict[str, Any]:
    return raw | {"finished_at": None} if raw["status"] == "running" else raw


RUNS = st.fixed_dictionaries(
    SHARED
    | {
        "model": SAID,
        "repo": TEXT.map(lambda text: "/" + text.replace("\0", "")),
        "prompt": TEXT,
        "prompt_full": TEXT,
        "prompt_hash": st.binary().map(lambda data: hashlib.sha256(data).hexdigest()),
        "failure_reason": st.none() | REASONS_GIVEN,
        "template_name": st.none() | SAID,
    },
    optional=OPTIONAL | {"session_name": st.none() | SAID, "result_file": st.none() | SAID},
).map(_sound)
RESULTS = st.fixed_dictionaries(
    SHARED | {"will_retry": st.booleans(), "reason": SAID}, optional=OPTIONAL
).map(_sound)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False, width=16) | TEXT | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
