"""Commits, trees and files as git keeps them, read through one git that stays: starting it for each of a
bead's many small questions cost more than the answers."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, settings
from beads_ralph.git.settings import GitSettings
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Answering, Job

FOLDER: Final = "40000"
LINK: Final = "120000"
SUBMODULE: Final = "160000"
LONGEST: Final = 64 * 1024 * 1024
"""So much of an object is kept; nobody who asks here needs more."""
PIECE: Final = 1024 * 1024
BINARY_PROBE: Final = 8000
PARENT: Final = re.compile(r"^parent (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class TreeEntry:
    """A file of a tree."""

    mode: str
    id: str


@dataclass(frozen=True)
class FileChange:
    """A file that differs between two commits; None where one of them does not have it."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None


class ObjectReader:
    """One `git cat-file` that answers until it is closed. Several threads may ask; each waits its turn."""

    def __init__(self, cwd: Path, env: Mapping[str, str]) -> None:
        self._cwd, self._env = cwd, env
        self._turn = threading.Lock()
        self._git: Answering | None = None
        self._trees = lru_cache(maxsize=4096)(self._tree)

    def files(self, commit: str) -> dict[str, TreeEntry]:
        """Every file of a commit, links and submodules included."""
        return {_shown(path): entry for path, entry in self._below("", self._root(commit))}

    def changes(self, base: str, commit: str) -> list[FileChange]:
        """The files that differ, by name; a renamed one is two of them."""
        return sorted(self._compared("", self._root(base), self._root(commit)), key=lambda one: one.path)

    def messages(self, commit: str, until: str, most: int) -> list[str]:
        """What the last commits say, up to one that is not among them."""
        found: dict[str, str] = {}
        waiting = deque([commit])
        while waiting and len(found) < most:
            id_ = waiting.popleft()
            said = self._asked(id_) if id_ != until and id_ not in found else None
            if said and said[0] == "commit":
                head, _, found[id_] = said[1].decode("utf-8", "replace").partition("\n\n")
                waiting += PARENT.findall(head)
        return list(found.values())

    def text_of(self, commit: str, path: str) -> str:
        """A file of a commit; empty where it has none."""
        found = self.entry(commit, path)
        return self.text(found.id) if found else ""

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """A file or folder of a commit; None where it has none."""
        *folders, name = path.split("/")
        tree = self._trees(self._root(commit))
        for folder in folders:
            below = tree.get(folder)
            tree = self._trees(below.id) if below and below.mode == FOLDER else {}
        return tree.get(name)

    def text(self, id_: str) -> str:
        """A file by its own id."""
        return self.content(id_).decode("utf-8", "replace")

    def content(self, id_: str) -> bytes:
        """The same, as it is; empty where there is none."""
        found = self._asked(id_)
        return found[1] if found and found[0] == "blob" else b""

    def whole(self, id_: str, kind: str) -> bytes | None:
        """An object as git has it; None where there is none of the kind, or only the beginning of it was
        kept."""
        found = self._asked(id_)
        return found[1] if found and found[0] == kind and len(found[1]) < LONGEST else None

    def commit_of(self, name: str) -> str | None:
        """The commit that a tag or a commit's own name leads to."""
        found = self._asked(f"{name}^{{commit}}")
        return found[2] if found else None

    # --- trees ---

    def _root(self, commit: str) -> str:
        """HEAD is refused: it would be that of the main working tree, wherever the question comes from."""
        found = None if commit.startswith(("HEAD", "@")) else self._asked(f"{commit}^{{tree}}")
        if found is None:
            raise RalphError(Code.GIT_ERROR, f"git has no commit {commit}")
        return found[2]

    def _tree(self, id_: str) -> dict[str, TreeEntry]:
        found = self._asked(id_)
        if found is None or found[0] != "tree":
            raise RalphError(Code.GIT_ERROR, f"git cannot read the tree {id_}")
        return dict(entries_of(found[1], len(id_) // 2))

    def _below(self, path: str, id_: str) -> Iterator[tuple[str, TreeEntry]]:
        for name, entry in self._trees(id_).items():
            if entry.mode == FOLDER:
                yield from self._below(f"{path}{name}/", entry.id)
            else:
                yield f"{path}{name}", entry

    def _compared(self, path: str, old: str, new: str) -> Iterator[FileChange]:
        if old == new:
            return
        before, after = self._trees(old), self._trees(new)
        for name in {**before, **after}:
            was, now = before.get(name), after.get(name)
            if was != now:
                yield from self._changed(f"{path}{name}", was, now)

    def _changed(self, path: str, was: TreeEntry | None, now: TreeEntry | None) -> Iterator[FileChange]:
        if was and now and was.mode == now.mode == FOLDER:
            yield from self._compared(f"{path}/", was.id, now.id)
            return
        gone, come = dict(self._whole(path, was)), dict(self._whole(path, now))
        yield from (FileChange(_shown(name), gone.get(name), come.get(name)) for name in {**gone, **come})

    def _whole(self, path: str, entry: TreeEntry | None) -> Iterator[tuple[str, TreeEntry]]:
        if entry and entry.mode == FOLDER:
            yield from self._below(f"{path}/", entry.id)
        elif entry:
            yield path, entry

    # --- the process ---

    def _asked(self, name: str) -> tuple[str, bytes, str] | None:
        """An object's kind, content and id. A git that has died, or does not know what came since, is asked
        anew."""
        with self._turn:
            found = self._answer(name)
            if found is None:
                self._end()
                found = self._answer(name)
            return found

    def _answer(self, name: str) -> tuple[str, bytes, str] | None:
        git = self._git = self._git or self._start()
        try:
            git.asks.write(f"{name}\n".encode("utf-8", "surrogateescape"))
            git.asks.flush()
            id_, kind, size = git.answers.readline().decode("utf-8", "replace").split()
            return kind, _read(git.answers, int(size)), id_
        except (OSError, ValueError):  # `… missing` has too few words
            return None

    def _start(self) -> Answering:
        env = jobs.environment({**commands.FIXED, **self._env}, drop_prefixes=settings.PLACES)
        return Answering(Job(("git", "cat-file", "--batch"), self._cwd, env=env))

    def _end(self) -> None:
        if self._git is not None:
            self._git.end()
        self._git = None

    def close(self) -> None:
        with self._turn:
            self._end()


def _read(stream: IO[bytes], size: int) -> bytes:
    """An object of this size, and the line end after it; what is too long is read and not kept."""
    kept = stream.read(min(size, LONGEST))
    left = size - len(kept)
    while left > 0 and (piece := stream.read(min(left, PIECE))):
        left -= len(piece)
    if stream.read(1) != b"\n":
        raise OSError("git ended in the middle of an object")
    return kept


def entries_of(tree: bytes, length: int) -> Iterator[tuple[str, TreeEntry]]:
    """What a tree says, with ids of so many bytes."""
    place = 0
    while place < len(tree):
        blank, end = tree.index(b" ", place), tree.index(b"\0", place)
        after = end + 1 + length
        name = tree[blank + 1 : end].decode("utf-8", "surrogateescape")
        yield name, TreeEntry(tree[place:blank].decode(), tree[end + 1 : after].hex())
        place = after


def _shown(path: str) -> str:
    """A path as all else has it, of which some bytes may be no text."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_binary(content: bytes) -> bool:
    """As git itself tells it."""
    return b"\0" in content[:BINARY_PROBE]


# --- the run's ----------------------------------------------------------------------------------------


_readers: Final[dict[Path, ObjectReader]] = {}
_opening: Final = threading.Lock()


@contextmanager
def of(cwd: Path) -> Iterator[ObjectReader]:
    """The reader of the run whose repository this place belongs to; else one for the moment."""
    run = settings.at(cwd)
    if run is not None:
        yield _of_run(run)
        return
    reader = ObjectReader(cwd, {})
    try:
        yield reader
    finally:
        reader.close()


def rest(root: Path) -> None:
    """Nothing is left running; who asks again starts it again."""
    run = settings.at(root)
    reader = _readers.get(run.folder) if run else None
    if reader is not None:
        reader.close()


def _of_run(run: GitSettings) -> ObjectReader:
    with _opening:
        if run.folder not in _readers:
            reader = _readers[run.folder] = ObjectReader(run.root, settings.environment(run.root))
            run.at_end += [reader.close, lambda: _readers.pop(run.folder, None)]
        return _readers[run.folder]
