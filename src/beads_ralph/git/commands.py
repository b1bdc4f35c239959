"""git through its own CLI, with the caller's GIT_* variables left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import git_files, settings
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Exit, Job

TIMEOUT: Final = 60.0
FIXED: Final = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1"}


def run(
    *args: str,
    cwd: Path,
    timeout: float = TIMEOUT,
    env: Mapping[str, str] | None = None,
    stdin: str | Path | None = None,
) -> Exit:
    """One git command, with the settings of the run where there is one; `env` sends it elsewhere. It reads a
    text, or a file.

    Inherited GIT_DIR and the like would send it to another repository. No object stands in for another.
    """
    if env is None:  # `git worktree` writes down where the repository is
        env = settings.plain(cwd) if args[:1] == ("worktree",) else settings.environment(cwd)
    environment = jobs.environment({**FIXED, **env}, drop_prefixes=settings.PLACES)
    try:
        text, file = (None, stdin) if isinstance(stdin, Path) else (stdin, None)
        return jobs.run(Job(("git", *args), cwd, env=environment, timeout=timeout, stdin=text), file)
    except (FileNotFoundError, NotADirectoryError):
        raise _not_started(cwd) from None


def _not_started(cwd: Path) -> RalphError:
    """A program and a folder that are not there look the same to whoever starts a process."""
    if not cwd.is_dir():
        message, action = f"there is no folder {cwd}, so git cannot run there", "Bring it back, and try again"
    else:
        message, action = "git is not installed", "Install git and put it on PATH"
    return RalphError(Code.GIT_ERROR, message, suggested_action=action)


def output(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What the command printed; GIT.ERROR with the command and git's own words where it failed."""
    ended = run(*args, cwd=cwd, env=env)
    if not ended.ok:
        command = " ".join(("git", *args))
        raise RalphError(
            Code.GIT_ERROR, f"{command} failed", details=ended.stderr.strip() or f"exit code {ended.code}"
        )
    return ended.stdout.strip("\n")


def commit_of(ref: str, cwd: Path) -> str | None:
    """The commit that a full ref name or a commit's own name stands for."""
    if (known := git_files.commit_of(ref, cwd)) is not None:
        return known
    ended = run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", cwd=cwd)
    return ended.stdout.strip() if ended.ok else None


def contains(repo: Path, whole: str, part: str) -> bool:
    """True if every commit of `part` is in `whole`."""
    return run("merge-base", "--is-ancestor", part, whole, cwd=repo).ok


def refs_of(tree: Path, *below: str) -> dict[str, str]:
    """The refs of the repository that the working tree belongs to, with what they lead to: all of them, or
    those whose names begin so. After hundreds of beads there are many, and most are asked for by few."""
    if (known := git_files.refs_of(tree, *below)) is not None:
        return known
    rows = output("for-each-ref", "--format=%(refname) %(objectname)", *below, cwd=tree).splitlines()
    return dict(row.split(" ", 1) for row in rows)


def remote_addresses(remote: str, cwd: Path) -> list[str]:
    """A remote's address as git would use it and as it was written down; empty without such a remote."""
    asked = (("remote", "get-url", "--", remote), ("config", "--get", f"remote.{remote}.url"))
    answers = (run(*words, cwd=cwd) for words in asked)
    return list(dict.fromkeys(ended.stdout.strip() for ended in answers if ended.ok))


@dataclass(frozen=True)
class Repository:
    """The main working tree, found from anywhere inside it or inside one of its worktrees."""

    root: Path
    tree: Path | None = field(default=None, compare=False)
    """The working tree that it was found from, be it the main one or a worktree beside it."""

    def branches(self) -> frozenset[str]:
        """Local branches, one without a commit included, and the remotes' without the remote's name."""
        refs = output("for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes", cwd=self.root)
        current = self.current_branch()
        return frozenset([*map(_branch_name, refs.splitlines()), *([current] if current else [])])

    def current_branch(self) -> str | None:
        """The branch checked out, also in a repository without a commit; None when detached."""
        return branch_at(self.root)


def branch_at(tree: Path) -> str | None:
    """The branch that is checked out in a working tree, without a commit too; None when detached."""
    if (known := git_files.branch_at(tree)) is not None:
        return known
    return run("symbolic-ref", "--quiet", "--short", "HEAD", cwd=tree).stdout.strip() or None


def _branch_name(ref: str) -> str:
    parts = ref.split("/")
    return "/".join(parts[2:]) if parts[1] == "heads" else "/".join(parts[3:])


def find(start: Path) -> Repository | None:
    """The repository that `start` lies in, None outside of any."""
    # Outside of a working tree git says the first, and fails at the second.
    asked = run("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel", cwd=start)
    common, _, top = asked.stdout.strip().partition("\n")
    if "\n" in top:  # a folder's name holds a line end
        common, top = (_asked_alone(start, one) for one in ("--git-common-dir", "--show-toplevel"))
    tree = Path(top) if top else None
    if common and Path(common).name == ".git":
        return Repository(Path(common).parent, tree)
    return Repository(tree, tree) if tree else None


def _asked_alone(start: Path, which: str) -> str:
    return run("rev-parse", "--path-format=absolute", which, cwd=start).stdout.strip()


def no_repository(start: Path) -> RalphError:
    """What to say of a place where `find` finds nothing."""
    if run("rev-parse", "--is-bare-repository", cwd=start).stdout.strip() == "true":
        message, action = (
            f"{start} is a bare repository, without files",
            f"Work in a clone: git clone {start}",
        )
        return RalphError(Code.GIT_NOT_REPO, message, suggested_action=action)
    return RalphError(Code.GIT_NOT_REPO, f"{start} is not a git repository")


def toplevel(start: Path) -> Path | None:
    """The working tree that `start` lies in, be it the main one or a worktree beside it."""
    top = _asked_alone(start, "--show-toplevel")
    return Path(top) if top else None
