"""Sessions of the past: one that a bead remembers is taken up again, and answers a person's question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from beads_ralph.bead.agent_call import DevCall, QACall, Session
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import persona_name, persona_path
from beads_ralph.bead.personas import AgentRole
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, proofs, worktree_status
from beads_ralph.journal.journal import EventSink
from beads_ralph.session import agent_calls
from beads_ralph.session.agent_calls import Answered, Asked
from beads_ralph.session.order import Order, Tools

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
