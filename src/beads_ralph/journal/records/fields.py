"""From what the journal says to what a record says."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from beads_ralph import __version__
from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.bead.words import moment_of
from beads_ralph.journal.events import BeadBlocked, BeadParked, BeadReleased, Event
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


def program(said: str | None) -> str:
    return PurePath(said or NOBODY).name or NOBODY


def exit_code(call: AgentCall) -> int | None:
    return TIMEOUT_CODE if call.cut_short == "timeout" else call.exit_code


def called(call: AgentCall) -> Called:
    """What the record of an attempt keeps of a call: those of its fields that have a key there."""
    said = json_fields.to_json(call)
    kept = {name: value for name, value in said.items() if name in Called.model_fields}
    return Called.model_validate(
        {**kept, "started_at": call.started_at or None, "problem": plain(call.problem)}
    )


def checked(row: Evidence) -> Checked:
    """The same of a check."""
    said = row.summary()
    kept = {name: said[name] for name in Checked.model_fields if said[name] is not None}
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
    overall = (
        "skipped" if not checks else "pass" if passed == len(checks) else "partial" if passed else "fail"
    )
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
    workers = [one for one in _calls(run) if one.role != "qa"]
    called = _call_reason(workers) if bad[0].kind == "git" else None
    said = next((one for one in REASONS if one == bad[0].reason), None)
    return called or said or CHECKS.get((bad[0].kind, bad[0].ruling), "other")


def _calls(run: RunRecord) -> Sequence[Called]:
    return run.extra.calls if run.extra else ()


def _call_reason(calls: Sequence[Called]) -> Reason | None:
    """What went wrong with the last of them; None where it went well."""
    if not calls or not calls[-1].problem:
        return None
    last = calls[-1]
    return CUT_SHORT.get(last.cut_short) or TROUBLES.get(last.trouble) or "agent-crash"


def exhausted(event: BeadBlocked) -> Reason | None:
    """What a bead had no more of when it ended."""
    return next((one for one in EXHAUSTED if one == event.failure_reason), None)


def broken_reason(run: RunRecord, event: BeadBlocked | BeadReleased | BeadParked) -> Reason:
    """Without a verdict of its own."""
    if isinstance(event, BeadReleased) and event.cancelled:
        return "interrupted"
    if FULL in event.reason:
        return "disk-full"
    if run.extra and run.extra.ruling == "pass":
        return "proposal-failed"
    if isinstance(event, BeadBlocked) and run.extra and run.extra.role == "scrum-master":
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
