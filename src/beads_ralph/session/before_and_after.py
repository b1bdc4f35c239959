"""A change beside the commit that it began with: the same check runs without its product code, then with it.

A test that was written for a fix proves something only if it fails without the fix, and for the right reason.
So the very same test, by its hash, is run twice. Files are exchanged in place, since what a project needs to
run its tests (environments, installed packages) lies in the checkout; they are put back whatever happens.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import scratch
from beads_ralph.git import commands
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job
from beads_ralph.session import gate_patterns, test_failures
from beads_ralph.session.test_failures import TestRun

ChangeKind = Literal["fix", "feature", "refactoring", "upgrade"]
BASE: Final = "BEADS_RALPH_BASE"
"""Tells a check which commit the work began with."""
ASKING: Final = ("beads-ralph prove", BASE)
TIMEOUT: Final = 24 * 3600.0
"""The verifier's own limit ends it sooner."""
PROSE: Final = (".md", ".rst", ".adoc", ".txt")
PATIENT: Final = 2
"""Seconds between the times of two versions of a file: compiled Python is told apart by whole seconds."""


def told(command: str, base: str) -> dict[str, str]:
    """The variable for a check that asks for the base; others see nothing that tells of a run."""
    return {BASE: base} if base and any(word in command for word in ASKING) else {}


@dataclass(frozen=True)
class Wanted:
    """What is to be proven, and how."""

    kind: ChangeKind
    command: str
    tests: tuple[str, ...] = ()
    """The tests that are pinned: one file for a fix, patterns otherwise; none for all tests."""
    product: tuple[str, ...] = ()
    """Patterns of product code; none for all that is neither a test, nor a setting of one, nor prose."""
    assertion: str = ""
    """A regular expression for what a failing assertion prints, where the runner is none that we know."""


@dataclass
class ChangeProof:
    """What was found: proven where `faults` is empty."""

    base: str
    pinned: dict[str, str] = field(default_factory=dict)
    """Test file → SHA-256."""
    product: tuple[str, ...] = ()
    before: TestRun | None = None
    after: TestRun | None = None
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "proven": not self.faults,
            "faults": list(self.faults),
            "pinned": dict(self.pinned),
            "product": list(self.product),
            "before": self.before.to_json() if self.before else None,
            "after": self.after.to_json() if self.after else None,
        }


def prove(root: Path, base: str, wanted: Wanted) -> ChangeProof:
    """Look at the files first: where they say it already, nothing is run."""
    commit = commands.commit_of(base, root)
    if commit is None:
        raise RalphError(
            Code.USAGE, f"there is no commit {base!r} here", suggested_action="Name one: --base main"
        )
    tree = _Tree(root, commit)
    found = ChangeProof(commit, _pinned(tree, wanted), tuple(_product(tree, wanted)))
    found.faults += _file_faults(tree, wanted, found)
    if not found.faults:
        _compare(tree, wanted, found)
    return found


# --- files ------------------------------------------------------------------------------------------


class _Tree:
    """The checkout, and what it has changed since the base."""

    def __init__(self, root: Path, base: str) -> None:
        self.root, self.base = root, base
        said = commands.output("diff", "--name-only", "--no-renames", "-z", base, "--", cwd=root)
        self.changed = sorted(name for name in said.split("\0") if name)
        said = commands.output("diff", "--name-only", "--no-renames", "-z", base, "HEAD", "--", cwd=root)
        self.committed = [name for name in said.split("\0") if name]
        listed = commands.output("ls-tree", "-r", "-z", "--name-only", "--full-tree", base, cwd=root)
        self.known = [name for name in listed.split("\0") if name]

    def hash_of(self, name: str) -> str:
        """SHA-256 of a file as it is now; empty where it is gone."""
        try:
            return hashlib.sha256((self.root / name).read_bytes()).hexdigest()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""

    @contextmanager
    def as_at_base(self, names: Sequence[str]) -> Iterator[None]:
        """These files as the base has them, and gone where it has none; afterwards as they were, their times
        included."""
        aside = scratch.make()
        times: dict[str, float] = {}
        try:
            for name in names:
                path = self.root / name
                times[name] = path.lstat().st_mtime if os.path.lexists(path) else 0.0
                _move(path, aside / name)
            self._restore(names, times)
            yield
        finally:
            for name in times:
                self._put_back(name, aside)
            scratch.discard(aside)

    def _restore(self, names: Sequence[str], times: Mapping[str, float]) -> None:
        known = frozenset(self.known).intersection(names)
        if not known:
            return
        words = (
            "restore",
            f"--source={self.base}",
            "--worktree",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        )
        ended = commands.run("--literal-pathspecs", *words, cwd=self.root, stdin="\0".join(sorted(known)))
        if not ended.ok:
            raise RalphError(Code.GIT_ERROR, "git restore failed", details=ended.stderr.strip())
        for name in known:
            os.utime(self.root / name, (times[name] + PATIENT,) * 2, follow_symlinks=False)

    def _put_back(self, name: str, aside: Path) -> None:
        path, kept = self.root / name, aside / name
        if os.path.lexists(path):
            scratch.remove(path)
        _move(kept, path)


def _move(path: Path, to: Path) -> None:
    """What is not there is not moved."""
    if os.path.lexists(path):
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, to)


def _pinned(tree: _Tree, wanted: Wanted) -> dict[str, str]:
    """The test of a fix as it is now; all tests of the base where behaviour is to be held."""
    if wanted.kind in ("fix", "feature"):
        return {name: tree.hash_of(name) for name in wanted.tests}
    return {name: tree.hash_of(name) for name in tree.known if _is_test(name, wanted.tests)}


def _is_test(name: str, patterns: Sequence[str]) -> bool:
    return _fits(name, patterns) if patterns else gate_patterns.kind_of(name) == "tests"


def _product(tree: _Tree, wanted: Wanted) -> Iterator[str]:
    for name in tree.changed:
        if wanted.product and not _fits(name, wanted.product):
            continue
        is_prose = PurePosixPath(name).suffix.lower() in PROSE
        of_tests = gate_patterns.kind_of(name) if not wanted.product else ""
        if name not in wanted.tests and not of_tests and (wanted.product or not is_prose):
            yield name


def _fits(name: str, patterns: Sequence[str]) -> bool:
    """By a pattern, or below a folder that is named."""
    return any(fnmatchcase(name, one) or name.startswith(one.rstrip("/") + "/") for one in patterns)


def _file_faults(tree: _Tree, wanted: Wanted, found: ChangeProof) -> Iterator[str]:
    if wanted.kind == "fix":
        yield from (f"{name} is not there, or is empty" for name in wanted.tests if not _has(tree, name))
    elif wanted.kind == "feature":
        if not any(map(_is_new_test, tree.committed)):
            yield "no test was added or changed"
    else:
        changed = [name for name in found.pinned if name in tree.changed]
        yield from (f"{name} is a test of before, and was changed or removed" for name in changed)
        if not found.pinned:
            yield "there was no test before the work began, so nothing can hold the behaviour"
    if not found.product and wanted.kind != "upgrade":
        yield "no product code was changed: only tests, their settings or prose"
    if wanted.kind == "upgrade" and not tree.changed:
        yield "nothing was changed"


def _is_new_test(name: str) -> bool:
    return gate_patterns.kind_of(name) == "tests"


def _is_comparable(tree: _Tree, wanted: Wanted) -> bool:
    """A check that is made again with the tests of before can only say whether those pass."""
    return wanted.kind != "upgrade" and (wanted.kind != "feature" or any(map(_is_new_test, tree.changed)))


def _has(tree: _Tree, name: str) -> bool:
    path = tree.root / name
    return path.is_file() and path.stat().st_size > 0


# --- runs -------------------------------------------------------------------------------------------


def _compare(tree: _Tree, wanted: Wanted, found: ChangeProof) -> None:
    if _is_comparable(tree, wanted):
        reverted = tree.changed if wanted.kind == "refactoring" else found.product
        with tree.as_at_base(reverted):
            found.before = _run(tree, wanted)
    found.faults += _changed_tests(tree, found, "without the change")
    if found.faults:
        return
    found.faults += _faults_before(wanted, found.before)
    if found.faults:
        return
    found.after = _run(tree, wanted)
    found.faults += _changed_tests(tree, found, "with the change")
    found.faults += _faults_after(found.before, found.after)


def _run(tree: _Tree, wanted: Wanted) -> TestRun:
    """Compiled Python is not written: it would be taken for that of the other version."""
    reports = scratch.make()
    try:
        env = {"PYTHONDONTWRITEBYTECODE": "1", **test_failures.asking(os.environ, reports)}
        job = Job(
            ("/bin/sh", "-c", wanted.command), tree.root, env=jobs.environment(env, (BASE,)), timeout=TIMEOUT
        )
        return test_failures.read(jobs.run(job), reports, wanted.assertion)
    finally:
        scratch.discard(reports)


def _changed_tests(tree: _Tree, found: ChangeProof, when: str) -> Iterator[str]:
    for name, known in found.pinned.items():
        if tree.hash_of(name) != known:
            yield f"{name} was not the same any more after it had run {when}"


def _faults_before(wanted: Wanted, run: TestRun | None) -> Iterator[str]:
    if run is None:
        return
    if wanted.kind == "refactoring":
        if run.exit_code != 0:
            yield f"the tests did not pass before the work began: exit code {run.exit_code}"
    elif run.exit_code == 0:
        yield "it passes without the change, so it does not show what the change is for"
    elif wanted.kind == "fix" and not run.asserted:
        yield f"without the change it fails by an error, not by an assertion: {run.trouble}"


def _faults_after(before: TestRun | None, after: TestRun) -> Iterator[str]:
    if after.exit_code != 0:
        yield f"it does not pass with the change: exit code {after.exit_code}"
        return
    lost = sorted((before.failed if before else frozenset()) - after.passed) if after.is_reported else []
    if lost:
        yield f"it failed without the change and did not run with it: {', '.join(lost)}"
    if before is not None and before.tells and not after.tells:
        yield "its tests did not come to their end with the change: the runner told nothing of them"
    if after.ran == 0:
        yield "no test ran with the change"
    elif before is not None and before.exit_code == 0 and (after.ran or 0) < (before.ran or 0):
        yield f"{after.ran} tests ran with the change, {before.ran} without it"
