"""show: beads and items in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.listing import COLOURS, MARKS
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.store import registry
from beads_ralph.store.protocol import ItemQuery, Query, Store

if TYPE_CHECKING:
    from rich.console import Console


def show(
    ids: options.BeadIds,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Show beads in full."""
    opened = registry.open_store(workspace.find(), store)
    found = [_bead_or_item(opened.store, name) for name in ids]
    data = {
        "beads": [one.to_json() for one in found if isinstance(one, Bead)],
        "items": [one.to_json() for one in found if isinstance(one, Held)],
        "store": opened.store.kind,
    }
    return Answer(data, lambda console: _show(console, found), opened.warnings)


def _bead_or_item(store: Store, name: str) -> Bead | Held:
    """A bead first: most are, and it takes no second question then."""
    try:
        return store.show(name)
    except RalphError as problem:
        found = store.items.find(ItemQuery(ids=[name])) if problem.code is Code.BEAD_NOT_FOUND else []
        if not found:
            raise
        return Held.of(store, found[0])


@dataclass(frozen=True)
class Held:
    """An item, and the status of everything in it."""

    item: Item
    members: Mapping[str, str]

    @classmethod
    def of(cls, store: Store, item: Item) -> Held:
        if item.issue_type not in CONTAINERS:
            return cls(item, {})
        members: list[Bead | Item] = [*store.find(Query(parents=[item.id], wisps=True)).beads]
        members += store.items.find(ItemQuery(parents=[item.id]))
        if item.tracks:
            members += store.find(Query(ids=item.tracks)).beads
            members += store.items.find(ItemQuery(ids=item.tracks))
        return cls(item, {one.id: one.status for one in members})

    def to_json(self) -> dict[str, Any]:
        return self.item.to_json() | {"members": dict(self.members)}


def _show(console: Console, found: Sequence[Bead | Held]) -> None:
    for one in found:
        if isinstance(one, Bead):
            _show_bead(console, one)
        else:
            _show_item(console, one)


def _show_item(console: Console, held: Held) -> None:
    from rich.markup import escape

    item, gate = held.item, held.item.gate
    closed = sum(status == "closed" for status in held.members.values())
    name, colour = escape(item.id), COLOURS[item.status]
    console.print(f"[bold]{name}[/bold]  {escape(item.title)}  [{colour}]{item.status}[/]")
    rows = (
        ("type", f"{item.issue_type}{', a wisp' if item.ephemeral else ''}"),
        ("part of", item.parent),
        ("for", item.assignee),
        ("lets pass", gate and " ".join(filter(None, (gate.type, gate.await_id, gate.timeout)))),
        ("waits for", ", ".join(item.dependencies) or "nothing"),
        ("closed", f"{closed} of {len(held.members)}" if held.members else None),
        ("labels", ", ".join(item.labels)),
        ("reason", item.close_reason),
    )
    for name, value in rows:
        if value:
            console.print(f"  [dim]{name:<13}[/dim]{escape(value)}")
    for name, status in held.members.items():
        console.print(f"  [{COLOURS[status]}]{MARKS[status]}[/] {escape(name)}")
    for text in filter(None, (item.description, item.notes)):
        console.print(f"  {escape(text)}")


def _show_bead(console: Console, bead: Bead) -> None:
    from rich.markup import escape

    place = bead.metadata
    console.print(f"[bold]{bead.id}[/bold]  {escape(bead.title)}  [{COLOURS[bead.status]}]{bead.status}[/]")
    rows = (
        ("sprint", f"{place.sprint} of {place.plan_file}"),
        ("team", place.team_name),
        ("branch", f"{place.branch} (from {place.source_branch})"),
        ("worktree", place.worktree_path),
        *((("part of", bead.parent),) if bead.parent else ()),
        ("waits for", ", ".join(bead.dependencies) or "nothing"),
        ("labels", ", ".join(bead.labels)),
        ("agents", ", ".join(spec.agent for spec in (*place.dev_agents, *place.qa_agents))),
        ("attempts", f"{place.attempt_count} of {place.max_retry_attempts}"),
        ("pull request", place.pr_url or "none"),
    )
    for name, value in rows:
        console.print(f"  [dim]{name:<13}[/dim]{escape(value)}")
    for prompt in place.dev_prompts:
        console.print(f"  • {escape(prompt)}")
    for comment in bead.comments:
        said = comment if isinstance(comment, str) else json.dumps(comment, ensure_ascii=False)
        console.print(f"  [dim]“{escape(said)}”[/dim]")
