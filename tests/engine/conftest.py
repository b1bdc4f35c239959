"""The server that tests of many machines talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.servers import TemporalServer, running_server


@pytest.fixture
def temporal_server(tmp_path: Path, isolated: Path) -> Iterator[TemporalServer]:
    """A real server with a database of its own. Tests that ask for it belong to the larger set."""
    with running_server(tmp_path) as server:
        yield server
