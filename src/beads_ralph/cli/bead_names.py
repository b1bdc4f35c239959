"""Short names of beads: a sprint's number, or the beginning of an id, wherever a command takes a bead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from beads_ralph.bead.words import several
from beads_ralph.cli.answer import Answer
from beads_ralph.errors import Code, RalphError

PARAMETERS: Final = ("bead", "ids", "item")
"""How commands call what takes the id of a bead or a step."""


def call(command: Callable[..., Answer], said: Mapping[str, Any]) -> Answer:
    """Call a command; where it finds no bead of a name, once more with the id that the name is short for."""
    try:
        return command(**said)
    except RalphError as problem:
        if problem.code is not Code.BEAD_NOT_FOUND:
            raise
        full = _completed(said)
        if full == said:
            raise
        return command(**full)


def _completed(said: Mapping[str, Any]) -> dict[str, Any]:
    """The same words with ids in full; names that nothing has stay as they are."""
    named = {key: said[key] for key in PARAMETERS if said.get(key)}
    known = _known(said.get("store")) if named else {}
    return {**said, **{key: _full(value, known) for key, value in named.items()}}


def _full(value: str | list[str], known: Mapping[str, str]) -> str | list[str]:
    if isinstance(value, str):
        return full_id(value, known)
    return [full_id(word, known) for word in value]


def resolved(word: str) -> str:
    """The id that a name is short for; the name itself where it is none."""
    return full_id(word, _known(None))


def full_id(word: str, known: Mapping[str, str]) -> str:
    """The id that a name is short for, among these ids with their sprints. A sprint's number goes before the
    beginning of an id, with or without what stands before the first hyphen of it."""
    if word in known or not word:
        return word
    by_sprint = [name for name, sprint in known.items() if sprint == word]
    begun = [name for name in known if name.startswith(word) or name.partition("-")[2].startswith(word)]
    found = by_sprint or begun
    if len(found) > 1:
        message = f"{word} may be any of {len(found)} beads: {several(sorted(found))}"
        raise RalphError(Code.BEAD_NOT_FOUND, message, suggested_action="Give more of the id")
    return found[0] if found else word


def _known(store: Any) -> dict[str, str]:
    """Every id in the store, with the number of its sprint."""
    from beads_ralph.config import workspace
    from beads_ralph.store import registry
    from beads_ralph.store.query import ItemQuery, Query

    views = registry.open_views(workspace.place(), store).views
    listing = views.find(Query(wisps=True))
    found = {bead.id: str(bead.metadata.get("sprint") or "") for bead in listing.beads}
    found |= {broken.id: "" for broken in listing.unreadable}
    return {**{item.id: "" for item in views.store.items.find(ItemQuery())}, **found}


def completions(begun: str) -> list[str]:
    """The ids that begin so, and the sprints, for a shell; nothing where there is no store."""
    try:
        known = _known(None)
    except (RalphError, OSError):
        return []
    return sorted(name for name in known if name.startswith(begun))
