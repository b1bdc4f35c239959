"""What an agent may have it may also print: none of it is kept, and other users read nothing of ours."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.cli.running import compiled_here, ralph
from tests.loop.plans import Project, fails, passes, sprint, work
from tests.loop.test_loop import seen_at_a_terminal

SECRET = "s3cret-Value-of-mine"
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
TALKER = [
    {"run": 'echo "I found $DEPLOY_PASS"; echo "and $DEPLOY_PASS" >&2'},
    {"run": 'mkdir -p tests && echo x > "tests/$DEPLOY_PASS.txt" && echo y >> "$DEPLOY_PASS.ini"'},
    {"run": 'git add --all && git commit --quiet --message "with $DEPLOY_PASS"'},
    {"say": f"Done, with {SECRET} and {TOKEN}."},
]
TELLING = f"{SECRET} and {TOKEN} are in tests/{SECRET}.txt"


def talkative(repo: Path, store: str = "embedded") -> Project:
    """An agent that lets its secret slip wherever it can, and reviewers and checks that do so, too."""
    verdict = {"status": "pass", "message": TELLING, "details": {"id": SECRET, SECRET: [TOKEN]}}
    return Project.make(
        repo,
        sprint("1.1", "One", verify='`echo $DEPLOY_PASS; test -e "tests/$DEPLOY_PASS.txt"`'),
        script={"*": {"dev": [TALKER, TALKER], "qa": [fails(TELLING), [{"json": verdict}]]}},
        store=store,
        agent_env=["DEPLOY_PASS"],
    )


def holding(folder: Path, *words: str) -> list[str]:
    """The files that hold one of the words. Transcripts and commits are the agents' own, and stay as they
    are."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("jobs", "worktrees", "checks", "proof.git")]
        for path in (Path(place, name) for name in names):
            data = path.read_bytes()
            if any(word.encode() in data for word in words):
                found.append(str(path.relative_to(folder)))
    return found


def test_nothing_that_we_write_holds_a_secret(repo: Path) -> None:
    project = talkative(repo)
    ran = project.run(env={"DEPLOY_PASS": SECRET})
    assert ran.data["closed"] == ["bd-1-1-one"], ran.out + ran.err
    verdicts = project.events("verdict_given")
    assert [row["ruling"] for row in verdicts] == ["fail", "pass"]
    assert "[redacted] and [redacted] are in tests/[redacted].txt" in repr(verdicts)
    assert "[redacted]" in project.feedback("bd-1-1-one")[1], "the next attempt is not told it either"
    assert holding(repo / ".ralph", SECRET, TOKEN) == []
    assert holding(repo / "state", SECRET, TOKEN) == []
    assert SECRET not in repr(project.metadata("bd-1-1-one"))
    (page,) = (repo / ".ralph" / "pulls").glob("*.md")
    assert "[redacted]" in page.read_text("utf-8")
    assert SECRET not in ran.out + ran.err


@pytest.mark.full
@pytest.mark.bd
def test_nor_does_bd_hold_one(bd_repo: Path) -> None:
    project = talkative(bd_repo, store="bd")
    ran = project.run(env={"DEPLOY_PASS": SECRET})
    assert ran.data["closed"] == ["bd-1-1-one"], ran.out + ran.err
    bead = project.bead("bd-1-1-one")
    assert SECRET not in repr(bead)
    assert "[redacted]" in repr(bead)


def open_to_others(folder: Path) -> list[str]:
    """Everything of ours that others could get at; checkouts are git's."""
    found = [] if not stat.S_IMODE(folder.stat().st_mode) & 0o077 else ["."]
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("worktrees", "checks")]
        paths = [Path(place, name) for name in (*folders, *names)]
        folders[:] = [name for name in folders if name != "proof.git"]
        wrong = [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]
        found += [str(path.relative_to(folder)) for path in wrong]
    return found


def test_only_the_user_can_read_what_a_run_leaves(repo: Path) -> None:
    before = os.umask(0o022)
    try:
        project = Project.make(repo, sprint("1.1", "One"), logging={"level": "debug"})
        assert project.run().data["closed"] == ["bd-1-1-one"]
        assert open_to_others(repo / ".ralph") == []
        assert open_to_others(repo / "state" / "runs") == []
        assert open_to_others(repo / "state" / "results") == []
        for theirs in (repo / "beads-ralph.yaml", repo / "plan.md", repo / "bd-1-1-one.txt"):
            assert not theirs.exists() or theirs.stat().st_mode & 0o044
    finally:
        os.umask(before)


def test_a_run_takes_back_what_older_versions_gave_to_everybody(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    assert project.run().data["closed"] == ["bd-1-1-one"]
    outside = repo.parent / "outside"
    outside.write_text("not ours", "utf-8")
    outside.chmod(0o644)
    (repo / ".ralph" / "link").symlink_to(outside)
    ours = [repo / ".ralph", repo / "state" / "runs", repo / "state" / "results"]
    for folder in ours:
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    assert all(open_to_others(folder) for folder in ours)
    project.run()
    assert [open_to_others(folder) for folder in ours] == [[], [], []]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


EVIL = "\x1b]0;owned\x07\x9b31m\u202eslip"
SEEN = "␛]0;owned␇\\u009b31m\\u202eslip"


def test_no_control_character_of_others_reaches_a_terminal(repo: Path) -> None:
    steps = [*work(), {"say": EVIL}]
    Project.make(repo, sprint("1.1", "One"), script={"*": {"dev": steps, "qa": passes(EVIL)}})
    compiled_here(repo, (repo / "plan.md").read_text("utf-8"))
    EmbeddedStore(repo).update("bd-1-1-one", Changes(title=f"One {EVIL}"))
    shown = {}
    for words in ("run", "list", "show bd-1-1-one", "status", "logs bd-1-1-one", "events", "list --json"):
        text = shown[words] = seen_at_a_terminal(repo, *words.split())
        assert "\x1b]" not in text, words
        assert not {"\x07", "\x9b", "\u202e"} & {*text}, words
    assert [SEEN in text for words, text in shown.items() if words not in ("status", "list --json")] == [
        True
    ] * 5
    assert json.loads(shown["list --json"])["data"]["beads"][0]["title"] == f"One {EVIL}"
    assert EVIL in ralph("logs", "bd-1-1-one", "--raw", cwd=repo).out, "a pipe gets it as it was printed"
    assert EVIL not in ralph("logs", "bd-1-1-one", cwd=repo).out
