"""Three hosts in network namespaces: whatever is killed, stopped, cut off or full, no law breaks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bench import host_chaos
from tests.conftest import IN_CI
from tests.engine.servers import need_temporal

SEED = 2
FAULTS = 3


def need_namespaces() -> None:
    """Only root may lay networks and mount file systems."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces")
    if shutil.which("ip") is None:
        message = "needs ip (Debian package iproute2)"
        if IN_CI:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


@pytest.mark.full
@pytest.mark.temporal
def test_faults_of_hosts_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    need_namespaces()
    outcome = host_chaos.torment(tmp_path, need_temporal(), count=FAULTS, seed=SEED, length=1)
    assert outcome.broken == []
    assert outcome.faults >= FAULTS
    assert outcome.closed == outcome.plans * outcome.beads
