"""What is nearly right is understood, or named with its cure; nothing is dropped without a word."""

import pytest

from beads_ralph.errors import Code, Fault
from beads_ralph.plan import At, Sprint, parse
from tests.plan.plans import DEFAULTS, compiled, only, section, sprint_plan


def tasks_of(body: str) -> list[tuple[str, int]]:
    return [(task.value, task.line) for task in only(body).tasks]


def one_warning(body: str) -> Fault:
    (warning,) = sprint_plan(body).warnings
    return warning


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label",
    [
        "**Tasks**",
        "**Tasks** (3 days)",
        "**Tasks** (3 days):",
        "**Tasks (3 days)**:",
        "**Tasks (3 days):**",
        "*Tasks*:",
        "Tasks:",
        "Tasks (3 days):",
        "##### Tasks",
        "#### Tasks (3 days)",
    ],
)
def test_a_known_label_is_understood_in_looser_forms(label: str) -> None:
    for blank in ("", "\n"):
        assert tasks_of(f"{label}\n{blank}- a\n- b\n") == [("a", 3 + len(blank)), ("b", 4 + len(blank))]


def test_a_loose_label_right_below_a_bullet_is_a_label() -> None:
    sprint = only("**Acceptance Criteria**\n- it holds\n**Tasks** (two)\n- a\n")
    assert (sprint.criteria, sprint.tasks) == ((At("it holds", 3),), (At("a", 5),))


@pytest.mark.parametrize(
    "body",
    [
        "**Tasks**:\nThese are for the backend.\n\n- a\n- b\n",
        "**Tasks**:\n\nThese are for the backend.\n\n- a\n- b\n",
        "Tasks:\nThese are for the backend.\n- a\n- b\n",
        "#### Tasks\n\nThese are for the backend.\n\n- a\n- b\n",
    ],
)
def test_an_introduction_does_not_part_a_label_from_its_bullets(body: str) -> None:
    sprint = only(body)
    assert [task.value for task in sprint.tasks] == ["a", "b"]
    assert sprint.description == "These are for the backend."


def test_headings_inside_a_field_group_its_bullets() -> None:
    sprint = only(
        "#### Tasks\n\n##### Backend\n\n- a\n\n##### Frontend\n\nIn the browser.\n\n- b\n\n"
        "##### Verify\n\n- `make`\n"
    )
    assert [task.value for task in sprint.tasks] == ["Backend: a", "Frontend: b"]
    assert [check.value.command for check in sprint.verify] == ["make"]
    assert only("**Dev Agents**:\n##### Backend\n- claude\n").dev_agents[0].value.agent == "claude"


def test_a_deeper_heading_behind_the_bullets_is_a_label_of_the_author_s_own() -> None:
    sprint = only("#### Tasks\n\n- a\n\n##### Ideas\n\n- b\n")
    assert [task.value for task in sprint.tasks] == ["a"]
    assert sprint.notes == ("Ideas:\n- b",)


def test_a_label_written_out_goes_before_a_loose_one() -> None:
    sprint = only("Tasks:\n- of the team, some day\n\n**Tasks**:\n- a\n\n**Tasks (later)**:\n- b\n")
    assert [task.value for task in sprint.tasks] == ["a"]
    assert sprint.notes == ("Tasks:\n- of the team, some day", "Tasks (later):\n- b")


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("Branch: feature/x", "**Branch**:"),
        ("**Branch** feature/x", "**Branch**:"),
        ("QA Agents: claude", "**QA Agents**:"),
        ("Tasks: do it", "**Tasks**:"),
    ],
)
def test_a_label_that_is_read_as_text_is_named_with_its_cure(line: str, cure: str) -> None:
    warning = one_warning(f"Why.\n\n{line}\n")
    assert (warning.line, line.replace("*", "") in warning.message) == (4, True)
    assert cure in warning.remedy


@pytest.mark.parametrize("prose", ["Our team: two.", "Note: x", "The branch is new", "**Beware** of it"])
def test_prose_is_no_near_miss(prose: str) -> None:
    plan = sprint_plan(f"{prose}\n")
    assert (plan.faults, plan.warnings) == ((), ())
    assert plan.sprints[0].description == prose.replace("*", "")


# --- dependencies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "1.2 (after it), 1.3 (api)",
        "1.2 (after it, not before), Sprint 1.3",
        "1.2 - for its api, 1.3",
        "1.2: for its api, 1.3",
        "\n- 1.2 (after it)\n- 1.3 — its api",
    ],
)
def test_notes_among_dependencies_are_notes(text: str) -> None:
    assert [reference.value for reference in only(f"**Depends On**: {text}\n").depends_on] == ["1.2", "1.3"]


def test_words_among_dependencies_are_one_fault_with_the_line_to_write() -> None:
    (fault,) = sprint_plan("**Depends On**: 1.2 because of its api and 1.3\n").faults
    assert (fault.code, fault.line) == (Code.PLAN_PATTERN, 2)
    assert "'because'" in fault.message
    assert "1.2, 1.3" in fault.remedy


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["**Verify**: `a`, `b` and mypy\n", "**Verify**:\n- mypy, `b`\n"])
def test_a_command_without_back_ticks_is_never_dropped(body: str) -> None:
    (fault,) = sprint_plan(body).faults
    assert (fault.code, "'mypy'" in fault.message) == (Code.PLAN_PATTERN, True)
    assert "`mypy`" in fault.remedy


def test_words_that_are_run_by_nobody_are_named() -> None:
    plan = sprint_plan("**Verify**: `a`, `b` and the linter of ours\n")
    assert [check.value.command for check in plan.sprints[0].verify] == ["a", "b"]
    (warning,) = plan.warnings
    assert "'the linter of ours'" in warning.message


@pytest.mark.parametrize(
    "line", ["`a` (quick, and cheap)", "`a` - quick and cheap", "unit tests: `a` and `b`", "`a`; `b`."]
)
def test_explanations_of_commands_are_no_commands(line: str) -> None:
    for body in (f"**Verify**: {line}\n", f"**Verify**:\n- {line}\n"):
        plan = sprint_plan(body)
        assert (plan.faults, plan.warnings) == ((), ())


# --- what reaches a prompt ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "prompt"),
    [
        ("Return 2*3*4", "Return 2*3*4"),
        ("Lint src/*.py,tests/*.py", "Lint src/*.py,tests/*.py"),
        ("Make **all** of *it*, now", "Make all of it, now"),
        ("As in ![the sketch](docs/sketch.png)", "As in the sketch (docs/sketch.png)"),
        ("As in ![](docs/sketch.png)", "As in docs/sketch.png"),
        ("Run `git log --oneline` in `docs/`", "Run `git log --oneline` in docs/"),
        ("Say `` a `b` c ``", "Say ``a `b` c``"),
    ],
)
def test_patterns_products_pictures_and_commands_survive(source: str, prompt: str) -> None:
    assert tasks_of(f"**Tasks**:\n- {source}\n") == [(prompt, 3)]
    assert only(f"{source}\n").description == prompt
    assert only(f"**Tasks**: {source}\n").tasks == (At(prompt, 2),)


def test_patterns_survive_where_values_are_read() -> None:
    changes = only("**May Change**: src/*.py, tests/*.py\n").may_change
    assert [pattern.value for pattern in changes] == ["src/*.py", "tests/*.py"]


# --- depth, aliases, twins ------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["- " * 2000 + "deep\n", "> " * 2000 + "deep\n"])
def test_what_is_nested_too_deeply_is_a_fault_at_its_line(text: str) -> None:
    plan = parse(f"### Sprint 1.1: A\n**Tasks**:\n{text}")
    assert [(fault.code, fault.line) for fault in plan.faults] == [(Code.MARKDOWN, 3)]
    assert "nested" in plan.faults[0].message


def test_twenty_levels_are_no_matter() -> None:
    text = "".join("  " * level + f"- level {level}\n" for level in range(20))
    assert "level 19" in only(f"**Tasks**:\n{text}").tasks[0].value


@pytest.mark.parametrize(
    "yaml",
    [
        "labels: &a [*a]",
        "labels: &a [[*a], *a]",
        "plan: &a {b: *a}",
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(
            f"{chr(n + 1)}: &{chr(n + 1)} [{', '.join(['*' + chr(n)] * 10)}]" for n in range(97, 104)
        ),
    ],
)
def test_aliases_without_end_are_a_fault_of_the_front_matter(yaml: str) -> None:
    plan = parse(f"---\n{yaml}\n---\n{section('1.1')}")
    (fault,) = plan.faults
    assert fault.code == Code.MARKDOWN
    assert "alias" in fault.message
    assert "YAML" in fault.remedy


def test_aliases_without_end_are_text_or_a_fault_of_a_pour() -> None:
    sprint = only("**Formula**: f\n**Pour**:\n```\nvars: &a {vars: *a}\n```\n")
    assert sprint.pour is not None
    assert sprint.pour.values["vars"] == At("&a {vars: *a}", 5)
    (fault,) = sprint_plan("**Formula**: f\n**Pour**:\n```\nvars: &a\n  - *a\n```\n").faults
    assert "alias" in fault.message


def test_an_alias_that_ends_is_fine() -> None:
    built = compiled(
        "---\nsource_branch: main\ndev_agents: &who [claude]\nqa_agents: *who\n---\n" + section("1.1")
    )
    assert built.all_faults == ()


def test_a_sprint_struck_out_and_live_is_named() -> None:
    plan = parse("### ~~Sprint 1.1: Old~~\n\n### Sprint 1.1: New\n**Tasks**: x\n")
    (warning,) = plan.warnings
    assert (warning.code, warning.line) == (Code.DUPLICATE_ID, 1)
    assert "line 3" in warning.message


# --- one fault, one advice ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "**Dev Agents**:\n- x (gpt-4)\n**Tasks**: x\n",
        "**QA Agents**:\n- x (gpt-4)\n**Tasks**: x\n",
        "**Priority**: 9\n**Tasks**: x\n",
    ],
)
def test_a_value_that_cannot_be_read_is_not_missing_too(body: str) -> None:
    bare = "---\nsource_branch: main\ndev_agents: [claude]\nqa_agents: [claude]\n---\n"
    for front in (DEFAULTS, bare.replace("dev_agents: [claude]\n", "").replace("qa_agents: [claude]\n", "")):
        extra = "" if front == DEFAULTS else "**Dev Agents**: claude\n" * ("Dev" not in body)
        extra += "" if front == DEFAULTS else "**QA Agents**: claude\n" * ("QA" not in body)
        built = compiled(f"{front}### Sprint 1.1: A\n{extra}{body}")
        assert [fault.code for fault in built.all_faults] == [Code.PLAN_PATTERN]


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("---\na: [\n---\n" + section("1.1"), "YAML"),
        (DEFAULTS + section("1.1") + "### Sprint 1.1: B\n**Tasks**: x\n", "number"),
        (DEFAULTS + "### Sprint 1.1: A\n**Dev Agents**:\n- x (gpt-4)\n**Tasks**: x\n", "PROGRAM:MODEL"),
        (DEFAULTS + section("1.1") + "### Sprint 1.2 B\n", "### Sprint 1.2: B"),
        (DEFAULTS + section("1.1") + "### Sprint 1.2:B\n", "### Sprint 1.2: B"),
        (DEFAULTS + "### Sprint 1.1: A\n**Tasks**: x\n**Team**: a\n**Team**: b\n", "**Team**"),
    ],
)
def test_the_advice_is_the_cure_of_that_fault(text: str, cure: str) -> None:
    faults = compiled(text).all_faults
    assert any(cure in fault.remedy for fault in faults), [fault.remedy for fault in faults]
    assert all(fault.suggested_action for fault in faults)


def test_every_field_that_could_not_be_read_is_known() -> None:
    sprint: Sprint = sprint_plan("**Priority**: 9\n**Type**: x\n**Tasks**: x\n").sprints[0]
    assert sprint.unread == {"priority", "type"}
