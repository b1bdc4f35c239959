"""wisp list, gc, burn: pours that do not stay, and how they go; `wisp pour` is a pour (pour.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from beads_ralph.bead.words import plural
from beads_ralph.cli import options, questions
from beads_ralph.cli.answer import Answer, speaker
from beads_ralph.cli.style import can_ask
from beads_ralph.cli.text import lines, table
from beads_ralph.config import workspace
from beads_ralph.config.kinds import Seconds
from beads_ralph.errors import Code, RalphError
from beads_ralph.store import registry, wisps
from beads_ralph.store.protocol import Store
from beads_ralph.store.wisps import Tree, Wisp, seen, tree_at, trees

if TYPE_CHECKING:
    from rich.console import Console


def list_wisps(store: options.Store = None, json_: options.Json = False) -> Answer:
    """List the wisps; those that nobody touched for a day are marked as old."""
    opened = registry.open_store(workspace.find(), store)
    now = datetime.now(UTC)
    found = trees(opened.store)
    rows = [_row(wisp, tree, now) for tree in found for wisp in tree.wisps]
    data = {
        "wisps": rows,
        "count": len(rows),
        "molecules": sum(tree.is_molecule for tree in found),
        "old": sum(row["old"] for row in rows),
        "store": opened.store.kind,
    }
    return Answer(data, lambda console: _show_list(console, data), opened.warnings)


def _row(wisp: Wisp, tree: Tree, now: datetime) -> dict[str, Any]:
    lasted = wisps.age(wisp, now)
    return {
        "id": wisp.id,
        "title": seen(wisp, "title"),
        "type": seen(wisp, "issue_type"),
        "status": seen(wisp, "status"),
        "age_seconds": int(lasted.total_seconds()),
        "old": lasted >= wisps.OLD,
        "molecule": tree.root.id,
    }


def _show_list(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    rows = table("wisp", "type", "status", "age", folding=("title",))
    for row in data["wisps"]:
        old = " (old)" if row["old"] else ""
        when = _spoken(timedelta(seconds=row["age_seconds"])) + old
        rows.add_row(row["id"], row["type"], row["status"], when, Text(str(row["title"])))
    if data["wisps"]:
        console.print(rows)
    counts = f"{plural(data['count'], 'wisp')} in {plural(data['molecules'], 'molecule')}"
    console.print(f"{counts}, {data['old']} of them old" if data["count"] else "no wisps")
    if data["old"]:
        console.print("  → remove the old ones: beads-ralph wisp gc")


def _spoken(lasted: timedelta) -> str:
    seconds = int(lasted.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


# --- removing ---------------------------------------------------------------------------------------

Force = Annotated[bool, typer.Option("--force", help="Remove without asking.")]


def collect(
    age: Annotated[str, typer.Option("--age", help="How long they must have been untouched.")] = "24h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed, what kept, and why.")
    ] = False,
    force: Force = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Remove wisps that are finished or that nobody touches; what is in progress stays."""
    oldest = age_of(age)
    opened = registry.open_store(workspace.find(), store)
    now = datetime.now(UTC)
    found = [(tree, tree.why_kept(now, oldest)) for tree in trees(opened.store)]
    kept = {tree.root.id: why for tree, why in found if why}
    going = [tree for tree, why in found if not why]
    removed: list[str] = []
    if going and not dry_run and _agreed(going, force=force):
        removed = _removed(opened.store, going, kept)
    data = {
        "dry_run": dry_run,
        "removable": [identity for tree in going for identity in tree.ids],
        "removed": removed,
        "kept": [{"id": identity, "why": why} for identity, why in kept.items()],
        "store": opened.store.kind,
    }
    return Answer(data, lines(*_collected(data)), opened.warnings)


def age_of(text: str) -> timedelta:
    """`24h`, `90m`, `1h30m`, `7d`, or a number of seconds."""
    word = re.sub(r"(\d{1,6})\s*d", lambda found: f"{int(found[1]) * 24}h", text.strip())
    if re.fullmatch(r"0+\s*[smh]?", word):
        return timedelta()
    try:
        return timedelta(seconds=TypeAdapter(Seconds).validate_python(word))
    except (ValidationError, OverflowError):
        message = f"--age {text!r} is not a duration"
        raise RalphError(Code.USAGE, message, suggested_action="Write for example: --age 24h") from None


def _removed(store: Store, going: Sequence[Tree], kept: dict[str, str]) -> list[str]:
    """Tree by tree where one of them cannot go: something may wait for it, or have claimed it by now."""
    try:
        return store.items.burn([tree.root.id for tree in going])
    except RalphError as error:
        if error.code is not Code.CONFLICT:
            raise
    removed: list[str] = []
    for tree in going:
        try:
            removed += store.items.burn([tree.root.id])
        except RalphError as error:
            if error.code not in (Code.CONFLICT, Code.BEAD_NOT_FOUND):
                raise
            kept[tree.root.id] = error.message
    return removed


def burn(
    identity: Annotated[str, typer.Argument(metavar="ID", help="A molecule or a bead.")],
    force: Force = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Remove a wisp with everything below it, for good."""
    opened = registry.open_store(workspace.find(), store)
    tree = tree_at(trees(opened.store), identity)
    removed = opened.store.items.burn([identity]) if _agreed([tree], force=force) else []
    data = {"id": identity, "removed": removed, "store": opened.store.kind}
    return Answer(data, lines(_said(removed)), opened.warnings)


def _agreed(going: Sequence[Tree], *, force: bool) -> bool:
    """True if they may go: because it was said, or because a person says so now."""
    if force:
        return True
    ids = [identity for tree in going for identity in tree.ids]
    if not can_ask():
        message = f"{plural(len(ids), 'wisp')} would be removed, and there is no terminal to ask at"
        action = "Look at them: beads-ralph wisp list; then say --force"
        raise RalphError(Code.USAGE, message, data={"removable": ids}, suggested_action=action)
    say = speaker("text")
    for identity in ids:
        say(f"- {identity}")
    return questions.confirmed(f"Remove {plural(len(ids), 'wisp')} for good?")


def _said(removed: Sequence[str]) -> str:
    return f"✓ {plural(len(removed), 'wisp')} removed" if removed else "nothing was removed"


def _collected(data: Mapping[str, Any]) -> list[str]:
    kept = [f"= kept {row['id']}  {row['why']}" for row in data["kept"]]
    if not data["dry_run"]:
        return [*kept, _said(data["removed"])]
    count = plural(len(data["removable"]), "wisp")
    going = [f"- {identity}" for identity in data["removable"]]
    return [*kept, *going, f"would remove {count}; nothing was changed"]
