"""Asking an agent: whoever can play it now does, in the order of its programs; or, afterwards, who did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from beads_ralph.agents.players import Player, players
from beads_ralph.bead.agent_call import AgentCall, DevCall, QACall, Session
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import doer, persona_name, persona_path
from beads_ralph.bead.personas import AgentRole
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, proofs, worktree_status
from beads_ralph.journal.events import ProgramReplaced, WarningGiven
from beads_ralph.journal.journal import EventSink
from beads_ralph.process.calls import in_thread
from beads_ralph.session import agent_calls
from beads_ralph.session.agent_calls import Answered, Asked, ProgramMissing
from beads_ralph.session.order import Halted, Order, Parked, TeamSession, Tools
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
    case.left_behind += done.left_behind
    if done.reply.denied:
        case.denied.append(f"{done.call.program} was denied {', '.join(done.reply.denied)}")
    return done


# --- programs that cannot -----------------------------------------------------------------------------


def _trouble(player: Player, done: Answered) -> ProgramTrouble:
    reply, program = done.reply, player.key
    reasons = {
        "limit": f"{program} is at a limit",
        "server": f"the server of {program} is down: {reply.detail}".rstrip(": "),
        "auth": f"{program} is not signed in: {reply.detail}".rstrip(": "),
    }
    kind = REPLACED[reply.trouble]
    return ProgramTrouble(program, kind, reasons[kind], reply.limit_reset_at, _age(done))


def _age(done: Answered) -> float:
    """The seconds since the call began: until it is reported, others may have met the same."""
    return time.monotonic() - done.began


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
    waits = {key: limit for key, limit in met.items() if limit.is_worth_waiting_for(unproven=reviews)}
    reasons = "; ".join(limit.reason for limit in met.values())
    if waits:
        who = doer(asked.spec.agent, able[0].program) if able else persona_name(asked.spec.agent)
        raise Parked(f"nobody can play {who} now: {reasons}", waits)
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
        return asked.session if program == asked.spec.executable else None
    own = [call for call in case.record.dev if _is_of(call, asked)]
    if not own:
        return _session_of_team(case, asked, program)
    same = [call for call in own if call.program == program]
    return _as_left(case, same[-1].session) if same and same[-1].trouble != "forgotten" else None


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
    chair = (asked.role, asked.seat, asked.spec.agent)
    same = [one for one in case.order.team_before if (one.role, one.seat, one.agent) == chair]
    return next((one for one in reversed(same) if program in ("", one.program)), None)


def _is_of(call: AgentCall, asked: Asked) -> bool:
    return (call.role, call.seat, call.agent) == (asked.role, asked.seat, asked.spec.agent)


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


# --- afterwards: a recorded session is taken up again, and answers a person's question ----------------

Side = Literal["dev", "qa"]
Talk = DevCall | QACall
"""One call of an agent, as the bead remembers it."""


def side_of(talk: Talk) -> Side:
    return "dev" if isinstance(talk, DevCall) else "qa"


def brief(talk: Talk) -> dict[str, Any]:
    """What people know it by."""
    return {
        "role": talk.role or side_of(talk),
        "agent": persona_name(talk.agent),
        "program": talk.program,
        "model": talk.model,
        "attempt": talk.attempt,
        "status": talk.status,
        "session_id": talk.session_id,
        "started_at": talk.started_at,
    }


def talks(bead: Bead) -> list[Talk]:
    """Every call that the bead remembers, oldest first."""
    found: list[Talk] = bead.metadata.calls
    return sorted(found, key=lambda one: (one.started_at, one.attempt))


def place_of(bead: Bead, talk: Talk) -> Path:
    """Where it was held."""
    return Path(talk.cwd or bead.metadata.worktree_path)


def pick(bead: Bead, side: Side, session_id: str | None = None) -> Talk:
    """The last session of a side, or the one that is named."""
    known = [one for one in talks(bead) if one.session_id]
    if session_id is None:
        chosen = [one for one in known if side_of(one) == side]
    else:
        chosen = [one for one in known if one.session_id == session_id]
    if chosen:
        return chosen[-1]
    wanted = f"session {session_id}" if session_id else f"session of a {side} agent"
    action = f"See: beads-ralph sessions {bead.id}"
    raise RalphError(Code.FILE_NOT_FOUND, f"{bead.id} has no {wanted}", suggested_action=action)


@dataclass(frozen=True)
class Heard:
    """What came back."""

    answered: Answered
    changed: bool
    """Whether the agent changed something although it was asked not to."""


async def ask_afterwards(bead: Bead, talk: Talk, question: str, tools: Tools, events: EventSink) -> Heard:
    """Take the session up where it ended, in the place where it ended."""
    with _place_again(bead, talk, tools.root) as (cwd, state):
        before = state()
        prompt = tools.prompts.render(
            "ask", bead_id=bead.id, worktree=str(cwd), branch=bead.metadata.branch, question=question
        )
        asked = Asked(
            _spec_then(bead, talk),
            next((role for role in get_args(AgentRole) if role == talk.role), side_of(talk)),
            prompt,
            cwd,
            talk.attempt,
            "ask",
            session=Session(talk.session_id or ""),
            prose=True,
        )
        run_id = tools.folder.run_id
        order = Order(bead, run_id, run_id, tools.root, tools.config)
        done = await agent_calls.call(asked, order, tools, events)
        return Heard(done, state() != before)


def _spec_then(bead: Bead, talk: Talk) -> AgentSpec:
    """The agent as it was called then: its own options and variables, the program that played it."""
    place = bead.metadata
    every = [place.scrum_master_agent, *place.dev_agents, *place.qa_agents]
    named = persona_path(talk.agent)
    spec = next((one for one in every if persona_path(one.agent) == named), None)
    if spec is None:
        spec = AgentSpec.model_validate({"role": "polecat", "agent": talk.agent})
    if not talk.program or spec.executable == talk.program:
        return spec
    return spec.model_copy(update={"executable": talk.program, "options": None, "model": talk.model or None})


@contextmanager
def _place_again(bead: Bead, talk: Talk, root: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Where the session was: some CLIs find it only there. What is gone is checked out again, for now. With
    it, what tells whether anything was changed there."""
    cwd = place_of(bead, talk)
    if cwd.is_dir():
        yield cwd, lambda: (worktree_status.head(cwd), worktree_status.uncommitted(cwd))
        return
    judged = talk.commit if isinstance(talk, QACall) else None
    commit = judged or commands.commit_of(f"refs/heads/{bead.metadata.branch}", root)
    if commit is None:
        message = f"neither the worktree {cwd} nor the branch {bead.metadata.branch} is there any more"
        raise RalphError(Code.FILE_NOT_FOUND, message)
    with proofs.at(root).checkout(commit, into=cwd) as clean:
        yield clean.path, lambda: (clean.head(), clean.changed())
