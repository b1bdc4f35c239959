"""Pipes and devices are refused before they can keep us waiting; what the shell opened for us is read."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from tests.cli import running


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "check", "pipe"),
        ("mason", "pipe"),
        ("validate", "pipe"),
        ("migrate", "pipe"),
        ("plan", "check", "plan.md", "--config", "pipe"),
        ("exec", "pipe"),
    ],
)
def test_a_pipe_that_nobody_writes_to_is_refused_at_once(repo: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(repo / "pipe")
    (repo / "plan.md").write_text("# Nothing\n", "utf-8")
    said = running.ralph(*words, cwd=repo)
    assert said.code == 1
    assert "pipe is a pipe, not a file" in said.err


def test_settings_that_are_a_pipe_are_refused_at_once(repo: Path) -> None:
    os.mkfifo(repo / "beads-ralph.yaml")
    said = running.ralph("doctor", cwd=repo)
    assert said.code == 1
    assert "is a pipe, not a file" in said.err + said.out


def test_a_device_is_refused_and_the_empty_one_is_empty() -> None:
    for path in (Path("/dev/zero"), Path("/dev/ptmx")):
        with pytest.raises(RalphError, match="is a device, not a file") as refused:
            text_files.read_text(path)
        assert refused.value.code == Code.FILE_NOT_FOUND
    assert text_files.read_text(Path(os.devnull)) == ""


def test_what_the_shell_opened_is_read(repo: Path) -> None:
    plan = "<(sleep 0.1; printf '# Nothing\\n')"
    line = f"{shlex.join(running.RALPH)} plan check {plan}"
    done = subprocess.run(["bash", "-c", line], cwd=repo, capture_output=True, text=True, check=False)
    assert "no sprint headings found" in done.stderr
