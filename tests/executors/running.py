"""Jobs for tests, and a look at what is left of them."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.executors.tmux import TmuxExecutor
from beads_ralph.process.jobs import Executor, Exit, Job, Transcript, Watcher

PATIENCE_SECONDS = 60.0
OFFSPRING = Path(__file__).with_name("offspring.py")
SOCKET = "t"


def executor_of(kind: str) -> Executor:
    return TmuxExecutor(SOCKET) if kind == "tmux" else LocalExecutor()


def job(folder: Path, *argv: str, **settings: Any) -> Job:
    name = settings.setdefault("name", "agent-1")
    transcript = Transcript(folder / "logs" / f"{name}.out", folder / "logs" / f"{name}.err")
    given = {"cwd": folder, "timeout": 60.0, "grace": 0.5, "transcript": transcript, **settings}
    return Job(argv, **given)


def shell(folder: Path, script: str, **settings: Any) -> Job:
    return job(folder, "sh", "-c", script, **settings)


def python(folder: Path, program: str, **settings: Any) -> Job:
    return job(folder, sys.executable, "-c", program, **settings)


def offspring(folder: Path, kind: str, then: str, **settings: Any) -> Job:
    return job(folder, sys.executable, str(OFFSPRING), kind, str(folder / "born"), then, **settings)


def run(executor: Executor, wanted: Job, watcher: Watcher | None = None) -> Exit:
    return asyncio.run(executor.run(wanted, watcher))


def printed(wanted: Job) -> bytes:
    assert wanted.transcript
    return wanted.transcript.out.read_bytes()


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def having(variable: str, value: str) -> list[int]:
    """The running processes with that in their environment."""
    entry = f"{variable}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if is_running(pid)]


def wait_until(seen: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


async def soon(seen: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < until, "waited in vain"
        await asyncio.sleep(0.02)


def main(kind: str, folder: str, told: str) -> None:
    """Be a loop of one job; tells its own largest size in kB before and after it."""
    import resource

    def size() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    settings = json.loads(told)
    executor = executor_of(kind)
    run(executor, shell(Path(folder), "true"))
    before = size()
    ended = run(executor, job(Path(folder), *settings.pop("argv"), **settings))
    sys.stdout.write(json.dumps({"before": before, "after": size(), "code": ended.code}))


if __name__ == "__main__":
    main(*sys.argv[1:])
