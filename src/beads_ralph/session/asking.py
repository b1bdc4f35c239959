"""Asking an agent: whoever can play it now does, in the order of its programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from beads_ralph.bead.names import persona_name
from beads_ralph.journal.events import ProgramReplaced, WarningGiven
from beads_ralph.session import agent_calls, handover
from beads_ralph.session.agent_calls import Answered, Asked, ProgramMissing
from beads_ralph.session.fallback import Player, players
from beads_ralph.session.host import ProgramLimit, ProgramTrouble, TroubleKind
from beads_ralph.session.order import Halted, Parked
from beads_ralph.session.state import BeadSession

REPLACED: Final[Mapping[str, TroubleKind]] = {"limit": "limit", "server": "server", "auth": "auth"}
"""TroubleKind that is the program's and not the work's: another program may not have it."""


async def ask(case: BeadSession, asked: Asked) -> Answered:
    """What the agent answered. A limit and a missing sign-in are no answers: the next of its programs is
    asked then, in the same worktree; where there is none, the work ends here for now."""
    able = players(asked.spec, case.tools)
    met: dict[str, ProgramLimit] = {}
    last: Answered | None = None
    for player in able:
        limit = await case.host.limit_of(player.key)
        if limit is None:
            try:
                last = await _play(case, asked, player, met)
            except ProgramMissing:
                if len(able) == 1:
                    raise
                missing = ProgramTrouble(player.key, "missing", f"{player.program} is not installed")
                limit = await case.host.report_trouble(missing)
            else:
                if not _is_replaced(last):
                    return last
                limit = await case.host.report_trouble(_trouble(player, last))
        met[player.key] = limit
    return await _nobody(case, asked, able, met, last)


def _is_replaced(done: Answered) -> bool:
    return done.reply.trouble in REPLACED and not done.ended.timed_out


async def _play(case: BeadSession, asked: Asked, player: Player, met: Mapping[str, ProgramLimit]) -> Answered:
    """One program's turn, and once more where it has forgotten its session, which is nobody's failure."""
    session = handover.session_of(case, asked, player.program)
    if met:
        why = "; ".join(limit.reason for limit in met.values())
        event = ProgramReplaced(
            attempt=asked.attempt,
            role=asked.role,
            agent=asked.spec.agent,
            program=next(iter(met)),
            by=player.key,
            reason=why,
        )
        case.tell(event)
    done = await _called(case, replace(asked, spec=player.spec, session=session))
    if done.reply.trouble == "forgotten" and session is not None:
        text = f"{player.program} has forgotten session {session.id}; a fresh one goes on"
        case.tell(WarningGiven(attempt=asked.attempt, message=text))
        done = await _called(case, replace(asked, spec=player.spec, session=None))
    if not _is_replaced(done) and (done.ended.ok or done.reply.result is not None):
        await case.host.report_success(player.key, done.ended.seconds)
    return done


async def _called(case: BeadSession, asked: Asked) -> Answered:
    prompt = await handover.told(case, asked, asked.session)
    seconds, money = case.seconds_left(), case.money_left()
    whole = replace(asked, prompt=prompt, seconds=seconds, budget_usd=money, env=case.env)
    done = await agent_calls.call(whole, case.order, case.tools, case.host)
    if done.ended.timed_out:
        case.cut_by = case.exhausted()
    if asked.role != "qa":
        case.record.add_dev(done, asked.feedback)
    elif _is_replaced(done):  # any other answer of a reviewer is recorded with its ruling
        case.record.add_usage(done.call.usage)
    if done.reply.denied:
        case.denied.append(f"{done.call.program} was denied {', '.join(done.reply.denied)}")
    return done


# --- programs that cannot -----------------------------------------------------------------------------


def _trouble(player: Player, done: Answered) -> ProgramTrouble:
    reply = done.reply
    what = (REPLACED[reply.trouble], _reason(player, done))
    return ProgramTrouble(player.key, *what, reply.limit_reset_at, done.ended.seconds)


def _reason(player: Player, done: Answered) -> str:
    detail, program = done.reply.detail, player.key
    if done.reply.trouble == "limit":
        return f"{program} is at a limit"
    if done.reply.trouble == "server":
        return f"the server of {program} is down: {detail}".rstrip(": ")
    return f"{program} is not signed in: {detail}".rstrip(": ")


def _is_waited_for(limit: ProgramLimit, *, unproven: bool) -> bool:
    if limit.trouble == "limit":
        return True
    return limit.passes and limit.outage_is_worth_waiting_for(unproven=unproven)


async def _nobody(
    case: BeadSession,
    asked: Asked,
    able: list[Player],
    met: Mapping[str, ProgramLimit],
    last: Answered | None,
) -> Answered:
    """Wait where waiting helps; where only a person can help, stop; else it is a failure like any other. But
    what a reviewer's server does says nothing of the work, and costs its developer no attempt."""
    reviews = asked.role == "qa"
    waits = {key: limit for key, limit in met.items() if _is_waited_for(limit, unproven=reviews)}
    reasons = "; ".join(limit.reason for limit in met.values())
    if waits:
        raise Parked(f"nobody can play {persona_name(asked.spec.agent)} now: {reasons}", waits)
    down = [player for player in able if met[player.key].trouble == "server"]
    if not down or reviews:
        raise Halted("broken", reasons)
    if last is not None and last.reply.trouble == "server":
        return last
    return await _play(case, asked, down[0], {})
