"""What every test gets: a home and settings of its own, and checks that it leaves nothing behind."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis.configuration import set_hypothesis_home_dir

from beads_ralph.git import settings
from beads_ralph.process import sandbox
from beads_ralph.process.reaper import STARTER

pytest_plugins = ["tests.selection"]
# Whoever started the tests in the background of a script has them ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
# Read before any test changes the environment.
IN_CI = bool(os.environ.get("CI"))
GIVEN_BD = os.environ.get("BEADS_RALPH_BD")
GIVEN_PATH = os.environ.get("PATH", os.defpath)

BD_WANTED = (1, 3, 0)
MARKER = "BEADS_RALPH_TEST_ID"
# Settings of the developer's own tools and of where the tests run, which must not reach a test.
FOREIGN = re.compile(r"(GIT|BD|BEADS|TMUX|GH|GITHUB)(_|$)|CLAUDE|ANTHROPIC|OPENAI|GEMINI|CI$|TERM$")
# How long processes that are already on their way out may take.
PATIENCE_SECONDS = 2.0

GIT_CONFIG = """\
[user]
    name = Test Author
    email = author@example.com
[init]
    defaultBranch = main
[commit]
    gpgSign = false
# Housekeeping runs in the background and would outlive the test.
[gc]
    auto = 0
[maintenance]
    auto = false
# No test outlives a power cut.
[core]
    fsync = none
"""

# Tests run in directories of their own; found examples are to be kept for the next run all the same.
set_hypothesis_home_dir(Path(__file__).parent.parent / ".hypothesis")


# --- processes left behind ------------------------------------------------------------------------


class Process(NamedTuple):
    """One process; the start time tells it from a later one with the same number."""

    pid: int
    started: int


def _processes() -> dict[Process, int]:
    """Every running process with its parent's number; zombies have ended and only wait to be reaped."""
    found: dict[Process, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - twice a test: the fastest way
        if not (stat := _told(name, "stat")):
            continue
        # The name stands in parentheses and may itself hold spaces and parentheses.
        state, parent, *rest = stat[stat.rindex(b")") + 2 :].split()
        if state not in b"ZX":
            found[Process(int(name), int(rest[17]))] = int(parent)
    return found


def _told(pid: str | int, name: str) -> bytes:
    """One of the kernel's files on a process; empty where there is no such process any more."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def _descendants(processes: dict[Process, int]) -> set[Process]:
    """Those whose chain of parents leads to this process."""
    children: dict[int, list[Process]] = {}
    for process, parent in processes.items():
        children.setdefault(parent, []).append(process)
    found: set[Process] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting.extend(process.pid for process in below)
    return found


def _marked(processes: dict[Process, int], marker: bytes) -> set[Process]:
    """Those that inherited the marker, also when their parent has ended."""
    return {process for process in processes if marker in _told(process.pid, "environ").split(b"\0")}


def _left_behind(before: set[Process], marker: bytes) -> set[Process]:
    processes = _processes()
    ours = {process for process in processes if process.pid == os.getpid()}
    return (_descendants(processes) | _marked(processes, marker)) - before - ours


def _command(process: Process) -> str:
    return _told(process.pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip() or "?"


def _end(processes: set[Process]) -> None:
    running = _processes()
    for process in processes:
        if process in running:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def no_process_left() -> Iterator[str]:
    """Give a marker for the environment; afterwards fail when a process of the test still runs."""
    identity = uuid.uuid4().hex
    if not Path("/proc/self/stat").exists():
        yield identity
        return
    marker = f"{MARKER}={identity}".encode()
    before = _descendants(_processes())
    yield identity
    settings.forget_all()
    STARTER.close()
    until = time.monotonic() + PATIENCE_SECONDS
    while left := _left_behind(before, marker):
        if time.monotonic() > until:
            named = "\n".join(f"  {process.pid}: {_command(process)}" for process in sorted(left))
            _end(left)
            pytest.fail(f"the test left processes behind (now ended):\n{named}", pytrace=False)
        time.sleep(0.02)


# --- the real home --------------------------------------------------------------------------------


def _real_homes() -> list[Path]:
    """HOME as it was given, and the one in the user database, which some programs prefer."""
    homes = [Path(os.environ["HOME"])] if os.environ.get("HOME") else []
    with suppress(KeyError):
        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return list(dict.fromkeys(home for home in homes if home.is_dir()))


REAL_HOMES = _real_homes()
# Where the programs that tests start would write if they found the real home. Everything else there belongs
# to other programs of the user, which go on working while tests run.
LEAKS = (
    *(".beads", ".config/bd", ".config/beads", ".cache/bd", ".cache/beads", ".local/share/bd", ".dolt"),
    *(".ralph", ".config/beads-ralph", ".local/state/beads-ralph", ".local/share/beads-ralph"),
    *(".gitconfig", ".git", ".git-credentials", ".config/git", ".config/gh", ".local/state/gh"),
    *(".claude", ".claude.json", ".config/claude", ".cache/claude", ".cache/claude-cli-nodejs"),
    *(".codex", ".gemini", ".config/gemini", ".cache/gemini", ".tmux.conf"),
    *(".config/goose", ".local/share/goose", ".local/state/goose"),
    *(".opencode", ".config/opencode", ".cache/opencode", ".local/share/opencode", ".local/state/opencode"),
    *(".copilot", ".config/github-copilot", ".cache/copilot", ".local/state/.copilot"),
)


def _leaked(homes: Sequence[Path]) -> set[str]:
    return set(filter(os.path.lexists, (f"{home}/{name}" for home in homes for name in LEAKS)))


@contextmanager
def untouched(homes: Sequence[Path]) -> Iterator[None]:
    """Fail when something that only a program of the test could have made appears in one of the homes."""
    before = _leaked(homes)
    yield
    if made := sorted(_leaked(homes) - before):
        pytest.fail(f"made in the real home during the test (or one beside it): {made}", pytrace=False)


@pytest.fixture
def real_home_untouched() -> Iterator[None]:
    with untouched(REAL_HOMES):
        yield


# --- isolation ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def isolated(
    # Asked for first, so that they look last: after every other fixture has cleaned up.
    no_process_left: str,
    real_home_untouched: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Give the test a home, settings and a current directory of its own. The value is the home."""
    for name in list(os.environ):
        if FOREIGN.match(name):
            monkeypatch.delenv(name)

    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable, below in {
        "XDG_CACHE_HOME": ".cache",
        "XDG_CONFIG_HOME": ".config",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
        "XDG_RUNTIME_DIR": ".run",
    }.items():
        directory = home / below
        directory.mkdir(parents=True)
        directory.chmod(0o700)  # What XDG asks of the runtime directory does no harm to the others.
        monkeypatch.setenv(variable, str(directory))
    # The system's own settings, which the lists of directories lead to.
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(home / ".none"))
    monkeypatch.setenv("XDG_DATA_DIRS", str(home / ".none"))

    git_config = home / ".gitconfig"
    git_config.write_text(GIT_CONFIG, encoding="utf-8")
    for variable, value in {
        "GIT_CONFIG_GLOBAL": str(git_config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "BD_DISABLE_METRICS": "1",
        "BD_DISABLE_EVENT_FLUSH": "1",
        "BD_NON_INTERACTIVE": "1",
        "NO_COLOR": "1",
        "TZ": "UTC",
        MARKER: no_process_left,
    }.items():
        monkeypatch.setenv(variable, value)
    time.tzset()
    # A killed process loses nothing that it has written: only a power cut does. Waiting for the disk, several
    # workers wait for one another.
    monkeypatch.setattr(os, "fsync", lambda _file: None)
    monkeypatch.chdir(tmp_path)
    return home


# --- repositories ---------------------------------------------------------------------------------


@cache
def _bd_version(program: str) -> tuple[int, ...]:
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=60, check=True, cwd="/"
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, numbers.groups())) if numbers else ()


@pytest.fixture
def bd_path() -> Path:
    """The real bd. Without one the test is skipped, and fails in CI: there a skip would hide a gap."""
    program = GIVEN_BD or shutil.which("bd", path=GIVEN_PATH)
    if program and _bd_version(program) >= BD_WANTED:
        return Path(program).absolute()
    wanted = ".".join(map(str, BD_WANTED))
    message = f"needs bd {wanted} or newer: run `make bd`, or set BEADS_RALPH_BD"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def copied(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None], to: Path) -> Path:
    """A copy of a folder that the first test to need it makes for all of its process."""
    made = factory.getbasetemp() / "made-once" / name
    if not made.exists():
        half = made.with_name(f"{name}-half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        make(half)
        half.rename(made)
    return shutil.copytree(made, to, symlinks=True, dirs_exist_ok=True)


def _first_commit(root: Path) -> None:
    (root / "README.md").write_text("# app\n", encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "README.md"], ["commit", "--quiet", "--message", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh git repository with one commit on main."""
    return copied(tmp_path_factory, "repo", _first_commit, tmp_path / "app")


@pytest.fixture
def bd_repo(
    repo: Path, bd_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The fresh git repository with a real, empty bd database; `bd` is on PATH."""
    monkeypatch.setenv("PATH", str(bd_path.parent), prepend=os.pathsep)

    def make(root: Path) -> None:
        shutil.copytree(repo, root, symlinks=True, dirs_exist_ok=True)
        words = ["init", "--non-interactive", "--prefix", "bd", "--stealth", "--skip-hooks", "--skip-agents"]
        done = subprocess.run(
            [bd_path, *words, "--quiet"], cwd=root, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return copied(tmp_path_factory, "bd-repo", make, repo)


@pytest.fixture
def with_claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name on PATH, which nobody calls: what looks ahead finds it."""
    folder = tmp_path / "with-claude"
    folder.mkdir()
    (folder / "claude").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (folder / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def need_bwrap() -> None:
    """Skip what needs a sandbox where the kernel allows none: there the refusal is what is tested. A
    program that is merely not installed is a failure in CI."""
    refusal = sandbox.problem()
    if refusal is None:
        return
    if IN_CI and shutil.which("bwrap") is None:
        pytest.fail(refusal.message, pytrace=False)
    pytest.skip(refusal.message)
