"""Every executor, one after another."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from beads_ralph.process.executors.tmux import TmuxExecutor
from beads_ralph.process.jobs import Executor
from tests.conftest import IN_CI
from tests.executors.running import SOCKET, executor_of


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TmuxExecutor:
    """The executor on a tmux server of the test's own."""
    if shutil.which("tmux") is None:
        message = "needs tmux"
        if IN_CI:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    return TmuxExecutor(SOCKET)


@pytest.fixture
def mark() -> str:
    """The test's own: one that runs beside it must not find its processes."""
    return uuid.uuid4().hex


@pytest.fixture(params=["local", pytest.param("tmux", marks=pytest.mark.tmux)])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "tmux":
        request.getfixturevalue("tmux")
    return str(request.param)


@pytest.fixture
def executor(kind: str) -> Executor:
    return executor_of(kind)
