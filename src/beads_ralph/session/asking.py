"""Asking an agent: whoever can play it now does, in the order of its programs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from beads_ralph.agents import faults
from beads_ralph.agents.faults import FAULTS, kind_of
from beads_ralph.agents.players import Player, players
from beads_ralph.bead.agent_call import AgentCall, Session
from beads_ralph.bead.model import CLAUDE
from beads_ralph.bead.names import persona_name
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.git import commands, worktree_status
from beads_ralph.journal.events import ProgramReplaced, WarningGiven
from beads_ralph.journal.records.projection import TROUBLES
from beads_ralph.process.calls import in_thread
from beads_ralph.session import agent_calls
from beads_ralph.session.agent_calls import Answered, Asked, ProgramMissing
from beads_ralph.session.order import Halted, Parked, TeamSession
from beads_ralph.session.program_limits import ProgramLimit, ProgramTrouble
from beads_ralph.session.state import BeadSession

AFRESH: Final = tuple(kind for kind, fault in FAULTS.items() if fault.first == "fresh")
"""The faults that a fresh session may not have."""
GO_ON: Final = ("dev", "scrum-master")
"""The roles that are asked again about the same work. A reviewer looks with fresh eyes each time."""
COMMITS_SHOWN: Final = 30
FILES_SHOWN: Final = 100
SAID_SHOWN: Final = 2000


async def ask(case: BeadSession, asked: Asked) -> Answered:
    """What the agent answered. A fault of its program is no answer: the next of its programs is asked then,
    in the same worktree; where there is none, the work ends here as `agents/faults.py` says. So whatever is
    wrong with a call that this returns is the work's."""
    able = players(asked.spec, case.tools)
    met: dict[str, ProgramLimit] = {}
    for player in able:
        limit = await _known(case, asked, player)
        if limit is None:
            try:
                done = await _play(case, asked, player, met)
            except ProgramMissing:
                if len(able) == 1:
                    raise
                missing = ProgramTrouble(player.key, "missing", faults.told("missing", player.program))
                limit = await case.host.report_trouble(missing)
            else:
                kind = kind_of(done.reply, done.ended)
                if kind is None:
                    return done
                limit = await _noted(case, asked, player, kind, done)
        met[player.key] = limit
    raise _nobody(case, asked, met)


async def _known(case: BeadSession, asked: Asked, player: Player) -> ProgramLimit | None:
    """Why this program need not be asked: some bead has met it before, or this one."""
    for name in dict.fromkeys((player.key, player.setup)):
        if limit := await case.host.limit_of(name):
            return limit
    return case.unable.get((*_chair(asked), player.key))


async def _play(case: BeadSession, asked: Asked, player: Player, met: Mapping[str, ProgramLimit]) -> Answered:
    """One program's turn, and once more in a fresh session where that may help, which is nobody's failure."""
    session = session_of(case, asked, player.program)
    if met:
        await _may_go_on(case)
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
    done = await _called(case, replace(asked, spec=player.spec, session=session), player.key)
    kind = kind_of(done.reply, done.ended)
    if kind is not None and kind in AFRESH and (session is not None or kind == "stalled"):
        await _may_go_on(case)
        text = f"{faults.told(kind, player.program, done.reply.detail)}; a fresh session goes on"
        case.tell(WarningGiven(attempt=asked.attempt, message=text))
        done = await _called(case, replace(asked, spec=player.spec, session=None), player.key)
    if kind_of(done.reply, done.ended) is None and (done.ended.ok or done.reply.result is not None):
        await case.host.report_success(player.key, _age(done))
    return done


async def _may_go_on(case: BeadSession) -> None:
    """A run that ends lets a call end, and begins no other because of its fault."""
    if why := await case.host.why_pause():
        raise Halted("paused", why)


async def _called(case: BeadSession, asked: Asked, key: str) -> Answered:
    prompt = await told(case, asked, asked.session)
    own = case.budget.left(case.record.spent)

    async def left(in_flight: Usage) -> Budget:
        return own.or_less(await case.host.budget_left(in_flight))

    whole = replace(
        asked,
        prompt=prompt,
        seconds=case.time_left.seconds,
        budget_usd=own.cost_usd,
        budget=left,
        env=case.env,
    )

    async def goes_on() -> bool:
        return not (await case.host.limit_of(key) or await case.host.why_pause())

    done = await agent_calls.call(whole, case.order, case.tools, case.host, goes_on)
    if done.ended.timed_out:
        case.cut_by = case.exhausted()
    if asked.role != "qa":
        case.record.add_dev(done, asked.feedback)
    elif kind_of(done.reply, done.ended) or done.reply.overspent:
        # any other answer of a reviewer is recorded with its ruling
        case.record.add_usage(done.call.usage)
    case.left_behind += done.left_behind
    if done.reply.denied:
        case.denied.append(f"{done.call.program} was denied {', '.join(done.reply.denied)}")
    if done.reply.overspent:
        await _stop_spending(case)
    return done


async def _stop_spending(case: BeadSession) -> None:
    """A call was ended for a budget, which says nothing of the work: the bead's own is for a person to give
    again, and that of the run ends the run."""
    if used_up := case.exhausted():
        raise Halted("blocked", used_up.text, used_up.failure)
    await _may_go_on(case)


# --- programs that cannot -----------------------------------------------------------------------------


async def _noted(
    case: BeadSession, asked: Asked, player: Player, kind: faults.Kind, done: Answered
) -> ProgramLimit:
    """Remember the fault for those who would meet the same: every bead of the run, or this one."""
    rests = FAULTS[kind].rests
    name = player.setup if rests == "setup" else player.key
    model = f" with {player.model}" if rests == "setup" and player.model else ""
    reason = faults.told(kind, f"{player.key}{model}", done.reply.detail if kind != "limit" else "")
    if rests != "nobody":
        trouble = ProgramTrouble(name, kind, reason, done.reply.limit_reset_at, _age(done))
        return await case.host.report_trouble(trouble)
    now = datetime.now(UTC)
    limit = case.unable[(*_chair(asked), player.key)] = ProgramLimit(name, kind, now, now, reason)
    return limit


def _age(done: Answered) -> float:
    """The seconds since the call began: until it is reported, others may have met the same."""
    return time.monotonic() - done.began


def _nobody(case: BeadSession, asked: Asked, met: Mapping[str, ProgramLimit]) -> Parked | Halted:
    """Wait where waiting helps; end the run where only a person can help all of its programs; else this bead
    alone is blocked."""
    reasons = "; ".join(dict.fromkeys(limit.reason for limit in met.values()))
    waits = {key: limit for key, limit in met.items() if limit.is_worth_waiting_for}
    if waits:
        who = "" if asked.spec.agent == CLAUDE else f" {persona_name(asked.spec.agent)}"
        return Parked(f"nobody can play the {asked.role} agent{who} now: {reasons}", waits)
    kinds = [limit.trouble for limit in met.values()]
    blocks = [kind for kind in kinds if FAULTS[kind].alone == "block"]
    kind = (blocks or kinds)[0]
    over = "; outage_patience is over" if FAULTS[kind].alone == "wait" else ""
    todo = faults.remedy(kind, case.retry if blocks else case.go_on)
    if blocks:
        return Halted("blocked", f"{reasons}. {todo}", TROUBLES.get(kind))
    return Halted("broken", f"{reasons}{over}. {todo}")


# --- going on: with one's own session, or with an account of what was done before ---------------------


def session_of(case: BeadSession, asked: Asked, program: str) -> Session | None:
    """Where this program ended as this agent, also in an earlier run; None for a fresh session."""
    if asked.role not in GO_ON:
        return asked.session if program == asked.spec.executable else None
    own = [call for call in case.record.dev if _is_of(call, asked)]
    if not own:
        return _session_of_team(case, asked, program)
    same = [call for call in own if call.program == program]
    return _as_left(case, same[-1].session) if same and same[-1].trouble not in AFRESH else None


def _as_left(case: BeadSession, session: Session | None) -> Session | None:
    """With what others of the team have cost in it meanwhile, which is none of this bead's."""
    since = next((one for one in case.order.team_counted if session and one.id == session.id), None)
    return replace(session, counted=session.counted.at_least(since.counted)) if session and since else session


def _session_of_team(case: BeadSession, asked: Asked, program: str) -> Session | None:
    """Where the same agent ended on the last finished bead of the team; None where the program would not find
    it here."""
    last = _team_before(case, asked, program)
    if last is None:
        return None
    profile = case.tools.select(program).profile
    if profile.resumes_elsewhere or Path(last.cwd) == asked.cwd:
        return last.session
    text = f"{profile.title} takes up no session of another folder; a fresh one is told what {last.bead} did"
    case.tell(WarningGiven(attempt=asked.attempt, message=text))
    return None


def _team_before(case: BeadSession, asked: Asked, program: str = "") -> TeamSession | None:
    same = [one for one in case.order.team_before if (one.role, one.seat, one.agent) == _chair(asked)]
    return next((one for one in reversed(same) if program in ("", one.program)), None)


def _chair(asked: Asked) -> tuple[str, int, str]:
    return asked.role, asked.seat, asked.spec.agent


def _is_of(call: AgentCall, asked: Asked) -> bool:
    return (call.role, call.seat, call.agent) == _chair(asked)


async def told(case: BeadSession, asked: Asked, session: Session | None) -> str:
    """The prompt; before it what was done so far, where the session does not know that by itself."""
    own = [call for call in case.record.dev if _is_of(call, asked) and call.trouble != "forgotten"]
    if asked.role not in GO_ON:
        return asked.prompt
    if not (own or _cut_off(case, asked.attempt)):
        return f"{_told_by_team(case, session)}{asked.prompt}"
    if session is not None and own and own[-1].session_id == session.id:
        return asked.prompt
    words = [call.last_words for call in own if call.last_words]
    done = await in_thread(_account, case, words[-1] if words else "")
    return f"{done}\n{asked.prompt}" if done else asked.prompt


def _told_by_team(case: BeadSession, session: Session | None) -> str:
    """What the team has done, for its next bead; empty for the first one."""
    before = case.order.team_before
    if not before:
        return ""
    done = {one.bead: f"{one.bead}: {one.title}\n{one.last_words[-SAID_SHOWN:]}".strip() for one in before}
    known = "This session goes on from there." if session else "You were not there: this is a fresh session."
    return case.tools.prompts.render(
        "team",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=case.metadata.branch,
        session=known,
        done=list(done.values()),
    )


def _cut_off(case: BeadSession, attempt: int) -> bool:
    """Whether a run was killed in this attempt, so that nobody could write down who had worked."""
    return any(row.attempt == attempt for row in case.metadata.interruptions or ())


def _account(case: BeadSession, words: str) -> str:
    commits, files = _work(case)
    if not (commits or files or words):
        return ""
    return case.tools.prompts.render(
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
