"""What a journal has told so far: folded line by line, from plain rows, since a journal can be long.

The fold knows no clock and no file: the same lines give the same state, however they were cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from beads_ralph.bead.names import doer
from beads_ralph.board.model import AttemptLine, StageName

Row: TypeAlias = Mapping[str, Any]
STEPS_KEPT: Final = 60
ATTEMPTS_KEPT: Final = 20
REMARKS_KEPT: Final = 50
SPOILED: Final = (KeyError, TypeError, ValueError, AttributeError)
"""What a line raises that has the right form and the wrong values in it."""
STAGE_OF_CHECK: Final[Mapping[str, StageName]] = {"qa": "reviewed"}
"""All other kinds of evidence are checks."""


@dataclass(slots=True)
class ToldStep:
    """One thing done in the present attempt."""

    stage: StageName
    name: str
    state: str
    at: str
    seconds: float | None = None
    note: str = ""


@dataclass(slots=True)
class ToldBead:
    """A bead, as far as this run has told of it."""

    id: str
    revision: int = 0
    """Counts its changes."""
    title: str = ""
    number: str = ""
    kind: str = ""
    team: str = ""
    branch: str = ""
    at_work: bool = False
    since: str = ""
    stage: str = ""
    stage_since: str = ""
    attempt: int = 0
    max_attempts: int = 0
    role: str = ""
    agent: str = ""
    program: str = ""
    model: str = ""
    transcript: str | None = None
    steps: list[ToldStep] = field(default_factory=list)
    attempts: list[AttemptLine] = field(default_factory=list)
    failures: int = 0
    last_failure: str = ""
    trouble: str = ""
    ended: str = ""
    ended_at: str = ""
    reason: str = ""
    failure_reason: str = ""
    until: str | None = None
    awaits: str | None = None
    pull_request: str | None = None
    standing: str | None = None
    flags: tuple[str, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None
    interrupted: str = ""


@dataclass(slots=True)
class Told:
    """All that a journal has told."""

    lines: int = 0
    beads: dict[str, ToldBead] = field(default_factory=dict)
    run_id: str = ""
    started_at: str = ""
    last_at: str = ""
    paused: bool = False
    draining: str = ""
    parallel: int | None = None
    most: int | None = None
    waiting: tuple[Mapping[str, Any], ...] = ()
    unavailable: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    red_gates: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Gate → why it is red, and since when."""
    end: Mapping[str, Any] | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    remarks: list[str] = field(default_factory=list)
    store_changes: int = 0
    """Counts what may have changed the store."""
    spoiled: int = 0


def apply(told: Told, row: Row) -> Told:
    """Take one line in; the same state, changed."""
    told.lines += 1
    try:
        kind, at = row["kind"], row["at"]
        if type(kind) is not str or type(at) is not str:
            raise TypeError
        told.last_at = at
        take = TAKERS.get(kind)
        if take is not None:
            take(told, row)
        elif kind in CHANGING:
            told.store_changes += 1
    except SPOILED:
        told.spoiled += 1
    return told


def apply_all(told: Told, rows: Iterable[Row]) -> Told:
    for row in rows:
        apply(told, row)
    return told


# --- the run ------------------------------------------------------------------------------------------


def _run_started(told: Told, row: Row) -> None:
    told.run_id, told.started_at = row["run_id"], row["at"]
    told.parallel = told.most = int(row["max_parallel"])
    told.end = None
    told.store_changes += 1


def _paused(told: Told, _row: Row) -> None:
    told.paused = True


def _resumed(told: Told, _row: Row) -> None:
    told.paused = False


def _draining(told: Told, row: Row) -> None:
    told.draining = str(row["reason"])


def _parallelism(told: Told, row: Row) -> None:
    told.parallel, told.most = int(row["parallel"]), int(row["most"])


def _waiting(told: Told, row: Row) -> None:
    told.waiting = tuple(dict(one) for one in row["gates"])


def _ended(told: Told, row: Row) -> None:
    told.end = dict(row)
    told.store_changes += 1
    for bead in told.beads.values():
        if bead.at_work:
            bead.at_work = False
            bead.revision += 1


def _warning(told: Told, row: Row) -> None:
    told.remarks.append(str(row["message"]))
    del told.remarks[:-REMARKS_KEPT]


def _unavailable(told: Told, row: Row) -> None:
    told.unavailable[str(row["program"])] = dict(row)


def _recovered(told: Told, row: Row) -> None:
    told.unavailable.pop(str(row["program"]), None)


def _gate_checked(told: Told, row: Row) -> None:
    name = str(row.get("bead") or row.get("source") or "")
    if row["ruling"] == "pass":
        told.red_gates.pop(name, None)
    else:
        told.red_gates[name] = (str(row["message"]), row["at"])
    told.store_changes += 1


def _gates_overridden(told: Told, row: Row) -> None:
    for name in row["gates"]:
        told.red_gates.pop(str(name), None)


# --- a bead -------------------------------------------------------------------------------------------


def _bead(told: Told, row: Row) -> ToldBead:
    name = row["bead"]
    bead = told.beads.get(name)
    if bead is None:
        bead = told.beads[str(name)] = ToldBead(str(name))
    bead.revision += 1
    return bead


def _at_attempt(bead: ToldBead, row: Row) -> None:
    """A later attempt begins with an empty pipeline."""
    attempt = row.get("attempt")
    if attempt and attempt > bead.attempt:
        bead.attempt = int(attempt)
        bead.steps.clear()
        bead.trouble = ""


def _step(bead: ToldBead, step: ToldStep) -> None:
    bead.steps.append(step)
    if len(bead.steps) > STEPS_KEPT:
        del bead.steps[0]


def _seconds(row: Row) -> float | None:
    said = row.get("seconds")
    return None if said is None else float(said)


def _stage(bead: ToldBead, stage: str, row: Row) -> None:
    bead.stage, bead.stage_since = stage, row["at"]


def _claimed(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    bead.at_work, bead.since, bead.ended, bead.reason, bead.until = True, row["at"], "", "", None
    bead.awaits, bead.interrupted, bead.ended_at = None, "", ""
    bead.steps.clear()
    bead.attempt = int(row.get("attempt") or bead.attempt or 1)
    bead.title, bead.number = str(row["title"]), str(row.get("sprint") or "")
    bead.kind, bead.branch = str(row["bead_kind"]), str(row["branch"])
    bead.team, bead.max_attempts = str(row.get("team") or ""), int(row["max_attempts"])
    _stage(bead, "claimed", row)
    told.store_changes += 1


def _worktree(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    conflict = str(row.get("conflict") or "")
    state = "failed" if conflict else "done"
    _step(bead, ToldStep("developed", "worktree", state, row["at"], None, conflict))
    _stage(bead, "worktree ready", row)


def _lease(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    if row.get("setup"):
        _step(bead, ToldStep("developed", "setup", "done", row["at"], _seconds(row), str(row["setup"])))


def _baseline(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    red = len(row["red"])
    note = f"{red} red before the work" if red else "all green before the work"
    _step(bead, ToldStep("developed", "baseline", "done", row["at"], None, note))
    _stage(bead, "baseline", row)


def _agent_started(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    _at_attempt(bead, row)
    bead.role, bead.agent, bead.program = str(row["role"]), str(row["agent"]), str(row.get("program") or "")
    bead.model, bead.transcript = str(row.get("model") or ""), row.get("transcript")
    bead.at_work = bead.at_work or not bead.ended
    _step(bead, ToldStep(_stage_of_role(bead.role), _who(bead), "now", row["at"]))
    _stage(bead, f"{bead.role} {_who(bead)}", row)


def _who(bead: ToldBead) -> str:
    return doer(bead.agent, bead.program, bead.model)


def _stage_of_role(role: str) -> StageName:
    return "reviewed" if role == "qa" else "developed"


def _agent_ended(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    _at_attempt(bead, row)
    bead.trouble = str(row.get("trouble") or "")
    problem = str(row.get("problem") or "")
    stage = _stage_of_role(str(row["role"]))
    open_steps = (one for one in reversed(bead.steps) if one.stage == stage and one.state == "now")
    step = next(open_steps, None)
    if step is None:
        step = ToldStep(stage, doer(str(row["agent"]), str(row.get("program") or ""), ""), "now", row["at"])
        _step(bead, step)
    step.state, step.seconds, step.note = "failed" if problem else "done", _seconds(row), problem
    _stage(bead, "checking" if stage == "developed" else "judged", row)
    _spend(told, bead, row.get("usage") or {})


def _spend(told: Told, bead: ToldBead, usage: Mapping[str, Any]) -> None:
    known = [usage.get(name) for name in ("input_tokens", "output_tokens")]
    if known != [None, None]:
        used = sum(value or 0 for value in known)
        bead.tokens, told.tokens = (bead.tokens or 0) + used, (told.tokens or 0) + used
    cost = usage.get("cost_usd")
    if cost is not None:
        bead.cost_usd, told.cost_usd = (bead.cost_usd or 0.0) + cost, (told.cost_usd or 0.0) + cost


def _verifier_ended(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    if row["stage"] == "baseline":
        return
    _at_attempt(bead, row)
    state = "done" if row["ruling"] == "pass" else "failed"
    code = "" if row.get("exit_code") in (None, 0) else f"exit {row['exit_code']}"
    _step(bead, ToldStep("checked", str(row["name"]), state, row["at"], _seconds(row), code))
    _stage(bead, "checking", row)


def _verdict(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    _at_attempt(bead, row)
    bead.flags = tuple(map(str, row.get("flags") or ()))
    ruling, message = str(row["ruling"]), str(row["message"])
    failed = [one for one in row.get("checks") or () if one.get("ruling") != "pass"]
    _stage(bead, "judged", row)
    names = tuple(str(one.get("name")) for one in failed)
    bead.attempts.append(AttemptLine(bead.attempt, ruling, message, row["at"], names))
    del bead.attempts[:-ATTEMPTS_KEPT]
    if ruling == "pass":
        return
    bead.failures += 1
    bead.last_failure = message
    for one in failed or [{}]:
        _mark_failed(bead, one, row["at"])


def _mark_failed(bead: ToldBead, check: Mapping[str, Any], at: str) -> None:
    """The stage that the attempt failed in, also where the agent itself ended well."""
    stage = STAGE_OF_CHECK.get(str(check.get("kind")), "checked")
    if not any(step.stage == stage and step.state == "failed" for step in bead.steps):
        name = str(check.get("name") or "verdict")
        _step(bead, ToldStep(stage, name, "failed", at, None, str(check.get("message") or "")))


def _pull_request(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    bead.pull_request = str(row.get("url") or row["branch"])
    _step(bead, ToldStep("proposed", "pull request", "done", row["at"], None, bead.pull_request))
    _stage(bead, "proposed", row)


def _over(ended: str) -> Callable[[Told, Row], None]:
    def take(told: Told, row: Row) -> None:
        bead = _bead(told, row)
        bead.at_work, bead.ended, bead.ended_at = False, ended, row["at"]
        bead.reason, bead.until = str(row["reason"]), row.get("until")
        bead.standing, bead.failure_reason = row.get("standing"), str(row.get("failure_reason") or "")
        bead.awaits = None
        _stage(bead, ended, row)
        if ended == "closed":
            _step(bead, ToldStep("closed", bead.standing or "closed", "done", row["at"], None, bead.reason))
        told.store_changes += 1

    return take


def _team_awaited(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    bead.awaits, bead.team = str(row["by"]), str(row.get("team") or bead.team)


def _interrupted(told: Told, row: Row) -> None:
    bead = _bead(told, row)
    bead.interrupted = f"attempt {row.get('attempt') or bead.attempt} was interrupted; it goes on"


def _replaced(told: Told, row: Row) -> None:
    told.remarks.append(f"{row['by']} plays {row['agent']} for {row['program']}: {row['reason']}")
    del told.remarks[:-REMARKS_KEPT]


CHANGING: Final = frozenset({"items_settled", "gate_passed", "strays_ended"})
"""Those that only change what the store says."""
TAKERS: Final[Mapping[str, Callable[[Told, Row], None]]] = {
    "run_started": _run_started,
    "run_paused": _paused,
    "run_resumed": _resumed,
    "run_draining": _draining,
    "parallelism_changed": _parallelism,
    "run_waiting": _waiting,
    "run_ended": _ended,
    "warning_given": _warning,
    "program_unavailable": _unavailable,
    "program_recovered": _recovered,
    "program_replaced": _replaced,
    "gate_checked": _gate_checked,
    "gates_overridden": _gates_overridden,
    "bead_claimed": _claimed,
    "worktree_prepared": _worktree,
    "lease_taken": _lease,
    "baseline_taken": _baseline,
    "agent_started": _agent_started,
    "agent_ended": _agent_ended,
    "verifier_ended": _verifier_ended,
    "verdict_given": _verdict,
    "pull_request_opened": _pull_request,
    "bead_closed": _over("closed"),
    "bead_blocked": _over("blocked"),
    "bead_released": _over("open"),
    "bead_reopened": _over("open"),
    "bead_parked": _over("parked"),
    "team_awaited": _team_awaited,
    "attempt_interrupted": _interrupted,
}
