"""Bead ids in the plan: one line below the heading, every other byte as it was."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.model import Bead
from beads_ralph.errors import Code, RalphError
from beads_ralph.plan import parse
from beads_ralph.plan.parse import annotate, annotate_plan_with_bead_ids
from tests.bead.samples import sample

PLAN = """\
# Auth

### Sprint 1.2: User Authentication
- Implement login

### Sprint 1.3: Profile
- Implement it
"""
BODY = st.lists(
    st.sampled_from(
        ["", "- a task", "**Tasks**:", "text", "```", "### Notes", "<!-- beads-ralph: bd-old -->"]
    ),
    max_size=4,
)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])


def put(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_s0_ba1_the_comment_stands_on_the_line_after_the_heading() -> None:
    assert annotate(PLAN, parse(PLAN), {"1.2": "bd-a1b2c3"}) == PLAN.replace(
        "User Authentication\n", "User Authentication\n<!-- beads-ralph: bd-a1b2c3 -->\n"
    )


def test_s0_ba2_the_function_rewrites_the_file_and_leaves_other_sprints_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "plan.md", PLAN)
    path.chmod(0o600)
    annotate_plan_with_bead_ids(str(path), {"1.3": "bd-x", "9.9": "bd-of-another-plan"})
    assert path.read_text(encoding="utf-8") == PLAN.replace(
        "Profile\n", "Profile\n<!-- beads-ralph: bd-x -->\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.glob("*plan*")] == ["plan.md"]


def test_s0_ba2_an_existing_comment_is_replaced_and_a_second_pass_changes_nothing() -> None:
    once = annotate(PLAN, parse(PLAN), {"1.2": "bd-a"})
    assert annotate(once, parse(once), {"1.2": "bd-a"}) == once
    again = annotate(once, parse(once), {"1.2": "bd-b"})
    assert again == once.replace("bd-a", "bd-b")


def test_s0_ba2_a_heading_in_a_code_fence_is_no_heading() -> None:
    text = "```\n### Sprint 1.2: Shown\n```\n\n### Sprint 1.2: Real\n"
    assert annotate(text, parse(text), {"1.2": "bd-a"}) == f"{text}<!-- beads-ralph: bd-a -->\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_s0_ba2_line_ends_and_a_missing_last_one_stay(ending: str) -> None:
    text = f"# Plan{ending}### Sprint 1.1: Last"
    done = annotate(text, parse(text), {"1.1": "bd-a"})
    assert done == f"{text}{ending}<!-- beads-ralph: bd-a -->"
    assert annotate(done, parse(done), {"1.1": "bd-a"}) == done


@given(st.lists(BODY, min_size=1, max_size=4), ENDINGS, st.booleans(), st.sets(st.integers(0, 3)))
def test_s0_ba1_s0_ba2_only_comment_lines_come_and_go(
    bodies: list[list[str]], ending: str, last: bool, chosen: set[int]
) -> None:
    lines = [line for at, body in enumerate(bodies) for line in (f"### Sprint 1.{at}: T{at}", *body)]
    text = ending.join(lines) + (ending if last else "")
    plan = parse(text)
    beads = {sprint.id.text: f"bd-{at}" for at, sprint in enumerate(plan.sprints) if at in chosen}
    done = annotate(text, plan, beads)
    assert annotate(done, parse(done), beads) == done
    assert _without_comments(done) == _without_comments(text)
    again = parse(done)
    for sprint in again.sprints:
        if sprint.id.text in beads:
            assert sprint.annotation is not None
            assert (sprint.annotation.value, sprint.annotation.line) == (
                beads[sprint.id.text],
                sprint.line + 1,
            )


def _without_comments(text: str) -> list[str]:
    return [line for line in re.split(r"\r\n|\r|\n", text) if line and "<!-- beads-ralph:" not in line]


def test_s0_ba3_from_the_plan_to_the_bead_by_the_line_after_the_heading() -> None:
    done = annotate(PLAN, parse(PLAN), {"1.2": "bd-a1b2c3", "1.3": "bd-x"})
    lines = done.splitlines()
    after = lines[lines.index("### Sprint 1.2: User Authentication") + 1]
    assert after == "<!-- beads-ralph: bd-a1b2c3 -->"
    found = {sprint.id.text: sprint.annotation.value for sprint in parse(done).sprints if sprint.annotation}
    assert found == {"1.2": "bd-a1b2c3", "1.3": "bd-x"}


def test_s0_ba4_from_the_bead_to_the_plan_by_file_and_section(tmp_path: Path) -> None:
    metadata = Bead.model_validate(sample("work")).metadata
    path = tmp_path / metadata.plan_file
    path.parent.mkdir(parents=True)
    put(path, PLAN)
    heading = metadata.plan_section.split(" > ")[-1]
    assert heading in path.read_text(encoding="utf-8").splitlines()
    assert heading in [sprint.heading for sprint in parse(PLAN).sprints]


def test_s0_ba5_session_ids_for_later_questions_are_in_the_bead() -> None:
    metadata = Bead.model_validate(sample("completed")).metadata
    assert metadata.dev_agent_session_id == "claude-dev-session-abc123"


# --- faults -----------------------------------------------------------------------------------------


def refused(text: str, beads: dict[str, str]) -> RalphError:
    with pytest.raises(RalphError) as caught:
        annotate(text, parse(text), beads)
    return caught.value


def test_s0_ba2_one_bead_below_two_headings_is_refused() -> None:
    error = refused(PLAN, {"1.2": "bd-a", "1.3": "bd-a"})
    assert error.code == Code.DUPLICATE_ID
    assert [fault.line for fault in error.faults] == [3, 6]
    once = annotate(PLAN, parse(PLAN), {"1.2": "bd-a"})
    assert refused(once, {"1.3": "bd-a"}).code == Code.DUPLICATE_ID


def test_s0_ba2_a_sprint_with_two_headings_is_refused() -> None:
    text = PLAN + "\n### Sprint 1.2: Again\n"
    error = refused(text, {"1.2": "bd-a"})
    assert {fault.code for fault in error.faults} == {Code.DUPLICATE_ID}


def test_s0_ba2_a_bead_without_a_heading_is_refused() -> None:
    assert refused(PLAN, {"9.9": "bd-a"}).code == Code.UNRESOLVED
    assert refused("no sprints\n", {"1.1": "bd-a"}).code == Code.MARKDOWN


def test_s0_ba2_a_refusal_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = put(tmp_path / "plan.md", PLAN)
    with pytest.raises(RalphError):
        annotate_plan_with_bead_ids(str(path), {"1.2": "bd-a", "1.3": "bd-a"})
    assert path.read_text(encoding="utf-8") == PLAN
