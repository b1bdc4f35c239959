"""git's refs, read from its files: a few are asked for often, and starting git for one costs a hundred times
as much. Whatever is not plain to see (reftable, a symbolic ref, a damaged file) is left to git itself."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

HEADS: Final = "refs/heads/"
COMMIT: Final = re.compile(r"(?!0+$)(?:[0-9a-f]{40}|[0-9a-f]{64})")
SYMBOLIC: Final = re.compile(r"ref: (refs/heads/\S+)")
OF_COMMITS: Final = (HEADS, "refs/remotes/", "refs/pull/", "refs/beads-ralph/")
"""Refs that lead to commits; a tag may stand between."""
UNREADABLE: Final = (OSError, ValueError)
SETTLED: Final = 1_000_000_000
MOST_LINES: Final = 100_000
_lines: Final[dict[str, tuple[tuple[int, ...], str]]] = {}
"""By path of a ref's file: what it was like, and its line. A run asks for all refs many times a bead."""
PACKED: Final = re.compile(r"^([0-9a-f]+) (refs/\S+)$", re.MULTILINE)


def folders_of(tree: Path) -> tuple[Path, ...]:
    """Where git keeps what belongs to a worktree, outside of it: the repository's folder and its own in
    there. Nothing for a main working tree, whose folder lies inside it."""
    link = tree / ".git"
    try:
        own = Path(link.read_text("utf-8").removeprefix("gitdir:").strip()) if link.is_file() else None
        common = Path((own / "commondir").read_text("utf-8").strip()) if own else None
    except UNREADABLE:
        return ()
    if own is None or common is None:
        return ()
    own = Path(os.path.abspath(tree / own))  # noqa: PTH100 - git may write it relative, links stay links
    return Path(os.path.abspath(own / common)), own  # noqa: PTH100


def branch_at(tree: Path) -> str | None:
    """The branch that is checked out at the top of a working tree; None where git has to be asked."""
    folders = _folders(tree)
    symbolic = SYMBOLIC.fullmatch(_line(folders[1] / "HEAD")) if folders else None
    name = symbolic[1].removeprefix(HEADS) if symbolic else None
    return None if name == ".invalid" else name  # what a reftable leaves there


def commit_of(ref: str, tree: Path) -> str | None:
    """The commit that HEAD or a full ref leads to, seen from the top of a working tree; None where git
    has to be asked, also whether there is such a ref at all."""
    folders = _folders(tree)
    if folders is None:
        return None
    common, own = folders
    if ref == "HEAD":
        said = _line(own / "HEAD")
        symbolic = SYMBOLIC.fullmatch(said)
        if symbolic is None:
            return said if COMMIT.fullmatch(said) else None
        ref = symbolic[1]
    if not ref.startswith(OF_COMMITS) or ".." in ref:
        return None
    said = _line(common / ref)
    return said if COMMIT.fullmatch(said) else _packed(ref, common) if not said else None


Noted = tuple[Path, str, str | None, str | None]
"""A worktree as git has written it down: its path, its commit, its branch unless it is detached, and why it
is locked, where it is."""


def worktrees(root: Path) -> list[Noted] | None:
    """Those of a repository, the main working tree first; None where git has to be asked."""
    folders = _folders(root)
    if folders is None or folders[0] != root / ".git":
        return None
    notes = sorted((folders[0] / "worktrees").glob("*"))
    # a path may be written as seen from its note; links in it stay links
    links = {note: os.path.abspath(note / link) for note in notes if (link := _line(note / "gitdir"))}  # noqa: PTH100
    found = [_noted(root, folders[0], folders[0])]
    found += [_noted(Path(link).parent, note, folders[0]) for note, link in links.items()]
    return None if None in found else [one for one in found if one]


def _noted(path: Path, note: Path, common: Path) -> Noted | None:
    head = _line(note / "HEAD")
    locked = _line(note / "locked") if (note / "locked").exists() else None
    if symbolic := SYMBOLIC.fullmatch(head):
        return path, commit_in(common, symbolic[1]) or "", symbolic[1].removeprefix(HEADS), locked
    return (path, head, None, locked) if COMMIT.fullmatch(head) else None


def commit_in(folder: Path, ref: str) -> str | None:
    """The commit that a ref leads to in a repository folder of ours; None where it has none."""
    said = _line(folder / ref)
    return said if COMMIT.fullmatch(said) else _packed(ref, folder) if not said else None


def refs(folder: Path, below: str = "refs/") -> dict[str, str]:
    """Every ref of a repository folder whose name begins so, with what it leads to."""
    packed = PACKED.findall(_read(folder / "packed-refs"))
    found = {ref: said for said, ref in packed if ref.startswith(below)}
    found |= _loose(os.path.join(folder, below), below)  # noqa: PTH118 - there may be hundreds
    led = {ref: _led(said, found, folder) if said.startswith("ref:") else said for ref, said in found.items()}
    return {ref: said for ref, said in led.items() if COMMIT.fullmatch(said)}


def _led(said: str, found: Mapping[str, str], folder: Path) -> str:
    """What a ref leads to that only names another one, wherever that is."""
    other = said.removeprefix("ref: ")
    plain = other.startswith("refs/") and ".." not in other
    return found.get(other) or (commit_in(folder, other) if plain else None) or ""


def _loose(place: str, below: str) -> dict[str, str]:
    """The files of refs, each with its line."""
    found: dict[str, str] = {}
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found |= _loose(entry.path, f"{below}{entry.name}/")
            elif entry.is_file():  # reading from a pipe would not end
                found[below + entry.name] = _line_at(entry)
    return found


def _line_at(entry: os.DirEntry[str]) -> str:
    """Its line; read again only where the file may be another one than at the last look."""
    now = entry.stat()
    seen = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    known = _lines.get(entry.path)
    if known is not None and known[0] == seen:
        return known[1]
    said = _line(entry.path)
    if time.time_ns() - now.st_ctime_ns > SETTLED:  # a second change in the same moment could not be told
        if len(_lines) >= MOST_LINES:
            _lines.clear()
        _lines[entry.path] = seen, said
    return said


def write_refs(folder: Path, known: Mapping[str, str]) -> None:
    """Write the refs of a repository that has none yet; a value may name another ref behind `ref: `."""
    direct = {ref: to for ref, to in known.items() if not to.startswith("ref: ")}
    rows = "".join(f"{direct[ref]} {ref}\n" for ref in sorted(direct, key=os.fsencode))
    _write(folder / "packed-refs", f"# pack-refs with: sorted \n{rows}")
    for ref in known.keys() - direct.keys():
        (folder / ref).parent.mkdir(parents=True, exist_ok=True)
        _write(folder / ref, f"{known[ref]}\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", "surrogateescape")


def is_symbolic(folder: Path, ref: str) -> bool:
    """True if the ref only names another one."""
    return _line(folder / ref).startswith("ref:")


def refs_of(tree: Path, *below: str) -> dict[str, str] | None:
    """The same for one or several beginnings, seen from the top of a working tree; None where git has to be
    asked."""
    folders = _folders(tree)
    if folders is None:
        return None
    return {ref: to for one in below or ("refs/",) for ref, to in refs(folders[0], one).items()}


def _folders(tree: Path) -> tuple[Path, Path] | None:
    """The repository's folder and the working tree's own."""
    if (tree / ".git").is_dir():
        common = own = tree / ".git"
    elif found := folders_of(tree):
        common, own = found[0], found[1]
    else:
        return None
    return None if (common / "reftable").exists() else (common, own)


def _packed(ref: str, common: Path) -> str | None:
    """A loose file goes only after its ref was packed, so it must have been looked for first."""
    text = _read(common / "packed-refs")
    match = re.search(rf"^([0-9a-f]+) {re.escape(ref)}$", text, re.MULTILINE)
    return match[1] if match and COMMIT.fullmatch(match[1]) else None


def _line(path: Path | str) -> str:
    """The file's one line; empty where there is none."""
    return _read(path).removesuffix("\n")


def _read(path: Path | str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - as above
            return file.read()
    except UNREADABLE:
        return ""
