"""What is new in a commit comes over whole, as a fetch would bring it, or by a fetch."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from beads_ralph.git import commands, packing, proofs, settings
from beads_ralph.git.proofs import DamagedCommitError, Proofs
from tests.git.repos import commit, git, on_branch
from tests.git.test_index_file import asked


@pytest.fixture
def proof(repo: Path) -> Iterator[Proofs]:
    with settings.until_done(repo):
        found = proofs.at(repo)
        found.bring([git(repo, "rev-parse", "main")])
        yield found


def checked(proof: Proofs, *commits: str) -> str:
    """All of their objects, where nothing is missing or damaged."""
    commands.output("fsck", "--full", "--strict", cwd=proof.path, env=proof.env)
    return commands.output("rev-list", "--objects", *commits, cwd=proof.path, env=proof.env)


def grown(repo: Path, draw: random.Random) -> str:
    """A few commits and merges with folders, links, renames, and files that come back."""
    names = [f"{folder}{name}" for folder in ("", "x/", "x/y/", "z/") for name in "abc"]
    for number in range(draw.randint(1, 4)):
        files: dict[str, str | bytes | None] = {
            name: draw.choice(["", "same\n", str(draw.random()), "\0\xff" * 300])
            for name in draw.sample(names, 3)
        }
        side = on_branch(repo, f"side-{draw.random()}", files)
        if draw.random() < 0.5:
            (repo / f"link-{draw.random()}").symlink_to("elsewhere")
        commit(repo, {f"main-{draw.random()}": "x", "\u00e9 \u2603": str(number)})
        git(repo, "merge", "--quiet", "--no-edit", "--strategy-option", "ours", side)
    return git(repo, "rev-parse", "HEAD")


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_all_that_is_new_comes_over_without_a_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    repo, draw = tmp_path / "repo", random.Random(5)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", f"--object-format={kind}", "repo")
    begun = commit(repo, {"README.md": "there\n"})
    proof = proofs.at(repo)
    proof.bring([begun])
    for strict in (False, True):
        tip = grown(repo, draw)
        with monkeypatch.context() as patched:
            said = asked(patched)
            proof.bring([tip], strict=strict)
        assert said == (["-c"] if strict else [])
        assert checked(proof, tip) == git(repo, "rev-list", "--objects", tip)
    with proof.checkout(tip) as clean:
        assert git(clean.path, "status", "--porcelain") == ""


def test_a_tag_comes_along(repo: Path, proof: Proofs) -> None:
    tip = commit(repo, {"a": "1"})
    git(repo, "tag", "--annotate", "v1", "--message", "the first")
    proof.bring([tip], strict=True)
    with proof.checkout(tip) as clean:
        assert git(clean.path, "describe") == "v1"


def test_what_is_large_is_left_to_git(repo: Path, proof: Proofs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_OBJECTS", 20)
    tip = commit(repo, {f"file-{number}": str(number) for number in range(30)})
    said = asked(monkeypatch)
    proof.bring([tip])
    assert said == ["-c"]  # the fetch
    assert checked(proof, tip)


def overwritten(repo: Path, id_: str, content: bytes | None) -> None:
    place = repo / ".git" / "objects" / id_[:2] / id_[2:]
    if content is None:
        place.unlink(missing_ok=True)
    else:
        place.chmod(0o600)
        place.write_bytes(zlib.compress(content))


@pytest.mark.parametrize("what", ["HEAD", "HEAD:", "HEAD:x", "HEAD:x/a"])
def test_no_object_that_is_missing_or_another_one_comes_over(repo: Path, proof: Proofs, what: str) -> None:
    tip = commit(repo, {"x/a": "good\n", "b": "more\n"})
    id_ = git(repo, "rev-parse", what)
    for content, strict in ((b"blob 4\0bad\n", False), (b"blob 4\0bad\n", True), (None, False), (None, True)):
        overwritten(repo, id_, content)
        with pytest.raises(DamagedCommitError):
            proof.bring([tip], strict=strict)


def test_what_is_malformed_does_not_come_over(repo: Path, proof: Proofs) -> None:
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    entry = b"40000 .git\0" + bytes.fromhex(tree)
    (repo.parent / "bad").write_bytes(entry)
    bad = git(repo, "hash-object", "-w", "--literally", "-t", "tree", str(repo.parent / "bad"))
    tip = git(repo, "commit-tree", bad, "-p", "HEAD", "-m", "bad")
    with pytest.raises(DamagedCommitError):
        proof.bring([tip], strict=True)
