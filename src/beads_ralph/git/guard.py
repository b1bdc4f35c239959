"""What agents have no business to change in the repository: put back, kept aside, and told.

git's settings, hooks and attributes are those of the start of the run; branches and pull requests of proven
commits are where they were proven; a branch that work is taken up on is as the run has left it or found it.
Any other branch may be moved by a person, and is left alone: work builds on what it was at the start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from beads_ralph.bead.words import several
from beads_ralph.git import commands, git_files, locking, proofs, settings
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.settings import GitSettings, guarded_files

MOVED: Final = "refs/beads-ralph/moved"
"""Nothing is lost: what a ref was moved to can still be looked at."""
REPLACING: Final = "refs/replace/"
TRACKING: Final = "branch."
"""The settings by which git remembers where a branch is pushed to: anybody's git writes them."""
_turn: Final = threading.Lock()


def expect(root: Path, refs: Mapping[str, str]) -> None:
    """From now on these refs are to lead to these commits."""
    found = settings.of(root)
    found.at_work.difference_update(refs)
    found.expected.update(refs)


def expect_proven(root: Path, commits: Iterable[tuple[str, str]], *, begun: bool = False) -> None:
    """The same for branches of proven commits, if they are there now, or were when the run began: a person,
    or another bead, may have gone on with them."""
    found = settings.of(root)
    now = found.begun if begun else commands.refs_of(found.root, HEADS)
    refs = [(f"{HEADS}{branch}", commit) for branch, commit in commits]
    there = {ref: commit for ref, commit in refs if now.get(ref) == commit and ref not in found.at_work}
    found.expected.update(there)


def take_up(root: Path, branch: str, start: str | None) -> str:
    """The branch is worked on, until it is proven. It is as this run or an earlier one left it, or as it was
    when the run began; what somebody made or moved meanwhile is put aside, and told. Where the commit is
    known that the work began at, whatever lies on top of it is work, and is judged as such."""
    found, ref = settings.of(root), f"{HEADS}{branch}"
    with _turn:
        told = "" if ref in found.at_work or found.moves == "follow" else _as_left(found, ref, start)
        found.at_work.add(ref)
        found.expected.pop(ref, None)
    return told


def _as_left(found: GitSettings, ref: str, start: str | None) -> str:
    should, now = found.expected.get(ref, found.begun.get(ref)), commands.refs_of(found.root, HEADS)
    here, plain = now.get(ref), not git_files.is_symbolic(found.common, ref)
    if here == should and plain:
        return ""
    grown = start is not None and here is not None and commands.contains(found.root, here, start)
    return "" if grown and plain else _return(found, ref, should, now)


def wandered(root: Path) -> list[str]:
    """The source branches that are not where they were when the run began, in words. A person is free to
    move them, so they stay where they are."""
    found = settings.of(root)
    now = commands.refs_of(found.root) if found.sources - found.expected.keys() else {}
    return [
        _wandering(found, ref, now.get(ref))
        for ref in sorted(found.sources - found.expected.keys())
        if now.get(ref) != found.begun.get(ref)
    ]


def _wandering(found: GitSettings, ref: str, now: str | None) -> str:
    name, before = ref.removeprefix(HEADS), found.begun.get(ref, "")
    went = f"was moved from {before[:12]} to {now[:12]}" if now else f"was deleted; it was at {before[:12]}"
    if found.moves == "follow":
        return f"{name} {went} while the run was on; later beads start there (source_moves: follow)"
    back = f"git update-ref {ref} {before}"
    return (
        f"{name} {went} while the run was on; its beads build on {before[:12]}, and the next run on what is "
        f"there then. If that was not you: {back}"
    )


def put_back(root: Path, tree: Path | None = None) -> list[str]:
    """Undo what was changed since, and say what it was; `tree` is the worktree of whoever has just worked."""
    found = settings.of(root)
    with _turn:
        told = [_objects(found), _link(found, tree), _files(found), *_moved(found), _replaced(found)]
    return [text for text in told if text]


# --- files --------------------------------------------------------------------------------------------


def _objects(found: GitSettings) -> str:
    """git takes a repository without this folder for none."""
    if (found.common / "objects").is_dir() and (found.common / "refs").is_dir():
        return ""
    (found.common / "refs").mkdir(exist_ok=True)
    proofs.at(found.root).restore_objects()
    return "the repository's objects or refs were deleted; those of what was proven are put back"


def _link(found: GitSettings, tree: Path | None) -> str:
    """A worktree's link to the repository."""
    own = found.own_folder(tree) if tree is not None and tree.is_dir() else None
    if tree is None or own is None:
        return ""
    link, said = tree / ".git", f"gitdir: {own}\n"
    if link.is_file() and not link.is_symlink() and link.read_bytes() == said.encode():
        return ""
    kept = ""
    if link.is_symlink() or link.exists():
        aside = _aside(found) / "git"
        link.rename(aside)
        kept = f"; what was there is kept in {aside}"
    link.write_text(said, "utf-8")
    return f"the worktree's link to its repository was changed; put back{kept}"


def _files(found: GitSettings) -> str:
    now = guarded_files(found.common)
    changed = [name for name in {**found.guarded, **now} if found.guarded.get(name) != now.get(name)]
    said = {name: _change(found, name) for name in changed}
    if "config" in said and not said["config"]:  # nothing but where branches are pushed to
        found.guarded["config"] = now["config"]
        del said["config"]
    if not said:
        return ""
    aside = _aside(found)
    for name in said:
        path = found.common / name
        if name in now:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            path.rename(aside / name)
        if name in found.guarded:
            _write(path, *found.guarded[name])
    names = several(sorted(part for parts in said.values() for part in parts))
    return f"git's settings were changed: {names}; put back, and what was there is kept in {aside}"


def _change(found: GitSettings, name: str) -> list[str]:
    """What people call it: the keys of a configuration, else the file."""
    if name != "config" or not (found.common / name).is_file():
        return [name]
    then = found.folder / "config-then"
    then.write_bytes(found.guarded[name][0] if name in found.guarded else b"")
    before, after = (settings.rows_of(place) for place in (then, found.common / name))
    if before is None or after is None:
        return [name]
    keys = {key for key, value in {*before, *after} if ((key, value) in before) != ((key, value) in after)}
    return sorted(key for key in keys if not key.startswith(TRACKING))


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.beads-ralph")
    with suppress(FileNotFoundError):
        temporary.unlink()
    temporary.write_bytes(content)
    temporary.chmod(mode)
    temporary.rename(path)


def aside(root: Path) -> Path:
    """A new folder for what is taken away."""
    return _aside(settings.of(root))


def _aside(found: GitSettings) -> Path:
    folder = found.common / "beads-ralph" / "changed"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=0)
    (folder / str(number)).mkdir()
    return folder / str(number)


# --- refs ---------------------------------------------------------------------------------------------


def _moved(found: GitSettings) -> list[str]:
    now = commands.refs_of(found.root)
    wrong = {ref: commit for ref, commit in found.expected.items() if now.get(ref) != commit}
    return [_return(found, ref, commit, now) for ref, commit in wrong.items()]


def keep_moved(root: Path, ref: str, commit: str) -> str:
    """The name under which what a ref was moved to can still be looked at."""
    name = f"{MOVED}/{ref.removeprefix('refs/')}/{commit}"
    locking.run("update-ref", name, commit, cwd=root)
    return name


def _return(found: GitSettings, ref: str, commit: str | None, now: Mapping[str, str]) -> str:
    """Let the ref lead to the commit again, None for no such ref."""
    went, kept = "deleted", ""
    if ref in now:
        name = keep_moved(found.root, ref, now[ref])
        went, kept = f"moved to {now[ref][:12]}", f" (kept as {name})"
    if commit is None:
        ended = locking.run("update-ref", "--no-deref", "-d", ref, cwd=found.root)
        said, back = f"was made by nobody of the run, at {now[ref][:12]}", "taken away"
    else:
        proofs.at(found.root).restore(commit)
        ended = locking.run("update-ref", "--no-deref", ref, commit, cwd=found.root)
        what = "the proven " if found.expected.get(ref) == commit and ref not in found.sources else ""
        said, back = f"was {went}, away from {what}{commit[:12]}", "put back"
    if not ended.ok:
        back = f"that cannot be undone: {ended.stderr.strip()}"
    return f"{ref} {said}; {back}{kept}"


def _replaced(found: GitSettings) -> str:
    """Objects that stand in for others: no git of ours heeds them, but a person's would."""
    added = [ref for ref in commands.refs_of(found.root, REPLACING) if ref not in found.replacing]
    for ref in added:
        locking.run("update-ref", "-d", ref, cwd=found.root)
    return f"objects were made to stand in for others; removed: {several(added)}" if added else ""
