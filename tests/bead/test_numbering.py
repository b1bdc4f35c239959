"""Phases, sprints, branches, worktrees: how they are written, and what their numbers mean."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from beads_ralph.bead import graph
from beads_ralph.bead.field_types import BranchName, PhaseText, SprintText
from beads_ralph.bead.names import SprintId
from beads_ralph.compile.build import build
from beads_ralph.compile.setting import Setting
from beads_ralph.config.model import PlanDefaults
from beads_ralph.plan import parse
from tests.bead.samples import messages, work

# The seed's own expressions.
SEED = {
    "phase": re.compile(r"^[0-9]+[a-z]*$"),
    "sprint": re.compile(r"^[0-9]+[a-z]*\.[0-9]+[a-z]*$"),
    "branch": re.compile(r"^[a-zA-Z0-9/_-]+$"),
}
ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "phase": TypeAdapter(PhaseText),
    "sprint": TypeAdapter(SprintText),
    "branch": TypeAdapter(BranchName),
}
ASCII_LINES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)
NEAR = st.text("019abzAZ./-_ ", max_size=8)


def accepts(kind: str, text: str) -> bool:
    try:
        ADAPTERS[kind].validate_python(text, strict=True)
    except ValidationError:
        return False
    return True


def waits(*sprints: str) -> dict[str, list[str]]:
    found = graph.dependencies(SprintId.parse(text) or pytest.fail(text) for text in sprints)
    return {sprint.text: [other.text for other in others] for sprint, others in found.items()}


# --- patterns ---------------------------------------------------------------------------------------


@given(ASCII_LINES | NEAR)
def test_s0_nb1_phases_agree_with_the_seeds_expression(text: str) -> None:
    assert accepts("phase", text) == bool(SEED["phase"].match(text))


@given(ASCII_LINES | NEAR)
def test_s0_nb2_sprints_agree_with_the_seeds_expression(text: str) -> None:
    assert accepts("sprint", text) == bool(SEED["sprint"].match(text))


@given(ASCII_LINES | NEAR)
def test_s0_pv3_branches_agree_with_the_seeds_expression_and_with_git(text: str) -> None:
    gits = not (text.startswith(("-", "/")) or text.endswith("/") or "//" in text)
    assert accepts("branch", text) == (bool(SEED["branch"].match(text)) and gits)


@given(st.text(st.characters(categories=["Nd"], min_codepoint=128), min_size=1, max_size=3))
def test_s0_nb1_s0_nb2_digits_of_other_scripts_are_no_numbers(digits: str) -> None:
    assert not accepts("phase", digits)
    assert not accepts("sprint", f"1.{digits}")
    assert not accepts("branch", digits)
    assert SprintId.parse(f"{digits}.1") is None


@pytest.mark.parametrize(("kind", "text"), [("phase", "1"), ("sprint", "1.1"), ("branch", "main/x")])
@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n", " ", "\u2028"])
def test_s0_nb1_s0_nb2_s0_pv3_a_line_end_is_not_part_of_a_name(kind: str, text: str, ending: str) -> None:
    assert accepts(kind, text)
    assert not accepts(kind, text + ending)
    assert SprintId.parse("1.1" + ending) is None


@pytest.mark.parametrize("phase", ["1", "2", "3a", "3b", "12", "3ab"])
def test_s0_pv1_valid_phases(phase: str) -> None:
    assert accepts("phase", phase)


@pytest.mark.parametrize("phase", ["1.2", "a1", "1-2", "1A", ""])
def test_s0_pv1_invalid_phases(phase: str) -> None:
    assert messages(work("metadata.phase", phase)) == [r"field metadata.phase must match pattern ^\d+[a-z]*$"]


@pytest.mark.parametrize("sprint", ["1.1", "3a.2", "3b.2a", "3b.2b", "12.5c"])
def test_s0_pv2_valid_sprints(sprint: str) -> None:
    assert accepts("sprint", sprint)
    assert SprintId.parse(sprint) is not None


@pytest.mark.parametrize("sprint", ["1", "1-2", "1.2.3", "a.1", "1.", ""])
def test_s0_pv2_invalid_sprints(sprint: str) -> None:
    assert messages(work("metadata.sprint", sprint)) == [
        r"field metadata.sprint must match pattern ^\d+[a-z]*\.\d+[a-z]*$"
    ]
    assert SprintId.parse(sprint) is None


@pytest.mark.parametrize("branch", ["main/1-2-auth", "develop/3a-2b-api"])
def test_s0_pv3_valid_branches(branch: str) -> None:
    assert messages(work("metadata.branch", branch)) == []


@pytest.mark.parametrize("branch", ["main/1.2", "feat/auth api", "", "größe"])
def test_s0_pv3_invalid_branches(branch: str) -> None:
    assert messages(work("metadata.branch", branch)) == [
        "field metadata.branch must match pattern ^[a-zA-Z0-9/_-]+$"
    ]


# --- what the numbers mean --------------------------------------------------------------------------


def test_s0_nb3_letters_are_tracks_and_parallel_sprints() -> None:
    sprint = SprintId.parse("3ab.12c")
    assert sprint is not None
    assert (sprint.phase, sprint.phase_number, sprint.phase_suffix) == ("3ab", 3, "ab")
    assert (sprint.sprint_part, sprint.sprint_number, sprint.sprint_suffix) == ("12c", 12, "c")
    assert (sprint.sprint_base, sprint.dashed, sprint.track) == ("3ab.12", "3ab-12c", (3, "ab"))


@given(st.lists(st.from_regex(r"[0-9]{1,3}[a-c]?\.[0-9]{1,3}[a-c]?", fullmatch=True), max_size=6))
def test_s0_nb3_sprints_are_ordered_by_number_then_letter(texts: list[str]) -> None:
    parsed = [SprintId.parse(text) or pytest.fail(text) for text in texts]
    assert [sprint.key for sprint in sorted(parsed)] == sorted(sprint.key for sprint in parsed)


def test_s0_nb4_one_after_the_other() -> None:
    assert waits("1.1", "1.2") == {"1.1": [], "1.2": ["1.1"]}


def test_s0_nb5_parallel_sprints_wait_for_what_was_before_not_for_each_other() -> None:
    assert waits("1.1", "1.2a", "1.2b") == {"1.1": [], "1.2a": ["1.1"], "1.2b": ["1.1"]}


def test_s0_nb6_the_sprint_behind_waits_for_both() -> None:
    assert waits("1.2a", "1.2b", "1.3")["1.3"] == ["1.2a", "1.2b"]


def test_s0_nb7_tracks_part_behind_the_last_sprint() -> None:
    found = waits("2.1", "2.2", "3a.1", "3b.1")
    assert (found["3a.1"], found["3b.1"]) == (["2.2"], ["2.2"])


def test_s0_nb8_the_phase_behind_waits_for_the_end_of_each_track() -> None:
    assert waits("3a.1", "3a.2", "3b.1", "4.1")["4.1"] == ["3a.2", "3b.1"]


def test_s0_nb9_the_worked_example_and_its_three_rounds() -> None:
    found = waits("1.1", "1.2a", "1.2b", "1.3")
    assert found == {"1.1": [], "1.2a": ["1.1"], "1.2b": ["1.1"], "1.3": ["1.2a", "1.2b"]}
    assert graph.waves(found) == [["1.1"], ["1.2a", "1.2b"], ["1.3"]]


def test_s0_nb11_parallel_sprints_inside_a_track() -> None:
    found = waits("3a.1", "3a.2a", "3a.2b", "3a.3", "3b.1")
    assert (found["3a.2a"], found["3a.2b"]) == (["3a.1"], ["3a.1"])
    assert (found["3a.3"], found["3b.1"]) == (["3a.2a", "3a.2b"], [])


PLAN = """\
---
source_branch: main
dev_agents: [claude]
qa_agents: [claude]
---
### Sprint 1.1: Setup
**Tasks**:
- a

### Sprint 1.2a: Backend
**Team**: `sprint-1.2-all`
**Tasks**:
- b

### Sprint 1.2b: Frontend
**Team**: `sprint-1.2-all`
**Tasks**:
- c
"""


def setting(root: Path, branches: frozenset[str] = frozenset()) -> Setting:
    moment = datetime(2026, 2, 7, 10, tzinfo=UTC)
    return Setting(root, "plan.md", moment, branches=branches, agent_check=False)


def test_s0_nb10_s0_tg3_s0_tg4_mason_writes_dependencies_and_teams_into_the_beads(tmp_path: Path) -> None:
    built = build(parse(PLAN), setting(tmp_path))
    assert built.all_faults == ()
    assert {sprint: bead.dependencies for sprint, bead in built.beads.items()} == {
        "1.1": [],
        "1.2a": ["bd-1-1-setup"],
        "1.2b": ["bd-1-1-setup"],
    }
    teams = {sprint: bead.metadata.team_name for sprint, bead in built.beads.items()}
    assert teams == {"1.1": "sprint-1-1-setup", "1.2a": "sprint-1.2-all", "1.2b": "sprint-1.2-all"}
    assert len({bead.metadata.branch for bead in built.beads.values()}) == 3


# --- names of branches and worktrees ----------------------------------------------------------------

REPO = Path("/Users/dev/projects/my-app")
NAMED = [
    ("main", "1.1", "Project Setup", "main/1-1-project-setup"),
    ("main", "3a.2b", "API Validation", "main/3a-2b-api-validation"),
    ("develop", "2.1a", "Auth Service", "develop/2-1a-auth-service"),
]


@pytest.mark.parametrize(("source", "sprint", "title", "branch"), NAMED)
def test_s0_bn1_s0_bn2_s0_bn3_s0_bn4_branch_names(source: str, sprint: str, title: str, branch: str) -> None:
    assert setting(REPO).branch(source, sprint, title, PlanDefaults()) == branch


@pytest.mark.parametrize(("source", "sprint", "title", "branch"), NAMED)
def test_s0_wt1_s0_wt2_worktrees_lie_beside_the_repository(
    source: str, sprint: str, title: str, branch: str
) -> None:
    place = setting(REPO)
    named = place.branch(source, sprint, title, PlanDefaults())
    assert place.worktree(named, PlanDefaults()) == f"/Users/dev/projects/my-app-worktrees/{branch}"


def test_s0_bn1_a_source_that_is_a_branch_already_cannot_be_a_folder_of_branches() -> None:
    """git refuses `main/x` while `main` exists."""
    place = setting(REPO, frozenset({"main"}))
    assert place.branch("main", "1.1", "Setup", PlanDefaults()) == "feature/1-1-setup"


@given(
    st.sampled_from(["main", "develop", "release/1.2"]),
    st.from_regex(r"[0-9]{1,3}[a-z]?\.[0-9]{1,3}[a-z]?", fullmatch=True),
    st.text(max_size=40),
)
def test_s0_bn3_every_title_makes_a_valid_branch(source: str, sprint: str, title: str) -> None:
    branch = setting(REPO).branch(source, sprint, title, PlanDefaults())
    assert accepts("branch", branch)
    assert branch == branch.lower()
    assert branch.startswith(f"{source.replace('.', '-')}/{sprint.replace('.', '-')}")
