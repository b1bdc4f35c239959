"""Asking an agent: whoever can play it now does, in the order of its programs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from beads_ralph import prompts
from beads_ralph.bead.agent_call import AgentCall, Session
from beads_ralph.bead.names import persona_name
from beads_ralph.git import commands, worktree_status
from beads_ralph.journal.events import ProgramReplaced, WarningGiven
from beads_ralph.process.calls import in_thread
from beads_ralph.session import agent_calls
from beads_ralph.session.agent_calls import Answered, Asked, Player, ProgramMissing, players
from beads_ralph.session.order import Halted, Parked
from beads_ralph.session.program_limits import ProgramLimit, ProgramTrouble, TroubleKind
from beads_ralph.session.state import BeadSession

REPLACED: Final[Mapping[str, TroubleKind]] = {"limit": "limit", "server": "server", "auth": "auth"}
"""TroubleKind that is the program's and not the work's: another program may not have it."""

GO_ON: Final = ("dev", "scrum-master")
"""The roles that are asked again about the same work. A reviewer looks with fresh eyes each time."""
COMMITS_SHOWN: Final = 30
FILES_SHOWN: Final = 100
SAID_SHOWN: Final = 2000


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
    session = session_of(case, asked, player.program)
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
        await case.host.report_success(player.key, _age(done))
    return done


async def _called(case: BeadSession, asked: Asked) -> Answered:
    prompt = await told(case, asked, asked.session)
    seconds, money = case.time_left.seconds, case.money_left()
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
    return ProgramTrouble(player.key, *what, reply.limit_reset_at, _age(done))


def _age(done: Answered) -> float:
    """The seconds since the call began: until it is reported, others may have met the same."""
    return time.monotonic() - done.began


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


# --- going on: with one's own session, or with an account of what was done before ---------------------


def session_of(case: BeadSession, asked: Asked, program: str) -> Session | None:
    """Where this program ended as this agent, also in an earlier run; None for a fresh session."""
    if asked.role not in GO_ON:
        return None
    own = [call for call in case.record.dev if _is_of(call, asked) and call.program == program]
    return own[-1].session if own and own[-1].trouble != "forgotten" else None


def _is_of(call: AgentCall, asked: Asked) -> bool:
    return (call.role, call.seat, call.agent) == (asked.role, asked.seat, asked.spec.agent)


async def told(case: BeadSession, asked: Asked, session: Session | None) -> str:
    """The prompt; before it what was done so far, where the session does not know that by itself."""
    own = [call for call in case.record.dev if _is_of(call, asked)]
    if asked.role not in GO_ON or not (own or _cut_off(case, asked.attempt)):
        return asked.prompt
    if session is not None and own and own[-1].session_id == session.id:
        return asked.prompt
    words = [call.last_words for call in own if call.last_words]
    done = await in_thread(_account, case, words[-1] if words else "")
    return f"{done}\n{asked.prompt}" if done else asked.prompt


def _cut_off(case: BeadSession, attempt: int) -> bool:
    """Whether a run was killed in this attempt, so that nobody could write down who had worked."""
    return any(row.attempt == attempt for row in case.metadata.interruptions or ())


def _account(case: BeadSession, words: str) -> str:
    commits, files = _work(case)
    if not (commits or files or words):
        return ""
    return prompts.render(
        "handover",
        bead_id=case.bead.id,
        commits=commits,
        changed_files=files,
        checks=_checks(case),
        last_words=words,
    )


def _work(case: BeadSession) -> tuple[list[str], list[str]]:
    """The commits of the bead so far, newest first, and the files that differ, committed or not."""
    if not case.worktree.is_dir() or commands.toplevel(case.worktree) is None:
        return [], []
    left = worktree_status.uncommitted(case.worktree)
    if not case.base:
        return [], left[:FILES_SHOWN]
    words = ("log", f"--max-count={COMMITS_SHOWN}", "--format=%h %s", f"{case.base}..HEAD")
    commits = commands.output(*words, cwd=case.worktree).splitlines()
    files = sorted({*worktree_status.changed_files(case.worktree, case.base), *left})
    return commits, files[:FILES_SHOWN]


def _checks(case: BeadSession) -> str:
    last = case.record.last_verdict
    return f"{last.ruling}: {last.message}"[:SAID_SHOWN] if last and last.ruling else ""
