"""What the alchemist infers: variables a person would choose, and nothing that was not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.compile.plans import plan, sprint
from tests.formula.plans import SETTING, endpoint, made

THREE = plan(endpoint("2.1", "users"), endpoint("2.2", "orders"), endpoint("3.1", "bills"))

APART = plan(
    sprint("2.1", "Search", tasks=["Read every note", "Document it"]),
    sprint("2.2", "Basket", tasks=["Add prices up", "Document it"]),
    sprint("3.1", "Bills", tasks=["Send one a month", "Document it"]),
)
"""Three that have little in common but their form."""


def variables(text: str, *groups: str) -> dict[str, Any]:
    found = made(text, *groups).formula["vars"]
    assert isinstance(found, dict)
    return found


def step(text: str, *groups: str) -> dict[str, Any]:
    found = made(text, *groups).formula["steps"][0]
    assert isinstance(found, dict)
    return found


def test_the_names_of_a_sprint_follow_from_its_number_and_title() -> None:
    found = step(APART, "2.1", "2.2", "3.1")
    assert found["id"] == "work"
    assert found["bead_id"] == "bd-{{sprint_slug}}-{{name}}"
    assert found["title"] == "{{title}}"
    assert found["labels"] == ["phase-{{phase_number}}", "sprint-{{sprint_slug}}"]
    metadata = found["metadata"]
    assert metadata["branch"] == "feature/{{sprint_slug}}-{{name}}"
    assert metadata["team_name"] == "sprint-{{sprint_slug}}-{{name}}"
    assert metadata["scrum_master_agent"]["context"] == "Sprint {{sprint_id}} - {{title}}"
    assert metadata["plan_section"] == "### Sprint {{sprint_id}}: {{title}}"
    assert (metadata["phase"], metadata["sprint"]) == ("{{phase}}", "{{sprint_id}}")
    known = variables(APART, "2.1", "2.2", "3.1")
    assert known["sprint_id"]["pattern"] == r"^\d+[a-z]*\.\d+[a-z]*$"
    assert known["sprint_slug"]["derive"] == "dashed(sprint_id)"
    assert known["name"]["derive"] == "slug(title)"
    assert all(said["description"] for said in known.values())


def test_what_belongs_to_the_machine_or_to_the_moment_is_not_in_the_formula() -> None:
    found = step(THREE, "2.1", "2.2")
    assert "worktree_path" not in found["metadata"]
    assert not {"created_at", "updated_at", "status"} & set(found)
    assert not {"attempt_count", "pr_url", "branches_to_merge"} & set(found["metadata"])


def test_a_worktree_of_its_own_is_said_from_the_root() -> None:
    text = plan(
        endpoint("2.1", "users", worktree="../elsewhere/users-endpoint"),
        endpoint("2.2", "orders", worktree="../elsewhere/orders-endpoint"),
    )
    assert step(text, "2.1", "2.2")["metadata"]["worktree_path"] == "../elsewhere/{{resource}}-endpoint"


def test_a_phase_that_all_share_is_bound_to_the_number_all_the_same() -> None:
    """A formula made in phase 2 must be good for phase 7."""
    found = step(THREE, "2.1", "2.2")
    assert found["metadata"]["phase"] == "{{phase}}"
    assert found["labels"][0] == "phase-{{phase_number}}"


def test_what_is_poured_later_is_no_sprint_of_the_plan() -> None:
    known = variables(THREE, "2.1", "2.2")
    assert known["plan_file"]["default"] == ".beads/formulas/work.formula.toml"
    assert {row["plan_file"] for row in made(THREE, "2.1", "2.2").rows} == {"plans/shop.md"}


def test_a_heading_with_markup_need_not_be_given_again() -> None:
    text = plan(endpoint("2.1", "`users`"), endpoint("2.2", "`x`"))
    found = made(text, "2.1", "2.2")
    assert found.formula["vars"]["plan_section"]["default"] == "work"
    assert [row["plan_section"] for row in found.rows] == [
        "### Sprint 2.1: `users` endpoint",
        "### Sprint 2.2: `x` endpoint",
    ]


def test_dependencies_become_a_list_that_may_be_empty() -> None:
    found = made(THREE, "2.1", "2.2", "3.1")
    assert found.formula["steps"][0]["after"] == ["{{after}}"]
    assert found.formula["vars"]["after"] | {"description": ""} == {
        "description": "",
        "type": "list",
        "default": "",
    }
    assert [row["after"] for row in found.rows] == [[], ["bd-2-1-users-endpoint"], ["bd-2-2-orders-endpoint"]]


def test_tasks_that_stay_stay_and_the_one_that_varies_is_a_variable() -> None:
    assert step(APART, "2.1", "2.2", "3.1")["metadata"]["dev_prompts"] == ["{{task}}", "Document it"]
    assert step(APART, "2.1", "2.2", "3.1")["description"] == "{{task}}. Document it."


def test_tasks_of_different_number_are_a_list_and_the_description_follows() -> None:
    text = plan(sprint("1.1", "A", tasks=["Do x", "Do y."]), sprint("1.2", "B", tasks=["Do z"]))
    found = made(text, "1.1", "1.2")
    assert found.formula["steps"][0]["metadata"]["dev_prompts"] == ["{{tasks}}"]
    assert found.formula["steps"][0]["description"] == "{{tasks_prose}}"
    assert found.formula["vars"]["tasks_prose"]["derive"] == "sentences(tasks)"
    assert [row["tasks"] for row in found.rows] == [["Do x", "Do y."], ["Do z"]]


def test_labels_of_an_own_are_added_as_a_list() -> None:
    text = plan(endpoint("1.1", "users", labels="api"), endpoint("1.2", "bills", labels="api, money, late"))
    found = made(text, "1.1", "1.2")
    assert found.formula["steps"][0]["labels"][-2:] == ["api", "{{labels}}"]
    assert [row["labels"] for row in found.rows] == [[], ["money", "late"]]


def test_agents_and_models_that_vary_are_called_by_name() -> None:
    text = plan(
        endpoint("1.1", "users", dev_agents="python-dev (opus)"),
        endpoint("1.2", "bills", dev_agents="go-dev (sonnet)"),
        endpoint("1.3", "orders", dev_agents="go-dev (sonnet)"),
    )
    found = made(text, "1.1", "1.2", "1.3", setting=replace(SETTING, agent_check=False))
    (dev,) = found.formula["steps"][0]["metadata"]["dev_agents"]
    assert dev["agent"] == ".claude/agents/{{dev_agent}}.md"
    assert dev["model"] == "{{dev_model}}"
    known = found.formula["vars"]
    assert known["dev_model"]["enum"] == ["haiku", "sonnet", "opus"]
    assert known["dev_model"]["default"] == "sonnet"
    assert known["dev_agent"]["default"] == "go-dev"
    assert "enum" not in known["dev_agent"], "two of three is not a closed list"


def test_a_priority_that_varies_is_a_number() -> None:
    text = plan(endpoint("1.1", "users", priority="0"), endpoint("1.2", "bills"), endpoint("1.3", "x"))
    found = made(text, "1.1", "1.2", "1.3")
    assert found.formula["steps"][0]["priority"] == "{{priority}}"
    assert found.formula["vars"]["priority"]["type"] == "int"
    assert found.formula["vars"]["priority"]["enum"] == ["0", "1", "2", "3", "4"]
    assert [row["priority"] for row in found.rows] == [0, 1, 1]


def test_titles_and_prose_get_neither_patterns_nor_lists() -> None:
    text = plan(
        *(
            sprint(f"1.{n}", f"do-{n % 2}", tasks=[f"task-{n % 2}", "x"], bead_name=f"n{n}")
            for n in range(1, 7)
        )
    )
    known = variables(text, *(f"1.{n}" for n in range(1, 7)))
    assert not {"pattern", "enum", "default"} & (set(known["title"]) | set(known["task"]))


def test_a_text_with_braces_is_never_taken_for_a_variable() -> None:
    text = plan(*(sprint(n, f"T{n[-1]}", tasks=["Render {{title}}", f"do {n}"]) for n in ("1.1", "1.2")))
    found = made(text, "1.1", "1.2")
    assert found.formula["steps"][0]["metadata"]["dev_prompts"] == ["{{task}}", "do {{sprint_id}}"]
    assert found.formula["vars"]["task"]["default"] == "Render {{title}}"


PHASES = plan(
    *(
        text
        for phase, thing in (("2", "users"), ("3", "bills"))
        for text in (
            sprint(f"{phase}.1", f"Build {thing}", tasks=[f"Write {thing}"]),
            sprint(f"{phase}.2", "Check", tasks=["Test all"]),
        )
    )
)


def test_whole_phases_need_their_number_alone() -> None:
    found = made(PHASES, "2.1+2.2", "3.1+3.2").formula
    first, second = found["steps"]
    assert (first["id"], second["id"]) == ("work", "check")
    assert (first["metadata"]["sprint"], second["metadata"]["sprint"]) == ("{{phase}}.1", "{{phase}}.2")
    assert (first["bead_id"], second["bead_id"]) == (
        "bd-{{phase}}-1-build-{{subject}}",
        "bd-{{phase}}-2-check",
    )
    assert second["needs"] == ["work"]
    assert "after" not in second
    assert "sprint_id" not in found["vars"]
    assert found["vars"]["phase"]["default"] == "4", "the phase after the last one"
    assert [name for name, said in found["vars"].items() if said.get("required")] == ["subject"]


def test_groups_that_lie_elsewhere_name_each_sprint() -> None:
    text = plan(*(sprint(f"1.{n}", f"Part {n}", tasks=[f"do {n}"]) for n in range(1, 5)))
    found = made(text, "1.1+1.2", "1.3+1.4").formula
    assert [one["metadata"]["sprint"] for one in found["steps"]] == [
        "{{work_1_sprint_id}}",
        "{{work_2_sprint_id}}",
    ]
    assert {"work_1_title", "work_2_title"} <= set(found["vars"])


def test_one_sprint_alone_makes_a_formula_of_its_names() -> None:
    found = made(THREE, "2.1")
    assert found.formula["steps"][0]["bead_id"] == "bd-{{sprint_slug}}-{{name}}"
    assert set(found.rows[0]) == {"sprint_id", "title", "tasks", "plan_file"}


@pytest.mark.parametrize("name", ["{{version}}", "a b"])
def test_the_description_of_the_formula_holds_no_variable(name: str) -> None:
    found = made(THREE, "2.1", "2.2", setting=replace(SETTING, plan_file=f"plans/{name}.md")).formula
    assert "{{" not in found["description"]


# --- names inside of texts --------------------------------------------------------------------------


def several(number: str, thing: str, port: int) -> str:
    """An endpoint whose name is spelt in many ways, as people do."""
    words = thing.split()
    camel = "".join(word.capitalize() for word in words)
    tasks = (
        f"Serve GET /{'-'.join(words)} in api/{'_'.join(words)}.py on port {port}",
        f"Class {camel}Handler reads {'_'.join(words).upper()}_TABLE",
        f"Document {thing}",
    )
    check = f"`pytest tests/test_{'_'.join(words)}.py`"
    return sprint(number, f"{thing.capitalize()} endpoint", tasks=tasks, verify=check)


SPELT = plan(
    several("2.1", "users", 8001), several("2.2", "order items", 8002), several("2.3", "bills", 8003)
)


def test_one_name_in_many_spellings_is_one_variable() -> None:
    found = made(SPELT, "2.1", "2.2", "2.3")
    needed = {name for name, said in found.formula["vars"].items() if said.get("required")}
    assert needed == {"resource", "number"}, "the name, and the port"
    assert [row["resource"] for row in found.rows] == ["users", "order_items", "bills"]
    said = found.formula["steps"][0]
    assert said["title"] == "{{resource_sentence_case}} endpoint"
    assert (
        said["metadata"]["dev_prompts"][1]
        == "Class {{resource_pascal}}Handler reads {{resource_constant}}_TABLE"
    )
    assert said["metadata"]["dod"]["verifiers"][0]["command"] == "pytest tests/test_{{resource}}.py"


def test_three_endpoints_need_one_variable_and_one_more_needs_it_alone() -> None:
    found = made(THREE, "2.1", "2.2", "3.1")
    assert [name for name, said in found.formula["vars"].items() if said.get("required")] == ["resource"]
    assert found.formula["vars"]["sprint_id"]["default"] == "3.2", "the number after the last one"
    assert found.formula["steps"][0]["metadata"]["dev_prompts"] == [
        "Write {{resource}}/model.py",
        "Document it",
    ]


def test_singular_and_plural_are_one_variable() -> None:
    text = plan(
        *(
            sprint(
                f"1.{at}",
                f"{one.capitalize()}s endpoint",
                tasks=[f"Add class {one.capitalize()}", f"Serve /{one}s"],
            )
            for at, one in enumerate(("user", "order", "bill"), 1)
        )
    )
    found = made(text, "1.1", "1.2", "1.3").formula
    assert [name for name, said in found["vars"].items() if said.get("required")] == ["resource"]
