"""Files that checks open are theirs where checks name them and the work does not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from beads_ralph.bead.model import Verifier
from beads_ralph.session import check_data
from tests.loop.plans import Project, Steps, sprint
from tests.session.test_gate_files import commit

FILES: Mapping[str, str] = {
    "src/app.py": "LIMITS = open('limits.json')\n",
    "src/web.js": "load('page.html')\n",
    "limits.json": "{}\n",
    "page.html": "x\n",
    "wanted.csv": "42\n",
    "cases/one.json": "{}\n",
    "app/fixtures/rows.json": "[]\n",
    "requirements.txt": "x\n",
    "one.txt": "0\n",
    "Makefile": "test:\n\tsh scripts/run-checks.sh\n\t./build.sh -r requirements.txt\n",
    "scripts/run-checks.sh": "python3 ci/verify.py && ./greet.sh | grep hello\n",
    "ci/verify.py": "open('answer.dat')\n",
    "answer.dat": "42\n",
    "build.sh": "true\n",
    "greet.sh": "echo hello\n",
    "tests/test_app.py": "open('wanted.csv'); open('limits.json'); open('page.html'); glob('cases/*.json')\n",
}


def test_what_only_checks_name_is_theirs(repo: Path) -> None:
    base = commit(repo, FILES)
    found = check_data.found(repo, base, FILES.keys(), [Verifier(name="t", command="make test")])
    assert found == ["app/fixtures/rows.json", "ci/verify.py", "scripts/run-checks.sh", "wanted.csv"]


def test_what_no_check_opened_is_not(repo: Path) -> None:
    base = commit(repo, FILES)
    opened = ["wanted.csv", "not-of-the-commit.csv"]
    assert check_data.found(repo, base, opened, [Verifier(name="t", command="pytest")]) == ["wanted.csv"]
    assert check_data.found(repo, base, [], [Verifier(name="t", command="pytest")]) == []


def test_every_folder_with_files_is_looked_at(repo: Path) -> None:
    base = commit(repo, {"a/b/c.txt": "x\n", "d.txt": "x\n", ".hidden/e": "x\n"})
    assert check_data.folders(repo, base) >= {"", "a/b", ".hidden"}


# --- a whole bead -------------------------------------------------------------------------------------

CHECK = (
    "import app\nassert app.answer() == int(open('wanted.csv').read())\n"
    "assert open('page.txt').read() == app.page()\n"
)
SOURCE = "def answer(): return {}\ndef page(): return open('page.txt').read()\n"
BEFORE = {"wanted.csv": "42\n", "page.txt": "old\n", "check.py": CHECK, "app.py": SOURCE.format(41)}


def project(repo: Path, files: Mapping[str, str], more: str = "", task: str = "Do it") -> Project:
    commit(repo, {**BEFORE, ".gitignore": "__pycache__/\n"})
    dev: Steps = [{"write": dict(files)}, {"commit": "work"}]
    one = sprint("1.1", "One", tasks=[task], verify="`python3 check.py`") + more
    return Project.make(repo, one, script={"*": {"dev": dev}}, plan_settings={"max_retry_attempts": 1})


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells what is opened")


def test_work_that_passes_only_by_other_data_of_its_check_is_not_proven(repo: Path) -> None:
    it = project(repo, {"app.py": SOURCE.format(63), "wanted.csv": "63\n"})
    ran = it.run()
    assert ran.data["closed"] == [], ran.out
    kept = it.metadata("bd-1-1-one")
    assert kept["read_by_checks"] == ["wanted.csv"]
    assert "wanted.csv belongs to a check, which opened it, and was changed" in kept["last_verdict"]["flags"]
    (told,) = [event for event in it.events() if event["kind"] == "baseline_taken"]
    assert (told["red"], told["read"], told["opened"] >= 3) == (["python3 check.py"], ["wanted.csv"], True)


def test_data_that_a_failing_check_did_not_reach_is_found_once_it_does(repo: Path) -> None:
    commit(repo, {"more.csv": "7\n"})
    more = "assert app.more() == int(open('more.csv').read())\n"
    commit(repo, {**BEFORE, "check.py": CHECK + more, ".gitignore": "__pycache__/\n"})
    lie = SOURCE.format(42) + "def more(): return 8\n"
    dev: Steps = [{"write": {"app.py": lie, "more.csv": "8\n"}}, {"commit": "work"}]
    one = sprint("1.1", "One", verify="`python3 check.py`")
    it = Project.make(repo, one, script={"*": {"dev": dev}}, plan_settings={"max_retry_attempts": 1})
    assert it.run().data["closed"] == []
    kept = it.metadata("bd-1-1-one")
    assert "more.csv" not in kept["read_by_checks"]
    assert [flag.split()[0] for flag in kept["last_verdict"]["flags"]] == ["more.csv"]


def test_data_of_the_work_may_change_with_it(repo: Path) -> None:
    it = project(repo, {"app.py": SOURCE.format(42), "page.txt": "new\n"})
    assert it.run().data["closed"] == ["bd-1-1-one"]
    assert it.metadata("bd-1-1-one")["last_verdict"]["flags"] == []


@pytest.mark.parametrize("told", ["\n**May Change**: `wanted.csv`\n", ""])
def test_data_of_a_check_may_change_where_the_plan_says_so(repo: Path, told: str) -> None:
    task = "Do it" if told else "Let the answer be 63, in wanted.csv too"
    it = project(repo, {"app.py": SOURCE.format(63), "wanted.csv": "63\n"}, told, task)
    assert it.run().data["closed"] == ["bd-1-1-one"]
    flags = it.metadata("bd-1-1-one")["last_verdict"]["flags"]
    assert [flag.split()[0] for flag in flags] == ([] if told else ["wanted.csv"])
