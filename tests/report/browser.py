"""A real Chromium, spoken to through its own pipe: no driver, no socket, nothing leaves the machine."""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.conftest import GIVEN_PATH, IN_CI

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-breakpad"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)


class Browser:
    """One page of one browser."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes]) -> None:
        self.orders, self.answers = orders, answers
        self.number = 0
        self.buffer = b""
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        self.orders.write(json.dumps(message).encode() + b"\0")
        self.orders.flush()
        while True:
            said = self._next()
            if said.get("id") == self.number:
                assert "error" not in said, said
                return dict(said["result"])
            self.events.append(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            more = os.read(self.answers.fileno(), 1 << 20)
            assert more, "the browser has ended"
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(text))

    def open(self, page: Path, width: int, scheme: str) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        said = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"]["value"]

    def picture(self) -> bytes:
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def said(self, *methods: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") in methods]


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Without one the test is skipped, and fails in CI: there a skip would hide a gap."""
    program = next((found for name in NAMES if (found := shutil.which(name, path=GIVEN_PATH))), None)
    if program is None:
        message = "needs chromium: run tools/system-packages"
        if IN_CI:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    orders_out, orders_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # Chromium reads from 3 and writes to 4.
    command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    script = f'exec "$@" 3<&{orders_out} 4>&{answers_in}'
    with (
        subprocess.Popen(
            ["bash", "-c", script, "chromium", *command],
            pass_fds=(orders_out, answers_in),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
        os.fdopen(orders_in, "wb", buffering=0) as orders,
        os.fdopen(answers_out, "rb", buffering=0) as answers,
    ):
        os.close(orders_out)
        os.close(answers_in)
        try:
            browser = Browser(orders, answers)
            yield browser
            browser.session = None
            browser.ask("Browser.close")
            process.wait(30)
        finally:
            process.kill()


def colours(png: bytes) -> set[bytes]:
    """The different pixels of a picture with 8 bits a channel."""
    width, height, kind = 0, 0, 0
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        name, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if name == b"IHDR":
            width, height, kind = struct.unpack(">IIxB", body[:10])
        data += body if name == b"IDAT" else b""
        at += size + 12
    step = {2: 3, 6: 4}[kind]
    raw, before = zlib.decompress(data), bytes(width * step)
    found: set[bytes] = set()
    for row in range(height):
        start = row * (width * step + 1)
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + width * step], before, step)
        found.update(before[x : x + step] for x in range(0, len(before), step))
    return found


def _unfiltered(kind: int, line: bytes, above: bytes, step: int) -> bytes:
    row = bytearray(line)
    for x in range(len(row)):
        left, up = (row[x - step] if x >= step else 0), above[x]
        corner = above[x - step] if x >= step else 0
        if kind == 1:
            row[x] = (row[x] + left) & 255
        elif kind == 2:
            row[x] = (row[x] + up) & 255
        elif kind == 3:
            row[x] = (row[x] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            best = min(
                (abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner)
            )
            row[x] = (row[x] + best[2]) & 255
    return bytes(row)
