"""The local executor, and the search for strays beneath it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Job
from beads_ralph.process.process_table import is_alive, read_process
from beads_ralph.process.process_tree import Family, sweep
from beads_ralph.process.supervise import supervise
from tests.executors.running import is_running, job, python, run, shell, soon, wait_until

ROOT = Path(__file__).parents[2]
# Hides /proc, as on other systems; in a mount namespace of its own, which needs privileges.
WITHOUT_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


def test_a_job_needs_a_transcript(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no transcript"):
        asyncio.run(supervise(Job(("true",), tmp_path)))


def test_a_child_with_an_emptied_environment_is_known_by_its_parent(tmp_path: Path) -> None:
    async def story() -> None:
        script = "env -i setsid sh -c 'trap \"\" TERM; echo $$ >born; sleep 300' & wait"
        running = asyncio.create_task(LocalExecutor().run(shell(tmp_path, script)))
        born = tmp_path / "born"
        await soon(lambda: born.exists() and born.read_text(encoding="utf-8").endswith("\n"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(int(born.read_text(encoding="utf-8")))

    asyncio.run(story())


def test_a_program_whose_first_thread_ended_is_not_taken_for_dead(tmp_path: Path) -> None:
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
ctypes.CDLL(None).syscall(60, 0)  # exit, of this thread alone
"""
    if os.uname().machine != "x86_64":
        pytest.skip("the number of the system call is that of x86_64")
    ended = run(LocalExecutor(), python(tmp_path, program, timeout=1.5))
    assert ended.timed_out
    assert ended.code == -signal.SIGTERM


def test_a_sweep_ends_only_what_has_the_very_value(mark: str) -> None:
    env = dict(os.environ)
    with (
        subprocess.Popen(["sleep", "300"], env={**env, "STRAY": mark}) as stray,
        subprocess.Popen(["sleep", "300"], env={**env, "STRAY": f"{mark}-more"}) as other,
    ):
        wait_until(lambda: all(_runs_sleep(one.pid) for one in (stray, other)))
        try:
            assert sweep("STRAY", mark) == [stray.pid]
            assert stray.wait() == -signal.SIGTERM
            assert other.poll() is None
            assert sweep("STRAY", "none-such") == []
            assert sweep("STRAY", "") == []
        finally:
            other.kill()


def _runs_sleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")


def test_a_sweep_spares_us_and_those_who_started_us(mark: str) -> None:
    program = f"from beads_ralph.process.process_tree import sweep; print(sweep('STRAY', '{mark}'))"
    script = f'{sys.executable} -c "{program}"; echo survived'
    done = subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "STRAY": mark},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\nsurvived\n"


def test_a_number_used_again_is_another_process() -> None:
    ours = read_process(os.getpid())
    assert ours is not None
    assert is_alive(ours)
    assert not is_alive(ours._replace(started=ours.started - 1))


def test_we_are_in_no_family() -> None:
    with subprocess.Popen(["sleep", "300"]) as child:
        # Our own group, which is also that of the child.
        found = {one.pid for one in Family("NO=SUCH", leader=os.getpgid(0)).find()}
        child.kill()
    assert child.pid in found
    assert os.getpid() not in found


def test_without_proc_the_group_is_ended(tmp_path: Path) -> None:
    if subprocess.run([*WITHOUT_PROC, "true"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("may not make a mount namespace")
    script = "trap '' TERM; sleep 300 & echo $! >born; [ $0 = go ] || wait"
    program = f"""
from pathlib import Path
from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.process_tree import sweep
from tests.executors.running import job, run
for then, timeout in (("go", 30), ("stay", 1)):
    wanted = job(Path({str(tmp_path)!r}), "sh", "-c", {script!r}, then, timeout=timeout)
    print(run(LocalExecutor(), wanted).code, Path("born").read_text().strip())
print(sweep("PATH", "x"))
"""
    done = subprocess.run(
        [*WITHOUT_PROC, sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (code, born), (later_code, later_born), swept = (line.split() for line in done.stdout.splitlines())
    assert (code, later_code, swept) == ("0", "-9", ["[]"])
    assert not is_running(int(born))
    assert not is_running(int(later_born))


def test_a_job_that_removes_its_transcript_has_no_tail(tmp_path: Path) -> None:
    ended = run(LocalExecutor(), job(tmp_path, "rm", "-r", str(tmp_path / "logs")))
    assert (ended.code, ended.stdout, ended.stderr) == (0, "", "")
