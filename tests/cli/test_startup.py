"""Start-up is part of the product: a command loads what it needs, and no other command's weight."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from beads_ralph.cli import parser
from beads_ralph.cli.commands import COMMANDS, Command, Group
from beads_ralph.journal import runs
from tests.cli.running import compiled_here, run
from tests.compile.plans import plan, sprint

HEAVY = {
    "asyncio",
    "beads_ralph.loop",
    "beads_ralph.session",
    "beads_ralph.report.run_page",
    "beads_ralph.demo.demonstration",
    "ssl",
}


TELLING = """
import sys
from beads_ralph.cli.entry import main
code = main(sys.argv[1:])
print("modules:", *sys.modules, file=sys.stderr)
sys.exit(code)
"""


def loaded(*words: str, cwd: Path) -> set[str]:
    """The modules that a command has imported when it ends."""
    done = run((sys.executable, "-c", TELLING), *words, cwd=cwd)
    assert done.code == 0, done.err
    return set(done.err.rpartition("modules:")[2].split())


@pytest.mark.parametrize("words", ["--help", "run --help", "demo --help", "plan check --help"])
def test_help_loads_no_loop(words: str, tmp_path: Path) -> None:
    assert not loaded(*words.split(), cwd=tmp_path) & HEAVY


@pytest.mark.parametrize(
    "words",
    [
        "formula list",
        "plan check plan.md",
        "status",
        "list",
        "ready",
        "config show",
        "clean",
        "show bd-1-1-setup",
    ],
)
def test_only_a_run_loads_the_loop(words: str, repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    assert not loaded(*words.split(), cwd=repo) & HEAVY


def test_the_weight_is_noticed_where_it_belongs(repo: Path, with_claude: None) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup", source_branch="main")))
    assert {"asyncio", "beads_ralph.loop", "beads_ralph.session"} <= loaded("run", "--dry-run", cwd=repo)


WEIGHTS = ("asyncio", "concurrent.futures", "markdown_it", "pydantic", "rich", "ssl", "typer", "yaml")
"""Modules of others, and of Python, that one notices when they are imported."""
ALWAYS = {"cli", "errors"}
LOOKING = ALWAYS | {"bead", "config", "files", "git", "process", "store"}
STORED = LOOKING | {"pydantic", "typer", "yaml"}
ALLOWED: dict[str, set[str]] = {
    "--version": {"cli"},
    "--help": ALWAYS | {"bead", "typer", "pydantic", "rich", "markdown_it"},  # typer shows help with rich
    "list": LOOKING,
    "list --json": LOOKING,
    "list --status open --plan plan.md --store=embedded": LOOKING,
    "ready": LOOKING,
    "ready --limit 3 --json": LOOKING,
    "show bd-1-1-setup": LOOKING | {"journal"},  # a run that is on knows what a bead waits for
    "show bd-1-1-setup --json": LOOKING,
    "status": LOOKING | {"board", "journal"},
    "status --json": LOOKING | {"board", "journal"},
    "events --help": ALWAYS  # in one file with logs, which reads agents' answers
    | {"agents", "bead", "config", "files", "git", "process", "journal"}
    | {"typer", "pydantic", "rich", "markdown_it", "yaml"},
    "plan check plan.md --json": STORED | {"agents", "compile", "formula", "plan", "prompts", "markdown_it"},
}


def weights(modules: set[str]) -> set[str]:
    """Our rooms among the modules, and the heavy ones of others."""
    own = {name.split(".")[1] for name in modules if name.startswith("beads_ralph.")}
    return {*own, *modules.intersection(WEIGHTS)} - {"__main__"}


@pytest.mark.parametrize("words", ALLOWED)
def test_a_command_imports_what_it_needs_and_no_other_room(words: str, repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    assert weights(loaded(*words.split(), cwd=repo)) <= ALLOWED[words]


CLAIMED = {"kind": "bead_claimed", "at": "2026-11-16T00:00:00.000Z", "run_id": "r1", "bead": "bd-1-1-setup"}


@pytest.mark.parametrize("words", ["status", "status --json"])
def test_status_is_as_light_while_a_run_goes_on(words: str, repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    home = repo / ".ralph"
    with runs.exclusive(home, "r1"):
        told = runs.RunFolder(home, "r1").journal
        told.parent.mkdir(parents=True)
        told.write_text(json.dumps(CLAIMED) + "\n", encoding="utf-8")
        assert weights(loaded(*words.split(), cwd=repo)) <= LOOKING | {"board", "journal"}


def test_sound_settings_are_validated_once(repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    (repo / "beads-ralph.yaml").write_text("store: embedded\n", encoding="utf-8")
    assert "pydantic" in loaded("list", cwd=repo)
    assert weights(loaded("list", cwd=repo)) <= LOOKING


def test_a_command_imports_no_other_command(repo: Path) -> None:
    modules = {row.target.partition(":")[0] for row in COMMANDS.values() if isinstance(row, Command)}
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    own = {
        name.rpartition(".")[2] for name in loaded("list", cwd=repo) if name.startswith("beads_ralph.cli.")
    }
    assert own & modules == {"list"}


def rows() -> list[tuple[str, ...]]:
    groups = {name: row.commands for name, row in COMMANDS.items() if isinstance(row, Group)}
    return [*((name,) for name in COMMANDS), *((name, inner) for name in groups for inner in groups[name])]


@pytest.mark.parametrize("path", rows(), ids=" ".join)
def test_the_table_says_what_the_command_says_of_itself(path: tuple[str, ...]) -> None:
    found = parser.whole()
    for name in path:
        listed, found = found.commands[name], found.load(name)
    assert listed.help == found.help
