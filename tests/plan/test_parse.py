"""Headings, sections, front matter and line numbers of a plan."""

import re
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beads_ralph.compile.build import build
from beads_ralph.errors import Code
from beads_ralph.plan import At, Plan, parse
from tests.plan.plans import DEFAULTS, FIXTURES, compiled, fault_lines, only, plan_of, setting, sprint_plan
from tests.selection import examples

MARKDOWN, PATTERN = str(Code.MARKDOWN), str(Code.PLAN_PATTERN)


def fixture(name: str) -> str:
    return (FIXTURES / name).read_bytes().decode("utf-8")


# --- headings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "sprint", "title"),
    [
        ("### Sprint 1.1: Set up", "1.1", "Set up"),
        ("### Sprint 3a.2b: API: the second", "3a.2b", "API: the second"),
        ("   ### Sprint 12.30abc:   Blanks   ###  ", "12.30abc", "Blanks"),
        ("### **Sprint 1.1: Bold**", "1.1", "Bold"),
        ("### Sprint 1.1: Größe 数え方 🚀 — é", "1.1", "Größe 数え方 🚀 — é"),
        ('### Sprint 1.1: `code` & "quotes" <T> [x]', "1.1", 'code & "quotes" <T> [x]'),
        ("### Sprint 1.1: __init__.py and snake_case_name", "1.1", "__init__.py and snake_case_name"),
    ],
)
def test_s1_fr1_2_s2_st1_s2_df1_c13_a_sprint_heading(heading: str, sprint: str, title: str) -> None:
    plan = parse(f"intro\n\n{heading}\n")
    (found,) = plan.sprints
    assert (found.id.text, found.title, found.line) == (sprint, title, 3)
    assert found.heading == heading.strip()
    assert plan.faults == ()


@pytest.mark.parametrize(
    ("heading", "code"),
    [
        ("### Sprint: no id", MARKDOWN),
        ("### Sprint", MARKDOWN),
        ("### Sprint one: words", MARKDOWN),
        ("### Sprint 1: no number", PATTERN),
        ("### Sprint 1.2.3: too deep", PATTERN),
        ("### Sprint 1.2A: capital", PATTERN),
        ("### Sprint a.1: letter first", PATTERN),
        ("### Sprint 1-2: hyphen", PATTERN),
        ("### Sprint 1.1", PATTERN),
        ("### Sprint 1.1:", PATTERN),
        ("### Sprint 1.1 no colon", PATTERN),
        ("### Sprint 1.1:no blank", PATTERN),
        ("### Sprint १.१: other digits", PATTERN),
        ("### Sprint 1.99999999999999999999: slip", PATTERN),
    ],
)
def test_s1_fr1_11_s1_fr1_12_c13_a_heading_that_fails(heading: str, code: str) -> None:
    plan = parse(f"### Sprint 1.1: Sound\n\n{heading}\n")
    assert fault_lines(plan) == [(code, 3)]
    assert [sprint.id.text for sprint in plan.sprints] == ["1.1"]


@pytest.mark.parametrize("text", ["", "\n\n", "# Only a title\n", "words", "\ufeff"])
def test_s1_fr1_11_a_plan_without_sprints_is_a_fault(text: str) -> None:
    assert fault_lines(parse(text)) == [(MARKDOWN, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "```\n### Sprint 9.1: x\n```\n",
        "~~~~ md\n~~~\n### Sprint 9.1: x\n~~~~\n",
        "    ### Sprint 9.1: x\n",
        "<!--\n### Sprint 9.1: x\n-->\n",
        "<!-- ### Sprint 9.1: x -->\n",
        "- item\n\n  ### Sprint 9.1: x\n",
        "1. item\n   - deeper\n     ### Sprint 9.1: x\n",
        "> ### Sprint 9.1: x\n",
        "`### Sprint 9.1: x`\n",
        "\\### Sprint 9.1: x\n",
        "### Sprints 9.1: x\n",
    ],
)
def test_a_heading_inside_a_fence_a_comment_a_list_or_a_quotation_is_none(text: str) -> None:
    plan = parse(f"{text}\n### Sprint 1.1: Real\n")
    assert [sprint.id.text for sprint in plan.sprints] == ["1.1"]
    assert (plan.faults, plan.warnings) == ((), ())


@pytest.mark.parametrize(
    "heading",
    [
        "## Sprint 1.2: x",
        "#### Sprint 1.2: x",
        "### sprint 1.2: x",
        "### ✅ Sprint 1.2: x",
        "Sprint 1.2: x\n---",
    ],
)
def test_a_heading_that_only_looks_like_a_sprint_is_a_warning(heading: str) -> None:
    plan = parse(f"### Sprint 1.1: Real\n\n{heading}\n")
    assert [sprint.id.text for sprint in plan.sprints] == ["1.1"]
    assert [warning.line for warning in plan.warnings] == [3]


def test_a_struck_sprint_is_skipped_with_all_its_fields() -> None:
    plan = parse("### ~~Sprint 1.1: Gone~~\n**Priority**: 99\n### Sprint 1.2: Here\n**Team**: t\n")
    assert [(struck.id.text, struck.line) for struck in plan.struck] == [("1.1", 1)]
    assert [sprint.id.text for sprint in plan.sprints] == ["1.2"]
    assert plan.faults == ()


def test_a_plan_of_struck_sprints_only_is_no_fault() -> None:
    assert parse("### ~~Sprint 1.1: Gone~~\n").faults == ()


def test_phases_are_read_and_a_sprint_below_another_phase_is_a_warning() -> None:
    text = DEFAULTS + "## Phase 2: Two\n### Sprint 1.1: Lost\n**Tasks**: x\n"
    assert [(phase.phase, phase.title) for phase in parse(text).phases] == [("2", "Two")]
    assert [warning.line for warning in compiled(text).warnings] == [DEFAULTS.count("\n") + 2]


def test_sections_end_at_the_next_heading() -> None:
    plan = parse(
        "### Sprint 1.1: A\n**Team**: a\n## Phase 2\n**Team**: nobody\n### Sprint 2.1: B\n**Team**: b\n"
    )
    assert [sprint.team for sprint in plan.sprints] == [At("a", 2), At("b", 6)]
    assert plan.faults == ()


# --- the nine items -------------------------------------------------------------------------------

FULL = """\
### Sprint 3a.2b: All of it

**Worktree**: `../app-worktrees/x`
**Branch**: `feature/x`
**Source Branch**: `develop` (after 3a.1 merged)

**Dev Agents**:
- `backend` (sonnet)
- `writer` (opus) - the manual

**QA Agents**:
- `tests` (haiku) - Run with >90% coverage
- `types` (haiku) - Strict

**Tasks**:
- Create `a/b.py` with **care**
- Second

**Acceptance Criteria**:
- It holds
"""


def test_s2_st2_s1_fr1_3_s1_fr1_4_s1_fr1_5_s1_fr1_8_s1_fr1_9_every_item_with_its_line() -> None:
    sprint = parse(FULL).sprints[0]
    assert (sprint.id.phase, sprint.id.text, sprint.title) == ("3a", "3a.2b", "All of it")
    assert sprint.worktree == At("../app-worktrees/x", 3)
    assert sprint.branch == At("feature/x", 4)
    assert sprint.source_branch == At("develop", 5)
    assert sprint.tasks == (At("Create a/b.py with care", 16), At("Second", 17))
    assert sprint.criteria == (At("It holds", 20),)


def test_s1_fr1_6_s1_fr1_7_s2_ex3_s2_ex6_every_agent_bullet_becomes_an_agent() -> None:
    sprint = parse(FULL).sprints[0]
    dev = [(a.value.agent, a.value.model, a.value.context, a.line) for a in sprint.dev_agents]
    assert dev == [
        (".claude/agents/backend.md", "sonnet", None, 8),
        (".claude/agents/writer.md", "opus", "the manual", 9),
    ]
    qa = [(a.value.agent, a.value.model, a.value.context, a.line) for a in sprint.qa_agents]
    assert qa == [
        (".claude/agents/tests.md", "haiku", "Run with >90% coverage", 12),
        (".claude/agents/types.md", "haiku", "Strict", 13),
    ]


def test_s2_ex1_back_ticks_do_not_survive_into_tasks() -> None:
    assert only("**Tasks**:\n- Make `a` and ``b`c``\n").tasks == (At("Make a and b`c", 3),)


def test_s2_ex2_a_note_behind_a_source_branch_is_not_part_of_it() -> None:
    assert only("**Source Branch**: `develop` (after 1.2a and 1.2b merged)\n").source_branch == At(
        "develop", 2
    )
    assert only("**Source Branch**: develop (after 1.2a and 1.2b merged)\n").source_branch == At("develop", 2)


def test_s2_ex5_sections_may_be_separated_by_rules() -> None:
    plan = parse("### Sprint 1.1: A\n**Tasks**:\n- one\n\n---\n\n### Sprint 1.2: B\n**Tasks**:\n- two\n---\n")
    assert [[task.value for task in sprint.tasks] for sprint in plan.sprints] == [["one"], ["two"]]
    assert (plan.faults, plan.warnings) == ((), ())


def test_a_rule_right_below_a_field_makes_no_heading_of_it() -> None:
    sprint = only("**Branch**: `a`\n**Source Branch**: `b`\n---\n**Tasks**:\n- x\n")
    assert (sprint.branch, sprint.source_branch) == (At("a", 2), At("b", 3))
    assert sprint.tasks == (At("x", 6),)


@pytest.mark.parametrize("label", ["Source Branch", "Dev Agents", "QA Agents", "Tasks"])
def test_s1_fr1_10_a_missing_section_is_named_with_its_sprint(label: str) -> None:
    value = {"Source Branch": "develop", "Dev Agents": "claude", "QA Agents": "claude", "Tasks": "x"}
    body = "".join(f"**{name}**: {text}\n" for name, text in value.items() if name != label)
    built = compiled(f"# Plan\n\n### Sprint 1.1: A\n{body}")
    (fault,) = built.all_faults
    assert (fault.code, fault.line) == (Code.MISSING_SECTION, 3)
    assert "1.1" in fault.message
    assert f"**{label}**" in fault.message
    assert fault.suggested_action


def test_s1_fr1_10_all_missing_sections_are_told_at_once() -> None:
    built = compiled("### Sprint 1.1: A\n### Sprint 1.2: B\n")
    assert [fault.line for fault in built.all_faults] == [1] * 4 + [2] * 4


# --- fixtures -------------------------------------------------------------------------------------


def test_a_realistic_plan_compiles() -> None:
    built = compiled(fixture("service.md"))
    assert [str(fault) for fault in built.all_faults] == []
    assert {sprint: bead.dependencies for sprint, bead in built.beads.items()} == {
        "1.1": [],
        "1.2a": ["bd-1-1-model"],
        "1.2b": ["bd-1-1-model"],
        "1.3": ["bd-1-2a-storage", "bd-1-2b-search"],
        "2a.1": ["bd-1-3-manual"],
        "2b.1": ["bd-1-3-manual"],
        "3.1": ["bd-2a-1-web-page", "bd-2b-1-terminal"],
    }


def test_a_messy_plan_is_read_as_its_author_meant_it() -> None:
    """BOM, CRLF, headings where none count, wrapped and nested bullets, labels in several spellings."""
    text = fixture("messy.md")
    assert text.startswith("\ufeff")
    assert "\r\n" in text
    plan = parse(text)
    assert [str(fault) for fault in plan.faults] == []
    assert [sprint.id.text for sprint in plan.sprints] == ["1.1", "1.3"]
    assert [struck.id.text for struck in plan.struck] == ["1.2"]
    first = plan.sprints[0]
    assert first.title == "Größe — 数え方 & code"
    assert first.annotation == At("bd-old", line_of(text, "bd-old"))
    assert first.description == "A word on why."
    assert first.status == At("in review", line_of(text, "**Status**"))
    assert first.branch == At("feature/1-1-count", line_of(text, "**Branch:**"))
    assert first.source_branch == At("develop", line_of(text, "**Source Branch** :"))
    assert first.tasks == (
        At("Count __init__.py files and List<T>\n- sub one\n- sub two", line_of(text, "1. [x]")),
        At("Write a task over two lines, see the notes (docs/notes.md)", line_of(text, "2. Write")),
        At("New wording", line_of(text, "4. ~~Old~~")),
    )
    assert first.dev_agents[0].value.executable == "codex"
    assert first.dev_agents[0].value.context == "careful"
    assert first.notes == ("Reviewer: Kim, Lee", "Taskz:\n- not read")
    assert [(w.line, "**Tasks**" in w.message) for w in plan.warnings] == [(line_of(text, "**Taskz**"), True)]
    assert [sprint.id.text for sprint in plan.sprints if compiled(text).edges[sprint.id.text]] == ["1.3"]


def line_of(text: str, beginning: str) -> int:
    lines = text.split("\r\n")
    return next(number for number, line in enumerate(lines, 1) if beginning in line)


@pytest.mark.parametrize("name", ["service.md", "messy.md"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_change_nothing(name: str, ending: str, mark: str) -> None:
    text = fixture(name).removeprefix("\ufeff").replace("\r\n", "\n")
    assert parse(mark + text.replace("\n", ending)) == parse(text)


# --- front matter ---------------------------------------------------------------------------------


def test_front_matter_gives_defaults_and_a_sprint_goes_first() -> None:
    said = "---\nsource_branch: develop\ndev_agents: [coder (opus)]\nqa_agents: [claude]\npriority: 3\n"
    said += "team: all\nlabels: [one, two]\nverify: [make test]\n---\n"
    rest = (
        "### Sprint 1.1: A\n**Tasks**: x\n### Sprint 1.2: B\n**Tasks**: x\n**Priority**: 0\n**Team**: own\n"
    )
    built = compiled(said + rest)
    assert built.all_faults == ()
    first, second = built.beads["1.1"].to_json(), built.beads["1.2"].to_json()
    assert (first["priority"], second["priority"]) == (3, 0)
    assert (first["metadata"]["team_name"], second["metadata"]["team_name"]) == ("all", "own")
    assert first["labels"] == ["phase-01", "sprint-1-1", "one", "two"]
    assert first["metadata"]["dev_agents"][0]["model"] == "opus"
    assert first["metadata"]["dod"]["verifiers"] == [{"name": "make test", "command": "make test"}]


@pytest.mark.parametrize(
    ("matter", "line"),
    [
        ("a: 1\nb: [\n", 3),
        ("a: 1\nb: c: d\n", 3),
        ("- a\n- b\n", 2),
        ("just words\n", 2),
        ("a: 1\n\ttab: 2\n", 3),
        ("day: 2026-99-99\n", 2),
        ("a: !!timestamp x\n", 2),
        ("a: !!bool x\n", 2),
        ("a: !!int x\n", 2),
        ("a: !unknown x\n", 2),
        ("a: " + "[" * 3000 + "\n", 2),
        ("a: " + "9" * 5000 + "\n", 2),
        ("a: 1\nb: \x01\n", 3),
        ("a\u2028b\u2028c: d: e\n", 2),
    ],
)
def test_front_matter_that_is_no_mapping_is_a_fault_with_its_line(matter: str, line: int) -> None:
    plan = parse(f"---\n{matter}---\n### Sprint 1.1: A\n")
    assert [(str(fault.code)) for fault in plan.faults] == [MARKDOWN]
    assert plan.faults[0].line == line
    assert [sprint.id.text for sprint in plan.sprints] == ["1.1"]


@pytest.mark.parametrize(
    ("matter", "line"),
    [
        ("source_branch: develop\npriority: 9\n", 3),
        ("dev_agents: [claude (gpt)]\n", 2),
        ("labels: one\n", 2),
        ("# a comment\n\nmax_retry_attempts: 0\n", 4),
        ("beads-ralph:\n  team: t\n  priority: high\n", 4),
    ],
)
def test_a_wrong_default_is_a_fault_at_its_key(matter: str, line: int) -> None:
    built = compiled(f"---\n{matter}---\n### Sprint 1.1: A\n")
    wrong = [fault for fault in built.faults if "front matter" in fault.message]
    assert [(fault.code, fault.line) for fault in wrong] == [(Code.PLAN_PATTERN, line)]


def test_a_wrong_default_does_not_take_the_sound_ones_with_it() -> None:
    built = compiled(
        DEFAULTS.replace("qa_agents", "priority: 9\nqa_agents") + "### Sprint 1.1: A\n**Tasks**: x\n"
    )
    assert [fault.line for fault in built.all_faults] == [4]


def test_several_wrong_defaults_are_told_at_once() -> None:
    built = compiled("---\npriority: 9\nlabels: one\nteam: ''\n---\n### Sprint 1.1: A\n")
    assert [fault.line for fault in built.faults] == [2, 3, 4]


def test_a_misspelt_default_is_a_warning_and_a_foreign_key_is_none() -> None:
    built = compiled("---\ntitle: My plan\nsource_brunch: develop\n---\n### Sprint 1.1: A\n")
    assert [(warning.line, "source_branch" in warning.message) for warning in built.warnings] == [(3, True)]


@pytest.mark.parametrize("matter", ["", "# only a comment\n", "~\n", "{}\n"])
def test_empty_front_matter_says_nothing(matter: str) -> None:
    assert parse(f"---\n{matter}---\n### Sprint 1.1: A\n").faults == ()


def test_line_numbers_count_the_front_matter() -> None:
    plan = parse("---\na: 1\n---\n\n### Sprint 1.1: A\n**Team**: t\n")
    assert (plan.sprints[0].line, plan.sprints[0].team) == (5, At("t", 6))


# --- annotations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment", ["<!-- beads-ralph: bd-x -->", "<!--beads-ralph:bd-x-->", "  <!-- beads-ralph: bd-x -->"]
)
def test_the_comment_below_a_heading_names_its_bead(comment: str) -> None:
    assert only(f"{comment}\n**Team**: t\n").annotation == At("bd-x", 2)


@pytest.mark.parametrize(
    "comment", ["<!-- beads: x -->", "<!-- beads-ralph: -->", "```\n<!-- beads-ralph: x -->\n```"]
)
def test_other_comments_name_no_bead(comment: str) -> None:
    assert only(f"{comment}\n").annotation is None


# --- compiled beads of schema 4.1a ----------------------------------------------------------------


def test_s2_st4_s2_c2_every_bead_is_whole_and_valid() -> None:
    built = compiled(plan_of(["1.1"]))
    raw = built.beads["1.1"].to_json()
    core = "id title description status priority issue_type assignee owner dependencies labels comments"
    assert list(raw) == [*core.split(), "external_ref", "created_at", "updated_at", "closed_at", "metadata"]
    assert raw["metadata"]["rig"] == "beads-ralph"


def test_s2_st5_the_form_of_bead_ids() -> None:
    text = DEFAULTS
    named = [("1.1", "schema"), ("1.2a", "work"), ("3a.2b", "validation")]
    for sprint, name in named:
        text += f"### Sprint {sprint}: Any title\n**Bead Name**: {name}\n**Tasks**: x\n"
    text += "### Sprint 4.1: A Title of Words\n**Tasks**: x\n"
    assert list(compiled(text).ids.values()) == [
        "bd-1-1-schema",
        "bd-1-2a-work",
        "bd-3a-2b-validation",
        "bd-4-1-a-title-of-words",
    ]


def test_s2_st6_only_valid_beads_pass_and_faults_name_their_field() -> None:
    built = compiled(plan_of(["1.1", "1.2"], s1_2="**Branch**: `not a branch`\n"))
    assert list(built.beads) == ["1.1"]
    (fault,) = built.all_faults
    assert (fault.code, fault.field) == (Code.FIELD_PATTERN, "metadata.branch")
    assert fault.line == plan_of(["1.1", "1.2"]).split("\n").index("### Sprint 1.2: Part 1.2") + 2


def test_s2_st8_s2_c3_every_qa_agent_has_an_output_schema() -> None:
    for agent in compiled(fixture("service.md")).beads["1.1"].to_json()["metadata"]["qa_agents"]:
        schema = agent["output_schema"]
        assert schema["properties"]["status"]["enum"] == ["pass", "fail", "stop"]
        assert schema["required"] == ["status", "message"]
        assert all(part["description"] for part in schema["properties"].values())


# --- any text at all ------------------------------------------------------------------------------

PIECES = [
    "### Sprint 1.1: A", "### Sprint 1.2a: B", "### Sprint 1.2.3: C", "### ~~Sprint 1.4: D~~",
    "## Phase 2: E", "#### Tasks", "---", "***", "===", "```", "~~~", "```sh", "<!--", "-->",
    "<!-- beads-ralph: bd-x -->", "- ", "  - ", "1. ", "> ", "    ", "\t", "- [x] ", "~~", "**", "__", "`",
    "``", "[", "](", ")", "<", ">", "&lt;", "**Tasks**:", "**Branch**: `a`", "**Depends On**: 1.1,",
    "**Verify**:", "`make`", "**Priority**: 9", "**Dev Agents**:", "claude (sonnet) - x", "**QA Agents**:",
    "**Type**: merge", "**Bead Name**: bd-1", "**Labels**: a, `b`", "**Own**: x", "**Worktree**: ~nobody/x",
    "**Status**: done", "text", "Größe", "a: [", "priority: 1", "\\", "  \n", "\n", "\n\n", "\r\n", "\r",
    "\x00", "\x0b", "\u2028", "\ufeff", "<T>", "<details>", "(", "{", "then", "#", "|",
]  # fmt: skip
soup = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).flatmap(
    lambda parts: st.sampled_from(["", "\n", " "]).map(lambda glue: glue.join(parts))
)
matter = st.builds("---\n{}\n---\n{}".format, soup, soup)


def lines_in(value: Any) -> list[int]:
    """Every line number anywhere in a parsed plan."""
    if isinstance(value, tuple | list):
        return [line for entry in value for line in lines_in(entry)]
    if not is_dataclass(value):
        return []
    own = [getattr(value, "line", None)]
    return [line for line in own if line is not None] + [
        line for field in fields(value) for line in lines_in(getattr(value, field.name))
    ]


@settings(max_examples=examples(400))
@given(st.text() | soup | matter)
def test_parse_never_raises_and_its_lines_lie_in_the_file(text: str) -> None:
    plan = parse(text)
    last = len(re.split(r"\r\n|\r|\n", text))
    assert all(1 <= line <= last for line in lines_in(plan))
    assert all(1 <= line <= last for line in plan.front_matter_lines.values())
    for found in (plan.faults, plan.warnings):
        assert [fault.line for fault in found] == sorted(fault.line or 0 for fault in found)
    assert plan.sprints or plan.struck or plan.faults


@settings(max_examples=examples(200))
@given(soup | matter)
def test_compiling_never_raises_and_every_sprint_becomes_a_bead_or_a_fault(text: str) -> None:
    plan: Plan = parse(DEFAULTS + text)
    built = build(plan, setting())
    for sprint in plan.sprints:
        assert sprint.id.text in built.beads or built.all_faults
    last = len(re.split(r"\r\n|\r|\n", DEFAULTS + text))
    assert all(fault.line is not None and 1 <= fault.line <= last for fault in built.all_faults)


@given(st.lists(st.sampled_from(["", "words", "- a list", "> quoted", "`code\nspan`", "<b\nc>", "a\\\nb"])))
def test_a_value_keeps_its_line_whatever_stands_above_it(above: list[str]) -> None:
    text = "### Sprint 1.1: A\n" + "".join(f"{part}\n" for part in above) + "**Team**: core\n"
    plan = parse(text)
    assert plan.sprints[0].team == At("core", text.split("\n").index("**Team**: core") + 1)


def test_sprint_plan_begins_on_the_line_the_tests_count_from() -> None:
    assert sprint_plan("**Team**: t").sprints[0].team == At("t", 2)
