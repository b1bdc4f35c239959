"""The formulas that ship: sound, poured on both stores, worked through to the end by the scripted agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.query import ItemQuery
from tests.cli.running import Ran
from tests.loop.plans import Project, Steps, git, passes

TESTS = "python3 -m unittest discover --start-directory tests --top-level-directory ."
SHIPPED = ("bug-fix", "feature", "release", "security-review")


def written(files: dict[str, str], message: str) -> Steps:
    return [{"write": files}, {"commit": message}]


BROKEN = "def half(n):\n    return n // 3\n"
MENDED = "def half(n):\n    return n // 2\n"
HALF_TEST = """\
import unittest
from halves import half


class HalfTest(unittest.TestCase):
    def test_half_of_four(self):
        self.assertEqual(half(4), 2)
"""
SOUND = """\
import unittest


class SoundTest(unittest.TestCase):
    def test_it(self):
        self.assertEqual(1 + 1, 2)
"""


@dataclass(frozen=True)
class Case:
    """One formula with values, what the agents do in each step, and what people are asked for."""

    formula: str
    values: dict[str, str]
    dev: dict[str, Steps]
    """Step → what its developer does."""
    gates: tuple[str, ...] = ()
    """What a person lets pass, in order; the end of an id each."""
    tasks: tuple[str, ...] = ()
    """What a person does after the agents."""
    files: dict[str, str] = field(default_factory=dict)
    """What the last step's branch holds at the end."""


CASES = [
    Case(
        "feature",
        {
            "title": "Halves",
            "goal": "half(n) gives the half",
            "tasks": "Write halves.py",
            "test_command": TESTS,
        },
        {
            "build": written({"halves.py": MENDED, "tests/test_half.py": HALF_TEST}, "halves"),
            "document": written({"docs/halves.md": "# Halves\n\nhalf(4) is 2.\n"}, "describe halves"),
        },
        files={"docs/halves.md": "half(4) is 2", "halves.py": "n // 2"},
    ),
    Case(
        "bug-fix",
        {
            "title": "Half of four is one",
            "symptom": "half(4) gives 1 and should give 2",
            "test_file": "tests/test_half.py",
            "reproduction": "python3 -m unittest tests.test_half",
            "test_command": TESTS,
        },
        {
            "reproduce": written({"tests/test_half.py": HALF_TEST}, "show the bug"),
            "fix": written({"halves.py": MENDED}, "mend the half"),
        },
        files={"halves.py": "n // 2", "tests/test_half.py": "half(4)"},
    ),
    Case(
        "release",
        {"version": "1.4.0", "test_command": TESTS, "version_file": "version.txt"},
        {
            "rehearse": written({"docs/releases/1.4.0.md": "rehearsed\n"}, "rehearse"),
            "notes": written({"CHANGELOG.md": "# 1.4.0\n\nHalves are halves.\n"}, "notes"),
            "version": written({"version.txt": "1.4.0\n"}, "set the version"),
        },
        gates=("-gate-rehearse", "-gate-version"),
        tasks=("-publish",),
        files={"version.txt": "1.4.0", "CHANGELOG.md": "1.4.0", "docs/releases/1.4.0.md": "rehearsed"},
    ),
    Case(
        "security-review",
        {"title": "Halves", "scope": "halves.py", "test_command": TESTS},
        {
            "threats": written({"docs/security-review.md": "# Threats\n\nnone\n"}, "threats"),
            "audit": [{"append": {"docs/security-review.md": "# Findings\n\nnone\n"}}, {"commit": "audit"}],
            "mend": [{"append": {"docs/security-review.md": "# Mended\n\nnothing\n"}}, {"commit": "mend"}],
        },
        tasks=("-accept",),
        files={"docs/security-review.md": "# Mended"},
    ),
]


def prepared(root: Path, store: str, case: Case) -> Project:
    """A repository with a broken function, the shipped personas, and the scripted agent behind them all."""
    (root / "halves.py").write_text(BROKEN, encoding="utf-8")
    (root / "tests").mkdir()
    (root / "tests" / "__init__.py").touch()
    (root / "tests" / "test_sound.py").write_text(SOUND, encoding="utf-8")
    script: dict[str, Any] = {f"*-{step}": {"dev": steps} for step, steps in case.dev.items()}
    project = Project.make(
        root,
        script=script,
        store=store,
        agent_defaults={"default_executable": "scripted"},
    )
    project.write_script({**script, "*": {"qa": passes()}})
    assert project.ralph("init", "--store", store).code == 0
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "set up")
    return project


def rehearsing(project: Project) -> dict[str, str]:
    return {"BEADS_RALPH_SCRIPT": str(project.script)}


def poured(project: Project, case: Case) -> Ran:
    given = [f"--var={name}={value}" for name, value in case.values.items()]
    return project.ralph("pour", case.formula, *given, "--json")


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_formula_is_sound(repo: Path, name: str) -> None:
    checked = Project(repo).ralph("formula", "check", name, "--json")
    assert checked.code == 0, checked.out
    (row,) = checked.data["formulas"]
    assert (row["place"], row["valid"], row["warnings"]) == ("shipped", True, [])


def test_the_list_shows_exactly_the_shipped_formulas(repo: Path) -> None:
    rows = Project(repo).ralph("formula", "list", "--json").data["formulas"]
    assert [row["name"] for row in rows if row["place"] == "shipped"] == sorted(SHIPPED)


@pytest.fixture(params=["embedded", pytest.param("bd", marks=[pytest.mark.bd])])
def store(request: pytest.FixtureRequest) -> str:
    """The kind of the store; where it is bd, `repo` has a database."""
    if request.param == "bd":
        request.getfixturevalue("bd_repo")
    return str(request.param)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.formula)
def test_a_shipped_formula_is_poured_and_worked_through(repo: Path, store: str, case: Case) -> None:
    project = prepared(repo, store, case)
    answer = poured(project, case)
    assert answer.code == 0, answer.out
    (root,) = answer.data["molecules_created"]
    for gate in case.gates:
        ran = project.ralph("run", "--json", env=rehearsing(project))
        assert (ran.code, root + gate in ran.data["reason"]) == (1, True), ran.out
        assert project.ralph("close", root + gate, "--reason", "go").code == 0
    ran = project.ralph("run", "--json", env=rehearsing(project))
    expected = (6, "for_people") if case.tasks else (0, "done")
    assert (ran.code, ran.data["ended"]) == expected, ran.out
    assert [row["id"] for row in ran.data["left_for_people"]] == [root + name for name in case.tasks]
    for name in case.tasks:
        assert project.ralph("close", root + name).code == 0
    assert set(project.statuses().values()) == {"closed"}, project.statuses()
    assert project.store.items.find(ItemQuery(statuses=["open"])) == [], (
        "the molecule closes with its last step"
    )
    last = project.bead(f"{root}-{list(case.dev)[-1]}").metadata.branch
    for path, text in case.files.items():
        assert text in git(repo, "show", f"{last}:{path}")
