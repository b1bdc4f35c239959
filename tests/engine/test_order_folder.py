"""An order's folder on a host: a session that cannot be noted down is not left to itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.engine.order_folder import PROCESS, folder_of
from beads_ralph.errors import RalphError


def test_a_session_that_cannot_be_noted_is_ended(tmp_path: Path) -> None:
    order = folder_of(tmp_path, "0123456789abcdef")
    (order.path / PROCESS / "in-the-way").mkdir(parents=True)
    with pytest.raises(RalphError):
        order.begin({"order": ""})
    assert order.child is not None
    assert order.child.poll() is not None
