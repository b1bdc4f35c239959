"""Processes that a job leaves without any sign of it: own session, empty environment, orphaned.

Each of them ends by itself within a minute, should a test fail.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from beads_ralph.process import job_groups, process_table
from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Executor, Job
from beads_ralph.process.process_tree import Family, sweep
from beads_ralph.process.supervise import marked
from tests.executors.running import is_running, run, shell, soon, wait_until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to one of ours")

BEAR = "echo $$ >draft; mv draft born; "
STAYS = BEAR + "sleep 60"
STUBBORN = BEAR + "trap '' TERM; sleep 60"
SERVES = """\
import os, socket, time
server = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(server.getsockname()[1]))
open("draft", "w").write(str(os.getpid()))
os.rename("draft", "born")
time.sleep(60)
"""
FORKS = """\
import os, time
open("draft", "w").write(str(os.getpid()))
os.rename("draft", "born")
until = time.monotonic() + 2
while time.monotonic() < until:
    if os.fork():
        break
    time.sleep(0.01)
time.sleep(60)
"""
HOPS = FORKS.replace("break", "os._exit(0)").replace("time.sleep(60)", "")


def hidden(script: str) -> str:
    """Shell that leaves a daemon with none of the job's marks, and goes on once that is at work."""
    path = os.environ["PATH"]
    daemon = f"(setsid env -i PATH='{path}' sh -c \"$SCRIPT\" >/dev/null 2>&1 </dev/null &)"
    return f"SCRIPT=$(cat <<'END'\n{script}\nEND\n)\n{daemon}\nwhile [ ! -e born ]; do sleep 0.01; done\n"


def in_python(program: str) -> str:
    return f"exec {sys.executable} -c '{program.replace(chr(39), chr(34))}'"


def of_session(number: int) -> list[int]:
    """The living ones of the daemon's session, which is as good as its family."""
    return [one.pid for one in process_table.read_table().values() if one.session == number]


@pytest.fixture
def born(tmp_path: Path) -> Iterator[Path]:
    """Where a daemon writes its number; nothing of it outlives the test."""
    path = tmp_path / "born"
    yield path
    if path.exists():
        for pid in of_session(number_in(path)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def number_in(path: Path) -> int:
    return int(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "script",
    [STAYS, STUBBORN, in_python(FORKS), in_python(HOPS)],
    ids=["stays", "ignores TERM", "forks", "forks and ends"],
)
def test_a_hidden_daemon_is_gone_when_the_job_is_over(
    executor: Executor, tmp_path: Path, born: Path, script: str
) -> None:
    ended = run(executor, shell(tmp_path, hidden(script) + "exit 7"))
    assert of_session(number_in(born)) == []
    assert ended.code == 7


def test_a_hidden_server_frees_its_port(executor: Executor, tmp_path: Path, born: Path) -> None:
    assert run(executor, shell(tmp_path, hidden(in_python(SERVES)))).code == 0
    assert of_session(number_in(born)) == []
    with socket.socket() as caller, pytest.raises(ConnectionRefusedError):
        caller.connect(("127.0.0.1", number_in(tmp_path / "port")))


def test_a_daemon_of_a_hidden_daemon_is_gone_too(executor: Executor, tmp_path: Path, born: Path) -> None:
    (tmp_path / "again.sh").write_text(STUBBORN, encoding="utf-8")
    again = '(setsid env -i PATH="$PATH" sh again.sh &)'
    assert run(executor, shell(tmp_path, hidden(again))).code == 0
    assert of_session(number_in(born)) == []


def test_cancelling_ends_a_hidden_daemon(executor: Executor, tmp_path: Path, born: Path) -> None:
    async def story() -> None:
        running = asyncio.create_task(executor.run(shell(tmp_path, hidden(STUBBORN) + "sleep 60")))
        await soon(born.exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert of_session(number_in(born)) == []

    asyncio.run(story())


def test_a_daemon_lives_as_long_as_its_own_job(executor: Executor, tmp_path: Path, born: Path) -> None:
    async def story() -> None:
        script = hidden(STAYS) + "while [ ! -e go ]; do sleep 0.05; done"
        longer = asyncio.create_task(executor.run(shell(tmp_path, script, name="agent-2")))
        await soon(born.exists)
        await executor.run(shell(tmp_path, "true"))
        assert is_running(number_in(born)), "another job's end is none of its business"
        (tmp_path / "go").touch()
        assert (await longer).code == 0
        assert of_session(number_in(born)) == []

    asyncio.run(story())


def test_what_others_started_is_left_alone(executor: Executor, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], env={}, start_new_session=True, cwd=tmp_path) as other:
        try:
            assert run(executor, shell(tmp_path, "exit 0")).code == 0
            assert other.poll() is None
        finally:
            other.kill()


def test_an_orphan_that_ended_is_nobody_to_the_job(executor: Executor, tmp_path: Path, born: Path) -> None:
    """A job may wait until a daemon of its own has gone: nobody unburied is in its way."""
    script = hidden(BEAR + "sleep 60") + "kill -9 $(cat born); while kill -0 $(cat born); do sleep 0.02; done"
    ended = run(executor, shell(tmp_path, script))
    assert (ended.code, ended.timed_out) == (0, False)


def test_the_memory_of_a_hidden_one_counts(executor: Executor, tmp_path: Path, born: Path) -> None:
    grows = in_python("import time; held = bytearray(200 << 20); time.sleep(60)")
    script = f"{BEAR} {grows}"
    ended = run(executor, shell(tmp_path, hidden(script) + "sleep 60", memory_limit_mb=120))
    assert ended.over_memory == 120
    assert of_session(number_in(born)) == []


def test_killing_the_reaper_saves_no_daemon(tmp_path: Path, born: Path) -> None:
    ended = run(LocalExecutor(), shell(tmp_path, hidden(STUBBORN) + "kill -9 $PPID; sleep 60"))
    assert of_session(number_in(born)) == []
    assert not ended.ok


def test_killing_the_starter_costs_the_next_job_nothing(tmp_path: Path, born: Path) -> None:
    script = "starter=$(cut -d' ' -f4 /proc/$PPID/stat); echo $starter; kill -9 $starter"
    killed = run(LocalExecutor(), shell(tmp_path, hidden(STAYS) + script))
    assert (killed.code, is_running(int(killed.stdout))) == (0, False)
    assert of_session(number_in(born)) == []
    born.unlink()
    assert run(LocalExecutor(), shell(tmp_path, hidden(STAYS))).code == 0
    assert of_session(number_in(born)) == []


def killed_loop(kind: str, wanted: Job, folder: Path, mark: str) -> None:
    """Be the loop of such a job until its daemon is born, and be killed."""
    told = json.dumps({"argv": wanted.argv, "env": {**os.environ, "BEADS_RALPH_RUN_ID": mark}})
    command = [sys.executable, "-m", "tests.executors.running", kind, str(folder), told]
    with subprocess.Popen(command, cwd=ROOT) as loop:
        wait_until((folder / "born").exists)
        loop.kill()


def test_a_sweep_after_a_killed_loop_finds_the_hidden(
    kind: str, tmp_path: Path, born: Path, mark: str
) -> None:
    killed_loop(kind, shell(tmp_path, hidden(STUBBORN) + "sleep 60"), tmp_path, mark)
    daemon = number_in(born)
    assert is_running(daemon)
    assert daemon in sweep("BEADS_RALPH_RUN_ID", mark)
    assert of_session(daemon) == []


def test_without_a_loop_a_daemon_ends_with_its_program(
    kind: str, tmp_path: Path, born: Path, mark: str
) -> None:
    script = hidden(STUBBORN) + "while [ ! -e go ]; do sleep 0.05; done"
    killed_loop(kind, shell(tmp_path, script), tmp_path, mark)
    (tmp_path / "go").touch()
    wait_until(lambda: of_session(number_in(born)) == [])
    sweep("BEADS_RALPH_RUN_ID", mark)


def test_a_family_without_a_sign_is_empty() -> None:
    assert Family("").find() == set()


# --- with a control group ---------------------------------------------------------------------------


def needs_groups(folder: Path) -> None:
    if not job_groups.for_job(marked(shell(folder, "true"))):
        pytest.skip("this system gives us no control group")


def test_who_kills_reaper_and_starter_is_found_by_its_control_group(tmp_path: Path, born: Path) -> None:
    needs_groups(tmp_path)
    orphaned = (
        f"starter=$(cut -d' ' -f4 /proc/$PPID/stat); {hidden(STUBBORN)} kill -9 $starter $PPID; sleep 60"
    )
    ended = run(LocalExecutor(), shell(tmp_path, orphaned))
    assert of_session(number_in(born)) == []
    assert not ended.ok
    assert run(LocalExecutor(), shell(tmp_path, "true")).ok


def test_a_sweep_finds_whom_nobody_watches_any_more(tmp_path: Path, born: Path, mark: str) -> None:
    needs_groups(tmp_path)
    kills = "kill -9 $PPID; sleep 60"
    killed_loop("local", shell(tmp_path, hidden(STUBBORN) + kills), tmp_path, mark)
    daemon = number_in(born)
    assert daemon in sweep("BEADS_RALPH_RUN_ID", mark)
    assert of_session(daemon) == []
    assert job_groups.of_run(mark) == []


def test_no_control_group_is_left_behind(executor: Executor, tmp_path: Path, mark: str) -> None:
    needs_groups(tmp_path)
    env = {**os.environ, "BEADS_RALPH_RUN_ID": mark}
    assert run(executor, shell(tmp_path, "cat /proc/self/cgroup > groups", env=env)).ok
    assert mark in (tmp_path / "groups").read_text(encoding="utf-8")
    assert job_groups.of_run(mark) == []
