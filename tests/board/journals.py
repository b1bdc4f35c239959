"""Journals and states for tests of the boards, without a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from beads_ralph.journal import runs

RUN = "20261116T100000000Z-abcd"
AT = "2026-11-16T10:00:{:06.3f}Z"


def row(kind: str, second: float = 0, bead: str | None = None, **facts: Any) -> dict[str, Any]:
    whose = {"bead": bead} if bead else {}
    return {"kind": kind, "at": AT.format(second), "run_id": RUN, **whose, **facts}


def started(parallel: int = 2) -> dict[str, Any]:
    return row("run_started", max_parallel=parallel, actor="somebody")


def claimed(bead: str, second: float, title: str = "A title", attempt: int = 1) -> dict[str, Any]:
    return row(
        *("bead_claimed", second, bead),
        team=f"team-{bead}",
        attempt=attempt,
        title=title,
        bead_kind="work",
        sprint="1.1",
        plan_file="plan.md",
        branch=f"feature/{bead}",
        max_attempts=3,
    )


def call(kind: str, bead: str, second: float, role: str = "dev", **facts: Any) -> dict[str, Any]:
    said = {"attempt": 1, "agent": "claude", "program": "claude", "model": "sonnet", "transcript": None}
    return row(kind, second, bead, role=role, **(said | facts))


def used(tokens: int, cost: float) -> dict[str, Any]:
    return {"input_tokens": tokens, "output_tokens": 0, "cache_tokens": None, "cost_usd": cost}


def verdict(bead: str, second: float, ruling: str, attempt: int = 1, **facts: Any) -> dict[str, Any]:
    said = {"message": f"{ruling} it is", "flags": [], "will_retry": ruling == "fail", "checks": []}
    return row("verdict_given", second, bead, attempt=attempt, ruling=ruling, **(said | facts))


def whole_run() -> list[dict[str, Any]]:
    """One bead that fails once and is closed, one that stays at work, one that is parked; no end."""
    failed = {"name": "pytest", "kind": "verifier", "ruling": "fail", "message": "exit 1"}
    return [
        started(),
        claimed("bd-1", 1),
        claimed("bd-2", 1.5),
        row("worktree_prepared", 2, "bd-1", path="/w", branch="b", conflict=""),
        row("baseline_taken", 3, "bd-1", red=["pytest"]),
        call("agent_started", "bd-1", 4),
        call("agent_ended", "bd-1", 5, seconds=1.0, problem="", trouble="", usage=used(10, 0.5)),
        row("verifier_ended", 6, "bd-1", attempt=1, name="pytest", ruling="fail", exit_code=1, seconds=0.5,
            commit="c", stage="verify"),
        verdict("bd-1", 7, "fail", checks=[failed]),
        call("agent_started", "bd-1", 8, attempt=2),
        call("agent_ended", "bd-1", 9, attempt=2, seconds=1.0, problem="", trouble="", usage=used(5, 0.25)),
        row("verifier_ended", 10, "bd-1", attempt=2, name="pytest", ruling="pass", exit_code=0, seconds=0.5,
            commit="c", stage="verify"),
        call("agent_started", "bd-1", 11, "qa", attempt=2),
        call("agent_ended", "bd-1", 12, "qa", attempt=2, seconds=1.0, problem="", trouble="", usage={}),
        verdict("bd-1", 13, "pass", 2, flags=["look here"]),
        row("pull_request_opened", 14, "bd-1", number=1, url="http://pull/1", branch="b", target="main",
            commit="c"),
        row("bead_closed", 15, "bd-1", reason="proven on c", standing="proven"),
        call("agent_started", "bd-2", 16),
        claimed("bd-3", 17),
        row("program_unavailable", 18, program="codex", trouble="limit", until="2099-01-01T00:00:00Z",
            reason="codex is at a limit"),
        row("bead_parked", 19, "bd-3", reason="codex is at a limit", until="2099-01-01T00:00:00Z"),
        row("team_awaited", 20, "bd-4", team="team-bd-2", by="bd-2"),
        row("run_paused", 21),
        row("something_of_a_later_version", 22),
    ]  # fmt: skip


def write_journal(root: Path, rows: Iterable[dict[str, Any]], run_id: str = RUN) -> Path:
    path = runs.RunFolder(root / ".ralph", run_id).journal
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in rows))
    return path
