"""A repository of its own for an agent that is closed in: what it does to git stays in there.

The sandbox shows it at the place of the user's `.git`, whose objects it borrows, read-only. When the agent
has ended, its objects come over by git's own checks, its branch moves on, and its worktree is as it left it.
Every other ref and setting stays behind, and is told. Until that is done the quarantine is kept, in
`.git/beads-ralph`: after a kill of the harness the next one finds it there.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.words import several
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, scratch, text_files
from beads_ralph.git import commands, git_files, large_files, locking, settings, untrusted
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.guard import MOVED
from beads_ralph.git.intake import Intake
from beads_ralph.git.settings import GitSettings, Rows
from beads_ralph.process.jobs import Mount
from beads_ralph.process.sandbox import real

PLACE: Final = "beads-ralph/quarantine"
STASH: Final = "refs/stash"
ITS_OWN: Final = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
"""Refs of one working tree."""
UNTOLD: Final = ("refs/remotes/", STASH)
"""Refs that a fetch and a stash move: nobody's business."""
KEPT: Final = re.compile(r"refs/stash|refs/(?:heads|tags)/[\w./@+-]+")
"""Refs that a worktree's next agent finds again."""
BORROWED: Final = "borrowed"
LENT: Final = "lent"
MADE: Final = (
    "objects",
    "refs",
    "logs",
    "info",
    "worktrees",
    "rr-cache",
    "lfs",
    "beads-ralph",
    BORROWED,
    LENT,
)
"""Folders that the quarantine has its own of, or none."""
WRITTEN: Final = ("config", "packed-refs", "shallow.lock", "gc.pid")
"""Files that it has its own of, or none."""
SMALL: Final = 1 << 20
SECRET: Final = re.compile(
    r"http\..*extraheader|credential\..*|.*\.(?:pass(?:word|wd)|.*token|.*secret)", re.IGNORECASE
)
ADDRESS: Final = re.compile(r"^(https?://)[^/@]*@")
FIXED: Final = ("HEAD", "commondir", "gitdir", "config", "config.worktree", "hooks", "locked", "modules")
"""What of the worktree's own folder is not the agent's to change: git outside would obey it."""
MARK: Final = "beads-ralph"
"""So begin the names of our files in there."""
BUSY_SECONDS: Final = 5.0
WHERE: Final = "in its sandbox an agent"


@dataclass
class Quarantine:
    """The one of a worktree."""

    settings: GitSettings
    own: Path
    """git's own folder of the worktree."""
    told: list[str] = field(default_factory=list)
    """What was not taken over."""

    @property
    def place(self) -> Path:
        return self.settings.common / PLACE / self.own.name

    @property
    def folder(self) -> Path:
        """What the agent sees at the place of `.git`."""
        return self.place / "repository"

    @property
    def _inner(self) -> Path:
        return self.folder / "worktrees" / self.own.name

    @property
    def lock(self) -> Path:
        return self.place.with_name(f"{self.own.name}.lock")

    def held(self) -> AbstractContextManager[int]:
        """One agent at a time; freed by the system when we are killed."""
        action = "Wait for it, or stop it"
        busy = RalphError(Code.GIT_ERROR, f"an agent is at work in {self._tree}", suggested_action=action)
        return lock.held(self.lock, BUSY_SECONDS, lambda: busy, remove=True)

    @property
    def _tree(self) -> Path:
        return Path(untrusted.text(self.own / "gitdir").strip()).parent

    # --- what the agent is given ---

    def open(self, branch: str) -> None:
        """Lay it out as the repository is now."""
        before = self._record()
        new = self.place / "new"
        for left in (new, self.folder):
            _remove(left)
        for name in (
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "logs/refs",
            "info",
            BORROWED,
        ):
            (new / name).mkdir(parents=True)
        refs, kept = self._refs_for(before)
        git_files.write_refs(new, {**refs, **kept})
        untrusted.write_listing(self.place / "refs", {**refs, **kept})
        if STASH in kept:  # git finds stashes by the log of their ref
            untrusted.write(new / "logs" / STASH, before["stash"])
        self._write_settings(new)
        self._copy_files(new)
        _copy_folder(self.own, new / "worktrees" / self.own.name)
        new.rename(self.folder)
        self._note(state="open", branch=branch, commit=refs.get(f"{HEADS}{branch}"), kept=kept)

    def mounts(self) -> Iterator[Mount]:
        """What the sandbox shows, in this order."""
        common = real(self.settings.common)
        yield Mount(self.folder, common, writable=True)
        yield Mount(common / "objects", common / BORROWED)
        if (self.folder / LENT).is_dir():
            yield Mount(common / "lfs", common / LENT / "lfs")
        for name in self._shown():
            yield Mount(common / name, common / name)
        if (self.own / "modules").is_dir():
            yield Mount(self.own / "modules", common / "worktrees" / self.own.name / "modules", writable=True)

    def reads(self) -> Iterator[Path]:
        """What must be seen as well: remotes that are folders, and where the user's objects borrow from."""
        for key, value in self.settings.local:
            if key.startswith("remote.") and key.endswith("url") and value:
                yield self.settings.root / value.removeprefix("file://")
        alternates = untrusted.text(self.settings.common / "objects" / "info" / "alternates")
        yield from (self.settings.common / "objects" / line for line in alternates.splitlines() if line)

    def _refs_for(self, before: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """The user's refs, and what an earlier call of this worktree left of its own."""
        refs = {
            ref: to
            for ref, to in untrusted.refs(self.settings.common).items()
            if not ref.startswith((*ITS_OWN, STASH))
        }
        if not before.get("kept"):
            return refs, {}
        folders = {ref[:at] for ref in refs for at, sign in enumerate(ref) if sign == "/"}
        kept = {ref: to for ref, to in before["kept"].items() if ref not in refs and ref not in folders}
        return refs, {
            ref: to for ref, to in kept.items() if not any(ref.startswith(f"{one}/") for one in refs)
        }

    def _write_settings(self, new: Path) -> None:
        rows = _rows(self.settings.common / "config", (self.settings.common / "config").read_bytes())
        for place in (new / "config", self.place / "config"):
            settings.write(place, rows)

    def _copy_files(self, new: Path) -> None:
        """What else lies in `.git`: small files are copied, folders are shown as they are."""
        common = self.settings.common
        borrowed = [real(common) / BORROWED]
        if (common / "lfs").is_dir():
            (new / LENT / "lfs").mkdir(parents=True)
            (new / LENT / "objects").mkdir()
            borrowed.append(real(common) / LENT / "objects")
        if (common / "rr-cache").is_dir():
            (new / "rr-cache").mkdir()
        untrusted.write(new / "objects" / "info" / "alternates", "".join(f"{place}\n" for place in borrowed))
        for folder in (Path(), Path("info")):
            for file in (common / folder).glob("*"):
                with suppress(OSError):  # nobody may read it
                    if file.is_file() and not _is_written(file) and file.stat().st_size <= SMALL:
                        shutil.copy2(file, new / folder / file.name)
        for name in self._shown():
            (new / name).touch() if (common / name).is_file() else (new / name).mkdir()

    def _shown(self) -> list[str]:
        """Folders of `.git` that git does not write to in a worktree, and its large files."""
        found = []
        for path in sorted(self.settings.common.iterdir()):
            large = path.is_file() and not _is_written(path) and path.stat().st_size > SMALL
            if large or (path.is_dir() and path.name not in MADE):
                found.append(path.name)
        return found

    # --- what comes of it ---

    def settle(self) -> None:
        """Take over what is the agent's to do; safe to call again after a kill."""
        known = self._record()
        if known.get("state") != "open" or not self.folder.is_dir():
            return
        refs, given = untrusted.refs(self.folder), untrusted.read_listing(self.place / "refs")
        branch = f"{HEADS}{known['branch']}"
        came = self._branch(branch, untrusted.led(refs, branch), known.get("commit"), given)
        large_files.take_over(self.folder, self.settings)
        if came is not None and known["worktree"] == self._mark():
            self._bring_worktree(branch, refs, whole=came)
        self._tell_changes(branch, refs, given)
        kept = {ref: to for ref, to in refs.items() if ref not in given or ref in known["kept"]}
        kept = {ref: to for ref, to in kept.items() if KEPT.fullmatch(ref) and git_files.COMMIT.fullmatch(to)}
        stash = untrusted.text(self.folder / "logs" / STASH)
        if came is False:
            _remove(self.place / "damaged")
            self.folder.rename(self.place / "damaged")
        self._note(state="settled", kept=kept if came else {}, stash=stash)
        _remove(self.folder)

    def _branch(
        self, branch: str, tip: str | None, given: str | None, refs: Mapping[str, str]
    ) -> bool | None:
        """Bring the objects, and move the branch on. Whether all of it came; None where somebody else has
        moved the branch meanwhile, whose worktree it is then."""
        intake = Intake(self.settings, self.folder / "objects", self.place)
        problem = intake.everything()
        if problem:
            kept = f"its files are as it left them, its repository is kept in {self.place / 'damaged'}"
            self.told.append(f"not all that an agent made in git can be taken over: {problem}; {kept}")
        if problem and tip and tip != given:
            known = [to for to in refs.values() if git_files.COMMIT.fullmatch(to)]
            tip = tip if not intake.history(tip, known) else given
        now = commands.commit_of(branch, self.settings.root)
        if tip is not None and tip not in (given, now):
            problem = self._move(branch, tip, given, now) or problem
        return None if now not in (given, tip) else not problem

    def _move(self, branch: str, tip: str, given: str | None, now: str | None) -> str:
        """Why that cannot be, empty where it was done."""
        root = self.settings.root
        if now != given:
            name = f"{MOVED}/{branch.removeprefix('refs/')}/{tip}"
            locking.run("update-ref", name, tip, cwd=root)
            text = f"{branch} was moved while an agent worked on it; what it made is kept as {name}"
            self.told.append(text)
            return ""
        ended = locking.run("update-ref", "-m", "by an agent", branch, tip, given or "", cwd=root)
        if not ended.ok:
            self.told.append(f"{branch} cannot be moved to {tip[:12]}: {ended.stderr.strip()}")
        return "" if ended.ok else ended.stderr

    def _bring_worktree(self, branch: str, refs: Mapping[str, str], *, whole: bool) -> None:
        """The worktree's own folder as the agent left it, on its branch or detached. Where not all of its
        objects came, only its files count."""
        if not self.own.is_dir():
            return
        head = self._head(branch, refs) if whole else f"ref: {branch}"
        try:
            if whole and untrusted.is_folder(self._inner):
                untrusted.mirror(self._inner, self.own, _is_fixed)
        except OSError as problem:
            self.told.append(f"what an agent left in its worktree's index cannot be read: {problem.strerror}")
            whole = False
        untrusted.replace_text(self.own / "HEAD", f"{head}\n")
        modules = self._inner / "modules"
        if whole and untrusted.is_folder(modules) and not (self.own / "modules").exists():
            modules.rename(self.own / "modules")
        if not whole and self._tree.is_dir():
            locking.run("reset", "--quiet", cwd=self._tree)

    def _head(self, branch: str, refs: Mapping[str, str]) -> str:
        """Where it stands: on no other branch than its own, since what it did to others stays behind."""
        said = untrusted.text(self._inner / "HEAD").removesuffix("\n")
        other = said.removeprefix(untrusted.SYMBOLIC)
        commit = said if other == said else untrusted.led(refs, other)
        if other == branch or not commit or not git_files.COMMIT.fullmatch(commit):
            return f"ref: {branch}"
        return commit if commands.commit_of(commit, self.settings.root) else f"ref: {branch}"

    def _tell_changes(self, branch: str, refs: Mapping[str, str], given: Mapping[str, str]) -> None:
        now = {ref: to for ref, to in refs.items() if not ref.startswith((*UNTOLD, *ITS_OWN))}
        then = {ref: to for ref, to in given.items() if not ref.startswith((*UNTOLD, *ITS_OWN))}
        if branch in now:
            then[branch] = now[branch]
        ways = [_way(ref, then, now) for ref in sorted({**then, **now}) if then.get(ref) != now.get(ref)]
        ways += [f"set {key}" for key in self._changed_settings()]
        if ways:
            self.told.append(f"{WHERE} {several(ways)}; not taken over")

    def _changed_settings(self) -> list[str]:
        files = (self.place / "config", self.folder / "config")
        if untrusted.text(files[0]) == untrusted.text(files[1]):
            return []
        before, after = (
            set(settings.rows_of(file) or ()) if file.is_file() and not file.is_symlink() else set()
            for file in files
        )
        return sorted(key for key in {key for key, _ in before ^ after} if not key.startswith("branch."))

    # --- what is known of it ---

    def _record(self) -> dict[str, Any]:
        """Nothing where all of it belongs to an earlier worktree of that name."""
        try:
            said: dict[str, Any] = json.loads((self.place / "record.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return said if said.get("state") == "open" or said.get("worktree") == self._mark() else {}

    def _mark(self) -> str:
        """A word that goes with the worktree."""
        return untrusted.text(self.own / f"{MARK}-quarantine")

    def _note(self, **facts: Any) -> None:
        mark = self._mark()
        if not mark and self.own.is_dir():
            mark = secrets.token_hex(8)
            (self.own / f"{MARK}-quarantine").write_text(mark, "utf-8")
        text = json.dumps({**facts, "worktree": mark}, ensure_ascii=True)
        text_files.write_text(self.place / "record.json", text, sync=False, private=True)


def _way(ref: str, then: Mapping[str, str], now: Mapping[str, str]) -> str:
    return f"{'deleted' if ref not in now else 'moved' if ref in then else 'made'} {ref}"


# --- around an agent ----------------------------------------------------------------------------------


@contextmanager
def around(root: Path, tree: Path, branch: str) -> Iterator[Quarantine | None]:
    """Give the quarantine for an agent's call, settled at its end; None for what is no worktree of ours, and
    for a repository whose refs are no files."""
    found = _of(root, tree)
    if found is None:
        yield None
        return
    text_files.make_folder(found.place, private=True)
    with found.held():
        found.settle()
        found.open(branch)
        try:
            yield found
        finally:
            found.settle()


def settle_left(root: Path, tree: Path) -> list[str]:
    """Take over what a killed harness left; what was not taken over."""
    common = root / ".git"
    if common.is_dir() and not (common / PLACE).is_dir():  # most repositories have never had one
        return []
    _sweep(settings.of(root))
    found = _of(root, tree)
    if found is None or not found.place.is_dir() or lock.is_held(found.lock):
        return []
    with found.held():
        found.settle()
    return found.told


def _sweep(known: GitSettings) -> None:
    """The same where the worktree is gone; then nothing of the quarantine is needed any more."""
    for place in (known.common / PLACE).iterdir():
        left = Quarantine(known, known.common / "worktrees" / place.name)
        if place.is_dir() and not left.own.exists() and not lock.is_held(left.lock):
            with left.held():
                left.settle()
                _remove(place)


def _of(root: Path, tree: Path) -> Quarantine | None:
    known = settings.of(root)
    own = known.own_folder(tree)
    if own is None or real(tree) == known.root or (known.common / "reftable").exists():
        return None
    return Quarantine(known, own)


# --- settings -----------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _rows(file: Path, _content: bytes) -> Rows:
    """A repository's settings without what would let one push."""
    rows = settings.rows_of(file) or []
    return [(key, value and ADDRESS.sub(r"\1", value)) for key, value in rows if not SECRET.fullmatch(key)]


# --- files --------------------------------------------------------------------------------------------


def _is_written(file: Path) -> bool:
    return file.name in WRITTEN or file.name.endswith(".lock")


def _remove(path: Path) -> None:
    """What cannot be removed, such as folders a thousand deep, is put aside."""
    if not untrusted.is_folder(path):
        return
    try:
        scratch.remove(path)
    except (OSError, RecursionError):
        path.rename(path.with_name(f"left-{secrets.token_hex(4)}"))


def _copy_folder(source: Path, target: Path) -> None:
    """The worktree's own folder for the agent; its submodules are shown, and our files are not."""
    left_out = shutil.ignore_patterns("modules", "*.lock", f"{MARK}*")
    shutil.copytree(source, target, symlinks=True, ignore=left_out)
    if (source / "modules").is_dir():
        (target / "modules").mkdir()


def _is_fixed(name: str) -> bool:
    return name in FIXED or name.startswith(MARK) or name.endswith(".lock")
