"""git's settings as they were when the run began: git of ours obeys those, whatever was set since.

A run has a repository folder of its own that shares objects, refs and worktrees with the user's by links, and
has configuration, attributes and nothing else of its own. git of ours is sent there instead of to `.git`.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import git_files, tree_programs
from beads_ralph.git.tree_programs import Copies
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job

SHARED: Final = (
    *("objects", "refs", "packed-refs", "reftable", "shallow", "logs", "worktrees", "modules", "rr-cache"),
    "lfs",
)
NOT_OURS: Final = (
    *("include.", "includeif.", "core.worktree", "core.bare", "core.sparsecheckout", "core.hookspath"),
    *("core.fsmonitor", "core.alternaterefscommand", "extensions.worktreeconfig"),
)
"""Included files are resolved already; the others send git elsewhere, run programs, or hide files."""
ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})
GUARDED: Final = ("config", "config.worktree", "info/attributes", "info/grafts", "info/sparse-checkout")
PROGRAMS: Final = "programs"
OBEYED: Final = (
    *("global", "all", "attributes", "all-attributes"),
    *("view/info/attributes", "view/config", "view/HEAD"),
)
"""The files of our folder that say what git does."""
SECONDS: Final = 30.0
PLACES: Final = (
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK", "GIT_INDEX", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE"),
    *("GIT_NAMESPACE", "GIT_REPLACE", "GIT_SHALLOW", "GIT_GRAFT", "GIT_EXTERNAL_DIFF"),
)
"""Variables that would send git to another repository, or show it another one."""

Rows = list[tuple[str, str | None]]
Moves = Literal["keep", "restore", "follow"]
BRANCHES: Final = ("refs/heads/", "refs/remotes/")


@dataclass
class GitSettings:
    """The settings of one repository."""

    root: Path
    """The main working tree, links resolved."""
    common: Path
    """The user's `.git`."""
    folder: Path
    """Ours: the rest lies in it."""
    everywhere: Rows
    """What was set for all repositories."""
    local: Rows
    """What this one itself had set."""
    as_written: Rows
    """The same, for whoever works in a checkout: programs in the tree are those of the checkout there."""
    programs: Copies
    """The programs of the tree that settings name, as they were."""
    attributes: tuple[bytes, bytes]
    """The same of attributes."""
    guarded: dict[str, tuple[bytes, int]]
    """By name below `.git`: what git obeys, its content and mode."""
    replacing: frozenset[str]
    """The refs by which the user had objects stand in for others."""
    begun: dict[str, str]
    """Branches, here and of remotes, as they were when the run began."""
    moves: Moves = "keep"
    """Whether what a person moves meanwhile counts in this run."""
    since: float = field(default_factory=time.time)
    """When the run began."""
    sources: set[str] = field(default_factory=set)
    """The branches that beads have started from."""
    expected: dict[str, str] = field(default_factory=dict)
    """Where refs of proven commits are to lead."""
    at_work: set[str] = field(default_factory=set)
    """The branches that beads are worked on."""
    at_end: list[Callable[[], object]] = field(default_factory=list)
    """What is to be done when they are obeyed no longer."""
    _own: dict[Path, Path] = field(default_factory=dict)
    """By worktree: its folder in `.git/worktrees`."""
    _written: list[tuple[int, ...]] = field(default_factory=list)
    """What the files that git obeys were like when they were written."""

    @property
    def view(self) -> Path:
        """The user's repository with the settings of the start: a repository that one can fetch from."""
        return self.folder / "view"

    def lay_out(self) -> None:
        """Write it all down: what an agent's commits change is the user's by link; what git obeys is ours."""
        import shutil

        self.folder.mkdir(mode=0o700, exist_ok=True)
        tree_programs.lay_out(self.programs, self.folder / PROGRAMS)
        new = self.folder / "new"
        shutil.rmtree(new, ignore_errors=True)
        (new / "info").mkdir(parents=True)
        (self.common / "logs").mkdir(exist_ok=True)  # else git would make it, in place of the link
        for name in (*SHARED, "info/exclude"):
            (new / name).symlink_to(self.common / name)
        shutil.rmtree(self.view, ignore_errors=True)
        new.rename(self.view)
        self._write_down()

    def _write_down(self) -> None:
        """The files that git obeys, each put in its place whole: another git may be reading it."""
        for name, text in zip(OBEYED, self._obeyed, strict=True):
            fresh = self.folder / "fresh"
            fresh.unlink(missing_ok=True)
            fresh.touch(mode=0o600)
            fresh.write_bytes(text)
            fresh.replace(self.folder / name)
        self._written = self._look()

    @property
    def _obeyed(self) -> tuple[bytes, ...]:
        """Their contents."""
        return (
            text_of(self.everywhere),
            text_of([*self.everywhere, *self.local]),
            self.attributes[0],
            b"\n".join(self.attributes),
            self.attributes[1],
            text_of([*self.local, ("core.bare", "false")]),
            b"ref: refs/heads/main\n",
        )

    def _look(self) -> list[tuple[int, ...]]:
        """Which files they are, and when they were last changed; nothing where one is gone."""
        try:
            found = [(self.folder / name).lstat() for name in OBEYED]
        except OSError:
            return []
        return [(one.st_ino, one.st_mode, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found]

    def of_a_repository(self, folder: Path) -> dict[str, str]:
        """Variables that send git to a repository of ours, with all the settings that the user's had."""
        return {**self._overriding("all"), "GIT_DIR": str(folder)}

    def _overriding(self, which: str) -> dict[str, str]:
        """Variables for every git of the run, in whichever repository."""
        if not self.view.is_dir():  # somebody has cleared the temporary folder
            with _taking:
                if not self.view.is_dir():
                    self.lay_out()
        if self._look() != self._written:  # or writes to it
            with _taking:
                self._write_down()
        attributes = "attributes" if which == "global" else "all-attributes"
        said = {
            "core.hooksPath": os.devnull,
            "core.fsmonitor": "false",
            "core.commitGraph": "false",
            "core.attributesFile": str(self.folder / attributes),
            "gc.auto": "0",
            "maintenance.auto": "false",
        }
        first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        found = {"GIT_CONFIG_GLOBAL": str(self.folder / which), "GIT_CONFIG_NOSYSTEM": "1"}
        for number, (key, value) in enumerate(said.items(), first):
            found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return {**found, "GIT_CONFIG_COUNT": str(first + len(said))}

    def environment(self, cwd: Path) -> dict[str, str] | None:
        """The variables that send git to our folder; None for what lies outside of the repository."""
        found = self._tree(Path(os.path.realpath(cwd)))
        if found is None:
            return None
        top, own = found
        places = {
            "GIT_DIR": own,
            "GIT_COMMON_DIR": self.view,
            "GIT_OBJECT_DIRECTORY": self.common / "objects",
            "GIT_WORK_TREE": top,
        }
        return {**self._overriding("global"), **{name: str(place) for name, place in places.items()}}

    def holds(self, cwd: Path) -> bool:
        """True if the place lies in the repository or in one of its worktrees."""
        return self._tree(Path(os.path.realpath(cwd))) is not None

    def reliable(self, now: Mapping[str, str]) -> Mapping[str, str]:
        """The branches as work of the run may build on them: proven ones where they were proven, those that
        are worked on as they are, and all others as they were when the run began."""
        if self.moves == "follow":
            return now
        at_work = {ref: now[ref] for ref in self.at_work if ref in now}
        others = {ref: commit for ref, commit in self.begun.items() if ref not in self.at_work}
        return {**others, **at_work, **self.expected}

    def own_folder(self, tree: Path) -> Path | None:
        """git's own folder of a worktree; None where it has none."""
        try:
            return self._own_of(Path(os.path.realpath(tree)))
        except RalphError:
            return None

    def _tree(self, place: Path) -> tuple[Path, Path] | None:
        """The working tree that the place lies in, and git's own folder of it: as git noted it down, since
        the link in the tree itself is in an agent's hands."""
        for top in (place, *place.parents):
            if top == self.root:
                return top, self.common
            if own := self._own_of(top):
                return top, own
        return None

    def _own_of(self, top: Path) -> Path | None:
        known = self._own.get(top)
        if known is not None and _belongs(known, top):
            return known
        entries = (self.common / "worktrees").glob("*/gitdir") if (top / ".git").is_file() or known else ()
        found = next((entry.parent for entry in entries if _belongs(entry.parent, top)), None)
        if found is None and known is not None:
            message = f"{top} is not a worktree of {self.root} any more"
            raise RalphError(Code.GIT_ERROR, message, suggested_action=f"Look at it, and move it away: {top}")
        if found is not None:
            self._own[top] = found
        return found


def _belongs(own: Path, top: Path) -> bool:
    try:
        noted = Path((own / "gitdir").read_text("utf-8", "surrogateescape").strip())
    except (OSError, ValueError):
        return False
    return Path(os.path.realpath(noted.parent)) == top


# --- the run's ----------------------------------------------------------------------------------------

_taken: Final[dict[Path, GitSettings]] = {}
_taking: Final = threading.RLock()


def take(root: Path) -> GitSettings:
    """The settings as they are now; from now on git of ours in this repository obeys these."""
    from beads_ralph.files import scratch  # as late as this: most commands only look, and need none

    real = Path(os.path.realpath(root))
    with _taking:
        _forget(root)
        found = _taken[real] = _take(real, scratch.make())
    return found


def forget_all() -> None:
    """As at the end of a process: nobody obeys any of them, and nothing of theirs is left running."""
    for root in tuple(_taken):
        _forget(root)


def _forget(root: Path) -> None:
    from beads_ralph.files import scratch

    with _taking:
        if (before := _taken.pop(Path(os.path.realpath(root)), None)) is not None:
            for end in before.at_end:
                end()
            scratch.discard(before.folder)


@contextmanager
def until_done(root: Path) -> Iterator[None]:
    """Settings that are taken in here are obeyed no longer: others may come next in this process."""
    try:
        yield
    finally:
        _forget(root)


def of(root: Path) -> GitSettings:
    """Those of the run; taken now where there is none."""
    with _taking:
        return _taken.get(Path(os.path.realpath(root))) or take(root)


def environment(cwd: Path) -> Mapping[str, str]:
    """The variables for a git at this place: none where no run has taken any settings there."""
    for settings in tuple(_taken.values()):
        if (found := settings.environment(cwd)) is not None:
            return found
    return {}


def at(cwd: Path) -> GitSettings | None:
    """Those of the run whose repository this place belongs to; None where there is none."""
    return next((one for one in tuple(_taken.values()) if one.holds(cwd)), None)


def names_committer(cwd: Path) -> bool:
    """True if the settings of a run say who commits there; False where git has to be asked."""
    settings = at(cwd)
    rows = [*settings.everywhere, *settings.local] if settings else []
    return {"user.name", "user.email"} <= {key.lower() for key, value in rows if value}


def plain(cwd: Path) -> Mapping[str, str]:
    """For the few commands that must see `.git` itself, such as `git worktree`."""
    found = environment(cwd)
    return {name: value for name, value in found.items() if name.startswith("GIT_CONFIG_")}


# --- taking -------------------------------------------------------------------------------------------


def _take(root: Path, folder: Path) -> GitSettings:
    common = root / ".git"
    if not common.is_dir():
        common = Path(_asked(root, "rev-parse", "--path-format=absolute", "--git-common-dir").strip("\n"))
    scopes = _scopes(_asked(root, "config", "--list", "-z", "--show-scope", "--includes"))
    local = [row for scope in ("local", "worktree") for row in scopes.get(scope, ())]
    everywhere = [row for scope in ("system", "global") for row in scopes.get(scope, ())]
    refs = _refs(root, common)
    replacing = frozenset(ref for ref in refs if ref.startswith("refs/replace/"))
    begun = {ref: commit for ref, commit in refs.items() if ref.startswith(BRANCHES)}
    attributes = _attributes(everywhere + local), content(common / "info" / "attributes")
    pinned, programs = tree_programs.pinned([*everywhere, *local], root, folder / PROGRAMS)
    obeyed = pinned[: len(everywhere)], pinned[len(everywhere) :]
    files = guarded_files(common)
    settings = GitSettings(
        root, common, folder, *obeyed, local, programs, attributes, files, replacing, begun
    )
    settings.lay_out()
    return settings


def _refs(root: Path, common: Path) -> dict[str, str]:
    if not (common / "reftable").exists():
        return git_files.refs(common)
    rows = _asked(root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split(" ", 1) for row in rows)


def guarded_files(common: Path) -> dict[str, tuple[bytes, int]]:
    """By name: content and mode of the files that git obeys."""
    hooks = [path.relative_to(common).as_posix() for path in (common / "hooks").glob("*")]
    found: dict[str, tuple[bytes, int]] = {}
    for name in (*GUARDED, *hooks):
        with suppress(OSError):
            found[name] = (common / name).read_bytes(), stat.S_IMODE((common / name).stat().st_mode)
    return found


def rows_of(file: Path) -> Rows | None:
    """What a configuration file says; None where it cannot be read."""
    try:
        said = _asked(file.parent, "config", "--file", str(file), "--list", "-z")
    except RalphError:
        return None
    return rows_in(said)


def rows_in(listing: str) -> Rows:
    """What `git config --list -z` says."""
    rows = (row.partition("\n") for row in listing.split("\0") if row)
    return [(key, value) for key, _newline, value in rows]


def _asked(root: Path, *words: str) -> str:
    environment = jobs.environment({"LC_ALL": "C"}, drop_prefixes=PLACES)
    try:
        ended = jobs.run(Job(("git", *words), root, env=environment, timeout=SECONDS))
    except OSError as problem:
        raise RalphError(Code.GIT_ERROR, f"git cannot run in {root}: {problem.strerror}") from None
    if not ended.ok:
        raise RalphError(Code.GIT_ERROR, f"git {words[0]} failed", details=ended.stderr.strip())
    return ended.stdout


def _scopes(listing: str) -> dict[str, Rows]:
    """By scope: what is set there, in order; a key without a value is a boolean that is true."""
    fields = listing.split("\0")
    found: dict[str, Rows] = {}
    for scope, row in zip(fields[::2], fields[1::2], strict=False):
        key, newline, value = row.partition("\n")
        if not key.lower().startswith(NOT_OURS):
            found.setdefault(scope, []).append((key, value if newline else None))
    return found


def write(path: Path, rows: Iterable[tuple[str, str | None]]) -> None:
    """A configuration file, for our eyes only."""
    with suppress(FileNotFoundError):
        path.unlink()
    path.touch(mode=0o600)
    path.write_bytes(text_of(rows))


def text_of(rows: Iterable[tuple[str, str | None]]) -> bytes:
    """A configuration file's content."""
    return "".join(_lines(rows)).encode("utf-8", "surrogateescape")


def _lines(rows: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    for key, value in rows:
        section, _, rest = key.partition(".")
        inner, _, name = rest.rpartition(".")
        heading = f'[{section} "{inner.translate(ESCAPED)}"]' if inner else f"[{section}]"
        yield f"{heading}\n\t{name}" + ("\n" if value is None else f' = "{value.translate(ESCAPED)}"\n')


def _attributes(rows: Rows) -> bytes:
    """The user's attributes for all repositories, as they are now."""
    said = [value for key, value in rows if key.lower() == "core.attributesfile" and value]
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return content(Path(os.path.expanduser(said[-1] if said else f"{home}/git/attributes")))  # noqa: PTH111


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
