"""A checkout that nobody has touched is seen without git; whatever was done to it, git is asked."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beads_ralph.git import commands, index_file, proofs, settings
from beads_ralph.git.checkout import Checkout
from tests.git.repos import commit, git

FILES: dict[str, str | bytes | None] = {"a.txt": "one\n", "b/c.txt": "two\n", "b/d/e f.sh": "x" * 5000}


@pytest.fixture
def clean(repo: Path) -> Iterator[Checkout]:
    (repo / "link").symlink_to("a.txt")
    done = commit(repo, FILES)
    with settings.until_done(repo), proofs.at(repo).checkout(done) as checkout:
        yield checkout


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of every git that is run from now on."""
    said: list[str] = []
    run = commands.run

    def noted(*words: str, **more: object) -> object:
        said.append(words[0])
        return run(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(commands, "run", noted)
    return said


def test_nobody_asks_git_about_a_checkout_that_nobody_touched(
    clean: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = asked(monkeypatch)
    (clean.path / "empty" / "folders").mkdir(parents=True)
    git(clean.path, "commit", "--quiet", "--allow-empty", "--message", "in the checkout's own repository")
    assert (clean.changed(), clean.put_back(), clean.untracked()) == ([], ([], set()), set())
    assert said == []


def in_the_same_moment(path: Path) -> None:
    """As long as it was, and with the times that it had."""
    then = path.stat()
    path.write_bytes(b"ONE\n")
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def swapped(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy2(path, other)
    other.replace(path)


def relinked(path: Path) -> None:
    path.unlink()
    path.symlink_to("b/c.txt")


def linked(tree: Path) -> None:
    (tree / "b").rename(tree.parent / "b")
    (tree / "b").symlink_to(tree.parent / "b")


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda tree: (tree / "a.txt").write_text("other\n"),
    "content of the same length, times put back": lambda tree: in_the_same_moment(tree / "a.txt"),
    "mode": lambda tree: (tree / "a.txt").chmod(0o755),
    "gone": lambda tree: (tree / "b" / "c.txt").unlink(),
    "a link to elsewhere": lambda tree: relinked(tree / "link"),
    "a link for a file": lambda tree: relinked(tree / "a.txt"),
    "a link for a folder": linked,
    "another file with the same content": lambda tree: swapped(tree / "a.txt"),
    "new": lambda tree: (tree / "b" / "d" / "new").write_text("x"),
    "new link": lambda tree: (tree / "new").symlink_to("."),
    "new repository": lambda tree: git(tree, "init", "--quiet", "inner"),
    "a pipe": lambda tree: os.mkfifo(tree / "pipe"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_git_is_asked_about_any_change(clean: Checkout, change: Callable[[Path], object]) -> None:
    index = Path(clean.env["GIT_INDEX_FILE"])
    assert index_file.is_unchanged(clean.path, index, len(clean.commit))
    change(clean.path)
    assert not index_file.is_unchanged(clean.path, index, len(clean.commit))


def test_an_index_that_is_not_plain_to_read_is_left_to_git(clean: Checkout) -> None:
    index = Path(clean.env["GIT_INDEX_FILE"])
    whole, draw = index.read_bytes(), random.Random(7)
    for _ in range(200):
        cut = draw.randrange(len(whole))
        index.write_bytes(draw.choice([whole[:cut], whole[:cut] + b"\xff" * 4 + whole[cut + 4 :]]))
        index_file.is_unchanged(clean.path, index, len(clean.commit))  # whatever it says, it does not raise
    index.write_bytes(whole)
    commands.output("update-index", "--index-version", "4", cwd=clean.path, env=clean.env)
    assert not index_file.is_unchanged(clean.path, index, len(clean.commit))
    assert (clean.changed(), clean.put_back()) == ([], ([], set()))
