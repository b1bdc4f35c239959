"""Command lines that are parsed without typer: they mean what typer takes them for; it has the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beads_ralph.cli import parser, quick
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import COMMANDS, PROGRAM, Command
from beads_ralph.errors import RalphError

PLAIN = [
    "list",
    "list --json",
    "list --status open --status=closed --label a --label b",
    "list --plan plans/shop.md --store embedded --json",
    "ready",
    "ready --limit 3 --json",
    "show bd-a",
    "show bd-a bd-b --store auto --json bd-c",
    "status --watch",
    "status --json --store bd",
    "run",
    "run plan.md --dry-run --json",
    "run --max-parallel 3 plan.md --team a --team b --bead=bd-a --convoy c --wisps --once --stop-on-failure",
    "run --force-gates --plan-changes refuse --prefer plan --watch-plan --push --store embedded",
    "run --push --no-push --no-watch-plan --executor local --forge auto --config other.yaml",
]
SLIPS = [
    "",
    "--help",
    "--version list",
    "list --help",
    "list --stat open",
    "list --status",
    "list --status gone",
    "list --status -x",
    "list --json=yes",
    "list extra",
    "list -- --json",
    "ready --limit 0",
    "ready --limit x",
    "ready --limit",
    "show",
    "show --json",
    "status --store",
    "status --store other",
    "lists",
    "run a.md b.md",
    "run --max-parallel 0",
    "run --push=yes",
    "run --executor nowhere",
    "run --plan-changes keep",
]
WORDS = st.sampled_from(
    [
        *("open", "closed", "bd-a", "plan.md", "auto", "embedded", "3", "0", "-1", "-", "--", "", "ä", "a=b"),
        *("--json", "--status", "--label", "--plan", "--store", "--limit", "--watch", "--help", "-f"),
        *("--status=open", "--status=", "--label=x=y", "--limit=2", "--store=bd", "--json=1", "--plan=p.md"),
        *("--push", "--no-push", "--dry-run", "--team", "--bead=bd-a", "--max-parallel", "--executor=local"),
    ]
)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the quick commands are called with, in place of what they do."""
    calls: list[dict[str, Any]] = []
    for name in quick.QUICK:
        row = COMMANDS[name]
        assert isinstance(row, Command)
        module, _, function = row.target.partition(":")
        place = import_module(f"beads_ralph.cli.{module}")
        monkeypatch.setattr(place, function, noting(getattr(place, function), calls))
    return calls


def noting(command: Callable[..., Answer], calls: list[dict[str, Any]]) -> Callable[..., Answer]:
    @wraps(command)
    def noted(**given: Any) -> Answer:
        calls.append({name: value for name, value in given.items() if value})
        return Answer()

    return noted


def by_typer(words: list[str], calls: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The values that typer calls the command with; None where it does not call it."""
    calls.clear()
    try:
        parser.answer(parser.whole(), PROGRAM, words)
    except RalphError:
        return None
    return calls[0] if calls else None


@pytest.mark.parametrize("words", PLAIN)
def test_plain_words_are_understood_as_typer_understands_them(
    words: str, called: list[dict[str, Any]]
) -> None:
    command = quick.understood(words.split())
    assert command is not None
    command()
    [mine] = called
    assert mine == by_typer(words.split(), called)


@pytest.mark.parametrize("words", SLIPS)
def test_everything_else_is_left_to_typer(words: str) -> None:
    assert quick.understood(words.split()) is None


@given(st.sampled_from(quick.QUICK), st.lists(WORDS, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_understood_otherwise_than_by_typer(
    called: list[dict[str, Any]], name: str, rest: list[str]
) -> None:
    command = quick.understood([name, *rest])
    if command is not None:
        called.clear()
        command()
        [mine] = called
        assert mine == by_typer([name, *rest], called)


def test_a_file_that_must_not_be_read_is_left_to_typer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    (tmp_path / "plan.md").touch()
    assert quick.understood(["list", "--plan", str(tmp_path / "plan.md")]) is None


def test_a_completion_is_left_to_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(quick.COMPLETING, "complete_bash")
    assert quick.understood(["list"]) is None
