"""The one reader of /proc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beads_ralph.process import process_table
from tests.executors.running import wait_until

SOURCE = Path(__file__).parents[2] / "src" / "beads_ralph"
READS = re.compile(r"""["']/proc/|Path\(["']/proc""")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "TABLE_MARK": "a=b"}
    with (
        (tmp_path / "open file").open("wb") as file,
        subprocess.Popen(["sleep", "600"], cwd=tmp_path, env=environment, stdout=file) as process,
    ):
        wait_until(lambda: process_table.name_of(process.pid) == "sleep")
        try:
            yield process
        finally:
            process.kill()


def test_a_process_tells_who_and_where_it_is(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    pid = child.pid
    seen = process_table.read_table()[pid]
    assert seen == process_table.read_process(pid)
    assert (seen.parent, seen.group, seen.session) == (os.getpid(), os.getpgid(pid), os.getsid(pid))
    assert process_table.words_of(pid) == ["sleep", "600"]
    assert process_table.folder_of(pid) == tmp_path.resolve()
    assert process_table.variable_of(pid, "TABLE_MARK") == "a=b"
    assert process_table.has_entry(seen, b"TABLE_MARK=a=b")
    assert not process_table.has_entry(seen, b"TABLE_MARK=a")
    assert process_table.resident(pid) >= process_table.proportional(pid) > 0
    assert process_table.is_open(tmp_path / "open file")


def test_one_that_has_ended_is_nobody(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    seen = process_table.read_process(child.pid)
    assert seen is not None
    assert process_table.is_alive(seen)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process_table.is_alive(seen), "a zombie has ended"
    child.wait()
    pid = child.pid
    assert process_table.read_process(pid) is None
    assert (process_table.words_of(pid), process_table.folder_of(pid)) == ([], None)
    assert (process_table.name_of(pid), process_table.variable_of(pid, "TABLE_MARK")) == ("", "")
    assert (process_table.start_of(pid), process_table.resident(pid), process_table.proportional(pid)) == (
        0,
        0,
        0,
    )


def test_starts_are_in_the_order_of_the_clock(child: subprocess.Popen[bytes]) -> None:
    ours, other = process_table.read_process(os.getpid()), process_table.read_process(child.pid)
    assert ours is not None
    assert other is not None
    assert ours.began <= other.began
    assert child.pid in process_table.read_table(since=other.started)
    assert os.getpid() not in process_table.read_table(since=ours.started + 1)


def test_a_name_holds_as_long_as_its_process() -> None:
    program = (
        "from beads_ralph.process import process_table as t; print(t.own_name(), t.is_running(t.own_name()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    name, running = done.stdout.split()
    assert running == "True"
    assert not process_table.is_running(name)
    host, pid, started = process_table.own_name().split(":")
    assert process_table.is_running(f"{host}:{pid}:{started}")
    assert not process_table.is_running(f"{host}:{pid}:{started}0"), "the number is another's by now"
    assert process_table.is_running(f"{host}x:{pid}:{started}0"), "nothing is known of other hosts"


def test_nobody_else_reads_the_table() -> None:
    readers = {path for path in SOURCE.rglob("*.py") if READS.search(path.read_text(encoding="utf-8"))}
    assert {path.relative_to(SOURCE).as_posix() for path in readers} == {"process/process_table.py"}
