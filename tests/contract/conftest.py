"""Every store, one after another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beads_ralph.store.bd.bd_store import initialise
from beads_ralph.store.protocol import Store
from tests.contract.places import Place


@pytest.fixture(scope="session")
def bd_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves a fresh bd database for the others: making one takes seconds."""
    return tmp_path_factory.mktemp("bd") / "fresh"


def bd_place(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Place:
    program = str(request.getfixturevalue("bd_path"))
    if not template.exists():
        root: Path = request.getfixturevalue("bd_repo")
        initialise(root, program)
        shutil.copytree(root, template, symlinks=True)
    root = tmp_path / "copy"
    shutil.copytree(template, root, symlinks=True)
    return Place("bd", root, program)


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def place(request: pytest.FixtureRequest, bd_template: Path, tmp_path: Path) -> Place:
    if request.param == "bd":
        return bd_place(request, bd_template, tmp_path)
    return Place("embedded", tmp_path / "app")


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
