"""The checks that every test gets see what a test of ours did, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

from tests.conftest import LEAKS, untouched


def test_what_other_programs_of_the_user_write_is_not_blamed_on_the_test(tmp_path: Path) -> None:
    with untouched([tmp_path]):
        (tmp_path / "go" / "pkg").mkdir(parents=True)
        (tmp_path / ".bun").mkdir()
        (tmp_path / ".cache").mkdir()
        (tmp_path / ".viminfo").touch()
        (tmp_path / ".viminfo").unlink()


def test_what_was_there_before_may_change(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    with untouched([tmp_path]):
        (tmp_path / ".claude" / "history.jsonl").touch()


@pytest.mark.parametrize("name", LEAKS)
def test_what_only_a_program_of_ours_makes_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(Failed, match=re.escape(name)), untouched([tmp_path]):
        (tmp_path / name).mkdir(parents=True)


def test_a_git_that_gets_past_the_isolation_is_seen(tmp_path: Path) -> None:
    """With the variables that lead it to the test's own settings taken away, as a leak of ours would."""
    real = tmp_path / "real"
    real.mkdir()
    words = ["env", "-u", "GIT_CONFIG_GLOBAL", "-u", "XDG_CONFIG_HOME", f"HOME={real}", "git", "config"]
    with pytest.raises(Failed, match=r"\.gitconfig"), untouched([real]):
        subprocess.run([*words, "--global", "user.name", "x"], check=True, timeout=60)
