"""Every store, one after another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beads_ralph.store.bd.bd_store import initialise
from beads_ralph.store.protocol import Store
from tests.conftest import copied
from tests.contract.places import Place


def bd_place(request: pytest.FixtureRequest, factory: pytest.TempPathFactory, tmp_path: Path) -> Place:
    program = str(request.getfixturevalue("bd_path"))

    def make(root: Path) -> None:
        shutil.copytree(request.getfixturevalue("bd_repo"), root, symlinks=True, dirs_exist_ok=True)
        initialise(root, program)

    return Place("bd", copied(factory, "bd-place", make, tmp_path / "copy"), program)


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Place:
    if request.param == "bd":
        return bd_place(request, tmp_path_factory, tmp_path)
    return Place("embedded", tmp_path / "app")


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
