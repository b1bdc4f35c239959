"""What needs a person, the most urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.board.model import URGENCY, Attention, AttentionKind, BoardBead, BoardRun

if TYPE_CHECKING:
    from beads_ralph.board.signs import RunSigns
    from beads_ralph.board.store_look import StoreLook
    from beads_ralph.board.told import Told

FAILURES: Final = 2
"""An agent that failed once is told why; one that fails again may need a person."""
RANK: Final = {kind: rank for rank, kind in enumerate(URGENCY)}


def attention(
    told: Told, look: StoreLook, around: RunSigns, run: BoardRun, beads: Iterable[BoardBead]
) -> list[Attention]:
    found = [*_of_run(told, look, run), *_of_beads(told, around, run, beads)]
    return sorted(found, key=lambda one: (RANK[one.kind], one.since or "", one.bead or ""))


def _of_run(told: Told, look: StoreLook, run: BoardRun) -> Iterator[Attention]:
    if run.mode == "dead":
        text = "the run was killed: it told no end"
        yield Attention("interrupted", text, since=told.last_at or None, command="beads-ralph run")
    if "budget" in told.draining:
        yield Attention("budget", told.draining)
    if told.end is not None and told.end.get("ended") == "plan_differs":
        text = str(told.end.get("reason"))
        yield Attention("plan_differs", text, since=run.ended_at, command="beads-ralph plan diff PLAN")
    for name, (why, at) in told.red_gates.items():
        yield Attention("gate_red", f"gate {name} is red: {why}", None, at, None, "beads-ralph gate check")
    for program in run.programs:
        yield Attention("limited", program.reason or program.program, None, None, program.until)
    yield from _for_people(look)
    for name, fault in look.unreadable:
        yield Attention(
            "unreadable",
            f"{name} cannot be read: {fault}",
            name,
            command=f"beads-ralph retry {name}",
            orders=("retry",),
        )
    if run.broken_lines:
        words = "1 line" if run.broken_lines == 1 else f"{run.broken_lines} lines"
        yield Attention("unreadable", f"{words} of the journal cannot be read, and were left out")
    if look.problem:
        yield Attention(
            "unreadable", f"the store cannot be read: {look.problem}", command="beads-ralph doctor"
        )


def _for_people(look: StoreLook) -> Iterator[Attention]:
    """Steps of people that can be done now, and gates that wait for their word."""
    named = set[str]()
    for wait in look.waits:
        if wait.get("command"):
            named.add(str(wait["id"]))
            held = ", ".join(map(str, wait.get("beads") or ()))
            text = f"{wait['title']}: {wait['reason']}; holds up {held}"
            yield _for_person(text, wait)
    for step in look.people:
        if step.get("command") and step["id"] not in named:
            yield _for_person(str(step["title"]), step)


def _for_person(text: str, item: Mapping[str, Any]) -> Attention:
    """A gate is approved; a step is done, or answered where it asks something."""
    orders = ("approve",) if item.get("type") == "gate" else ("close", "answer")
    return Attention("person", text, str(item["id"]), None, None, str(item["command"]), orders)


def _of_beads(told: Told, around: RunSigns, run: BoardRun, beads: Iterable[BoardBead]) -> Iterator[Attention]:
    on = run.mode in ("running", "paused", "draining")
    for bead in beads:
        if bead.status == "in_progress":
            yield from _at_work(told, around, bead, on=on)
        elif bead.status == "blocked":
            kind: AttentionKind = "budget" if _is_over_budget(told, bead) else "blocked"
            why = (bead.reason or bead.last_failure or "blocked").splitlines()[0]
            todo = f"beads-ralph retry {bead.id}"
            yield Attention(kind, why, bead.id, bead.ended_at, None, todo, ("retry", "accept"))
        elif bead.status == "closed" and bead.flags:
            text = "; ".join(bead.flags)
            todo = f"beads-ralph show {bead.id}"
            yield Attention("flagged", f"look at: {text}", bead.id, bead.ended_at, command=todo)
        yield from (
            Attention("limited", wait.text, bead.id, None, wait.until)
            for wait in bead.waits
            if wait.kind == "limit"
        )


def _at_work(told: Told, around: RunSigns, bead: BoardBead, *, on: bool) -> Iterator[Attention]:
    if not on:
        text = "was being worked on when the run was killed"
        todo = "beads-ralph run"
        yield Attention("interrupted", text, bead.id, bead.stage_since, None, todo, ("release",))
        return
    activity = around.activity.get(bead.id)
    if activity is not None and activity.silent:
        todo = f"beads-ralph logs {bead.id}"
        yield Attention("stalled", f"no sign of life: {bead.stage}", bead.id, activity.at, command=todo)
    said = told.beads.get(bead.id)
    if said is not None and said.failures >= FAILURES:
        text = f"attempt {bead.attempt} of {bead.max_attempts}; the last failed: {said.last_failure}"
        yield Attention("failed_twice", text, bead.id, bead.stage_since, None, f"beads-ralph show {bead.id}")


def _is_over_budget(told: Told, bead: BoardBead) -> bool:
    said = told.beads.get(bead.id)
    return said is not None and said.failure_reason == "budget-used-up"
