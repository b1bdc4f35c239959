"""Photograph the web board while the demonstration runs, as docs/images/web-board.png.

    make picture

Nothing is edited: the demonstration runs, `beads-ralph serve` shows it, and a real Chromium takes the picture
when beads are done, others are at work and others wait.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

PICTURE: Final = Path(__file__).parent.parent / "docs" / "images" / "web-board.png"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
PATIENCE: Final = 120.0
WORTH: Final = """() => {
  const count = (lane) => document.querySelectorAll(`[data-lane=${lane}] .card`).length;
  return count("running") >= 2 && count("done") >= 1 && count("waiting") >= 1;
}"""


def main() -> int:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        sys.exit("chromium is not on PATH: run tools/system-packages")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "todo-app"
        with started(["beads-ralph", "demo", "--dir", str(root), "--json"]) as demo:
            until(lambda: any((root / ".ralph" / "runs").glob("*/events.jsonl")), demo)
            with started(["beads-ralph", "serve", "--port", "0", "--json"], root) as server:
                photograph(program, address(server))
            demo.communicate()
    sys.stdout.write(f"{PICTURE.name}: {PICTURE.stat().st_size // 1024} kB\n")
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


def photograph(program: str, url: str) -> None:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 720}, reduced_motion="reduce")
        page.goto(url)
        page.wait_for_function(WORTH, timeout=PATIENCE * 1000)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
