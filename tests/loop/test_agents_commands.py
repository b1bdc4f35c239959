"""What agents cannot do to the beads of their own run: with our commands, and with bd."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, git, passes, sprint, work

ONE = sprint("1.1", "One")
BEAD = "bd-1-1-one"
RALPH = f"{Path(sys.executable)} -m beads_ralph"


def tried(repo: Path, *commands: str, store: str = "embedded") -> list[str]:
    """What a developer's commands print, each with its exit code; the bead is done all the same."""
    log = repo.parent / "log"
    steps = [{"run": f'{{ {command}; }} >> {log} 2>&1; echo "exit $?" >> {log}'} for command in commands]
    script = {"*": {"dev": [*steps, *work()], "qa": passes()}}
    project = Project.make(repo, ONE, script=script, store=store)
    ran = project.run()
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (0, [BEAD], 1), ran.out
    return log.read_text("utf-8").splitlines()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "command",
    [
        f"close {BEAD} --reason done",
        f"accept {BEAD} --reason done",
        f"retry {BEAD}",
        "mason plan.md --update",
        "run",
        "stop",
        "init",
        "gate check",
    ],
)
def test_an_agent_changes_no_beads_of_its_run(repo: Path, command: str) -> None:
    said = tried(repo, f"{RALPH} {command} --json")
    assert said[-1] == "exit 1"
    error = json.loads("\n".join(said[:-1]))["error"]
    assert error["code"] == "EXECUTION.NOT_FOR_AGENTS"
    assert "Commit the work and end" in error["suggested_action"]


def test_nor_without_its_environment_as_an_orphan_in_another_session(repo: Path) -> None:
    call = f"{RALPH} close {BEAD} --reason done --json"
    out = repo.parent / "out"
    hidden = f'(setsid env -i PATH="$PATH" sh -c "sleep 0.2; {call} > {out}.part; mv {out}.part {out}" &)'
    wait = f"for _ in $(seq 600); do [ -f {out} ] && break; sleep 0.1; done"
    tried(repo, f"cd {repo}; {hidden}; {wait}")
    assert json.loads(out.read_text("utf-8"))["error"]["code"] == "EXECUTION.NOT_FOR_AGENTS"


def test_looking_goes_on_working(repo: Path) -> None:
    said = tried(repo, f"{RALPH} list --json > /dev/null", f"{RALPH} show {BEAD} --json > /dev/null")
    assert said == ["exit 0", "exit 0"]


def test_a_repository_of_its_own_is_its_own_affair(repo: Path) -> None:
    """As an agent needs it that works on this very program, and runs its tests."""
    own = repo.parent / "own"
    make = (
        f"git init -q {own} && cd {own} && git commit -q --allow-empty -m first && {RALPH} init --no-checks"
    )
    assert tried(repo, f"{make} > /dev/null")[-1] == "exit 0"
    assert (own / ".ralph").is_dir()


def test_after_the_run_a_person_may(repo: Path) -> None:
    project = Project.make(repo, ONE)
    assert project.run().code == 0
    assert project.ralph("retry", BEAD, "--json").error["code"] != "EXECUTION.NOT_FOR_AGENTS"


# --- bd ---------------------------------------------------------------------------------------------


def test_an_agents_bd_reads_and_changes_nothing(bd_repo: Path) -> None:
    said = tried(
        bd_repo,
        "bd close $BEADS_RALPH_BEAD --force",
        "bd --actor list update $BEADS_RALPH_BEAD --status closed",
        f"bd -C {bd_repo} create more",
        "bd list --json > /dev/null",
        "bd --json show $BEADS_RALPH_BEAD > /dev/null",
        "bd ready --claim > /dev/null",
        store="bd",
    )
    codes = [line for line in said if line.startswith("exit")]
    assert codes[:5] == ["exit 1", "exit 1", "exit 1", "exit 0", "exit 0"], said
    assert codes[5] != "exit 0", "bd's own --readonly"
    assert [line for line in said if line.startswith("bd: refused")] == [
        f"bd: refused: agents do not change the beads of {bd_repo}; only the run that they work for does."
    ] * 3
    listed = subprocess.run(["bd", "list", "--all", "--json"], cwd=bd_repo, capture_output=True, check=True)
    assert [row["id"] for row in json.loads(listed.stdout)] == [BEAD]


@pytest.mark.full
def test_an_agents_bd_is_bd_itself_elsewhere(bd_repo: Path) -> None:
    own = bd_repo.parent / "own"
    words = "--non-interactive --prefix bd --stealth --skip-hooks --skip-agents --quiet"
    make = f"git init -q {own} && cd {own} && bd init {words} && bd create mine --quiet > /dev/null"
    assert tried(bd_repo, make, store="bd")[-1] == "exit 0"


# --- what a person is told --------------------------------------------------------------------------


def test_doctor_names_closed_beads_that_nobody_has_proven(repo: Path) -> None:
    project = Project.make(repo, ONE, sprint("1.2", "Two"))
    assert project.run().code == 0
    (found,) = [row for row in project.ralph("doctor", "--json").data["checks"] if row["name"] == "proofs"]
    assert (found["status"], found["detail"]) == ("found", "2 closed beads, each proven or accepted")
    (repo / ".ralph" / "proofs.jsonl").unlink()
    project.store.update("bd-1-2-two", Changes(metadata={"proven": None}))
    git(repo, "update-ref", "refs/heads/feature/1-1-one", "main")
    (found,) = [row for row in project.ralph("doctor", "--json").data["checks"] if row["name"] == "proofs"]
    assert found["status"] == "missing"
    assert "bd-1-1-one: its branch feature/1-1-one holds" in found["detail"]
    assert "bd-1-2-two: closed without a proof" in found["detail"]
    assert "beads-ralph accept" in found["action"]
