"""Repositories with a forge each, and the git commands that the tests give them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from beads_ralph.forge import choose
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Forge, Proposal
from beads_ralph.process.calls import Retry
from tests.conftest import IN_CI
from tests.forge.github_server import NAME, OWNER, GitHub, configure, serving

PATIENCE = Network(Retry(3, 0.01), timeout=20.0)


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refs(root: Path, *patterns: str) -> dict[str, str]:
    rows = git(root, "for-each-ref", "--format=%(refname) %(objectname)", *patterns).splitlines()
    return dict(row.split(" ") for row in rows)


@dataclass(frozen=True)
class Place:
    """A repository, the kind of its forge, and what lies behind."""

    kind: str
    root: Path
    bare: Path | None = None
    hub: GitHub | None = None

    def open(self, network: Network = PATIENCE) -> Forge:
        return choose(self.kind, self.root, network=network)

    def commit(self, branch: str, text: str = "work") -> str:
        """One more commit on the branch, which starts at main; main stays checked out."""
        if f"refs/heads/{branch}" not in refs(self.root):
            git(self.root, "branch", branch, "main")
        git(self.root, "switch", "--quiet", branch)
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", text)
        commit = git(self.root, "rev-parse", "HEAD")
        git(self.root, "switch", "--quiet", "main")
        return commit

    def proposal(self, branch: str = "feature/one", text: str = "work", **changes: str) -> Proposal:
        """A proposal of a new commit on the branch."""
        values = {"bead_id": "bd-1", "title": "Do it", "body": "All checks passed.", "target": "main"}
        return Proposal(branch=branch, commit=self.commit(branch, text), **{**values, **changes})

    def proposed(self, branch: str) -> list[int]:
        """The numbers of the open pull requests of a branch, looked up behind the forge's back."""
        if self.hub is not None:
            return [pull.number for pull in self.hub.pulls if pull.head == branch and pull.state == "OPEN"]
        records = (self.root / ".ralph" / "pulls").glob("*.json")
        return [int(path.stem) for path in records if f'"branch": "{branch}"' in path.read_text("utf-8")]

    def text(self, number: int | None) -> str:
        """Title and body of a pull request, looked up behind the forge's back."""
        if self.hub is not None and number is not None:
            pull = self.hub.pulls[number - 1]
            return f"{pull.title}\n{pull.body}"
        return (self.root / ".ralph" / "pulls" / f"{number}.md").read_text("utf-8")


def bare_beside(root: Path, *, address: str | None = None) -> Path:
    """A bare repository that is origin, under the address given or its own."""
    bare = root.parent / "remotes" / f"{NAME}.git"
    git(root, "clone", "--quiet", "--bare", str(root), str(bare))
    git(root, "remote", "add", "origin", address or str(bare))
    if address:
        git(root, "config", f"url.{bare.parent}/.insteadOf", f"https://github.com/{OWNER}/")
    return bare


@contextmanager
def on_github(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A repository on the loopback GitHub, and the real gh logged in there."""
    if shutil.which("gh") is None:
        message = "needs gh: run tools/system-packages"
        if IN_CI:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    for name in list(os.environ):
        if name.startswith(("GH_", "GITHUB_")):
            monkeypatch.delenv(name)
    configure(tmp_path / "gh", tmp_path / "s")
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path / "gh"))
    monkeypatch.setenv("GH_TOKEN", "dummy")
    bare = bare_beside(repo, address="https://github.com/acme/app.git")
    hub = GitHub(bare)
    with serving(hub, tmp_path / "s"):
        yield Place("github", repo, bare, hub)


def path_with(directory: Path, programs: Sequence[str]) -> str:
    """A PATH on which there are these programs only."""
    directory.mkdir()
    for name in programs:
        found = shutil.which(name)
        assert found, name
        (directory / name).symlink_to(found)
    return os.fspath(directory)
