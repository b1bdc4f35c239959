"""What a worktree is lent while its bead is at work: files, ports, and the setup that it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from beads_ralph.bead.evidence import Evidence
from beads_ralph.git import git_files, settings, submodules, worktree_status
from beads_ralph.journal.events import LeaseTaken
from beads_ralph.process import executors
from beads_ralph.process.calls import in_thread
from beads_ralph.process.jobs import Exit, Job
from beads_ralph.session import confinement, lent_files
from beads_ralph.session.order import Halted
from beads_ralph.session.state import BeadSession
from beads_ralph.session.verifier_world import CheckSetting
from beads_ralph.session.verify import SHELL

MARK: Final = "beads-ralph-setup"
"""A file in git's own folder of a worktree: it goes with the worktree, and is in no commit."""
LAST_WORDS: Final = 2000


@contextmanager
def taken(case: BeadSession) -> Iterator[None]:
    """Ports for the bead until its work ends, however it ends."""
    ports = case.tools.ports
    if ports is None:
        yield
        return
    with ports.lent() as lent:
        case.ports = lent
        yield


async def furnish(case: BeadSession) -> None:
    """Its submodules and the lent files in the worktree; told, so that `status` can show it."""
    if why := await in_thread(_fill, case, case.worktree):
        raise Halted("blocked", why)
    patterns = case.tools.config.worktree_files
    case.lent = await in_thread(lent_files.lend, case.tools.root, case.worktree, patterns) if patterns else []
    if case.ports or case.lent or case.tools.config.worktree_setup:
        _tell(case, setup="pending" if case.tools.config.worktree_setup else None)


def _fill(case: BeadSession, tree: Path) -> str:
    """The submodules; what an agent has committed in one is in the worktree's own folder alone."""
    root = case.tools.root
    common = git_files.folders_of(case.worktree)[0]
    near = [folder / "modules" for folder in (worktree_status.git_dir(case.worktree), common)]
    return submodules.fill(tree, near, settings.plain(root))


def _tell(case: BeadSession, setup: str | None, seconds: float | None = None) -> None:
    case.tell(LeaseTaken(ports=case.ports, files=tuple(case.lent), setup=setup, seconds=seconds))


# --- setup --------------------------------------------------------------------------------------------


async def set_up(case: BeadSession) -> None:
    """Run the setup command, once for every worktree; what it cannot do, no agent can do without it."""
    command = case.tools.config.worktree_setup
    if command is None:
        return
    mark = worktree_status.git_dir(case.worktree) / MARK
    wanted = hashlib.sha256(command.encode()).hexdigest()
    if mark.is_file() and mark.read_text("utf-8") == wanted:
        return
    ended = await _run(case, case.worktree, command, "setup")
    if not ended.ok:
        raise Halted("blocked", f"{_failure(command, ended)}; see: beads-ralph logs {case.bead.id}")
    mark.write_text(wanted, "utf-8")
    _tell(case, setup="done", seconds=round(ended.seconds, 3))


async def furnish_checkout(
    case: BeadSession, checkout: Path, commit: str, name: str, around: CheckSetting | None = None
) -> list[Evidence]:
    """The same for a clean checkout: checks need what the work needs. A failure is one of the work's, since
    it succeeded before; empty where there is none."""
    config = case.tools.config
    if why := await in_thread(_fill, case, checkout):
        return [Evidence("submodules", "verifier", "git submodule update", commit, "fail", why)]
    if config.worktree_files:
        await in_thread(lent_files.lend, case.tools.root, checkout, config.worktree_files)
    if config.worktree_setup is None:
        return []
    ended = await _run(case, checkout, config.worktree_setup, name, around)
    if ended.ok:
        return []
    said = _failure(config.worktree_setup, ended)
    row = Evidence(
        "worktree_setup",
        "verifier",
        config.worktree_setup,
        commit,
        "fail",
        said.partition("\n")[0],
        ended.code,
        ended.seconds,
        output_tail=_last_words(ended),
    )
    return [row]


async def _run(
    case: BeadSession, tree: Path, command: str, name: str, around: CheckSetting | None = None
) -> Exit:
    tools, config = case.tools, case.tools.config
    job = Job(
        (*SHELL, command),
        tree,
        env={**(around.env if around else tools.environment), **case.env},
        timeout=config.worktree_setup_timeout,
        name=f"{name}-{case.bead.id}",
        transcript=tools.folder.transcript(case.bead.id, name),
        memory_limit_mb=confinement.memory_limit_mb(case.bead, config),
        writes=git_files.folders_of(tree)[1:],
    )
    return await executors.run_through(tools.executor, around.wrap(job) if around else job)


def _failure(command: str, ended: Exit) -> str:
    why = ended.cut_short or f"ended with exit code {ended.code}"
    return f"worktree_setup ({command}) {why}\n{_last_words(ended)}".rstrip()


def _last_words(ended: Exit) -> str:
    parts = (ended.stdout, ended.stderr)
    return "\n".join(part.strip()[-LAST_WORDS:] for part in parts if part.strip())
