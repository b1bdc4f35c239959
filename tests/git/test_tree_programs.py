"""Programs of the tree that git's settings name are run as they were when the run began."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.git import commands, proofs, settings, tree_programs
from tests.git.repos import git

WAYS = (
    "./tools/x.sh %O",
    "tools/x.sh %O",
    "sh tools/x.sh %O",
    '"$(git rev-parse --show-toplevel)/tools/x.sh" %O',
    '"$(git rev-parse --show-toplevel)"/tools/x.sh %O',
    "$(git rev-parse --show-toplevel)/tools/x.sh %O",
    "{root}/tools/x.sh %O",
    "A=1 python3 -c 'open(\"tools/x.sh\")'",
)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_of_the_tree_is_named_by_its_copy(tmp_path: Path, way: str) -> None:
    root, folder = tmp_path / "app", tmp_path / "copies"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "x.sh").write_text("#!/bin/sh\n")
    command = way.replace("{root}", str(root))
    ((_, said),), copies = tree_programs.pinned([("merge.x.driver", command)], root, folder)
    assert said is not None
    assert str(folder / "tools" / "x.sh") in said
    assert "show-toplevel" not in said
    assert f"{root}/tools" not in said
    assert [*copies] == ["tools/x.sh"]


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("credential.helper", "store"),
        ("user.name", "./tools/x.sh"),
        ("merge.x.driver", "/usr/bin/tools/x.sh"),
        ("merge.x.driver", "./tools/none.sh"),
    ],
)
def test_anything_else_stays_as_it_is(tmp_path: Path, key: str, command: str) -> None:
    for name in ("clean", "store", "git-lfs", "filter-process", "tools/x.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert tree_programs.pinned([(key, command)], tmp_path, tmp_path / "copies") == ([(key, command)], {})


def test_what_a_program_names_comes_with_it(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "x.sh").write_text('. "$(dirname "$0")/lib.sh"\n. ./rules/top.sh\n')
    (tmp_path / "tools" / "lib.sh").write_text("cat other.txt")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "top.sh").write_text("")
    (tmp_path / "other.md").write_text("")
    rows = [("merge.x.driver", "tools/x.sh")]
    _, copies = tree_programs.pinned(rows, tmp_path, tmp_path / "copies")
    assert {*copies} == {"tools/x.sh", "tools/lib.sh", "rules/top.sh"}


def test_git_of_the_run_obeys_the_program_of_its_start(repo: Path) -> None:
    """In the main checkout, in a worktree and in a clean checkout, whatever stands there by now."""
    (repo / "a-smudge.sh").write_text("#!/bin/sh\nsed s/raw/shown/\n")
    (repo / "a-smudge.sh").chmod(0o755)
    (repo / ".gitattributes").write_text("*.txt filter=mend\n")
    (repo / "z.txt").write_text("raw\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "filtered")
    git(repo, "config", "filter.mend.smudge", "./a-smudge.sh")
    with settings.until_done(repo):
        settings.take(repo)
        (repo / "a-smudge.sh").write_text("#!/bin/sh\nsed s/raw/forged/\n")
        git(repo, "commit", "--quiet", "--all", "--message", "forged")
        (repo / "z.txt").unlink()
        commands.output("checkout", "--", "z.txt", cwd=repo)
        assert (repo / "z.txt").read_text() == "shown\n"
        with proofs.at(repo).checkout(git(repo, "rev-parse", "HEAD")) as clean:
            assert (clean.path / "z.txt").read_text() == "shown\n"
