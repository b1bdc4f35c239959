"""Plans for tests: `plan(sprint("1.1", "Schema"), sprint("1.2a", "Work", depends_on="1.1"))`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beads_ralph.bead.model import Bead
from beads_ralph.compile.build import Built, build
from beads_ralph.compile.setting import Setting
from beads_ralph.plan import parse

FRONT_MATTER = """\
---
source_branch: develop
dev_agents:
  - claude (sonnet)
qa_agents:
  - claude (haiku) - Run the tests
---
"""
NOON = datetime(2026, 2, 8, 10, 0, 0, tzinfo=UTC)

# The seed's own example of a plan and of the bead that comes out of it.
SEED_SPRINT = """\
### Sprint 1.1: Core Schema Validation Script

**Worktree**: `../beads-ralph-worktrees/feature/1-1-schema-validator`
**Branch**: `feature/1-1-schema-validator`
**Source Branch**: `develop`
**Bead Name**: schema

**Dev Agents**:
- `python-backend-dev` (sonnet)

**QA Agents**:
- `qa-python-tests` (haiku) - Run pytest with >90% coverage

**Tasks**:
- Create scripts/bead_schema.py with pydantic models
- Create scripts/validate-bead-schema.py CLI tool
- Create comprehensive test suite
"""
SEED_BEAD: dict[str, Any] = json.loads("""{
  "id": "bd-1-1-schema",
  "title": "Core Schema Validation Script",
  "description": "Create scripts/bead_schema.py with pydantic models. Create scripts/validate-bead-schema.py\
 CLI tool. Create comprehensive test suite.",
  "status": "open",
  "priority": 1,
  "issue_type": "beads-ralph-work",
  "assignee": "beads-ralph-scrum-master",
  "owner": null,
  "dependencies": [],
  "labels": ["phase-01", "sprint-1-1"],
  "comments": [],
  "external_ref": null,
  "created_at": "2026-02-08T10:00:00Z",
  "updated_at": "2026-02-08T10:00:00Z",
  "closed_at": null,
  "metadata": {
    "rig": "beads-ralph",
    "worktree_path": "../beads-ralph-worktrees/feature/1-1-schema-validator",
    "branch": "feature/1-1-schema-validator",
    "source_branch": "develop",
    "phase": "1",
    "sprint": "1.1",
    "plan_file": "pm/2026-02-08-implementation-plan.md",
    "plan_section": "### Sprint 1.1: Core Schema Validation Script",
    "plan_sprint_id": "1.1",
    "branches_to_merge": null,
    "dev_agent_path": ".claude/agents/python-backend-dev",
    "dev_model": "sonnet",
    "dev_prompts": [
      "Create scripts/bead_schema.py with pydantic models",
      "Create scripts/validate-bead-schema.py CLI tool",
      "Create comprehensive test suite"
    ],
    "qa_agents": [
      {
        "agent_path": ".claude/agents/qa-python-tests",
        "model": "haiku",
        "prompt": "Run pytest with >90% coverage",
        "output_schema": {
          "type": "object",
          "properties": {
            "status": {"enum": ["pass", "fail", "stop"]},
            "message": {"type": "string"}
          },
          "required": ["status", "message"]
        }
      }
    ],
    "max_retry_attempts": 3,
    "attempt_count": 0,
    "scrum_master_session_id": null,
    "dev_agent_session_id": null,
    "dev_agent_executions": [],
    "qa_agent_executions": [],
    "pr_url": null,
    "pr_number": null,
    "scrum_result": null
  }
}""")
SEED_PLAN_FILE = "pm/2026-02-08-implementation-plan.md"


def seed_plan() -> str:
    """The seed's plan of four sprints, with the names that give its ids."""
    return "\n".join(
        [
            "# Implementation plan\n\n## Phase 1: Schema\n",
            SEED_SPRINT,
            seed_sprint("1.2a", "Example Work Bead (Parallel)", "work"),
            seed_sprint("1.2b", "Example Merge Bead (Parallel)", "merge"),
            seed_sprint("1.3", "Integration & Documentation", "integration"),
        ]
    )


def seed_sprint(sprint_id: str, title: str, name: str) -> str:
    return (
        SEED_SPRINT.replace(
            "### Sprint 1.1: Core Schema Validation Script", f"### Sprint {sprint_id}: {title}"
        )
        .replace("1-1-schema-validator", f"{sprint_id.replace('.', '-')}-{name}")
        .replace("**Bead Name**: schema", f"**Bead Name**: {name}")
    )


def plan(*sprints: str, front_matter: str = FRONT_MATTER) -> str:
    return "\n".join([front_matter, "# A plan\n", *sprints])


def sprint(sprint_id: str, title: str, *, tasks: Iterable[str] = ("Do the work",), **fields: str) -> str:
    """One section; `fields` are labels with their values, `depends_on="1.1"` for **Depends On**."""
    lines = [f"### Sprint {sprint_id}: {title}\n"]
    lines += [f"**{label.replace('_', ' ').title()}**: {value}\n" for label, value in fields.items()]
    listed = [f"- {task}" for task in tasks]
    lines += ["**Tasks**:", *listed] if listed else []
    return "\n".join(lines) + "\n"


SETTING = Setting(Path("/srv/shop"), "plans/shop.md", NOON, branches=frozenset({"develop"}))


def compiled(text: str, setting: Setting = SETTING, **changes: Any) -> Built:
    return build(parse(text, setting.plan_file), replace(setting, **changes))


def beads_of(text: str, setting: Setting = SETTING, **changes: Any) -> dict[str, Bead]:
    """The beads of a plan that has no fault, by sprint."""
    built = compiled(text, setting, **changes)
    assert built.all_faults == ()
    assert all(isinstance(bead, Bead) for bead in built.beads.values())
    return {sprint_id: bead for sprint_id, bead in built.beads.items() if isinstance(bead, Bead)}


def only(text: str, setting: Setting = SETTING, **changes: Any) -> Bead:
    (bead,) = beads_of(text, setting, **changes).values()
    return bead
