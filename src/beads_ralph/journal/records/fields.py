"""From what the journal says to what a record says."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from beads_ralph import __version__
from beads_ralph.bead.field_types import moment_of
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.journal.events import Event
from beads_ralph.journal.records.model import (
    Called,
    Checked,
    Extra,
    ResultRecord,
    RunRecord,
    Spent,
    Verification,
    changed,
)
from beads_ralph.journal.records.reasons import CHECKS, CUT_SHORT, EXHAUSTED, REASONS, TROUBLES, Reason

NOBODY: Final = "git"
"""Who worked where branches were merged without any agent."""
TIMEOUT_CODE: Final = 124
INTERRUPTED_CODE: Final = 130
LINT: Final = re.compile(
    r"\b(lint|ruff|flake8|eslint|mypy|pyright|clippy|fmt|format|style|vet)", re.IGNORECASE
)
TESTS: Final = re.compile(r"test|spec|check", re.IGNORECASE)
FULL: Final = os.strerror(errno.ENOSPC)


def plain(text: str) -> str:
    """Text that JSON can hold: what is half a character is no character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def program(event: Event) -> str:
    return PurePath(str(event.data.get("program") or NOBODY)).name or NOBODY


def model(event: Event) -> str:
    return str(event.data.get("model") or "none")


def exit_code(event: Event) -> int | None:
    return TIMEOUT_CODE if event.data.get("cut_short") == "timeout" else event.data.get("exit_code")


def call(event: Event) -> Called:
    data = event.data
    usage = data.get("usage") or {}
    return Called(
        role=str(data.get("role")),
        agent=str(data.get("agent")),
        program=data.get("program"),
        model=data.get("model"),
        seat=data.get("seat") or 1,
        started_at=data.get("started_at"),
        seconds=data.get("seconds"),
        exit_code=data.get("exit_code"),
        problem=plain(str(data.get("problem") or "")),
        trouble=str(data.get("trouble") or ""),
        session_id=data.get("session_id"),
        usage=Spent(**{name: usage.get(name) for name in COUNTS}),
        transcript=data.get("transcript"),
        cut_short=str(data.get("cut_short") or ""),
    )


def check(row: Mapping[str, Any]) -> Checked:
    known = ("name", "kind", "ruling", "message", "command", "commit", "seconds", "exit_code", "red_before")
    said = {name: row[name] for name in known if row.get(name) is not None}
    texts = {name: plain(value) for name, value in said.items() if isinstance(value, str)}
    return Checked.model_validate({**said, **texts})


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
    overall = (
        "skipped" if not checks else "pass" if passed == len(checks) else "partial" if passed else "fail"
    )
    return Verification.model_validate({"lint": _ruling(lint), "tests": _ruling(tests), "overall": overall})


def _ruling(rows: Sequence[Checked]) -> str:
    if not rows:
        return "skipped"
    return "pass" if all(row.ruling == "pass" for row in rows) else "fail"


# --- why it came to nothing -------------------------------------------------------------------------


def reason_of(run: RunRecord, rows: Sequence[Mapping[str, Any]]) -> Reason:
    """A stop goes before every failure; else what failed first, an agent before what it left undone."""
    bad = [row for row in rows if row.get("ruling") != "pass"]
    bad.sort(key=lambda row: row.get("ruling") != "stop")
    if not bad:
        return "other"
    workers = [one for one in _calls(run) if one.role != "qa"]
    called = _call_reason(workers) if bad[0].get("kind") == "git" else None
    said = next((one for one in REASONS if one == bad[0].get("reason")), None)
    return called or said or CHECKS.get((str(bad[0].get("kind")), str(bad[0].get("ruling"))), "other")


def _calls(run: RunRecord) -> Sequence[Called]:
    return run.extra.calls if run.extra else ()


def _call_reason(calls: Sequence[Called]) -> Reason | None:
    """What went wrong with the last of them; None where it went well."""
    if not calls or not calls[-1].problem:
        return None
    last = calls[-1]
    return CUT_SHORT.get(last.cut_short) or TROUBLES.get(last.trouble) or "agent-crash"


def exhausted(event: Event) -> Reason | None:
    """What a bead had no more of when it ended."""
    return next((one for one in EXHAUSTED if one == event.data.get("failure_reason")), None)


def broken_reason(run: RunRecord, event: Event) -> Reason:
    """Without a verdict of its own."""
    if event.data.get("cancelled"):
        return "interrupted"
    if FULL in str(event.data.get("reason") or ""):
        return "disk-full"
    if run.extra and run.extra.ruling == "pass":
        return "proposal-failed"
    if event.kind == "bead_blocked" and run.extra and run.extra.role == "scrum-master":
        return "scrum-master-failed"
    return _call_reason(_calls(run)) or "infrastructure"


def over(run: RunRecord, event: Event, reason: Reason | None) -> RunRecord:
    status = "done" if reason is None else "timeout" if reason == "agent-timeout" else "failed"
    lasted = (moment_of(event.at) - moment_of(run.started_at)).total_seconds()
    code = INTERRUPTED_CODE if reason == "interrupted" else run.exit_code
    return changed(
        run,
        status=status,
        finished_at=event.at,
        duration_seconds=round(max(lasted, 0.0), 3),
        failure_reason=reason,
        exit_code=code,
    )


def is_result_of(result: ResultRecord, run: RunRecord) -> bool:
    """The same attempt may have begun again since."""
    return (result.attempt, result.started_at) == (run.attempt, run.started_at)


def result(run: RunRecord, text: str, *, will_retry: bool) -> ResultRecord:
    names = set(ResultRecord.model_fields) & set(RunRecord.model_fields) - {"extra"}
    shared = {name: getattr(run, name) for name in names}
    run_id = run.extra.run_id if run.extra else None
    commit = run.extra.commit if run.extra else None
    extra = Extra(run_id=run_id, commit=commit, program_version=__version__)
    return ResultRecord(**shared, will_retry=will_retry, reason=plain(text).strip() or "ended", extra=extra)
