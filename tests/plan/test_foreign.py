"""Plans of other tools become plans that pass the check, with every piece of work in them once, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.plan import foreign
from tests.cli.running import ralph

RALPHEX = """\
# Add a timeout

## Overview
Sessions hang. See `### Task 9: not this`.

## Validation Commands
- `go test ./...`
- Lint: `golangci-lint run`

## Implementation Steps

### Task 1: Settings

**Files:**
- Modify: `pkg/values.go`

- [x] add `Timeout` to the values
- [X] write tests

### Task 2 - Runner

Mind the parent.

```go
### Task 3: in a code block
- [ ] this one too
```

- [ ] stop the session
  - also its children
- [x] log a warning

### Iteration 3:

- [ ] move this plan

## Post-Completion
- [ ] tell everybody
"""


def story(key: str, **said: Any) -> dict[str, Any]:
    return {
        "id": key,
        "title": f"Do {key}",
        "description": f"As a user I want {key}",
        "passes": False,
        **said,
    }


def prd(*stories: dict[str, Any], **head: Any) -> str:
    return json.dumps({"project": "Shop", "branchName": "ralph/shop", "userStories": stories, **head})


def numbers(text: str) -> dict[str, str]:
    return {one.key: one.number for one in foreign.convert(text, "prd.json").stories}


@pytest.fixture
def shop(repo: Path, with_claude: None) -> Path:
    assert ralph("init", "--no-checks", cwd=repo).code == 0
    return repo


def imported(root: Path, name: str, text: str) -> dict[str, Any]:
    (root / name).write_text(text, encoding="utf-8")
    data = ralph("plan", "import", name, "--json", cwd=root).data
    checked = ralph("plan", "check", "plan.md", "--json", cwd=root)
    assert checked.data["sprints"] == len(data["sprints"])
    return data


def test_a_ralphex_plan_passes_the_check_and_its_done_tasks_can_be_adopted(shop: Path) -> None:
    data = imported(shop, "timeout.md", RALPHEX)
    assert [(one["sprint"], one["title"]) for one in data["sprints"]] == [
        ("1.1", "Settings"),
        ("1.2", "Runner"),
        ("1.3", "Task 3"),
    ]
    assert (data["done"], data["verify"]) == (["1.1"], ["go test ./...", "golangci-lint run"])
    assert ralph("mason", "plan.md", "--adopt", "--json", cwd=shop).code == 0
    rows = ralph("list", "--json", cwd=shop).data["beads"]
    assert sorted((row["title"], row["status"]) for row in rows) == [
        ("Runner", "open"),
        ("Settings", "closed"),
        ("Task 3", "open"),
    ]


def test_boxes_are_tasks_and_everything_else_describes_the_work(shop: Path) -> None:
    imported(shop, "timeout.md", RALPHEX)
    beads = {
        bead["title"]: bead
        for bead in ralph("mason", "plan.md", "--dry-run", "--json", cwd=shop).data["beads"]
    }
    prompts = beads["Runner"]["metadata"]["dev_prompts"]
    assert prompts == ["stop the session\n- also its children", "log a warning"]
    for text in ("Mind the parent.", "Task 3: in a code block", "timeout.md"):
        assert text in beads["Runner"]["description"]
    assert "pkg/values.go" in beads["Settings"]["description"]


def test_stories_come_by_priority_one_after_the_other(shop: Path) -> None:
    text = prd(
        story(
            "US-2", priority=2, acceptanceCriteria=["# of rows is right", "Tests pass"], notes="Mind dates"
        ),
        story("US-1", priority=1, passes=True),
    )
    data = imported(shop, "prd.json", text)
    assert [(one["was"], one["sprint"]) for one in data["sprints"]] == [("US-1", "1.1"), ("US-2", "1.2")]
    assert data["done"] == ["1.1"]
    written = (shop / "plan.md").read_text("utf-8")
    assert "**Acceptance Criteria**:\n- \\# of rows is right\n- Tests pass" in written
    assert "Mind dates" in written


def test_stories_that_say_what_they_need_run_side_by_side_where_they_can(shop: Path) -> None:
    needs = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    text = prd(*(story(key, dependsOn=rest) for key, rest in needs.items()))
    assert numbers(text) == {"a": "1.1", "b": "1.2a", "c": "1.2b", "d": "1.3"}
    imported(shop, "prd.json", text)
    waves = ralph("plan", "graph", "plan.md", "--format", "json", cwd=shop).out
    assert json.loads(waves)


def test_a_wave_wider_than_the_alphabet_goes_on_in_the_next() -> None:
    text = prd(story("first"), *(story(f"s{at}", dependsOn=["first"]) for at in range(30)))
    found = numbers(text)
    assert len(set(found.values())) == 31
    assert {found["s25"], found["s26"]} == {"1.2z", "1.3a"}


def test_a_plain_list_of_features_is_a_prd_too() -> None:
    text = json.dumps([{"description": "Log in", "steps": ["Open the page", "Sign in"], "passes": False}])
    assert "**Tasks**:\n- Open the page\n- Sign in" in foreign.convert(text, "features.json").text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Notes\n\nNo tasks.\n", "nothing to import was found"),
        ("{broken", "not JSON"),
        ('{"stories": []}', "userStories must be a list of objects"),
        ('{"userStories": [1]}', "userStories must be a list of objects"),
        ('{"userStories": []}', "nothing to import was found"),
        (prd({"id": "US-1"}), "story 1 has neither a title nor a description"),
        (prd(story("a", dependsOn=["z"])), "a story needs z, which is not there"),
        (
            prd(story("a", dependsOn=["b"]), story("b", dependsOn=["a"])),
            "these stories wait for one another: a, b",
        ),
    ],
)
def test_what_cannot_be_imported_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(RalphError, match=said) as refused:
        foreign.convert(text, "x")
    assert "### Task 1" in refused.value.suggested_action


def test_a_plan_that_is_there_is_not_replaced_unasked(repo: Path) -> None:
    (repo / "prd.json").write_text(prd(story("a")), encoding="utf-8")
    (repo / "plan.md").write_text("mine\n", encoding="utf-8")
    ran = ralph("plan", "import", "prd.json", cwd=repo)
    assert ran.code == 2
    assert "plan import prd.json --to plan.md --force" in ran.err
    assert (repo / "plan.md").read_text("utf-8") == "mine\n"
    assert ralph("plan", "import", "prd.json", "--force", cwd=repo).code == 0
