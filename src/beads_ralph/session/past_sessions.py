"""Asking an agent afterwards: its recorded session is taken up again, and answers a person's question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from beads_ralph import prompts
from beads_ralph.bead.agent_call import Session
from beads_ralph.bead.legacy import persona_name, persona_path
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.run_state import AgentRole, DevExecution, QAExecution
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import checkouts, commands, worktree_status
from beads_ralph.session import agent_calls
from beads_ralph.session.agent_calls import Asked, Call
from beads_ralph.session.order import Order, Tools

Side = Literal["dev", "qa"]


@dataclass(frozen=True)
class Talk:
    """One call of an agent, as the bead remembers it."""

    side: Side
    role: AgentRole
    agent: str
    program: str
    model: str
    attempt: int
    status: str
    session_id: str | None
    started_at: str
    cwd: Path
    commit: str | None = None
    """What it looked at, for one that judged."""

    def to_json(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "agent": persona_name(self.agent),
            "program": self.program,
            "model": self.model,
            "attempt": self.attempt,
            "status": self.status,
            "session_id": self.session_id,
            "started_at": self.started_at,
        }


def talks(bead: Bead) -> list[Talk]:
    """Every call that the bead remembers, oldest first."""
    state = bead.metadata
    found = [_talk(bead, "dev", row, None) for row in state.dev_agent_executions or ()]
    found += [_talk(bead, "qa", row, row.commit) for row in state.qa_agent_executions or ()]
    return sorted(found, key=lambda one: (one.started_at, one.attempt))


def _talk(bead: Bead, side: Side, row: DevExecution | QAExecution, commit: str | None) -> Talk:
    return Talk(
        side,
        row.role or side,
        row.agent_path,
        row.program or "",
        row.model or "",
        row.attempt,
        row.status,
        row.session_id,
        row.started_at,
        Path(row.cwd or bead.metadata.worktree_path),
        commit,
    )


def pick(bead: Bead, side: Side, session_id: str | None = None) -> Talk:
    """The last session of a side, or the one that is named."""
    known = [one for one in talks(bead) if one.session_id]
    if session_id is None:
        chosen = [one for one in known if one.side == side]
    else:
        chosen = [one for one in known if one.session_id == session_id]
    if chosen:
        return chosen[-1]
    wanted = f"session {session_id}" if session_id else f"session of a {side} agent"
    action = f"See: beads-ralph sessions {bead.id}"
    raise RalphError(Code.FILE_NOT_FOUND, f"{bead.id} has no {wanted}", suggested_action=action)


# --- asking -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heard:
    """What came back."""

    call: Call
    changed: bool
    """Whether the agent changed something although it was asked not to."""


async def ask(bead: Bead, talk: Talk, question: str, run_id: str, tools: Tools) -> Heard:
    """Take the session up where it ended, in the place where it ended."""
    with _place(bead, talk, tools.root) as cwd:
        before = _state(cwd)
        prompt = prompts.render(
            "ask", bead_id=bead.id, worktree=str(cwd), branch=bead.metadata.branch, question=question
        )
        asked = Asked(
            _spec(bead, talk),
            talk.role,
            prompt,
            cwd,
            talk.attempt,
            "ask",
            session=Session(talk.session_id or ""),
            prose=True,
        )
        done = await agent_calls.call(asked, Order(bead, run_id, run_id), tools)
        return Heard(done, _state(cwd) != before)


def _spec(bead: Bead, talk: Talk) -> AgentSpec:
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
def _place(bead: Bead, talk: Talk, root: Path) -> Iterator[Path]:
    """Where the session was: some CLIs find it only there. What is gone is checked out again, for now."""
    if talk.cwd.is_dir():
        yield talk.cwd
        return
    commit = talk.commit or commands.commit_of(f"refs/heads/{bead.metadata.branch}", root)
    if commit is None:
        message = f"neither the worktree {talk.cwd} nor the branch {bead.metadata.branch} is there any more"
        raise RalphError(Code.FILE_NOT_FOUND, message)
    with checkouts.checkout_clean(root, commit, talk.cwd) as path:
        yield path


def _state(cwd: Path) -> tuple[str, frozenset[str]]:
    return worktree_status.head(cwd), frozenset(worktree_status.uncommitted(cwd))
