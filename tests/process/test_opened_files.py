"""Files that are opened below a folder are noted while something runs there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beads_ralph.process import opened_files
from beads_ralph.process.jobs import Job, run
from beads_ralph.process.opened_files import OpenedFiles
from beads_ralph.process.sandbox import Sandbox
from tests.conftest import need_bwrap

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("read.txt", "not read.txt", "deep/er/read.sh", "deep/written.txt"):
        (tmp_path / name).write_text("true\n", "utf-8")
    return tmp_path


FOLDERS = ("", "deep", "deep/er", "gone")
COMMAND = "cat read.txt; ls deep > /dev/null; sh deep/er/read.sh; test -f 'not read.txt'"
READ = {"read.txt", "deep/er/read.sh"}


def test_what_processes_open_is_noted_and_nothing_else(place: Path) -> None:
    opened = OpenedFiles()
    with opened_files.watched(place, FOLDERS, opened):
        subprocess.run(["/bin/sh", "-c", COMMAND], cwd=place, check=True, stdout=subprocess.DEVNULL)
    (place / "deep" / "written.txt").read_text("utf-8")
    assert (opened.files, opened.problem) == (READ, "")


def test_what_is_opened_unseen_is_not_noted(place: Path) -> None:
    opened = OpenedFiles()
    with opened_files.watched(place, FOLDERS, opened):
        (place / "read.txt").read_text("utf-8")
        with opened.unseen():
            (place / "not read.txt").read_text("utf-8")
        (place / "deep" / "written.txt").read_text("utf-8")
    assert opened.files == {"read.txt", "deep/written.txt"}


def test_what_is_opened_inside_a_sandbox_is_noted(place: Path) -> None:
    need_bwrap()
    job = Sandbox(place).wrap(Job(("/bin/sh", "-c", COMMAND), place))
    opened = OpenedFiles()
    with opened_files.watched(place, FOLDERS, opened):
        assert run(job).ok
    assert opened.files >= READ


def test_many_openings_are_all_noted(tmp_path: Path) -> None:
    names = {f"{number}.txt" for number in range(3000)}
    for name in names:
        (tmp_path / name).touch()
    opened = OpenedFiles()
    with opened_files.watched(tmp_path, [""], opened):
        for _ in range(10):
            for name in names:
                (tmp_path / name).read_bytes()
    assert (opened.files, opened.problem) == (names, "") or "kernel" in opened.problem


def test_where_nobody_can_watch_it_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenedFiles()
    with opened_files.watched(place, map(str, range(opened_files.MOST_FOLDERS + 1)), opened):
        (place / "read.txt").read_text("utf-8")
    assert (opened.files, "too many" in opened.problem) == (set(), True)
    monkeypatch.setattr(sys, "platform", "darwin")
    opened = OpenedFiles()
    with opened_files.watched(place, [""], opened):
        (place / "read.txt").read_text("utf-8")
    assert (opened.files, "platform" in opened.problem) == (set(), True)
