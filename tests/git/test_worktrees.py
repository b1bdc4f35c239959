"""Worktrees: made, found again, shared by many, killed half way, removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.git import locking, worktree_removal, worktree_status, worktrees
from beads_ralph.git.git_files import folders_of
from beads_ralph.git.worktree_removal import remove
from beads_ralph.git.worktrees import PreparedWorktree, prepare
from beads_ralph.process.calls import Retry
from tests import selection
from tests.git.repos import commit, git, lines, on_branch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def beside(repo: Path) -> Path:
    """Where worktrees go; a space and an umlaut belong to the test."""
    return repo.parent / "app wörktrees"


def test_a_folder_that_is_gone_is_not_mistaken_for_a_missing_git(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(RalphError, match=f"there is no folder {place}, so git cannot run there"):
            worktree_status.head(place)


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RalphError, match="git is not installed"):
        worktree_status.head(tmp_path)


def made(repo: Path, beside: Path, branch: str = "feature/x", *dependencies: str) -> PreparedWorktree:
    return prepare(repo, beside / branch, branch, "main", dependencies)


def with_remote(repo: Path) -> Path:
    bare = repo.parent / "remote.git"
    git(repo, "clone", "--quiet", "--bare", str(repo), str(bare))
    git(repo, "remote", "add", "origin", str(bare))
    git(repo, "fetch", "--quiet")
    return bare


# --- preparing ----------------------------------------------------------------------------------------


def test_a_worktree_is_made_from_its_source(repo: Path, beside: Path) -> None:
    start = git(repo, "rev-parse", "main")
    first = made(repo, beside)
    assert first == PreparedWorktree(
        beside / "feature/x", "feature/x", start, start, created=True, new_branch=True
    )
    assert worktree_status.current_branch(first.path) == "feature/x"
    assert worktree_status.is_clean(first.path)
    assert [path.name for path in (repo / ".git" / "beads-ralph").iterdir()] == []


def test_a_worktree_is_found_again_with_its_commits_and_files(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    done = commit(first.path, {"work.txt": "work\n"})
    (first.path / "open.txt").write_text("not committed\n")
    commit(repo, {"later.txt": "main went on\n"})
    again = made(repo, beside)
    assert (again.created, again.head_commit, again.base_commit) == (False, done, first.base_commit)
    assert (first.path / "open.txt").exists()


def test_a_branch_that_exists_is_taken_as_it_is(repo: Path, beside: Path) -> None:
    done = on_branch(repo, "feature/x", {"work.txt": "work\n"})
    assert made(repo, beside).head_commit == done


def test_a_branch_on_origin_goes_on_there(repo: Path, beside: Path) -> None:
    done = on_branch(repo, "feature/x", {"work.txt": "work\n"})
    with_remote(repo)
    git(repo, "branch", "--quiet", "-D", "feature/x")
    assert made(repo, beside).head_commit == done
    assert "branch.feature/x" not in (repo / ".git" / "config").read_text()


def test_a_source_on_origin_only(repo: Path, beside: Path) -> None:
    done = on_branch(repo, "develop", {"dev.txt": "dev\n"})
    with_remote(repo)
    git(repo, "branch", "--quiet", "-D", "develop")
    assert prepare(repo, beside / "x", "x", "develop", ()).base_commit == done


def test_dependencies_are_merged_once(repo: Path, beside: Path) -> None:
    on_branch(repo, "one", {"one.txt": "one\n"})
    on_branch(repo, "two", {"two.txt": "two\n"}, start="one")
    on_branch(repo, "three", {"three.txt": "three\n"})
    first = made(repo, beside, "feature/x", "two", "one", "three", "gone")
    assert (first.merged, first.missing) == (("two", "three"), ("gone",))
    assert (first.path / "one.txt").exists()
    again = made(repo, beside, "feature/x", "two", "one", "three")
    assert (again.merged, again.head_commit, again.base_commit) == ((), first.head_commit, first.base_commit)


def test_a_conflict_between_dependencies_is_a_value(repo: Path, beside: Path) -> None:
    on_branch(repo, "one", {"README.md": "one\n"})
    on_branch(repo, "two", {"README.md": "two\n"})
    first = made(repo, beside, "feature/x", "one", "two")
    assert first.merged == ("one",)
    assert first.conflict is not None
    assert (first.conflict.branch, first.conflict.files) == ("two", ("README.md",))
    (first.path / "README.md").write_text("half resolved\n")
    again = made(repo, beside, "feature/x", "one", "two")
    assert again.conflict == first.conflict
    assert (first.path / "README.md").read_text() == "half resolved\n"


def test_a_rebase_left_by_an_agent_is_named(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    commit(first.path, {"README.md": "mine\n"})
    commit(repo, {"README.md": "main's\n"})
    with pytest.raises(AssertionError, match="CONFLICT"):
        git(first.path, "rebase", "main")
    again = made(repo, beside)
    assert (again.created, again.unfinished) == (False, "rebase")
    assert worktree_status.commit_leftovers(first.path, "x") == worktree_status.Leftovers(unfinished="rebase")


@pytest.mark.parametrize(
    ("branch", "there"), [("main/x", "main"), ("feature", "feature/y"), ("feature/y/z", "feature/y")]
)
def test_clashing_branch_names_say_what_to_do(repo: Path, beside: Path, branch: str, there: str) -> None:
    git(repo, "branch", "feature/y")
    with pytest.raises(RalphError, match=f"both the branches {branch} and {there}:") as caught:
        made(repo, beside, branch)
    assert "**Branch**" in caught.value.suggested_action


def test_similar_names_do_not_clash(repo: Path, beside: Path) -> None:
    git(repo, "branch", "feature/y")
    for branch in ("feature/yy", "feature/x/1", "feature/x/2", "mainly/x"):
        assert made(repo, beside, branch).created


def test_files_that_are_no_worktree_stay(repo: Path, beside: Path) -> None:
    place = beside / "feature" / "x"
    place.mkdir(parents=True)
    assert made(repo, beside).created  # an empty folder is in nobody's way
    other = beside / "other"
    other.mkdir()
    (other / "diary.txt").write_text("mine\n")
    with pytest.raises(RalphError, match="is not a worktree of this repository"):
        made(repo, beside, "other")
    assert (other / "diary.txt").read_text() == "mine\n"


def test_a_worktree_of_another_repository_is_refused(repo: Path, beside: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(repo), "second")
    git(tmp_path / "second", "worktree", "add", "--quiet", "-b", "x", str(beside / "x"))
    with pytest.raises(RalphError, match="is not a worktree of this repository"):
        made(repo, beside, "x")


def test_the_main_checkout_is_no_place_for_agents(repo: Path) -> None:
    with pytest.raises(RalphError, match="main checkout"):
        prepare(repo, repo, "feature/x", "main", ())


def test_a_worktree_inside_another_is_refused(repo: Path, beside: Path) -> None:
    made(repo, beside)
    with pytest.raises(RalphError, match="one inside the other"):
        prepare(repo, beside / "feature/x/sub", "y", "main", ())


def test_a_branch_checked_out_elsewhere_is_named(repo: Path, beside: Path) -> None:
    with pytest.raises(RalphError, match=f"main is checked out at {repo}"):
        prepare(repo, beside / "main", "main", "main", ())


def test_a_worktree_on_another_branch_is_refused(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    git(first.path, "switch", "--quiet", "--create", "elsewhere")
    with pytest.raises(RalphError, match="should be on branch feature/x, but is on branch elsewhere"):
        made(repo, beside)
    git(first.path, "switch", "--quiet", "--detach")
    with pytest.raises(RalphError, match="but is detached at"):
        made(repo, beside)


def test_a_directory_deleted_by_hand_is_made_again(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    done = commit(first.path, {"work.txt": "work\n"})
    subprocess.run(["rm", "-rf", str(first.path)], check=True, timeout=60)
    assert [(entry.branch, entry.why) for entry in worktree_removal.stale(repo)] == [
        ("feature/x", "directory gone")
    ]
    again = made(repo, beside)
    assert (again.created, again.head_commit) == (True, done)
    assert worktree_removal.stale(repo) == []


def test_worktrees_moved_by_hand_do_not_hold_their_branches(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    done = commit(first.path, {"work.txt": "work\n"})
    beside.rename(beside.with_name("moved"))
    again = prepare(repo, beside / "elsewhere", "feature/x", "main", ())
    assert (again.created, again.head_commit) == (True, done)


def test_a_locked_worktree_that_is_gone_is_not_replaced(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    git(repo, "worktree", "lock", "--reason", "on a stick", str(first.path))
    subprocess.run(["rm", "-rf", str(first.path)], check=True, timeout=60)
    with pytest.raises(RalphError, match=r"locked \(on a stick\)"):
        made(repo, beside)
    assert worktree_removal.prune(repo) == []


def test_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "empty")
    with pytest.raises(RalphError, match="has no commit yet"):
        prepare(tmp_path / "empty", tmp_path / "w", "x", "main", ())
    with pytest.raises(RalphError, match="has no commit yet"):
        worktree_status.head(tmp_path / "empty")


def test_a_missing_source_is_refused(repo: Path, beside: Path) -> None:
    with pytest.raises(RalphError, match="source branch develop exists neither here nor on origin"):
        prepare(repo, beside / "x", "x", "develop", ())
    assert worktrees.find(repo, beside / "x") is None


def test_a_detached_main_checkout_and_a_bare_repository_serve_as_well(
    repo: Path, beside: Path, tmp_path: Path
) -> None:
    git(repo, "switch", "--quiet", "--detach")
    assert made(repo, beside).created
    assert prepare(with_remote(repo), tmp_path / "of bare", "y", "main", ()).created


# --- locks --------------------------------------------------------------------------------------------


def test_a_living_process_keeps_its_lock_and_it_is_reported(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    (first.path / "x").write_text("x\n")
    lock = worktree_status.git_dir(first.path) / "index.lock"
    with lock.open("w"):
        os.utime(lock, (1, 1))
        with pytest.raises(RalphError, match="add x failed") as caught:
            locking.output("add", "x", cwd=first.path, retry=Retry(tries=2, first=0.01))
        assert lock.exists()
    assert f"remove {lock}" in caught.value.suggested_action


def test_a_lock_whose_maker_is_dead_is_cleared(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    (first.path / "x").write_text("x\n")
    lock = worktree_status.git_dir(first.path) / "index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    assert worktree_status.commit_leftovers(first.path, "work").commit == worktree_status.head(first.path)


def test_the_lock_of_the_main_checkout_is_never_touched(repo: Path) -> None:
    lock = repo / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    (repo / "x").write_text("x\n")
    assert not locking.run("add", "x", cwd=repo, retry=Retry(tries=2, first=0.01)).ok
    assert lock.exists()


def test_what_is_no_lock_is_not_tried_again(repo: Path) -> None:
    ended = locking.run("branch", "main/x", cwd=repo, retry=Retry(tries=9, first=60))
    assert "cannot lock ref" in ended.stderr


# --- many at once -------------------------------------------------------------------------------------


def test_threads_prepare_side_by_side(repo: Path, beside: Path) -> None:
    on_branch(repo, "one", {"one.txt": "one\n"})
    branches = [f"group{number % 2}/same" for number in range(4)] + [f"own/{number}" for number in range(8)]
    with ThreadPoolExecutor(len(branches)) as pool:
        found = list(pool.map(lambda branch: made(repo, beside, branch, "one"), branches))
    assert sum(one.created for one in found) == 10
    assert all(worktree_status.is_clean(one.path) and (one.path / "one.txt").exists() for one in found)


def test_processes_prepare_side_by_side(repo: Path, beside: Path) -> None:
    on_branch(repo, "one", {"one.txt": "one\n"})
    branches = [f"team/{number}" for number in range(7)] + ["team/0"]
    running = [start("prepare", str(repo), str(beside / name), name, "one") for name in branches]
    answers = [process.communicate(timeout=120) for process in running]
    assert all(process.returncode == 0 for process in running), answers
    assert sum(json.loads(out)[1] for out, _err in answers) == 7
    assert all((beside / name / "one.txt").exists() for name in branches)


# --- killed half way ----------------------------------------------------------------------------------

HOOK = """\
#!/bin/sh
# Kill git, its parents and the program that started them at the n-th call of any hook or filter.
if [ -n "$KILL_AT" ]; then
    echo >> "$KILL_COUNT"
    if [ "$(wc -l < "$KILL_COUNT")" -eq "$KILL_AT" ]; then
        pid=$PPID; pids=""
        while [ "$pid" -gt 1 ] && [ "$pid" -ne "$KILL_UP_TO" ]; do
            pids="$pid $pids"
            pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
        done
        kill -9 "$KILL_UP_TO" $pids
        exit 1
    fi
fi
"""
HOOKS = ("reference-transaction", "post-index-change", "post-checkout", "post-merge", "prepare-commit-msg")


def start(*words: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.git.child", *words],
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def deadly(repo: Path, tmp_path: Path) -> Path:
    """The repository with hooks and a filter that kill on demand."""
    folder = tmp_path / "deadly"
    folder.mkdir()
    for name in HOOKS:
        (folder / name).write_text(HOOK)
        (folder / name).chmod(0o755)
    (folder / "smudge").write_text(f"{HOOK}cat\n")
    (folder / "smudge").chmod(0o755)
    commit(
        repo, {".gitattributes": "*.slow filter=slow\n", "a.slow": "a\n", "b.slow": "b\n", "c.txt": lines()}
    )
    git(repo, "config", "filter.slow.smudge", str(folder / "smudge"))
    git(repo, "config", "core.hooksPath", str(folder))
    return repo


def killed(tmp_path: Path, at: int, *words: str) -> bool:
    """Run the child and have it killed at the given point; False where it ended before."""
    count = tmp_path / f"count-{words[0]}-{at}"
    process = start(*words, KILL_AT=str(at), KILL_COUNT=str(count))
    _out, err = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), err
    return process.returncode != 0


@pytest.mark.full
def test_prepare_survives_being_killed_at_every_hook(deadly: Path, beside: Path, tmp_path: Path) -> None:
    on_branch(deadly, "one", {"one.slow": "one\n", "c.txt": lines("5:one")})
    on_branch(deadly, "two", {"two.slow": "two\n", "u.slow": "u\n", "c.txt": lines("25:two")})
    at = 0
    while True:
        at += 1
        branch = f"work/{at}"
        alive = not killed(tmp_path, at, "prepare", str(deadly), str(beside / branch), branch, "one", "two")
        again = made(deadly, beside, branch, "one", "two")
        assert worktree_status.is_clean(again.path), at
        assert (again.path / "c.txt").read_text() == lines("5:one", "25:two")
        assert git(again.path, "rev-list", "--merges", "--count", "main..HEAD") == "2"
        assert worktrees.find(deadly, again.path) == worktrees.Worktree(again.path, again.head_commit, branch)
        if alive:
            break
    assert at > 10
    assert worktree_removal.stale(deadly) == []


def test_commits_and_merges_survive_being_killed(deadly: Path, beside: Path, tmp_path: Path) -> None:
    on_branch(deadly, "one", {"one.slow": "one\n", "c.txt": lines("5:one")})
    at, alive = 0, False
    while not alive:
        at += 1 if selection.ALL else 2
        tree = made(deadly, beside, f"work/{at}").path
        (tree / "c.txt").write_text(lines("25:mine"))
        (tree / "new.txt").write_text("new\n")
        alive = not killed(tmp_path, at, "leftovers", str(tree))
        alive = not killed(tmp_path, at, "merge", str(tree), "one") and alive
        again = made(deadly, beside, f"work/{at}", "one")
        assert again.conflict is None
        assert worktree_status.commit_leftovers(tree, "rest") == worktree_status.Leftovers()
        assert (tree / "c.txt").read_text() == lines("5:one", "25:mine")
        assert (tree / "new.txt").read_text() == "new\n"
        assert git(tree, "rev-list", "--count", "--no-merges", "main..HEAD", "^one") == "1"
    assert at > 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("after", [0.05, 0.1, 0.15, 0.2, 0.3])
def test_prepare_survives_the_death_of_its_program_alone(repo: Path, beside: Path, after: float) -> None:
    """git itself goes on for a moment, as an orphan."""
    on_branch(repo, "one", {f"{number}.txt": lines() for number in range(300)})
    process = start("prepare", str(repo), str(beside / "x"), "x", "one")
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    again = made(repo, beside, "x", "one")
    assert worktree_status.is_clean(again.path)
    assert len(list(again.path.glob("*.txt"))) == 300


# --- what stands in a worktree ------------------------------------------------------------------------


def test_changed_files_name_both_sides_of_a_rename(repo: Path, beside: Path) -> None:
    commit(repo, {"old ü.txt": lines(), "gone.txt": "x\n", "run.sh": "echo\n"})
    first = made(repo, beside)
    git(first.path, "mv", "old ü.txt", "new\tname.txt")
    (first.path / "run.sh").chmod(0o755)
    commit(first.path, {"gone.txt": None, "added.bin": b"\0\1"})
    found = worktree_status.changed_files(first.path, first.base_commit)
    assert found == ["added.bin", "gone.txt", "new\tname.txt", "old ü.txt", "run.sh"]


def test_leftovers_are_committed_but_ignored_files_are_not(repo: Path, beside: Path) -> None:
    commit(repo, {".gitignore": "*.log\n", "old.txt": "old\n"})
    first = made(repo, beside)
    (first.path / "old.txt").unlink()
    (first.path / "ü new.txt").write_text("new\n")
    (first.path / "run.log").write_text("noise\n")
    assert not worktree_status.is_clean(first.path)
    left = worktree_status.commit_leftovers(first.path, "Keep work")
    assert left.commit == worktree_status.head(first.path)
    assert worktree_status.changed_files(first.path, first.head_commit) == ["old.txt", "ü new.txt"]
    assert worktree_status.is_clean(first.path)
    assert worktree_status.commit_leftovers(first.path, "Keep work") == worktree_status.Leftovers()


def test_a_failing_hook_does_not_keep_leftovers_out(repo: Path, beside: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    first = made(repo, beside)
    (first.path / "x").write_text("x\n")
    assert worktree_status.commit_leftovers(first.path, "work").commit


def test_nested_repositories_are_named_and_left_out(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    git(first.path, "init", "--quiet", "nested one")
    (first.path / "nested one" / "x").write_text("x\n")
    assert worktree_status.commit_leftovers(first.path, "w") == worktree_status.Leftovers(
        nested=("nested one/",)
    )
    (first.path / "y").write_text("y\n")
    left = worktree_status.commit_leftovers(first.path, "w")
    assert (left.commit, left.nested) == (worktree_status.head(first.path), ("nested one/",))
    assert worktree_status.changed_files(first.path, "main") == ["y"]


def test_a_detached_head_is_named(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    git(first.path, "switch", "--quiet", "--detach")
    (first.path / "x").write_text("x\n")
    assert worktree_status.commit_leftovers(first.path, "w") == worktree_status.Leftovers(
        unfinished="detached HEAD"
    )
    assert (first.path / "x").exists()


# --- removing -----------------------------------------------------------------------------------------


def test_merged_work_may_go_and_its_branch_with_it(repo: Path, beside: Path) -> None:
    first = made(repo, beside)
    commit(first.path, {"work.txt": "work\n"})
    git(repo, "merge", "--quiet", "feature/x")
    gone = remove(repo, first.path, "main", delete_branch=True)
    assert (gone.removed, gone.branch_deleted) == (True, True)
    assert not first.path.exists()
    assert git(repo, "branch", "--list", "feature/x") == ""


def test_unmerged_work_stays_until_the_remote_has_it(repo: Path, beside: Path) -> None:
    bare = with_remote(repo)
    first = made(repo, beside)
    commit(first.path, {"work.txt": "work\n"})
    assert "neither in main nor on origin" in remove(repo, first.path, "main").why_not
    git(first.path, "push", "--quiet", "origin", "feature/x")
    commit(first.path, {"more.txt": "more\n"})
    assert not remove(repo, first.path, "main").removed
    git(first.path, "push", "--quiet", "origin", "feature/x")
    git(bare, "branch", "--quiet", "-D", "feature/x")  # what we remember of a remote proves nothing
    assert not remove(repo, first.path, "main").removed
    git(first.path, "push", "--quiet", "origin", "feature/x")
    gone = remove(repo, first.path, "main", delete_branch=True)
    assert (gone.removed, gone.branch_deleted) == (True, False)
    assert git(repo, "branch", "--list", "feature/x") != ""


@pytest.mark.parametrize(
    ("mess", "why"),
    [
        ("untracked", "uncommitted work: x"),
        ("changed", "uncommitted work: README.md"),
        ("locked", "locked (mine)"),
        ("merging", "a merge is in progress"),
    ],
)
def test_work_in_a_worktree_keeps_it(repo: Path, beside: Path, mess: str, why: str) -> None:
    first = made(repo, beside)
    if mess == "untracked":
        (first.path / "x").write_text("x\n")
    elif mess == "changed":
        (first.path / "README.md").write_text("x\n")
    elif mess == "locked":
        git(repo, "worktree", "lock", "--reason", "mine", str(first.path))
    else:
        on_branch(repo, "one", {"one.txt": "1\n"})
        git(first.path, "merge", "--quiet", "--no-ff", "--no-commit", "one")
    assert why in remove(repo, first.path, "main").why_not
    assert first.path.exists()


def test_the_main_checkout_protected_branches_and_strangers_stay(repo: Path, beside: Path) -> None:
    assert remove(repo, repo, "main").why_not == "it is the main checkout"
    assert remove(repo, beside, "main").why_not == "git knows no worktree here"
    git(repo, "branch", "develop")
    first = prepare(repo, beside / "develop", "develop", "main", ())
    gone = remove(repo, first.path, "main", delete_branch=True)
    assert (gone.removed, gone.branch_deleted) == (True, False)


def test_pruning_forgets_only_what_is_gone(repo: Path, beside: Path) -> None:
    first, second = made(repo, beside, "x"), made(repo, beside, "y")
    subprocess.run(["rm", "-rf", str(first.path)], check=True, timeout=60)
    assert [entry.path for entry in worktree_removal.prune(repo)] == [first.path]
    assert second.path.exists()
    assert git(repo, "branch", "--list", "x").strip() == "x"
    assert worktree_removal.prune(repo) == []


def test_where_git_keeps_what_belongs_to_a_worktree(repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(repo, "worktree", "add", "--quiet", "--detach", str(tree))
    assert folders_of(tree) == (repo / ".git", repo / ".git" / "worktrees" / "tree")
    assert folders_of(repo) == ()
    assert folders_of(tmp_path) == ()
    (tree / ".git").write_text("gitdir: nowhere\n", encoding="utf-8")
    assert folders_of(tree) == ()
