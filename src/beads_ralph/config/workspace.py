"""Where we are: the repository, its configuration, and the working tree that we stand in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beads_ralph.errors import Fault
from beads_ralph.files.text_files import RALPH_DIR
from beads_ralph.git import commands

if TYPE_CHECKING:
    from beads_ralph.config.model import Config


@dataclass(frozen=True)
class RalphPlace:
    """A repository or, outside of git, a folder."""

    root: Path
    repository: commands.Repository | None
    checkout: Path | None
    """The working tree we stand in, where that is a worktree beside the main one."""

    @property
    def home(self) -> Path:
        """Where our own files of this repository lie, made or not."""
        return self.root / RALPH_DIR

    def relative(self, path: Path) -> str:
        """The path as beads store it: from the root, with forward slashes; the same in every worktree."""
        # realpath, since resolve() raises for a link to itself; reading it will say what is wrong
        real = Path(os.path.realpath(path))
        if self.checkout is not None and real.is_relative_to(self.checkout):
            return real.relative_to(self.checkout).as_posix()
        return Path(os.path.relpath(real, self.root)).as_posix()


@dataclass(frozen=True)
class Workspace(RalphPlace):
    """The same, with its settings."""

    config: Config
    warnings: tuple[Fault, ...] = ()

    @property
    def state(self) -> Path:
        """Where run and result records lie, made or not."""
        return self.root / Path(self.config.state_dir).expanduser()

    def branches(self) -> frozenset[str]:
        return self.repository.branches() if self.repository else frozenset()


def place(start: Path | None = None) -> RalphPlace:
    """The place around `start`; in a git worktree that is the main repository's."""
    here = (start or Path.cwd()).resolve()
    repository = commands.find(here)
    root, checkout = (repository.root, repository.tree) if repository else (here, None)
    return RalphPlace(root, repository, checkout)


def find(start: Path | None = None, config_file: Path | None = None) -> Workspace:
    """The workspace around `start`; in a git worktree that is the main repository's."""
    from beads_ralph.config.read import load

    here = place(start)
    config, warnings = load(here.root, config_file)
    return Workspace(here.root, here.repository, here.checkout, config, tuple(warnings))
