"""The board in the terminal: what each pane shows, what each key does, at every size."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.board.source import BoardSource
from beads_ralph.board.terminal.board_app import TerminalBoard
from beads_ralph.board.terminal.keys import HELP
from beads_ralph.journal import runs
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import ItemQuery
from tests.board.journals import RUN, call, claimed, row, started, whole_run, write_journal
from tests.board.screens import LARGE, SMALL, assert_screen, board, screen
from tests.cli.running import compiled_here
from tests.compile.plans import plan, sprint
from tests.items import make_item

Steps = Callable[[TerminalBoard, Callable[..., Awaitable[None]]], Awaitable[None]]


def at_the_board(root: Path, size: tuple[int, int], steps: Steps) -> None:
    """Somebody at a board of that size, pressing keys."""

    async def sit() -> None:
        app = board(root)
        async with app.run_test(size=size) as pilot:

            async def press(*keys: str) -> None:
                await pilot.press(*keys)
                await pilot.pause()

            await pilot.pause()
            await steps(app, press)

    asyncio.run(sit())


@pytest.fixture
def shop(repo: Path) -> Path:
    """Four beads of a plan, one closed, one at work, two to come; and a run that goes on."""
    sprints = ("1.1", "Schema"), ("1.2a", "Storage of items"), ("1.2b", "Commands"), ("1.3", "Release")
    compiled_here(repo, plan(*(sprint(*one) for one in sprints)))
    first, second = "bd-1-1-schema", "bd-1-2a-storage-of-items"
    rows = [one | ({"bead": first} if one.get("bead") == "bd-1" else {}) for one in whole_run()[:17]]
    kept = [one for one in rows if one.get("bead") in (None, first)]
    write_journal(repo, [*kept, claimed(second, 20, "Storage of items"), call("agent_started", second, 21)])
    return repo


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "200x50"])
def test_the_panes_are_as_they_were_written_down(shop: Path, size: tuple[int, int]) -> None:
    name = f"{size[0]}x{size[1]}"

    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        assert_screen(app, f"list-{name}")
        await press("j", "3")
        assert_screen(app, f"detail-{name}")
        await press("g")
        assert_screen(app, f"waves-{name}")
        await press("question_mark")
        assert_screen(app, f"help-{name}")

    with runs.exclusive(shop / ".ralph", RUN):
        at_the_board(shop, size, steps)


def test_the_end_of_a_run_is_a_card(shop: Path) -> None:
    path = runs.RunFolder(shop / ".ralph", RUN).journal
    pulls = [{"url": "http://pull/1", "branch": "b"}]
    facts: dict[str, Any] = {"duration_seconds": 3725.0, "pull_requests": pulls, "next": ["beads-ralph run"]}
    ended = row("run_ended", 59, ended="stopped", reason="told to stop", **facts)

    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        await press("o")
        with path.open("ab") as file:
            file.write(json.dumps(ended).encode() + b"\n")
        app.take(app.source.refresh())
        await press()
        assert_screen(app, "end-200x50")

    with runs.exclusive(shop / ".ralph", RUN):
        at_the_board(shop, LARGE, steps)


def test_a_search_and_a_filter_narrow_the_list(shop: Path) -> None:
    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        await press("slash", *"relea", "enter")
        assert [one.bead for one in app.rows if one.key] == ["bd-1-3-release"]
        await press("escape", "f", "f")
        assert app.shown == "running"
        assert "bd-1-3-release" not in {one.bead for one in app.rows}
        await press("slash", *"no such thing", "enter")
        assert "nothing has no such thing" in screen(app)

    with runs.exclusive(shop / ".ralph", RUN):
        at_the_board(shop, SMALL, steps)


def test_a_run_is_paused_resumed_and_stopped_only_after_a_yes(shop: Path) -> None:
    home = shop / ".ralph"

    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        async def ordered(word: str | None) -> None:
            while runs.ordered(home) != word or (app.state.run.mode == "running" and word):
                await asyncio.sleep(0.02)

        await press("p")
        await ordered("pause")
        await press("p")
        await ordered(None)
        await press("x", "n")
        assert runs.ordered(home) is None
        await press("x", "y")
        await ordered("stop")

    with runs.exclusive(home, RUN):
        at_the_board(shop, SMALL, steps)


def test_a_bead_is_accepted_and_released_and_a_step_closed_with_words(repo: Path) -> None:
    sprints = (sprint("1.1", "Schema"), sprint("1.2", "Sign-off"), sprint("1.3", "Release"))
    compiled_here(repo, plan(*sprints))
    store, first, second = EmbeddedStore(repo), "bd-1-1-schema", "bd-1-2-sign-off"
    step = "bd-call-the-bank"
    store.create([make_item("bd-mol", "molecule"), make_item(step, parent="bd-mol")])

    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        async def is_so(bead: str, status: str) -> None:
            while (store.show(bead).status != status) or not app.message:
                await asyncio.sleep(0.02)

        app.key = first
        await press("a", *"by", "space", *"hand", "escape")
        assert store.show(first).status == "open"
        await press("a", *"by", "space", *"hand", "enter")
        await is_so(first, "closed")
        assert "accepted as done" in app.message
        assert store.claim(second, "somebody gone").won
        app.take(app.source.refresh())
        app.key = second
        await press("R", "n", "R", "y")
        await is_so(second, "open")
        app.key = next(row.key for row in app.rows if row.attention and row.attention.bead == step)
        await press("c", *"they", "space", *"said", "space", *"yes", "enter")
        while not store.items.find(ItemQuery(ids=[step], statuses=["closed"])):
            await asyncio.sleep(0.02)

    at_the_board(repo, LARGE, steps)
    assert store.show(first).metadata.accepted is not None


HOSTILE = "[red]x[/] \x1b[2J\x1b]0;gone\x07 [@click=app.quit]y[/] \u202eabc"


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_texts_of_others_are_data(repo: Path, size: tuple[int, int]) -> None:
    transcript = repo / "a.out"
    transcript.write_text(HOSTILE + "\n", encoding="utf-8")
    talking = call("agent_started", "bd-1", 2, transcript=str(transcript))
    write_journal(repo, [started(), claimed("bd-1", 1, HOSTILE), talking])

    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        for key in "13g4d":
            await press(key)
            seen = screen(app)
            assert "\x1b" not in seen
            assert "\x07" not in seen
            assert "\u202e" not in seen
        await press("1")
        assert "[red]x[/]" in screen(app)

    with runs.exclusive(repo / ".ralph", RUN):
        at_the_board(repo, size, steps)


def test_five_hundred_beads_can_all_be_reached(repo: Path) -> None:
    rows = [claimed(f"bd-{number:03}", 1, f"Bead number {number}") for number in range(500)]
    write_journal(repo, [started(50), *rows])

    async def steps(app: TerminalBoard, press: Callable[..., Awaitable[None]]) -> None:
        await press("end")
        assert "Bead number 499" in screen(app)
        await press("home")
        assert "Bead number 0 " in screen(app)
        await press("slash", *"number 317", "enter")
        assert app.selected is not None
        assert app.selected.id == "bd-317"
        await press("2")
        assert "wave" in screen(app) or "in a circle" in screen(app)

    with runs.exclusive(repo / ".ralph", RUN):
        at_the_board(repo, SMALL, steps)


def test_every_key_of_the_help_is_bound_and_ctrl_c_leaves_a_board_that_only_looks(shop: Path) -> None:
    bound = {key for one in TerminalBoard.BINDINGS for key in one.key.split(",")}  # type: ignore[union-attr]
    named = {"/": "slash", "↑": "up", "↓": "down", "PgUp": "pageup", "PgDn": "pagedown", "Ctrl-C": "ctrl+c"}
    keys = [key for keys, _ in HELP for key in keys.split()]
    assert {named.get(key, key if len(key) == 1 else key.lower()) for key in keys} <= bound

    async def leave() -> None:
        app = board(shop)
        async with app.run_test(size=SMALL) as pilot:
            await pilot.press("ctrl+c")
        assert app.return_code == 0

    asyncio.run(leave())


def test_a_board_opens_without_what_only_orders_need() -> None:
    rooms = "{name.split('.')[1] for name in sys.modules if name.startswith('beads_ralph.')}"
    code = f"import sys, beads_ralph.board.terminal.board_app; print(*{rooms})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"loop", "session", "dod", "plan", "compile", "app", "agents"} & set(said.stdout.split())


def test_ctrl_c_in_a_run_goes_to_the_run(shop: Path) -> None:
    told: list[str] = []

    async def sit() -> None:
        app = TerminalBoard(BoardSource.open(shop), interrupt=lambda: told.append("now"))
        async with app.run_test(size=SMALL) as pilot:
            await pilot.press("ctrl+c", "ctrl+c")
            assert app.is_running

    asyncio.run(sit())
    assert told == ["now", "now"]
