"""A real Temporal server for tests: on loopback, with a database file of its own, ended by its number."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import IN_CI

# Read before any test changes the environment.
GIVEN = os.environ.get("BEADS_RALPH_TEMPORAL")
PATIENCE_SECONDS = 120
NAMESPACE = "default"


def need_temporal() -> str:
    """The temporal command. Without it the test is skipped, and fails in CI."""
    if GIVEN and Path(GIVEN).is_file():
        return GIVEN
    message = "needs the Temporal server: export BEADS_RALPH_TEMPORAL=$(tools/temporal/install)"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def free_port(ip: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((ip, 0))
        return int(probe.getsockname()[1])


@dataclass
class TemporalServer:
    """A development server. What it knows lies in `database`, so that it goes on where it was ended."""

    program: str
    database: Path
    port: int
    ip: str = "127.0.0.1"
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.ip}:{self.port}"

    @property
    def log(self) -> Path:
        return self.database.with_suffix(".log")

    @property
    def words(self) -> list[str]:
        return [
            *(self.program, "server", "start-dev", "--headless", "--ip", self.ip, "--port", str(self.port)),
            *("--db-filename", str(self.database), "--log-level", "error"),
            *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"),
            *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"),
        ]

    def start(self) -> None:
        """Start it, also after it was killed, and wait until it serves its namespace."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + PATIENCE_SECONDS
        while not self.serves():
            waiting = self.process.poll() is None and time.monotonic() < until
            assert waiting, self.log.read_text("utf-8", "replace")
            time.sleep(0.05)

    def serves(self) -> bool:
        """Tell whether it answers for its namespace, which it makes a moment after it listens."""
        with socket.socket() as probe:
            if probe.connect_ex((self.ip, self.port)):
                return False
        words = ["operator", "namespace", "describe", "--namespace", NAMESPACE, "--address", self.address]
        done = subprocess.run([self.program, *words], capture_output=True, timeout=60, check=False)
        return done.returncode == 0

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a lost machine would: nothing is written any more."""
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@contextmanager
def running_server(folder: Path, ip: str = "127.0.0.1") -> Iterator[TemporalServer]:
    server = TemporalServer(need_temporal(), folder / "temporal.db", free_port(ip), ip)
    server.start()
    try:
        yield server
    finally:
        server.end(signal.SIGKILL)
