"""A repository with a worktree, a home, and executors whose jobs are closed in."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from beads_ralph.bead.personas import AgentRole
from beads_ralph.git import git_files, quarantine
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


PROGRAM = Profile(
    "a program",
    state=(".agent", ".agent.json", ".notes.json", ".config/agent"),
    settings=(".agent/settings.json", ".agent/RULES.md", ".agent/hooks", ".agent/*.sh"),
    overlaid=(".config/agent",),
    copied=(".notes.json",),
)


@dataclass(frozen=True)
class Place:
    """Where a closed-in job works."""

    root: Path
    tree: Path
    home: Path
    folder: Path
    branch: str = "work"

    def job(self, script: str, role: AgentRole = "dev", **settings: object) -> Job:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        given = {
            "cwd": self.tree,
            "env": env,
            "writes": confinement.state_of(PROGRAM, env),
            "settings": tuple(confinement.settings_of(PROGRAM, env)),
            "overlaid": confinement.places_of(PROGRAM.overlaid, PROGRAM, env),
            "copied": confinement.places_of(PROGRAM.copied, PROGRAM, env),
            **settings,
        }
        return job(self.folder, "sh", "-c", script, **given)

    def run(self, script: str, role: AgentRole = "dev", *, network: bool = True, **settings: object) -> Exit:
        return self.seen(script, role, choose("local", Sandbox(self.root, network)), **settings)[0]

    def seen(
        self,
        script: str,
        role: AgentRole = "dev",
        executor: Executor | None = None,
        **settings: object,
    ) -> tuple[Exit, list[str]]:
        """How the job ended, and what of its doings was not taken over."""
        asked = task(self.tree, role=role, git_folders=git_files.folders_of(self.tree))
        quarantined = quarantine.around(self.root, self.tree, self.branch)
        with nullcontext() if role == "qa" else quarantined as own:
            within = confinement.with_git(self.job(script, role, **settings), asked, own)
            ended = run(executor or choose("local", Sandbox(self.root)), within)
        return ended, own.told if own else []


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
