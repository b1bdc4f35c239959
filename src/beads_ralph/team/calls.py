"""Calling an agent: from a persona and a prompt to how it ended and what it answered."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph import git, personas, proc
from beads_ralph.agents import environment, replies
from beads_ralph.errors import Code, RalphError
from beads_ralph.jobs import Exit, Job, Profile, Transcript
from beads_ralph.legacy import AGENTS_DIR, persona_name, persona_path
from beads_ralph.models import CLAUDE, OUTPUT_SCHEMA, AgentSpec, Bead
from beads_ralph.team import isolation
from beads_ralph.team.order import Order, Tools
from beads_ralph.team.threads import in_thread
from beads_ralph.values import utc_text
from beads_ralph.work import AgentRole, AgentTask, Persona, Reply, Session, Usage

SERVER_TRIES: Final = 3
SUMMARY: Final = 500
LONGEST_LINE: Final = 16 * 1024 * 1024
SPARE_SECONDS: Final = 600.0


@dataclass(frozen=True)
class Call:
    """One finished call of an agent."""

    spec: AgentSpec
    role: AgentRole
    model: str
    ended: Exit
    reply: Reply
    usage: Usage
    """What it cost, all of its tries together, and nothing that its session had cost before."""
    started_at: str
    completed_at: str

    @property
    def session(self) -> Session | None:
        """What to go on with."""
        return Session(self.reply.session_id, self.reply.session_usage) if self.reply.session_id else None

    @property
    def name(self) -> str:
        """Of the agent, as people say it."""
        return persona_name(self.spec.agent)

    @property
    def problem(self) -> str:
        """What went wrong with the call itself, whatever the agent said; empty where nothing did."""
        if self.ended.cut_short:
            return self.ended.cut_short
        if self.reply.trouble not in ("", "unreadable"):
            return f"{self.reply.trouble}: {self.reply.detail}".rstrip(": ")
        if self.ended.code < 0:
            return f"was ended by signal {-self.ended.code}"
        if self.ended.code > 0:
            return f"ended with exit code {self.ended.code}: {self.reply.detail}".rstrip(": ")
        return ""


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
    session: Session | None = None
    seconds: float | None = None
    """What is left of the bead's time; None where that has no limit."""
    budget_usd: float | None = None
    """What is left of the bead's money; None where that has no limit."""


async def call(asked: Asked, order: Order, tools: Tools) -> Call:
    """Run the agent; a server's passing trouble is waited out, a bounded number of times."""
    spent = Usage()
    for turn in range(SERVER_TRIES):
        done = await _once(asked, order, tools)
        spent = spent + done.usage
        if done.reply.trouble != "server" or turn == SERVER_TRIES - 1:
            break
        asked = replace(asked, session=done.session or asked.session)
        await asyncio.sleep(tools.server_pause * 2**turn * random.uniform(0.5, 1.5))  # noqa: S311
    return replace(done, usage=spent)


async def _once(asked: Asked, order: Order, tools: Tools) -> Call:
    spec = with_defaults(asked.spec, tools)
    cli = tools.select(spec.executable or CLAUDE)
    transcript = tools.bench.folder.transcript(order.bead.id, asked.name)
    task = _task(asked, spec, order, tools, cli.profile)
    job = isolation.confined(cli.command(task, transcript), task, cli.profile, order.bead, tools.config)
    _require_program(job)
    tell = tools.bench.journal.tell
    whose = (order.bead.id, order.bead.metadata.team_name, asked.attempt)
    about: dict[str, Any] = {
        "role": asked.role,
        "agent": spec.agent,
        "model": task.model,
        "program": spec.executable,
    }
    tell("agent_started", *whose, transcript=str(transcript.out), **about)
    started = utc_text(datetime.now(UTC))
    ended = await tools.bench.executor.run(job)
    reply = await in_thread(lambda: cli.reply(ended, _lines(transcript)))
    usage = reply.usage + (reply.session_usage - (asked.session or Session("")).counted)
    reply = _in_session(reply, asked, job if cli.profile.session_is_given else None)
    done = Call(spec, asked.role, task.model, ended, reply, usage, started, utc_text(datetime.now(UTC)))
    tell(
        "agent_ended",
        *whose,
        exit_code=ended.code,
        seconds=round(ended.seconds, 3),
        problem=done.problem,
        session_id=reply.session_id,
        usage=asdict(usage),
        output_summary=(ended.stdout.strip() or ended.stderr.strip())[-SUMMARY:],
        **about,
    )
    return done


def _in_session(reply: Reply, asked: Asked, given: Job | None) -> Reply:
    """A call that does not name its session was still in the one to go on with, or, where the program
    takes the id that it is `given`, in that one."""
    if reply.session_id or reply.trouble == "forgotten":
        return reply
    if asked.session:
        counted = asked.session.counted if reply.session_usage == Usage() else reply.session_usage
        return replace(reply, session_id=asked.session.id, session_usage=counted)
    return replace(reply, session_id=(given.env or {}).get(environment.SESSION)) if given else reply


def _lines(transcript: Transcript) -> Iterator[str]:
    """What it printed; nothing where it removed its own transcript."""
    with suppress(FileNotFoundError):
        yield from replies.lines_of(transcript.out, LONGEST_LINE)


def _require_program(job: Job) -> None:
    """Three attempts with a program that is not there would blame the bead for it."""
    program, env = job.argv[0], job.env or os.environ
    if os.sep in program:
        there = not program.startswith(os.sep) or os.access(program, os.X_OK)  # relative: to the worktree
    else:
        there = proc.which(program, env.get("PATH", os.defpath)) is not None
    if not there:
        action = f"Install {program}, or set agent_defaults.default_executable in beads-ralph.yaml"
        raise RalphError(
            Code.FILE_NOT_FOUND, f"cannot run {program!r}: no such program", suggested_action=action
        )


# --- what is asked ------------------------------------------------------------------------------------


def with_defaults(spec: AgentSpec, tools: Tools) -> AgentSpec:
    """The configured program and options where the persona names none of its own."""
    defaults = tools.config.agent_defaults
    given = spec.model_fields_set
    changes: dict[str, str | list[str]] = {}
    if "executable" not in given or spec.executable is None:
        changes["executable"] = defaults.default_executable
    if spec.options is None and changes.get("executable", spec.executable) == CLAUDE:
        changes["options"] = list(defaults.default_options)
    return spec.model_copy(update=changes)


def programs(bead: Bead, tools: Tools) -> Iterator[str]:
    """The programs that a bead's agents are played by."""
    place = bead.metadata
    own = [place.scrum_master_agent] if names_scrum_master(bead) else []
    for spec in (*own, *place.dev_agents, *place.qa_agents):
        yield with_defaults(spec, tools).executable or CLAUDE


def names_scrum_master(bead: Bead) -> bool:
    """Whether the bead has a scrum-master agent of its own; the usual one is this program itself."""
    return persona_path(bead.metadata.scrum_master_agent.agent) not in personas.BUILT_IN


def _task(asked: Asked, spec: AgentSpec, order: Order, tools: Tools, profile: Profile) -> AgentTask:
    defaults = tools.config.agent_defaults
    model = personas.resolve_model(
        spec, tools.root, default_model=defaults.default_model, role_models=defaults.role_models
    )
    limit = _limit(asked.role, order, tools)
    return AgentTask(
        spec=spec,
        role=asked.role,
        prompt=asked.prompt,
        cwd=asked.cwd,
        bead_id=order.bead.id,
        attempt=asked.attempt,
        branch=order.bead.metadata.branch,
        run_id=order.run_id,
        model=model,
        persona=_persona(spec, tools.root),
        session_id=asked.session.id if asked.session else None,
        timeout=limit if asked.seconds is None else max(min(limit, asked.seconds), 1.0),
        output_schema=_output_schema(asked.role, spec),
        budget_usd=asked.budget_usd,
        git_folders=git.folders_of(asked.cwd),
        inherits=tuple(tools.config.agent_env),
        home=isolation.home_of(tools.config, tools.root),
        committer=isolation.committer(tools.config, tools.root, profile),
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


def _output_schema(role: AgentRole, spec: AgentSpec) -> Mapping[str, Any] | None:
    if role == "qa":
        return spec.output_schema or OUTPUT_SCHEMA
    return None


def _persona(spec: AgentSpec, root: Path) -> Persona | None:
    path = personas.persona_file(spec.agent, root)
    if path is not None:
        return personas.read_persona(path)
    if persona_path(spec.agent) not in personas.BUILT_IN and (root / AGENTS_DIR).is_dir():
        message = f"Agent path '{spec.agent}' does not exist in {AGENTS_DIR}"
        action = f"Create {persona_path(spec.agent)}, or name another agent"
        raise RalphError(Code.FILE_NOT_FOUND, message, suggested_action=action)
    return None
