"""What every executor promises."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.process.jobs import Executor, Exit, Job
from beads_ralph.process.process_tree import sweep
from tests.executors.running import (
    having,
    is_running,
    job,
    offspring,
    printed,
    python,
    run,
    shell,
    soon,
    wait_until,
)

ROOT = Path(__file__).parents[2]
KINDS = ["group", "session", "stubborn", "daemon"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def born(folder: Path) -> int:
    return int((folder / "born").read_text(encoding="utf-8"))


async def cancelled_when_born(executor: Executor, wanted: Job, folder: Path, times: int = 1) -> None:
    running = asyncio.create_task(executor.run(wanted))
    await soon((folder / "born").exists)
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0)  # lets it begin to end what it started
    with pytest.raises(asyncio.CancelledError):
        await running


def test_it_is_an_executor(executor: Executor, kind: str) -> None:
    assert isinstance(executor, Executor)
    assert executor.kind == kind


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 77])
def test_the_exit_code_is_the_programs(executor: Executor, tmp_path: Path, code: int) -> None:
    ended = run(executor, shell(tmp_path, f"echo out; echo err >&2; exit {code}"))
    assert (ended.code, ended.stdout, ended.stderr, ended.ok) == (code, "out\n", "err\n", code == 0)
    assert ended.transcript is not None
    assert ended.transcript.out.read_text(encoding="utf-8") == "out\n"
    assert ended.transcript.err.read_text(encoding="utf-8") == "err\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_death_by_a_signal_is_a_negative_code(
    executor: Executor, tmp_path: Path, number: signal.Signals
) -> None:
    assert run(executor, shell(tmp_path, f"kill -{number.value} $$")).code == -number


def test_a_code_above_128_is_no_signal(executor: Executor, tmp_path: Path) -> None:
    assert run(executor, shell(tmp_path, "exit 143")).code == 143


def test_the_time_limit_ends_what_ignores_term(executor: Executor, tmp_path: Path, mark: str) -> None:
    script = "trap '' TERM; echo $$; sleep 300 & wait; sleep 300"
    ended = run(executor, shell(tmp_path, script, timeout=2.0, mark=mark))
    assert (ended.timed_out, ended.ok, ended.code) == (True, False, -signal.SIGKILL)
    assert not is_running(int(ended.stdout))
    assert having("BEADS_RALPH_JOB", mark) == []


def test_the_time_limit_lets_a_program_clean_up(executor: Executor, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 3' TERM; sleep 300 & wait"
    ended = run(executor, shell(tmp_path, script, timeout=2.0, grace=30.0))
    assert (ended.timed_out, ended.code, ended.stdout) == (True, 3, "bye\n")


def test_a_flood_is_ended(executor: Executor, tmp_path: Path, mark: str) -> None:
    ended = run(executor, job(tmp_path, "yes", output_limit=1_000_000, mark=mark))
    assert (ended.flooded, ended.ok) == (True, False)
    assert having("BEADS_RALPH_JOB", mark) == []


def test_a_flood_is_named_though_nobody_looked_in_time(executor: Executor, tmp_path: Path) -> None:
    ended = run(executor, shell(tmp_path, "head -c 2000000 /dev/zero", output_limit=1_000_000))
    assert (ended.flooded, ended.ok) == (True, False)


GROW = """\
import sys, time
print("growing", flush=True)
held = bytearray(int(sys.argv[1]) << 20)
time.sleep(60)
"""
APART = f"""\
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {GROW!r}, "200"], env={{}}, start_new_session=True).wait()
"""


@pytest.mark.parametrize(
    "program", [(GROW, "200"), (APART,)], ids=["itself", "its child in a session of its own"]
)
def test_more_memory_than_allowed_ends_it_whole(
    executor: Executor, tmp_path: Path, mark: str, program: tuple[str, ...]
) -> None:
    ended = run(executor, job(tmp_path, sys.executable, "-c", *program, memory_limit_mb=120, mark=mark))
    assert (ended.over_memory, ended.ok, ended.timed_out) == (120, False, False)
    assert ended.cut_short == "memory: used more than 120 MB and was ended"
    assert ended.stdout == "growing\n"
    assert having("BEADS_RALPH_JOB", mark) == []


def test_memory_within_the_limit_and_that_of_others_ends_nothing(executor: Executor, tmp_path: Path) -> None:
    """What forked processes share is there once; what another job holds is its own."""

    async def story() -> list[Exit]:
        shared = (
            "import os, time; held = bytearray(b'x' * (100 << 20)); pids = [os.fork() for _ in 'abcd'];"
            "time.sleep(2)"
        )
        jobs = [
            python(tmp_path, shared, memory_limit_mb=300, name="agent-1"),
            python(tmp_path, shared, name="agent-2"),
            shell(tmp_path, "sleep 2", memory_limit_mb=50, name="agent-3"),
        ]
        return await asyncio.gather(*(executor.run(one) for one in jobs))

    assert [(one.code, one.over_memory) for one in asyncio.run(story())] == [(0, 0)] * 3


# --- nothing is left ------------------------------------------------------------------------------


@pytest.mark.parametrize("offspring_kind", KINDS)
def test_what_it_left_in_the_background_ends_with_it(
    executor: Executor, tmp_path: Path, mark: str, offspring_kind: str
) -> None:
    ended = run(executor, offspring(tmp_path, offspring_kind, "go", mark=mark))
    assert ended.code == 0
    assert not is_running(born(tmp_path))
    assert having("BEADS_RALPH_JOB", mark) == []


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("offspring_kind", KINDS)
def test_cancelling_ends_everything(
    executor: Executor, tmp_path: Path, mark: str, offspring_kind: str, times: int
) -> None:
    wanted = offspring(tmp_path, offspring_kind, "stay", mark=mark)
    asyncio.run(cancelled_when_born(executor, wanted, tmp_path, times))
    assert not is_running(born(tmp_path))
    assert having("BEADS_RALPH_JOB", mark) == []


def test_cancelling_at_once_starts_nothing_that_stays(executor: Executor, tmp_path: Path, mark: str) -> None:
    async def story() -> None:
        running = asyncio.create_task(executor.run(shell(tmp_path, "sleep 300", mark=mark)))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert having("BEADS_RALPH_JOB", mark) == []

    asyncio.run(story())


def test_a_server_in_the_background_frees_its_port(executor: Executor, tmp_path: Path) -> None:
    serve = (
        f"{sys.executable} -u -m http.server 0 --bind 127.0.0.1 >port 2>&1 & "
        "while [ ! -s port ]; do sleep 0.05; done"
    )
    assert run(executor, shell(tmp_path, serve)).code == 0
    port = int((tmp_path / "port").read_text(encoding="utf-8").split()[5])
    with socket.socket() as caller, pytest.raises(ConnectionRefusedError):
        caller.connect(("127.0.0.1", port))


def test_twenty_at_once_do_not_disturb_one_another(executor: Executor, tmp_path: Path) -> None:
    async def story() -> list[Exit]:
        jobs = [shell(tmp_path, f"sleep 0.2; echo {n}; exit {n}", name=f"agent-{n}") for n in range(20)]
        return await asyncio.gather(*(executor.run(one) for one in jobs))

    assert [(one.code, one.stdout) for one in asyncio.run(story())] == [(n, f"{n}\n") for n in range(20)]


def test_one_that_ends_leaves_the_others_alone(executor: Executor, tmp_path: Path) -> None:
    async def story() -> Exit:
        longer = asyncio.create_task(
            executor.run(shell(tmp_path, "touch up; while [ ! -e go ]; do sleep 0.05; done", name="agent-2"))
        )
        await soon((tmp_path / "up").exists)
        await executor.run(shell(tmp_path, "sleep 300", timeout=0.5))
        (tmp_path / "go").touch()
        return await longer

    assert asyncio.run(story()).code == 0


def test_no_file_stays_open(executor: Executor, tmp_path: Path) -> None:
    async def story() -> tuple[int, int]:
        await executor.run(shell(tmp_path, "true"))
        before = open_files()
        for wanted in (shell(tmp_path, "echo x", stdin="x"), job(tmp_path, "no-such-program")):
            await executor.run(wanted)
        await asyncio.sleep(0)
        return before, open_files()

    before, after = asyncio.run(story())
    assert after == before


def test_strays_of_a_killed_loop_are_found_by_its_run(
    executor: Executor, kind: str, tmp_path: Path, mark: str
) -> None:
    program = offspring(tmp_path, "daemon", "stay")
    env = {**os.environ, "BEADS_RALPH_RUN_ID": mark}
    told = json.dumps({"argv": program.argv, "env": env})
    command = [sys.executable, "-m", "tests.executors.running", kind, str(tmp_path), told]
    with subprocess.Popen(command, cwd=ROOT) as loop:
        wait_until((tmp_path / "born").exists)
        loop.kill()
    running = having("BEADS_RALPH_RUN_ID", mark)
    assert born(tmp_path) in running
    assert set(running) <= set(sweep("BEADS_RALPH_RUN_ID", mark))
    assert having("BEADS_RALPH_RUN_ID", mark) == []
    assert run(executor, shell(tmp_path, "echo again")).stdout == "again\n"


# --- input and output -----------------------------------------------------------------------------


def test_a_hundred_megabytes_cost_no_memory(kind: str, tmp_path: Path) -> None:
    told = json.dumps({"argv": ["head", "-c", "100000000", "/dev/zero"]})
    command = [sys.executable, "-m", "tests.executors.running", kind, str(tmp_path), told]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    sizes = json.loads(done.stdout)
    assert sizes["code"] == 0
    assert (tmp_path / "logs" / "agent-1.out").stat().st_size == 100_000_000
    assert sizes["after"] - sizes["before"] < 10_000


def test_a_line_of_five_megabytes(executor: Executor, tmp_path: Path) -> None:
    wanted = python(tmp_path, "print('x' * 5_000_000)")
    ended = run(executor, wanted)
    assert printed(wanted) == b"x" * 5_000_000 + b"\n"
    assert ended.stdout == "x" * (64 * 1024 - 1) + "\n"


def test_bytes_that_are_no_text(executor: Executor, tmp_path: Path) -> None:
    wanted = shell(tmp_path, r"printf '\377\376\000ok'")
    assert run(executor, wanted).stdout == "\ufffd\ufffd\0ok"
    assert printed(wanted) == b"\xff\xfe\0ok"


def test_a_long_prompt_arrives_whole(executor: Executor, tmp_path: Path) -> None:
    prompt = "Zeile für Zeile\n" * 38_000
    wanted = job(tmp_path, "cat", stdin=prompt)
    assert run(executor, wanted).code == 0
    assert printed(wanted) == prompt.encode()


def test_a_prompt_that_nobody_reads(executor: Executor, tmp_path: Path) -> None:
    assert run(executor, job(tmp_path, "true", stdin="x" * 600_000)).code == 0


def test_without_a_prompt_stdin_is_empty(executor: Executor, tmp_path: Path) -> None:
    assert run(executor, job(tmp_path, "cat")).stdout == ""


def test_no_terminal_is_offered(executor: Executor, tmp_path: Path) -> None:
    script = "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || (: </dev/tty) 2>/dev/null || echo none"
    assert run(executor, shell(tmp_path, script)).stdout == "none\n"


def test_transcripts_grow_and_the_tail_is_of_this_job(executor: Executor, tmp_path: Path) -> None:
    wanted = job(tmp_path, "echo", "first")
    run(executor, wanted)
    assert run(executor, replace(wanted, argv=("echo", "second"))).stdout == "second\n"
    assert printed(wanted) == b"first\nsecond\n"


# --- how it starts --------------------------------------------------------------------------------


def test_the_environment_is_exactly_the_jobs(executor: Executor, tmp_path: Path, mark: str) -> None:
    env = {"PATH": os.environ["PATH"], "ODD": "a\nb=c; $(d) 'e' \"f\" #{g}", "EMPTY": ""}
    wanted = job(tmp_path, "env", "-0", env=env, mark=mark)
    run(executor, wanted)
    entries = printed(wanted).decode().rstrip("\0").split("\0")
    assert dict(one.split("=", 1) for one in entries) == {**env, "BEADS_RALPH_JOB": mark}


def test_without_an_environment_ours_is_inherited(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "yes")
    ended = run(executor, shell(tmp_path, 'echo "$OURS ${#BEADS_RALPH_JOB}"'))
    assert ended.stdout == "yes 16\n"


def test_arguments_arrive_as_they_are(executor: Executor, tmp_path: Path) -> None:
    words = ["", "a b", ";", "x;", "$HOME", "'\"", "#{pane_pid}", "ü", "long" * 10_000]
    wanted = python(tmp_path, "import json, sys; print(json.dumps(sys.argv[1:]))")
    run(executor, replace(wanted, argv=(*wanted.argv, *words)))
    assert json.loads(printed(wanted)) == words


def test_it_runs_where_the_job_says(executor: Executor, tmp_path: Path) -> None:
    place = tmp_path / "a b #{c} ü"
    place.mkdir()
    assert run(executor, job(tmp_path, "pwd", cwd=place)).stdout == f"{place}\n"


def test_the_files_of_a_job_are_there_before_it_starts(executor: Executor, tmp_path: Path) -> None:
    path = tmp_path / "new" / "schema.json"
    wanted = shell(tmp_path, f"cat {path}; stat -c %a {path}")
    assert run(executor, replace(wanted, files={path: "{ü}\n"})).stdout == "{ü}\n600\n"
    with pytest.raises(RalphError) as caught:
        run(executor, replace(wanted, files={path / "below a file": ""}))
    assert caught.value.code == Code.WRITE_FAILED


def test_a_missing_program_is_an_exit(executor: Executor, tmp_path: Path) -> None:
    wanted = job(tmp_path, "no-such-program")
    ended = run(executor, wanted)
    assert ended.code == 127
    assert "no-such-program" in ended.stderr
    assert wanted.transcript is not None
    assert wanted.transcript.err.read_text(encoding="utf-8") == ended.stderr


def test_a_file_that_is_no_program_is_an_exit(executor: Executor, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    ended = run(executor, job(tmp_path, str(plain)))
    assert ended.code == 127
    assert "Permission denied" in ended.stderr


@pytest.mark.parametrize("argv", [(), ("a\0b",)])
def test_an_impossible_command_is_an_exit(executor: Executor, tmp_path: Path, argv: tuple[str, ...]) -> None:
    assert run(executor, job(tmp_path, *argv)).code == 127


def test_a_missing_directory_is_an_exit(executor: Executor, tmp_path: Path) -> None:
    ended = run(executor, job(tmp_path, "true", cwd=tmp_path / "nowhere"))
    assert ended.code == 127
    assert str(tmp_path / "nowhere") in ended.stderr


def test_a_transcript_that_cannot_be_written_is_our_users_to_mend(executor: Executor, tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(RalphError) as caught:
        run(executor, job(tmp_path, "true"))
    assert caught.value.code is Code.WRITE_FAILED


# --- who watches --------------------------------------------------------------------------------------


class Impatient:
    """Has seen enough as soon as there is a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_in_vain(self) -> bool:
        return self.path.exists()


def test_what_a_watcher_has_seen_enough_of_is_ended_whole(executor: Executor, tmp_path: Path) -> None:
    ended = run(executor, offspring(tmp_path, "stubborn", "stay"), Impatient(tmp_path / "born"))
    assert (ended.gave_up, ended.limit, ended.timed_out, ended.ok) == (True, "trouble", False, False)
    assert ended.cut_short == "", "only its answer can say what it waited for"
    assert not is_running(born(tmp_path))


def test_a_job_without_a_sign_of_life_is_ended_whole(executor: Executor, tmp_path: Path) -> None:
    ended = run(executor, shell(tmp_path, "sleep 300 & sleep 300", stall_limit=1.0))
    assert (ended.stalled, ended.limit) == (1.0, "stalled")
