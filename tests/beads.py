"""Valid beads for tests: `make_bead("bd-a", dependencies=["bd-b"], metadata={"pr_number": 7})`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import ASSIGNEE, WORK

PLAN = "plans/shop.md"


def make_bead(bead_id: str, *, dependencies: Sequence[str] = (), **overrides: Any) -> Bead:
    """A bead of schema 4.1a; `overrides` replace core fields, those in `metadata` are merged."""
    metadata = {**raw_metadata(bead_id), **overrides.pop("metadata", {})}
    raw = {
        "id": bead_id,
        "title": f"Build {bead_id}",
        "description": f"Build what the plan says of {bead_id}.",
        "status": "open",
        "priority": 1,
        "issue_type": WORK,
        "assignee": ASSIGNEE,
        "owner": None,
        "dependencies": list(dependencies),
        "labels": ["beads-ralph", "phase-1"],
        "comments": [],
        "external_ref": f"{PLAN}#{bead_id}",
        "created_at": None,
        "updated_at": None,
        "closed_at": None,
        **overrides,
        "metadata": metadata,
    }
    return Bead.model_validate(raw)


def raw_metadata(bead_id: str) -> dict[str, Any]:
    """Metadata in which every required key has a plausible value."""
    return {
        "rig": "shop",
        "worktree_path": f"/srv/shop-worktrees/feature/{bead_id}",
        "branch": "feature/1-1-schema",
        "source_branch": "develop",
        "phase": "1",
        "sprint": "1.1",
        "team_name": "sprint-1-1-schema",
        "plan_file": PLAN,
        "plan_section": "### Sprint 1.1: Schema",
        "plan_sprint_id": "1.1",
        "scrum_master_agent": _agent("beads-ralph-scrum-master", "sonnet"),
        "dev_agents": [_agent("python-developer", "sonnet")],
        "qa_agents": [_agent("qa-tester", "haiku")],
        "dev_prompts": ["Write the schema and its tests."],
        "max_retry_attempts": 3,
        "attempt_count": 0,
    }


def _agent(name: str, model: str) -> dict[str, Any]:
    return {"role": "polecat", "agent": f".claude/agents/{name}.md", "model": model}
