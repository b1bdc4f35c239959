"""The prompts of a bead as its agents would get them now, without anybody being asked.

What only a call knows stands there as a word in round brackets: a nonce, the files of a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from beads_ralph.agents import players
from beads_ralph.agents.verdicts import Question
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.model import OUTPUT_SCHEMA, AgentSpec
from beads_ralph.bead.run_state import RunState
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.merges import Conflict
from beads_ralph.prompts import FOLDER, Name
from beads_ralph.session import prompting, session
from beads_ralph.session.history import BeadHistory
from beads_ralph.session.order import Order, Tools
from beads_ralph.session.program_limits import LocalHost, ProgramLimits
from beads_ralph.session.prompting import ReviewedChange
from beads_ralph.session.state import BeadSession
from beads_ralph.session.worktree import ref_word

PromptRole = Literal["dev", "qa", "merge", "scrum-master"]
PROMPTS: Final[dict[PromptRole, Name]] = {
    "dev": "dev",
    "qa": "qa",
    "merge": "merge",
    "scrum-master": "scrum-master",
}
IN_EACH_CALL: Final = "(new in each call)"


@dataclass(frozen=True)
class Shown:
    """A prompt, and who would get it."""

    role: PromptRole
    agent: AgentSpec
    name: Name
    file: str | None
    """That of the repository, where it has one of its own."""
    text: str


@dataclass(frozen=True)
class _Nobody(LocalHost):
    """A host that is told nothing and keeps nothing."""

    async def keep(self, state: RunState) -> None:
        """Nothing happens."""

    async def why_pause(self) -> str:
        return ""

    async def branches_beside(self) -> Sequence[str]:
        return ()


class _Unheard:
    """Where events go that nobody reads."""

    def emit(self, event: object) -> None:
        """Nothing happens."""


def shown(order: Order, tools: Tools, role: PromptRole, seat: int = 1) -> Shown:
    """The prompt of one of the bead's agents."""
    bead = order.bead
    host = _Nobody(bead, _Unheard(), ProgramLimits())
    case = BeadSession(order, tools, host, BeadHistory.of(bead, order.session_id))
    source = f"{HEADS}{bead.metadata.source_branch}"
    case.base = case.proofs.start(ref_word(bead.id)) or commands.commit_of(source, tools.root) or ""
    agent = _agent(case, role, seat)
    if role == "dev":
        text = prompting.developer(case, agent, case.record.attempts + 1)
    elif role == "qa":
        text = _review(case, seat)
    elif role == "merge":
        text = _merge(case)
    else:
        text = session.scrum_prompt(case)
    name = PROMPTS[role]
    file = f"{FOLDER}/{name}.md" if name in tools.prompts.own else None
    return Shown(role, agent, name, file, text)


def _agent(case: BeadSession, role: PromptRole, seat: int) -> AgentSpec:
    place = case.metadata
    if role == "scrum-master":
        return place.scrum_master_agent
    if role == "merge":
        return players.merger(place.dev_agents[0], case.tools)
    known = place.dev_agents if role == "dev" else place.qa_agents
    if not 1 <= seat <= len(known):
        message = f"{case.bead.id} has {len(known)} {role} agents, so none with the number {seat}"
        raise RalphError(Code.USAGE, message)
    return known[seat - 1]


def _review(case: BeadSession, seat: int) -> str:
    """Of the branch as it is; of a bead that nobody has begun, of its base."""
    root, place = case.tools.root, case.metadata
    head = commands.commit_of(f"{HEADS}{place.branch}", root)
    if head and case.base:
        changed = commands.output("diff", "--name-only", "-z", case.base, head, cwd=root).split("\0")
    else:
        changed = []
    checks = [Evidence(one.name, "verifier", one.command, "", "pass", "") for one in case.verifiers]
    question = Question(case.bead.id, head or case.base, IN_EACH_CALL)
    schema = question.schema(place.qa_agents[seat - 1].output_schema or OUTPUT_SCHEMA)
    change = ReviewedChange([name for name in changed if name], (), case.metadata.flags, checks)
    return prompting.reviewer(case, seat, change, question, case.worktree, schema)


def _merge(case: BeadSession) -> str:
    """As if the first of its branches could not be merged."""
    branches = [*case.order.dependency_branches, *(case.metadata.branches_to_merge or ())]
    branches = list(dict.fromkeys(branches)) or [case.metadata.source_branch]
    conflict = Conflict(branches[0], case.metadata.branch, ("(the files in conflict)",), "", "")
    return prompting.merger(case, conflict, branches, "", case.record.feedback or "")
