"""Prompt templates: which one a piece of work gets, and that its developer is told it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph import prompts
from beads_ralph.bead.model import TemplateName
from beads_ralph.journal.records.model import RunRecord
from tests.cli.running import ralph
from tests.compile.plans import only, plan, sprint
from tests.loop.plans import Project

CHOSEN = {
    "Fix the crash on empty input": "bug-fix",
    "Login is broken": "bug-fix",
    "Document the fix": "docs",
    "Add a bug-report form": "feature",
    "Implement search": "feature",
    "Build the payment page": "feature",
    "Refactor the parser": "refactor",
    "Rename `Cart` to `Basket`": "refactor",
    "Write the README": "docs",
    "Write a script that renames files": "script",
    "Review the security of the login": "code-review",
    "Polish the error messages": "refine",
    "Data model": "custom",
    "Prefixes and suffixes": "custom",
    "Übersicht": "custom",
}


@pytest.mark.parametrize("title", CHOSEN)
def test_the_words_of_a_title_choose_the_template(title: str) -> None:
    assert prompts.template_for(title) == CHOSEN[title]


def test_the_tasks_decide_where_the_title_does_not_in_their_order() -> None:
    assert prompts.template_for("Data model", ["Look at it", "Fix the key", "Document it"]) == "bug-fix"
    assert prompts.template_for("Docs", ["Fix the key"]) == "docs"
    assert prompts.template_for("Data model", ["Look at it"]) == "custom"


@pytest.mark.parametrize("name", prompts.TEMPLATES)
def test_every_template_is_there_and_is_a_short_list_of_rules(name: TemplateName) -> None:
    text = prompts.guidance(name)
    assert "\n1. " in text
    assert max(map(len, text.split("\n"))) <= 120
    assert not any(mark in text for mark in ("{{", "```", "\n#"))


def test_a_plan_names_its_template_and_the_default_is_for_the_others() -> None:
    named = only(plan(sprint("1.1", "Fix it", template="`refactor`")))
    assert named.metadata.template == "refactor"
    assert only(plan(sprint("1.1", "Fix it"))).metadata.template is None
    by_default = "---\nsource_branch: main\ntemplate: docs\ndev_agents: [a]\nqa_agents: [b]\n---\n"
    assert only(by_default + plan(sprint("1.1", "Fix it"), front_matter="")).metadata.template == "docs"


def test_an_unknown_template_is_a_fault_that_names_the_one_that_was_meant(repo: Path) -> None:
    (repo / "plan.md").write_text(plan(sprint("1.1", "One", template="bugfix")), encoding="utf-8")
    ran = ralph("plan", "check", "plan.md", "--json", cwd=repo)
    assert ran.code == 1
    assert "template 'bugfix' is not one of bug-fix, feature" in ran.out
    assert "did you mean bug-fix?" in ran.out


def test_s4_r17_the_developer_is_told_it_and_the_record_names_it(repo: Path) -> None:
    project = Project.make(
        repo, sprint("1.1", "Fix it"), sprint("1.2", "Fix that", template="docs"), sprint("1.3", "Odd")
    )
    assert project.run().code == 0
    found = {}
    for path in sorted((repo / "state" / "runs").glob("*.json")):
        run = RunRecord.model_validate(json.loads(path.read_text(encoding="utf-8")))
        [told] = [name for name in prompts.TEMPLATES if prompts.guidance(name) in run.prompt_full]
        assert told == run.template_name
        found[run.bead] = told
    assert found == {"bd-1-1-fix-it": "bug-fix", "bd-1-2-fix-that": "docs", "bd-1-3-odd": "custom"}
