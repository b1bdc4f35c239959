"""The stores by name, and which of them a repository uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.config.store_settings import StoreChoice, StoreName
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Fault
from beads_ralph.process import jobs
from beads_ralph.store.protocol import Store


@dataclass(frozen=True)
class Kind:
    """One kind of store: how it is opened, and how it is set up where there is none."""

    open: Callable[[Workspace], Store]
    initialise: Callable[[Path], object]


def _embedded(workspace: Workspace) -> Store:
    from beads_ralph.store.embedded.embedded_store import EmbeddedStore

    return EmbeddedStore(workspace.root)


def _initialise_embedded(root: Path) -> None:
    from beads_ralph.store.embedded import embedded_store

    embedded_store.initialise(root)


def _bd(workspace: Workspace) -> Store:
    from beads_ralph.store.bd.bd_store import BdStore

    return BdStore(workspace.root, timeout=workspace.config.bd_timeout, checkout=workspace.checkout)


def _initialise_bd(root: Path) -> None:
    from beads_ralph.store.bd import setup

    setup.initialise(root)


# Each store is imported when it is opened: a command pays for one of them.
STORES: Final[Mapping[StoreName, Kind]] = {
    "embedded": Kind(_embedded, _initialise_embedded),
    "bd": Kind(_bd, _initialise_bd),
}


@dataclass(frozen=True)
class OpenStore:
    """A store that passed its preflight, and one sentence on which one it is and why."""

    store: Store
    why: str
    warnings: tuple[Fault, ...] = ()


def open_store(workspace: Workspace, choice: StoreChoice | None = None) -> OpenStore:
    """Open the store asked for, or the one that `auto` means here; its preflight has passed."""
    kind, why = chosen(workspace, choice or workspace.config.store)
    store = STORES[kind].open(workspace)
    return OpenStore(store, why, (*workspace.warnings, *store.check().warnings))


def chosen(workspace: Workspace, choice: StoreChoice) -> tuple[StoreName, str]:
    """The store meant, and why; `auto` is bd where `.beads/` is initialised and bd is there."""
    if choice != "auto":
        return choice, f"{choice} store, as asked for"
    initialised = has_bd_database(workspace.root)
    if initialised and jobs.which("bd"):
        return "bd", "bd store (.beads/ is initialised here)"
    if initialised:
        return "embedded", "embedded store (.beads/ is here, but bd is not on PATH)"
    return "embedded", "embedded store (no bd database here)"


def has_bd_database(root: Path) -> bool:
    return (root / ".beads" / "metadata.json").is_file()
