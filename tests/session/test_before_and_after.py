"""A change is proven where the same tests fail without it and pass with it; everything is put back."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.process.jobs import Exit
from beads_ralph.session import test_failures
from tests.cli.running import Ran, ralph

BROKEN = "def half(n):\n    return n // 3\n"
MENDED = "def half(n):\n    return n // 2\n"
SHOWS = "from halves import half\n\n\ndef test_half():\n    assert half(4) == 2\n"
NAME_ERROR = "def test_half():\n    assert hlaf(4) == 2\n"
NO_MODULE = "from halfs import half\n\n\ndef test_half():\n    assert half(4) == 2\n"
NOTHING = "def test_half():\n    pass\n"
CRASHES = "from halves import half\n\n\ndef test_half():\n    1 / (half(4) - 1)\n"
SKIPS = """\
import pytest
from halves import half


@pytest.mark.skipif(half(4) == 2, reason="mended")
def test_half():
    assert half(4) == 2
"""
LEAVES = """\
import os
from halves import half


def test_half():
    if half(4) == 2:
        os._exit(0)
    assert half(4) == 2
"""
REWRITES = """\
from pathlib import Path
from halves import half


def test_half():
    Path(__file__).write_text("def test_half():\\n    pass\\n")
    assert half(4) == 2
"""
PATCHES = "import halves\n\nhalves.half = lambda n: n // 2\n"
OTHER = "from halves import half\n\n\ndef test_zero():\n    assert half(0) == 0\n"
TEST = "tests/test_half.py"


def commit(root: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            (root / name).unlink()
        else:
            (root / name).write_text(text, encoding="utf-8")
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "work"]):
        subprocess.run(["git", *words], cwd=root, check=True, timeout=60)


@pytest.fixture(autouse=True)
def python_with_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own python3 need not have it."""
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))


@pytest.fixture
def shop(repo: Path) -> Path:
    commit(
        repo,
        {"halves.py": BROKEN, "tests/test_zero.py": OTHER, "conftest.py": "", ".gitignore": "__pycache__\n"},
    )
    subprocess.run(["git", "switch", "--quiet", "--create", "work"], cwd=repo, check=True, timeout=60)
    return repo


def proven(root: Path, kind: str, *more: str) -> Ran:
    return ralph("prove", kind, "--base", "main", *more, "--json", cwd=root)


def files_of(root: Path) -> dict[str, Any]:
    names = [
        path for path in root.rglob("*") if path.is_file() and not {".git", "__pycache__"} & set(path.parts)
    ]
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime) for path in names if ".pytest" not in str(path)
    }


def test_a_fix_is_proven_by_a_test_that_fails_without_it(shop: Path) -> None:
    commit(shop, {TEST: SHOWS, "halves.py": MENDED})
    before = files_of(shop)
    ran = proven(shop, "fix", "--test", TEST)
    assert ran.code == 0, ran.out
    assert ran.data["pinned"] == {TEST: hashlib.sha256(SHOWS.encode()).hexdigest()}
    assert (ran.data["product"], ran.data["before"]["asserted"]) == (["halves.py"], True)
    assert files_of(shop) == before, "everything is as it was, the times of files included"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({TEST: NAME_ERROR, "halves.py": MENDED}, "NameError"),
        ({TEST: NO_MODULE, "halfs.py": MENDED}, "No module named 'halfs'"),
        ({TEST: NOTHING, "halves.py": MENDED}, "it passes without the change"),
        ({TEST: CRASHES, "halves.py": MENDED}, "ZeroDivisionError"),
        ({TEST: SHOWS}, "no product code was changed"),
        ({TEST: SHOWS, "halves.py": f"# half\n{BROKEN}"}, "it does not pass with the change"),
        (
            {TEST: SHOWS, "halves.py": f"# half\n{BROKEN}", "conftest.py": PATCHES},
            "it passes without the change",
        ),
        ({TEST: SKIPS, "halves.py": MENDED}, "did not run with it"),
        ({TEST: LEAVES, "halves.py": MENDED}, "did not come to their end"),
        ({TEST: REWRITES, "halves.py": MENDED}, "was not the same any more"),
        ({"halves.py": MENDED}, "is not there, or is empty"),
    ],
    ids=[
        "name",
        "import",
        "pass",
        "crash",
        "test-only",
        "red",
        "conftest",
        "skip",
        "exit",
        "rewrite",
        "none",
    ],
)
def test_what_only_looks_like_a_fix_is_refused(shop: Path, files: dict[str, str | None], said: str) -> None:
    commit(shop, files)
    ran = proven(shop, "fix", "--test", TEST)
    assert (ran.code, ran.data["proven"]) == (1, False)
    assert said in " ".join(ran.data["faults"]), ran.data


@pytest.mark.parametrize(
    ("printed", "asserted"),
    [
        ("FAIL: test_half (tests.HalfTest)\n\nRan 1 test in 0.1s\n\nFAILED (failures=1)", True),
        ("ERROR: test_half (tests.HalfTest)\n\nRan 1 test in 0.1s\n\nFAILED (errors=1)", False),
        ("--- FAIL: TestHalf (0.00s)\n    half_test.go:8: got 1\nFAIL\tshop\t0.1s", True),
        ("./half_test.go:8:2: undefined: hlaf\nFAIL\tshop [build failed]", False),
        ("thread 'half' panicked\nassertion `left == right` failed", True),
        ("error[E0425]: cannot find function `hlaf`\nerror: could not compile `shop`", False),
        ("expect(received).toBe(expected)\nTests: 1 failed, 1 total", True),
        ("ReferenceError: hlaf is not defined\nTests: 1 failed, 1 total", False),
        ("it went wrong", False),
    ],
)
def test_other_runners_tell_assertions_from_errors(printed: str, asserted: bool, tmp_path: Path) -> None:
    assert test_failures.read(Exit(1, printed), tmp_path).asserted is asserted


def test_a_pattern_tells_the_assertions_of_any_runner(shop: Path) -> None:
    commit(
        shop,
        {"tests/half.sh": "grep -q '// 2' halves.py || { echo 'not ok 1'; exit 1; }", "halves.py": MENDED},
    )
    words = ("--test", "tests/half.sh", "--run", "sh tests/half.sh")
    assert proven(shop, "fix", *words).code == 1
    assert proven(shop, "fix", *words, "--assertion", "^not ok").code == 0


def test_a_refactoring_leaves_the_tests_of_before_alone(shop: Path) -> None:
    commit(shop, {"halves.py": BROKEN.replace("3", "(1 + 2)"), "tests/test_more.py": SHOWS.replace("2", "1")})
    assert proven(shop, "refactoring").code == 0
    commit(shop, {"tests/test_zero.py": OTHER.replace("0) == 0", "3) == 1")})
    ran = proven(shop, "refactoring")
    assert ran.data["faults"] == ["tests/test_zero.py is a test of before, and was changed or removed"]


def test_a_feature_brings_tests_that_fail_without_it(shop: Path) -> None:
    commit(shop, {"double.py": "def double(n):\n    return 2 * n\n"})
    assert proven(shop, "feature").data["faults"] == ["no test was added or changed"]
    commit(shop, {"tests/test_double.py": "def test_it():\n    pass\n"})
    assert "it passes without the change" in proven(shop, "feature").data["faults"][0]
    commit(
        shop,
        {"tests/test_double.py": "import double\n\n\ndef test_it():\n    assert double.double(2) == 4\n"},
    )
    assert proven(shop, "feature").code == 0


def test_an_upgrade_leaves_the_tests_alone(shop: Path) -> None:
    commit(shop, {"requirements.txt": "x==2\n"})
    assert proven(shop, "upgrade").code == 0
    commit(shop, {"tests/test_zero.py": None})
    assert "was changed or removed" in proven(shop, "upgrade").data["faults"][0]


def test_by_hand_nothing_uncommitted_is_at_stake(shop: Path) -> None:
    commit(shop, {TEST: SHOWS, "halves.py": MENDED})
    (shop / "halves.py").write_text("half = None\n", encoding="utf-8")
    refused = proven(shop, "fix", "--test", TEST)
    assert "not committed" in refused.error["message"]
    unnamed = ralph("prove", "fix", "--test", TEST, "--json", cwd=shop, env={"BEADS_RALPH_BASE": ""})
    assert "--base main" in unnamed.error["suggested_action"]
