"""git in there: an honest agent can do everything, and nothing of the user's can be destroyed or moved."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.files import scratch, text_files
from beads_ralph.git import commands, quarantine, settings, untrusted, worktree_removal, worktree_status
from beads_ralph.process.jobs import Executor, Exit
from tests.git.repos import commit, git, on_branch
from tests.sandbox.conftest import Place


def refs(repo: Path) -> dict[str, str]:
    rows = git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split() for row in rows)


def done(place: Place, script: str) -> str:
    """What the script printed; whatever fails in it fails the test."""
    ended, told = place.seen(f"set -e\n{script}")
    assert (ended.code, told) == (0, []), (ended.stderr, told)
    whole(place)
    return ended.stdout


def whole(place: Place) -> None:
    """The user's repository is sound, and the quarantine empty."""
    assert git(place.root, "fsck", "--no-dangling", "--connectivity-only") == ""
    assert not list((place.root / ".git" / "beads-ralph" / "quarantine").glob("*/repository"))


# --- everything that an honest agent does -------------------------------------------------------------


COMMIT = "git commit -q --allow-empty -m"
HONEST = {
    "commit": ("echo 1 > a; git add a; git commit -qm one", "one"),
    "amend": (f"{COMMIT} one; git commit -q --amend --allow-empty -m better", "better"),
    "reset": (f"{COMMIT} one; {COMMIT} two; git reset -q --soft HEAD~2; {COMMIT} both", "both"),
    "revert": ("echo 1 > a; git add a; git commit -qm one; git revert --no-edit HEAD", 'Revert "one" one'),
    "cherry-pick": ("git cherry-pick other", "on other"),
    "merge": ("git merge -q --no-ff -m joined other", "joined on other"),
    "rebase": (f"{COMMIT} mine; git rebase -q other", "mine on other"),
    "stash": ("echo 1 > README.md; git stash -q; git stash pop -q; git commit -qam one", "one"),
    "gc": ("git rm -q README.md; git commit -qm gone; git gc -q; git repack -adq; git fsck", "gone"),
    "pack-refs": (f"{COMMIT} one; git pack-refs --all; {COMMIT} two", "two one"),
    "fetch": ("git fetch -q; git merge -q origin/main", "upstream"),
    "worktree": (
        f"""git worktree add -q --detach /tmp/beside; cd /tmp/beside; {COMMIT} beside
        made=$(git rev-parse HEAD); cd -; git merge -q $made; git worktree remove --force /tmp/beside""",
        "beside",
    ),
    "bisect": (f"git bisect start HEAD; git bisect reset; {COMMIT} one", "one"),
    "config": (f"git config user.name X; {COMMIT} one; git config --unset user.name", "one"),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("script", "subjects"), HONEST.values(), ids=HONEST.keys())
def test_what_an_honest_agent_does_with_git_works(place: Place, script: str, subjects: str) -> None:
    origin = place.root.parent / "origin.git"
    git(place.root, "clone", "-q", "--bare", str(place.root), str(origin))
    git(place.root, "remote", "add", "origin", str(origin))
    upstream(place, origin)
    on_branch(place.root, "other", {"other.txt": "x\n"})
    git(place.root, "commit", "-q", "--allow-empty", "-m", "unrelated")
    settings.take(place.root)
    start, before = git(place.root, "rev-parse", "work"), refs(place.root)
    done(place, script)
    said = git(place.root, "log", "--format=%s", f"{start}..work").replace("work on other", "on other")
    assert " ".join(said.splitlines()) == subjects
    assert (worktree_status.head(place.tree), worktree_status.is_clean(place.tree)) == (
        refs(place.root)["refs/heads/work"],
        True,
    )
    after = refs(place.root)
    assert {**after, "refs/heads/work": ""} == {**before, "refs/heads/work": ""}


def upstream(place: Place, origin: Path) -> None:
    clone = place.root.parent / "clone"
    git(place.root, "clone", "-q", str(origin), str(clone))
    commit(clone, {"upstream.txt": "x\n"}, "upstream")
    git(clone, "push", "-q")


def test_it_sees_branches_tags_and_history_as_they_are(place: Place) -> None:
    on_branch(place.root, "feature/other", {"other.txt": "x\n"})
    git(place.root, "tag", "-a", "v1", "-m", "one")
    git(place.root, "update-ref", "refs/remotes/origin/main", "main")
    git(place.root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    asked = (
        "git for-each-ref; git log --oneline --all; git describe --tags; git show feature/other:other.txt;"
        "git symbolic-ref refs/remotes/origin/HEAD; git rev-parse --git-dir --git-common-dir --show-toplevel"
    )
    outside = subprocess.run(["sh", "-c", asked], cwd=place.tree, capture_output=True, text=True, check=True)
    assert done(place, asked) == outside.stdout


def test_what_is_staged_and_half_done_is_there_afterwards_and_in_the_next_call(place: Place) -> None:
    """For git outside, which commits what an agent left, and for the agent that goes on."""
    on_branch(place.root, "other", {"README.md": "theirs\n"})
    done(
        place,
        "echo mine > README.md; git commit -qam mine; echo staged > new; git add new; git rm -q --cached new",
    )
    done(place, "echo staged > new; git add new; git commit -qm base; ! git rebase -q other")
    assert worktree_status.unfinished(place.tree) == "rebase"
    assert git(place.tree, "rev-parse", "REBASE_HEAD") == git(place.root, "rev-parse", "work~1")
    done(
        place, "echo both > README.md; git add README.md; GIT_EDITOR=true git rebase --continue 2> /dev/null"
    )
    assert git(place.root, "log", "--format=%s", "main..work").splitlines() == [
        "base",
        "mine",
        "work on other",
    ]
    done(place, "echo staged > staged; git add staged; echo other > staged")
    assert git(place.tree, "diff", "--cached", "--name-only") == "staged"
    assert worktree_status.commit_leftovers(place.tree, "left").commit
    assert git(place.tree, "show", "HEAD:staged") == "other"


def test_a_stash_is_its_own_and_waits_for_its_next_call(place: Place) -> None:
    (place.root / "README.md").write_text("the user's\n", "utf-8")
    git(place.root, "stash", "-q")
    assert (
        done(
            place, "git stash list; echo mine > README.md; git stash -q; echo twice > README.md; git stash -q"
        )
        == ""
    )
    assert (
        done(place, "git stash list | wc -l; git stash pop -q; cat README.md; git stash list | wc -l")
        == "2\ntwice\n1\n"
    )
    assert git(place.root, "stash", "list").count("\n") == 0
    git(place.root, "stash", "pop", "-q")
    assert (place.root / "README.md").read_text("utf-8") == "the user's\n"


def test_branches_of_its_own_wait_for_its_next_call_and_are_told_once(place: Place) -> None:
    ended, told = place.seen("git branch mine && git tag v9 && git commit -q --allow-empty -m one")
    assert (ended.code, told) == (
        0,
        ["in its sandbox an agent made refs/heads/mine, made refs/tags/v9; not taken over"],
    )
    done(place, "git rev-parse mine v9 && git switch -q mine && git switch -q work")
    assert set(refs(place.root)) == {"refs/heads/main", "refs/heads/work"}
    git(place.root, "branch", "mine/too")  # a branch of the user's goes before
    done(place, "git rev-parse mine/too; ! git rev-parse -q --verify refs/heads/mine")


def test_many_objects_come_over_as_one_pack(place: Place) -> None:
    before = len(list((place.root / ".git" / "objects" / "pack").glob("*.pack")))
    done(place, "for i in $(seq 300); do echo $i > $i; done; git add .; git commit -qm many")
    assert len(git(place.root, "ls-tree", "--name-only", "work").splitlines()) == 301
    assert len(list((place.root / ".git" / "objects" / "pack").glob("*.pack"))) == before + 1


def test_hooks_of_the_project_run_in_there(place: Place) -> None:
    hook = place.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    hook.chmod(0o755)
    ended = place.run("git commit -q --allow-empty -m one")
    assert ended.code != 0
    assert git(place.root, "log", "--format=%s", "-1", "work") == "first"


def test_submodules_work(place: Place) -> None:
    library = place.root.parent / "library"
    git(place.root.parent, "init", "-q", str(library))
    commit(library, {"lib.txt": "x\n"})
    allowed = "git -c protocol.file.allow=always submodule"
    add = f"{allowed} --quiet add {library} lib && git commit -qm sub"
    ended, told = place.seen(add, reads=(library,))
    assert ended.code == 0, ended.stderr
    assert told == ["in its sandbox an agent set submodule.lib.active, set submodule.lib.url; not taken over"]
    assert git(place.tree, "-C", "lib", "log", "--format=%s") == "change"
    assert (
        done(place, "cd lib && git commit -q --allow-empty -m inside && git log --format=%s | head -n 1")
        == "inside\n"
    )
    assert git(place.tree, "-C", "lib", "log", "-1", "--format=%s") == "inside"


@pytest.mark.parametrize("executor", ["local", pytest.param("tmux", marks=pytest.mark.tmux)], indirect=True)
def test_it_is_the_same_with_every_executor(place: Place, executor: Executor) -> None:
    ended, told = place.seen(
        "git commit -q --allow-empty -m one; git update-ref refs/heads/main HEAD", "dev", executor
    )
    assert (ended.code, told) == (0, ["in its sandbox an agent moved refs/heads/main; not taken over"])
    assert git(place.root, "log", "--format=%s", "main..work") == "one"


# --- repositories of other kinds ----------------------------------------------------------------------


def made(tmp_path: Path, place: Place, root: Path, branch: str = "work") -> Place:
    tree = tmp_path / "another tree"
    git(root, "worktree", "add", "-q", "-b", branch, str(tree))
    return replace(place, root=root, tree=tree, branch=branch)


def shallow(folder: Path, repo: Path) -> Path:
    commit(repo, {"more.txt": "x\n"})
    git(folder, "clone", "-q", "--depth=1", f"file://{repo}", "other")
    return folder / "other"


def borrowing(folder: Path, repo: Path) -> Path:
    git(folder, "clone", "-q", "--shared", str(repo), "other")
    alternates = folder / "other" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{os.path.relpath(repo, alternates.parents[1])}/.git/objects\n", "utf-8")
    return folder / "other"


def linked(folder: Path, repo: Path) -> Path:
    git(repo, "worktree", "add", "-q", "-b", "home", str(folder / "other"))
    return folder / "other"


def beside_a_bare_one(folder: Path, repo: Path) -> Path:
    git(folder, "clone", "-q", "--bare", str(repo), "bare.git")
    git(folder / "bare.git", "worktree", "add", "-q", "-b", "home", str(folder / "other"))
    return folder / "other"


def behind_a_link(folder: Path, repo: Path) -> Path:
    (folder / "other").symlink_to(repo)
    return folder / "other"


def hashed_otherwise(folder: Path, repo: Path) -> Path:
    git(folder, "init", "-q", "--object-format=sha256", "-b", "main", "other")
    commit(folder / "other", {"README.md": "x\n"}, "first")
    return folder / "other"


def packed(folder: Path, repo: Path) -> Path:
    for number in range(5):
        on_branch(repo, f"feature/{number}", {f"{number}": "x\n"})
    git(repo, "gc", "-q")
    return repo


@pytest.mark.parametrize(
    "kind",
    [shallow, borrowing, linked, beside_a_bare_one, behind_a_link, hashed_otherwise, packed],
    ids=lambda kind: kind.__name__,
)
def test_it_works_in_repositories_of_every_kind(
    repo: Path, place: Place, tmp_path: Path, kind: object
) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    other = made(tmp_path, place, kind(folder, repo), "its-work")  # type: ignore[operator]
    before = refs(other.root)
    said = done(
        other,
        "git log --format=%s; echo 1 > a; git add a; git commit -qm one; git log --format=%s -1; git fsck",
    )
    assert "one\n" in said
    assert git(other.root, "log", "--format=%s", "-1", "its-work") == "one"
    assert git(other.tree, "status", "--porcelain") == ""
    assert {**refs(other.root), "refs/heads/its-work": ""} == {**before, "refs/heads/its-work": ""}


def test_a_repository_whose_refs_are_no_files_has_none(place: Place) -> None:
    (place.root / ".git" / "reftable").mkdir()
    with quarantine.around(place.root, place.tree, "work") as own:
        assert own is None


# --- what an agent destroys ---------------------------------------------------------------------------

DESTROY = {
    "objects": "rm -rf $G/objects/??",
    "everything": "find $G -mindepth 1 -delete; rm -rf $G/*",
    "refs": "rm -rf $G/refs $G/packed-refs; git init -q",
    "borrowed": "rm -rf $G/borrowed/*; chmod -R 777 $G/borrowed",
    "main": "git update-ref refs/heads/main $STRANGE",
    "tags": "git tag -d v1; git tag -f v2 $STRANGE",
    "other": "git branch -D other; git symbolic-ref refs/heads/another refs/heads/main",
    "settings": "git config core.hooksPath /x; git config alias.x y; git config --unset remote.origin.url",
    "replaced": "git replace $(git rev-parse HEAD) $STRANGE",
    "pipes": """
        rm -rf $G/packed-refs $G/refs/heads $G/config; mkdir -p $G/refs/heads
        mkfifo $G/packed-refs $G/config $G/refs/heads/work $G/objects/pack/pack-12.pack""",
    "links": """
        rm -rf $G/objects $G/refs $G/worktrees
        ln -s / $G/objects; ln -s / $G/refs; ln -s / $G/worktrees""",
    "worktree": "rm -f $G/worktrees/tree/index $G/worktrees/tree/HEAD; mkdir $G/worktrees/tree/index",
    "commondir": "echo / > $G/worktrees/tree/commondir; echo / > $G/worktrees/tree/gitdir",
    "deep": "cd $G/refs/heads; i=0; while [ $i -lt 1500 ]; do mkdir a && cd a; i=$((i + 1)); done",
}


def destroying(place: Place, script: str) -> str:
    known = f"G={place.root / '.git'}; STRANGE=$(git commit-tree -m x HEAD^{{tree}})"
    return f"{known}; echo 1 > a; git add a; git commit -qm one; {script}"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("how", list(DESTROY))
def test_what_it_destroys_is_intact_outside(place: Place, how: str) -> None:
    """And the harness goes on with the worktree, whatever was done to git in there."""
    on_branch(place.root, "other", {"other.txt": "x\n"})
    git(place.root, "tag", "v1")
    git(place.root, "tag", "v2")
    git(place.root, "remote", "add", "origin", "https://example.com/x.git")
    settings.take(place.root)
    before, config = refs(place.root), (place.root / ".git" / "config").read_bytes()
    place.run(destroying(place, DESTROY[how]))
    assert {**refs(place.root), "refs/heads/work": ""} == {**before, "refs/heads/work": ""}
    assert (place.root / ".git" / "config").read_bytes() == config
    assert git(place.root, "log", "--format=%s", "other").splitlines() == ["work on other", "first"]
    whole(place)
    assert (place.tree / "a").read_text("utf-8") == "1\n"
    assert worktree_status.current_branch(place.tree) == "work"
    worktree_status.commit_leftovers(place.tree, "left")
    assert git(place.root, "show", "work:a") == "1"
    assert done(place, "git log --format=%s -1 && git commit -q --allow-empty -m after") in (
        "one\n",
        "left\n",
    )
    left = (place.root / ".git" / "beads-ralph" / "quarantine" / "tree").glob("left-*")
    subprocess.run(["rm", "-rf", *left], check=True)  # too deep for Python


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("main", "moved refs/heads/main"),
        ("tags", "deleted refs/tags/v1, moved refs/tags/v2"),
        ("settings", "set alias.x, set core.hookspath, set remote.origin.url"),
    ],
)
def test_what_is_not_taken_over_is_told(place: Place, how: str, told: str) -> None:
    git(place.root, "tag", "v1")
    git(place.root, "tag", "v2")
    git(place.root, "remote", "add", "origin", "https://example.com/x.git")
    said = place.seen(destroying(place, DESTROY[how]))[1]
    assert said == [f"in its sandbox an agent {told}; not taken over"]


FILE = """file() { echo $G/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }
    F=$(file $(git rev-parse HEAD:a))"""
SPOIL = {
    "corrupt": "rm -f $F; echo x > $F",
    "missing": "rm -f $F",
    "another": "cp -f $(file $(echo 2 | git hash-object -w --stdin)) $F",
    "malformed": """
        tree=$(printf '100644 a\\0%20s100644 a\\0%20s' | git hash-object -t tree -w --literally --stdin)
        git update-ref refs/heads/work $(git commit-tree -p HEAD -m twice $tree)""",
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL.keys())
def test_commits_that_are_not_whole_are_not_taken_over(place: Place, spoil: str) -> None:
    start = git(place.root, "rev-parse", "work")
    ended, told = place.seen(destroying(place, f"{FILE}; {spoil}"))
    assert ended.code == 0, ended.stderr
    assert "not all that an agent made in git can be taken over" in told[0]
    assert git(place.root, "rev-parse", "work") == start
    whole(place)
    assert worktree_status.uncommitted(place.tree) == ["a"]


def test_credentials_in_the_settings_are_not_there(place: Place) -> None:
    git(place.root, "config", "http.https://example.com/.extraHeader", "hush")
    git(place.root, "remote", "add", "origin", "https://somebody:hush@example.com/x.git")
    git(place.root, "remote", "add", "other", "ssh://git@example.com/x.git")
    ended = place.run("cat $(git rev-parse --git-common-dir)/config; git remote -v")
    assert ("hush" in ended.stdout, "https://example.com/x.git" in ended.stdout) == (False, True)
    assert "ssh://git@example.com/x.git" in ended.stdout


def test_a_remote_on_this_disk_can_be_read_and_not_written(place: Place) -> None:
    origin = place.root.parent / "origin.git"
    git(place.root, "clone", "-q", "--bare", str(place.root), str(origin))
    git(place.root, "remote", "add", "origin", str(origin))
    settings.take(place.root)
    before = refs(origin)
    ended = place.run(
        "git commit -q --allow-empty -m one; git fetch -q && echo fetched; git push -q -f origin HEAD:main"
    )
    assert (ended.stdout, ended.code != 0) == ("fetched\n", True)
    assert refs(origin) == before


# --- another branch, or none --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "standing"),
    [
        ("git switch -q -c mine; git commit -q --allow-empty -m one", "one"),
        ("git switch -q --detach; git commit -q --allow-empty -m one", "one"),
        ("git commit -q --allow-empty -m one; git branch -m mine", "one"),
        ("printf 'ref: refs/heads/other\\n' > $(git rev-parse --git-dir)/HEAD", "work on other"),
    ],
)
def test_a_worktree_that_is_left_elsewhere_is_detached_there(
    place: Place, script: str, standing: str
) -> None:
    """What was done there is not lost, and the next commit moves no branch of the user's."""
    on_branch(place.root, "other", {"other.txt": "x\n"})
    before = refs(place.root)
    place.run(script)
    assert refs(place.root) == before
    assert worktree_status.current_branch(place.tree) is None
    assert git(place.tree, "log", "--format=%s", "-1") == standing


@pytest.mark.parametrize("script", ["git checkout -q --orphan mine", "rm $(git rev-parse --git-dir)/HEAD"])
def test_a_worktree_without_a_commit_is_on_its_branch(place: Place, script: str) -> None:
    place.run(script)
    assert worktree_status.current_branch(place.tree) == "work"
    whole(place)


# --- kills --------------------------------------------------------------------------------------------


def cut_off(place: Place, script: str, monkeypatch: pytest.MonkeyPatch) -> Exit:
    """The harness ends while the agent works, and has no time to settle anything."""
    with monkeypatch.context() as patch:
        patch.setattr(quarantine.Quarantine, "settle", lambda _: None)
        return place.run(script)


def test_after_a_kill_the_commits_are_found_and_brought_in(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = cut_off(
        place, "echo 1 > a; git add a; git commit -qm one; echo 2 > b; git add b; git tag x", monkeypatch
    )
    assert ended.code == 0
    assert git(place.root, "log", "--format=%s", "-1", "work") == "first"
    git(place.root, "gc", "-q")  # meanwhile the repository is sound
    git(place.root, "fsck")
    assert quarantine.settle_left(place.root, place.tree) == [
        "in its sandbox an agent made refs/tags/x; not taken over"
    ]
    assert git(place.root, "log", "--format=%s", "-1", "work") == "one"
    assert git(place.tree, "status", "--porcelain") == "A  b"
    assert quarantine.settle_left(place.root, place.tree) == []
    whole(place)


def test_the_next_call_brings_them_in_as_well(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(place, "git commit -q --allow-empty -m one", monkeypatch)
    assert done(place, "git log -1 --format=%s; git commit -q --allow-empty -m two") == "one\n"
    assert git(place.root, "log", "--format=%s", "main..work") == "two\none"


class KilledError(BaseException):
    """The end of the harness."""


def killed_at(monkeypatch: pytest.MonkeyPatch, step: int, place: Place) -> bool:
    """Settle, and end before one of the steps that change something; whether there were so many."""
    count = 0

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def one(*args: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == step:
                raise KilledError
            return real(*args, **named)

        return one

    changing = (
        (commands, "run"),
        (scratch, "remove"),
        (untrusted, "_put"),
        (untrusted, "replace_text"),
        (text_files, "write_text"),
    )
    with monkeypatch.context() as patch, suppress(KilledError):
        for owner, name in changing:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        quarantine.settle_left(place.root, place.tree)
    return count >= step


def test_a_kill_at_any_step_of_it_loses_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """echo {0} > a; git add a; git commit -qm {0}
        echo {0} > b; git add b; echo {0} > README.md; git stash -q"""
    step = 0
    more = True
    while more:
        step += 1
        cut_off(place, script.format(step), monkeypatch)
        more = killed_at(monkeypatch, step, place)
        quarantine.settle_left(place.root, place.tree)
        assert git(place.root, "log", "--format=%s", "-1", "work") == str(step)
        assert git(place.tree, "status", "--porcelain") == ""
        status = done(place, "git stash pop -q --index; git status --porcelain; git reset -q --hard")
        assert status == " M README.md\nA  b\n"
    assert step > 10


def test_what_somebody_did_meanwhile_goes_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_off(place, "echo 1 > a; git add a; git commit -qm one", monkeypatch)
    (place.tree / "a").unlink()
    mine = commit(place.tree, {"mine.txt": "x\n"}, "by hand")
    (told,) = quarantine.settle_left(place.root, place.tree)
    assert "refs/heads/work was moved while an agent worked on it" in told
    assert git(place.root, "rev-parse", "work") == mine
    assert git(place.tree, "status", "--porcelain") == ""
    (kept,) = [ref for ref in refs(place.root) if ref.startswith("refs/beads-ralph/moved/")]
    assert git(place.root, "log", "--format=%s", "-1", kept) == "one"


def test_a_full_disk_is_nobodys_fault_and_is_waited_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(place, "head -c 1000000 /dev/urandom > a; git add a; git commit -qm one", monkeypatch)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(RalphError, match="cannot be taken over now"):
            quarantine.settle_left(place.root, place.tree)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert quarantine.settle_left(place.root, place.tree) == []
    assert git(place.root, "log", "--format=%s", "-1", "work") == "one"
    whole(place)


def test_the_commits_of_a_worktree_that_is_gone_are_on_its_branch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(place, f"{COMMIT} one", monkeypatch)
    git(place.root, "worktree", "remove", "--force", str(place.tree))
    quarantine.settle_left(place.root, place.tree)
    assert git(place.root, "log", "--format=%s", "-1", "work") == "one"
    assert list((place.root / ".git" / "beads-ralph" / "quarantine").iterdir()) == []


def test_the_main_checkout_has_none_also_where_it_is_a_worktree(place: Place) -> None:
    with quarantine.around(place.tree, place.tree, "work") as own:
        assert own is None


def test_a_worktree_is_not_removed_with_commits_that_only_its_quarantine_has(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(place, f"{COMMIT} one", monkeypatch)
    assert "is neither in main" in worktree_removal.remove(place.root, place.tree, "main").why_not
    assert git(place.root, "log", "--format=%s", "-1", "work") == "one"


def test_a_worktree_of_the_same_name_starts_anew(place: Place) -> None:
    place.run("echo 1 > README.md; git stash -q; git branch mine")
    git(place.root, "worktree", "remove", "--force", str(place.tree))
    git(place.root, "worktree", "add", "-q", str(place.tree), "work")
    assert done(place, "git stash list; ! git rev-parse -q --verify mine") == ""


def test_nobody_else_gets_in_while_an_agent_works(place: Place) -> None:
    with quarantine.around(place.root, place.tree, "work"):
        assert quarantine.settle_left(place.root, place.tree) == []
        assert (place.root / ".git" / "beads-ralph" / "quarantine" / "tree" / "repository").is_dir()
