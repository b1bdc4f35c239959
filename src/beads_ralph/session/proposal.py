"""From a proven commit to its pull request."""

from __future__ import annotations

import textwrap
from typing import Final

from beads_ralph import prompts
from beads_ralph.bead.evidence import Verdict
from beads_ralph.bead.redaction import redact
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.standing import standing_text
from beads_ralph.forge.protocol import Proposal, PullRequest
from beads_ralph.git import commands, guard, merges
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal.events import PullRequestOpened, WarningGiven
from beads_ralph.process.calls import in_thread
from beads_ralph.session.order import Halted, Outcome
from beads_ralph.session.state import BeadSession
from beads_ralph.session.worktree import ref_word

QUOTED: Final = 2000
"""How much of a text that others wrote a pull request repeats."""

UNVERIFIED: Final = "Reviewed, not proven: no verifier ran on this commit."


async def propose(case: BeadSession, commit: str) -> Outcome:
    """Exactly the commit that was proven; a pull request that the branch has already is brought up to it."""
    await in_thread(_keep_alive, case, commit)
    if case.merges and await in_thread(_is_in_source, case, commit):
        return _done(case, PullRequest(None, None, case.metadata.branch, case.metadata.source_branch, commit))
    title, body = redact(case.bead.title), redact(_body(case))
    proposal = Proposal(case.bead.id, title, body, case.metadata.branch, case.metadata.source_branch, commit)
    pull = await in_thread(case.tools.forge.propose, proposal)
    if pull.commit != commit:
        where = pull.url or pull.branch
        raise Halted("broken", f"{where} holds {pull.commit[:12]}, not {commit[:12]}, which passed")
    guard.expect(case.tools.root, {f"{HEADS}{pull.branch}": commit})
    case.tell(_opened(case.record.attempts, pull))
    if case.claimed_pull not in (None, pull.url):
        text = f"the scrum-master named {case.claimed_pull}, but the pull request is {pull.url or 'none'}"
        case.tell(WarningGiven(attempt=case.record.attempts, message=text))
    return _done(case, pull)


def _keep_alive(case: BeadSession, commit: str) -> None:
    """Whatever becomes of the repository: the commit can be had from where it was proven."""
    case.proofs.bring([commit])
    case.proofs.note_proven(ref_word(case.bead.id), commit)


def _opened(attempt: int, pull: PullRequest) -> PullRequestOpened:
    return PullRequestOpened(
        attempt=attempt,
        number=pull.number,
        url=pull.url,
        branch=pull.branch,
        target=pull.target,
        commit=pull.commit,
    )


def _is_in_source(case: BeadSession, commit: str) -> bool:
    """People may merge every side before the merge's turn comes: then there is nothing left to propose."""
    found = merges.reliable_branches(case.tools.root, [case.metadata.source_branch])
    source = found.get(case.metadata.source_branch)
    return source is not None and commands.contains(case.tools.root, source.commit, commit)


def _done(case: BeadSession, pull: PullRequest) -> Outcome:
    record = case.record
    result = record.result(success=True, error=None, fatal=False, pull=pull)
    found = RunState(pr_url=pull.url, pr_number=pull.number, scrum_result=result)
    state = record.state().changed(found)
    reason = standing_text(state.standing or "reviewed", pull.commit)
    return Outcome("done", reason, state, pull, record.attempts - record.before, record.usage)


def _body(case: BeadSession) -> str:
    """What a reviewer wants to know: the tasks, and what was checked how. Words that others wrote are set as
    code, so that none of them can pass for a line of ours or hide one."""
    verdict = case.record.last_verdict or Verdict("pass", "")
    merged = [f"- {_quoted(branch)}" for branch in case.metadata.branches_to_merge or ()]
    tasks = [f"- {_quoted(task)}" for task in case.metadata.dev_prompts]
    checks = [f"- {row.ruling}: {_quoted(row.name)} — {_quoted(row.message)}" for row in verdict.evidence]
    flags = [f"- {_quoted(flag)}" for flag in verdict.flags]
    parts = [
        f"Bead `{case.bead.id}`, sprint {case.metadata.sprint} of `{case.metadata.plan_file}`.",
        *(["## Merged\n\n" + "\n".join(merged)] if merged else []),
        *([f"## {_heading(case)}\n\n" + "\n".join(tasks)] if tasks else []),
        "## Checks\n\n" + ("\n".join(checks) or "none"),
    ]
    if case.record.state().standing == "reviewed":
        parts.append(UNVERIFIED)
    if flags:
        parts.append("## Look at\n\n" + "\n".join(flags))
    return "\n\n".join(parts) + "\n"


def _heading(case: BeadSession) -> str:
    """Only what somebody was given can have been done."""
    return "Tasks" if case.was_given else "Tasks that nobody was given"


def _quoted(text: str) -> str:
    return prompts.code_span(textwrap.shorten(text, QUOTED, placeholder=" …"))
