"""A plan meets the store: read, matched, compiled once, compared. Every command with a plan comes here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from beads_ralph.bead.model import Bead
from beads_ralph.compile import apply, base, diff, load
from beads_ralph.compile.build import Built, build, plan_setting
from beads_ralph.compile.diff import Change, Choice, Diff
from beads_ralph.compile.load import Batch, StoredPlan
from beads_ralph.compile.taken import refuse_taken
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.plan import At, marks, parse
from beads_ralph.store.protocol import Progress, Store, silent

Settle = Callable[[Diff], Diff]


@dataclass(frozen=True)
class Reconciled:
    """A valid plan beside the store that its beads go into: what is there, and what would be."""

    store: Store
    built: Built
    batch: Batch
    stored: StoredPlan
    diff: Diff
    done: Mapping[str, At[str]] = field(default_factory=dict)
    """Sprint → how the plan marks it as done, where that was asked for."""

    @property
    def beads(self) -> list[Bead]:
        """The plan's beads as the store will have them, when the plan's edits are applied."""
        return [*(merged(change) for change in self.diff.changes), *self.diff.added]

    def settled(self, settle: Settle) -> Reconciled:
        """With an answer to what both the plan and a person have changed."""
        return replace(self, diff=settle(self.diff))

    def apply(self, progress: Progress = silent) -> apply.Applied:
        return apply.apply(self.store, self.diff, progress)


def reconcile(
    workspace: Workspace,
    path: Path,
    open_store: Callable[[], Store],
    *,
    wanted: Iterable[str] | None = None,
    schema: Literal["4.1a", "legacy"] = "4.1a",
    agent_check: bool = True,
    adopt: bool = False,
) -> Reconciled:
    """Read both, match them, and compare; nothing is written. Faults of the plan go before the store's.

    To `adopt` a plan is to take its marks of what is done for what they say, struck out sprints too."""
    text = text_files.read_text(path)
    plan = parse(text, str(path), struck=adopt)
    setting = plan_setting(workspace, plan, schema=schema, agent_check=agent_check)
    chosen = load.choose(plan, None if plan.faults else wanted)  # a faulty plan: all that is wrong
    if plan.faults:
        load.require_valid(build(plan, setting), chosen)
    try:
        store = open_store()
        stored = load.held(store, plan, setting)
    except RalphError:
        load.require_valid(build(plan, setting), chosen)
        raise
    built = build(plan, stored.known_to(setting))
    batch = load.require_valid(built, chosen, base.readings(text, plan))
    found = diff.compare(stored, batch)
    if not found.is_first:
        refuse_taken(store, [*found.items.added, *found.added])
    found = found if wanted is None else replace(found, orphaned=())
    return Reconciled(store, built, batch, stored, found, marks.done(text, plan) if adopt else {})


def merged(change: Change) -> Bead:
    """The bead with the plan's edits; work that runs or is done stays as it is."""
    if change.locked or not change.fields:
        return change.bead
    said = change.bead.to_json()
    for name, (_, value) in change.fields.items():
        part, key = (said["metadata"], name.removeprefix("metadata.")) if "." in name else (said, name)
        part[key] = value
    return Bead.model_validate(said)


# --- what is to become of differences ---------------------------------------------------------------


def preferring(side: Choice) -> Settle:
    """What both have changed goes to one of them; the store's word also covers finished work."""

    def settle(found: Diff) -> Diff:
        decided = found.settled(lambda _change, _name: side)
        return decided.taken_as_done() if side == "store" else decided

    return settle


def refuse_changes(found: Diff) -> Diff:
    """For those who apply a plan's edits by hand: nothing but a plan's first beads goes in by itself."""
    if found.is_first or (found.empty and not found.moved_from):
        return found
    counts = (
        (len(found.added), "new"),
        (len(found.changed) + len(found.conflicts), "changed"),
        (len(found.orphaned), "gone"),
    )
    said = ", ".join(f"{number} {word}" for number, word in counts if number) or "its steps differ"
    plan = found.plan_file
    raise RalphError(
        Code.CONFLICT,
        f"the plan differs from the store ({said}), and plan_changes says refuse",
        suggested_action=f"See it: beads-ralph plan diff {plan}; apply it: beads-ralph mason {plan} --update",
    )
