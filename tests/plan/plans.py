"""Plans for tests: the smallest text that compiles, and what it compiles to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from beads_ralph.compile.build import Built, build
from beads_ralph.compile.setting import Setting
from beads_ralph.plan import Plan, Sprint, parse

FIXTURES = Path(__file__).parent.parent / "fixtures" / "plans"
DEFAULTS = """\
---
source_branch: develop
dev_agents: [claude]
qa_agents: [claude]
---
"""


def section(sprint: str, name: str = "", *, extra: str = "") -> str:
    """One sprint that compiles; `name` becomes the end of its bead id."""
    named = f"**Bead Name**: {name}\n" if name else ""
    return f"### Sprint {sprint}: Part {sprint}\n{named}{extra}**Tasks**:\n- Do it\n\n"


def plan_of(sprints: Iterable[str], **extras: str) -> str:
    """A plan of these sprints; `extras` are lines for sprints, named like `s1_2a` for 1.2a."""
    return DEFAULTS + "".join(
        section(sprint, extra=extras.get("s" + sprint.replace(".", "_"), "")) for sprint in sprints
    )


def setting() -> Setting:
    return Setting(root=Path("/repo/app"), plan_file="plan.md", now=datetime(2026, 1, 2, tzinfo=UTC))


def compiled(text: str) -> Built:
    return build(parse(text), setting())


def only(text: str) -> Sprint:
    """The one sprint of a section's body."""
    plan = sprint_plan(text)
    assert [str(fault) for fault in plan.faults] == []
    return plan.sprints[0]


def sprint_plan(body: str) -> Plan:
    """A plan whose one heading stands on line 1, so that the body begins on line 2."""
    return parse(f"### Sprint 1.1: Title\n{body}")


def fault_lines(plan: Plan) -> list[tuple[str, int | None]]:
    return [(str(fault.code), fault.line) for fault in plan.faults]
