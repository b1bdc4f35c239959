"""Merging, foresight, finishing an agent's resolution, and the proof that no side was lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.git import merge_loss, merges, worktree_status
from beads_ralph.git.merge_loss import LostHunk, lost_changes
from beads_ralph.git.merges import finish_merge, foresee, merge_all
from tests.git.repos import commit, git, lines, on_branch


@pytest.fixture
def tree(repo: Path, tmp_path: Path) -> Path:
    """A worktree on branch `merge`, made before the sides are."""
    commit(repo, {"a.txt": lines(), "b.txt": lines()}, "thirty lines")
    path = tmp_path / "merging"
    git(repo, "worktree", "add", "--quiet", "-b", "merge", str(path))
    return path


def lost(repo: Path, side: str, merged: str = "merge", base: str = "main") -> list[tuple[str, str]]:
    return [(hunk.file, hunk.kind) for hunk in lost_changes(repo, base, side, merged)]


def conflicting(repo: Path, tree: Path) -> merges.Conflict:
    on_branch(repo, "one", {"a.txt": lines("5:one's line"), "one.txt": "one\n"})
    on_branch(repo, "two", {"a.txt": lines("5:two's line"), "two.txt": "two\n"})
    outcome = merge_all(tree, ["one", "two"])
    assert outcome.conflict is not None
    return outcome.conflict


# --- merging ------------------------------------------------------------------------------------------


def test_branches_that_edit_a_file_apart_are_merged_clean(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": lines("5:one's line")})
    on_branch(repo, "two/deep", {"a.txt": lines("25:two's line")})
    outcome = merge_all(tree, ["one", "two/deep"])
    assert outcome.conflict is None
    assert outcome.merged == ("one", "two/deep")
    assert (tree / "a.txt").read_text() == lines("5:one's line", "25:two's line")
    assert git(tree, "log", "-1", "--format=%s") == "Merge branch 'two/deep' into merge"
    assert worktree_status.is_clean(tree)
    assert lost(repo, "one") == lost(repo, "two/deep") == []
    assert merge_all(tree, ["one", "two/deep"]).contained == ("one", "two/deep")


def test_a_branch_without_new_commits_still_leaves_a_merge_commit(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"one.txt": "one\n"})
    git(tree, "config", "merge.ff", "only")
    assert merge_all(tree, ["one"]).merged == ("one",)
    assert len(git(tree, "log", "-1", "--format=%P").split()) == 2


def test_the_first_conflict_stops_and_is_named(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    assert (conflict.branch, conflict.into, conflict.files) == ("two", "merge", ("a.txt",))
    assert conflict.theirs == git(repo, "rev-parse", "two")
    assert conflict.ours == worktree_status.head(tree)
    again = merge_all(tree, ["one", "two"])
    assert again.conflict == conflict


def test_a_branch_known_only_on_origin_is_merged_and_a_lost_one_named(
    repo: Path, tree: Path, tmp_path: Path
) -> None:
    on_branch(repo, "far", {"far.txt": "far\n"})
    bare = tmp_path / "bare remote.git"
    git(repo, "clone", "--quiet", "--bare", str(repo), str(bare))
    git(repo, "remote", "add", "origin", str(bare))
    git(repo, "fetch", "--quiet")
    git(repo, "branch", "--quiet", "-D", "far")
    outcome = merge_all(tree, ["far", "never-made"])
    assert (outcome.merged, outcome.missing) == (("far",), ("never-made",))


def test_uncommitted_work_is_committed_before_a_merge(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": lines("5:one's line")})
    (tree / "a.txt").write_text(lines("25:an agent's line"))
    (tree / "new.txt").write_text("untracked\n")
    outcome = merge_all(tree, ["one"])
    assert outcome.saved is not None
    assert outcome.merged == ("one",)
    assert (tree / "a.txt").read_text() == lines("5:one's line", "25:an agent's line")
    assert worktree_status.is_clean(tree)


def test_unrelated_histories_are_an_error_that_leaves_the_tree_clean(repo: Path, tree: Path) -> None:
    git(repo, "switch", "--quiet", "--orphan", "other")
    commit(repo, {"x": "x\n"})
    git(repo, "switch", "--quiet", "main")
    with pytest.raises(RalphError, match="merge") as caught:
        merge_all(tree, ["other"])
    assert "unrelated histories" in caught.value.text
    assert worktree_status.is_clean(tree)


def test_a_committer_is_found_where_git_has_none(
    repo: Path, tree: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_branch(repo, "one", {"one.txt": "one\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert merge_all(tree, ["one"]).merged == ("one",)
    assert git(tree, "log", "-1", "--format=%cn <%ce>") == "beads-ralph <beads-ralph@localhost>"


def test_a_rebase_in_progress_is_not_merged_into(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": lines("5:one's line")})
    commit(tree, {"a.txt": lines("5:own line")})
    with pytest.raises(AssertionError, match="CONFLICT"):
        git(tree, "rebase", "one")
    with pytest.raises(RalphError, match="a rebase is in progress"):
        merge_all(tree, ["one"])


# --- finishing ----------------------------------------------------------------------------------------


def test_a_resolution_that_was_not_staged_is_committed(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    (tree / "a.txt").write_text(lines("5:one's line", "+5:two's line"))
    (tree / "b.txt").write_text(lines("1:needed by the resolution"))
    outcome = finish_merge(tree, conflict)
    assert (outcome.conflict, outcome.merged) == (None, ("two",))
    assert worktree_status.is_clean(tree)
    assert git(tree, "log", "-1", "--format=%B").strip() == "Merge branch 'two' into merge"
    assert git(tree, "rev-parse", "HEAD^2") == conflict.theirs
    assert lost(repo, "one") == lost(repo, "two") == []


def test_an_agent_that_did_nothing_gets_its_conflict_again(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    again = finish_merge(tree, conflict).conflict
    assert again is not None
    assert again.markers == ("a.txt:5", "a.txt:7", "a.txt:9")
    assert worktree_status.unfinished(tree) == "merge"


def test_markers_that_an_agent_committed_are_found(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    git(tree, "commit", "--quiet", "--all", "--message", "all done!")
    again = finish_merge(tree, conflict).conflict
    assert again is not None
    assert again.markers == ("a.txt:5", "a.txt:7", "a.txt:9")


def test_markers_that_a_side_had_on_purpose_are_no_fault(repo: Path, tree: Path) -> None:
    guide = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> topic\n"
    on_branch(repo, "one", {"a.txt": lines("5:one's line")})
    on_branch(repo, "two", {"a.txt": lines("5:two's line"), "guide.md": guide})
    conflict = merge_all(tree, ["one", "two"]).conflict
    assert conflict is not None
    (tree / "a.txt").write_text(lines("5:both lines"))
    assert finish_merge(tree, conflict).conflict is None


@pytest.mark.parametrize("how", ["abort", "squash"])
def test_a_merge_that_an_agent_dropped_is_not_done(repo: Path, tree: Path, how: str) -> None:
    conflict = conflicting(repo, tree)
    git(tree, "merge", "--abort")
    if how == "squash":
        commit(tree, {"a.txt": lines("5:one's and two's"), "two.txt": "two\n"})
    outcome = finish_merge(tree, conflict)
    assert outcome.conflict is not None
    assert outcome.merged == ()


def test_an_agent_that_committed_the_merge_itself_is_believed(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    commit(tree, {"a.txt": lines("5:one's line", "+5:two's line")})
    assert finish_merge(tree, conflict).merged == ("two",)


def test_binary_and_deleted_files_stay_open_until_staged(repo: Path, tree: Path) -> None:
    commit(repo, {"logo.png": b"\0base", "gone.txt": "text\n"})
    git(tree, "merge", "--quiet", "--ff-only", "main")
    on_branch(repo, "one", {"logo.png": b"\0one", "gone.txt": None})
    on_branch(repo, "two", {"logo.png": b"\0two", "gone.txt": "text, changed\n"})
    conflict = merge_all(tree, ["one", "two"]).conflict
    assert conflict is not None
    assert conflict.files == ("gone.txt", "logo.png")
    again = finish_merge(tree, conflict).conflict
    assert again is not None
    assert again.files == ("gone.txt", "logo.png")
    git(tree, "checkout", "--theirs", "logo.png")
    git(tree, "add", "logo.png")
    git(tree, "rm", "--quiet", "gone.txt")
    assert finish_merge(tree, conflict).conflict is None
    assert lost(repo, "one", base="main") == [("logo.png", "content")]
    assert lost(repo, "two", base="main") == [("gone.txt", "missing")]


# --- foresight ----------------------------------------------------------------------------------------


def test_a_coming_conflict_is_foreseen_without_touching_anything(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": lines("5:one's line"), "ü b/c.txt": "one\n"})
    on_branch(repo, "two", {"a.txt": lines("5:two's line"), "ü b/c.txt": "two\n"})
    on_branch(repo, "three", {"a.txt": lines("25:three's line")})
    assert foresee(repo, [("one", "two"), ("one", "three")]) == [["a.txt", "ü b/c.txt"], []]
    assert foresee(repo, []) == []
    assert worktree_status.is_clean(repo)
    assert worktree_status.is_clean(tree)
    with pytest.raises(RalphError, match="merge-tree"):
        foresee(repo, [("one", "no-such-branch")])


def test_an_old_git_foresees_nothing(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'usage: git merge-tree <base-tree> <branch1> <branch2>' >&2\nexit 129\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    assert foresee(repo, [("main", "main")]) is None


# --- lost changes -------------------------------------------------------------------------------------


def test_taking_ours_loses_the_other_side(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    git(tree, "checkout", "--ours", "a.txt")
    assert finish_merge(tree, conflict).conflict is None
    assert lost_changes(repo, "main", "two", "merge", ["one"]) == [
        LostHunk("a.txt", "dropped", 5, 5, ("two's line",), lost=1, total=1)
    ]
    assert lost(repo, "one") == []


def test_the_theirs_strategy_loses_ours(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": lines("5:def parse(text):", "6:    return text.split()")})
    on_branch(repo, "two", {"a.txt": lines("5:WIDTH = 80", "6:HEIGHT = 25")})
    merge_all(tree, ["one"])
    git(tree, "merge", "--quiet", "-X", "theirs", "--no-edit", "two")
    found = lost_changes(repo, "main", "one", "merge")
    assert [(hunk.file, hunk.kind, hunk.first_line, hunk.last_line) for hunk in found] == [
        ("a.txt", "dropped", 5, 6)
    ]
    assert found[0].lines == ("def parse(text):", "    return text.split()")
    assert lost(repo, "two") == []


def test_the_ours_merge_strategy_loses_everything_of_a_side(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": None, "new.txt": "new\n", "b.txt": lines("-9:", "-10:")})
    git(tree, "merge", "--quiet", "--strategy", "ours", "--no-edit", "one")
    found = lost_changes(repo, "main", "one", "merge")
    assert [(hunk.file, hunk.kind) for hunk in found] == [
        ("a.txt", "undeleted"),
        ("b.txt", "returned"),
        ("new.txt", "missing"),
    ]
    assert (found[1].first_line, found[1].last_line, found[1].lines) == (9, 10, ("line 9", "line 10"))


def test_one_dropped_function_is_seen_in_a_long_addition(repo: Path, tree: Path) -> None:
    functions = [f"def f{n}():\n    return {n * 7919}\n" for n in range(20)]
    on_branch(repo, "one", {"new.py": "\n".join(functions)})
    merge_all(tree, ["one"])
    commit(tree, {"new.py": "\n".join(functions[:7] + functions[8:])})
    found = lost_changes(repo, "main", "one", "merge")
    assert [hunk.lines for hunk in found] == [("def f7():", "    return 55433")]


def test_an_edited_line_is_reported_as_rewritten(repo: Path, tree: Path) -> None:
    conflict = conflicting(repo, tree)
    (tree / "a.txt").write_text(lines("5:one's line and two's line"))
    finish_merge(tree, conflict)
    assert lost(repo, "one") == lost(repo, "two") == [("a.txt", "rewritten")]


def test_half_of_a_paragraph_may_change_but_not_more(repo: Path, tree: Path) -> None:
    added = [f"alpha{n} = beta{n}" for n in range(4)]
    on_branch(repo, "one", {"new.py": "\n".join(added) + "\n"})
    merge_all(tree, ["one"])
    commit(tree, {"new.py": "\n".join([*added[:2], "x", "y"]) + "\n"})
    assert lost(repo, "one") == []
    commit(tree, {"new.py": "\n".join([added[0], "x", "y", "z"]) + "\n"})
    assert lost(repo, "one") == [("new.py", "dropped")]


def test_moved_and_reindented_lines_survive(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"a.txt": lines("+5:alpha = 1", "+5:beta = 2")})
    merge_all(tree, ["one"])
    commit(tree, {"a.txt": lines("+20:    alpha = 1", "+20:    beta = 2")})
    assert lost(repo, "one") == []


def test_moving_lines_is_not_bringing_them_back(repo: Path, tree: Path) -> None:
    moved = lines("-3:", "-4:", "+20:line 3", "+20:line 4")
    on_branch(repo, "one", {"a.txt": moved})
    merge_all(tree, ["one"])
    commit(tree, {"a.txt": moved + "more\n"})
    assert lost(repo, "one") == []


def test_the_same_change_on_both_sides_is_not_lost(repo: Path, tree: Path) -> None:
    for name in ("one", "two"):
        on_branch(repo, name, {"a.txt": lines("+5:import os"), "same.txt": "same\n"})
    assert merge_all(tree, ["one", "two"]).conflict is None
    assert lost(repo, "one") == lost(repo, "two") == []


def test_a_rename_by_the_other_side_is_followed(repo: Path, tree: Path) -> None:
    git(repo, "switch", "--quiet", "--create", "one", "main")
    git(repo, "mv", "a.txt", "renamed.txt")
    commit(repo, {})
    git(repo, "switch", "--quiet", "main")
    on_branch(repo, "two", {"a.txt": lines("5:two's line")})
    assert merge_all(tree, ["one", "two"]).conflict is None
    assert lost(repo, "one") == lost(repo, "two") == []
    commit(tree, {"renamed.txt": lines()})
    assert lost(repo, "two") == [("a.txt", "dropped")]
    assert lost(repo, "one") == []


def test_an_undone_rename_is_lost(repo: Path, tree: Path) -> None:
    git(repo, "switch", "--quiet", "--create", "one", "main")
    git(repo, "mv", "a.txt", "renamed.txt")
    commit(repo, {"renamed.txt": lines("5:one's line")})
    git(repo, "switch", "--quiet", "main")
    merge_all(tree, ["one"])
    git(tree, "mv", "renamed.txt", "a.txt")
    commit(tree, {})
    assert lost(repo, "one") == [("renamed.txt", "rename")]


def test_line_ends_are_no_loss_but_lines_are(repo: Path, tree: Path) -> None:
    windows = lines("5:one's line").replace("\n", "\r\n")
    commit(repo, {"a.txt": lines().replace("\n", "\r\n")})
    git(tree, "merge", "--quiet", "--ff-only", "main")
    on_branch(repo, "one", {"a.txt": windows})
    merge_all(tree, ["one"])
    commit(tree, {"a.txt": windows.replace("\r\n", "\n")})
    assert lost(repo, "one") == []
    commit(tree, {"a.txt": lines()})
    assert lost(repo, "one") == [("a.txt", "dropped")]


def test_a_lost_executable_bit_is_named(repo: Path, tree: Path) -> None:
    git(repo, "switch", "--quiet", "--create", "one", "main")
    (repo / "a.txt").chmod(0o755)
    commit(repo, {})
    git(repo, "switch", "--quiet", "main")
    merge_all(tree, ["one"])
    assert lost(repo, "one") == []
    (tree / "a.txt").chmod(0o644)
    commit(tree, {})
    assert lost(repo, "one") == [("a.txt", "mode")]


def test_links_and_odd_names_and_odd_bytes(repo: Path, tree: Path) -> None:
    git(repo, "switch", "--quiet", "--create", "one", "main")
    (repo / "link").symlink_to("a.txt")
    commit(repo, {'ü "q" b/c d.txt': "text\n", "latin.txt": "gr\xfc\xdfe\nzwei\n".encode("latin-1")})
    git(repo, "switch", "--quiet", "main")
    merge_all(tree, ["one"])
    assert lost(repo, "one") == []
    (tree / "link").unlink()
    (tree / "link").symlink_to("b.txt")
    commit(tree, {'ü "q" b/c d.txt': "other\n", "latin.txt": "drei\n"})
    assert lost(repo, "one") == [
        ("latin.txt", "dropped"),
        ("link", "content"),
        ('ü "q" b/c d.txt', "dropped"),
    ]


def _edited(rows: list[str], choice: random.Random) -> list[str]:
    """Rows with a few additions, replacements, deletions and moves, of words that often repeat."""
    rows = list(rows)
    for _ in range(choice.randint(1, 4)):
        at, count = choice.randrange(len(rows) + 1), choice.randint(0, 3)
        taken, rows[at : at + count] = rows[at : at + count], _rows(choice, choice.randint(0, 4))
        if choice.random() < 0.3:
            at = choice.randrange(len(rows) + 1)
            rows[at:at] = taken
    return rows


def _rows(choice: random.Random, count: int) -> list[str]:
    words = ["alpha", "beta", "return", "if", "x", "=", "(", ")", "{", "}"]
    return [" ".join(choice.choices(words, k=choice.randint(0, 4))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(25))
def test_what_git_merges_clean_is_never_called_lost(repo: Path, tree: Path, seed: int) -> None:
    choice = random.Random(seed)
    rows = _rows(choice, 40)
    commit(repo, {"a.txt": "\n".join(rows) + "\n"})
    git(tree, "merge", "--quiet", "--ff-only", "main")
    for name in ("one", "two"):
        on_branch(repo, name, {"a.txt": "\n".join(_edited(rows, choice)) + "\n"})
    outcome = merge_all(tree, ["one", "two"])
    sides = ["one"] if outcome.conflict else ["one", "two"]
    assert [lost(repo, side) for side in sides] == [[] for _ in sides]


def test_what_is_reported_is_bounded(repo: Path, tree: Path) -> None:
    on_branch(repo, "one", {"new.txt": "".join(f"word{n} {'x' * 1000}\n" for n in range(500))})
    merge_all(tree, ["one"])
    commit(tree, {"new.txt": "empty\n"})
    (hunk,) = lost_changes(repo, "main", "one", "merge")
    assert (len(hunk.lines), max(map(len, hunk.lines))) == (merge_loss.MAX_LINES, merge_loss.MAX_WIDTH)
    assert (hunk.first_line, hunk.last_line, hunk.lost, hunk.total) == (1, 500, 500, 500)
    assert str(hunk) == "new.txt:1-500: dropped (500 of 500 lines)"
