"""What the agents of a bead are told: the prompts, filled with what is known of the bead.

Every prompt is whole in itself. It may go to a session that knows the work or to one that has never heard of
it, to the program that was asked first or to one that stands in for it.
"""

from __future__ import annotations

from beads_ralph import prompts
from beads_ralph.bead.model import AgentSpec
from beads_ralph.session.agent_calls import template_of
from beads_ralph.session.state import BeadSession


def developer(case: BeadSession, spec: AgentSpec, attempt: int) -> str:
    """All of the work, and all that is still held against it."""
    place, record = case.metadata, case.record
    return prompts.render(
        "dev",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=place.branch,
        source_branch=place.source_branch,
        merged=_merged(case),
        since=f"{case.base}..HEAD" if case.base else "",
        attempt=attempt - record.forgiven,
        max_attempts=place.max_retry_attempts,
        title=case.bead.title,
        description=besides_tasks(case.bead.description, place.dev_prompts),
        tasks=place.dev_prompts,
        acceptance_criteria=_criteria(case),
        context=spec.context or "",
        last_attempt=_last_attempt(case),
        findings=[one.text for one in record.findings],
        guidance=prompts.guidance(template_of(case.bead) or "custom"),
        verifiers=[verifier.command for verifier in case.verifiers],
    )


def besides_tasks(description: str, tasks: list[str]) -> str:
    """The description without the tasks, which a sprint that has no text of its own is described with."""
    sentences = "".join(f"{task.rstrip('. ')}. " for task in tasks).rstrip()
    return description.removeprefix(sentences).strip() if sentences else description


def _last_attempt(case: BeadSession) -> str:
    last = case.record.last_verdict
    said = last.message if last is not None and last.ruling != "pass" else ""
    return "\n".join(text for text in (case.half_done, said) if text)


def _merged(case: BeadSession) -> str:
    """The end of the sentence on the branch: what git has put into it before the tasks."""
    names = [prompts.code_span(branch) for branch in case.metadata.branches_to_merge or ()]
    return f"; merged into it by git already: {', '.join(names)}" if names else ""


def _criteria(case: BeadSession) -> list[str]:
    own = list(case.metadata.acceptance_criteria or ())
    if case.shelf is None:
        return own
    text = f"A file in {case.shelf.evidence} shows the result to a person, such as a log or a picture"
    return [*own, text]
