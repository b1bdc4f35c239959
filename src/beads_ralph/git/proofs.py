"""The repository that proofs are made in: bare, ours, and no worktree of an agent's is part of it.

A commit comes in by a fetch that checks every object of it, is checked out from here to a place that nobody
can guess, and is pushed from here. What passed stays alive here, whatever becomes of the user's repository.
It is a cache: deleted or damaged, it is made anew.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.bead.words import several
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, scratch, text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.git import commands, git_files, large_files, objects, settings
from beads_ralph.git.checkout import Checkout
from beads_ralph.git.objects import ObjectReader
from beads_ralph.git.packing import NewObjects, Pack, TooMuchError
from beads_ralph.git.settings import GitSettings

NAME: Final = "proof.git"
FETCH_SECONDS: Final = 1800.0
"""The first fetch brings the whole history."""
CHECKOUT_SECONDS: Final = 600.0
KEPT: Final = "refs/kept/"
"""By its own name, each commit that came in whole."""
PROVEN: Final = "refs/proven/"
STARTS: Final = "refs/start/"
TAGS: Final = "refs/tags/"
KEPT_SECONDS: Final = 14 * 24 * 3600
MANY_PACKS: Final = 50
MANY_LOOSE: Final = 27
"""In one folder of 256, which stands for all of them, as git itself counts."""
MOST_LENT: Final = 16
"""So many small packs a checkout is lent before they are joined: each is some links more."""
SMALL: Final = 1024 * 1024
FORMAT: Final = ("core.repositoryformatversion", "extensions.objectformat")
NOT_PLAIN: Final = re.compile(
    r"(?:fetch|transfer)\.fsck|extensions\.partialclone|remote\..*\.promisor", re.IGNORECASE
)
STRICT: Final = ("-c", "fetch.fsckObjects=true")
FETCH: Final = (
    *("-c", "protocol.version=2", "-c", "fetch.writeCommitGraph=false", "-c", "fetch.unpackLimit=1"),
    *("-c", "core.fsync=none", "fetch", "--quiet", "--force"),  # damaged, it is made anew
    *("--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", "--update-shallow"),
)
OBJECT: Final = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")


class DamagedCommitError(RalphError):
    """A commit of which objects are missing, damaged, or not what git allows."""


@dataclass
class Proofs:
    """The repository of proofs that belongs to one of the user's."""

    path: Path
    settings: GitSettings
    _turn: threading.RLock = field(default_factory=threading.RLock)
    _joined: set[str] = field(default_factory=set)
    """Packs whose objects are in a later one, too."""

    @property
    def env(self) -> dict[str, str]:
        """Variables that send git here, to the settings that each run brings."""
        if (self.path / "HEAD").is_file() and self._is_set_otherwise():
            self.make()
        return self.settings.of_a_repository(self.path)

    # --- what comes in ---

    def bring(self, commits: Iterable[str], *, strict: bool = False) -> None:
        """Fetch what is not here yet. Every object is hashed anew, and nothing may be missing; `strict` asks
        for well-formed ones too, which those of an old history may not be."""
        with self._turn:
            self.make()  # somebody may have removed it
        with nullcontext() if self._has_some else self._turn:  # the first one brings the whole history
            missing = self._missing(commits)
            if missing and not self._take_in(missing, strict=strict):
                self._fetch(missing, strict=strict)
        if strict and (wrong := large_files.forged(self.settings)):
            for path in wrong:
                path.unlink()
            names = several([path.name for path in wrong])
            message = f"large files are not what their names say: {names}; removed"
            raise DamagedCommitError(Code.GIT_ERROR, message, suggested_action="Commit the files again")

    def _missing(self, commits: Iterable[str]) -> list[str]:
        return [one for one in dict.fromkeys(commits) if self._commit(f"{KEPT}{one}") != one]

    def _take_in(self, commits: list[str], *, strict: bool) -> bool:
        """A few new objects on top of what is here, checked as a fetch does; False where git has to fetch
        them, or to say what is wrong."""
        if not self._is_plain or not self._has_some:
            return False
        try:
            with objects.of(self.settings.root) as reader:
                new = NewObjects(reader, lambda one: not self._missing([one]))
                for commit in commits:
                    new.add(commit)
                if self._tagged(reader, new.commits):
                    return False
        except (RalphError, TooMuchError):
            return False
        if not new.found:
            return not self._missing(commits)
        pack = new.packed()
        if not (self._checked(pack) if strict else pack.put(self.path / "objects" / "pack")):
            return False
        for commit in commits:
            self._note(f"{KEPT}{commit}", commit, sync=False)
        return True

    @property
    def _has_some(self) -> bool:
        return any((self.path / KEPT).glob("*"))

    @property
    def _is_plain(self) -> bool:
        """The user has all of the history, and no rules of their own about what is well formed."""
        rows = (*self.settings.everywhere, *self.settings.local)
        cut = [one for one in (self.settings.common, self.path) if (one / "shallow").exists()]
        return not cut and not any(NOT_PLAIN.match(key) for key, _ in rows)

    def _tagged(self, reader: ObjectReader, commits: Container[str]) -> bool:
        """True if a tag came with them, which a fetch brings along."""
        here = git_files.refs(self.path, TAGS)
        theirs = commands.refs_of(self.settings.root, TAGS).items()
        new = {to for ref, to in theirs if here.get(ref) != to}
        return any(reader.commit_of(to) in commits for to in new)

    def _checked(self, pack: Pack) -> bool:
        """git's own rules say whether all of it is well formed, and whether anything is missing."""
        place = self.settings.folder / f"pack-{secrets.token_hex(8)}"
        place.touch(mode=0o600)
        try:
            place.write_bytes(pack.content)
            words = ("-c", "core.fsync=none", "index-pack", "--strict", "--stdin")
            return commands.run(*words, cwd=self.path, timeout=FETCH_SECONDS, env=self.env, stdin=place).ok
        finally:
            place.unlink(missing_ok=True)

    def _fetch(self, commits: list[str], *, strict: bool) -> None:
        """Several at once do not disturb one another, unless they bring the same: then one of them has."""
        refs = [f"+{commit}:{KEPT}{commit}" for commit in commits]
        words = (*(STRICT if strict else ()), *FETCH, "--", str(self.settings.view), *refs)
        ended = commands.run(*words, cwd=self.path, timeout=FETCH_SECONDS, env=self.env)
        if ended.ok or not self._missing(commits):
            return
        with self._turn:
            if self._is_damaged():
                self._make_anew()
            ended = commands.run(*words, cwd=self.path, timeout=FETCH_SECONDS, env=self.env)
        if not ended.ok and self._missing(commits):
            raise _damaged(commits[-1], ended.stderr)

    def _is_damaged(self) -> bool:
        """True if something is missing of what came in whole."""
        words = ("rev-list", "--objects", "--all", "--quiet")
        return not commands.run(*words, cwd=self.path, timeout=FETCH_SECONDS, env=self.env).ok

    def _make_anew(self) -> None:
        """With as much of what was here as the user's repository still has."""
        kept = {ref: commit for ref, commit in git_files.refs(self.path).items() if not ref.startswith(KEPT)}
        shutil.rmtree(self.path, ignore_errors=True)
        self.make()
        for ref, commit in kept.items():
            words = (*FETCH, "--", str(self.settings.view), f"+{commit}:{KEPT}{commit}")
            if commands.run(*words, cwd=self.path, timeout=FETCH_SECONDS, env=self.env).ok:
                self._note(ref, commit)

    def make(self) -> None:
        """An empty repository, where there is none. It has no settings of its own: each run brings them."""
        if (self.path / "HEAD").is_file() and not self._is_set_otherwise():
            return
        place = self.path.with_suffix(".lock")
        with lock.held(place, FETCH_SECONDS, lambda: RalphError(Code.CONFLICT, f"{place} is held")):
            for name in ("objects/info", "objects/pack", "refs", "info"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
            (self.path / "info" / "attributes").unlink(missing_ok=True)
            _link(self.path / "info" / "exclude", self.settings.common / "info" / "exclude")
            _link(self.path / "lfs", self.settings.common / "lfs")
            settings.write(self.path / "config", self._own_settings)
            text_files.write_text(self.path / "HEAD", "ref: refs/heads/none\n")

    @property
    def _own_settings(self) -> list[tuple[str, str | None]]:
        kind = [row for row in self.settings.local if row[0].lower() in FORMAT]
        return [*kind, ("core.bare", "true")]

    def _is_set_otherwise(self) -> bool:
        """Somebody has written to its settings, or has given it attributes."""
        found = settings.content(self.path / "config")
        return found != settings.text_of(self._own_settings) or (self.path / "info" / "attributes").exists()

    # --- what is known ---

    def proven(self, bead: str) -> str | None:
        """The commit that the bead was last proven with."""
        return self._commit(f"{PROVEN}{bead}")

    def note_proven(self, bead: str, commit: str) -> None:
        """The commit stays alive here; `bead` is its id as a part of a ref's name."""
        self._note(f"{PROVEN}{bead}", commit)

    def start(self, bead: str) -> str | None:
        """The commit that the bead's work began at."""
        return self._commit(f"{STARTS}{bead}")

    def note_start(self, bead: str, commit: str) -> None:
        self._note(f"{STARTS}{bead}", commit)

    def forget_start(self, bead: str) -> None:
        (self.path / f"{STARTS}{bead}").unlink(missing_ok=True)

    def _note(self, ref: str, commit: str, *, sync: bool = True) -> None:
        """Loose refs of ours are written as files: nobody else writes here."""
        text_files.make_folder((self.path / ref).parent)
        text_files.write_text(self.path / ref, f"{commit}\n", sync=sync)

    def _commit(self, ref: str) -> str | None:
        return git_files.commit_in(self.path, ref)

    # --- what goes out ---

    @contextmanager
    def checkout(
        self, commit: str, branches: Mapping[str, str] | None = None, into: Path | None = None
    ) -> Iterator[Checkout]:
        """The commit as files, detached, gone at the end whatever happened inside. `branches` are the refs
        that whoever works there can name, besides the tags."""
        if into is not None and into.exists() and (not into.is_dir() or any(into.iterdir())):
            message = f"{into} is not empty, so nothing can be checked out there"
            action = f"Move it away, such as: mv {into} {into}.old"
            raise RalphError(Code.GIT_ERROR, message, suggested_action=action)
        refs = branches or {}
        self.bring([commit, *refs.values()])
        folder = scratch.make()
        path = into or folder / self.settings.root.name
        made = next(place for place in (*reversed(path.parents), path) if place == path or not place.exists())
        index = self.settings.folder / f"index-{secrets.token_hex(8)}"
        env = {**self.env, "GIT_WORK_TREE": str(path), "GIT_INDEX_FILE": str(index)}
        checkout = Checkout(path, commit, env)
        try:
            text_files.make_folder(path)
            self._fill(checkout, index, refs)
            yield checkout
        finally:
            if made.exists():
                scratch.remove(made)
            index.unlink(missing_ok=True)
            scratch.discard(folder)

    def _fill(self, checkout: Checkout, index: Path, refs: Mapping[str, str]) -> None:
        words = ("read-tree", "--reset", "-u", checkout.commit)
        for again in (False, True):
            ended = commands.run(*words, cwd=checkout.path, timeout=CHECKOUT_SECONDS, env=checkout.env)
            if ended.ok:
                break
            if again or not self._is_damaged():
                details = ended.stderr.strip()
                raise RalphError(Code.GIT_ERROR, f"cannot check out {checkout.commit[:12]}", details=details)
            with self._turn:
                self._make_anew()
            self.bring([checkout.commit, *refs.values()])
        self._furnish(checkout, index, refs)

    def _furnish(self, checkout: Checkout, index: Path, refs: Mapping[str, str]) -> None:
        """A repository of the checkout's own, lent our objects: what happens in it stays in it."""
        own = checkout.path / ".git"
        for name in ("objects/info", "refs/heads", "info"):
            (own / name).mkdir(parents=True)
        (own / "HEAD").write_text(f"{checkout.commit}\n", "utf-8")
        self._lend_objects(own / "objects")
        settings.write(own / "config", [*self.settings.as_written, ("core.bare", "false")])
        git_files.write_refs(own, {**git_files.refs(self.path, TAGS), **refs})
        shutil.copyfile(index, own / "index")
        view = self.settings.view / "info"
        for file in (self.path / "shallow", view / "exclude", view / "attributes"):
            with suppress(OSError):
                shutil.copyfile(file, own / file.relative_to(file.parents[file.parent.name == "info"]))

    def _lend_objects(self, objects: Path) -> None:
        """By links to our files: alternates would tell the code that is checked where it is."""
        with self._turn:
            files = self._object_files()
            small = [name for name in files if name.endswith(".pack") and _is_small(files[name])]
            if len(small) > MOST_LENT and self._join(small):
                files = self._object_files()
        for folder in {name.partition("/")[0] for name in files}:
            (objects / folder).mkdir()
        for name, path in files.items():
            (objects / name).symlink_to(path)

    def _object_files(self) -> dict[str, str]:
        """By their names in the folder of objects: packs that are in no larger one, and single objects."""
        found: dict[str, str] = {}
        for folder in os.scandir(self.path / "objects"):
            if folder.name != "info":
                whole = (one for one in os.scandir(folder) if not one.name.startswith("tmp_"))
                found |= {f"{folder.name}/{one.name}": one.path for one in whole}
        return {name: path for name, path in found.items() if name.partition(".")[0] not in self._joined}

    def _join(self, packs: Sequence[str]) -> bool:
        """Make one pack of several. Their files stay until `tidy`: others may have been lent them."""
        place = str(self.path / "objects" / "pack" / "pack")
        words = ("pack-objects", "--quiet", "--stdin-packs", place)
        told = "".join(f"{Path(name).name}\n" for name in packs)
        ended = commands.run(*words, cwd=self.path, env=self.env, stdin=told)
        if ended.ok:
            self._joined.update(name.partition(".")[0] for name in packs)
            self._joined.discard(f"pack/pack-{ended.stdout.strip()}")  # it had all that the others have
        return ended.ok

    def restore(self, commit: str) -> bool:
        """Give a commit back to the user's repository where it was destroyed; False where it was not."""
        root = self.settings.root
        if not self._commit(f"{KEPT}{commit}") or has(root, commit):
            return False
        self.restore_objects()
        return True

    def restore_objects(self) -> None:
        """Copy every object that we have and the user's repository has not."""
        for path in (self.path / "objects").rglob("*"):
            target = self.settings.common / "objects" / path.relative_to(self.path / "objects")
            if path.is_file() and not target.exists() and path.name != "alternates":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)

    def tidy(self) -> None:
        """Forget what was tried long ago and not proven; join what many fetches brought."""
        long_ago = time.time() - KEPT_SECONDS
        for path in (self.path / KEPT).glob("*"):
            with suppress(OSError):
                if path.stat().st_mtime < long_ago:
                    path.unlink()
        objects = self.path / "objects"
        packs, sample = list(objects.glob("pack/*.pack")), list(objects.glob("17/*"))
        if len(packs) > MANY_PACKS or len(sample) > MANY_LOOSE:
            words = ("-c", "gc.packRefs=false", "gc", "--quiet")
            commands.run(*words, cwd=self.path, timeout=FETCH_SECONDS, env=self.env)


def has(root: Path, commit: str) -> bool:
    """True if the commit is there with everything it needs, as far as a walk can tell."""
    return commands.run("rev-list", "--objects", "--quiet", "--max-count=1", commit, cwd=root).ok


def _is_small(file: str) -> bool:
    with suppress(OSError):
        return Path(file).stat().st_size < SMALL
    return False


def _link(place: Path, target: Path) -> None:
    with suppress(FileNotFoundError):
        place.unlink()
    place.symlink_to(target)


def _damaged(commit: str, stderr: str) -> DamagedCommitError:
    named = [name for name in dict.fromkeys(OBJECT.findall(stderr)) if name != commit]
    which = f" ({', '.join(named[:3])})" if named else ""
    message = f"{commit[:12]} cannot be proven: objects of it are missing, damaged or malformed{which}"
    action = "Commit the files again; git fsck names what is wrong"
    return DamagedCommitError(Code.GIT_ERROR, message, details=stderr.strip(), suggested_action=action)


# --- finding it ---------------------------------------------------------------------------------------

_known: Final[dict[Path, Proofs]] = {}
_finding: Final = threading.Lock()


def at(root: Path) -> Proofs:
    """The repository of proofs of the one at `root`, with the settings of the run."""
    now = settings.of(root)
    with _finding:
        found = _known.get(now.root)
        if found is None or found.settings is not now:
            found = Proofs(ralph_dir(root) / NAME, now)
            found.make()
            _known[now.root] = found
    return found
