"""mason: a plan into the store."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead.items import Item
from beads_ralph.bead.words import plural, several
from beads_ralph.cli import differences, options
from beads_ralph.cli.answer import Answer, speaker
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import escape
from beads_ralph.compile import apply, base, load
from beads_ralph.compile.build import Built, build, plan_setting
from beads_ralph.compile.diff import Diff
from beads_ralph.compile.molecule import Molecule
from beads_ralph.compile.reconcile import Reconciled, preferring, reconcile
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.plan import annotate, parse
from beads_ralph.store import registry
from beads_ralph.store.registry import OpenStore

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class MasonRequest:
    """What was asked for: one field an option."""

    plan: Annotated[Path | None, typer.Argument(help="The markdown plan.", readable=False)] = None
    plan_file: Annotated[
        Path | None, typer.Option("--plan-file", help="The same, as an option.", readable=False)
    ] = None
    sprint_filter: Annotated[
        str | None, typer.Option("--sprint-filter", help="Only these sprints: 1.2a,1.2b,1.3")
    ] = None
    annotate: Annotated[bool, typer.Option("--annotate", help="Write the bead ids into the plan.")] = False
    check_existing: Annotated[bool, typer.Option("--check-existing", help="Skip beads that exist.")] = False
    update: Annotated[bool, typer.Option("--update", help="Apply an edited plan to the store.")] = False
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Insert sprints that the plan marks as done as closed.")
    ] = False
    prefer: options.Prefer = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the beads; insert nothing.")] = False
    schema: options.MasonSchema = "4.1a"
    id_suffix: Annotated[
        str, typer.Option("--id-suffix", help="Added to every id; auto makes a random one.")
    ] = ""
    store: options.Store = None
    no_agent_check: options.NoAgentCheck = False
    config: options.ConfigFile = None
    json_: options.Json = False

    @property
    def path(self) -> Path:
        if (self.plan is None) == (self.plan_file is None):
            message = "name one plan: beads-ralph mason PLAN, or --plan-file PLAN"
            raise RalphError(Code.USAGE, message, suggested_action="See: beads-ralph mason --help")
        return self.plan or self.plan_file or Path()

    @property
    def wanted(self) -> Sequence[str] | None:
        return None if self.sprint_filter is None else self.sprint_filter.split(",")

    def settle(self) -> None:
        """Some options do not go together."""
        if self.adopt and (self.update or self.dry_run or self.id_suffix or self.schema == "legacy"):
            message = "--adopt goes with neither --update, --dry-run, --id-suffix nor --schema legacy"
            action = f"Say: beads-ralph mason {self.path} --adopt"
            raise RalphError(Code.USAGE, message, suggested_action=action)
        if not self.update:
            if self.prefer:
                action = f"Say: beads-ralph mason {self.path} --update --prefer plan"
                raise RalphError(Code.USAGE, "--prefer goes with --update", suggested_action=action)
            return
        if self.schema == "legacy" or self.id_suffix or self.wanted is not None:
            message = "--update goes with neither --schema legacy, --id-suffix nor --sprint-filter"
            raise RalphError(Code.USAGE, message, suggested_action="Run mason --update on the whole plan")
        if self.dry_run:
            action = f"Run: beads-ralph plan diff {self.path}"
            raise RalphError(Code.USAGE, "--dry-run shows new beads only", suggested_action=action)


@options.taken_from(MasonRequest)
def mason(order: MasonRequest) -> Answer:
    """Compile a plan into beads and put them into the store: all of them, or none."""
    space = workspace.find(config_file=order.config)
    order.settle()
    opened = cache(lambda: registry.open_store(space, order.store))
    if order.dry_run or order.id_suffix:
        return _beside(order, space, opened)
    met = reconcile(
        space,
        order.path,
        lambda: opened().store,
        wanted=order.wanted,
        schema=order.schema,
        agent_check=not order.no_agent_check,
        adopt=order.adopt,
    )
    if order.annotate:
        _require_writable(order.path)
    if order.adopt:
        return _adopt(order, space, opened(), met)
    return (_update if order.update else _insert)(order, opened(), met)


def _beside(order: MasonRequest, space: Workspace, opened: Callable[[], OpenStore]) -> Answer:
    """What the store has already does not count: beads are only shown, or made beside those."""
    text = text_files.read_text(order.path)
    read = parse(text, str(order.path))
    suffix, agent_check = _suffix(order.id_suffix), not order.no_agent_check
    setting = plan_setting(space, read, schema=order.schema, id_suffix=suffix, agent_check=agent_check)
    chosen = load.choose(read, None if read.faults else order.wanted)
    built = build(read, setting)
    batch = load.require_valid(built, chosen, base.readings(text, read))
    if order.dry_run:
        return _dry_run(built, batch)
    if order.annotate:
        _require_writable(order.path)
    loaded = load.load(opened().store, batch, speaker(current_style()))
    return _inserted(order, opened(), built, batch, loaded)


def _suffix(text: str) -> str:
    if text == "auto":
        return secrets.token_hex(3)
    if text and re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,39}", text) is None:
        message = f"--id-suffix {text!r} must be letters, digits, '-' or '_', at most 40"
        raise RalphError(Code.USAGE, message, suggested_action="Use for example: --id-suffix run2")
    return text


# --- inserting --------------------------------------------------------------------------------------


def _insert(order: MasonRequest, opened: OpenStore, met: Reconciled) -> Answer:
    say = speaker(current_style())
    if not order.check_existing:
        loaded = load.load(met.store, met.batch, say)
        return _inserted(order, opened, met.built, met.batch, loaded)
    there = met.stored.ids
    created, waiting = apply.add_missing(met.store, load.missing(met.batch, there), met.diff, say)
    loaded = load.loaded(met.batch, created, there)
    return _inserted(order, opened, met.built, met.batch, loaded, _left(met.diff, waiting))


def _adopt(order: MasonRequest, space: Workspace, opened: OpenStore, met: Reconciled) -> Answer:
    """Whatever is missing goes in, and what the plan marks as done is closed: accepted, not proven."""
    from beads_ralph.board.actions import accept_bead

    _refuse_gaps(order.path, met)
    inserted = _insert(replace(order, check_existing=True), opened, met)
    adopted = []
    for name in TopologicalSorter(met.built.edges).static_order():
        bead = met.store.show(met.built.ids[name]) if name in met.done else None
        if bead is not None and bead.status != "closed":
            mark = met.done[name]
            accept_bead(space, met.store, bead, f"{order.path}:{mark.line}: {mark.value}")
            adopted.append(bead.id)

    def show(console: Console) -> None:
        if inserted.text is not None:
            inserted.text(console)
        for bead_id in adopted:
            console.print(f"[green]✓[/green] {bead_id} is closed: accepted on the plan's word, not proven")

    marks = {mark.line for mark in met.done.values()}
    warnings = [one for one in inserted.warnings if one.line not in marks]  # that is what --adopt is for
    told = {"adopted": adopted, "warnings": [one.to_json() for one in warnings]}
    return replace(inserted, data={**inserted.data, **told}, text=show, warnings=warnings)


def _refuse_gaps(path: Path, met: Reconciled) -> None:
    """Nothing can be done before what it waits for; and the steps of a formula are not marked one by one."""
    faults = []
    for name, mark in met.done.items():
        missing = [before for before in met.built.edges.get(name, ()) if before not in met.done]
        if name in met.built.molecules:
            message = f"sprint {name} is poured from a formula, so that it cannot be adopted as a whole"
            action = f"Remove the mark ({mark.value}), or strike the sprint out and leave out --adopt"
            faults.append(Fault(Code.CONFLICT, message, str(path), mark.line, suggested_action=action))
        elif missing:
            message = f"sprint {name} is marked as done ({mark.value}), but it waits for {several(missing)}"
            action = f"Mark {several(missing)} as done too, or remove this mark"
            faults.append(Fault(Code.CONFLICT, message, str(path), mark.line, suggested_action=action))
    if faults:
        raise gathered(faults, str(path))


def _left(found: Diff, waiting: Sequence[str]) -> list[Fault]:
    """What --check-existing has not touched, though the plan says otherwise."""
    edges = {"dependencies", "metadata.plan_file"} if found.moved_from else {"dependencies"}
    others = [change.bead.id for change in found.changed if change.fields.keys() - edges]
    others += [change.bead.id for change in found.conflicts] + [bead.id for bead in found.orphaned]
    if not others:
        return []
    message = f"left as they are, though the plan says otherwise: {several(list(dict.fromkeys(others)))}"
    plan = found.plan_file
    action = f"See it: beads-ralph plan diff {plan}; apply it: beads-ralph mason {plan} --update"
    return [Fault(Code.CONFLICT, message, suggested_action=action)]


def _inserted(
    order: MasonRequest,
    opened: OpenStore,
    built: Built,
    batch: load.Batch,
    loaded: load.Loaded,
    more: Sequence[Fault] = (),
) -> Answer:
    changed = order.annotate and _annotate(order.path, loaded.bead_ids, loaded.created)
    data = loaded.to_json(annotated=order.annotate, file_changed=changed) | _about(opened, built, more)
    warnings = (*_warnings(built, opened), *more)
    return Answer(data, lambda console: _show_loaded(console, opened, loaded, batch), warnings)


def _update(order: MasonRequest, opened: OpenStore, met: Reconciled) -> Answer:
    met = met.settled(preferring(order.prefer) if order.prefer else differences.asked)
    found, batch = met.diff, met.batch
    applied = met.apply(speaker(current_style()))
    changed = order.annotate and _annotate(order.path, batch.ids, applied.created)
    roots = {molecule.root.id for molecule in batch.molecules}
    loaded = replace(
        load.loaded(batch, applied.created),
        created=tuple(each for each in applied.created if each not in roots),
        skipped=tuple(bead.id for bead in found.unchanged),
    )
    status = "updated" if applied.updated or applied.orphaned or applied.created else "unchanged"
    data = loaded.to_json(annotated=order.annotate, file_changed=changed)
    more = (*found.warnings(), *found.items.warnings())
    data |= applied.to_json() | {"database_status": status} | _about(opened, met.built, more)
    if found.kept:
        data["beads_kept"] = [change.bead.id for change in found.kept]
    warnings = (*_warnings(met.built, opened), *more)
    return Answer(data, lambda console: _show_applied(console, opened, applied, found), warnings)


def _about(opened: OpenStore, built: Built, more: Sequence[Fault] = ()) -> dict[str, Any]:
    rows = [warning.to_json() for warning in (*_warnings(built, opened), *more)]
    return {"store": opened.store.kind, "warnings": rows}


def _warnings(built: Built, opened: OpenStore) -> tuple[Fault, ...]:
    return tuple(dict.fromkeys((*built.warnings, *opened.warnings)))


def _dry_run(built: Built, batch: load.Batch) -> Answer:
    planned = load.Loaded((), (), tuple(batch.parts), batch.ids, batch.mode)
    data = planned.to_json(annotated=False, file_changed=False) | {
        "dry_run": True,
        "bead_ids": [each.id for each in batch.members],
        "database_status": "dry_run",
        "beads": [bead.to_json() for bead in batch.beads],
        "warnings": [warning.to_json() for warning in built.warnings],
    }
    del data["beads_skipped"]
    if batch.molecules:
        data["items"] = [each.to_json() for each in batch.stored if isinstance(each, Item)]
    return Answer(data, lambda console: _show_dry_run(console, batch), built.warnings)


# --- annotating -------------------------------------------------------------------------------------


def _require_writable(path: Path) -> None:
    """Better to know before the beads are in the store."""
    if path.is_file() and not (os.access(path, os.W_OK) and os.access(path.resolve().parent, os.W_OK)):
        raise RalphError(Code.PERMISSION_DENIED, f"cannot annotate {path}: permission denied")


def _annotate(path: Path, ids: Mapping[str, str], created: Sequence[str]) -> bool:
    """Read the plan once more, since somebody may have edited it meanwhile; True where it changed."""
    try:
        text = text_files.read_text(path)
        new = annotate(text, parse(text, str(path)), ids)
        if new != text:
            text_files.write_text(path, new)
    except RalphError as error:
        raise RalphError(
            error.code,
            f"the beads are in the store, but the plan could not be annotated: {error.message}",
            data={"beads_created": list(created)},
            suggested_action="Fix that, then run mason --check-existing --annotate",
        ) from None
    return new != text


# --- for people -------------------------------------------------------------------------------------


def _show_loaded(console: Console, opened: OpenStore, loaded: load.Loaded, batch: load.Batch) -> None:
    console.print(f"[dim]{opened.why}[/dim]")
    for each in batch.stored:
        if each.id in loaded.created or each.id in loaded.molecules:
            console.print(f"[green]+[/green] {each.id}")
    poured = f", {plural(len(loaded.molecules), 'formula')} poured" if loaded.molecules else ""
    skipped = f", {len(loaded.skipped)} already there" if loaded.skipped else ""
    console.print(f"✓ {plural(len(loaded.created), 'bead')} inserted{poured}{skipped}")


def _show_applied(console: Console, opened: OpenStore, applied: apply.Applied, found: Diff) -> None:
    console.print(f"[dim]{opened.why}[/dim]")
    rows = (("+", "green", applied.created), ("~", "yellow", applied.updated), ("-", "red", applied.orphaned))
    for mark, colour, ids in rows:
        for bead_id in ids:
            console.print(f"[{colour}]{mark}[/{colour}] {bead_id}")
    for change in found.kept:
        fields = several([name.removeprefix("metadata.") for name in change.kept])
        console.print(f"[dim]= {change.bead.id} keeps what was changed in the store: {escape(fields)}[/dim]")
    for bead_id in applied.left_alone:
        console.print(f"[dim]= {bead_id} is in progress or closed: left alone[/dim]")
    console.print(
        f"✓ {len(applied.created)} added, {len(applied.updated)} changed, {len(applied.orphaned)} orphaned"
    )


def _show_dry_run(console: Console, batch: load.Batch) -> None:
    for part in batch.parts.values():
        for each in [part] if not isinstance(part, Molecule) else part.batch:
            inner = "  " if isinstance(part, Molecule) and each is not part.root else ""
            waits = f"  ← {', '.join(each.dependencies)}" if each.dependencies else ""
            console.print(f"{inner}{each.id}  {escape(each.title)}[dim]{waits}[/dim]")
    poured = f", {plural(len(batch.molecules), 'formula')} poured" if batch.molecules else ""
    console.print(f"{plural(len(batch.members), 'bead')} would be inserted{poured}; nothing was")
