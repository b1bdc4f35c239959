"""Bead ids written back into a plan: one line below each heading, and every other byte kept."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beads_ralph.errors import Code, RalphError
from beads_ralph.plan import annotate, parse
from beads_ralph.plan.parse import annotate_plan_with_bead_ids
from tests.plan.plans import FIXTURES
from tests.selection import examples


def annotated(text: str, **beads: str) -> str:
    """Annotate with `s1_1="bd-x"` for sprint 1.1."""
    return annotate(text, parse(text), {name[1:].replace("_", "."): bead for name, bead in beads.items()})


def refusal(text: str, beads: dict[str, str]) -> RalphError:
    with pytest.raises(RalphError) as caught:
        annotate(text, parse(text), beads)
    return caught.value


# --- the rules ------------------------------------------------------------------------------------


def test_s1_fr9_1_s0_ba1_the_comment_stands_right_below_the_heading() -> None:
    text = "# Plan\n\n### Sprint 1.1: A\n\n**Tasks**:\n- x\n"
    assert annotated(text, s1_1="bd-1-1-a") == (
        "# Plan\n\n### Sprint 1.1: A\n<!-- beads-ralph: bd-1-1-a -->\n\n**Tasks**:\n- x\n"
    )


@pytest.mark.parametrize(
    "old",
    ["<!-- beads-ralph: bd-old -->", "<!--beads-ralph:bd-old-->", "  <!-- beads-ralph: bd old words -->  "],
)
def test_s1_fr9_2_c23_an_annotation_that_is_there_is_replaced(old: str) -> None:
    text = f"### Sprint 1.1: A\n{old}\n**Team**: t\n"
    assert annotated(text, s1_1="bd-new") == "### Sprint 1.1: A\n<!-- beads-ralph: bd-new -->\n**Team**: t\n"


@pytest.mark.parametrize(
    "line",
    [
        "<!-- a remark -->",
        "<!-- beads-ralph: bd-old --> and words",
        "<!-- beads-ralph: bd-old --> <!-- a remark -->",
        "    <!-- beads-ralph: in-code -->",
        "<!-- beads-ralph: over",
    ],
)
def test_s1_fr9_1_a_line_that_is_more_than_an_annotation_is_kept(line: str) -> None:
    text = f"### Sprint 1.1: A\n{line}\nlines -->\n"
    assert annotated(text, s1_1="bd-new") == text.replace("A\n", "A\n<!-- beads-ralph: bd-new -->\n", 1)


def test_s1_fr9_3_only_the_sprints_named_are_annotated() -> None:
    text = "### Sprint 1.1: A\n### Sprint 1.2: B\n### Sprint 1.3: C\n"
    assert annotated(text, s1_2="bd-b") == (
        "### Sprint 1.1: A\n### Sprint 1.2: B\n<!-- beads-ralph: bd-b -->\n### Sprint 1.3: C\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("### Sprint 1.1: A\n", "### Sprint 1.1: A\n<!-- beads-ralph: bd-a -->\n"),
        ("### Sprint 1.1: A", "### Sprint 1.1: A\n<!-- beads-ralph: bd-a -->"),
        ("x\r\n### Sprint 1.1: A", "x\r\n### Sprint 1.1: A\r\n<!-- beads-ralph: bd-a -->"),
        ("x\r\n### Sprint 1.1: A\r\n", "x\r\n### Sprint 1.1: A\r\n<!-- beads-ralph: bd-a -->\r\n"),
        ("x\r### Sprint 1.1: A\ry", "x\r### Sprint 1.1: A\r<!-- beads-ralph: bd-a -->\ry"),
        ("\ufeff### Sprint 1.1: A\ny", "\ufeff### Sprint 1.1: A\n<!-- beads-ralph: bd-a -->\ny"),
    ],
)
def test_s1_fr9_4_c23_line_ends_the_mark_and_the_missing_last_newline_stay(text: str, expected: str) -> None:
    assert annotated(text, s1_1="bd-a") == expected


def test_headings_inside_fences_are_left_alone() -> None:
    text = "```\n### Sprint 1.1: Sample\n```\n### Sprint 1.1: Real\n"
    assert annotated(text, s1_1="bd-a") == text + "<!-- beads-ralph: bd-a -->\n"


def test_s1_fr9_5_a_bead_without_a_heading_is_unresolved() -> None:
    error = refusal("### Sprint 1.1: A\n", {"1.1": "bd-a", "1.2": "bd-b"})
    assert error.code == Code.UNRESOLVED
    assert "1.2" in error.message


def test_s1_fr9_5_a_struck_sprint_has_no_heading_to_annotate() -> None:
    assert refusal("### Sprint 1.1: A\n### ~~Sprint 1.2: B~~\n", {"1.2": "bd-b"}).code == Code.UNRESOLVED


def test_s1_fr9_5_c23_a_sprint_under_two_headings_is_a_duplicate() -> None:
    error = refusal("### Sprint 1.1: A\n### Sprint 1.1: Again\n", {"1.1": "bd-a"})
    assert error.code == Code.DUPLICATE_ID
    assert [fault.line for fault in error.faults] == [1, 2]


def test_s1_fr9_5_c23_one_bead_under_two_headings_is_a_duplicate() -> None:
    error = refusal("### Sprint 1.1: A\n### Sprint 1.2: B\n", {"1.1": "bd-a", "1.2": "bd-a"})
    assert error.code == Code.DUPLICATE_ID


def test_s1_fr9_5_c23_a_bead_that_another_heading_has_already_is_a_duplicate() -> None:
    text = "### Sprint 1.1: A\n<!-- beads-ralph: bd-a -->\n### Sprint 1.2: B\n"
    assert refusal(text, {"1.2": "bd-a"}).code == Code.DUPLICATE_ID


def test_s1_fr9_5_a_text_without_headings_is_no_plan() -> None:
    assert refusal("# Nothing\n", {"1.1": "bd-a"}).code == Code.MARKDOWN


# --- files ----------------------------------------------------------------------------------------


def test_s0_ba2_a_file_is_annotated_and_other_sprints_stay(tmp_path: Path) -> None:
    plan = tmp_path / "plan.md"
    plan.write_bytes(b"### Sprint 1.1: A\r\n### Sprint 1.2: B\r\n")
    plan.chmod(0o640)
    annotate_plan_with_bead_ids(str(plan), {"1.2": "bd-b", "9.9": "bd-of-another-plan"})
    assert plan.read_bytes() == b"### Sprint 1.1: A\r\n### Sprint 1.2: B\r\n<!-- beads-ralph: bd-b -->\r\n"
    assert plan.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.glob("*plan*")) == [plan]


@pytest.mark.parametrize("name", ["service.md", "messy.md"])
def test_s0_ba3_the_ids_come_back_out_of_a_real_plan(name: str) -> None:
    text = (FIXTURES / name).read_bytes().decode("utf-8")
    plan = parse(text)
    beads = {sprint.id.text: f"bd-{sprint.id.dashed}" for sprint in plan.sprints}
    new = annotate(text, plan, beads)
    assert {s.id.text: s.annotation.value for s in parse(new).sprints if s.annotation} == beads
    assert annotate(new, parse(new), beads) == new


# --- the law --------------------------------------------------------------------------------------

ENDINGS = ["\n", "\r\n", "\r"]
LINES = [
    "", "words", "# A title", "## Phase 1: x", "---", "```", "~~~", "- a", "  - b", "> q", "    code",
    "<!--", "-->", "<!-- a remark -->", "<!-- beads-ralph: bd-stale -->", "  <!--beads-ralph:bd-stale-->",
    "**Tasks**:", "**Team**: `t`", "<!-- beads-ralph: bd-stale --> words", "Größe", "\t", " \\", "<div>",
    "### Sprint x", "### ~~Sprint 7.7: Gone~~",
]  # fmt: skip
OLD = re.compile(r" {0,3}<!--\s*beads-ralph:[^>]*-->\s*")
NEW = re.compile(r"<!-- beads-ralph: bd-new-[0-9-]+ -->(?:\r\n|\r|\n|$)")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Any lines with any ends, some of them headings; perhaps with a mark, perhaps with no last end."""
    line = st.sampled_from([*LINES, "SPRINT", "SPRINT"]) | st.text(max_size=6)
    parts = draw(st.lists(line, max_size=20))
    lines = [
        f"### Sprint 1.{number}: Part" if part == "SPRINT" else part for number, part in enumerate(parts, 1)
    ]
    ends = [draw(st.sampled_from(ENDINGS)) for _ in lines]
    if draw(st.booleans()) and ends:
        ends[-1] = ""
    return draw(st.sampled_from(["", "\ufeff"])) + "".join(map("".join, zip(lines, ends, strict=True)))


def split(text: str) -> list[str]:
    """Lines with their ends, in a way of its own."""
    parts = re.split(r"(\r\n|\r|\n)", text)
    lines = ["".join(pair) for pair in zip(parts[::2], [*parts[1::2], ""], strict=True)]
    return [line for line in lines if line]


@settings(max_examples=examples(400))
@given(texts(), st.integers(0, 2**20))
def test_s1_fr9_1_s1_fr9_2_s1_fr9_3_s1_fr9_4_every_other_byte_is_kept(text: str, choice: int) -> None:
    plan = parse(text)
    chosen = [sprint for at, sprint in enumerate(plan.sprints) if choice >> at & 1]
    if not chosen:
        return
    beads = {sprint.id.text: f"bd-new-{sprint.id.dashed}" for sprint in chosen}
    new = annotate(text, plan, beads)

    before = split(text)
    for sprint in reversed(chosen):
        if sprint.line < len(before) and OLD.fullmatch(before[sprint.line]):
            del before[sprint.line]
    after = split(new)
    for heading in range(len(after) - 1, 0, -1):
        if NEW.fullmatch(after[heading]):
            del after[heading]
    kept, was = "".join(after), "".join(before)
    # A heading that ends the file without a newline has to get one; the file still ends without.
    assert kept == was or (kept.rstrip("\r\n") == was and not new.endswith(("\r", "\n")))

    again = parse(new)
    assert {
        s.id.text: s.annotation.value for s in again.sprints if s.annotation and s.id.text in beads
    } == beads
    assert [sprint.id for sprint in again.sprints] == [sprint.id for sprint in plan.sprints]
    assert annotate(new, again, beads) == new
    assert text.endswith(("\r", "\n")) == new.endswith(("\r", "\n"))
