"""The development server: one a user, on loopback, with a database file; started, looked at and stopped.

Its process is known by number and start, so that nobody else's is ever taken for it. What it has been told
lies in its database and outlives it: started again, it goes on where it was.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from beads_ralph.engine import server_program
from beads_ralph.engine.server_program import Say
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.process import jobs, process_table
from beads_ralph.process.jobs import Job

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 7233
NAMESPACE: Final = "default"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.05
PROBE_SECONDS: Final = 30.0
LOCK_SECONDS: Final = 180.0
TOLD: Final = 2000
"""So much of its log goes into an error."""


@dataclass(frozen=True)
class DevServer:
    """A server that `start` has started, as it is noted in the user's state folder."""

    process: str
    """Host, number and start; see `process_table`."""
    pid: int
    ip: str
    port: int
    program: str
    database: str
    log: str

    @property
    def address(self) -> str:
        return f"{self.ip}:{self.port}"

    @property
    def is_running(self) -> bool:
        # One that ended as it was started has no start to be known by.
        return process_table.is_running(self.process) and not process_table.is_gone(self.pid)

    def to_json(self) -> dict[str, Any]:
        return {
            "running": self.is_running,
            "address": self.address,
            "namespace": NAMESPACE,
            "pid": self.pid,
            "program": self.program,
            "database": self.database,
            "log": self.log,
        }


def folder() -> Path:
    """The user's own state folder: workers and servers belong to no repository."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "beads-ralph" / "engine"


def noted() -> DevServer | None:
    """The server that was started last and not stopped; it may have died since."""
    try:
        data = json.loads((folder() / "server.json").read_text("utf-8"))
        return DevServer(**data)
    except (OSError, ValueError, TypeError):
        return None


def running() -> DevServer | None:
    server = noted()
    return server if server and server.is_running else None


# --- starting -----------------------------------------------------------------------------------------


def start(port: int | None, say: Say) -> tuple[DevServer, bool]:
    """The server, and whether it was started now. One that runs stays as it is."""
    text_files.make_folder(folder(), private=True)
    with _alone():
        if there := running():
            _require_same_port(there, port)
            _await(there)
            return there, False
        program = server_program.find_or_build(say)
        server = _started(program, _free_port(PORT if port is None else port))
        try:
            _await(server)
        except RalphError:
            _end(server)
            raise
        return server, True


def _require_same_port(there: DevServer, port: int | None) -> None:
    if port in {None, 0, there.port}:
        return
    message = f"a server is running already, at {there.address}"
    raise RalphError(Code.UNAVAILABLE, message, suggested_action="Use that one, or: beads-ralph engine stop")


def _free_port(wanted: int) -> int:
    """The port itself, or any free one where 0 is asked for."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, wanted))
        except OSError as problem:
            message = f"port {wanted} cannot be had: {problem.strerror}"
            action = "Choose another: beads-ralph engine start --port 0 takes any that is free"
            raise RalphError(Code.UNAVAILABLE, message, suggested_action=action) from None
        return int(tried.getsockname()[1])


def _started(program: str, port: int) -> DevServer:
    database, log = folder() / "temporal.db", folder() / "server.log"
    job = Job(_words(program, port, database), folder())
    with log.open("wb") as out:
        pid = jobs.start_lasting(job, out)
    name = process_table.name_of_process(pid)
    server = DevServer(name, pid, LOOPBACK, port, program, str(database), str(log))
    text_files.write_text(folder() / "server.json", json.dumps(asdict(server), indent=2), private=True)
    return server


def _words(program: str, port: int, database: Path) -> tuple[str, ...]:
    return (
        *(program, "server", "start-dev", "--headless", "--ip", LOOPBACK, "--port", str(port)),
        *("--db-filename", str(database), "--log-level", "warn"),
        *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"),
        # Without it, 95 ms pass between two steps of a workflow.
        *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"),
    )


def _await(server: DevServer) -> None:
    """Until it serves its namespace."""
    until = time.monotonic() + START_SECONDS
    while not serves(server):
        if not server.is_running:
            raise _failed(server, "the server ended as soon as it was started")
        if time.monotonic() > until:
            raise _failed(
                server, f"the server at {server.address} has not answered for {START_SECONDS:.0f} s"
            )
        time.sleep(POLL_SECONDS)


def serves(server: DevServer) -> bool:
    """Tell whether it answers for its namespace, which it makes a moment after it listens."""
    with socket.socket() as tried:
        tried.settimeout(PROBE_SECONDS)
        if tried.connect_ex((server.ip, server.port)):
            return False
    asked = ("operator", "namespace", "describe", "--namespace", NAMESPACE, "--address", server.address)
    return jobs.run(Job((server.program, *asked), Path("/"), timeout=PROBE_SECONDS)).ok


def _failed(server: DevServer, message: str) -> RalphError:
    with suppress(OSError):
        told = Path(server.log).read_text("utf-8", "replace")[-TOLD:]
        action = f"Read {server.log}, then try again"
        return RalphError(Code.UNAVAILABLE, message, details=told, suggested_action=action)
    return RalphError(Code.UNAVAILABLE, message, suggested_action="Try again")


# --- stopping -----------------------------------------------------------------------------------------


def stop() -> DevServer | None:
    """End the server and forget it; the one that was ended, or None where none ran. Its database stays."""
    if noted() is None:
        return None
    with _alone():
        server = running()
        if server is not None:
            _end(server)
        (folder() / "server.json").unlink(missing_ok=True)
        return server


def _end(server: DevServer) -> None:
    """Ask it to end, and kill it where it does not."""
    _signal(server, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while server.is_running and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    if server.is_running:
        _signal(server, signal.SIGKILL)


def _signal(server: DevServer, number: signal.Signals) -> None:
    if server.is_running:
        with suppress(ProcessLookupError):
            os.kill(server.pid, number)


def _alone() -> AbstractContextManager[int]:
    """No two start or stop at the same time."""

    def refused() -> RalphError:
        message = "another beads-ralph engine command is at work"
        return RalphError(
            Code.UNAVAILABLE, message, suggested_action="Wait until it has ended, then try again"
        )

    return lock.held(folder() / "lock", LOCK_SECONDS, refused)
