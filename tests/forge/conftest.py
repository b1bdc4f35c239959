"""Every forge, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forge.places import Place, bare_beside, on_github


@pytest.fixture
def github(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A repository on the loopback GitHub, and the real gh logged in there."""
    with on_github(repo, tmp_path, monkeypatch) as place:
        yield place


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
