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
SHIPPED = (
    *("bug-fix", "dependency-upgrade", "docs", "feature", "migration"),
    *("refactoring", "release", "security-review"),
)


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
        {"fix": written({"tests/test_half.py": HALF_TEST, "halves.py": MENDED}, "mend the half")},
        files={"halves.py": "n // 2", "tests/test_half.py": "half(4)"},
    ),
    Case(
        "refactoring",
        {"title": "Halves", "goal": "one name for the divisor", "test_command": TESTS},
        {"refactor": written({"halves.py": f"THREE = 3\n{BROKEN.replace('// 3', '// THREE')}"}, "name it")},
        files={"halves.py": "THREE = 3"},
    ),
    Case(
        "dependency-upgrade",
        {
            "dependency": "fractions-lib",
            "version": "2.0",
            "manifest": "requirements.txt",
            "test_command": TESTS,
        },
        {"upgrade": written({"requirements.txt": "fractions-lib==2.0\n"}, "upgrade")},
        files={"requirements.txt": "2.0"},
    ),
    Case(
        "migration",
        {
            "title": "From // to divmod",
            "goal": "divmod says what is left, too",
            "old": "n // [0-9]",
            "scope": "halves.py",
            "test_command": TESTS,
        },
        {
            "introduce": written({"parts.py": "def whole(n, d):\n    return divmod(n, d)[0]\n"}, "parts"),
            "move": written(
                {"halves.py": "from parts import whole\n\n\ndef half(n):\n    return whole(n, 2)\n"}, "move"
            ),
        },
        files={"halves.py": "whole(n, 2)"},
    ),
    Case(
        "docs",
        {"title": "Halves", "audience": "those who halve", "page": "docs/halves.md", "code": "halves.py"},
        {"write": written({"docs/halves.md": "# Halves\n\nhalf(4) is 1.\n"}, "a page")},
        files={"docs/halves.md": "half(4)"},
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


def prepared(root: Path, store: str, case: Case, **settings: Any) -> Project:
    """A repository with a broken function, the shipped personas, and the scripted agent behind them all."""
    (root / "halves.py").write_text(BROKEN, encoding="utf-8")
    (root / "requirements.txt").write_text("fractions-lib==1.0\n", encoding="utf-8")
    (root / "tests").mkdir()
    (root / "tests" / "__init__.py").touch()
    (root / "tests" / "test_sound.py").write_text(SOUND, encoding="utf-8")
    script: dict[str, Any] = {f"*-{step}": {"dev": steps} for step, steps in case.dev.items()}
    project = Project.make(
        root,
        script=script,
        store=store,
        agent_defaults={"default_executable": "scripted"},
        **settings,
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


OVER_BD = ("bug-fix", "feature", "release", "security-review")
"""Worked through over bd, too; the others are poured there."""
EVERYWHERE = [
    *(("embedded", case) for case in CASES),
    *(("bd", case) for case in CASES if case.formula in OVER_BD),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("store", "case"),
    [
        pytest.param(
            store, case, marks=[pytest.mark.bd] if store == "bd" else [], id=f"{store}-{case.formula}"
        )
        for store, case in EVERYWHERE
    ],
)
def test_a_shipped_formula_is_poured_and_worked_through(
    repo: Path, store: str, case: Case, request: pytest.FixtureRequest
) -> None:
    if store == "bd":
        request.getfixturevalue("bd_repo")
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


WRONG_NAME = HALF_TEST.replace("half(4)", "hlaf(4)")
EMPTY = HALF_TEST.replace("self.assertEqual(half(4), 2)", "pass")


@pytest.mark.parametrize(
    ("lie", "said"), [(WRONG_NAME, "by an error"), (EMPTY, "it passes without the change")]
)
def test_a_bug_fix_cannot_be_had_by_a_test_that_shows_nothing(repo: Path, lie: str, said: str) -> None:
    """A misspelt name as the reproduction, or a test that tests nothing: neither closes a bead."""
    reproduce = written({"tests/test_half.py": WRONG_NAME}, "show the bug")
    mend = written({"tests/test_half.py": lie, "halves.py": f"# mended\n{BROKEN}"}, "mend it")
    values = {
        "title": "Half of four",
        "symptom": "half(4) gives 1",
        "test_file": "tests/test_half.py",
        "reproduction": "python3 -m unittest tests.test_half",
        "test_command": "true",
    }
    case = Case("bug-fix", values, {"reproduce": reproduce, "fix": [*reproduce, *mend]})
    project = prepared(repo, "embedded", case, max_retry_attempts=1)
    (root,) = poured(project, case).data["molecules_created"]
    ran = project.ralph("run", "--json", env=rehearsing(project))
    assert (ran.data["ended"], ran.data["closed"], ran.data["pull_requests"]) == ("blocked", [], []), ran.out
    assert set(project.statuses().values()) == {"blocked"}
    files = project.ralph("logs", f"{root}-fix", "--json").data["files"]
    assert any(said in Path(file).read_text("utf-8") for file in files if file.endswith(".out")), files


@pytest.mark.full
@pytest.mark.bd
def test_every_shipped_formula_is_poured_on_bd(bd_repo: Path) -> None:
    project = prepared(bd_repo, "bd", CASES[0])
    answers = {case.formula: poured(project, case) for case in CASES}
    assert {name: answer.code for name, answer in answers.items()} == dict.fromkeys(SHIPPED, 0)
    assert len(project.statuses()) == sum(len(case.dev) for case in CASES)
