"""The repository of proofs: what comes in is whole, and what comes out is exactly that."""

from __future__ import annotations

import os
import shutil
import stat
import zlib
from pathlib import Path

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.files import scratch
from beads_ralph.git import (
    commands,
    git_files,
    merges,
    proofs,
    settings,
    worktree_removal,
    worktree_status,
    worktrees,
)
from beads_ralph.git.proofs import DamagedCommitError
from tests.git.repos import commit, git, on_branch
from tests.git.test_worktrees import start


def blob(repo: Path, text: str) -> str:
    (repo.parent / "blob").write_text(text)
    return git(repo, "hash-object", "-w", str(repo.parent / "blob"))


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


# --- checkouts ----------------------------------------------------------------------------------------


def test_a_checkout_is_exactly_the_commit_and_leaves_nothing(repo: Path) -> None:
    done = commit(repo, {"work.txt": "work\n"})
    (repo / "untracked.txt").write_text("x\n")
    with proofs.at(repo).checkout(done) as clean:
        place = clean.path
        assert names(place) == [".git", "README.md", "work.txt"]
        assert (clean.head(), clean.changed()) == (done, [])
        (place / "cache").mkdir()
        (place / "cache" / "read only").write_text("x\n")
        (place / "cache").chmod(0o500)
        (place / "work.txt").write_text("other\n")
        assert clean.changed() == ["cache/read only", "work.txt"]
    assert not place.exists()
    assert not place.parent.exists()
    assert len(worktrees.listed(repo)) == 1


def test_a_checkout_lies_where_nobody_can_guess_and_only_its_owner_may_look(repo: Path) -> None:
    with proofs.at(repo).checkout(git(repo, "rev-parse", "main")) as one:
        assert not one.path.is_relative_to(repo)
        assert ".ralph" not in str(one.path)
        assert stat.S_IMODE(one.path.parent.stat().st_mode) == 0o700
        with proofs.at(repo).checkout(one.commit) as other:
            assert one.path.parent != other.path.parent


def test_a_checkout_is_a_repository_to_work_with(repo: Path) -> None:
    git(repo, "tag", "v1")
    git(repo, "remote", "add", "origin", "https://example.com/x.git")
    main = git(repo, "rev-parse", "main")
    done = on_branch(repo, "feature/x", {"work.txt": "work\n"})
    with proofs.at(repo).checkout(done, {"refs/heads/main": main, "refs/heads/feature/x": done}) as clean:
        assert git(clean.path, "rev-parse", "HEAD", "feature/x", "main", "v1").split() == [
            done,
            done,
            main,
            main,
        ]
        assert git(clean.path, "status", "--porcelain") == ""
        assert git(clean.path, "diff", "--name-only", "main") == "work.txt"
        assert git(clean.path, "log", "--format=%s", "main..HEAD") == "work on feature/x"
        assert git(clean.path, "remote", "get-url", "origin") == "https://example.com/x.git"
        made = commit(clean.path, {"mine.txt": "mine\n"})
        assert clean.head() == made
    with pytest.raises(AssertionError):
        git(repo, "cat-file", "-e", made)


def test_a_checkout_has_a_few_files_of_git_however_much_came_before_and_the_whole_history(repo: Path) -> None:
    found = proofs.at(repo)
    first = commit(repo, {"a.txt": "0\n"})
    with found.checkout(first) as early:
        for number in range(3 * proofs.MOST_LENT):
            latest = commit(repo, {"a.txt": f"{number}\n"})
            found.bring([latest])
        with found.checkout(latest) as clean:
            lent = [path for path in (clean.path / ".git" / "objects").rglob("*") if path.is_symlink()]
            assert len(lent) < 4 * proofs.MOST_LENT
            assert git(clean.path, "rev-list", "--count", "HEAD") == git(repo, "rev-list", "--count", "HEAD")
            assert git(clean.path, "fsck", "--connectivity-only") == ""
        assert git(early.path, "fsck", "--connectivity-only") == "", "what was lent stays"


def test_a_checkout_is_removed_after_an_error(repo: Path) -> None:
    main = git(repo, "rev-parse", "main")
    with pytest.raises(KeyError), proofs.at(repo).checkout(main) as clean:
        raise KeyError
    assert not clean.path.exists()
    with pytest.raises(RalphError, match="cannot be proven"), proofs.at(repo).checkout("0" * 39 + "1"):
        pass


def test_a_checkout_does_not_take_a_place_with_files(repo: Path, tmp_path: Path) -> None:
    main = git(repo, "rev-parse", "main")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x\n")
    place = proofs.at(repo).checkout(main, into=tmp_path / "mine")
    with pytest.raises(RalphError, match="is not empty"), place:
        pass
    assert (tmp_path / "mine" / "x").exists()
    with proofs.at(repo).checkout(main, into=tmp_path / "away" / "there") as clean:
        assert clean.path == tmp_path / "away" / "there"
    assert not (tmp_path / "away").exists()


def test_what_killed_runs_left_is_swept_and_of_living_ones_kept(repo: Path) -> None:
    main = git(repo, "rev-parse", "main")
    process = start("check", str(repo), main)
    assert process.stdout is not None
    dead = Path(process.stdout.readline().strip())
    assert (dead / "README.md").exists()
    with proofs.at(repo).checkout(main) as living:
        assert dead.parent not in scratch.sweep()
        process.kill()
        process.communicate(timeout=60)
        assert dead.parent in scratch.sweep()
        assert living.path.exists()
    assert not dead.parent.exists()


# --- objects ------------------------------------------------------------------------------------------


def test_an_object_that_stands_in_for_another_is_not_looked_at(repo: Path) -> None:
    bad = commit(repo, {"work.txt": "bad\n"})
    git(repo, "replace", git(repo, "rev-parse", f"{bad}:work.txt"), blob(repo, "good\n"))
    with proofs.at(repo).checkout(bad) as clean:
        assert (clean.path / "work.txt").read_text() == "bad\n"
        assert git(clean.path, "show", "HEAD:work.txt") == "bad"


def overwrite(repo: Path, name: str, text: str) -> None:
    """The loose object says something else than it is called."""
    loose = repo / ".git" / "objects" / name[:2] / name[2:]
    loose.chmod(0o644)
    loose.write_bytes(zlib.compress(f"blob {len(text)}\0{text}".encode()))


@pytest.mark.parametrize("harm", ["overwritten", "gone", "cut", "not an object"])
def test_a_damaged_object_is_named_and_nothing_is_proven(repo: Path, harm: str) -> None:
    place = proofs.at(repo)
    place.bring([git(repo, "rev-parse", "main")])
    bad = commit(repo, {"work.txt": "bad\n"})
    name = git(repo, "rev-parse", f"{bad}:work.txt")
    loose = repo / ".git" / "objects" / name[:2] / name[2:]
    if harm == "overwritten":
        overwrite(repo, name, "good\n")
    else:
        loose.chmod(0o644)
        loose.unlink() if harm == "gone" else loose.write_bytes(
            loose.read_bytes()[:9] if harm == "cut" else b"\0"
        )
    with pytest.raises(DamagedCommitError, match=f"{bad[:12]} cannot be proven.*{name}"), place.checkout(bad):
        pass
    assert f"{proofs.KEPT}{bad}" not in git_files.refs(place.path)


def test_a_malformed_tree_does_not_come_in_strictly(repo: Path) -> None:
    text = blob(repo, "x\n")
    (repo.parent / "tree").write_bytes(b"100644 .git\0" + bytes.fromhex(text))
    tree = git(repo, "hash-object", "-w", "--literally", "-t", "tree", str(repo.parent / "tree"))
    bad = git(repo, "commit-tree", "-p", "main", "-m", "bad", tree)
    with pytest.raises(DamagedCommitError):
        proofs.at(repo).bring([bad], strict=True)


@pytest.mark.parametrize("harm", ["deleted", "objects gone", "a pack cut"])
def test_it_is_made_anew_where_it_was_destroyed(repo: Path, harm: str) -> None:
    place = proofs.at(repo)
    main = git(repo, "rev-parse", "main")
    with place.checkout(main):
        place.note_proven("bd-1", main)
    if harm == "deleted":
        shutil.rmtree(place.path)
    elif harm == "objects gone":
        shutil.rmtree(place.path / "objects")
    else:
        for path in (place.path / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o644)
                path.write_bytes(path.read_bytes()[:20])
    done = commit(repo, {"work.txt": "work\n"})
    with proofs.at(repo).checkout(main) as clean:
        assert (clean.path / "README.md").exists()
    with proofs.at(repo).checkout(done) as clean:
        assert (clean.path / "work.txt").exists()
    assert harm == "deleted" or place.proven("bd-1") == main


def test_what_was_proven_outlives_the_objects_of_the_repository(repo: Path, tmp_path: Path) -> None:
    done = commit(repo, {"work.txt": "work\n"})
    place = proofs.at(repo)
    place.bring([done], strict=True)
    place.note_proven("bd-1", done)
    shutil.rmtree(repo / ".git" / "objects")
    git(tmp_path, "clone", "--quiet", "--bare", str(place.path), "rescued")
    git(tmp_path / "rescued", "fetch", "--quiet", str(place.path), "refs/proven/bd-1")
    assert git(tmp_path / "rescued", "show", f"{done}:work.txt") == "work"


# --- settings -----------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "an-agents-program-ran"


def poison(repo: Path, trace: Path) -> None:
    """Everything by which git can be made to run a program, or to look away."""
    program = trace.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {trace}\ncat\n")
    program.chmod(0o755)
    hooks = trace.parent / "their-hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-merge", "post-commit", "pre-push", "reference-transaction",
                 "post-index-change", "pre-merge-commit"):  # fmt: skip
        shutil.copy(program, hooks / name)
        shutil.copy(program, repo / ".git" / "hooks" / name)
    for key, value in {
        "core.hooksPath": str(hooks),
        "core.fsmonitor": str(program),
        "core.sparseCheckout": "true",
        "core.alternateRefsCommand": str(program),
        "core.sshCommand": str(program),
        "credential.helper": f"!{program}",
        "diff.external": str(program),
        "filter.x.smudge": str(program),
        "filter.x.clean": str(program),
        "filter.x.required": "true",
        "merge.x.driver": str(program),
        "gpg.program": str(program),
        "commit.gpgSign": "true",
        "url./nowhere/.insteadOf": f"{repo.parent}/",
    }.items():
        git(repo, "config", key, value)
    (repo / ".git" / "info" / "attributes").write_text("* filter=x merge=x diff=x\n")
    (repo / ".git" / "info" / "sparse-checkout").write_text("/nothing\n")


def test_git_of_a_run_obeys_nothing_that_was_set_since_it_began(
    repo: Path, tmp_path: Path, trace: Path
) -> None:
    one = on_branch(repo, "one", {"one.txt": "1\n", "both.txt": "1\n"})
    two = on_branch(repo, "two", {"two.txt": "2\n", "both.txt": "2\n"})
    settings.take(repo)
    poison(repo, trace)
    made = worktrees.prepare(repo, tmp_path / "tree", "feature/x", "main", ["one"])
    assert (made.path / "one.txt").read_text() == "1\n"
    assert merges.merge_all(made.path, ["two"]).conflict is not None
    commands.output("merge", "--abort", cwd=made.path)
    (made.path / "left.txt").write_text("left\n")
    left = worktree_status.commit_leftovers(made.path, "left").commit
    assert left is not None
    with proofs.at(repo).checkout(left) as clean:
        assert names(clean.path) == [".git", "README.md", "both.txt", "left.txt", "one.txt"]
        assert clean.changed() == []
    assert worktree_status.is_clean(made.path)
    assert git(repo, "cat-file", "-p", left).count("gpgsig") == 0
    assert worktree_removal.remove(repo, made.path, "feature/x").removed
    assert not trace.exists()
    assert {one, two} <= set(git(repo, "rev-list", "--all").split())


def test_what_the_user_had_set_before_the_run_goes_on_working(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "filter.shout.smudge", "tr a-z A-Z")
    git(repo, "config", "filter.shout.clean", "tr A-Z a-z")
    git(repo, "config", "user.name", 'A "quoted" \\ name')
    (repo / "more.conf").write_text("[user]\n\temail = from@include\n")
    git(repo, "config", "include.path", str(repo / "more.conf"))
    done = commit(repo, {".gitattributes": "*.txt filter=shout\n", "a.txt": "quiet\n"})
    settings.take(repo)
    made = worktrees.prepare(repo, tmp_path / "tree", "feature/x", "main", ())
    assert (made.path / "a.txt").read_text() == "QUIET\n"
    with proofs.at(repo).checkout(done) as clean:
        assert (clean.path / "a.txt").read_text() == "QUIET\n"
        assert clean.changed() == []
    assert commands.output("config", "user.name", cwd=made.path) == 'A "quoted" \\ name'
    assert commands.output("config", "user.email", cwd=made.path) == "from@include"


def test_a_worktree_whose_link_was_bent_is_still_looked_at_in_our_repository(
    repo: Path, tmp_path: Path, trace: Path
) -> None:
    settings.take(repo)
    made = worktrees.prepare(repo, tmp_path / "tree", "feature/x", "main", ())
    assert commands.output("rev-parse", "HEAD", cwd=made.path) == made.head_commit
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", str(other))
    poison(other, trace)
    (made.path / ".git").unlink()
    (made.path / ".git").write_text(f"gitdir: {other / '.git'}\n")
    assert commands.output("rev-parse", "HEAD", cwd=made.path) == made.head_commit
    assert worktree_status.uncommitted(made.path) == []
    assert not trace.exists()


def test_tidying_joins_what_many_fetches_brought_and_loses_nothing(repo: Path) -> None:
    place = proofs.at(repo)
    done = commit(repo, {"work.txt": "work\n"})
    place.bring([done], strict=True)
    place.note_proven("bd-1", done)
    (place.path / "objects" / "17").mkdir(exist_ok=True)
    for number in range(proofs.MANY_LOOSE + 1):
        (place.path / "objects" / "17" / f"{number:038x}").write_bytes(b"")
    old = place.path / proofs.KEPT / git(repo, "rev-parse", "main~0")
    os.utime(old, (0, 0))
    place.tidy()
    assert not old.exists()
    assert list((place.path / "objects" / "pack").glob("*.pack"))
    assert place.proven("bd-1") == done
    with place.checkout(done) as clean:
        assert (clean.path / "work.txt").read_text() == "work\n"
