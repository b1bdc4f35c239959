"""Calling an agent: from a persona and a prompt to how it ended and what it answered."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph.agents import environment, faults, following, players, prices, programs, streams
from beads_ralph.agents.following import CallBudget
from beads_ralph.agents.players import names_scrum_master
from beads_ralph.agents.protocol import AgentTask, Reply
from beads_ralph.agents.reply_reader import NOTICE
from beads_ralph.bead import personas
from beads_ralph.bead.agent_call import AgentCall, Session
from beads_ralph.bead.model import CLAUDE, OUTPUT_SCHEMA, AgentSpec, Bead, TemplateName
from beads_ralph.bead.names import AGENTS_DIR, doer, persona_name, persona_path
from beads_ralph.bead.personas import AgentRole, Persona, model_asked
from beads_ralph.bead.usage import COUNTS, UNKNOWN, Budget, Usage
from beads_ralph.bead.words import shortened, utc_text
from beads_ralph.config.model import ModelPrice
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import git_files, quarantine
from beads_ralph.git.quarantine import Quarantine
from beads_ralph.journal.events import AgentEnded, AgentStarted
from beads_ralph.journal.journal import EventSink
from beads_ralph.process import executors
from beads_ralph.process.calls import in_thread
from beads_ralph.process.jobs import Exit, Job, Profile
from beads_ralph.prompts import template_for
from beads_ralph.session import agents_bd, confinement
from beads_ralph.session.order import Order, Tools

SUMMARY: Final = 500
SPARE_SECONDS: Final = 600.0
SKIP: Final = "--dangerously-skip-permissions"
SKIPS: Final = (SKIP, "--dangerously-bypass-approvals-and-sandbox", "--yolo", "-y")
GoesOn = Callable[[], Awaitable[bool]]
"""Asked before a call is made once more."""
Allowance = Callable[[Usage], Awaitable[Budget]]
"""Asked while a call runs, with what it has used so far: how much it may use in all."""


@dataclass(frozen=True)
class Answered:
    """A call that has ended: what is kept of it, and what came back."""

    call: AgentCall
    """The last of its tries, but with the usage of all of them."""
    spec: AgentSpec
    ended: Exit
    reply: Reply
    began: float
    """By the clock of `time.monotonic`."""
    left_behind: tuple[str, ...] = ()
    """What it did in its quarantine and nobody has taken over."""

    @property
    def name(self) -> str:
        """Of the agent, as people say it."""
        return persona_name(self.call.agent)

    @property
    def doer(self) -> str:
        """The agent with the program that really played it."""
        return doer(self.call.agent, self.call.program)


def problem_of(ended: Exit, reply: Reply) -> str:
    """What went wrong with a call itself, whatever the agent said; empty where nothing did."""
    if reply.overspent:
        return f"was ended: {reply.overspent}"
    if ended.cut_short:
        return ended.cut_short
    if reply.trouble not in ("", "unreadable"):
        return f"{reply.trouble}: {reply.detail}".rstrip(": ")
    if ended.code < 0:
        return f"was ended by signal {-ended.code}"
    if ended.code > 0:
        return f"ended with exit code {ended.code}: {reply.detail or _last_line(ended.stderr)}".rstrip(": ")
    return ""


def _last_line(text: str) -> str:
    """What a program said last in its own words, where it said nothing that we understand."""
    words = (line for line in reversed(text.splitlines()) if line.strip())
    return shortened(next((line for line in words if not NOTICE.fullmatch(line)), ""))


@dataclass(frozen=True)
class Asked:
    """What to ask of which agent, and where."""

    spec: AgentSpec
    role: AgentRole
    prompt: str
    cwd: Path
    attempt: int
    name: str
    """Of its transcript; told apart from others of that name."""
    seat: int = 1
    """Which of the bead's agents of that role it is: each has sessions of its own."""
    feedback: str | None = None
    """What it is told of the attempt before; it is part of the prompt already."""
    session: Session | None = None
    seconds: float | None = None
    """What is left of the bead's time; None where that has no limit."""
    budget_usd: float | None = None
    """What is left of the bead's money, for a program that can see to it itself; None for no limit."""
    budget: Allowance | None = None
    """What it may use before it is ended, asked while it runs; None where nothing has a limit."""
    prose: bool = False
    """Whether an answer in words is wanted, also from one that usually gives a verdict."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What its worktree has and others have not, such as ports."""


async def always() -> bool:
    """Nobody has anything against another try."""
    return True


async def call(
    asked: Asked, order: Order, tools: Tools, events: EventSink, goes_on: GoesOn = always
) -> Answered:
    """Run the agent; passing trouble of a server, its own or tmux's, is waited out, a bounded number of
    times, as long as `goes_on` agrees."""
    done = await _once(asked, order, tools, events)
    spent = done.call.usage
    for pause in tools.server_retry.pauses():
        if not (_may_pass(done) or done.ended.abandoned):
            break
        await asyncio.sleep(pause)
        if not await goes_on():
            break
        asked = replace(asked, session=done.call.session or asked.session)
        done = await _once(asked, order, tools, events)
        spent = spent + done.call.usage
    if done.ended.abandoned:
        raise executors.abandoned(done.ended)
    return replace(done, call=replace(done.call, usage=spent))


def _may_pass(done: Answered) -> bool:
    """Trouble that may be over in some seconds; one that lasted until the time was up is not."""
    kind = faults.kind_of(done.reply, done.ended)
    return kind is not None and faults.FAULTS[kind].first == "again" and not done.ended.timed_out


async def _once(asked: Asked, order: Order, tools: Tools, events: EventSink) -> Answered:
    spec = players.with_defaults(asked.spec, tools)
    cli = tools.select(spec.executable or CLAUDE)
    transcript = tools.folder.transcript(order.bead.id, asked.name)
    task = _task(asked, spec, order, tools, cli.profile)
    job = confinement.confined(cli.command(task, transcript), task, cli.profile, order.bead, tools.config)
    job = agents_bd.with_bd(job, tools.folder.path / "bin", tools.root)
    job = replace(_located(job, tools.root), stall_limit=tools.config.stall_limit)
    given = job if cli.profile.session_is_given else None
    begun = AgentCall(
        attempt=asked.attempt,
        role=asked.role,
        agent=spec.agent,
        model=model_asked(cli.name, task.model),
        program=spec.executable or CLAUDE,
        seat=asked.seat,
        transcript=str(transcript.out),
        cwd=str(asked.cwd),
        started_at=utc_text(datetime.now(UTC)),
    )
    begun = _in_session(begun, session_after(asked.session, _told_session(Reply(), asked, given)))
    whose: dict[str, Any] = {
        "bead": order.bead.id,
        "team": order.bead.metadata.team_name,
        "attempt": asked.attempt,
    }
    events.emit(AgentStarted(call=begun, prompt=asked.prompt, **whose))
    began = time.monotonic()
    links = confinement.SettingsLinks.taken(job.settings)
    price = _price_of(begun, spec, job, cli.profile, tools)
    async with _call_budget(asked, price) as spending, _quarantine(task, tools) as own:
        follower = following.follow(cli, job, spending=spending)
        ended = await tools.executor.run(confinement.with_git(job, task, own), follower)
    replaced = await in_thread(links.put_back, tools.folder.path / "replaced") if links.links else []
    reply = await in_thread(following.heard, cli, job, ended, follower)
    usage = reply.usage + (reply.session_usage - (asked.session or Session("")).counted)
    usage, computed = prices.priced(usage, price(reply.model))
    begun = replace(begun, cost_computed=computed)
    reply = _told_session(reply, asked, given)
    done = _ended(_in_session(begun, session_after(asked.session, reply)), ended, reply, usage)
    if asked.role != "qa":
        done = replace(done, commit=await in_thread(git_files.commit_of, "HEAD", asked.cwd))
    events.emit(AgentEnded(call=done, **whose))
    return Answered(done, spec, ended, reply, began, (*(own.told if own else ()), *replaced))


def _price_of(
    begun: AgentCall, spec: AgentSpec, job: Job, profile: Profile, tools: Tools
) -> Callable[[str], ModelPrice | None]:
    """The price of the model that was asked for, or, where nobody named one that has a price, of the one that
    answers."""
    asked = prices.named_model(begun.model, spec.options, job.env or {}, profile)

    def price(answering: str) -> ModelPrice | None:
        own = tools.config.prices
        return prices.price_of(asked, own) or prices.price_of(answering, own)

    return price


@asynccontextmanager
async def _call_budget(
    asked: Asked, price: Callable[[str], ModelPrice | None]
) -> AsyncIterator[CallBudget | None]:
    """A limit that shrinks while other calls spend from the same budget."""
    most = await asked.budget(UNKNOWN) if asked.budget else Budget()
    if asked.budget is None or most == Budget():
        yield None
        return
    spending = CallBudget(most, price)
    sharing = asyncio.create_task(_share(spending, asked.budget))
    try:
        yield spending
    finally:
        sharing.cancel()


async def _share(spending: CallBudget, allowance: Allowance) -> None:
    while True:
        await asyncio.sleep(following.PAUSE)
        spending.most = await allowance(spending.used)


@asynccontextmanager
async def _quarantine(task: AgentTask, tools: Tools) -> AsyncIterator[Quarantine | None]:
    """A repository of its own for whoever commits and is closed in."""
    if not task.closed_in or task.role == "qa" or not task.git_folders:
        yield None
        return
    place = quarantine.around(tools.root, task.cwd, task.branch)
    own = await in_thread(place.__enter__)
    try:
        yield own
    finally:
        await in_thread(place.__exit__, None, None, None)


def _ended(call: AgentCall, ended: Exit, reply: Reply, usage: Usage) -> AgentCall:
    return replace(
        call,
        exit_code=ended.code,
        seconds=round(ended.seconds, 3),
        problem=problem_of(ended, reply),
        trouble=reply.trouble,
        cut_short="budget" if reply.overspent else ended.limit,
        denied=reply.denied,
        usage=usage,
        output_summary=(ended.stdout.strip() or ended.stderr.strip())[-SUMMARY:],
        completed_at=utc_text(datetime.now(UTC)),
    )


def _in_session(call: AgentCall, session: Session | None) -> AgentCall:
    if session is None:
        return replace(call, session_id=None, session_of=None, session_usage=None)
    return replace(call, session_id=session.id, session_of=session.of, session_usage=session.counted)


def _told_session(reply: Reply, asked: Asked, given: Job | None) -> Reply:
    """A call that does not name its session was still in the one to go on with, or, where the program
    takes the id that it is `given`, in that one, unless nothing of it can be gone on with."""
    if reply.session_id or reply.trouble == "forgotten":
        return reply
    if asked.session:
        return replace(reply, session_id=asked.session.id)
    if reply.no_session:
        return reply
    return replace(reply, session_id=(given.env or {}).get(environment.SESSION)) if given else reply


def session_after(before: Session | None, reply: Reply) -> Session | None:
    """A call that broke off may not have told its session's count: then that of the call before holds."""
    if not reply.session_id:
        return None
    same = before if before and before.id == reply.session_id else Session(reply.session_id)
    known = same.counted
    counts = {
        name: getattr(known, name) if (told := getattr(reply.session_usage, name)) is None else told
        for name in COUNTS
    }
    return replace(same, counted=Usage(**counts))


class ProgramMissing(RalphError):  # noqa: N818 - which error it is, its code says
    """The program that plays an agent is not there."""


def _located(job: Job, root: Path) -> Job:
    """The job with its program where that lies. Three attempts with a program that is not there would blame
    the bead for it."""
    program, env = job.argv[0], job.env or os.environ
    if why := programs.why_not(program, root, env.get("PATH", os.defpath)):
        raise ProgramMissing(Code.FILE_NOT_FOUND, why, suggested_action=programs.remedy(program, root))
    return replace(job, argv=(programs.path_of(program, root), *job.argv[1:]))


# --- what is asked ------------------------------------------------------------------------------------


def _task(asked: Asked, spec: AgentSpec, order: Order, tools: Tools, profile: Profile) -> AgentTask:
    limit = _limit(asked.role, order, tools)
    judges = asked.role == "qa" and not asked.prose
    return AgentTask(
        spec=spec,
        role=asked.role,
        prompt=asked.prompt,
        cwd=asked.cwd,
        bead_id=order.bead.id,
        attempt=asked.attempt,
        branch=order.bead.metadata.branch,
        run_id=order.run_id,
        model=players.model_of(spec, tools),
        persona=_persona(spec, tools),
        session_id=asked.session.id if asked.session else None,
        timeout=limit if asked.seconds is None else max(min(limit, asked.seconds), 1.0),
        output_schema=(spec.output_schema or OUTPUT_SCHEMA) if judges else None,
        budget_usd=asked.budget_usd,
        git_folders=git_files.folders_of(asked.cwd),
        env=asked.env,
        closed_in=tools.closed_in,
        inherits=tuple(tools.config.agent_env),
        home=confinement.home_of(tools.config, tools.root),
        committer=confinement.committer(tools.config, tools.root, profile),
    )


def _limit(role: AgentRole, order: Order, tools: Tools) -> float:
    """A scrum-master calls the others itself, so it may take as long as all of them together."""
    config = tools.config
    if role == "qa":
        return config.qa_agent_timeout
    if role != "scrum-master":
        return config.dev_agent_timeout
    once = config.dev_agent_timeout + config.qa_agent_timeout
    return config.scrum_master_timeout or order.bead.metadata.max_retry_attempts * once + SPARE_SECONDS


def _persona(spec: AgentSpec, tools: Tools) -> Persona | None:
    found = tools.personas.find(spec.agent)
    if found is not None:
        return found
    if persona_path(spec.agent) not in personas.BUILT_IN and tools.personas.texts is not None:
        message = f"Agent path '{spec.agent}' does not exist in {AGENTS_DIR}"
        action = f"Create {persona_path(spec.agent)}, or name another agent"
        if personas.persona_file(spec.agent, tools.root) is not None:
            message = f"{persona_path(spec.agent)} was not there when the run began"
            action = "Start the run again: it obeys the agent files that it began with"
        raise RalphError(Code.FILE_NOT_FOUND, message, suggested_action=action)
    return None


# --- what is known of a bead's agents beforehand ------------------------------------------------------


def unasked(bead: Bead, tools: Tools) -> Iterator[tuple[str, str]]:
    """The programs that let a bead's agents do whatever they like, each with the word that says so."""
    for spec in (*bead.metadata.dev_agents, *bead.metadata.qa_agents):
        for player in players.players(spec, tools):
            if said := _unasked_by(player.spec, tools.select(player.program).profile):
                yield player.program, said


def _unasked_by(spec: AgentSpec, profile: Profile) -> str:
    """The word by which an agent is not asked; empty where it is, or is not allowed everything."""
    if said := next((word for word in SKIPS if word in (spec.options or ())), ""):
        return said
    name, _, value = profile.asks_nobody.partition("=")
    otherwise = streams.given(spec.options, *profile.asks_by) or (spec.env or {}).get(name, value) != value
    return "" if otherwise else profile.asks_nobody


def template_of(bead: Bead) -> TemplateName | None:
    """The prompt template of its developers; None where they are not told what to do by us."""
    if not bead.metadata.dev_prompts or names_scrum_master(bead):
        return None
    return bead.metadata.template or template_for(bead.title, bead.metadata.dev_prompts)
