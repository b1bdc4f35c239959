"""An agent that goes on: with its own session, or with an account of what was done before it."""

from __future__ import annotations

from typing import Final

from beads_ralph import prompts
from beads_ralph.bead.agent_call import AgentCall, Session
from beads_ralph.git import commands, worktree_status
from beads_ralph.process.calls import in_thread
from beads_ralph.session.agent_calls import Asked
from beads_ralph.session.state import BeadSession

GO_ON: Final = ("dev", "scrum-master")
"""The roles that are asked again about the same work. A reviewer looks with fresh eyes each time."""
COMMITS_SHOWN: Final = 30
FILES_SHOWN: Final = 100
SAID_SHOWN: Final = 2000


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
    if not case.worktree.is_dir():
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
