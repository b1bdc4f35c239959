"""Programs in the tree that git's settings name, such as a merge driver: run as they were when the run began.

An agent can edit the program, and git would run it for us, with what we may read and the agent may not.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

RUN: Final = re.compile(
    r"merge\..*\.driver|filter\..*\.(clean|smudge|process)|diff\..*\.(textconv|command)"
    r"|core\.(sshcommand|gitproxy)|gpg\.(.*\.)?program|credential\..*helper",
    re.IGNORECASE | re.DOTALL,
)
"""Settings whose values are commands."""
PATH: Final = r"[\w@+.-]+(?:/[\w@+.-]+)*"
WORD: Final = re.compile(PATH)
LARGEST: Final = 1024 * 1024
MOST: Final = 200

Copies = Mapping[str, tuple[bytes, int]]
"""By path in the tree: content and mode."""


def pinned(
    rows: Sequence[tuple[str, str | None]], root: Path, folder: Path
) -> tuple[list[tuple[str, str | None]], Copies]:
    """The settings with each program of the tree replaced by its copy in `folder`; and those copies, with
    the files of the tree that the programs name in turn."""
    named = _in_the_tree(root)
    copies: dict[str, tuple[bytes, int]] = {}
    commands = {value for key, value in rows if value and RUN.fullmatch(key)}
    for path in (path for command in commands for path in _paths(command, named, root)):
        _copy(path, root, copies)
    said = {one: named.sub(lambda match: _replaced(match, copies, folder), one) for one in commands}
    found = [(key, said.get(value or "", value) if RUN.fullmatch(key) else value) for key, value in rows]
    return found, copies


def lay_out(copies: Copies, folder: Path) -> None:
    for name, (content, mode) in copies.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            path.unlink()
        path.write_bytes(content)
        path.chmod(mode)


def _in_the_tree(root: Path) -> re.Pattern[str]:
    """A path, perhaps behind one of the ways in which commands name the top of the tree."""
    above = rf"\$\(git rev-parse --show-toplevel\)\"?/|\$\{{?PWD\}}?/|{re.escape(str(root))}/|\./"
    return re.compile(rf"(?<![\w@+./%-])(?P<above>\"?(?:{above}))?(?P<path>{PATH})")


def _paths(text: str, named: re.Pattern[str], place: Path) -> Iterator[str]:
    """The files below a place that a text names."""
    found = (match["path"] for match in named.finditer(text) if _looks_like_a_path(match))
    return (path for path in found if (place / path).is_file())


def _looks_like_a_path(match: re.Match[str]) -> bool:
    """A bare word is a program on PATH, or an argument."""
    return bool(match["above"] or {"/", "."} & {*match["path"]})


def _copy(path: str, root: Path, copies: dict[str, tuple[bytes, int]]) -> None:
    """The file, and whatever files beside it or of the tree it names."""
    waiting = [path]
    while waiting and len(copies) < MOST:
        name = waiting.pop()
        file = root / name
        if name in copies or not _is_inside(file, root) or file.stat().st_size > LARGEST:
            continue
        copies[name] = file.read_bytes(), stat.S_IMODE(file.stat().st_mode)
        text = copies[name][0].decode("utf-8", "replace")
        for place in (root, file.parent):
            near = (os.path.normpath(place / word) for word in WORD.findall(text))
            waiting += [Path(one).relative_to(root).as_posix() for one in near if _is_inside(Path(one), root)]


def _is_inside(file: Path, root: Path) -> bool:
    real = file.resolve()
    return file.is_file() and real.is_relative_to(root) and not real.is_relative_to(root / ".git")


def _replaced(match: re.Match[str], copies: Copies, folder: Path) -> str:
    if match["path"] not in copies or not _looks_like_a_path(match):
        return match[0]
    whole = shlex.quote(str(folder / match["path"]))
    above = match["above"] or ""
    return f'"{folder / match["path"]}' if above.startswith('"') and above.count('"') == 1 else whole
