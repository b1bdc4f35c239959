"""Picture both boards while the demonstration runs, as docs/images/terminal-board.svg and web-board.png.

    make picture

Nothing is edited: the demonstration runs, `beads-ralph serve` shows it to a real Chromium, the terminal board
looks at it, too, and both are pictured when beads are done, others are at work and others wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import Page, ViewportSize, async_playwright

from beads_ralph.board.model import BoardState
from beads_ralph.board.source import BoardSource
from beads_ralph.board.terminal.board_app import TerminalBoard

IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
TERMINAL: Final = IMAGES / "terminal-board.svg"
WEB: Final = IMAGES / "web-board.png"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FONTS: Final = re.compile(r"\s*@font-face \{.*?\n    \}\n|\s*<!--.*?-->", re.DOTALL)
PATIENCE: Final = 120.0
COLUMNS: Final = (132, 28)
PIXELS: Final = ViewportSize(width=1240, height=600)


def main() -> int:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        sys.exit("chromium is not on PATH: run tools/system-packages")
    os.environ["TZ"] = "UTC"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "todo-app"
        with started(["beads-ralph", "demo", "--dir", str(root), "--json"]) as demo:
            until(lambda: any((root / ".ralph" / "runs").glob("*/events.jsonl")), demo)
            with started(["beads-ralph", "serve", "--port", "0", "--json"], root) as server:
                asyncio.run(picture(program, address(server), root, demo))
            demo.communicate()
    for made in (TERMINAL, WEB):
        sys.stdout.write(f"{made.name}: {made.stat().st_size // 1024} kB\n")
    return 0


@contextmanager
def started(command: list[str], cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            sys.exit("the demonstration ended before there was anything to see")
        time.sleep(0.05)


def address(server: subprocess.Popen[str]) -> str:
    said = ""
    while not said.endswith("\n}\n"):
        line = server.stdout.readline() if server.stdout else ""
        if not line:
            sys.exit("the server did not start")
        said += line
    return str(json.loads(said)["data"]["open"])


async def picture(program: str, url: str, root: Path, demo: subprocess.Popen[str]) -> None:
    board = TerminalBoard(BoardSource.open(root))
    async with async_playwright() as play, board.run_test(size=COLUMNS) as pilot:
        browser = await play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = await browser.new_page(viewport=PIXELS, reduced_motion="reduce")
        await page.goto(url)
        board.key = await worth_seeing(BoardSource.open(root), demo)
        try:
            await seen_by(board, page)
            board.draw()
            await pilot.pause()
            drawn = board.export_screenshot(title="beads-ralph board")
            await page.screenshot(path=WEB)
        finally:
            demo.send_signal(signal.SIGCONT)
        await browser.close()
    # A picture that fetches fonts is none: whoever shows it takes a font of theirs.
    TERMINAL.write_text(FONTS.sub("", drawn).replace("Fira Code, monospace", "monospace"), encoding="utf-8")


async def worth_seeing(source: BoardSource, demo: subprocess.Popen[str]) -> str:
    """Wait for the moment that shows most, and hold the demonstration there; the bead to look at."""
    end = time.monotonic() + PATIENCE
    while (chosen := telling(source.refresh())) is None:
        if demo.poll() is not None or time.monotonic() > end:
            sys.exit("the demonstration showed no such moment")
        await asyncio.sleep(0.02)
    demo.send_signal(signal.SIGSTOP)
    return chosen


async def seen_by(board: TerminalBoard, page: Page) -> None:
    """Wait until both boards show the same."""
    shown = "(ids) => ids.every((id) => document.querySelector(`[data-lane=running] ${id}`))"
    while True:
        running = board.state.running
        await page.wait_for_function(shown, arg=[f'[data-bead="{name}"]' for name in running])
        if board.state.running == running and running:
            return


def telling(state: BoardState) -> str | None:
    """A bead at work on its second attempt, while others are done, at work, and yet to come."""
    if len(state.running) < 2 or len(state.done) < 2 or not state.next:  # noqa: PLR2004
        return None
    at_work = [bead for name in state.running if (bead := state.bead(name))]
    return next((bead.id for bead in at_work if bead.last_failure and bead.last_activity), None)


if __name__ == "__main__":
    sys.exit(main())
