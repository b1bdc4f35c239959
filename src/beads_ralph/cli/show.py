"""show: beads and items in full."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beads_ralph.bead.names import CONTAINERS, MERGE, MERGE_WORDS
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.listing import COLOURS, MARKS
from beads_ralph.cli.page import Line, line
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.store import registry
from beads_ralph.store.query import ItemQuery, Query
from beads_ralph.store.views import BeadView, Views

if TYPE_CHECKING:
    from beads_ralph.bead.items import Item
    from beads_ralph.bead.model import Bead
    from beads_ralph.store.people import PersonsItem
    from beads_ralph.store.protocol import Store


def show(
    ids: options.BeadIds,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Show beads in full."""
    opened = registry.open_views(workspace.place(), store)
    found = [_bead_or_item(opened.views, name) for name in ids]
    data = {
        "beads": [one.told() for one in found if isinstance(one, BeadView)],
        "items": [one.to_json() for one in found if isinstance(one, Held)],
        "store": opened.views.kind,
    }
    pages = (_bead_page(one) if isinstance(one, BeadView) else _item_page(one) for one in found)
    return Answer(data, page=lambda: (block for page in pages for block in page), warnings=opened.warnings)


def _bead_or_item(views: Views, name: str) -> BeadView | Held:
    """A bead first: most are, and it takes no second question then."""
    try:
        return views.show(name)
    except RalphError as problem:
        if problem.code is not Code.BEAD_NOT_FOUND:
            raise
        store = views.store
        found = store.items.find(ItemQuery(ids=[name]))
        if not found:
            raise
        return Held.of(store, found[0])


@dataclass(frozen=True)
class Held:
    """An item, and the status of everything in it."""

    item: Item
    members: Mapping[str, str]
    step: PersonsItem | None = None
    """The item as a step for a person, where it is one."""

    @classmethod
    def of(cls, store: Store, item: Item) -> Held:
        if item.issue_type not in CONTAINERS:
            from beads_ralph.store.people import persons_item

            return cls(item, {}, persons_item(store, item))
        members: list[Bead | Item] = [*store.find(Query(parents=[item.id], wisps=True)).beads]
        members += store.items.find(ItemQuery(parents=[item.id]))
        if item.tracks:
            members += store.find(Query(ids=item.tracks)).beads
            members += store.items.find(ItemQuery(ids=item.tracks))
        return cls(item, {one.id: one.status for one in members})

    def to_json(self) -> dict[str, Any]:
        step = self.step
        own = {"waits_for": list(step.waits_for), "command": step.command} if step else {}
        return self.item.to_json() | {"members": dict(self.members), "for_a_person": bool(step), **own}


def _head(name: str, title: str, status: str) -> Line:
    return line((name, "bold"), f"  {title}  ", (status, COLOURS[status]))


def _row(name: str, value: str) -> Line:
    return line((f"  {name:<13}", "dim"), value)


def _item_page(held: Held) -> Iterator[Line]:
    item, gate = held.item, held.item.gate
    closed = sum(status == "closed" for status in held.members.values())
    yield _head(item.id, item.title, item.status)
    rows = (
        ("type", f"{item.issue_type}{', a wisp' if item.ephemeral else ''}"),
        ("part of", item.parent),
        ("for", item.assignee or (held.step and "a person")),
        ("lets pass", gate and " ".join(filter(None, (gate.type, gate.await_id, gate.timeout)))),
        ("waits for", ", ".join(item.dependencies) or "nothing"),
        ("closed", f"{closed} of {len(held.members)}" if held.members else None),
        ("labels", ", ".join(item.labels)),
        ("reason", item.close_reason),
    )
    yield from (_row(name, value) for name, value in rows if value)
    for name, status in held.members.items():
        yield line("  ", (MARKS[status], COLOURS[status]), f" {name}")
    yield from (line(f"  {text}") for text in (item.description, item.notes) if text)
    if held.step and held.step.waits_for:
        yield line(("  not yet: ", "dim"), f"{', '.join(held.step.waits_for)} must be closed before it")
    elif held.step and held.step.command:
        yield line(f"  → when it is done: {held.step.command}")


def _team(bead: BeadView) -> str:
    """Its name, and where its work is: the session that went on, or the bead that its team is at work on."""
    team = str(bead.metadata["team_name"])
    if bead.session_of:
        return f"{team} (went on in the session of {bead.session_of})"
    other = _at_work_of(bead.id) if bead.status == "open" else None
    return f"{team} (waits for its session, in which {other} is worked on)" if other else team


def _at_work_of(bead_id: str) -> str | None:
    from beads_ralph.journal import journal, runs

    home = workspace.place().home
    folder = runs.latest(home) if runs.is_running(home) else None
    if folder is None:
        return None
    from beads_ralph.cli.run_status import awaiting_team

    waits = awaiting_team(journal.read(folder.journal))
    return next((row["by"] for row in waits if row["bead"] == bead_id), None)


def _merge(bead: BeadView) -> str:
    """The branches, what becomes of the tasks, and what made it a merge. The bead does not know whether its
    plan has a **Type** as well."""
    branches = ", ".join(bead.metadata.get("branches_to_merge") or ())
    then = "then the tasks are done" if bead.metadata["dev_prompts"] else "and that is all"
    said = "; a merge by its title, or by **Type** in the plan" if MERGE_WORDS.search(bead.title) else ""
    return f"{branches} (git first, {then}{said})"


def _bead_page(bead: BeadView) -> Iterator[Line]:
    place, said = bead.metadata, bead.json
    yield _head(bead.id, bead.title, bead.status)
    attempts = f"{bead.attempts} of {place.get('max_retry_attempts', 3)}"
    rows = (
        ("sprint", f"{place['sprint']} of {place['plan_file']}"),
        ("team", _team(bead)),
        ("branch", f"{place['branch']} (from {place['source_branch']})"),
        ("worktree", place["worktree_path"]),
        *((("part of", bead.parent),) if bead.parent else ()),
        ("waits for", ", ".join(bead.dependencies) or "nothing"),
        *((("merges", _merge(bead)),) if said["issue_type"] == MERGE else ()),
        ("labels", ", ".join(said.get("labels", ()))),
        ("agents", ", ".join(spec["agent"] for spec in (*place["dev_agents"], *place["qa_agents"]))),
        ("attempts", attempts),
        *((("standing", bead.told_standing),) if bead.standing else ()),
        ("pull request", bead.pull_request or "none"),
        *(("look at", flag) for flag in bead.flags),
        *(("found", told) for told in _found(bead)),
    )
    yield from (_row(name, value) for name, value in rows)
    yield from (line(f"  • {prompt}") for prompt in place["dev_prompts"])
    yield from (line((f"  {_comment(one)}", "dim")) for one in said.get("comments", ()))


def _found(bead: BeadView) -> Iterator[str]:
    """What is held against the work, in the words of whoever found it."""
    for row in bead.findings:
        yield f"{row['by']} (attempt {row['attempt']}): {' '.join(row['words'].split())}"


def _comment(said: Any) -> str:
    """Who said it, when, and what; as it is stored, where it is of another shape."""
    text = said.get("text") if isinstance(said, dict) else said
    if not isinstance(text, str):
        return f"“{json.dumps(said, ensure_ascii=False)}”"
    known = said if isinstance(said, dict) else {}
    by = ", ".join(str(known[key]) for key in ("author", "created_at") if known.get(key))
    return f"“{text}” ({by})" if by else f"“{text}”"
