"""A disk that is really full: a small one in memory, which only the run below sees."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import environment
from tests.conftest import need_bwrap
from tests.loop.plans import Project, git, passes, sprint, work

BEAD = "bd-1-1-one"
SIZE = 48 * 1024 * 1024
STORY = """
set -u
cp -a "$HERE/before/." "$HERE/work/"
cd "$HERE/work/app"
"$PYTHON" -m beads_ralph run plan.md --json > "$HERE/first.json" 2> "$HERE/first.err"
echo $? > "$HERE/first.code"
"$PYTHON" -m beads_ralph status --json > "$HERE/between.json" 2>&1
rm -f "$HERE/work/filler"
"$PYTHON" -m beads_ralph run --json > "$HERE/second.json" 2> "$HERE/second.err"
"$PYTHON" -m beads_ralph state validate --json > "$HERE/valid.json" 2>&1
git fsck --full > "$HERE/fsck.txt" 2>&1; echo $? >> "$HERE/fsck.txt"
cp -a "$HERE/work" "$HERE/after"
"""


def filling(here: Path, left: int) -> str:
    """A command that fills the disk the first time, but for so many bytes."""
    fill = f"cat /dev/zero > {here}/work/filler 2> /dev/null; truncate -s -{left} {here}/work/filler"
    return f"test -e {here}/filled || {{ touch {here}/filled; {fill}; }}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("left", [1, pytest.param(40_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("who", ["dev", "verifier", "qa"])
def test_a_full_disk_is_named_costs_no_attempt_and_spoils_nothing(
    repo: Path, tmp_path: Path, who: str, left: int
) -> None:
    need_bwrap()
    here = tmp_path / "here"
    fill = filling(here, left)
    (here / "work").mkdir(parents=True)
    shutil.move(repo, here / "work" / "app")
    first: list[dict[str, Any]] = [{"run": fill}]
    script = {
        "dev": [*(first if who == "dev" else []), *work()],
        "qa": [*(first if who == "qa" else []), *passes()],
    }
    verify = f"`test ! -e {BEAD}.txt || {{ {fill}; }}; test -e {BEAD}.txt`" if who == "verifier" else "`true`"
    Project.make(
        here / "work" / "app",
        sprint("1.1", "One", verify=verify),
        script={"*": script},
        sandbox="none",
        verifier_sandbox="none",
    )
    shutil.move(here / "work", here / "before")
    (here / "work").mkdir()
    told = tell(here)
    shutil.rmtree(here / "work")
    (here / "after").rename(here / "work")
    project = Project(here / "work" / "app")
    full = (here / "first.code").read_text("utf-8").strip() != "0"
    assert full or left > 1  # what is left may suffice
    assert ("the disk is full: " in told) == full
    assert ("bytes free" in told) == full
    assert ("no attempt was counted" in told) == full
    second = json.loads((here / "second.json").read_text("utf-8"))
    assert second["success"], second
    assert project.statuses() == {BEAD: "closed"}, second
    assert project.metadata(BEAD)["attempt_count"] == 1
    assert json.loads((here / "valid.json").read_text("utf-8"))["success"]
    assert (here / "fsck.txt").read_text("utf-8").strip().endswith("0")
    assert [*project.root.rglob(".*.tmp")] == []
    assert git(project.root, "show", f"{project.bead(BEAD).metadata.branch}:{BEAD}.txt") != ""


def small_disk(place: Path) -> list[str]:
    return ["bwrap", "--dev-bind", "/", "/", "--size", str(SIZE), "--tmpfs", str(place)]


def tell(here: Path) -> str:
    """What the first run said."""
    env = environment({"HERE": str(here), "PYTHON": sys.executable})
    done = subprocess.run(
        [*small_disk(here / "work"), "bash", "-c", STORY],
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (here / "first.json").read_text("utf-8") + (here / "first.err").read_text("utf-8")
