"""Setting a repository up: settings, folders, store, agent files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph import prompts
from beads_ralph.bead.model import CLAUDE
from beads_ralph.bead.names import AGENTS_DIR
from beads_ralph.config.project_checks import ProjectCheck, settings_text
from beads_ralph.config.published import json_schema
from beads_ralph.config.settings_file import CONFIG_NAME, StoreChoice
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.store.registry import STORES, chosen, open_store

SCHEMA_NAME: Final = "beads-ralph.schema.json"
"""The schema of the settings, for editors: below `.ralph`, written anew by each `init`."""
REVIEWER: Final = "qa-code-review"
"""One of the agent files that come with the program."""
CONFIG_TEXT: Final = """\
# yaml-language-server: $schema=.ralph/beads-ralph.schema.json
# Settings of beads-ralph for this repository. Every key is optional.
# `beads-ralph config show` lists them all, and `beads-ralph config explain WORD` says what one means.

store: {store}            # auto | embedded | bd

# What a sprint need not say itself; the front matter of a plan takes precedence.
plan:
  rig: {rig}
  source_branch: {source_branch}
  dev_agents:
    - claude (sonnet)
  qa_agents:
    - {reviewer} (sonnet) - Review the change against its tasks; run the tests; fail on anything unfinished
{verify}
agent_defaults:
  default_model: sonnet
"""


@dataclass(frozen=True)
class Initialised:
    store: str
    created: tuple[str, ...]
    kept: tuple[str, ...]
    warnings: tuple[Fault, ...] = ()


def init(
    workspace: Workspace, choice: StoreChoice, *, personas: bool = True, checks: Sequence[ProjectCheck] = ()
) -> Initialised:
    """Set the repository up. What exists is kept as it is, so that running it again is harmless."""
    if workspace.repository is None:
        message = f"{workspace.root} is not a git repository"
        raise RalphError(Code.GIT_NOT_REPO, message, suggested_action="Run: git init, then beads-ralph init")
    kind, _ = chosen(workspace, choice)
    paths = [workspace.root / CONFIG_NAME, workspace.home, workspace.state]
    if kind == "bd":
        paths.append(workspace.root / ".beads")
    before = {path for path in paths if path.exists()}
    STORES[kind].initialise(workspace.root)
    home = ralph_dir(workspace.root)
    text_files.write_text(home / SCHEMA_NAME, json.dumps(json_schema(), indent=1) + "\n")
    StateFolder(workspace.state).prepare()
    open_store(workspace, kind)
    if paths[0] not in before:
        reviewer = REVIEWER if personas else CLAUDE
        text_files.write_text(paths[0], _config_text(workspace, choice, reviewer, settings_text(checks)))
    installed, own = _install_personas(workspace.root) if personas else ([], [])
    return Initialised(
        kind,
        (*(path.name for path in paths if path not in before), *installed),
        (*(path.name for path in paths if path in before), *own),
        (*workspace.warnings, *_other_store(workspace, choice)),
    )


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


def _config_text(workspace: Workspace, choice: StoreChoice, reviewer: str, verify: str) -> str:
    branch = workspace.repository.current_branch() if workspace.repository else None
    return CONFIG_TEXT.format(
        store=choice,
        rig=_quoted(workspace.root.name),
        source_branch=_quoted(branch or "main"),
        reviewer=reviewer,
        verify=verify,
    )


def _quoted(word: str) -> str:
    """YAML takes a JSON string as it is, and would take the bare word `true` or `123` for something else."""
    return json.dumps(word, ensure_ascii=False)
