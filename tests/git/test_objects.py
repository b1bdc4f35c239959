"""Objects read through one git that stays: the same answers as from a git of its own for each question."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.git import locking, objects, settings
from beads_ralph.git.objects import ObjectReader
from tests.git.repos import git

NAMES = ("a.txt", "b/c.txt", "b/d/e.txt", "ü b/ö.txt", "-x", "b/new\nline", "z")


@pytest.fixture
def reader(repo: Path) -> ObjectReader:
    return ObjectReader(repo, {})


def commit(repo: Path, files: dict[str, str | None]) -> str:
    for name, text in files.items():
        path = repo / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "next")
    return git(repo, "rev-parse", "HEAD")


@pytest.mark.parametrize("seed", range(5))
def test_files_and_changes_are_as_git_itself_tells(repo: Path, reader: ObjectReader, seed: int) -> None:
    luck = random.Random(seed)
    commits = [
        commit(repo, {name: luck.choice((None, "one\n", "two\n")) for name in luck.sample(NAMES, 4)})
        for _ in range(4)
    ]
    for old in commits:
        listed = git(repo, "ls-tree", "-r", "-z", "--name-only", old).split("\0")
        assert sorted(reader.files(old)) == sorted(filter(None, listed))
        for new in commits:
            told = git(repo, "diff", "--name-only", "-z", "--no-renames", old, new).split("\0")
            assert [one.path for one in reader.changes(old, new)] == sorted(filter(None, told))
    reader.close()


def test_a_folder_that_becomes_a_file_is_every_file_of_it(repo: Path, reader: ObjectReader) -> None:
    old = commit(repo, {"x/a": "1", "x/b": "2"})
    (repo / "x/a").unlink()
    (repo / "x/b").unlink()
    (repo / "x").rmdir()
    new = commit(repo, {"x": "3"})
    rows = {one.path: (one.old is None, one.new is None) for one in reader.changes(old, new)}
    assert rows == {"x": (True, False), "x/a": (False, True), "x/b": (False, True)}
    reader.close()


def test_texts_and_messages(repo: Path, reader: ObjectReader) -> None:
    base = commit(repo, {"b/c.txt": "first\n"})
    new = commit(repo, {"b/c.txt": "second\n"})
    assert [reader.text_of(one, "b/c.txt") for one in (base, new)] == ["first\n", "second\n"]
    assert reader.text_of(new, "b") == reader.text_of(new, "b/c.txt/d") == reader.text_of(new, "none") == ""
    assert reader.messages(new, base, 10) == ["next\n"]
    assert len(reader.messages(new, "", 1)) == 1
    reader.close()


def test_what_comes_later_and_a_git_that_dies_are_no_matter(repo: Path, reader: ObjectReader) -> None:
    first = commit(repo, {"a": "1"})
    assert reader.text_of(first, "a") == "1"
    process = reader._git.process if reader._git else None
    assert process is not None
    process.kill()
    process.wait()
    second = commit(repo, {"a": "2"})
    assert reader.text_of(second, "a") == "2"
    for name in ("0" * 40, "HEAD", "HEAD~1", "@"):  # HEAD of which working tree?
        with pytest.raises(RalphError, match="no commit"):
            reader.files(name)
    assert reader.text_of(first, "a") == "1"
    reader.close()


def test_it_ends_with_the_run_and_is_no_git_that_may_hold_a_lock(repo: Path, no_process_left: str) -> None:
    first = commit(repo, {"a": "1"})
    settings.take(repo)
    with settings.until_done(repo), objects.of(repo) as reader:
        assert reader.text_of(first, "a") == "1"
        assert locking.gits_at(repo) == []
        objects.rest(repo)
        assert reader.text_of(first, "a") == "1"
