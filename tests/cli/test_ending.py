"""SIGTERM and SIGHUP: whoever ends a command ends the programs that it has started, too."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.agents.running import executable
from tests.cli.running import RALPH, environment
from tests.loop.plans import Project, soon, sprint

PATIENCE = 60
# Says who it is, and would then stay for an hour; a question about its version is answered where {version}
# says so.
HANGS = """\
#!/bin/sh
if [ "$1" = --version ] && {version}; then echo codex-cli 0.163.0; exit; fi
echo $$ > {file}.new && mv {file}.new {file}
exec sleep 3600
"""
ASKED = """\
#!/bin/sh
prompt=$(cat)
echo "BEADS_RALPH_SESSION some-session" >&2
case $prompt in
*"A person asks you"*) echo $$ > {file}.new && mv {file}.new {file}; exec sleep 3600 ;;
esac
if [ "$BEADS_RALPH_ROLE" = qa ]; then
    printf '```json\\n{{"status": "pass", "message": "fine"}}\\n```\\n'
else
    echo done > done.txt && git add --all && git commit --quiet --message work
fi
"""


@contextmanager
def running(folder: Path, *words: str, path: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process. SIGHUP does to it what it does by default, also where these tests run
    under nohup."""
    env = environment({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            [*RALPH, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def told(file: Path) -> int:
    soon(file.exists)
    return int(file.read_text("utf-8"))


def lives(pid: int) -> bool:
    """A process that only waits to be looked at by its parent does not live."""
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return said.stdout.strip()[:1] not in ("", "Z")


def ended(process: subprocess.Popen[bytes], pid: int, number: signal.Signals) -> None:
    """The law: the command ends, and with it the program."""
    try:
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 130
        assert not lives(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("words", "version", "number"),
    [
        (("agents", "--smoke", "codex"), "true", signal.SIGTERM),
        (("agents", "--smoke", "codex"), "true", signal.SIGHUP),
        (("agents", "codex"), "false", signal.SIGTERM),
        (("doctor",), "false", signal.SIGHUP),
    ],
)
def test_a_program_that_is_looked_at_or_asked_ends_with_the_command(
    repo: Path, tmp_path: Path, words: tuple[str, ...], version: str, number: signal.Signals
) -> None:
    file = tmp_path / "pid"
    (repo / "beads-ralph.yaml").write_text("sandbox: none\n", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin" / "codex", HANGS.format(version=version, file=file))
    with running(repo, *words, path=tmp_path / "bin") as process:
        ended(process, told(file), number)


def test_an_agent_that_a_person_asks_ends_with_the_question(repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    agent = {"agent": "claude", "executable": str(executable(tmp_path / "agent", ASKED.format(file=file)))}
    settings = {"dev_agents": [agent], "qa_agents": [agent]}
    project = Project.make(repo, sprint("1.1", "One"), plan_settings=settings)
    assert project.run().data["closed"] == ["bd-1-1-one"]
    with running(repo, "ask", "bd-1-1-one", "Why so?") as process:
        ended(process, told(file), signal.SIGTERM)


def test_a_check_that_init_tries_ends_with_it(repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    (repo / "Makefile").write_text(
        f"test:\n\techo $$$$ > {file}.new && mv {file}.new {file}; exec sleep 3600\n"
    )
    subprocess.run(["git", "add", "--all"], cwd=repo, check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", "make"], cwd=repo, check=True)
    with running(repo, "init") as process:
        ended(process, told(file), signal.SIGTERM)
