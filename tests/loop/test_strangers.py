"""Agents that do what nobody asked for, and people who work on the same beads, branches and remotes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, Steps, git, names, soon, sprint, work

ONE, OTHER = sprint("1.1", "One"), sprint("1.1a", "Other")
BEAD, BRANCH = "bd-1-1-one", "feature/1-1-one"
SHARED = {"branch": "`feature/shared`"}


def gate(name: str) -> Steps:
    """A developer who says that it is at work, and waits to be let on."""
    return [
        {"run": f"touch up-{name}; while [ ! -e go-{name} ]; do sleep 0.05; done; rm up-{name} go-{name}"}
    ]


def with_remote(repo: Path) -> Path:
    bare = repo.parent / "remote.git"
    git(repo.parent, "init", "--quiet", "--bare", str(bare))
    git(repo, "remote", "add", "origin", str(bare))
    return bare


def verdicts(project: Project, bead: str) -> list[tuple[str, str]]:
    return [(row["ruling"], row["message"]) for row in project.events("verdict_given", bead=bead)]


# --- what is on a branch that beads share -----------------------------------------------------------

REWRITING = {
    "amends": "echo two > two.txt; git add -A; git commit -q --amend -m two",
    "resets": "git reset -q --hard HEAD~1; echo two > two.txt; git add -A; git commit -qm two",
    "starts over": "git checkout -q --orphan new; git commit -qm all; git branch -qM new feature/shared",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", REWRITING)
def test_history_that_others_build_on_is_not_rewritten(repo: Path, how: str) -> None:
    """It is a finding like any other: told to the developer, who puts the work back on top."""
    repair: Steps = [
        {"expect": "the history was rewritten: feature/shared does not contain"},
        {"run": "git fetch -q . refs/pull/1/head; git reset -q --hard FETCH_HEAD"},
        *work("two.txt"),
    ]
    script = {"1.1": {"dev": work("one.txt")}, "1.2": {"dev": [[{"run": REWRITING[how]}], repair]}}
    project = Project.make(
        repo, sprint("1.1", "One", **SHARED), sprint("1.2", "Two", **SHARED), script=script
    )
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [BEAD, "bd-1-2-two"]), ran.out
    assert [ruling for ruling, _ in verdicts(project, "bd-1-2-two")] == ["fail", "pass"]
    held = git(repo, "ls-tree", "--name-only", project.pulls()["feature/shared"]).splitlines()
    assert {"one.txt", "two.txt"} <= set(held)


def test_law_1_a_later_bead_of_a_branch_keeps_what_the_earlier_proved(repo: Path) -> None:
    """They share a pull request, so its commit must pass the checks of both."""
    breaks: Steps = [{"run": "git rm -q one.txt"}, *work("two.txt")]
    repair: Steps = [{"expect": "test -f one.txt"}, *work("one.txt")]
    project = Project.make(
        repo,
        sprint("1.1", "One", verify="`test -f one.txt`", **SHARED),
        sprint("1.2", "Two", verify="`test -f two.txt`", **SHARED),
        script={"1.1": {"dev": work("one.txt")}, "1.2": {"dev": [breaks, repair]}},
    )
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 3), ran.out
    evidence = project.metadata("bd-1-2-two")["last_verdict"]["evidence"]
    commit = project.pulls()["feature/shared"]
    assert {row["command"]: row["commit"] for row in evidence if row["kind"] == "verifier"} == {
        "test -f two.txt": commit,
        "test -f one.txt": commit,
    }


# --- where an agent left the worktree ---------------------------------------------------------------

ASTRAY = {
    "another branch": ("git checkout -q -b elsewhere", "elsewhere"),
    "another branch, with changes": ("git checkout -q -b elsewhere; echo x > loose.txt", "elsewhere"),
    "no branch": ("git checkout -q --detach; git commit -q --allow-empty -m loose", f"{BRANCH}-left-"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("where", ASTRAY)
def test_a_worktree_that_was_left_on_another_branch_is_brought_back(repo: Path, where: str) -> None:
    """By the next run, too, and what was done there is kept."""
    command, kept = ASTRAY[where]
    project = Project.make(
        repo,
        ONE,
        script={"*": {"dev": [[{"run": command}, *work("lost.txt")], work("one.txt")]}},
        plan_settings={"max_retry_attempts": 1},
    )
    assert project.run().data["ended"] == "blocked"
    assert project.ralph("retry", BEAD, "--json").code == 0
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [BEAD]), ran.out
    (branch,) = [name for name in git(repo, "branch", "--format=%(refname:short)").split() if kept in name]
    held = git(repo, "ls-tree", "--name-only", branch).split()
    assert "lost.txt" in held
    assert ("loose.txt" in held) is ("changes" in where)
    assert f"is on {BRANCH} again" in project.events("warning_given")[-1]["message"]


def test_work_that_was_committed_survives_the_loss_of_its_worktree(repo: Path) -> None:
    gone: Steps = [*work("one.txt"), {"run": 'rm -rf "$BEADS_RALPH_WORKTREE"'}]
    project = Project.make(repo, ONE, script={"*": {"dev": [gone, [{"say": "it is all there"}]]}})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2), ran.out
    assert "one.txt" in git(repo, "ls-tree", "--name-only", BRANCH)


def test_a_commit_on_the_source_branch_is_shown_to_the_reviewer(repo: Path) -> None:
    astray = f"cd {repo}; echo x > astray.txt; git add -A; git commit -qm astray"
    project = Project.make(repo, ONE, script={"*": {"dev": [{"run": astray}, *work()]}})
    before = git(repo, "rev-parse", "main")
    assert project.run().code == 0
    (flag,) = project.metadata(BEAD)["last_verdict"]["flags"]
    after = git(repo, "rev-parse", "main")
    assert flag == f"the source branch was moved meanwhile, from {before[:12]} to {after[:12]}"


def test_law_1_a_branch_that_moves_while_it_is_checked_is_put_back_and_checked_again(repo: Path) -> None:
    place = repo.parent / f"{repo.name}-worktrees" / BRANCH
    once = repo.parent / "once"
    meddle = f"touch {once}; cd {place}; echo x > late.txt; git add -A; git commit -qm late"
    verify = f"`[ ! -e {BEAD}.txt ] || [ -e {once} ] || {{ {meddle}; }}`"
    # In a room of its own a check would not find the worktree.
    project = Project.make(repo, sprint("1.1", "One", verify=verify), OTHER, verifier_sandbox="none")
    ran = project.run()
    assert (ran.code, sorted(ran.data["closed"])) == (0, [BEAD, "bd-1-1a-other"]), ran.out
    (first, message), (second, _) = verdicts(project, BEAD)
    assert (first, second) == ("fail", "pass")
    assert message.startswith("1 of 2 checks failed: branch: feature/1-1-one moved on to ")
    assert "late.txt" not in git(repo, "ls-tree", "--name-only", BRANCH)
    (flag,) = [flag for flag in project.metadata(BEAD)["last_verdict"]["flags"] if "was moved to" in flag]
    kept = flag.rpartition("kept as ")[2].rstrip(")")
    assert "late.txt" in git(repo, "ls-tree", "--name-only", kept), "nothing is lost"
    evidence = project.metadata(BEAD)["last_verdict"]["evidence"]
    assert {row["commit"] for row in evidence} == {project.pulls()[BRANCH]}


# --- people and the store ---------------------------------------------------------------------------


def test_a_dependency_that_is_opened_again_leaves_no_bead_in_hand(repo: Path) -> None:
    place = Project(repo).worktree("feature/1-2-two")
    first = repo.parent / "first"
    wait = f"[ -e {first} ] || {{ touch {first}; while [ ! -e {place}/go ]; do sleep 0.05; done; rm go; }}"
    script = {"1.1": {"dev": work()}, "1.2": {"dev": [{"run": wait}, *work()]}}
    project = Project.make(repo, ONE, sprint("1.2", "Two"), script=script)
    with project.running("--max-parallel", "1") as process:
        soon(first.exists)
        EmbeddedStore(repo).update(BEAD, Changes(status="open"))
        (place / "go").touch()
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"]) == (0, "done"), ran.out
    (released,) = project.events("bead_released")
    assert (released["bead"], "blocked by bd-1-1-one again" in released["reason"]) == ("bd-1-2-two", True)
    # What was opened again is worked on again, and both are proven on what is there now.
    assert len(project.events("agent_started", bead=BEAD)) == 4
    for bead in ran.data["closed"]:
        metadata = project.metadata(bead)
        assert metadata["proven"]["commit"] == project.pulls()[metadata["branch"]]
    project.assert_tidy()


def test_a_closed_bead_that_is_opened_again_is_worked_on_again(repo: Path) -> None:
    """With all its attempts: somebody was not content with what the first ones brought."""
    project = Project.make(repo, ONE, plan_settings={"max_retry_attempts": 1})
    assert project.run().code == 0
    project.store.update(BEAD, Changes(status="open"))
    ran = project.run()
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (0, [BEAD], 1), ran.out
    assert git(repo, "show", f"{BRANCH}:{BEAD}.txt") == "1\n2"
    assert len(project.pulls()) == 1


@pytest.mark.parametrize("what", ["closed", "deleted"])
def test_a_bead_that_a_person_ends_meanwhile_stays_so_and_is_accounted_for(repo: Path, what: str) -> None:
    script = {"1.1": {"dev": [*gate("a"), *work()]}, "*": {"dev": work()}}
    project = Project.make(repo, ONE, OTHER, script=script)
    closing_ = "UPDATE beads SET status = 'closed', claimed_by = NULL, lease_expires_at = NULL WHERE id = ?"
    with project.running() as process:
        soon((project.worktree(BRANCH) / "up-a").exists)
        with closing(sqlite3.connect(repo / ".ralph" / "beads.db")) as database, database:
            database.execute(closing_ if what == "closed" else "DELETE FROM beads WHERE id = ?", (BEAD,))
        (project.worktree(BRANCH) / "go-a").touch()
        ran = project.finished(process)
    # Closed meanwhile, its work was proven all the same; what is gone cannot be called done.
    wanted = (0, "done") if what == "closed" else (1, "blocked")
    assert (ran.code, ran.data["ended"]) == wanted, ran.out
    assert project.statuses().get(BEAD, "deleted") == what
    assert project.statuses()["bd-1-1a-other"] == "closed"
    project.assert_tidy()


# --- people and the remote --------------------------------------------------------------------------


def test_a_remote_that_refuses_ends_the_run_in_its_own_words(repo: Path) -> None:
    hook = with_remote(repo) / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not on a Sunday >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    project = Project.make(repo, ONE, sprint("1.2", "Two"))
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "stopped", [])
    assert "not on a Sunday" in ran.data["reason"]
    assert project.statuses()[BEAD] == "open"
    hook.unlink()
    # What is proven is only proposed; nobody works on it again.
    assert project.run().data["closed"] == [BEAD, "bd-1-2-two"]
    assert names(project.events("agent_started", bead=BEAD), "role") == ["dev", "qa"]


def test_foreign_commits_on_the_remote_block_the_bead_and_the_rest_goes_on(repo: Path) -> None:
    bare = with_remote(repo)
    project = Project.make(repo, ONE, OTHER)
    foreign = git(repo, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "theirs")
    git(repo, "push", "--quiet", str(bare), f"{foreign}:refs/heads/{BRANCH}")
    ran = project.run("--max-parallel", "1")
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", ["bd-1-1a-other"])
    assert f"origin has commits on {BRANCH} that are not here" in ran.data["blocked"][0]["reason"]
    assert git(bare, "rev-parse", BRANCH) == foreign
    # The way out that it names: bring both together, and try again.
    git(project.worktree(BRANCH), "pull", "--quiet", "--no-rebase", "--no-edit", "origin", BRANCH)
    assert project.ralph("retry", BEAD, "--json").code == 0
    assert project.run().data["closed"] == [BEAD]
    assert git(bare, "rev-parse", BRANCH) == project.pulls()[BRANCH]


def test_a_merge_that_people_did_themselves_needs_no_pull_request(repo: Path) -> None:
    project = Project.make(
        repo,
        sprint("1.1a", "Left", verify="`test -f bd-1-1a-left.txt`"),
        sprint("1.1b", "Right"),
        sprint("1.2", "Merge both", type="merge", tasks=()),
    )
    assert project.run("--once").code == 0
    for branch in ("feature/1-1a-left", "feature/1-1b-right"):
        git(repo, "merge", "--quiet", "--no-ff", "--message", "take it", branch)
    ran = project.run()
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (0, ["bd-1-2-merge-both"], 1), ran.out
    (pull,) = ran.data["pull_requests"]
    assert (pull["number"], pull["url"], pull["commit"]) == (None, None, git(repo, "rev-parse", "main"))
    evidence: list[dict[str, Any]] = project.metadata("bd-1-2-merge-both")["last_verdict"]["evidence"]
    assert [row["ruling"] for row in evidence if row["kind"] == "verifier"] == ["pass"]
    assert names(project.events("agent_started", bead="bd-1-2-merge-both"), "role") == ["qa"]


# --- large files and submodules -----------------------------------------------------------------------

LFS = """#!/usr/bin/env python3
import hashlib, os, pathlib, shutil, subprocess, sys
ask = ("git", "rev-parse", "--path-format=absolute", "--git-common-dir")
here = pathlib.Path(subprocess.check_output(ask, text=True).strip())
def kept(name, below=here): return below / "lfs/objects" / name[:2] / name[2:4] / name
word, data = sys.argv[1], b"" if sys.argv[1] == "push" else sys.stdin.buffer.read()
if word == "clean":
    name = hashlib.sha256(data).hexdigest()
    kept(name).parent.mkdir(parents=True, exist_ok=True)
    kept(name).write_bytes(data)
    print(f"oid sha256:{name}")
elif word == "smudge":
    sys.stdout.buffer.write(kept(data.decode().strip().rpartition(":")[2]).read_bytes())
else:
    remote = subprocess.check_output(("git", "remote", "get-url", sys.argv[2]), text=True).strip()
    shutil.copytree(here / "lfs", pathlib.Path(remote) / "lfs", dirs_exist_ok=True)
"""


def with_large_files(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A remote, and a program that does for `*.bin` what git-lfs does."""
    remote, programs = with_remote(repo), repo.parent / "programs"
    programs.mkdir()
    (programs / "git-lfs").write_text(LFS)
    (programs / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    git(repo, "config", "filter.lfs.clean", "git-lfs clean")
    git(repo, "config", "filter.lfs.smudge", "git-lfs smudge")
    git(repo, "config", "filter.lfs.required", "true")
    (repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    return remote


def test_large_files_are_shown_to_checks_and_go_with_their_commit(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = with_large_files(repo, monkeypatch)
    project = Project.make(
        repo,
        sprint("1.1", "One", verify="`grep -qx large one.bin`"),
        sprint("1.2", "Two", verify="`grep -qx large one.bin`"),
        script={"1.1": {"dev": work("one.bin", "large\n")}, "1.2": {"dev": work("two.txt")}},
    )
    ran = project.run()
    assert (ran.code, len(ran.data["closed"])) == (0, 2), ran.out
    pointer = git(repo, "show", "feature/1-1-one:one.bin")
    name = pointer.rpartition(":")[2]
    assert (remote / "lfs" / "objects" / name[:2] / name[2:4] / name).read_text() == "large\n"


def test_a_large_file_that_is_not_what_its_name_says_proves_nothing(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_large_files(repo, monkeypatch)
    # A file as young as the index is read anew by git, and its object written again.
    settle = "touch -d 2001-01-01 one.bin && git add one.bin"
    swap = f'cd {repo}/.git/lfs/objects && f=$(find . -type f) && chmod u+w "$f" && echo right > "$f"'
    project = Project.make(
        repo,
        sprint("1.1", "One", verify="`grep -qx right one.bin`"),
        script={"1.1": {"dev": [*work("one.bin", "wrong\n"), {"run": settle}, {"run": swap}]}},
        plan_settings={"max_retry_attempts": 1},
    )
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (1, []), ran.out
    assert "large files are not what their names say" in verdicts(project, BEAD)[0][1]


def test_a_submodule_is_there_for_agents_and_checks_where_the_setup_brings_it(repo: Path) -> None:
    library = repo.parent / "library"
    git(repo.parent, "init", "--quiet", "--initial-branch=main", str(library))
    (library / "lib.txt").write_text("library\n")
    git(library, "add", "--all")
    git(library, "commit", "--quiet", "--message", "library")
    allowed = ("-c", "protocol.file.allow=always")
    git(repo, *allowed, "submodule", "--quiet", "add", str(library), "vendor/lib")
    bump = (
        "cd vendor/lib && echo more > more.txt && git add --all && git commit --quiet --message more && "
        "git push --quiet origin HEAD:refs/heads/more"
    )
    project = Project.make(
        repo,
        sprint("1.1", "One", verify="`grep -q library vendor/lib/lib.txt`"),
        sprint("1.2", "Two", verify="`grep -q more vendor/lib/more.txt`"),
        worktree_setup="git -c protocol.file.allow=always submodule --quiet update --init",
        verifier_sandbox="none",  # its room has no folder of another repository, only the network
        script={"1.1": {"dev": work("one.txt")}, "1.2": {"dev": [{"run": bump}, *work("two.txt")]}},
    )
    ran = project.run()
    assert (ran.code, len(ran.data["closed"])) == (0, 2), ran.out
