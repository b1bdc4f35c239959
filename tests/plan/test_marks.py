"""Marks in a plan's text: read as a person means them, and written without touching anything else."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.compile import base
from beads_ralph.plan import marks, parse
from beads_ralph.plan.marks import Mark

CLOSED = Mark("✔ closed (proven)", closed=True)
PLAN = """\
# Shop

### Sprint 1.1: Alpha
**Status**: planned for May
**Tasks**:
- [ ] First
  - [ ] a part of it
- [ ] Second

### Sprint 1.2: Beta
<!-- beads-ralph: bd-1-2-beta -->
**Branch**: `feature/beta`
**Tasks**:
- Only this: [ ] is no box

### Sprint 1.3: Gamma
- a list that belongs to no label
- [ ] neither does this

**Tasks**:
1. [ ] Third
"""


def changed(before: str, after: str) -> list[str]:
    rows = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [row.rstrip("\r\n") for row in rows if row[0] in "+-"]


def test_a_closed_sprint_is_marked_and_nothing_else_changes() -> None:
    after, left = marks.marked(PLAN, parse(PLAN), {"1.1": CLOSED, "1.2": CLOSED})
    assert left == []
    assert sorted(changed(PLAN, after)) == sorted(
        [
            "- **Status**: planned for May",
            *["+ **Status**: ✔ closed (proven)"] * 2,
            *("- - [ ] First", "-   - [ ] a part of it", "- - [ ] Second"),
            *("+ - [x] First", "+   - [x] a part of it", "+ - [x] Second"),
        ]
    )
    assert after.index("bd-1-2-beta") < after.rindex("**Status**"), "below the bead's id"
    assert marks.marked(after, parse(after), {"1.1": CLOSED, "1.2": CLOSED}) == (after, [])


def test_a_mark_that_would_change_what_a_sprint_says_is_left_out_and_told() -> None:
    after, left = marks.marked(PLAN, parse(PLAN), {"1.2": CLOSED, "1.3": CLOSED})
    assert left == ["1.3"], "the list would become part of the status"
    assert changed(PLAN, after) == ["+ **Status**: ✔ closed (proven)"]


def test_a_sprint_that_was_opened_again_is_unmarked_and_words_of_the_author_stay() -> None:
    after, _ = marks.marked(PLAN, parse(PLAN), {"1.1": CLOSED, "1.2": CLOSED})
    opened = Mark("open", quiet=True)
    again, _ = marks.marked(after, parse(after), {"1.1": opened, "1.2": opened})
    assert "[x]" not in again
    assert again.count("**Status**: open") == 2
    assert marks.marked(PLAN, parse(PLAN), {"1.1": opened, "1.2": opened}) == (PLAN, [])


@pytest.mark.parametrize(
    ("section", "struck", "is_done"),
    [
        ("**Status**: ✅ COMPLETED", False, True),
        ("**Status**: ✔ closed (accepted)", False, True),
        ("**Status**: in review", False, False),
        ("**Tasks**:\n- [x] One\n- [X] Two", False, True),
        ("**Tasks**:\n- [x] One\n- [ ] Two", False, False),
        ("**Tasks**:\n- One", False, False),
        ("**Tasks**:\n- One", True, True),
    ],
)
def test_what_counts_as_done(section: str, struck: bool, is_done: bool) -> None:
    title = "~~Sprint 1.1: Alpha~~" if struck else "Sprint 1.1: Alpha"
    text = f"### {title}\n{section}\n"
    assert bool(marks.done(text, parse(text, struck=True))) is is_done
    if struck:
        assert marks.done(text, parse(text)) == {}, "where nobody asks, it is not there"


LINES = st.sampled_from(
    [
        *(
            "**Tasks**:",
            "- [ ] One",
            "- [x] Two",
            "  - [ ] Three",
            "1. [ ] Four",
            "* One",
            "words",
            "",
            "```",
        ),
        *("**Status**: done", "**Status:** in work", "**Verify**: `true`", "**Branch**: `b`", "> said"),
        "<!-- beads-ralph: bd-x -->",
    ]
)
MARKS = st.sampled_from([CLOSED, Mark("in progress"), Mark("blocked"), Mark("open", quiet=True)])


@given(
    st.lists(LINES, max_size=12), st.lists(LINES, max_size=6), MARKS, MARKS, st.sampled_from(["\n", "\r\n"])
)
def test_a_marked_plan_reads_like_the_one_before(
    first: list[str], second: list[str], one: Mark, other: Mark, newline: str
) -> None:
    rows = ["### Sprint 1.1: Alpha", *first, "### Sprint 1.2: Beta", *second]
    text = newline.join(rows)
    plan = parse(text)
    if [sprint.id.text for sprint in plan.sprints] != ["1.1", "1.2"] or plan.faults:
        return
    after, left = marks.marked(text, plan, {"1.1": one, "1.2": other})
    now = parse(after)
    assert [
        (sprint.tasks and [task.value for task in sprint.tasks], sprint.title) for sprint in now.sprints
    ] == [(sprint.tasks and [task.value for task in sprint.tasks], sprint.title) for sprint in plan.sprints]
    assert base.readings(after, now) == base.readings(text, plan), "a mark is no edit of the plan"
    assert set(left) <= {"1.1", "1.2"}
    again, _ = marks.marked(after, now, {"1.1": one, "1.2": other})
    assert again == after
