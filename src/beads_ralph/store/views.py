"""Beads to be looked at: their JSON, without the models that it was validated by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from beads_ralph.bead.standing import Standing, standing, told_standing

if TYPE_CHECKING:
    from beads_ralph.bead.model import Bead
    from beads_ralph.store.people import PersonsItem
    from beads_ralph.store.protocol import Listing, Store
    from beads_ralph.store.query import Query, StoreInfo, UnreadableBead

FIELDS: Final = (
    *("id", "title", "description", "status", "priority", "issue_type", "assignee", "owner"),
    *("parent", "ephemeral", "dependencies", "labels", "comments", "external_ref"),
    *("created_at", "updated_at", "closed_at", "metadata"),
)
"""The fields of a bead in the order in which the model writes them."""


def arranged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A stored bead in the order in which the model writes it; keys that the model does not know last."""
    return {**{key: raw[key] for key in FIELDS if key in raw}, **raw}


@dataclass(frozen=True)
class BeadView:
    """A sound bead, as its JSON has it."""

    json: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.json["id"])

    @property
    def title(self) -> str:
        return str(self.json["title"])

    @property
    def status(self) -> str:
        return str(self.json["status"])

    @property
    def priority(self) -> int:
        return int(self.json.get("priority", 1))

    @property
    def parent(self) -> str | None:
        return self.json.get("parent")

    @property
    def dependencies(self) -> Sequence[str]:
        return tuple(self.json.get("dependencies", ()))

    @property
    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.json["metadata"]
        return found

    # What runs keep in there, as `bead.run_state` has it.

    @property
    def attempts(self) -> int:
        return int(self.metadata.get("attempt_count", 0))

    @property
    def pull_request(self) -> str | None:
        return self.metadata.get("pr_url")

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """What is held against its work and nobody has settled."""
        return self.metadata.get("open_findings") or ()

    @property
    def parked(self) -> Mapping[str, Any] | None:
        return self.metadata.get("parked")

    @property
    def session_of(self) -> str | None:
        """The bead of its team that the last session of a developer was begun for."""
        calls = self.metadata.get("dev_agent_executions") or ()
        return next((one["session_of"] for one in reversed(calls) if one.get("session_of")), None)

    @property
    def error(self) -> str | None:
        """Why its work came to nothing."""
        return (self.metadata.get("scrum_result") or {}).get("error")

    @property
    def flags(self) -> Sequence[str]:
        """What a reviewer of its last attempt should know."""
        return tuple((self.metadata.get("last_verdict") or {}).get("flags") or ())

    @property
    def standing(self) -> Standing | None:
        """What its close rests on; None of one that is not closed, or by no run."""
        return standing(self.metadata) if self.status == "closed" else None

    @property
    def told_standing(self) -> str:
        """The same in words; empty where there is none."""
        return told_standing(self.metadata) if self.standing else ""

    def to_json(self) -> dict[str, Any]:
        return dict(self.json)

    def told(self) -> dict[str, Any]:
        """The same for those who look: with its standing and its flags, where it has any."""
        more = {"standing": self.standing, "flags": list(self.flags)}
        return {**self.json, **{key: value for key, value in more.items() if value}}


@dataclass(frozen=True)
class ViewListing:
    """The result of a query, in the store's order."""

    beads: tuple[BeadView, ...]
    unreadable: tuple[UnreadableBead, ...]
    people: bool = False
    """As in `Listing`."""


class Views(Protocol):
    """A store for those who only look: each method answers as the one of `Store` that has its name."""

    kind: str

    @property
    def store(self) -> Store:
        """The whole store, for what a view cannot tell."""

    def check(self) -> StoreInfo:
        """Preflight."""

    def show(self, bead_id: str) -> BeadView:
        """One bead with its comments."""

    def find(self, query: Query) -> ViewListing:
        """Beads by id, status, label, plan."""

    def ready(self, limit: int | None = None) -> ViewListing:
        """Open beads all of whose dependencies are closed."""


def view_of(bead: Bead) -> BeadView:
    return BeadView(bead.to_json())


class StoreViews:
    """The views of a store that validates whatever it reads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.kind = store.kind

    def check(self) -> StoreInfo:
        return self.store.check()

    def show(self, bead_id: str) -> BeadView:
        return view_of(self.store.show(bead_id))

    def find(self, query: Query) -> ViewListing:
        return _viewed(self.store.find(query))

    def ready(self, limit: int | None = None) -> ViewListing:
        return _viewed(self.store.ready(limit))


def _viewed(listing: Listing) -> ViewListing:
    return ViewListing(tuple(map(view_of, listing.beads)), listing.unreadable, listing.people)


def peoples(
    views: Views, found: ViewListing, *, only_open: bool = False, plan_file: str | None = None
) -> list[PersonsItem]:
    """The steps of people; where the store has none, nothing is loaded for them."""
    if not found.people:
        return []
    from beads_ralph.store.people import peoples_items

    return peoples_items(views.store, only_open=only_open, plan_file=plan_file)
