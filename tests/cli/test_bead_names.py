"""A sprint's number or the beginning of an id will do, wherever a command takes a bead; a guess never."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.cli.commands import COMMANDS, PANEL_OF
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.cli.running import compiled_here, ralph
from tests.compile.plans import plan, sprint

PLAN = plan(
    sprint("1.1", "Start", source_branch="main"),
    sprint("1.2a", "Left", source_branch="main"),
    sprint("1.2b", "Right", source_branch="main"),
)
LEFT, RIGHT = "bd-1-2a-left", "bd-1-2b-right"


@pytest.fixture
def shop(repo: Path, with_claude: None) -> Path:
    compiled_here(repo, PLAN)
    return repo


@pytest.mark.parametrize("name", [LEFT, "1.2a", "bd-1-2a", "1-2a"])
@pytest.mark.parametrize("words", [("show",), ("sessions",), ("prompt",), ("export",)])
def test_a_short_name_is_the_bead(shop: Path, words: tuple[str, ...], name: str) -> None:
    ran = ralph(*words, name, "--json", cwd=shop)
    if words == ("export",):
        assert LEFT in ran.error["message"], "it has no verifiers, but it was found"
    else:
        assert LEFT in ran.out, ran.out


def test_a_run_takes_short_names_too(shop: Path) -> None:
    ran = ralph("run", "--bead", "1.1", "--dry-run", "--json", cwd=shop)
    assert ran.data["waves"] == [["bd-1-1-start"]]


@pytest.mark.parametrize("name", ["bd-1-2", "1-2", "bd"])
def test_a_name_that_fits_several_names_them_all(shop: Path, name: str) -> None:
    error = ralph("show", name, "--json", cwd=shop).error
    assert LEFT in error["message"]
    assert RIGHT in error["message"]
    assert error["suggested_action"] == "Give more of the id"


def test_a_name_that_fits_nothing_is_told_as_before(shop: Path) -> None:
    for words in (("show", "nope"), ("retry", "nope"), ("release", "1.9")):
        assert ralph(*words, "--json", cwd=shop).error["code"] == "DATABASE.BEAD_NOT_FOUND"


def test_all_that_is_blocked_can_be_opened_again_at_once(shop: Path) -> None:
    store = EmbeddedStore(shop)
    for name in (LEFT, RIGHT):
        store.update(name, Changes(status="blocked"))
    ran = ralph("retry", "--failed", "--json", cwd=shop)
    assert (ran.code, sorted(ran.data["beads"])) == (0, [LEFT, RIGHT])
    assert {store.show(name).status for name in (LEFT, RIGHT)} == {"open"}
    assert ralph("retry", "--all", "--json", cwd=shop).data["beads"] == []
    for words in ((), (LEFT, "--failed"), ("--all", "--again")):
        assert ralph("retry", *words, cwd=shop).code == 2


def test_help_is_in_groups_without_types_of_flags_and_with_examples(shop: Path) -> None:
    assert set(COMMANDS) - set(PANEL_OF) == set(), "every command is in a group"
    whole, one = ralph("-h", cwd=shop).out, ralph("retry", "-h", cwd=shop).out
    assert [panel for panel in dict.fromkeys(PANEL_OF.values()) if f"─ {panel} ─" not in whole] == []
    assert "<bool>" not in whole + one
    assert "beads-ralph retry --failed" in one
    assert ralph("retry", "--help", cwd=shop).out == one
