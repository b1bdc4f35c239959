"""Programs that show no sign of life, and those that only look like it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from beads_ralph.process import process_table
from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Exit
from beads_ralph.process.signs_of_life import changed_since
from tests.executors.running import job, python, run, shell

LIMIT = 1.5
LONGER = 3 * LIMIT


def ended(folder: Path, script: str) -> Exit:
    return run(LocalExecutor(), shell(folder, script, stall_limit=LIMIT))


def test_a_program_that_only_waits_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    found = ended(tmp_path, "echo begun; sleep 300 & sleep 300")
    assert (found.stalled, found.limit, found.timed_out, found.ok) == (LIMIT, "stalled", False, False)
    assert found.stdout == "begun\n"
    assert found.cut_short.startswith("stalled: ")


@pytest.mark.parametrize(
    "script",
    [
        f"end=$(($(date +%s) + {LONGER:.0f} + 1)); while [ $(date +%s) -lt $end ]; do :; done",
        f"i=0; while [ $i -lt {LONGER * 4:.0f} ]; do i=$((i + 1)); echo $i > here; sleep 0.25; done",
        f"i=0; while [ $i -lt {LONGER * 4:.0f} ]; do i=$((i + 1)); echo $i; sleep 0.25; done",
    ],
    ids=["works", "changes a file", "prints"],
)
def test_a_program_that_is_at_work_is_left_to_it(tmp_path: Path, script: str) -> None:
    found = ended(tmp_path, script)
    assert (found.code, found.limit) == (0, "")


def test_work_in_a_process_that_left_its_group_counts(tmp_path: Path) -> None:
    """As a build server does, which nobody waits for."""
    busy = f"import time; e = time.monotonic() + {LONGER}\nwhile time.monotonic() < e: pass"
    program = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], start_new_session=True)"
    )
    found = run(LocalExecutor(), python(tmp_path, program, stall_limit=LIMIT))
    assert (found.code, found.limit) == (0, "")


def test_without_a_limit_nobody_looks(tmp_path: Path) -> None:
    assert run(LocalExecutor(), job(tmp_path, "sleep", "2")).limit == ""


def test_a_change_anywhere_in_the_folder_is_seen(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "old").write_text("x", encoding="utf-8")
    moment = max(path.stat().st_ctime for path in (tmp_path, *tmp_path.rglob("*")))
    assert not changed_since(tmp_path, moment)
    while time.time() <= moment + 0.05:
        time.sleep(0.01)
    (deep / "old").unlink()
    assert changed_since(tmp_path, moment)
    assert not changed_since(tmp_path / "nowhere", 0.0)


def test_work_of_a_process_is_told() -> None:
    before = process_table.worked(os.getpid())
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert process_table.worked(os.getpid()) >= before + 0.1
