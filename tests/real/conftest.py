"""The real agent CLIs on the scripted model: a home of their own, and nothing that leaves the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from beads_ralph.agents.protocol import Reply, select
from beads_ralph.agents.reply_reader import lines_of
from beads_ralph.process.jobs import Exit
from tests.conftest import IN_CI
from tests.git.repos import git
from tests.model.exchange import Question
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.calling import Ask, Caller
from tests.real.clis import NIGHTLY, Cli, found, prepare
from tests.real.outside import Proxy
from tests.real.record import Take, play

# Read before any test changes the environment.
GIVEN = os.environ.get("BEADS_RALPH_AGENTS")
AGENTS = Path(GIVEN) if GIVEN else None


def installed(name: str) -> Path:
    """The executable. Without it the test is skipped, and fails in CI: there a skip would hide a gap."""
    program = found(name, AGENTS)
    if program:
        return program
    option = " --nightly" if name in NIGHTLY else ""
    message = f"needs {name}: export BEADS_RALPH_AGENTS=$(tools/agents/install{option})"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    """One for all tests of the worker: runs have names of their own."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def nothing_outside() -> Iterator[Proxy]:
    """Afterwards fail when a CLI asked the proxy for anything."""
    with Proxy() as proxy:
        yield proxy
    assert proxy.asked == [], "a program tried to reach the world outside"


@pytest.fixture
def cli_home(isolated: Path) -> Path:
    """The test's own home, with git settings and nothing of the machine's user."""
    return isolated


@pytest.fixture
def worktree(repo: Path) -> Path:
    """Beside its repository, as agents get one."""
    folder = repo.parent / "app-worktrees" / "work"
    git(repo, "worktree", "add", "--quiet", "-b", "work", str(folder))
    return folder


@pytest.fixture
def cli(cli_home: Path, nothing_outside: Proxy) -> Callable[[str, str], Cli]:
    """`cli(name, base)`: the CLI of that name, set up for the model at that address."""

    def ready(name: str, base: str) -> Cli:
        made = prepare(name, installed(name), cli_home, base)
        return Cli(made.name, made.program, made.home, {**made.env, **nothing_outside.env})

    return ready


@pytest.fixture
def caller(
    cli: Callable[[str, str], Cli], model_server: ModelServer, worktree: Path, tmp_path: Path
) -> Callable[[str], Caller]:
    """`caller(name)`: calls the CLI of that name through its adapter."""
    folder = tmp_path / "transcripts"
    folder.mkdir()
    return lambda name: Caller(name, model_server, cli, worktree, folder)


@pytest.fixture
def asking(
    cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path, tmp_path: Path
) -> Callable[[str], Ask]:
    """`asking(name)`: calls of that CLI in the repository; what each came to, and what the model was asked.
    The model says a sentence and nothing else where it is given one."""
    calls = count()

    def ask(name: str, take: Take, said: str = "") -> tuple[Exit, Reply, list[Question]]:
        run = f"{tmp_path.name}-{next(calls)}"
        base = model_server.play(run, [Rule("", say=said)]) if said else model_server.base(take.model, run)
        ended = play(cli(name, base), take, repo, tmp_path / run)
        assert ended.transcript
        reply = select(name).reply(ended, lines_of(ended.transcript.out))
        return ended, reply, model_server.questions(run)

    return lambda name: partial(ask, name)
