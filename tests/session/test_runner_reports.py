"""Tests of a verifier are counted, and it has passed only if they came to their end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from beads_ralph.process.jobs import Transcript
from beads_ralph.session import runner_reports
from beads_ralph.session.runner_reports import Before, Tests, TestsRun
from tests.git.repos import git
from tests.loop.plans import Project, Steps, sprint
from tests.session.test_gate_files import commit

PRINTED: Mapping[str, tuple[str, str, tuple[int, int, int]]] = {
    "pytest": ("pytest", "=== 2 failed, 39 passed, 3 skipped, 1 warning in 1.23s ===\n", (41, 2, 3)),
    "quiet pytest": ("pytest", ".F\n1 failed, 1 passed, 1 error in 61.20s (0:01:01)\n", (3, 2, 0)),
    "nothing in pytest": ("pytest", "no tests ran in 0.01s\n", (0, 0, 0)),
    "pytest with expected failures": ("pytest", "= 3 passed, 1 xfailed, 2 deselected in 0.1s =\n", (4, 0, 0)),
    "unittest": ("unittest", "Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n", (3, 2, 0)),
    "skips of unittest": ("unittest", "Ran 3 tests in 0.001s\n\nOK (skipped=2)\n", (1, 0, 2)),
    "cargo": (
        "cargo",
        "test result: ok. 3 passed; 0 failed; 1 ignored\ntest result: FAILED. 1 passed; 2 failed; 0 ignored",
        (6, 2, 1),
    ),
    "nextest": ("nextest", "     Summary [   0.1s] 5 tests run: 4 passed, 1 failed, 2 skipped\n", (5, 1, 2)),
    "go": ("go", "ok  \ta/b\t0.012s\nok  \ta/c\t(cached)\n?   \ta/d\t[no test files]\n", (2, 0, 0)),
    "red go": ("go", "--- FAIL: TestX (0.00s)\nFAIL\nFAIL\ta/b\t0.012s\nFAIL\n", (1, 1, 0)),
    "jest": (
        "jest",
        "Tests:       1 failed, 2 skipped, 5 passed, 8 total\nSnapshots:   0 total\n",
        (6, 1, 2),
    ),
    "vitest": (
        "vitest",
        " Test Files  1 passed (1)\n      Tests  1 failed | 4 passed | 1 skipped (6)\n",
        (5, 1, 1),
    ),
    "mocha": ("mocha", "\n  3 passing (12ms)\n  1 pending\n  2 failing\n", (5, 2, 0)),
    "node": (
        "node",
        "# tests 4\n# suites 0\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n",
        (3, 1, 1),
    ),
    "rspec": ("rspec", "5 examples, 1 failure, 2 pending\n", (3, 1, 2)),
    "minitest": ("minitest", "5 runs, 9 assertions, 1 failures, 1 errors, 2 skips\n", (3, 2, 2)),
    "exunit": ("exunit", "5 tests, 1 failure, 1 skipped\n", (4, 1, 1)),
    "phpunit": ("phpunit", "OK (5 tests, 9 assertions)\n", (5, 0, 0)),
    "red phpunit": ("phpunit", "Tests: 5, Assertions: 9, Failures: 1, Skipped: 1.\n", (4, 1, 1)),
    "maven": ("surefire", "[INFO] Tests run: 5, Failures: 1, Errors: 1, Skipped: 2\n", (3, 2, 2)),
    "dotnet": (
        "dotnet",
        "Failed!  - Failed:     1, Passed:     3, Skipped:     1, Total:     5, Duration: 9 ms\n",
        (4, 1, 1),
    ),
    "ctest": ("ctest", "75% tests passed, 1 tests failed out of 4\n", (4, 1, 0)),
}


@pytest.mark.parametrize("case", PRINTED)
def test_the_summary_of_a_known_runner_is_understood(case: str) -> None:
    runner, text, numbers = PRINTED[case]
    found = runner_reports.printed(f"something before\n{text}")
    assert {name: (run.ran, run.failed, run.skipped) for name, run in found.items()} == {runner: numbers}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pytest\n",
        "5 passed\n",
        "it ran 3 tests in 2 s\n",
        "Tests: unit, end to end\n",
        "1..3\nok 1\n",
        "ok\n",
    ],
)
def test_what_only_looks_like_a_summary_is_none(text: str) -> None:
    assert runner_reports.printed(text) == {}


# --- whether it will do -------------------------------------------------------------------------------


def told(ran: int, failed: int = 0, skipped: int = 0, *, reported: bool = True) -> Tests:
    return {"pytest": TestsRun(ran, failed, skipped, reported)}


@pytest.mark.parametrize(
    ("now", "before", "words"),
    [
        ({}, Before(passed=True, tests=told(57)), "did not come to its end"),
        ({}, Before(passed=False, tests=told(57, 57)), "did not come to its end"),
        (
            {},
            Before(passed=True, tests=told(57)),
            "declares the files that name it in the plan: **May Change**",
        ),
        (
            {"jest": TestsRun(5)},
            Before(passed=True, tests=told(57)),
            "; jest ran instead. A sprint that changes",
        ),
        (told(57, reported=False), Before(passed=True, tests=told(57)), "wrote no report"),
        (told(57, 1), Before(passed=False, tests=told(57, 2)), "1 test of pytest failed"),
        (told(0, 0, 3), Before(passed=True, tests=told(3)), "ran nothing: 3 tests skipped"),
        (told(0), Before(passed=False, tests=told(0)), "ran nothing"),
        ({}, None, "did not come to its end"),
        (told(0), None, "ran nothing"),
    ],
)
def test_a_run_that_shows_nothing_has_not_passed(now: Tests, before: Before | None, words: str) -> None:
    assert words in runner_reports.problem("python3 -m pytest -q", now, before, asked=True)


@pytest.mark.parametrize(
    ("command", "now", "before"),
    [
        ("pytest", told(41), Before(passed=True, tests=told(57))),
        ("pytest", told(57), Before(passed=False, tests=told(57, 3))),
        ("pytest tests/new.py", told(3), Before(passed=False, tests=told(0))),
        ("pytest --collect-only", told(0), Before(passed=True, tests=told(0))),
        ("pytest --collect-only", told(0), None),
        ("pytest || true", told(3, 1), Before(passed=True, tests=told(3))),
        ("sh flaky.sh", told(3, 1), Before(passed=True, tests=told(3, 2))),
        ("echo pytest", {}, Before(passed=True, tests={})),
        ("echo pytest", {}, None),
        ("make test", {}, Before(passed=False, tests={})),
        ("PYTEST_ADDOPTS=-x pytest", {}, None),
        ("pytest --junitxml=out.xml", {}, None),
        ("pytest --version", {}, None),
        ("pytest -q", {}, Before(passed=True, tests={})),
        (
            "npm test && pytest",
            {**told(5), "jest": TestsRun(3)},
            Before(passed=False, tests={"jest": TestsRun(3, 1)}),
        ),
    ],
)
def test_nothing_is_demanded_that_was_not_there_before(
    command: str, now: Tests, before: Before | None
) -> None:
    assert runner_reports.problem(command, now, before, asked=True) == ""


def test_fewer_tests_than_before_are_told() -> None:
    assert runner_reports.fewer("checks", told(41), told(57)) == [
        "checks: 41 tests ran, 57 before the work began"
    ]
    assert not runner_reports.fewer("checks", told(57), told(41))


def test_what_a_bead_remembers_can_be_read_again() -> None:
    tests = {**told(41, 1, 2), "go": TestsRun(3)}
    assert runner_reports.of_json(runner_reports.to_json(tests)) == tests
    assert runner_reports.of_json({"jest": {"who": "knows"}, "go": None}) == {}


# --- real runners -------------------------------------------------------------------------------------


def ran(place: Path, *words: str, asked: bool = True) -> tuple[int, Tests]:
    reports = place / "reports of ours"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    env = {**os.environ, "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    env |= runner_reports.asking(env, reports) if asked else {}
    transcript = Transcript(place / "out", place / "err")
    with transcript.out.open("wb") as out, transcript.err.open("wb") as err:
        done = subprocess.run(words, cwd=place, env=env, stdout=out, stderr=err, timeout=120, check=False)
    return done.returncode, runner_reports.read(reports if asked else None, transcript)


TEST = "import pytest\nimport answer\n\ndef test_a(): pass\ndef test_b(): assert answer.right\n"
ENDS = "import os\nright = False\nprint('2 passed in 0.01s', flush=True)\nos._exit(0)\n"
ENDS_LATE = "import atexit, os\nright = False\natexit.register(os._exit, 0)\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [(), ("-qq",), pytest.param(("-n", "2"), marks=pytest.mark.full)])
def test_pytest_is_taken_by_its_report_and_not_by_what_is_printed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(TEST, "utf-8")
    command = (sys.executable, "-m", "pytest", *options)
    results = []
    for source in ("right = False\n", ENDS, ENDS_LATE, "right = True\n"):
        (tmp_path / "answer.py").write_text(source, "utf-8")
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        results.append(ran(tmp_path, *command))
    (code, tests), *lies, (good_code, good) = results
    before = Before(passed=code == 0, tests=tests)
    assert (code, good_code, good["pytest"]) == (1, 0, TestsRun(2, reported=True))
    assert runner_reports.problem("make", good, before, asked=True) == ""
    for lie_code, lie in lies:
        assert lie_code != 0 or runner_reports.problem("make", lie, before, asked=True)


def test_unittest_is_taken_by_what_it_prints(tmp_path: Path) -> None:
    case = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n"
    (tmp_path / "test_it.py").write_text(case, "utf-8")
    code, tests = ran(tmp_path, sys.executable, "-m", "unittest", "-q")
    assert (code, tests) == (0, {"unittest": TestsRun(1)})


def test_a_project_with_a_report_of_its_own_is_not_asked_for_another(repo: Path) -> None:
    assert runner_reports.may_ask(
        repo, commit(repo, {"notes.md": "--junitxml\n", "pytest.ini": "[pytest]\n"})
    )
    assert not runner_reports.may_ask(
        repo, commit(repo, {"pytest.ini": "[pytest]\naddopts = --junitxml=r\n"})
    )


# --- a whole bead -------------------------------------------------------------------------------------

CASE = (
    "import unittest\nimport app\n\nclass A(unittest.TestCase):\n"
    "    def test_a(self): self.assertEqual(app.answer(), 42)\n    def test_b(self): pass\n"
)
FILES = {"tests/__init__.py": "", "tests/test_app.py": CASE, "app.py": "def answer(): return 41\n"}
RIGHT = "def answer(): return 42\n"


def project(repo: Path, dev: Steps, more: str = "") -> Project:
    commit(repo, {**FILES, ".gitignore": "__pycache__/\n"})
    one = sprint("1.1", "One", verify="`python3 -m unittest -q`") + more
    return Project.make(repo, one, script={"*": {"dev": dev}}, plan_settings={"max_retry_attempts": 1})


def test_a_bead_whose_tests_did_not_come_to_their_end_is_not_closed(repo: Path) -> None:
    it = project(repo, [{"write": {"app.py": "import os\nos._exit(0)\n"}}, {"commit": "wrong"}])
    ran = it.run()
    assert ran.data["closed"] == [], ran.out
    row = it.metadata("bd-1-1-one")["last_verdict"]["evidence"][0]
    assert row["message"].startswith("unittest did not come to its end")


def test_the_numbers_of_tests_are_evidence_and_fewer_of_them_a_flag(repo: Path) -> None:
    fewer = CASE.replace("    def test_b(self): pass\n", "")
    it = project(repo, [{"write": {"app.py": RIGHT, "tests/test_app.py": fewer}}, {"commit": "right"}])
    ran = it.run()
    assert ran.data["closed"] == ["bd-1-1-one"], ran.out
    kept = it.metadata("bd-1-1-one")
    assert kept["tests_before"]["python3 -m unittest -q"]["unittest"]["ran"] == 2
    rows = [row for row in kept["last_verdict"]["evidence"] if row["kind"] == "verifier"]
    assert [row["details"]["tests"]["unittest"]["ran"] for row in rows] == [1, 2]
    assert any("1 test ran, 2 before the work began" in flag for flag in kept["last_verdict"]["flags"])


def test_the_first_tests_of_a_project_need_none_before_them(repo: Path) -> None:
    git(repo, "commit", "--allow-empty", "--quiet", "--message", "empty")
    commit(repo, {"tests/__init__.py": "", "app.py": RIGHT, ".gitignore": "__pycache__/\n"})
    verify = "`python3 -m unittest -q 2>&1 | tee out; grep -q ^OK out`"
    dev: Steps = [{"write": {"tests/test_app.py": CASE}}, {"commit": "the first tests"}]
    commit(repo, {".gitignore": "__pycache__/\nout\n"})
    it = Project.make(
        repo,
        sprint("1.1", "One", verify=verify),
        script={"*": {"dev": dev}},
        plan_settings={"max_retry_attempts": 1},
    )
    ran = it.run()
    assert ran.data["closed"] == ["bd-1-1-one"], (ran.out, it.metadata("bd-1-1-one")["last_verdict"])
