"""Files that git-lfs keeps beside the commits: each is what its name says, and goes where its commit goes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from beads_ralph.git.settings import GitSettings

NAME_LENGTH: Final = 64
SLACK_SECONDS: Final = 2.0  # clocks of files and of processes differ a little


def are_kept(found: GitSettings) -> bool:
    """Whether there is any here; git-lfs may be installed for all repositories, and few need it."""
    return next(_files(found), None) is not None


def forged(found: GitSettings) -> list[Path]:
    """Those that came since the run began and do not have the hash that they are named by. git-lfs itself
    looks only when it fetches one, so here it would show what nobody else can get."""
    since = found.since - SLACK_SECONDS
    return [path for path in _files(found) if path.stat().st_ctime >= since and not _is_sound(path)]


def _is_sound(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == path.name


def _files(found: GitSettings) -> Iterator[Path]:
    for place, _folders, names in os.walk(found.common / "lfs" / "objects"):
        yield from (Path(place, name) for name in names if len(name) == NAME_LENGTH)
