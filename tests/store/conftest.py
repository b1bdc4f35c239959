"""A bd database for tests of the bd store, and bd itself as a user calls it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.bd.bd_store import initialise
from tests.conftest import copied

Call = Callable[..., Any]


@pytest.fixture
def bd_repo(
    repo: Path, bd_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The fresh git repository with a database as `init` makes it."""
    monkeypatch.setenv("PATH", str(bd_path.parent), prepend=os.pathsep)

    def make(root: Path) -> None:
        whole = shutil.copytree(repo, root.with_name("whole"), symlinks=True)
        initialise(whole)
        shutil.copytree(whole / ".beads", root, dirs_exist_ok=True)

    copied(tmp_path_factory, "bd-initialised", make, repo / ".beads")
    return repo


@pytest.fixture
def bd(bd_repo: Path, bd_path: Path) -> Call:
    """Call the real bd as a user would; what it prints, as JSON where it is JSON."""
    return calling(bd_repo, bd_path)


def calling(root: Path, program: Path) -> Call:
    def call(*words: str, stdin: str | None = None) -> Any:
        done = subprocess.run(
            [program, *words], cwd=root, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout.startswith(("{\n", "[")) else done.stdout

    return call


def git_in(repo: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=repo, check=True, timeout=60, capture_output=True, text=True
    ).stdout.strip()
