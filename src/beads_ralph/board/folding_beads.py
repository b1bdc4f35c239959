"""What each line of a journal changes about the bead that it tells of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from beads_ralph.bead import names
from beads_ralph.board.model import AttemptLine, StageName
from beads_ralph.board.told import Row, Told, ToldBead, ToldStep

STEPS_KEPT: Final = 60
ATTEMPTS_KEPT: Final = 20
STAGE_OF_CHECK: Final[Mapping[str, StageName]] = {"qa": "reviewed"}
"""All other kinds of evidence are checks."""
doer = lru_cache(maxsize=1000)(names.doer)
"""A run has few of them, and a journal names each of them thousands of times."""


def _bead(told: Told, row: Row) -> ToldBead:
    name = row["bead"]
    bead = told.beads.get(name)
    if bead is None:
        bead = told.beads[str(name)] = ToldBead(str(name))
    bead.revision += 1
    if "host" in row:
        bead.host = str(row["host"] or "")
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


BEAD_TAKERS: Final[Mapping[str, Callable[[Told, Row], None]]] = {
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
