"""`logs` for people: rendered, chosen by attempt and role, followed, and raw where somebody wants that."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.journal import runs
from beads_ralph.journal.events import AgentStarted
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.runs import RunFolder
from tests.agents import cassettes
from tests.cli.running import RALPH, environment, ralph

BEAD = "bd-1-1-one"
RUN = "20261116T080000000Z-0001"


@pytest.fixture
def worked_on(repo: Path) -> RunFolder:
    """A run in which two programs and a check worked on a bead, as its folder is left."""
    folder = RunFolder(repo / ".ralph", RUN)
    journal = Journal(folder.journal, RUN)
    played(folder, journal, "a1-dev", "claude", "dev", 1)
    check = folder.transcript(BEAD, "a1-verify-1")
    check.out.write_text("3 passed\n", "utf-8")
    (check.out.parent / "a1-dev.schema.json").write_text('{"noise": 1}', "utf-8")
    played(folder, journal, "a2-qa", "codex", "qa", 2)
    journal.close()
    return folder


def played(folder: RunFolder, journal: Journal, name: str, program: str, role: str, attempt: int) -> None:
    files = folder.transcript(BEAD, name)
    for path in (files.out, files.err):
        shutil.copy(cassettes.of(program) / f"ok{path.suffix}", path)
    call = AgentCall(attempt=attempt, role=role, agent="x", program=program, transcript=str(files.out))
    journal.emit(AgentStarted(bead=BEAD, attempt=attempt, call=call))


def headings(text: str) -> list[str]:
    return [line.partition("  (run")[0] for line in text.splitlines() if line.startswith("---")]


def test_logs_are_rendered_below_a_heading_for_each_call(worked_on: RunFolder, repo: Path) -> None:
    text = ralph("logs", BEAD, cwd=repo).out
    assert headings(text) == [
        "--- attempt 1  dev  claude",
        "--- attempt 1  check  a1-verify-1",
        "--- attempt 2  qa  codex",
    ]
    assert '$ printf \'print("hello")' in text
    assert "Σ 2,100 in · 41 out" in text
    assert "3 passed" in text
    assert '{"' not in text.replace('{"status"', ""), "neither events nor schemas"


def test_logs_of_an_attempt_of_a_role_and_the_end_of_them(worked_on: RunFolder, repo: Path) -> None:
    assert headings(ralph("logs", BEAD, "--attempt", "2", cwd=repo).out) == ["--- attempt 2  qa  codex"]
    assert headings(ralph("logs", BEAD, "--role", "dev", cwd=repo).out) == ["--- attempt 1  dev  claude"]
    assert ralph("logs", BEAD, "--role", "check", "--tail", "1", cwd=repo).out == "3 passed\n"
    assert headings(ralph("logs", BEAD, "--role", "qa", "--follow", cwd=repo).out) == [
        "--- attempt 2  qa  codex"
    ]
    missed = ralph("logs", BEAD, "--attempt", "7", cwd=repo)
    assert (missed.code, "there is attempt 1 check, attempt 1 dev, attempt 2 qa" in missed.err) == (1, True)


def test_raw_logs_are_what_was_printed(worked_on: RunFolder, repo: Path) -> None:
    printed = cassettes.of("claude").joinpath("ok.out").read_text("utf-8")
    raw = ralph("logs", BEAD, "--raw", cwd=repo).out
    assert printed in raw
    assert "noise" in raw
    answer = ralph("logs", BEAD, "--json", cwd=repo).data
    assert {"out", "err", "attempt", "role", "program"} <= answer["outputs"][0].keys()
    assert len(answer["files"]) > len(answer["outputs"])


def test_ctrl_c_ends_a_following_quietly(worked_on: RunFolder, repo: Path) -> None:
    with (
        runs.exclusive(repo / ".ralph", RUN),
        subprocess.Popen(
            [*RALPH, "logs", BEAD, "--follow"],
            cwd=repo,
            env=environment({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as following,
    ):
        assert following.stdout is not None
        assert following.stdout.readline().startswith("--- attempt 1")
        following.send_signal(signal.SIGINT)
        assert following.communicate(timeout=60)[1] == ""
    assert following.returncode == 0
