"""Where we are: the repository, its configuration, and the store that its beads live in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from beads_ralph import config, prompts
from beads_ralph.bead.legacy import AGENTS_DIR
from beads_ralph.bead.model import CLAUDE
from beads_ralph.config import CONFIG_NAME, Config
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.files.ralph_dir import NAME, ralph_dir
from beads_ralph.git import commands
from beads_ralph.process import proc
from beads_ralph.store.bd import bd_store
from beads_ralph.store.embedded import embedded_store
from beads_ralph.store.protocol import Store

StoreChoice = Literal["auto", "embedded", "bd"]


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
        return self.root / NAME

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
    settings, warnings = config.load(root, config_file)
    checkout = commands.toplevel(here) if repository else None
    return Workspace(root, repository, settings, tuple(warnings), checkout)


# --- stores -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenStore:
    """A store that passed its preflight, and one sentence on which one it is and why."""

    store: Store
    why: str
    warnings: tuple[Fault, ...] = ()


STORES: Final[dict[str, Callable[[Workspace], Store]]] = {
    "embedded": lambda workspace: embedded_store.EmbeddedStore(workspace.root),
    "bd": lambda workspace: bd_store.BdStore(
        workspace.root, timeout=workspace.config.bd_timeout, checkout=workspace.checkout
    ),
}


def open_store(workspace: Workspace, choice: StoreChoice | None = None) -> OpenStore:
    """The store asked for, or the one that `auto` means here; its preflight has passed."""
    asked = choice or workspace.config.store
    kind, why = _auto(workspace) if asked == "auto" else (asked, f"{asked} store, as asked for")
    store = STORES[kind](workspace)
    return OpenStore(store, why, (*workspace.warnings, *store.check().warnings))


def _auto(workspace: Workspace) -> tuple[str, str]:
    """bd where `.beads/` is initialised and bd is there, embedded otherwise."""
    initialised = has_bd_database(workspace.root)
    if initialised and proc.which("bd"):
        return "bd", "bd store (.beads/ is initialised here)"
    if initialised:
        return "embedded", "embedded store (.beads/ is here, but bd is not on PATH)"
    return "embedded", "embedded store (no bd database here)"


def has_bd_database(root: Path) -> bool:
    return (root / ".beads" / "metadata.json").is_file()


# --- init -------------------------------------------------------------------------------------------

REVIEWER: Final = "qa-code-review"
"""One of the agent files that come with the program."""
CONFIG_TEXT: Final = """\
# Settings of beads-ralph for this repository. Every key is optional; docs/configuration.md lists them all.

store: {store}            # auto | embedded | bd

# What a sprint need not say itself; the front matter of a plan goes first.
plan:
  rig: {rig}
  source_branch: {source_branch}
  dev_agents:
    - claude (sonnet)
  qa_agents:
    - {reviewer} (sonnet) - Review the change against its tasks; run the tests; fail on anything unfinished

agent_defaults:
  default_model: sonnet
"""


@dataclass(frozen=True)
class Initialised:
    store: str
    created: tuple[str, ...]
    kept: tuple[str, ...]
    warnings: tuple[Fault, ...] = ()


def init(workspace: Workspace, choice: StoreChoice, *, personas: bool = True) -> Initialised:
    """Set the repository up. What exists is kept as it is, so that running it again is harmless."""
    if workspace.repository is None:
        message = f"{workspace.root} is not a git repository"
        raise RalphError(Code.GIT_NOT_REPO, message, suggested_action="Run: git init, then beads-ralph init")
    kind = _auto(workspace)[0] if choice == "auto" else choice
    paths = [workspace.root / CONFIG_NAME, workspace.home, workspace.state]
    if kind == "bd":
        paths.append(workspace.root / ".beads")
    before = {path for path in paths if path.exists()}
    (bd_store if kind == "bd" else embedded_store).initialise(workspace.root)
    ralph_dir(workspace.root)
    _prepare_state(workspace)
    STORES[kind](workspace).check()
    if paths[0] not in before:
        reviewer = REVIEWER if personas else CLAUDE
        text_files.write_text(paths[0], _config_text(workspace, choice, reviewer))
    installed, own = _install_personas(workspace.root) if personas else ([], [])
    return Initialised(
        kind,
        (*(path.name for path in paths if path not in before), *installed),
        (*(path.name for path in paths if path in before), *own),
        (*workspace.warnings, *_other_store(workspace, choice)),
    )


def _prepare_state(workspace: Workspace) -> None:
    """The folders of run and result records, with their schemas."""
    from beads_ralph.journal.records.folder import StateFolder

    StateFolder(workspace.state).prepare()


def _install_personas(root: Path) -> tuple[list[str], list[str]]:
    """The agent files that were written, and those that the user has already: theirs stay as they are."""
    made: list[str] = []
    kept: list[str] = []
    text_files.make_folder(root / AGENTS_DIR)
    for name, text in sorted(prompts.agent_files().items()):
        path = root / AGENTS_DIR / name
        there = path.exists() or path.is_symlink()
        if not there:
            text_files.write_text(path, text)
        (kept if there else made).append(f"{AGENTS_DIR}{name}")
    return made, kept


def _other_store(workspace: Workspace, choice: StoreChoice) -> list[Fault]:
    """The settings were there before and name another store: they are the user's to change."""
    said = workspace.config.store
    if choice == "auto" or said in ("auto", choice):
        return []
    message = f"{CONFIG_NAME} says store: {said}; commands take that unless told --store {choice}"
    action = f"Change it to store: {choice}"
    return [Fault(Code.CONFIG_INVALID, message, file=CONFIG_NAME, field="store", suggested_action=action)]


def _config_text(workspace: Workspace, choice: StoreChoice, reviewer: str) -> str:
    branch = workspace.repository.current_branch() if workspace.repository else None
    return CONFIG_TEXT.format(
        store=choice,
        rig=_quoted(workspace.root.name),
        source_branch=_quoted(branch or "main"),
        reviewer=reviewer,
    )


def _quoted(word: str) -> str:
    """YAML takes a JSON string as it is, and would take the bare word `true` or `123` for something else."""
    return json.dumps(word, ensure_ascii=False)
