"""What worktrees are lent: files that no commit holds, ports that nobody else has, a setup that ran once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.process import ports
from beads_ralph.process.ports import Ports
from beads_ralph.session import lent_files
from tests.git.repos import commit
from tests.loop.plans import Project, git, passes, soon, sprint, work

ONE = sprint("1.1", "One")
BEAD = "bd-1-1-one"
BRANCH = "feature/1-1-one"


def findings(project: Project) -> list[str]:
    return [row["message"] for row in project.events("verdict_given", bead=BEAD)]


# --- files ------------------------------------------------------------------------------------------


def tree_of(repo: Path) -> Path:
    tree = repo.parent / "tree"
    git(repo, "worktree", "add", "-q", "-b", "work", str(tree))
    return tree


def test_untracked_files_that_match_are_copied_with_their_mode_and_nothing_else(repo: Path) -> None:
    commit(repo, {".gitignore": ".env\n", ".env.example": "tracked", "conf/a.txt": "tracked"})
    for name in (".env", ".env.local", "conf/x.local", "other", ".ralph/x.local"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(name, "utf-8")
    (repo / ".env").chmod(0o600)
    tree = tree_of(repo)
    found = lent_files.lend(repo, tree, [".env", ".env.*", "*/*.local", "nothing-*"])
    assert found == [".env", ".env.local", "conf/x.local"]
    assert [(tree / name).read_text("utf-8") for name in found] == found
    assert (tree / ".env").stat().st_mode & 0o777 == 0o600
    assert not (tree / "other").exists()
    git(tree, "add", "--all")
    assert git(tree, "status", "--porcelain") == ""
    assert git(repo, "status", "--porcelain") == "?? .ralph/\n?? other"


def test_what_is_there_is_never_overwritten_and_lending_again_changes_nothing(repo: Path) -> None:
    (repo / ".env").write_text("mine", "utf-8")
    (repo / "a b[1].env").write_text("odd", "utf-8")
    tree = tree_of(repo)
    (tree / ".env").write_text("its own", "utf-8")
    assert lent_files.lend(repo, tree, ["*.env"]) == [".env", "a b[1].env"]
    exclude = (repo / ".git/info/exclude").read_text("utf-8")
    assert lent_files.lend(repo, tree, ["*.env"]) == [".env", "a b[1].env"]
    assert (tree / ".env").read_text("utf-8") == "its own"
    assert (repo / ".git/info/exclude").read_text("utf-8") == exclude
    assert git(tree, "status", "--porcelain") == ""


def test_a_file_that_the_branch_itself_has_is_not_lent(repo: Path) -> None:
    tree = tree_of(repo)
    commit(tree, {".env": "of the branch"})
    (repo / ".env").write_text("mine", "utf-8")
    assert lent_files.lend(repo, tree, [".env"]) == []
    assert (tree / ".env").read_text("utf-8") == "of the branch"


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../.env", "a/../../x"])
def test_a_pattern_that_leads_out_is_refused(repo: Path, pattern: str) -> None:
    ran = Project.make(repo, ONE, worktree_files=[pattern]).run()
    assert (ran.code, ran.error["code"]) == (1, "CONFIG.INVALID")
    assert repr(pattern) in ran.error["message"]


def test_agents_and_checks_find_the_files_and_no_commit_holds_them(repo: Path) -> None:
    (repo / ".env").write_text("KEY=hush\n", "utf-8")
    look = [{"run": "grep -q hush .env"}]
    project = Project.make(
        repo,
        ONE,
        script={"*": {"dev": [*look, *work()], "qa": [*look, *passes()]}},
        plan_settings={"verify": ["grep -q hush .env"]},
        worktree_files=[".env"],
    )
    (repo / ".env").write_text("KEY=hush\n", "utf-8")
    git(repo, "rm", "-q", "--cached", ".env")
    git(repo, "commit", "-qm", "untracked")
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1), ran.out + str(findings(project))
    assert ".env" not in git(repo, "ls-tree", "-r", "--name-only", BRANCH)


def test_a_lent_file_in_a_commit_fails_until_it_is_out_of_the_history(repo: Path) -> None:
    script = {
        "*": {
            "dev": [
                [{"run": "git add -f .env && git commit -qm leak"}, *work()],
                [{"run": "git rm -q --cached .env && git commit -qm remove"}],
                [{"run": "git reset -q --soft main && git commit -qm clean"}],
            ]
        }
    }
    project = Project.make(repo, ONE, script=script, worktree_files=[".env"])
    (repo / ".env").write_text("KEY=hush\n", "utf-8")
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 3), ran.out
    assert all("commits hold .env" in text for text in findings(project)[:2])
    assert git(repo, "log", "--format=%s", f"main..{BRANCH}") == "clean"


# --- ports ------------------------------------------------------------------------------------------


def free_range(count: int) -> int:
    """The first of so many ports on which nobody listens."""
    for first in range(42000 + os.getpid() % 5000, 60000, count):
        if all(ports._is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free ports")


def test_ranges_are_unique_and_used_again(tmp_path: Path) -> None:
    first = free_range(40)
    lender = Ports(first, 10, tmp_path / "ports")
    with lender.lent() as one, lender.lent() as two:
        assert (one.first, two.first) == (first, first + 10)
    with lender.lent() as again:
        assert again == one
        assert again.env == {
            "PORT": str(first),
            "BEADS_RALPH_PORT_FIRST": str(first),
            "BEADS_RALPH_PORT_COUNT": "10",
        }


def test_a_range_that_somebody_listens_on_is_passed_over(tmp_path: Path) -> None:
    first = free_range(40)
    with socket.create_server(("127.0.0.1", first + 3)), Ports(first, 10, tmp_path / "p").lent() as found:
        assert found.first == first + 10


def test_another_process_has_others_and_leaves_none_behind_when_it_is_killed(tmp_path: Path) -> None:
    first = free_range(40)
    hold = (
        "import sys, time; from pathlib import Path; from beads_ralph.process.ports import Ports\n"
        f"with Ports({first}, 10, Path({str(tmp_path / 'p')!r})).lent() as lent:\n"
        "    print(lent.first, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == first
        # Ranges that only overlap are kept apart, too.
        with Ports(first + 5, 10, tmp_path / "p").lent() as ours:
            assert ours.first == first + 15
        other.send_signal(signal.SIGKILL)
    with Ports(first, 10, tmp_path / "p").lent() as ours:
        assert ours.first == first


def test_where_there_are_none_left_it_says_so(tmp_path: Path) -> None:
    lender = Ports(65530, 6, tmp_path / "p")
    with lender.lent(), pytest.raises(RalphError, match="no 6 free ports") as caught, lender.lent():
        pass
    assert caught.value.code is Code.CONFIG_INVALID


def test_beads_side_by_side_have_ports_of_their_own_and_status_shows_them(repo: Path, tmp_path: Path) -> None:
    first = free_range(40)
    seen = tmp_path / "seen"
    seen.mkdir()
    note = 'echo "$PORT $BEADS_RALPH_PORT_FIRST $BEADS_RALPH_PORT_COUNT"'
    wait = [{"run": f"{note} > {seen}/$BEADS_RALPH_BEAD; while [ ! -e {seen}/go ]; do sleep 0.05; done"}]
    project = Project.make(
        repo,
        sprint("1.1a", "One"),
        sprint("1.1b", "Two"),
        script={"*": {"dev": [*wait, *work()]}},
        plan_settings={"verify": [f"{note} >> {seen}/checks"]},
        worktree_ports={"first": first, "count": 5},
        worktree_setup="true",
    )
    with project.running() as process:
        soon(lambda: len(list(seen.glob("bd-*"))) == 2)
        shown = project.ralph("status", "--json").data["at_work"]
        text = project.ralph("status").out
        (seen / "go").touch()
        ran = project.finished(process)
    assert ran.code == 0, ran.out
    leases = [row["lease"] for row in shown]
    assert sorted(row["ports"]["first"] for row in leases) == [first, first + 5]
    assert {row["setup"] for row in leases} == {"done"}
    assert f"ports {first}-{first + 4}; setup done" in text
    said = {path.read_text("utf-8").strip() for path in seen.glob("bd-*")}
    assert said == {f"{one} {one} 5" for one in (first, first + 5)}
    assert set((seen / "checks").read_text("utf-8").splitlines()) == said
    assert project.ralph("status", "--json").data["at_work"] == []


# --- setup ------------------------------------------------------------------------------------------


def setup(repo: Path, command: str, dev: Any, **settings: Any) -> Project:
    return Project.make(repo, ONE, script={"*": {"dev": dev}}, worktree_setup=command, **settings)


def test_it_runs_once_in_a_worktree_and_in_every_clean_checkout(repo: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = f"pwd >> {log}; mkdir -p node_modules; touch node_modules/dep"
    use = [{"run": "test -e node_modules/dep"}]
    dev = [[*use, {"crash": 1}], [*use, {"run": "echo node_modules > .gitignore"}, *work()]]
    project = setup(repo, command, dev, plan_settings={"verify": ["test -e node_modules/dep"]})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2), ran.out + str(findings(project))
    places = log.read_text("utf-8").splitlines()
    tree = str(project.worktree(BRANCH))
    assert places.count(tree) == 1
    assert len(places) == 1 + 3  # baseline, verifiers, QA
    assert project.metadata(BEAD)["last_verdict"]["flags"] == []


def test_a_worktree_that_is_made_anew_is_set_up_anew(repo: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    dev = [[{"run": "rm -rf $BEADS_RALPH_WORKTREE"}], [{"run": "test -e dep"}, *work()]]
    project = setup(repo, f"pwd >> {log}; touch dep", dev)
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2), ran.out + str(findings(project))
    assert log.read_text("utf-8").splitlines().count(str(project.worktree(BRANCH))) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no registry >&2; exit 7", "ended with exit code 7\nno registry"),
        ("sleep 60", "timed out after"),
    ],
)
def test_a_setup_that_fails_blocks_the_bead_and_says_why(repo: Path, command: str, said: str) -> None:
    project = setup(repo, command, work(), worktree_setup_timeout="2s")
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["attempts"]) == (1, "blocked", 0)
    (blocked,) = ran.data["blocked"]
    assert f"worktree_setup ({command})" in blocked["reason"]
    assert said in blocked["reason"]
    assert project.events("agent_started") == []
    logs = project.ralph("logs", BEAD, "--json")
    assert "exit 7" not in command or any("setup" in path for path in json.dumps(logs.data).split('"'))


def test_work_that_breaks_the_setup_is_told_so(repo: Path) -> None:
    dev = [[{"run": "touch broken"}, *work()], [{"delete": "broken"}, *work()]]
    command = "test ! -e broken || { echo the lock file is broken; exit 1; }"
    project = setup(repo, command, dev, plan_settings={"verify": ["true"]})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2), ran.out
    assert "worktree_setup" in findings(project)[0]
    assert "the lock file is broken" in project.feedback(BEAD)[1]
