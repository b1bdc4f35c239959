"""What agents have no business to change in the repository: put back, kept aside, and told.

git's settings, hooks and attributes are those of the start of the run; branches and pull requests of proven
commits are where they were proven. A branch of nobody's proof may be moved by a person, and is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from beads_ralph.bead.words import several
from beads_ralph.git import commands, locking, proofs, settings
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


def expect_proven(root: Path, commits: Iterable[tuple[str, str]]) -> None:
    """The same for branches of proven commits, if they are there now: a person, or another bead, may have
    gone on with them."""
    found = settings.of(root)
    now = commands.refs_of(found.root)
    refs = [(f"refs/heads/{branch}", commit) for branch, commit in commits]
    there = {ref: commit for ref, commit in refs if now.get(ref) == commit and ref not in found.at_work}
    found.expected.update(there)


def release(root: Path, branch: str) -> None:
    """The branch is worked on, until it is proven."""
    found = settings.of(root)
    found.at_work.add(f"refs/heads/{branch}")
    found.expected.pop(f"refs/heads/{branch}", None)


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


def _aside(found: GitSettings) -> Path:
    """A new folder for what is taken away."""
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


def _return(found: GitSettings, ref: str, commit: str, now: Mapping[str, str]) -> str:
    went, kept = "deleted", ""
    if ref in now:
        name = f"{MOVED}/{ref.removeprefix('refs/')}/{now[ref]}"
        went, kept = f"moved to {now[ref][:12]}", f" (kept as {name})"
        locking.run("update-ref", name, now[ref], cwd=found.root)
    proofs.at(found.root).restore(commit)
    ended = locking.run("update-ref", ref, commit, cwd=found.root)
    back = "put back" if ended.ok else f"it cannot be put back: {ended.stderr.strip()}"
    return f"{ref} was {went}, away from the proven {commit[:12]}; {back}{kept}"


def _replaced(found: GitSettings) -> str:
    """Objects that stand in for others: no git of ours heeds them, but a person's would."""
    added = [
        ref
        for ref in commands.refs_of(found.root)
        if ref.startswith(REPLACING) and ref not in found.replacing
    ]
    for ref in added:
        locking.run("update-ref", "-d", ref, cwd=found.root)
    return f"objects were made to stand in for others; removed: {several(added)}" if added else ""
