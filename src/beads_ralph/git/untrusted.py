"""Files that anybody may have written, such as an agent in its quarantine: read and copied with care.

No link is followed, nothing but plain files and folders counts, and what is read has a limit.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from beads_ralph.files import scratch
from beads_ralph.git import git_files

SMALL: Final = 1 << 20
LARGE: Final = 256 << 20
DEEPEST: Final = 12
SYMBOLIC: Final = "ref: "
NEW: Final = "beads-ralph-new"
"""A name that a file has until it is whole."""


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def text(path: Path, limit: int = SMALL) -> str:
    """What a file holds; empty for what is none, such as a pipe that somebody put there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(limit).decode("utf-8", "surrogateescape") if plain else ""
    except OSError:
        return ""


def write(path: Path, said: str) -> None:
    path.write_text(said, "utf-8", "surrogateescape")


def replace_text(path: Path, said: str) -> None:
    """Write the file, whole or not at all."""
    new = path.with_name(NEW)
    write(new, said)
    new.replace(path)


def mirror(source: Path, target: Path, fixed: Callable[[str], bool], depth: int = 0) -> None:
    """Put what `source` holds in place of what `target` does, but for names that are `fixed` there. A folder
    takes no file's place, nor the other way round."""
    with os.scandir(source) as entries:
        wanted = {entry.name: entry for entry in entries if _is_plain(entry) and not fixed(entry.name)}
    for path in list(target.iterdir()):
        if path.name not in wanted and not fixed(path.name):
            scratch.remove(path)
    for name, entry in wanted.items():
        there = target / name
        if not entry.is_dir(follow_symlinks=False):
            if not _is_same(entry.stat(follow_symlinks=False), there):
                _put(Path(entry.path), there)
        elif depth < DEEPEST and not there.is_file():
            there.mkdir(exist_ok=True)
            mirror(Path(entry.path), there, lambda _: False, depth + 1)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def _is_same(about: os.stat_result, target: Path) -> bool:
    """Tell by size and time, as git does."""
    with suppress(OSError):
        there = target.lstat()
        return (there.st_size, there.st_mtime_ns) == (about.st_size, about.st_mtime_ns)
    return False


def _put(source: Path, target: Path) -> None:
    """By a link, so that the time of an index stays and nothing is copied; after a kill both have it."""
    if target.is_dir():
        return
    new = target.with_name(NEW)
    new.unlink(missing_ok=True)
    try:
        os.link(source, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, new)
    new.chmod(stat.S_IMODE(new.stat().st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    new.replace(target)
    new.unlink(missing_ok=True)  # two names of one file stay two names


# --- refs -------------------------------------------------------------------------------------------


def refs(folder: Path) -> dict[str, str]:
    """Every ref with what stands there: a commit, or `ref: ` and another one."""
    found = {ref: to for to, ref in git_files.PACKED.findall(text(folder / "packed-refs", LARGE))}
    waiting = [folder / "refs"] if is_folder(folder / "refs") else []
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif said := text(path).removesuffix("\n"):
                    found[path.relative_to(folder).as_posix()] = said
    return {ref: to for ref, to in found.items() if git_files.COMMIT.fullmatch(to) or to.startswith(SYMBOLIC)}


def led(known: Mapping[str, str], ref: str) -> str | None:
    """The commit that a ref leads to."""
    for _ in range(5):
        to = known.get(ref)
        if to is None or not to.startswith(SYMBOLIC):
            return to
        ref = to.removeprefix(SYMBOLIC)
    return None


def write_listing(path: Path, known: Mapping[str, str]) -> None:
    """Keep refs for our own eyes."""
    write(path, "".join(f"{to}\t{ref}\n" for ref, to in known.items()))


def read_listing(path: Path) -> dict[str, str]:
    rows = (row.partition("\t") for row in text(path, LARGE).split("\n") if row)
    return {ref: to for to, _tab, ref in rows}
