"""What the agents of a bead are told: the prompts, filled with what is known of the bead.

Every prompt is whole in itself. It may go to a session that knows the work or to one that has never heard of
it, to the program that was asked first or to one that stands in for it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from beads_ralph import prompts
from beads_ralph.agents.verdicts import Question
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.model import AgentSpec
from beads_ralph.bead.names import persona_name
from beads_ralph.git import objects
from beads_ralph.git.merges import Conflict
from beads_ralph.session.agent_calls import template_of
from beads_ralph.session.order import Neighbour
from beads_ralph.session.state import BeadSession

CONVENTIONS: Final = (
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md", "CONTRIBUTING.md", ".github/CONTRIBUTING.md"),
    *("docs/CONTRIBUTING.md", ".github/copilot-instructions.md", ".cursorrules", "CONVENTIONS.md"),
)
"""Files in which projects say how things are done; each program reads another of them by itself."""


def developer(case: BeadSession, spec: AgentSpec, attempt: int) -> str:
    """All of the work, and all that is still held against it."""
    place, record = case.metadata, case.record
    return case.tools.prompts.render(
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
        conventions=_conventions(case),
        **_plan(case, "introduction", "phase", "earlier", "beside"),
        last_attempt=_last_attempt(case),
        findings=[one.text for one in record.findings],
        guidance=prompts.guidance(template_of(case.bead) or "custom"),
        verifiers=[verifier.command for verifier in case.verifiers],
    )


@dataclass(frozen=True)
class ReviewedChange:
    """What reviewers are told of the work."""

    changed: Sequence[str]
    """Its files."""
    added: Collection[str]
    """Those among them that were not there before."""
    flags: Sequence[str] = ()
    """What was noticed of it so far, and failed nothing."""
    checks: Sequence[Evidence] = ()
    """What ran on it already."""


def reviewer(
    case: BeadSession,
    seat: int,
    change: ReviewedChange,
    question: Question,
    checkout: Path,
    schema: Mapping[str, Any],
    flaw: str = "",
) -> str:
    """All that is to be judged, where it begins, and what the same reviewer has said of it before."""
    place, spec = case.metadata, case.metadata.qa_agents[seat - 1]
    again = f"Your last answer could not be used: {flaw}. Give the verdict again.\n\n" if flaw else ""
    return case.tools.prompts.render(
        "qa",
        bead_id=case.bead.id,
        worktree=str(checkout),
        branch=place.branch,
        range=f"{case.base}..{question.commit}" if case.base else "",
        commit=question.commit,
        context=spec.context or "",
        conventions=_conventions(case),
        title=case.bead.title,
        description=besides_tasks(case.bead.description, place.dev_prompts),
        tasks=place.dev_prompts,
        acceptance_criteria=place.acceptance_criteria or [],
        **_plan(case, "introduction", "phase", "earlier"),
        changed_files=list(change.changed),
        verifiers=[_result(row) for row in change.checks if row.command],
        findings=_own_findings(case, seat),
        flags=list(change.flags),
        output_schema=json.dumps(schema, indent=2),
        flaw=again,
        nonce=question.nonce,
    )


def fingerprint(case: BeadSession, seat: int, change: ReviewedChange) -> str:
    """A hash of what a verdict rests on beside the commit and what the bead asks for: where the work begins,
    who judges and how, what was checked, and what the same reviewer found before."""
    persona = case.tools.personas.find(case.metadata.qa_agents[seat - 1].agent)
    checks = sorted(_result(row) for row in change.checks if row.command)
    told = [case.base, str(persona), case.tools.prompts.own.get("qa"), checks, _own_findings(case, seat)]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _result(row: Evidence) -> str:
    name = "" if row.name == row.command else f"{row.name}: "
    return f"{row.ruling}: {name}{row.command}"


def _own_findings(case: BeadSession, seat: int) -> list[str]:
    """What this reviewer has found and not taken back."""
    names = [persona_name(spec.agent) for spec in case.metadata.qa_agents[:seat]]
    source = ("qa", names[-1], Counter(names)[names[-1]])
    return [one.text for one in case.record.findings if one.source == source]


def merger(
    case: BeadSession, conflict: Conflict, branches: Sequence[str], merge_base: str, feedback: str
) -> str:
    """Both sides of a merge, and what each of them is for."""
    place = case.metadata
    own = _intent(case.bead.title, () if case.merges else place.dev_prompts)
    return case.tools.prompts.render(
        "merge",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=place.branch,
        merging=conflict.branch,
        merge_base=merge_base,
        conventions=_conventions(case),
        branches=list(branches),
        conflicts=list(conflict.files or conflict.markers),
        ours=_joined([own, *_merged_before(case, conflict, branches)]),
        theirs=_joined(_told(one) for one in case.order.neighbours if one.branch == conflict.branch),
        **_plan(case, "introduction"),
        feedback=feedback,
        tasks=place.dev_prompts if case.merges else [],
        verifiers=[verifier.command for verifier in case.verifiers],
    )


def _merged_before(case: BeadSession, conflict: Conflict, branches: Sequence[str]) -> list[str]:
    """What git has taken in before the branch that it could not."""
    at = branches.index(conflict.branch) if conflict.branch in branches else 0
    return [_told(one) for one in case.order.neighbours if one.branch in branches[:at]]


def _told(one: Neighbour) -> str:
    return _intent(f"{one.title} (branch {one.branch})", one.tasks)


def _intent(title: str, tasks: Sequence[str]) -> str:
    return "\n".join([title, *(f"- {task}" for task in tasks)])


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(texts)


# --- the plan and the repository around a bead --------------------------------------------------------


def _plan(case: BeadSession, *wanted: str) -> dict[str, prompts.Value]:
    """What the plan says around the sprint, as it was compiled, and what has become of its other sprints."""
    context = case.metadata.plan_context
    introduction, phase, goal = (context.introduction, context.phase, context.goal) if context else ("",) * 3
    others = case.order.neighbours
    known: dict[str, prompts.Value] = {
        "introduction": introduction or "",
        "phase": "\n\n".join(text for text in (phase, goal) if text),
        "earlier": [_built(one) for one in others if one.status == "closed"],
        "beside": [f"{one.title} (branch {one.branch})" for one in others if one.status == "in_progress"],
    }
    return {key: known[key] for key in wanted}


def _built(one: Neighbour) -> str:
    pull = f", {one.pull}" if one.pull else ""
    return f"{one.title} (branch {one.branch}{pull})"


def _conventions(case: BeadSession) -> str:
    """The files of the base that say how things are done here, whichever program reads which by itself."""
    if not case.base:
        return ""
    with objects.of(case.tools.root) as reader:
        there = [name for name in CONVENTIONS if reader.entry(case.base, name)]
    return ", ".join(map(prompts.code_span, there))


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
