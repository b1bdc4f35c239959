"""Each labelled field of a sprint: the forms it may have, its line, and what is wrong with others."""

import pytest

from beads_ralph.errors import Code
from beads_ralph.plan import At, SprintCheck
from tests.plan.plans import DEFAULTS, compiled, only, sprint_plan


def values(entries: tuple[At[str], ...]) -> list[tuple[str, int]]:
    return [(entry.value, entry.line) for entry in entries]


def refused(body: str) -> tuple[str, int | None]:
    """The one fault of a body, as its message and line."""
    (fault,) = sprint_plan(body).faults
    assert fault.code == Code.PLAN_PATTERN
    assert "1.1" in fault.message
    return fault.message, fault.line


# --- single values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("**Branch**: `feature/x`", "feature/x"),
        ("**Branch**: feature/x", "feature/x"),
        ("**Branch:** `feature/x`", "feature/x"),
        ("**Branch** : feature/x", "feature/x"),
        ("__Branch__: feature/x", "feature/x"),
        ("**branch**: feature/x", "feature/x"),
        ("**Branch**: `feature/x` (was `main`)", "feature/x"),
        ("**Branch**: feature/x (was `main`)", "feature/x"),
        ("**Branch**: main-line (was `main`)", "main-line"),
        ("**Branch**: `feature/x` <!-- settled -->", "feature/x"),
        ("**Branch**: feature/__x__", "feature/__x__"),
        ("**Branch**:\n- `feature/x` (new)", "feature/x"),
        ("**Branch**:\n- feature/x (was `main`)", "feature/x"),
        ("#### Branch\n\n- feature/x", "feature/x"),
    ],
)
def test_s1_fr1_4_a_single_value_in_every_spelling(line: str, value: str) -> None:
    branch = only(f"{line}\n").branch
    assert branch is not None
    assert branch.value == value
    assert branch.line == 1 + len(line.split("\n")), "the line that the value itself stands on"


def test_s1_fr1_3_s1_fr1_5_other_single_values() -> None:
    sprint = only(
        "**Worktree**: `../w/x`\n**Source Branch**: `main`\n**Team**: core team\n"
        "**Bead Name**: `schema`\n**Formula**: `work-sprint`\n**Status**: waiting\n"
    )
    assert (sprint.worktree, sprint.source_branch) == (At("../w/x", 2), At("main", 3))
    assert (sprint.team, sprint.bead_name) == (At("core team", 4), At("schema", 5))
    assert (sprint.formula, sprint.status) == (At("work-sprint", 6), At("waiting", 7))


def test_a_label_with_nothing_behind_it_is_a_warning() -> None:
    plan = sprint_plan("**Branch**:\n\n**Team**: t\n")
    assert plan.sprints[0].branch is None
    assert [(warning.line, "**Branch**" in warning.message) for warning in plan.warnings] == [(2, True)]


def test_the_same_label_twice_is_a_fault_at_the_second() -> None:
    plan = sprint_plan("**Team**: a\n**Tasks**: x\n**Team**: b\n")
    assert [(fault.code, fault.line) for fault in plan.faults] == [(Code.MARKDOWN, 4)]
    assert plan.sprints[0].team == At("a", 2)


def test_labels_inside_bullets_words_and_fences_are_no_fields() -> None:
    sprint = only("Say **Branch**: x aloud.\n\n```\n**Team**: t\n```\n\n- **Priority**: 9\n")
    assert (sprint.branch, sprint.team, sprint.priority) == (None, None, None)


def test_a_field_right_below_a_bullet_is_a_field() -> None:
    sprint = only("**Tasks**:\n- one\n**Team**: core\n")
    assert (sprint.tasks, sprint.team) == ((At("one", 3),), At("core", 4))


def test_a_multi_line_code_span_does_not_shift_the_lines_below_it() -> None:
    sprint = only("**Own**: `a\nb` and <b\nc> and \\\nmore\n**Team**: core\n")
    assert sprint.team == At("core", 6)


# --- type and priority ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("work", "beads-ralph-work"),
        ("`Merge`", "beads-ralph-merge"),
        ("beads-ralph-work", "beads-ralph-work"),
        ("beads-ralph-merge (of both tracks)", "beads-ralph-merge"),
    ],
)
def test_type(text: str, kind: str) -> None:
    assert only(f"**Type**: {text}\n").type == At(kind, 2)


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        ("0", 0),
        ("4", 4),
        ("P1", 1),
        ("`2`", 2),
        ("High", 1),
        ("critical", 0),
        ("minimal", 4),
        ("3 (later)", 3),
    ],
)
def test_priority(text: str, priority: int) -> None:
    assert only(f"**Priority**: {text}\n").priority == At(priority, 2)


@pytest.mark.parametrize("text", ["5", "-1", "1.5", "urgent", "P9", "२"])
def test_a_priority_out_of_range_is_refused(text: str) -> None:
    message, line = refused(f"\n**Priority**: {text}\n")
    assert text in message
    assert line == 3


def test_an_unknown_type_is_refused() -> None:
    assert refused("**Type**: epic\n")[1] == 2


# --- short lists ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Depends On**: 1.1", [("1.1", 2)]),
        ("**Depends On**: 1.1, 1.2a,1.2b", [("1.1", 2), ("1.2a", 2), ("1.2b", 2)]),
        ("**Depends On**: 1.1 and 1.2a", [("1.1", 2), ("1.2a", 2)]),
        ("**Depends On**: Sprint 1.1, Sprint 1.2a and sprints 1.2b & 1.3; 1.4", None),
        ("**Depends On**: `1.1`, `1.2a` and `1.2b`", [("1.1", 2), ("1.2a", 2), ("1.2b", 2)]),
        ("**Depends On**: `1.1` `1.2a`", [("1.1", 2), ("1.2a", 2)]),
        ("**Depends On**: 1.1, `1.2a`", [("1.1", 2), ("1.2a", 2)]),
        ("**Depends On**: 1.1 (for its schema)", [("1.1", 2)]),
        ("**Depends On**: bd-a1b2, bd-1-1-schema", [("bd-a1b2", 2), ("bd-1-1-schema", 2)]),
        ("**Depends On**:\n- 1.1\n- `1.2a` (late)", [("1.1", 3), ("1.2a", 4)]),
        ("**Depends On**: 1.1,\n1.2a, 1.2b,\n`1.3`", [("1.1", 2), ("1.2a", 3), ("1.2b", 3), ("1.3", 4)]),
        ("**Dependencies**: 1.1", [("1.1", 2)]),
        ("**Depends On**: none", []),
        ("**Depends On**: None", []),
        ("**Depends On**: —", []),
        ("**Depends On**: n/a", []),
        ("**Depends On**: -", []),
    ],
)
def test_depends_on(text: str, expected: list[tuple[str, int]] | None) -> None:
    if expected is None:
        expected = [("1.1", 2), ("1.2a", 2), ("1.2b", 2), ("1.3", 2), ("1.4", 2)]
    assert values(only(f"{text}\n").depends_on) == expected


def test_labels_and_branches_to_merge() -> None:
    sprint = only(
        "**Labels**: api, `two words`, odd (new)\n**Branches to Merge**:\n- `feature/a`\n- feature/b\n"
    )
    assert values(sprint.labels) == [("api", 2), ("two words", 2), ("odd", 2)]
    assert values(sprint.branches_to_merge) == [("feature/a", 4), ("feature/b", 5)]


def test_a_plan_s_labels_reach_the_bead_behind_its_own() -> None:
    built = compiled(DEFAULTS + "### Sprint 3a.2b: A\n**Labels**: api, urgent, api\n**Tasks**: x\n")
    assert built.beads["3a.2b"].labels == ["phase-03", "sprint-3a-2b", "api", "urgent"]


def test_branches_to_merge_make_a_merge() -> None:
    built = compiled(DEFAULTS + "### Sprint 1.1: A\n**Branches to Merge**: `a/b`, `c`\n**Tasks**: x\n")
    raw = built.beads["1.1"].to_json()
    assert (raw["issue_type"], raw["metadata"]["branches_to_merge"]) == ("beads-ralph-merge", ["a/b", "c"])


# --- sentences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("**Tasks**:\n- a\n- b\n", [("a", 3), ("b", 4)]),
        ("**Tasks**:\n\n* a\n\n* b\n", [("a", 4), ("b", 6)]),
        ("**Tasks**:\n1. a\n2) b\n", None),
        ("**Tasks**:\n- [ ] open\n- [x] done\n- [X] done too\n", [("open", 3), ("done", 4), ("done too", 5)]),
        ("**Tasks**:\n- [ ]\n- a\n", [("a", 4)]),
        ("**Tasks**:\n- wrapped\n  over\n  lines\n- b\n", [("wrapped over lines", 3), ("b", 6)]),
        ("**Tasks**:\n- lazy\nwrap\n", [("lazy wrap", 3)]),
        ("**Tasks**:\n- a\n  - b\n    - c\n  - [x] d\n", [("a\n- b\n  - c\n- d", 3)]),
        ("**Tasks**:\n- a\n\n  second paragraph\n", [("a\nsecond paragraph", 3)]),
        ("**Tasks**:\n- run\n  ```sh\n  make\n  ```\n", [("run\nmake", 3)]),
        ("**Tasks**:\n- run\n\n```sh\nmake\n```\n- b\n", [("run\nmake", 3), ("b", 8)]),
        ("#### Tasks\n\n- a\n", [("a", 4)]),
        ("#### Tasks:\n- a\n", [("a", 3)]),
        ("**Tasks**: one on the line\n", [("one on the line", 2)]),
        ("**Tasks**: go on,\nand on\n", [("go on, and on", 2)]),
        ("**Tasks**:\n<!-- a remark -->\n- a\n<!-- another -->\n- b\n", [("a", 4), ("b", 6)]),
        ("**Tasks**:\n- ~~dropped~~\n- kept\n", [("kept", 4)]),
        ("**Tasks**:\n- [x] ~~dropped~~\n- kept\n", [("kept", 4)]),
        ("**Tasks**:\n- ~~Use A~~ Use B\n", [("Use B", 3)]),
        ("**Tasks**:\n- a\n  - ~~b~~\n  - c\n", [("a\n- c", 3)]),
        (
            "**Tasks**:\n- Touch `pkg/__init__.py` and __init__.py\n",
            [("Touch pkg/__init__.py and __init__.py", 3)],
        ),
        ("**Tasks**:\n- Return `list[T]`, List<T> or <T>\n", [("Return list[T], List<T> or <T>", 3)]),
        ("**Tasks**:\n- <T> stands first\n", [("<T> stands first", 3)]),
        ("**Tasks**:\n- <table> markup\n", [("<table> markup", 3)]),
        ("**Tasks**:\n- # of rows is right\n", [("# of rows is right", 3)]),
        ("**Tasks**:\n- > as they said\n", [("as they said", 3)]),
        (
            "**Tasks**:\n- See [the guide](docs/guide.md) first\n",
            [("See the guide (docs/guide.md) first", 3)],
        ),
        ("**Tasks**:\n- See <https://example.org/a_b>\n", [("See https://example.org/a_b", 3)]),
        ("**Tasks**:\n- a &lt; b \\* c **d** *e*\n", [("a < b * c d e", 3)]),
        ("**Tasks**:\n- a <!-- aside -->b\n", [("a b", 3)]),
    ],
)
def test_s1_fr1_8_s2_ex1_tasks(body: str, expected: list[tuple[str, int]] | None) -> None:
    assert values(only(body).tasks) == (expected or [("a", 3), ("b", 4)])


def test_a_list_behind_other_prose_is_no_list_of_tasks() -> None:
    sprint = only("**Tasks**:\n- a\n\nAlso think of:\n\n- b\n")
    assert values(sprint.tasks) == [("a", 3)]
    assert sprint.description == "Also think of:\n\n- b"


def test_s1_fr1_9_acceptance_criteria_reach_every_qa_agent() -> None:
    built = compiled(
        DEFAULTS + "### Sprint 1.1: A\n**Tasks**: x\n**Acceptance Criteria**:\n- holds\n- lasts\n"
    )
    metadata = built.beads["1.1"].to_json()["metadata"]
    assert metadata["acceptance_criteria"] == ["holds", "lasts"]
    assert all("- holds\n- lasts" in agent["context"] for agent in metadata["qa_agents"])


# --- agents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("`dev` (sonnet)", {"agent": ".claude/agents/dev.md", "model": "sonnet"}),
        ("dev (HAIKU) - look", {"agent": ".claude/agents/dev.md", "model": "haiku", "context": "look"}),
        ("dev - look - twice", {"agent": ".claude/agents/dev.md", "context": "look - twice"}),
        ("dev: look", {"agent": ".claude/agents/dev.md", "context": "look"}),
        ("dev — look", {"agent": ".claude/agents/dev.md", "context": "look"}),
        ("claude", {"agent": "claude"}),
        ("dev (codex:gpt-5)", {"agent": ".claude/agents/dev.md", "executable": "codex", "model": "gpt-5"}),
    ],
)
def test_s1_fr1_6_s1_fr1_7_the_forms_of_an_agent(line: str, spec: dict[str, str]) -> None:
    for body in (f"**Dev Agents**:\n- {line}\n", f"**QA Agents**:\n- {line}\n"):
        sprint = only(body)
        (agent,) = sprint.dev_agents or sprint.qa_agents
        assert agent.line == 3
        assert agent.value.to_json() == {"role": "polecat"} | spec


@pytest.mark.parametrize(
    "line", ["dev (gpt)", "two words", "dev (sonnet) then", "(sonnet)", "dev (sonnet) (opus)"]
)
def test_what_is_no_agent_is_refused_at_its_own_bullet(line: str) -> None:
    assert refused(f"**Dev Agents**:\n- claude\n- {line}\n")[1] == 4


# --- verify ---------------------------------------------------------------------------------------


def verifiers(body: str) -> list[tuple[str, str, int]]:
    return [(check.value.name, check.value.command, check.line) for check in only(body).verify]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("**Verify**: `make test`\n", [("make test", "make test", 2)]),
        ("**Verify**: `make a` and `make b`\n", [("make a", "make a", 2), ("make b", "make b", 2)]),
        (
            "**Verify**:\n- `make a`\n- types: `mypy src`\n- `make b` and `make c`\n",
            [
                ("make a", "make a", 3),
                ("types", "mypy src", 4),
                ("make b", "make b", 5),
                ("make c", "make c", 5),
            ],
        ),
        ("**Verify**:\n- two\n  lines: `make a`\n", [("two lines", "make a", 4)]),
        (
            "**Verify**:\n```sh\n# first\nmake a\n\n  make b  \n```\n",
            [("make a", "make a", 5), ("make b", "make b", 7)],
        ),
        ("**Verify**:\n\n    make a\n    make b\n", [("make a", "make a", 4), ("make b", "make b", 5)]),
        (
            "**Verify**:\n```\nmake \\\n  a\nmake b\n```\n",
            [("make \\", "make \\\na", 4), ("make b", "make b", 6)],
        ),
        (
            "**Verify**:\n```\n# kept apart \\\nmake a &&\nmake b ||\nmake c |\ntee log\n```\n",
            [("make a &&", "make a &&\nmake b ||\nmake c |\ntee log", 5)],
        ),
        ("**Verify**:\n```\nmake \\\n```\n", [("make \\", "make \\\n", 4)]),
        (
            "**Verify**:\n```sh\nfor x in a b; do\n  make $x\ndone\n```\n",
            [("for x in a b; do", "set -e\nfor x in a b; do\n  make $x\ndone", 4)],
        ),
        (
            "**Verify**:\n```sh\npython - <<END\nprint(1)\nEND\n```\n",
            [("python - <<END", "set -e\npython - <<END\nprint(1)\nEND", 4)],
        ),
        (
            "**Verify**:\n```sh\ncd web\nnpm test\n```\n",
            [("cd web", "set -e\ncd web\nnpm test", 4)],
        ),
        (
            "**Verify**:\n```sh\nPORT=8080\ncurl localhost:$PORT\n```\n",
            [("PORT=8080", "set -e\nPORT=8080\ncurl localhost:$PORT", 4)],
        ),
        ("**Verify**:\n- all of it\n  ```\n  make a\n  ```\n", [("make a", "make a", 5)]),
        ("**Verify**:\n```\n# nothing but words\n```\n", []),
        ("#### Verify\n```\nmake a\n```\n", [("make a", "make a", 4)]),
    ],
)
def test_verify(body: str, expected: list[tuple[str, str, int]]) -> None:
    assert verifiers(body) == expected


def test_a_check_is_a_name_and_a_command() -> None:
    assert only("**Verify**: `make`\n").verify == (At(SprintCheck("make", "make"), 2),)


@pytest.mark.parametrize(
    ("body", "line"), [("**Verify**: run the tests\n", 2), ("**Verify**:\n- `make`\n- by hand\n", 4)]
)
def test_a_verifier_that_is_no_command_is_refused(body: str, line: int) -> None:
    assert refused(body)[1] == line


# --- labels of the author's own -------------------------------------------------------------------


def test_labels_of_the_author_s_own_are_kept_as_notes() -> None:
    plan = sprint_plan(
        "**Risk**: high (see below)\n\n**Reviewers**:\n- Kim\n- Lee\n\n**Sample**:\n```\nx = 1\n```\n"
    )
    assert plan.sprints[0].notes == ("Risk: high (see below)", "Reviewers:\n- Kim\n- Lee", "Sample:\nx = 1")
    assert plan.warnings == ()


def test_notes_reach_the_bead_s_description() -> None:
    built = compiled(DEFAULTS + "### Sprint 1.1: A\nWhy we do it.\n\n**Tasks**: x\n**Risk**: high\n")
    assert built.beads["1.1"].description == "Why we do it.\n\nRisk: high"


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("Taks", "**Tasks**"),
        ("Dev Agens", "**Dev Agents**"),
        ("Source Brnch", "**Source Branch**"),
        ("Depend On", "**Depends On**"),
        ("Acceptence Criteria", "**Acceptance Criteria**"),
        ("Priorty", "**Priority**"),
    ],
)
def test_a_label_that_is_nearly_a_known_one_is_a_warning(label: str, meant: str) -> None:
    plan = sprint_plan(f"\n**{label}**: x\n")
    assert [(warning.line, meant in warning.message) for warning in plan.warnings] == [(3, True)]
    assert plan.sprints[0].notes == (f"{label}: x",)


@pytest.mark.parametrize("text", ["✅ Complete", "Done in #12", "merged on Monday", "COMPLETED"])
def test_a_sprint_that_says_it_is_finished_is_compiled_with_a_warning(text: str) -> None:
    plan = sprint_plan(f"**Status**: {text}\n")
    assert [(warning.line, "~~" in warning.message) for warning in plan.warnings] == [(2, True)]
    assert len(plan.sprints) == 1


@pytest.mark.parametrize("text", ["in progress", "abandoned", "incomplete", "to do"])
def test_other_words_of_status_are_no_matter(text: str) -> None:
    assert sprint_plan(f"**Status**: {text}\n").warnings == ()


# --- faults of a bead stand where the plan says it ------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        (["**Branch**: `no good`", "**Tasks**: x"], 0),
        (["**Branch**: b", "**Tasks**: x", "**Source Branch**: `-x`"], 2),
        (["**Tasks**: x", "**Bead Name**: bd-a/b"], 1),
        (["**Tasks**: x", "**Branches to Merge**:", "- `a`", "- `-b`"], 3),
        (["**Tasks**: x", "**Type**: merge"], 1),
        (["**Tasks**: x", "**Verify**:", "- `make`", "- ` `"], 3),
    ],
)
def test_a_fault_of_a_bead_names_the_line_of_its_field(lines: list[str], at: int) -> None:
    text = DEFAULTS + "### Sprint 1.1: A\n" + "\n".join(lines) + "\n"
    assert {fault.line for fault in compiled(text).all_faults} == {DEFAULTS.count("\n") + 2 + at}
