"""Completion in a shell, as the shell itself asks for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import compiled_here, environment, run
from tests.compile.plans import plan, sprint

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


def test_bash_completes_beads(here: dict[str, str], repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Schema"), sprint("1.2", "Search")))
    done = run(("bash", "--norc", "-c", BASH, "bash"), "show", "bd-1-2", cwd=repo, env=here)
    assert done.out.split() == ["bd-1-2-search"], done.err


FILES = """
eval "$(beads-ralph --show-completion)"
complete -p beads-ralph
"""


def test_bash_completes_plan_files_itself_where_we_know_nothing(here: dict[str, str], repo: Path) -> None:
    """What we offer nothing for is left to the shell, which knows files."""
    done = run(("bash", "--norc", "-c", FILES), cwd=repo, env=here)
    assert "-o default" in done.out, done.out


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(shell: str, here: dict[str, str], tmp_path: Path) -> None:
    asked = here | {"_BEADS_RALPH_COMPLETE": f"source_{shell}"}
    done = run(("beads-ralph",), cwd=tmp_path, env=asked)
    assert done.code == 0, done.err
    assert "_BEADS_RALPH_COMPLETE=complete_" + shell in done.out
    assert "beads-ralph" in done.out


def test_a_completion_can_be_installed(here: dict[str, str], tmp_path: Path) -> None:
    done = run(("bash", "--norc", "-c", "beads-ralph --install-completion; exit $?"), cwd=tmp_path, env=here)
    assert done.code == 0, done.err
    assert "completion installed" in done.out
    assert "_beads_ralph_completion" in (tmp_path / ".bash_completions" / "beads-ralph.sh").read_text("utf-8")
