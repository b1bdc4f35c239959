"""From what the journal says to what a record says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

from beads_ralph import __version__
from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.files import disk
from beads_ralph.journal.events import BeadBlocked, BeadParked, BeadReleased, Event
from beads_ralph.journal.records.folder import INTERRUPTED_CODE
from beads_ralph.journal.records.model import (
    REASONS,
    Called,
    Checked,
    Extra,
    Reason,
    ResultRecord,
    RunRecord,
    Spent,
    Verification,
    changed,
)

NO_MODEL: Final = "none"
NOBODY: Final = "git"
"""Who worked where branches were merged without any agent."""
TIMEOUT_CODE: Final = 124
LINT: Final = re.compile(
    r"\b(lint|ruff|flake8|eslint|mypy|pyright|clippy|fmt|format|style|vet)", re.IGNORECASE
)
TESTS: Final = re.compile(r"test|spec|check", re.IGNORECASE)

TROUBLES: Final[Mapping[str, Reason]] = {
    "limit": "agent-limit",
    "auth": "agent-auth",
    "server": "agent-server",
    "credit": "agent-credit",
    "configuration": "agent-configuration",
    "refused": "agent-refused",
    "too_long": "agent-too-long",
    "stalled": "agent-stalled",
    "unfinished": "agent-unfinished",
}
CUT_SHORT: Final[Mapping[str, Reason]] = {
    "timeout": "agent-timeout",
    "output": "agent-output-limit",
    "memory": "agent-memory",
}
CHECKS: Final[Mapping[tuple[str, str], Reason]] = {
    ("verifier", "fail"): "verifier-failed",
    ("verifier", "stop"): "verifier-failed",
    ("qa", "fail"): "qa-failed",
    ("qa", "stop"): "qa-stop",
    ("merge", "fail"): "lost-changes",
    ("git", "fail"): "branch-changed",
}


def plain(text: str) -> str:
    """Text that JSON can hold: what is half a character is no character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def program(said: str | None) -> str:
    return PurePath(said or NOBODY).name or NOBODY


def exit_code(call: AgentCall | Called) -> int | None:
    return TIMEOUT_CODE if call.cut_short == "timeout" else call.exit_code


def called(call: AgentCall) -> Called:
    """What the record of an attempt keeps of a call: those of its fields that have a key there."""
    kept = {name: said for name, said in json_fields.to_json(call).items() if name in Called.model_fields}
    changes = {"started_at": call.started_at or None, "problem": plain(call.problem)}
    return Called.model_validate({**kept, **changes})


def checked(row: Evidence) -> Checked:
    """The same of a check."""
    said = row.summary()
    kept = {name: said[name] for name in Checked.model_fields if said.get(name) is not None}
    texts = {name: plain(value) for name, value in kept.items() if isinstance(value, str)}
    return Checked.model_validate({**kept, **texts})


def total(one: Spent, other: Spent) -> Spent:
    both = Usage(*(getattr(one, name) for name in COUNTS)) + Usage(*(getattr(other, name) for name in COUNTS))
    return Spent(**{name: getattr(both, name) for name in COUNTS})


def more(one: float | None, other: float | None) -> float | None:
    return one if other is None else round((one or 0.0) + other, 3)


def verification(checks: Sequence[Checked]) -> Verification:
    verifiers = [row for row in checks if row.kind == "verifier"]
    lint = [row for row in verifiers if LINT.search(row.name)]
    tests = [row for row in verifiers if row not in lint and TESTS.search(row.name)]
    passed = sum(row.ruling == "pass" for row in checks)
    overall = "partial" if 0 < passed < len(checks) else _ruling(checks)
    return Verification.model_validate({"lint": _ruling(lint), "tests": _ruling(tests), "overall": overall})


def _ruling(rows: Sequence[Checked]) -> str:
    if not rows:
        return "skipped"
    return "pass" if all(row.ruling == "pass" for row in rows) else "fail"


# --- why it came to nothing -------------------------------------------------------------------------


def reason_of(run: RunRecord, rows: Sequence[Evidence]) -> Reason:
    """A stop goes before every failure; else what failed first, an agent before what it left undone."""
    bad = sorted((row for row in rows if row.ruling != "pass"), key=lambda row: row.ruling != "stop")
    if not bad:
        return "other"
    workers = [one for one in run.ours.calls if one.role != "qa"]
    of_call = _call_reason(workers) if bad[0].kind == "git" else None
    said = next((one for one in REASONS if one == bad[0].reason), None)
    return of_call or said or CHECKS.get((bad[0].kind, bad[0].ruling), "other")


def _call_reason(calls: Sequence[Called]) -> Reason | None:
    """What went wrong with the last of them; None where it went well."""
    if not calls or not calls[-1].problem:
        return None
    last = calls[-1]
    trouble = TROUBLES.get(last.trouble)
    if trouble and last.trouble != "unfinished":  # the time limit ended only what the program waited for
        return trouble
    return CUT_SHORT.get(last.cut_short) or trouble or "agent-crash"


def broken_reason(run: RunRecord, event: BeadBlocked | BeadReleased | BeadParked) -> Reason:
    """Without a verdict of its own."""
    if isinstance(event, BeadReleased) and event.cancelled:
        return "interrupted"
    if disk.says_full(event.reason):
        return "disk-full"
    if run.ours.ruling == "pass":
        return "proposal-failed"
    if isinstance(event, BeadBlocked) and (
        said := next((r for r in REASONS if r == event.failure_reason), None)
    ):
        return said
    if isinstance(event, BeadBlocked) and run.ours.role == "scrum-master":
        return "scrum-master-failed"
    return _call_reason(run.ours.calls) or "infrastructure"


def over(run: RunRecord, event: Event, reason: Reason | None, seconds: float | None) -> RunRecord:
    """The record of an attempt that has ended, after so many seconds where that is known."""
    status = "done" if reason is None else "timeout" if reason == "agent-timeout" else "failed"
    code = INTERRUPTED_CODE if reason == "interrupted" else run.exit_code
    return changed(
        run,
        status=status,
        finished_at=event.at,
        duration_seconds=run.duration_seconds if seconds is None else round(seconds, 3),
        failure_reason=reason,
        exit_code=code,
    )


def as_begun(run: RunRecord) -> RunRecord:
    """The record as it was before somebody noted down that its run was killed."""
    worked = [exit_code(one) for one in run.ours.calls if one.role != "qa"]
    before = {"status": "running", "finished_at": None, "failure_reason": None}
    return changed(run, **before, exit_code=worked[-1] if worked else None)


def result_of(run: RunRecord, text: str, *, will_retry: bool) -> ResultRecord:
    names = set(ResultRecord.model_fields) & set(RunRecord.model_fields) - {"extra"}
    shared = {name: getattr(run, name) for name in names}
    extra = Extra(run_id=run.ours.run_id, commit=run.ours.commit, program_version=__version__)
    return ResultRecord(**shared, will_retry=will_retry, reason=plain(text).strip() or "ended", extra=extra)
