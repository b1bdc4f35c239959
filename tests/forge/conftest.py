"""Every forge, one after another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import IN_CI
from tests.forge.github_server import GitHub, configure, serving
from tests.forge.places import Place, bare_beside


@pytest.fixture
def github(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
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


@pytest.fixture
def local(repo: Path) -> Place:
    return Place("local", repo)


@pytest.fixture
def pushed(repo: Path) -> Place:
    """The local forge in a repository that has a remote."""
    return Place("local", repo, bare_beside(repo))


@pytest.fixture(params=["local", "pushed", "github"])
def place(request: pytest.FixtureRequest) -> Place:
    """A repository for each forge that keeps pull requests."""
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["local", "pushed", "github", "none"])
def any_place(request: pytest.FixtureRequest, repo: Path) -> Place:
    """A repository for each forge there is."""
    if request.param == "none":
        return Place("none", repo)
    found: Place = request.getfixturevalue(request.param)
    return found
