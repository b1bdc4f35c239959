"""Files that git-lfs keeps beside the commits: each is what its name says, and goes where its commit goes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from beads_ralph.git import commands
from beads_ralph.git.settings import GitSettings

PLACE: Final = Path("lfs", "objects")
NAME: Final = re.compile(r"[0-9a-f]{64}")
SLACK_SECONDS: Final = 2.0  # clocks of files and of processes differ a little


def are_named(root: Path, commit: str) -> bool:
    """True if a commit says of some of its files that git-lfs keeps them."""
    files = (".gitattributes", "**/.gitattributes")
    return commands.run("grep", "--quiet", "--fixed-strings", "filter=lfs", commit, "--", *files, cwd=root).ok


def are_served(root: Path) -> bool:
    """True if git has a filter for them, and a program behind it."""
    filters = ("config", "--get-regexp", r"^filter\.lfs\.(process|smudge)$")
    return all(commands.run(*asked, cwd=root).ok for asked in (filters, ("lfs", "version")))


def are_kept(found: GitSettings) -> bool:
    """True if there is any here; git-lfs may be installed for all repositories, and few need it."""
    return next(_files(found.common), None) is not None


def forged(found: GitSettings) -> list[Path]:
    """Those that came since the run began and do not have the hash that they are named by. git-lfs itself
    looks only when it fetches one, so here it would show what nobody else can get."""
    since = found.since - SLACK_SECONDS
    return [path for path in _files(found.common) if path.stat().st_ctime >= since and not _is_sound(path)]


def take_over(repository: Path, into: GitSettings) -> None:
    """Take over the files of another repository that are what their names say."""
    for file in _files(repository):
        target = into.common / PLACE / file.name[:2] / file.name[2:4] / file.name
        with suppress(OSError):
            if not target.exists() and _is_sound(file):
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, target)


def _is_sound(path: Path) -> bool:
    """A link, a pipe and what cannot be read are not."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == path.name
    except OSError:
        return False


def _files(repository: Path) -> Iterator[Path]:
    for place, _folders, names in os.walk(repository / PLACE):
        yield from (Path(place, name) for name in names if NAME.fullmatch(name))
