"""Where we are: the repository, its configuration, and the working tree that we stand in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from beads_ralph.config.model import Config
from beads_ralph.config.read import load
from beads_ralph.errors import Fault
from beads_ralph.files.text_files import RALPH_DIR
from beads_ralph.git import commands


@dataclass(frozen=True)
class Workspace:
    """A repository (or, outside of git, a folder) with its settings."""

    root: Path
    repository: commands.Repository | None
    config: Config
    warnings: tuple[Fault, ...] = ()
    checkout: Path | None = None
    """The working tree we stand in, where that is a worktree beside the main one."""

    @property
    def home(self) -> Path:
        """Where our own files of this repository lie, made or not."""
        return self.root / RALPH_DIR

    @property
    def state(self) -> Path:
        """Where run and result records lie, made or not."""
        return self.root / Path(self.config.state_dir).expanduser()

    def branches(self) -> frozenset[str]:
        return self.repository.branches() if self.repository else frozenset()

    def relative(self, path: Path) -> str:
        """The path as beads store it: from the root, with forward slashes; the same in every worktree."""
        # realpath, since resolve() raises for a link to itself; reading it will say what is wrong
        real = Path(os.path.realpath(path))
        if self.checkout is not None and real.is_relative_to(self.checkout):
            return real.relative_to(self.checkout).as_posix()
        return Path(os.path.relpath(real, self.root)).as_posix()


def find(start: Path | None = None, config_file: Path | None = None) -> Workspace:
    """The workspace around `start`; in a git worktree that is the main repository's."""
    here = (start or Path.cwd()).resolve()
    repository = commands.find(here)
    root = repository.root if repository else here
    settings, warnings = load(root, config_file)
    checkout = commands.toplevel(here) if repository else None
    return Workspace(root, repository, settings, tuple(warnings), checkout)
