"""The one lock on a file: one holder at a time, freed with its process, and no ghost of a removed file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock

SOURCE = Path(__file__).parents[2] / "src" / "beads_ralph"
HOLDER = """
import sys, time
from pathlib import Path
from beads_ralph.files import lock
with lock.held(Path(sys.argv[1]), 60, SystemExit):
    print("held", flush=True)
    time.sleep(600)
"""


def refused() -> RalphError:
    return RalphError(Code.CONFLICT, "somebody has it")


@contextmanager
def held_by_another(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_another_process_is_refused_until_the_holder_dies(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held_by_another(path) as holder:
        assert lock.is_held(path)
        with pytest.raises(RalphError, match="somebody has it"), lock.held(path, 0, refused):
            pass
        holder.kill()
        with lock.held(path, 60, refused):
            assert lock.is_held(path)
    assert not lock.is_held(path)


def test_asking_does_not_take_the_lock_nor_make_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    assert not lock.is_held(path)
    assert not path.exists()
    path.touch()
    with lock.held(path, 0, refused):
        assert lock.is_held(path)
        assert lock.is_held(path)
    with lock.held(path, 0, refused):
        pass


@pytest.mark.parametrize("remove", [False, True])
def test_threads_take_turns_whether_the_file_is_removed_or_not(tmp_path: Path, remove: bool) -> None:
    """A waiting thread may open the file that the holder is about to remove: that one counts for nothing."""
    path, inside, most = tmp_path / "x.lock", 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with lock.held(path, 60, refused, remove=remove):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert path.exists() is not remove


def test_the_file_of_a_dead_holder_can_be_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock.remove_free(path)
    with lock.held(path, 0, refused):
        lock.remove_free(path)
        assert path.exists()
    lock.remove_free(path)
    assert not path.exists()


def test_a_note_replaces_the_one_before_it_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text("the holder before, whose note was longer")
    before = path.stat().st_ino
    with lock.held(path, 0, refused) as file:
        lock.write_note(file, "me")
        assert path.read_text() == "me"
    assert path.stat().st_ino == before


def test_a_lock_that_cannot_be_made_names_its_path(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "x.lock"
    with (
        pytest.raises(RalphError, match="cannot open") as caught,
        lock.held(path, 0, refused),
    ):
        pass
    assert str(path) in caught.value.message
    assert caught.value.code == Code.WRITE_FAILED


def test_a_part_of_a_file_is_locked_against_other_processes(tmp_path: Path) -> None:
    program = """
import os, sys
from beads_ralph.files import lock
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print(lock.take_bytes(file, 10, 5), lock.take_bytes(file, 20, 5))
"""
    path = tmp_path / "parts"
    file = os.open(path, os.O_RDWR | os.O_CREAT)

    def asked() -> str:
        command = [sys.executable, "-c", program, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        assert lock.take_bytes(file, 12, 1)
        assert asked() == "False True"
        lock.free_bytes(file, 12, 1)
        assert asked() == "True True"
    finally:
        os.close(file)


def test_nobody_else_locks_files() -> None:
    users = {path for path in SOURCE.rglob("*.py") if "fcntl" in path.read_text(encoding="utf-8")}
    assert {path.relative_to(SOURCE).as_posix() for path in users} == {"files/lock.py"}
