"""Ralph beads as beads of a store, and back: what each field and each word becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from beads_ralph.bead.legacy import SCRUM_MASTER
from beads_ralph.bead.model import CLAUDE, OUTPUT_SCHEMA, AgentSpec, Bead
from beads_ralph.bead.names import ASSIGNEE, WORK, branch_slug
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.words import utc_text
from beads_ralph.compile.setting import DEFAULT_RIG, ID_PREFIX, Setting
from beads_ralph.dod.files import BeadFile

GATE: Final = "gate"
TYPE: Final = "type:"
LANE: Final = "lane:"
RALPH: Final = "ralph"
"""The metadata key that holds the bead file as it was, so that it can be written back."""
PHASE, SPRINT = "0", "0.1"
"""A Ralph bead comes from no plan; these numbers come before every plan's."""
LOWEST: Final = 4
TITLE_LENGTH: Final = 500

TO_STORE: Final[Mapping[str, str]] = {
    "pending": "open",
    "in_progress": "open",  # nobody holds a new bead
    "completed": "closed",
    "failed": "blocked",
    "blocked": "blocked",
}
FROM_STORE: Final[Mapping[str, str]] = {
    "open": "pending",
    "in_progress": "in_progress",
    "closed": "completed",
    "blocked": "blocked",
}
FEATURE_TEMPLATES: Final = ("feature", "custom")


def store_id(key: str, store: str) -> str:
    """The id of a Ralph bead in a store: its own, unless bd would refuse it for want of a dash."""
    return f"{ID_PREFIX}-{key}" if store == "bd" and "-" not in key else key


def bead_of(found: BeadFile, setting: Setting, source_branch: str, bead_id: str = "") -> Bead:
    """The bead of a store; open or blocked, as new beads are. Its own id stays in its metadata."""
    ralph, moment = found.bead, utc_text(setting.now)
    status = TO_STORE[ralph.status]
    raw = {
        "id": bead_id or found.key,
        "title": ralph.name[:TITLE_LENGTH],
        "description": ralph.intent,
        "status": "blocked" if status == "blocked" else "open",
        "priority": min(ralph.priority, LOWEST),
        "issue_type": WORK,
        "assignee": ASSIGNEE,
        "owner": None,
        "dependencies": [],
        "labels": _labels(found),
        "comments": [],
        "external_ref": None,
        "created_at": moment,
        "updated_at": moment,
        "closed_at": None,
        "metadata": {**_place(found, setting, source_branch), **_work(found, setting)},
    }
    return Bead.model_validate(raw)


def _labels(found: BeadFile) -> list[str]:
    ralph = found.bead
    labels = ["ralph-bead", f"{TYPE}{ralph.type}"]
    labels += [f"{LANE}{ralph.lane}"] if ralph.lane else []
    return [*labels, GATE] if ralph.type == GATE else labels


def _place(found: BeadFile, setting: Setting, source_branch: str) -> dict[str, Any]:
    branch = f"ralph/{branch_slug(found.key) or 'bead'}"
    return {
        "rig": setting.config.plan.rig or setting.repo_name or DEFAULT_RIG,
        "worktree_path": setting.worktree(branch, setting.config.plan),
        "branch": branch,
        "source_branch": source_branch,
        "phase": PHASE,
        "sprint": SPRINT,
        "team_name": f"ralph-{found.key}",
        "plan_file": setting.plan_file,
        "plan_section": found.bead.name,
        "plan_sprint_id": found.key,
    }


def _work(found: BeadFile, setting: Setting) -> dict[str, Any]:
    ralph, plan = found.bead, setting.config.plan
    said = {key: value for key, value in found.raw.items() if key != "ralph_meta"}
    work: dict[str, Any] = {
        "scrum_master_agent": (plan.scrum_master or _agent(SCRUM_MASTER)).to_json(),
        "dev_agents": [spec.to_json() for spec in plan.dev_agents or [_agent(CLAUDE)]],
        "qa_agents": [_reviewer(spec) for spec in plan.qa_agents or [_agent(CLAUDE)]],
        "dev_prompts": [ralph.intent],
        "max_retry_attempts": ralph.constraints.max_iterations,
        **RunState(attempt_count=0).to_metadata(),
        "dod": {
            "verifiers": [one.to_json() for one in ralph.verifiers()],
            "evidence_required": ralph.dod.evidence_required,
        },
        RALPH: said,
    }
    minutes = ralph.constraints.time_budget_minutes
    if minutes is not None and minutes > 0:
        work["timeout_minutes"] = minutes
    if ralph.constraints.deadline is not None:
        work["deadline"] = ralph.constraints.deadline
    return work | ({GATE: True} if ralph.type == GATE else {})


def _agent(name: str) -> AgentSpec:
    return AgentSpec(role="polecat", agent=name, model="sonnet")


def _reviewer(spec: AgentSpec) -> dict[str, Any]:
    return {"output_schema": dict(OUTPUT_SCHEMA), **spec.to_json()}


# --- and back -----------------------------------------------------------------------------------------


def ralph_of(bead: Bead) -> dict[str, Any] | None:
    """A bead of the store as a Ralph bead: the file that it came from, with how far it is now. A bead of a
    plan can be one, too, where it has verifiers; None where it has none."""
    place = bead.metadata
    known: dict[str, Any] = dict(place.ralph or {})
    if not known and place.dod is None:
        return None
    raw = known or {
        "id": bead.id,
        "title": bead.title,
        "intent": "\n".join(place.dev_prompts) or bead.title,
        "type": type_of(bead),
        "priority": bead.priority,
        "dod": place.dod.to_json() if place.dod else {},
        "constraints": {"max_iterations": place.max_retry_attempts},
    }
    rows = place.verdict.evidence if place.verdict else ()
    results = [row.to_json() for row in rows if row.kind == "verifier"]
    meta = {"attempt_count": place.attempt_count, "verifier_results": results}
    return raw | {"ralph_meta": meta, "status": FROM_STORE[bead.status]}


# --- kinds of beads -----------------------------------------------------------------------------------


def is_gate(bead: Bead) -> bool:
    """By its label or its metadata: the types of issues are fixed."""
    said = (bead.metadata.model_extra or {}).get(GATE)
    return said is True or GATE in bead.labels


def type_of(bead: Bead) -> str:
    """task, feature, bugfix or gate: by its label, else by its template. A bead of a plan is a feature
    unless it says otherwise."""
    if is_gate(bead):
        return GATE
    said = _labelled(bead.labels)
    if said:
        return said
    template = (bead.metadata.model_extra or {}).get("template")
    if isinstance(template, str) and template and template not in FEATURE_TEMPLATES:
        return "bugfix" if template == "bug-fix" else "task"
    return "feature"


def _labelled(labels: Iterable[str]) -> str:
    return next((label.removeprefix(TYPE) for label in labels if label.startswith(TYPE)), "")


def is_feature(bead: Bead) -> bool:
    return type_of(bead) == "feature"
