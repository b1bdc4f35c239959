"""What only the tmux executor has: sessions that a person can watch."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.process.executors.tmux import TmuxExecutor
from beads_ralph.process.jobs import Exit, Job
from tests.executors.running import SOCKET, having, is_running, run, shell, soon, wait_until

pytestmark = pytest.mark.tmux


def ask(*words: str) -> str:
    command = ["tmux", "-L", SOCKET, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def sessions() -> list[str]:
    return sorted(ask("list-sessions", "-F", "#{session_name}").split())


def waiting(folder: Path, **settings: object) -> Job:
    """A job that runs until the file `go` is there."""
    script = "echo to-see; echo to-worry >&2; touch up; while [ ! -e go ]; do sleep 0.05; done"
    return shell(folder, script, **settings)


async def started(tmux: TmuxExecutor, job: Job) -> asyncio.Task[Exit]:
    running = asyncio.create_task(tmux.run(job))
    await soon((job.cwd / "up").exists)
    return running


def test_a_person_sees_what_it_prints(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> None:
        running = await started(tmux, waiting(tmp_path, name="agent-1"))
        await soon(
            lambda: {"to-see", "to-worry"} <= set(ask("capture-pane", "-p", "-t", "=agent-1:").split())
        )
        (tmp_path / "go").touch()
        ended = await running
        assert (ended.stdout, ended.stderr) == ("to-see\n", "to-worry\n")

    asyncio.run(story())
    wait_until(lambda: not sessions())


def test_a_person_can_attach(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> None:
        running = await started(tmux, waiting(tmp_path, name="agent-bd-1.2: x"))
        assert sessions() == ["agent-bd-1-2--x"]
        # In control mode tmux needs no terminal.
        control = ["tmux", "-C", "-L", tmux.socket, "attach-session", "-t", "=agent-bd-1-2--x"]
        with subprocess.Popen(control, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as person:
            await soon(lambda: ask("list-clients", "-F", "#{session_name}") == "agent-bd-1-2--x")
            person.communicate(b"detach-client\n", timeout=60)
        (tmp_path / "go").touch()
        assert (await running).code == 0

    asyncio.run(story())


def test_the_server_ends_with_its_last_session(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> int:
        running = await started(tmux, waiting(tmp_path))
        server = int(ask("display-message", "-p", "#{pid}"))
        (tmp_path / "go").touch()
        await running
        return server

    server = asyncio.run(story())
    wait_until(lambda: not is_running(server))


def test_the_server_belongs_to_no_run(
    tmux: TmuxExecutor, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEADS_RALPH_RUN_ID", mark)

    async def story() -> None:
        running = await started(tmux, waiting(tmp_path))
        server = int(ask("display-message", "-p", "#{pid}"))
        swept = having("BEADS_RALPH_RUN_ID", mark)
        assert swept
        assert server not in swept
        (tmp_path / "go").touch()
        await running

    asyncio.run(story())


def test_the_environment_is_not_that_of_the_server(
    tmux: TmuxExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> str:
        monkeypatch.setenv("STALE", "old")
        running = await started(tmux, waiting(tmp_path))
        monkeypatch.setenv("STALE", "new")
        second = await tmux.run(shell(tmp_path, 'echo "$STALE ${TMUX:-none}"', name="agent-2"))
        (tmp_path / "go").touch()
        await running
        return second.stdout

    assert asyncio.run(story()) == "new none\n"


def test_a_closed_session_ends_the_job_as_a_closed_terminal_does(
    tmux: TmuxExecutor, tmp_path: Path, mark: str
) -> None:
    async def story() -> Exit:
        running = await started(tmux, waiting(tmp_path, mark=mark))
        ask("kill-session", "-t", "=agent-1")
        return await running

    assert asyncio.run(story()).code == -signal.SIGHUP
    assert having("BEADS_RALPH_JOB", mark) == []


def test_a_killed_server_ends_the_jobs(tmux: TmuxExecutor, tmp_path: Path, mark: str) -> None:
    async def story() -> Exit:
        running = await started(tmux, waiting(tmp_path, mark=mark))
        os.kill(int(ask("display-message", "-p", "#{pid}")), signal.SIGKILL)
        return await running

    ended = asyncio.run(story())
    assert (ended.code, ended.abandoned) == (
        -signal.SIGHUP,
        "the tmux server (tmux -L t) ended under a job",
    )
    assert having("BEADS_RALPH_JOB", mark) == []


def test_a_session_that_is_closed_beside_others_was_closed_by_a_person(
    tmux: TmuxExecutor, tmp_path: Path
) -> None:
    async def story() -> Exit:
        (tmp_path / "other").mkdir()
        other = await started(tmux, waiting(tmp_path / "other", name="agent-2"))
        running = await started(tmux, waiting(tmp_path))
        ask("kill-session", "-t", "=agent-1")
        ended = await running
        (tmp_path / "other" / "go").touch()
        await other
        return ended

    ended = asyncio.run(story())
    assert (ended.code, ended.abandoned) == (-signal.SIGHUP, "")


def test_control_c_reaches_the_program(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> Exit:
        script = "trap 'echo stopped by hand; exit 9' INT; touch up; while :; do sleep 0.05; done"
        running = await started(tmux, shell(tmp_path, script))
        ask("send-keys", "-t", "=agent-1:", "C-z")
        ask("send-keys", "-t", "=agent-1:", "C-c")
        return await running

    ended = asyncio.run(story())
    assert (ended.code, ended.stdout) == (9, "stopped by hand\n")


def test_a_held_up_terminal_does_not_hold_up_the_job(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> Exit:
        running = await started(tmux, shell(tmp_path, "touch up; sleep 0.5; yes | head -c 1000000"))
        ask("send-keys", "-t", "=agent-1:", "C-s")
        return await running

    assert asyncio.run(story()).code == 0


# --- names ----------------------------------------------------------------------------------------


def test_a_name_that_a_person_uses_gets_a_suffix(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> None:
        ask("-f", os.devnull, "new-session", "-d", "-s", "agent-1", "sleep", "300")
        running = await started(tmux, waiting(tmp_path))
        assert sessions() == ["agent-1", "agent-1-2"]
        (tmp_path / "go").touch()
        assert (await running).code == 0
        await soon(lambda: sessions() == ["agent-1"])

    try:
        asyncio.run(story())
    finally:
        ask("kill-server")


def test_two_jobs_of_one_name_both_run(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> None:
        first = await started(tmux, waiting(tmp_path))
        assert (await tmux.run(shell(tmp_path, "exit 4"))).code == 4
        (tmp_path / "go").touch()
        assert (await first).code == 0

    asyncio.run(story())


def test_a_persons_window_outlives_the_job_but_not_the_next_one(tmux: TmuxExecutor, tmp_path: Path) -> None:
    async def story() -> None:
        running = await started(tmux, waiting(tmp_path))
        ask("new-window", "-d", "-t", "=agent-1:", "sleep", "300")
        (tmp_path / "go").touch()
        assert (await running).code == 0
        assert sessions() == ["agent-1"]
        assert (await tmux.run(shell(tmp_path, "exit 5"))).code == 5
        await soon(lambda: not sessions())

    asyncio.run(story())


def test_a_job_without_a_name_has_a_session_too(tmux: TmuxExecutor, tmp_path: Path) -> None:
    assert run(tmux, shell(tmp_path, "exit 6", name="")).code == 6


# --- no tmux --------------------------------------------------------------------------------------


def test_without_tmux_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RalphError) as caught:
        run(TmuxExecutor(SOCKET), shell(tmp_path, "true"))
    assert "Install tmux" in caught.value.suggested_action
    assert caught.value.code == Code.UNAVAILABLE


def test_a_tmux_that_fails_is_named(
    tmux: TmuxExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 200)  # too long a path for a socket
    deep.mkdir()
    monkeypatch.setenv("TMUX_TMPDIR", str(deep))
    with pytest.raises(RalphError, match="cannot open a tmux session"):
        run(tmux, shell(tmp_path, "true"))
