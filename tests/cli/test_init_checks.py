"""init finds the project's own checks, tries them where nothing is left behind, and writes what it saw."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.config import project_checks, read
from beads_ralph.config.project_checks import ProjectCheck
from beads_ralph.process.process_tree import Family
from beads_ralph.store.setup import CONFIG_TEXT
from tests.cli.running import ralph, tree, write

TEST = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(True)\n"


def commit(repo: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        write(repo / name, text)
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "more"]):
        subprocess.run(["git", *words], cwd=repo, check=True, timeout=60)


def theirs(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is the user's of a tree: all but what init makes."""
    ours = (".ralph", "rows of .ralph", "state", ".beads", "beads-ralph.yaml")
    return {name: kept for name, kept in found.items() if not name.startswith(ours)}


def verify(repo: Path) -> list[str] | None:
    """What plans get from the settings that were written."""
    found = read.load(repo)[0].plan.verify
    return None if found is None else [one.command for one in found]


# --- which there are ------------------------------------------------------------------------------------

ECOSYSTEMS: list[tuple[dict[str, str], list[str]]] = [
    ({}, []),
    ({"Makefile": "all:\n\ntest: all\n\tgo\n"}, ["make test"]),
    ({"Makefile": "test check: all\n\tgo\n"}, ["make test", "make check"]),
    ({"GNUmakefile": "check:\n", "Makefile": "test:\n"}, ["make check"]),
    ({"Makefile": "test := 1\n# test:\ntests:\n\ttest:\n"}, []),
    ({"justfile": "test *args:\n  go\n"}, ["just test"]),
    ({"justfile": "test := 'x'\n"}, []),
    ({"package.json": '{"scripts": {"test": "jest"}}'}, ["npm test"]),
    ({"package.json": '{"scripts": {"test": "jest"}}', "pnpm-lock.yaml": ""}, ["pnpm test"]),
    ({"package.json": '{"scripts": {"test": "jest"}}', "yarn.lock": ""}, ["yarn test"]),
    ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
    ({"package.json": '{"scripts": []}'}, []),
    ({"package.json": "{"}, []),
    ({"Cargo.toml": ""}, ["cargo test"]),
    ({"go.mod": ""}, ["go test ./..."]),
    ({"pom.xml": ""}, ["mvn -q test"]),
    ({"pom.xml": "", "mvnw": ""}, ["./mvnw -q test"]),
    ({"build.gradle.kts": "", "gradlew": ""}, ["./gradlew test"]),
    ({"build.gradle": ""}, ["gradle test"]),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ["python3 -m pytest -q"]),
    ({"setup.cfg": "[tool:pytest]\n"}, ["python3 -m pytest -q"]),
    ({"tests/conftest.py": "", "tests/test_a.py": TEST}, ["python3 -m pytest -q"]),
    ({"tests/test_a.py": "import pytest\n"}, ["python3 -m pytest -q"]),
    ({"tests/test_a.py": TEST}, ["python3 -m unittest discover -s tests"]),
    ({"test_a.py": TEST}, ["python3 -m unittest discover"]),
    ({"pyproject.toml": "[project]\n", "tests/data.py": ""}, []),
    ({"tox.ini": "[tox]\n"}, ["tox"]),
    ({"tox.ini": "[flake8]\n"}, []),
    ({"noxfile.py": ""}, ["nox"]),
]


@pytest.mark.parametrize(("files", "expected"), ECOSYSTEMS)
def test_the_checks_of_a_project_are_found_by_its_files(
    tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, text)
    found = project_checks.find(tmp_path)
    assert [check.command for check in found] == expected
    assert all((tmp_path / check.file).is_file() for check in found)


# --- whether they pass ----------------------------------------------------------------------------------


def test_what_passes_is_written_and_what_fails_is_commented_out(repo: Path) -> None:
    commit(repo, {"Makefile": "test:\n\ttest -f README.md\n\ncheck:\n\t@echo broken: $$((6 * 7)); exit 3\n"})
    ran = ralph("init", cwd=repo)
    assert ran.code == 0
    assert verify(repo) == ["make test"]
    text = (repo / "beads-ralph.yaml").read_text("utf-8")
    assert "    # - make check  # failed when init tried it: exit code 2: " in text
    assert "✓ make test (from Makefile) passes" in ran.out
    assert "! make check (from Makefile) fails: exit code 2" in ran.out
    assert "review alone" not in ran.out
    assert "trying make test (from Makefile)" in ran.err
    checked = ralph("plan", "check", write(repo / "plan.md", PLAN), "--json", cwd=repo).data
    assert checked["without_verifier"] == []


PLAN = "### Sprint 1.1: Start\n\n**Tasks**:\n- Do it\n"


def test_where_nothing_passes_closes_rest_on_review_alone_and_it_is_said(repo: Path) -> None:
    commit(repo, {"Makefile": "test:\n\tfalse\n"})
    ran = ralph("init", cwd=repo)
    assert verify(repo) is None
    assert "  #   - make test  # failed when init tried it" in (repo / "beads-ralph.yaml").read_text("utf-8")
    assert "closed on review alone" in ran.out


def test_where_nothing_is_found_it_is_said(repo: Path) -> None:
    ran = ralph("init", cwd=repo)
    assert verify(repo) is None
    assert "closed on review alone" in ran.out


def test_scripts_are_told_what_was_found(repo: Path) -> None:
    commit(repo, {"Makefile": "test:\n\ttrue\n\ncheck:\n\t@exit 1\n"})
    good, bad = ralph("init", "--json", cwd=repo).data["checks"]
    assert good == {"command": "make test", "file": "Makefile", "passed": True, "problem": None}
    assert (bad["command"], bad["passed"]) == ("make check", False)
    assert bad["problem"].startswith("exit code 2")


def test_a_check_that_checks_nothing_does_not_count(repo: Path) -> None:
    commit(repo, {"test_none.py": "import unittest\n"})
    (found,) = ralph("init", "--json", cwd=repo).data["checks"]
    assert (found["command"], found["passed"]) == ("python3 -m unittest discover", False)
    assert verify(repo) is None


def test_checks_see_the_last_commit_and_leave_nothing_behind(repo: Path, tmp_path: Path) -> None:
    """Neither files of the user's that git does not know, nor anything that a check makes or moves."""
    place = tmp_path / "place"
    rules = f"test:\n\tpwd > {place}\n\ttest ! -e secret\n\ttouch made\n\tgit commit -qm x --allow-empty\n"
    commit(repo, {"Makefile": rules, ".gitignore": "secret\nmade\n"})
    write(repo / "secret", "mine")
    before, head = tree(repo), subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repo, timeout=60)
    assert ralph("init", "--json", "--no-agents", cwd=repo).data["checks"][0]["passed"] is True
    made = {name: kept for name, kept in tree(repo).items() if name not in before}
    assert theirs(made) == {}
    assert {path: tree(repo)[path] for path in theirs(before)} == theirs(before)
    assert subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repo, timeout=60) == head
    assert not Path(place.read_text("utf-8").strip()).exists()


def test_a_check_that_does_not_end_is_ended_with_all_it_started(repo: Path) -> None:
    commit(repo, {"Makefile": "test:\n\tsetsid sleep 600 & sleep 600\n"})
    said: list[str] = []
    (found,) = project_checks.find_and_try(repo, said.append, seconds=2)
    assert (found.passed, found.problem) == (False, "not done after 2 s")
    assert said == ["trying make test (from Makefile), for 2 s at most"]


def test_a_check_cannot_leave_a_daemon(repo: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commit(repo, {"Makefile": f"test:\n\techo $$BEADS_RALPH_CHECK > {mark}\n\tsetsid sleep 600 >&- 2>&- &\n"})
    (found,) = project_checks.find_and_try(repo, lambda _: None)
    assert found.passed is True
    assert not Family(f"BEADS_RALPH_CHECK={mark.read_text('utf-8').strip()}").find()


# --- where nothing may be run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "env"), [(["--no-checks"], {}), ([], {"BEADS_RALPH_JOB": "a job"})], ids=["told", "agent"]
)
def test_nothing_is_run_when_told_so_or_for_an_agent(
    repo: Path, tmp_path: Path, words: list[str], env: dict[str, str]
) -> None:
    commit(repo, {"Makefile": f"test:\n\ttouch {tmp_path}/ran\n"})
    ran = ralph("init", *words, cwd=repo, env=env)
    assert not (tmp_path / "ran").exists()
    if ran.code == 0:
        assert verify(repo) is None
        assert "closed on review alone" in ran.out


def test_settings_that_are_there_are_kept_and_nothing_is_run(repo: Path, tmp_path: Path) -> None:
    commit(repo, {"Makefile": f"test:\n\ttouch {tmp_path}/ran\n", "beads-ralph.yaml": "store: embedded\n"})
    ran = ralph("init", cwd=repo)
    assert (repo / "beads-ralph.yaml").read_text("utf-8") == "store: embedded\n"
    assert "make test (from Makefile) was found, and not tried" in ran.out
    assert "closed on review alone" in ran.out
    assert not (tmp_path / "ran").exists()
    write(repo / "beads-ralph.yaml", "plan: {verify: [make test]}\n")
    assert "review alone" not in ralph("init", cwd=repo).out


def test_before_the_first_commit_checks_are_found_but_not_tried(tmp_path: Path) -> None:
    repo = tmp_path / "new"
    subprocess.run(["git", "init", "--quiet", repo], check=True, timeout=60)
    write(repo / "Makefile", "test:\n\ttouch ran\n")
    (found,) = ralph("init", "--json", cwd=repo).data["checks"]
    assert (found["command"], found["passed"]) == ("make test", None)
    assert not (repo / "ran").exists()
    assert "make test  # not tried" in (repo / "beads-ralph.yaml").read_text("utf-8")


# --- the settings that come of it -----------------------------------------------------------------------

COMMANDS = sorted({command for _, found in ECOSYSTEMS for command in found})
CHECKS = st.builds(
    ProjectCheck,
    command=st.sampled_from(COMMANDS),
    file=st.just("Makefile"),
    passed=st.sampled_from([True, False, None]),
    problem=st.text().map(project_checks.one_line),
)


@given(checks=st.lists(CHECKS, max_size=5))
def test_the_settings_say_exactly_what_passed_whatever_the_checks_print(checks: list[ProjectCheck]) -> None:
    verify = project_checks.settings_text(checks)
    text = CONFIG_TEXT.format(
        store="auto", rig='"shop"', source_branch='"main"', reviewer="qa", verify=verify
    )
    config, warnings = read.parse(text)
    assert not warnings
    said = [one.command for one in config.plan.verify or []]
    assert said == [check.command for check in checks if check.passed]
    assert yaml.safe_load(text)["plan"]["rig"] == "shop"
    json.dumps([check.to_json() for check in checks])
