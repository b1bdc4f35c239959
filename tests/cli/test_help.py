"""help shows the pages that users have, by name, and the help of commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from beads_ralph.cli import help as topics
from beads_ralph.cli import parser
from beads_ralph.cli.commands import COMMANDS, Command, Group
from beads_ralph.cli.examples import EXAMPLES
from tests.cli.running import ralph
from tests.cli.terminal import at_a_terminal

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_for_users_is_a_topic_and_nothing_else_is() -> None:
    pages = {path.stem for path in DOCS.rglob("*.md")} - {"index"}
    internals = {path.stem for path in (DOCS / "internals").glob("*.md")}
    assert sorted(one.name for one in topics.topics()) == sorted(pages - internals)


def test_alone_it_lists_the_topics(repo: Path) -> None:
    said = ralph("help", cwd=repo).out
    assert [one.name for one in topics.topics() if f"  {one.name} " not in said] == []


@pytest.mark.parametrize("word", ["when-stuck", "when-stuck.md", "stuck", "WHEN"])
def test_a_page_is_printed_as_it_is_written_where_it_is_piped(repo: Path, word: str) -> None:
    assert ralph("help", word, cwd=repo).out == (DOCS / "how-to" / "when-stuck.md").read_text("utf-8")


def test_on_a_terminal_a_page_is_drawn(repo: Path) -> None:
    with at_a_terminal(repo, "help", "when-stuck") as terminal:
        terminal.shows("When something is stuck")
        assert terminal.ends() == 0
    assert "# When something" not in terminal.seen


def test_a_command_shows_its_own_help(repo: Path) -> None:
    assert ralph("help", "plan", "check", cwd=repo).out == ralph("plan", "check", "--help", cwd=repo).out
    assert "Usage: beads-ralph run" in ralph("help", "run", cwd=repo).out


def test_an_unknown_word_is_answered_with_the_nearest(repo: Path) -> None:
    ran = ralph("help", "overnigth", "--json", cwd=repo)
    assert (ran.code, ran.error["suggested_action"]) == (2, "Run: beads-ralph help overnight")
    assert ralph("help", "plan", "fly", cwd=repo).code == 2


# --- examples -----------------------------------------------------------------------------------------


def rows(table: Mapping[str, Command | Group], path: str = "") -> Iterator[tuple[str, Command]]:
    for name, row in table.items():
        if isinstance(row, Group):
            yield from rows(row.commands, f"{path}{name} ")
        else:
            yield f"{path}{name}", row


@pytest.mark.parametrize(
    ("path", "row"), [*rows(COMMANDS)], ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_examples_that_can_be_parsed(path: str, row: Command) -> None:
    for example in EXAMPLES[row.target]:
        words = shlex.split(example)
        count = len(path.split())
        assert " ".join(words[:count]) == path
        parser.command_of(path, row).make_context(path, words[count:])
