"""Refs that one git moves for the whole run: each change by itself, with git's own rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beads_ralph.git import commands, locking, ref_changes, settings
from beads_ralph.process import process_table
from tests.git.repos import commit, git
from tests.git.test_index_file import asked


@pytest.fixture
def run(repo: Path) -> Iterator[Path]:
    settings.take(repo)
    with settings.until_done(repo):
        yield repo


def test_refs_are_made_and_moved_by_one_git(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, said = git(run, "rev-parse", "main"), asked(monkeypatch)
    assert ref_changes.make(run, "refs/heads/work/a", first).ok
    second = commit(run, {"later.txt": "x\n"})
    assert ref_changes.move(run, "refs/heads/work/a", second).ok
    assert ref_changes.move(run, "refs/pull/1/head", first).ok
    assert (said, locking.gits_at(run)) == ([], [])
    found = commands.refs_of(run)
    assert (found["refs/heads/work/a"], found["refs/pull/1/head"]) == (second, first)
    assert git(run, "reflog", "show", "--format=%H", "work/a").split() == [second, first]


def test_a_change_that_cannot_be_made_is_told_and_stops_no_other(run: Path) -> None:
    main = git(run, "rev-parse", "main")
    assert "already exists" in ref_changes.make(run, "refs/heads/main", main).stderr
    assert "main" in ref_changes.make(run, "refs/heads/main/below", main).stderr
    assert not ref_changes.move(run, "refs/heads/none", "1" * 40).ok
    assert not ref_changes.make(run, 'refs/heads/a"b\n', main).ok
    assert ref_changes.make(run, "refs/heads/fine", main).ok
    ref_changes.rest(run)
    assert ref_changes.move(run, "refs/heads/fine", main).ok
    assert sorted(git(run, "for-each-ref", "--format=%(refname:short)").split()) == ["fine", "main"]


def test_the_git_of_another_repository_keeps_no_lock_alive_here(run: Path, tmp_path: Path) -> None:
    """It stays as long as that other run, so that no lock of a killed one would ever be cleared."""
    assert ref_changes.make(run, "refs/heads/work/a", git(run, "rev-parse", "main")).ok
    (pid,) = [pid for pid in locking.STAYING if process_table.folder_of(pid) == run]
    assert locking.waits_elsewhere(pid, tmp_path / "other" / ".git" / "worktrees" / "a" / "HEAD.lock")
    assert not locking.waits_elsewhere(pid, run / ".git" / "worktrees" / "a" / "HEAD.lock")
