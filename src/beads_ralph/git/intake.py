"""Objects that an agent made in its quarantine: checked by git's own rules, and taken over.

Nothing in the quarantine is trusted. What is not an object goes first; every object is hashed on its way,
must be well formed, and must find what it refers to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import scratch
from beads_ralph.git import commands
from beads_ralph.git.settings import GitSettings
from beads_ralph.process.jobs import Exit

SECONDS: Final = 1800.0
FOLDER: Final = re.compile(r"[0-9a-f]{2}")
LOOSE: Final = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
PACK: Final = re.compile(r"pack-[0-9a-f]+\.(?:pack|idx)")
MANY: Final = 100
"""So many objects stay a pack, as with git's own fetch."""
EMPTY_TREES: Final = frozenset(
    {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
)
"""git says that it has these, wherever one asks."""
NOT_THEIRS: Final = re.compile(
    r"no space left|disk quota|file too large|cannot allocate|out of memory|too many open|input/output error",
    re.IGNORECASE,
)
PARTIAL: Final = re.compile(r"extensions\.partialclone|remote\..*\.promisor", re.IGNORECASE)
"""Settings of a clone that has not all that its commits refer to."""
PLAIN: Final = ("--quiet", "--window=0", "--threads=1")


@dataclass(frozen=True)
class Intake:
    """The way from a quarantine's objects to the user's."""

    settings: GitSettings
    objects: Path
    """The quarantine's."""
    scratch: Path
    """A folder of ours for what is on its way."""

    def everything(self) -> str:
        """Take over all that was made; why that cannot be, empty where it was."""
        try:
            names, packed = _found(self.objects)
        except OSError as problem:
            return f"its objects cannot be read: {problem.strerror}"
        if packed:
            names = self._listed()
        return self._taken("".join(f"{name}\n" for name in names), names) if names else ""

    def history(self, commit: str, known: Iterable[str]) -> str:
        """Take over a commit with all that it needs and that is not part of the `known` ones."""
        return self._taken("".join([f"{commit}\n", *(f"^{one}\n" for one in set(known))]), [commit], "--revs")

    def _taken(self, asked: str, names: list[str], *options: str) -> str:
        made = self._run(
            "pack-objects", *PLAIN, *options, str(self.scratch / "pack"), inside=True, said=asked
        )
        packs = list(self.scratch.glob("pack-*.pack"))
        try:
            if not made.ok or len(packs) != 1:
                return _words(made)
            few = len(names) < MANY and not options
            words = ("unpack-objects", "-q") if few else ("index-pack", "--stdin")
            ended = self._run(*words, *self._strictly(), source=packs[0])
        finally:
            for path in self.scratch.glob("pack-*"):
                path.unlink()
        if not ended.ok:
            return _words(ended)
        missing = self._missing(names)
        return f"{missing[0]} is damaged" if missing else ""

    def _strictly(self) -> tuple[str, ...]:
        partial = any(PARTIAL.fullmatch(key) for key, _ in self.settings.local)
        return () if partial else ("--strict",)

    def _listed(self) -> list[str]:
        """What is in there and not the user's already: a pack may hold the whole history."""
        words = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        names = self._run(*words, inside=True, alone=True).stdout.split()
        return [*self._missing(names), *EMPTY_TREES.intersection(names)]

    def _missing(self, names: Iterable[str]) -> list[str]:
        """Those that the user's repository does not have."""
        loose = self.settings.common / "objects"
        unseen = [name for name in names if not (loose / name[:2] / name[2:]).exists()]
        if not unseen:
            return []
        asked = "".join(f"{name}\n" for name in unseen)
        rows = self._run("cat-file", "--batch-check", said=asked).stdout.splitlines()
        return [row.split()[0] for row in rows if row.endswith(" missing")]

    def _run(
        self,
        *words: str,
        said: str | None = None,
        source: Path | None = None,
        inside: bool = False,
        alone: bool = False,
    ) -> Exit:
        """One git command on the user's objects, or on those `inside`; `alone`, it sees no others."""
        root = self.settings.root
        env: Mapping[str, str] = self.settings.environment(root) or {}
        if inside:
            borrowed = (
                {} if alone else {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.settings.common / "objects")}
            )
            env = {**env, "GIT_OBJECT_DIRECTORY": str(self.objects), **borrowed}
        return commands.run(
            *words, cwd=root, timeout=SECONDS, env=env, stdin=said if source is None else source
        )


def _words(ended: Exit) -> str:
    """What git has against it. Where it is not the objects that are wrong, they wait for a better day."""
    if ended.timed_out or ended.code < 0 or NOT_THEIRS.search(ended.stderr):
        why = ended.stderr.strip() or ended.cut_short or f"git was ended by signal {-ended.code}"
        raise RalphError(Code.GIT_ERROR, "an agent's commits cannot be taken over now", details=why)
    said = ended.stderr.strip() or ended.cut_short or f"git ended with {ended.code}"
    return said.splitlines()[-1].removeprefix("fatal: ").removeprefix("error: ")


def _found(objects: Path) -> tuple[list[str], bool]:
    """The names of loose objects, and whether there are packs. Whatever else lies there is removed: other
    folders to borrow from, caches that git would believe, pipes."""
    names: list[str] = []
    packed = False
    if objects.is_symlink() or not objects.is_dir():
        return names, packed
    for folder in _kept(objects, re.compile(f"pack|{FOLDER.pattern}"), folders=True):
        if folder.name == "pack":
            packed = bool(list(_kept(folder, PACK)))
        else:
            names += [f"{folder.name}{file.name}" for file in _kept(folder, LOOSE)]
    return names, packed


def _kept(folder: Path, named: re.Pattern[str], *, folders: bool = False) -> Iterator[Path]:
    """What is so named, files or folders; the rest is removed."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        fits = entry.is_dir(follow_symlinks=False) if folders else entry.is_file(follow_symlinks=False)
        if fits and named.fullmatch(entry.name):
            yield Path(entry.path)
        else:
            scratch.remove(Path(entry.path))
