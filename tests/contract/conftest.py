"""Every store, one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.protocols import Store
from tests.contract.places import Place


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "embedded":
        root: Path = request.getfixturevalue("tmp_path")
        return Place("embedded", root)
    return Place("bd", request.getfixturevalue("bd_repo"), str(request.getfixturevalue("bd_path")))


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
