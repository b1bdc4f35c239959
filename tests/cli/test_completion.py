"""Completion in a shell, as the shell itself asks for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import environment, run

BASH = """
eval "$(beads-ralph --show-completion)"
COMP_WORDS=(beads-ralph "$@")
COMP_CWORD=$#
_beads_ralph_completion beads-ralph
echo "${COMPREPLY[*]}"
"""


@pytest.fixture
def here(tmp_path: Path) -> dict[str, str]:
    """The program on PATH, and a home of its own."""
    folder = Path(sys.executable).parent
    return {"PATH": f"{folder}:{environment({})['PATH']}", "HOME": str(tmp_path), "SHELL": "/bin/bash"}


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["li"], "list"),
        (["list", "--st"], "--status --store"),
        (["list", "--status", ""], "open in_progress blocked closed"),
        (["config", ""], "show set explain"),
        (["show", "--js"], "--json"),
    ],
)
def test_bash_completes(words: list[str], completed: str, here: dict[str, str], tmp_path: Path) -> None:
    done = run(("bash", "--norc", "-c", BASH, "bash"), *words, cwd=tmp_path, env=here)
    assert done.out.split() == completed.split(), done.err


def test_a_completion_can_be_installed(here: dict[str, str], tmp_path: Path) -> None:
    done = run(("bash", "--norc", "-c", "beads-ralph --install-completion; exit $?"), cwd=tmp_path, env=here)
    assert done.code == 0, done.err
    assert "completion installed" in done.out
    assert "_beads_ralph_completion" in (tmp_path / ".bash_completions" / "beads-ralph.sh").read_text("utf-8")
