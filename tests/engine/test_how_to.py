"""The page on many machines, followed to the letter: from nothing to a finished run on three workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beads_ralph.engine import dev_server, server_program
from tests.engine.servers import free_port, need_temporal

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "many-machines.md"
USUAL = "127.0.0.1:7233"


def steps(port: int) -> str:
    """The page's commands in their order, on another port than the usual one, which may be in use here."""
    blocks = re.findall(
        r"^```sh machines\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    script = "".join(blocks).replace(USUAL, f"127.0.0.1:{port}")
    assert script.count("beads-ralph engine start") == 1
    return script.replace("beads-ralph engine start", f"beads-ralph engine start --port {port}")


@pytest.mark.full
@pytest.mark.temporal
def test_the_page_leads_to_a_finished_run_on_three_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(server_program.NAMED, need_temporal())
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("BEADS_RALPH_SET_MIN_FREE_GB", "0.1")
    script = tmp_path / "steps.sh"
    script.write_text("set -eu\n" + steps(free_port()), "utf-8")
    try:
        done = subprocess.run(
            ["bash", str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=270, check=False
        )
    finally:
        dev_server.stop()
        for note in tmp_path.glob("*.pid"):
            subprocess.run(["kill", "-9", note.read_text("utf-8").strip()], check=False, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^. engine +Temporal 1\.", done.stdout, flags=re.MULTILINE), done.stdout
    assert "0 open  0 in_progress  0 blocked  4 closed" in done.stdout
    listed = ["git", "-C", str(tmp_path / "shop.git"), "for-each-ref", "--format=%(refname)"]
    refs = subprocess.run(listed, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert len([ref for ref in refs if ref.startswith("refs/heads/feature/")]) == 4
    assert [ref for ref in refs if not ref.startswith("refs/heads/")] == []
    pulls = sorted((tmp_path / "shop" / ".ralph" / "pulls").glob("*.md"))
    assert len(pulls) == 4
    told = [json.loads(line) for line in _journal(tmp_path / "shop").splitlines()]
    assert len([event for event in told if event["kind"] == "bead_closed"]) == 4


def _journal(root: Path) -> str:
    (found,) = (root / ".ralph" / "runs").glob("*/events.jsonl")
    return found.read_text("utf-8")
