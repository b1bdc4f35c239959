"""What stands in a working tree: its commit, its changes, what an agent left unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, git_files, locking, settings

FALLBACK_IDENTITY: Final = ("-c", "user.name=beads-ralph", "-c", "user.email=beads-ralph@localhost")
# Harness commits keep work safe and join branches; what the hooks would say the verifiers say anyway.
COMMIT: Final = ("commit", "--quiet", "--no-verify")

NOTHING_STAGED: Final = 1
"""How a quiet `git commit` ends that has nothing to do; whatever else goes wrong, it says so."""
UNFINISHED: Final = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@dataclass(frozen=True)
class Leftovers:
    """What became of the uncommitted work in a worktree."""

    commit: str | None = None
    """The commit that holds it now; None where there was nothing to commit, or it could not be."""
    unfinished: str = ""
    """A merge, rebase, cherry-pick, revert, bisect or detached HEAD that the agent left; then nothing
    was committed, since that would conclude it unseen."""
    nested: tuple[str, ...] = ()
    """Git repositories inside the worktree, which a commit cannot hold; left as they are."""


def head(path: Path) -> str:
    """The commit that is checked out."""
    if (known := git_files.commit_of("HEAD", path)) is not None:
        return known
    ended = commands.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=path)
    if ended.ok:
        return ended.stdout.strip()
    action = "Commit something first: git commit --allow-empty --message start"
    details = ended.stderr.strip()
    raise RalphError(Code.GIT_ERROR, f"{path} has no commit yet", details=details, suggested_action=action)


def current_branch(path: Path) -> str | None:
    """The branch that is checked out; None when HEAD is detached."""
    return commands.branch_at(path)


def git_dir(path: Path) -> Path:
    """Where git keeps what belongs to this working tree alone; `path` is its top."""
    link = path / ".git"
    if link.is_dir():
        return link.absolute()
    if (
        link.is_file()
    ):  # read here, since it is asked for often and starting git for it costs ten times as much
        place = link.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        return (path / place).absolute()
    return Path(commands.output("rev-parse", "--path-format=absolute", "--git-dir", cwd=path))


def unfinished(path: Path) -> str:
    """The operation that waits to be concluded here, empty where there is none."""
    own = git_dir(path)
    return next((name for mark, name in UNFINISHED.items() if (own / mark).exists()), "")


def uncommitted(path: Path) -> list[str]:
    """Changed, staged and untracked files, ignored ones left out; a nested repository ends in a slash."""
    # Without optional locks, so that looking never disturbs an agent's own git.
    listing = commands.output(
        "--no-optional-locks",
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        cwd=path,
    )
    return [row[3:] for row in listing.split("\0") if row]


def is_clean(path: Path) -> bool:
    """Nothing changed, nothing untracked, nothing in progress."""
    return not uncommitted(path) and not unfinished(path)


def changed_files(path: Path, base: str) -> list[str]:
    """Files that differ between `base` and the commit checked out; a rename counts with both names."""
    listing = commands.output(
        "diff", "--name-only", "-z", "--no-renames", "--end-of-options", base, "HEAD", cwd=path
    )
    return sorted(name for name in listing.split("\0") if name)


def commit_leftovers(path: Path, message: str) -> Leftovers:
    """Commit whatever an agent left uncommitted or untracked; ignored files stay out."""
    files = uncommitted(path)
    nested = _nested(files)
    waiting = unfinished(path) or ("" if current_branch(path) else "detached HEAD")
    if waiting or len(files) == len(nested):
        return Leftovers(unfinished=waiting, nested=nested)
    stage_all(path, nested)
    words = (*identity(path), *COMMIT, "--message", message)
    ended = locking.run(*words, cwd=path)
    if ended.code == NOTHING_STAGED and not ended.stderr.strip():  # such as a change of line ends only
        return Leftovers(nested=nested)
    locking.printed(ended, words)
    return Leftovers(head(path), nested=nested)


def _nested(files: Sequence[str]) -> tuple[str, ...]:
    """With every untracked file listed, only a repository of its own is shown as a folder."""
    return tuple(name for name in files if name.endswith("/"))


def stage_all(path: Path, nested: Sequence[str] | None = None) -> None:
    """Stage everything but nested repositories, of which git would keep only an address."""
    left_out = _nested(uncommitted(path)) if nested is None else nested
    exclude = [f":(top,exclude,literal){name.rstrip('/')}" for name in left_out]
    locking.output("add", "--all", "--", ":(top)", *exclude, cwd=path)


def commit(path: Path, *words: str) -> None:
    locking.output(*identity(path), *COMMIT, *words, cwd=path)


def identity(path: Path) -> tuple[str, ...]:
    """Options that name a committer where neither git's settings nor the environment do."""
    return () if settings.names_committer(path) or names_committer(path) else FALLBACK_IDENTITY


def names_committer(path: Path) -> bool:
    """True if git knows who commits here, without guessing it from the machine's name."""
    asked = ("GIT_COMMITTER_IDENT", "GIT_AUTHOR_IDENT")
    return all(commands.run("-c", "user.useConfigOnly=true", "var", one, cwd=path).ok for one in asked)
