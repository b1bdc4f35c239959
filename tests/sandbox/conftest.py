"""A repository with a worktree, a home, and executors whose jobs are closed in."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from beads_ralph.bead.personas import AgentRole
from beads_ralph.git import git_files
from beads_ralph.process.executors import choose
from beads_ralph.process.executors.tmux import TmuxExecutor
from beads_ralph.process.jobs import Executor, Exit, Job, Profile
from beads_ralph.process.sandbox import Sandbox, Sandboxed
from beads_ralph.session import confinement
from tests.agents.running import task
from tests.conftest import need_bwrap
from tests.executors.running import SOCKET, job, run


@pytest.fixture(autouse=True)
def bwrap() -> None:
    need_bwrap()


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Place:
    """Where a closed-in job works."""

    root: Path
    tree: Path
    home: Path
    folder: Path

    def job(self, script: str, role: AgentRole = "dev", **settings: object) -> Job:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        asked = task(self.tree, role=role, git_folders=git_files.folders_of(self.tree))
        profile = Profile("a program", state=(".agent", ".agent.json"))
        writes = (*confinement.written_by_git(asked), *confinement.state_of(profile, env))
        given = {"cwd": self.tree, "env": env, "writes": writes, **settings}
        return job(self.folder, "sh", "-c", script, **given)

    def run(self, script: str, role: AgentRole = "dev", *, network: bool = True, **settings: object) -> Exit:
        return run(choose("local", Sandbox(self.root, network)), self.job(script, role, **settings))


@pytest.fixture
def place(repo: Path, tmp_path: Path) -> Place:
    home = tmp_path / "agents"
    home.mkdir()
    shutil.copy(Path.home() / ".gitconfig", home / ".gitconfig")
    tree = tmp_path / "tree"
    subprocess.run(["git", "worktree", "add", "-q", "-b", "work", str(tree)], cwd=repo, check=True)
    return Place(repo, tree, home, tmp_path)


@pytest.fixture(params=["local", pytest.param("tmux", marks=pytest.mark.tmux)])
def executor(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Executor:
    closed_in = Sandbox(tmp_path)
    if request.param == "local":
        return choose("local", closed_in)
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    return Sandboxed(TmuxExecutor(SOCKET), closed_in)
