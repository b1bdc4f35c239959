"""The work itself: by the dev agents in order, or by a scrum-master agent of the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph import prompts
from beads_ralph.bead.model import AgentSpec
from beads_ralph.bead.run_state import HISTORY, ScrumResult
from beads_ralph.session.agent_calls import Answered, Asked
from beads_ralph.session.asking import ask
from beads_ralph.session.fallback import names_scrum_master, template_of
from beads_ralph.session.order import Halted
from beads_ralph.session.state import BeadSession

LAST_WORDS: Final = 4000


async def develop(case: BeadSession, attempt: int, feedback: str | None) -> str:
    """Have the tasks done; why that came to nothing, empty where it did not."""
    if names_scrum_master(case.bead):
        return await _lead(case, attempt, feedback)
    for number, spec in enumerate(case.metadata.dev_agents, 1):
        asked = Asked(
            spec,
            "dev",
            _dev_prompt(case, spec, attempt, feedback),
            case.worktree,
            attempt,
            f"a{attempt}-dev-{number}",
            seat=number,
            feedback=feedback,
        )
        done = await ask(case, asked)
        if done.call.problem:
            return f"dev agent {done.name} {done.call.problem}"
    return ""


def _dev_prompt(case: BeadSession, spec: AgentSpec, attempt: int, feedback: str | None) -> str:
    shared: dict[str, Any] = {
        "bead_id": case.bead.id,
        "worktree": str(case.worktree),
        "branch": case.metadata.branch,
        "tasks": case.metadata.dev_prompts,
        "acceptance_criteria": _criteria(case),
        "verifiers": [verifier.command for verifier in case.verifiers],
        "context": spec.context or "",
    }
    if feedback is not None:
        return prompts.render(
            "dev-retry",
            **shared,
            attempt=attempt - case.record.forgiven,
            max_attempts=case.metadata.max_retry_attempts,
            feedback=feedback,
        )
    return prompts.render(
        "dev",
        **shared,
        source_branch=case.metadata.source_branch,
        title=case.bead.title,
        description=case.bead.description,
        guidance=prompts.guidance(template_of(case.bead) or "custom"),
    )


def _criteria(case: BeadSession) -> list[str]:
    own = list(case.metadata.acceptance_criteria or ())
    if case.shelf is None:
        return own
    text = f"A file in {case.shelf.evidence} shows the result to a person, such as a log or a picture"
    return [*own, text]


# --- a scrum-master of the user's own -----------------------------------------------------------------


async def _lead(case: BeadSession, attempt: int, feedback: str | None) -> str:
    """It leads the dev and QA agents in its own way. What it reports decides only what is worth checking:
    the branch, the checks and the pull request are looked at afterwards, as for any other developer."""
    prompt = _scrum_prompt(case) if feedback is None else _recovery_prompt(case, attempt, feedback, "")
    done = await _call(case, attempt, prompt, f"a{attempt}-scrum", feedback)
    said, flaw = _result(done)
    if said is None and not done.call.problem:
        prompt = _recovery_prompt(case, attempt, f"The answer cannot be used: {flaw}", done.reply.text)
        done = await _call(case, attempt, prompt, f"a{attempt}-scrum-answer", flaw)
        said, flaw = _result(done)
    if done.call.problem:
        return f"scrum-master {done.name} {done.call.problem}"
    if said is None:
        return f"scrum-master {done.name} gave no result that can be read, twice: {flaw}"
    if said.fatal:
        raise Halted("stopped", f"scrum-master {done.name} says fatal: {said.error or 'no reason'}")
    if not said.success:
        return f"scrum-master {done.name} did not succeed: {said.error or 'no reason given'}"
    case.claimed_pull = said.pr_url
    return ""


async def _call(case: BeadSession, attempt: int, prompt: str, name: str, feedback: str | None) -> Answered:
    spec = case.metadata.scrum_master_agent
    asked = Asked(spec, "scrum-master", prompt, case.worktree, attempt, name, feedback=feedback)
    done = await ask(case, asked)
    case.record.session_id = done.reply.session_id or case.record.session_id
    return done


def _result(done: Answered) -> tuple[ScrumResult | None, str]:
    """The seed's ScrumResult, or what is wrong with the answer; its id and counts are not ours to trust."""
    if done.reply.result is None:
        return None, done.reply.detail or "it has no fenced json block"
    said: Mapping[str, Any] = {"bead_id": "", **done.reply.result}
    known = {key: said[key] for key in ("bead_id", "success", "pr_url", "error", "fatal") if key in said}
    try:
        return ScrumResult.model_validate(known), ""
    except ValidationError as problem:
        first = problem.errors()[0]
        return None, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _scrum_prompt(case: BeadSession) -> str:
    place = case.metadata
    told = case.bead.to_json()
    told["metadata"] = {key: value for key, value in told["metadata"].items() if key not in HISTORY}
    return prompts.render(
        "scrum-master",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=place.branch,
        source_branch=place.source_branch,
        team=place.team_name,
        plan_file=place.plan_file,
        plan_section=place.plan_section,
        bead=json.dumps(told, indent=2, ensure_ascii=False),
    )


def _recovery_prompt(case: BeadSession, attempt: int, problem: str, answer: str) -> str:
    return prompts.render(
        "scrum-recovery",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=case.metadata.branch,
        source_branch=case.metadata.source_branch,
        recovery=max(attempt - case.record.forgiven - 1, 1),
        max_recoveries=max(case.metadata.max_retry_attempts - 1, 1),
        problem=problem,
        last_answer=answer[-LAST_WORDS:],
    )
