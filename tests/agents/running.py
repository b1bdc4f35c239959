"""Tasks for agents, and a plain way to run their jobs: files for output, one group to end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from beads_ralph.agents.protocol import AgentCLI, AgentTask, Reply
from beads_ralph.agents.reply_reader import heard
from beads_ralph.bead.model import AgentSpec
from beads_ralph.process.jobs import Exit, Job, Transcript

# What tests look for in processes that were left, and what coverage needs in those it measures.
WATCHED = ("BEADS_RALPH_TEST_ID", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
TAIL = 64 * 1024


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec.model_validate(
        {"role": "polecat", "agent": ".claude/agents/dev.md", "executable": "scripted", **fields}
    )


def task(cwd: Path, agent: AgentSpec | None = None, **fields: Any) -> AgentTask:
    given: dict[str, Any] = {
        "spec": agent or spec(),
        "role": "dev",
        "prompt": "Build it.",
        "cwd": cwd,
        "bead_id": "bd-1-1-setup",
        "attempt": 1,
        "branch": "main/1-1-setup",
        "run_id": "run-7",
        "model": "sonnet",
        "timeout": 30.0,
        "env": watched(),
    }
    return AgentTask(**{**given, **fields})


def watched() -> dict[str, str]:
    return {name: os.environ[name] for name in WATCHED if name in os.environ}


def transcript(folder: Path, name: str = "call") -> Transcript:
    return Transcript(folder / f"{name}.out", folder / f"{name}.err")


def run(job: Job) -> Exit:
    """Run to the end or to its time limit; then its group is gone."""
    assert job.transcript is not None
    with job.transcript.out.open("wb") as out, job.transcript.err.open("wb") as err:
        process = subprocess.Popen(
            job.argv,
            cwd=job.cwd,
            env=dict(job.env or {}),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.communicate((job.stdin or "").encode(), timeout=job.timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            end_group(process.pid)
            process.wait()
    return Exit(
        process.returncode,
        stdout=tail(job.transcript.out),
        stderr=tail(job.transcript.err),
        timed_out=timed_out,
        seconds=job.timeout if timed_out else 0.1,
        transcript=job.transcript,
    )


def call(agent: AgentCLI, asked: AgentTask, folder: Path) -> tuple[Exit, Reply]:
    files = transcript(folder)
    job = agent.command(asked, files)
    ended = run(job)
    return ended, heard(agent, job, ended)


def tail(path: Path) -> str:
    return path.read_bytes()[-TAIL:].decode("utf-8", "replace")


def end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def until(done: Any, seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)


def git(*words: str, cwd: Path) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def executable(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def set_by_itself(agent: AgentCLI, folder: Path) -> set[str]:
    """Variables that the adapter sets whatever we have, such as one that turns telemetry off."""
    bare = type(agent)({})  # type: ignore[call-arg]
    return set(environment(bare.command(task(folder, env={}), transcript(folder))))


def environment(job: Job) -> Mapping[str, str]:
    assert job.env is not None
    return job.env
