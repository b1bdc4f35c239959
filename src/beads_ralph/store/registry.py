"""The stores by name, and which of them a repository uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beads_ralph.config.settings_file import StoreChoice, StoreName
from beads_ralph.config.store_settings import StoreSettings, store_settings
from beads_ralph.config.workspace import Place, Workspace
from beads_ralph.errors import Fault
from beads_ralph.process import jobs
from beads_ralph.store.views import StoreViews, Views

if TYPE_CHECKING:
    from beads_ralph.store.protocol import Store


@dataclass(frozen=True)
class Kind:
    """One kind of store: how it is opened, looked at, and set up where there is none."""

    open: Callable[[Place, StoreSettings], Store]
    look: Callable[[Place, StoreSettings], Views]
    initialise: Callable[[Path], object]


def _embedded(place: Place, _settings: StoreSettings) -> Store:
    from beads_ralph.store.embedded.embedded_store import EmbeddedStore

    return EmbeddedStore(place.root)


def _embedded_views(place: Place, _settings: StoreSettings) -> Views:
    from beads_ralph.store.embedded.views import EmbeddedViews

    return EmbeddedViews(place.root)


def _initialise_embedded(root: Path) -> None:
    from beads_ralph.store.embedded import embedded_store

    embedded_store.initialise(root)


def _bd(place: Place, settings: StoreSettings) -> Store:
    from beads_ralph.store.bd.bd_store import BdStore

    return BdStore(place.root, timeout=settings.bd_timeout, checkout=place.checkout)


def _bd_views(place: Place, settings: StoreSettings) -> Views:
    return StoreViews(_bd(place, settings))


def _initialise_bd(root: Path) -> None:
    from beads_ralph.store.bd import setup

    setup.initialise(root)


# Each store is imported when it is opened: a command pays for one of them.
STORES: Final[Mapping[StoreName, Kind]] = {
    "embedded": Kind(_embedded, _embedded_views, _initialise_embedded),
    "bd": Kind(_bd, _bd_views, _initialise_bd),
}


@dataclass(frozen=True)
class OpenStore:
    """A store that passed its preflight, and one sentence on which one it is and why."""

    store: Store
    why: str
    warnings: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class OpenViews:
    """The same, to be looked at."""

    views: Views
    why: str
    warnings: tuple[Fault, ...] = ()


def open_store(workspace: Workspace, choice: StoreChoice | None = None) -> OpenStore:
    """Open the store asked for, or the one that `auto` means here; its preflight has passed."""
    config = workspace.config
    kind, why = chosen(workspace, choice or config.store)
    store = STORES[kind].open(workspace, StoreSettings(config.store, config.bd_timeout))
    return OpenStore(store, why, (*workspace.warnings, *store.check().warnings))


def open_views(place: Place, choice: StoreChoice | None = None) -> OpenViews:
    """The same for those who only look; of the settings they need no more than the store's."""
    settings = store_settings(place.root)
    kind, why = chosen(place, choice or settings.store)
    views = STORES[kind].look(place, settings)
    return OpenViews(views, why, (*settings.warnings, *views.check().warnings))


def chosen(place: Place, choice: StoreChoice) -> tuple[StoreName, str]:
    """The store meant, and why; `auto` is bd where `.beads/` is initialised and bd is there."""
    if choice != "auto":
        return choice, f"{choice} store, as asked for"
    initialised = has_bd_database(place.root)
    if initialised and jobs.which("bd"):
        return "bd", "bd store (.beads/ is initialised here)"
    if initialised:
        return "embedded", "embedded store (.beads/ is here, but bd is not on PATH)"
    return "embedded", "embedded store (no bd database here)"


def has_bd_database(root: Path) -> bool:
    return (root / ".beads" / "metadata.json").is_file()
