"""The board of a run in the run's own terminal: real processes, a real terminal, real keys."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beads_ralph.journal import runs
from tests.cli.running import RALPH, environment, ralph
from tests.cli.terminal import Terminal, at_a_terminal
from tests.loop.plans import Project, Steps, soon, sprint, work

ATTACH = "to attach again: beads-ralph board"


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """What lets the developer on."""
    return tmp_path / "go"


@pytest.fixture
def project(repo: Path, go: Path) -> Project:
    waits: Steps = [{"run": f"while [ ! -e {go} ]; do sleep 0.05; done"}, *work()]
    return Project.make(repo, sprint("1.1", "Storage of items"), script={"1.1": {"dev": waits}})


def sized(terminal: Terminal) -> None:
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))


def board_of(project: Project) -> int:
    """The process of the board that the run has started."""
    holder = runs.holder(project.root / ".ralph")
    assert holder is not None
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
    (found,) = (int(pid) for pid, parent, words in rows if int(parent) == holder.pid and "--of-run" in words)
    return found


def test_a_board_that_is_killed_leaves_the_run_and_the_terminal_in_order(project: Project, go: Path) -> None:
    with at_a_terminal(project.root, "run", "plan.md") as person:
        sized(person)
        before = termios.tcgetattr(person.fd)[3]
        person.shows("Storage of items")
        person.shows("at work")
        os.kill(board_of(project), signal.SIGKILL)
        person.shows(ATTACH)
        soon(lambda: termios.tcgetattr(person.fd)[3] == before)
        go.touch()
        assert person.ends() == 0
    assert "✓ done" in person.seen
    assert project.statuses() == {"bd-1-1-storage-of-items": "closed"}
    project.assert_tidy()


def test_ctrl_c_on_the_board_is_the_first_of_the_run(project: Project, go: Path) -> None:
    with at_a_terminal(project.root, "run", "plan.md") as person:
        sized(person)
        person.shows("at work")
        person.types("\x03")
        soon(lambda: project.events("run_draining"))
        go.touch()
        assert person.ends() == 0  # what was at work has finished, and it was all there was
    assert [row["reason"] for row in project.events("run_draining")] == ["interrupted"]


@pytest.mark.parametrize("setting", [{"CI": "true"}, {"TERM": "dumb"}], ids=["CI", "dumb"])
def test_where_nobody_watches_there_are_lines_and_no_board(
    project: Project, go: Path, setting: dict[str, str]
) -> None:
    go.touch()
    with at_a_terminal(project.root, "run", "plan.md", **setting) as person:
        sized(person)
        assert person.ends() == 0
    assert ATTACH not in person.seen
    assert "✓ done" in person.seen


@pytest.fixture
def tmux(project: Project, tmp_path: Path) -> Iterator[Callable[..., str]]:
    socket = str(tmp_path / "tmux")

    def call(*words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", socket, *words],
            capture_output=True,
            text=True,
            check=True,
            env=environment({}),
            cwd=project.root,
        )
        return done.stdout

    yield call
    subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)


@pytest.mark.tmux
def test_a_person_watches_a_run_in_tmux(project: Project, go: Path, tmux: Callable[..., str]) -> None:
    shell = f"{shlex.join([*RALPH, 'run', 'plan.md'])}; echo ended with $?; sleep 600"
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell)

    def shows(*texts: str) -> None:
        soon(lambda: all(text in tmux("capture-pane", "-p") for text in texts))

    shows("▶ running", "Storage of items", "1/")
    tmux("send-keys", "Enter")
    shows("developed", "attempt 1 of 3", "branch  feature/1-1-storage-of-items")
    tmux("send-keys", "g")
    shows("wave 1", "critical path")
    tmux("send-keys", "?")
    shows("leave the board; the run goes on")
    tmux("send-keys", "q")
    shows(ATTACH)
    go.touch()
    shows("ended with 0")
    assert "✓ done" in tmux("capture-pane", "-p", "-S", "-200")


def test_the_program_alone_says_how_things_stand_where_it_is_at_home_and_helps_elsewhere(
    project: Project, tmp_path: Path
) -> None:
    said = project.ralph()
    assert said.code == 0
    assert "no run yet" in said.out
    assert "Usage: beads-ralph" in ralph(cwd=tmp_path).out
    with at_a_terminal(project.root) as person:
        sized(person)
        person.shows("no run yet")
        assert person.ends("q") == 0
