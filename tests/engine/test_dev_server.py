"""beads-ralph engine: one server a user, found again by whoever asks, ended only if it is that one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.engine import dev_server, server_program
from beads_ralph.process import process_table
from tests.cli.running import ralph
from tests.engine.servers import free_port, need_temporal


def engine(*words: str) -> tuple[int, dict[str, Any]]:
    done = ralph("engine", *words, "--json", cwd=Path.cwd())
    return done.code, done.envelope["data"] if done.envelope["success"] else done.envelope["error"]


def until_gone(pid: int) -> None:
    """A child of the test's own process is reaped here; a stranger would be by its own parent."""
    os.waitpid(pid, 0)
    assert process_table.is_gone(pid)


# --- without a server -----------------------------------------------------------------------------------


def test_without_a_server_status_says_so_and_stop_has_nothing_to_do() -> None:
    assert engine("status") == (1, {"running": False, "answers": False})
    assert engine("stop") == (0, {"stopped": False, "address": None})


def write_note(pid: int, process: str) -> Path:
    """What `start` leaves: a note of the server's process."""
    folder = dev_server.folder()
    folder.mkdir(parents=True)
    place = {"program": "temporal", "database": str(folder / "db"), "log": str(folder / "log")}
    note = {"process": process, "pid": pid, "ip": "127.0.0.1", "port": 1, **place}
    (folder / "server.json").write_text(json.dumps(note), "utf-8")
    return folder / "server.json"


def test_a_stranger_with_the_number_of_a_dead_server_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        host, number, _start = process_table.name_of_process(stranger.pid).split(":")
        note = write_note(stranger.pid, f"{host}:{number}:00000000-1")
        code, said = engine("status")
        assert (code, said["running"]) == (1, False)
        assert engine("stop") == (0, {"stopped": False, "address": None})
        assert not note.exists()
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '"x"'])
def test_a_note_that_cannot_be_read_is_no_server(text: str) -> None:
    dev_server.folder().mkdir(parents=True)
    (dev_server.folder() / "server.json").write_text(text, "utf-8")
    assert engine("status")[0] == 1
    assert engine("stop")[0] == 0


def program(tmp_path: Path, said: str) -> Path:
    """A folder with git and a `temporal` which says that of itself, and without Go."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").symlink_to(shutil.which("git") or "git")
    path = folder / "temporal"
    path.write_text(f"#!/bin/sh\necho '{said}'\n", "utf-8")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "said", ["temporal version 1.4.9 (Server 1.28.0)", "temporal version 0.0.0-DEV", "no"]
)
def test_an_old_program_is_not_used_and_without_go_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path, said)))
    code, error = engine("start", "--port", "0")
    assert (code, error["code"]) == (1, "EXECUTION.UNAVAILABLE")
    assert server_program.VERSION in error["message"] + error["suggested_action"]
    assert dev_server.noted() is None


def test_a_port_that_somebody_has_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path, "temporal version 1.5.1")))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, error = engine("start", "--port", str(taken.getsockname()[1]))
    assert (code, error["code"]) == (1, "EXECUTION.UNAVAILABLE")
    assert "--port 0" in error["suggested_action"]


def test_a_server_that_ends_at_once_is_told_with_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path, "temporal version 1.5.1")))
    code, error = engine("start", "--port", str(free_port()))
    assert (code, error["code"]) == (1, "EXECUTION.UNAVAILABLE")
    assert "temporal version" in error["details"]
    assert engine("status")[0] == 1


# --- the real one ---------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The real program; whatever server the test leaves is ended by its note."""
    monkeypatch.setenv(server_program.NAMED, need_temporal())
    yield
    dev_server.stop()


@pytest.mark.full
@pytest.mark.temporal
def test_a_server_is_started_once_found_again_and_stopped(installed: None) -> None:
    code, first = engine("start", "--port", "0")
    assert (code, first["started"], first["running"]) == (0, True, True)
    code, again = engine("start")
    assert (code, again["started"], again["pid"]) == (0, False, first["pid"])
    code, error = engine("start", "--port", str(free_port()))
    assert (code, error["suggested_action"]) == (1, "Use that one, or: beads-ralph engine stop")
    code, seen = engine("status")
    assert (code, seen["answers"], seen["address"]) == (0, True, first["address"])
    assert engine("stop") == (0, {"stopped": True, "address": first["address"]})
    until_gone(first["pid"])
    assert engine("status")[0] == 1


@pytest.mark.full
@pytest.mark.temporal
def test_a_server_that_was_killed_is_started_again_on_what_it_knew(installed: None) -> None:
    _code, first = engine("start", "--port", "0")
    create = ["operator", "namespace", "create", "--namespace", "kept", "--address", first["address"]]
    subprocess.run([first["program"], *create], check=True, capture_output=True, timeout=60)
    os.kill(first["pid"], signal.SIGKILL)
    until_gone(first["pid"])
    code, seen = engine("status")
    assert (code, seen["running"], seen["pid"]) == (1, False, first["pid"])
    code, second = engine("start", "--port", "0")
    assert (code, second["started"]) == (0, True)
    assert second["pid"] != first["pid"]
    describe = ["operator", "namespace", "describe", "--namespace", "kept", "--address", second["address"]]
    until = time.monotonic() + 60
    while subprocess.run(
        [first["program"], *describe], capture_output=True, check=False, timeout=60
    ).returncode:
        assert time.monotonic() < until
    engine("stop")
    until_gone(second["pid"])
