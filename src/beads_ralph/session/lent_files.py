"""Untracked files of the main checkout, such as .env, lent to worktrees and never committed there."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands

OWN: Final = (".git", ".ralph", ".beads")
EXCLUDE: Final = "info/exclude"
_excluding: Final = threading.Lock()


def refuse_patterns(patterns: Iterable[str]) -> None:
    """CONFIG.INVALID for a pattern that leads out of the repository."""
    for pattern in patterns:
        path = PurePosixPath(pattern)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            message = f"worktree_files: {pattern!r} does not lie in the repository"
            action = "Write it relative to the repository's root, such as .env or config/*.local"
            raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)


def lend(root: Path, tree: Path, patterns: Sequence[str]) -> list[str]:
    """Copy what matches and is missing; the names of all that matches and is not the tree's own.

    What is there is never overwritten: an agent, or the branch, may have its own.
    """
    names = _untracked(root, tree, patterns)
    missing = [name for name in names if not (tree / name).exists() and not (tree / name).is_symlink()]
    for name in missing:
        target = tree / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
        except OSError as problem:
            text = f"cannot copy {name} to {tree}: {problem.strerror or problem}"
            raise RalphError(Code.WRITE_FAILED, text) from None
    _exclude(tree, names)
    return names


def lendable(root: Path, patterns: Sequence[str]) -> list[Path]:
    """The untracked files of the main checkout that match."""
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    names = sorted(path.relative_to(root).as_posix() for path in found)
    names = [name for name in names if PurePosixPath(name).parts[0] not in OWN]
    tracked = {*_listed(root, names)}
    return [root / name for name in names if name not in tracked]


def _untracked(root: Path, tree: Path, patterns: Sequence[str]) -> list[str]:
    names = [path.relative_to(root).as_posix() for path in lendable(root, patterns)]
    tracked = {*_listed(tree, names)}
    return [name for name in names if name not in tracked]


def _listed(tree: Path, names: Sequence[str], *options: str) -> list[str]:
    """Which of the names git lists; without options, those it tracks."""
    if not names:
        return []
    words = (f":(top,literal){name}" for name in names)
    said = commands.output("ls-files", "-z", *options, "--", *words, cwd=tree)
    return [name for name in said.split("\0") if name]


def _exclude(tree: Path, names: Sequence[str]) -> None:
    """What no .gitignore covers is added to the repository's own list; a worktree has none by itself."""
    if not names:
        return
    with _excluding:
        bare = _listed(tree, names, "--others", "--exclude-standard")
        if bare:
            where = Path(
                commands.output("rev-parse", "--path-format=absolute", "--git-path", EXCLUDE, cwd=tree)
            )
            where.parent.mkdir(parents=True, exist_ok=True)
            with where.open("a+", encoding="utf-8") as file:
                file.seek(0)
                said = file.read()
                gap = "" if said.endswith("\n") or not said else "\n"
                rows = "".join(f"/{_literal(name)}\n" for name in bare)
                file.write(f"{gap}# lent to worktrees by beads-ralph\n{rows}")


def _literal(name: str) -> str:
    return "".join(f"\\{char}" if char in r"*?[\ " else char for char in name)


def committed(tree: Path, base: str, names: Sequence[str]) -> list[str]:
    """Those that any commit since `base` holds: removing a secret later does not take it out of history."""
    if not names or not base:
        return []
    words = (f":(top,literal){name}" for name in names)
    said = commands.output("log", "--format=", "--name-only", "-z", f"{base}..HEAD", "--", *words, cwd=tree)
    return sorted({name for name in said.split("\0") if name})
