"""The journal's account and a look at the store, put together into what a board shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from beads_ralph.board.attention import attention
from beads_ralph.board.model import (
    PIPELINE,
    BoardBead,
    BoardRun,
    BoardState,
    Lane,
    RunProgram,
    StageLine,
    StageName,
    StageState,
    SubStep,
    WaitLine,
)
from beads_ralph.board.signs import Activity, RunSigns
from beads_ralph.board.store_look import StoreLook
from beads_ralph.board.told import Told, ToldBead, ToldStep
from beads_ralph.store.views import BeadView

NOTHING_TOLD: Final = ToldBead("")


@dataclass
class Composed:
    """Beads as they were composed last: one that rests on nothing new is not composed again."""

    look: StoreLook | None = None
    shared: tuple[Any, ...] = ()
    beads: dict[str, tuple[tuple[Any, ...], BoardBead]] = field(default_factory=dict)

    def bead(self, name: str, composer: _Composer) -> BoardBead:
        if self.look is not composer.look or self.shared != composer.shared:
            self.look, self.shared, self.beads = composer.look, composer.shared, {}
        key = composer.rests_on(name)
        old = self.beads.get(name)
        if old is not None and old[0] == key and not any(wait.until for wait in old[1].waits):
            return old[1]
        made = composer.bead(name)
        self.beads[name] = key, made
        return made


def compose(
    told: Told,
    look: StoreLook,
    around: RunSigns,
    before: BoardState | None = None,
    composed: Composed | None = None,
) -> BoardState:
    """The state of the board. Where nothing has changed since `before`, it is that one, with its number."""
    known = {bead.id: bead for bead in before.beads} if before else {}
    composer, last = _Composer(told, look, around), composed or Composed()
    beads = tuple(_same(last.bead(name, composer), known) for name in composer.order())
    lanes: dict[Lane, list[BoardBead]] = {"running": [], "next": [], "done": []}
    for bead in beads:
        lanes[bead.lane].append(bead)
    run = composer.run(beads)
    state = BoardState(
        before.seq if before else 0,
        run,
        tuple(attention(told, look, around, run, beads)),
        tuple(bead.id for bead in sorted(lanes["running"], key=lambda bead: (bead.since or "", bead.id))),
        tuple(bead.id for bead in sorted(lanes["next"], key=_turn)),
        tuple(bead.id for bead in sorted(lanes["done"], key=lambda bead: bead.ended_at or "", reverse=True)),
        beads,
    )
    if state == before:
        return before
    return replace(state, seq=state.seq + 1)


def _same(bead: BoardBead, known: Mapping[str, BoardBead]) -> BoardBead:
    """The very object of the last look where nothing has changed, so that comparing costs nothing."""
    old = known.get(bead.id)
    return old if old is not None and (old is bead or old == bead) else bead


def _turn(bead: BoardBead) -> tuple[bool, bool, int, int]:
    """Ready beads first, then by wave; those of the critical path before others."""
    return bool(bead.waits), bead.status == "blocked", bead.wave, -int(bead.critical)


class _Composer:
    def __init__(self, told: Told, look: StoreLook, around: RunSigns) -> None:
        self.told, self.look, self.around = told, look, around
        self.running = around.alive and told.end is None
        self.closed = {name for name in self.order() if self.status(name) == "closed"}
        self.held = _held(look.waits) or _held(told.waiting)
        self.shared = (told.waiting, frozenset(self.closed), self.running)
        """What every bead rests on, besides the look at the store."""

    def order(self) -> Iterator[str]:
        """As the store has them, then those that only the journal knows."""
        yield from self.look.beads
        yield from (name for name in self.told.beads if name not in self.look.beads)

    def status(self, name: str) -> str:
        said, stored = self.told.beads.get(name), self.look.beads.get(name)
        if said is not None and said.at_work and self.running:
            return "in_progress"
        if said is not None and (stored is None or name in self.around.trusted):
            return {"": "open", "parked": "open"}.get(said.ended, said.ended)
        return stored.status if stored is not None else "open"

    def rests_on(self, name: str) -> tuple[Any, ...]:
        """What this bead alone rests on."""
        said = self.told.beads.get(name)
        return said.revision if said else -1, self.status(name), self.around.activity.get(name)

    def bead(self, name: str) -> BoardBead:
        said, stored = self.told.beads.get(name, NOTHING_TOLD), self.look.beads.get(name)
        status = self.status(name)
        metadata = stored.metadata if stored else {}
        activity = self.around.activity.get(name, Activity()) if status == "in_progress" else Activity()
        return BoardBead(
            id=name,
            number=str(metadata.get("sprint") or said.number),
            title=stored.title if stored else said.title,
            phase=str(metadata.get("phase") or said.number.partition(".")[0]),
            status=status,
            lane=_lane(status),
            team=str(metadata.get("team_name") or said.team),
            branch=str(metadata.get("branch") or said.branch),
            depends_on=tuple(stored.dependencies) if stored else (),
            wave=self.look.wave.get(name, 0),
            critical=name in self.look.critical,
            priority=stored.priority if stored else 1,
            kind=_kind(stored, said),
            stage=said.stage if status == "in_progress" else status,
            pipeline=pipeline(said, status, proposed=bool(_pull(stored, said))),
            attempt=said.attempt or (stored.attempts if stored else 0),
            max_attempts=said.max_attempts or int(metadata.get("max_retry_attempts") or 0),
            attempts=tuple(said.attempts),
            last_failure=said.last_failure or _last_failure(stored),
            role=said.role,
            agent=said.agent,
            program=said.program,
            model=said.model,
            host=said.host,
            transcript=said.transcript,
            since=said.since or None,
            stage_since=said.stage_since or None,
            ended_at=said.ended_at or (stored.json.get("closed_at") if stored else None),
            last_activity=activity.text,
            last_activity_at=activity.at,
            tokens=said.tokens if said.tokens is not None else _spent(metadata, "tokens"),
            cost_usd=said.cost_usd if said.cost_usd is not None else _spent(metadata, "cost"),
            waits=tuple(self.waits(name, status, stored, said)),
            pull_request=_pull(stored, said),
            standing=(stored.standing if stored else None) or said.standing,
            flags=tuple(stored.flags) if stored else said.flags,
            reason=said.reason or (stored.error or "" if stored else ""),
        )

    def waits(self, name: str, status: str, stored: BeadView | None, said: ToldBead) -> Iterable[WaitLine]:
        """Why it has not begun; empty of one that could."""
        if status != "open":
            return
        until = (
            said.until if said.ended == "parked" else ((stored.parked or {}).get("until") if stored else None)
        )
        if until and str(until) > self.around.now:
            why = said.reason or str((stored.parked or {}).get("reason") or "" if stored else "")
            yield WaitLine("limit", why or "a limit", (), str(until))
        if said.awaits and self.running:
            yield WaitLine("team", f"its team is at work on {said.awaits}", (said.awaits,))
        before = [one for one in (stored.dependencies if stored else ()) if one not in self.closed]
        beads = tuple(one for one in before if one in self.look.beads)
        if beads:
            yield WaitLine("bead", f"waits for {', '.join(beads)}", beads)
        yield from self.held.get(name, ())
        named = {one for wait in self.held.get(name, ()) for one in wait.ids}
        missing = tuple(one for one in before if one not in self.look.beads and one not in named)
        if missing and self.look.waits:
            yield WaitLine("missing", f"waits for {', '.join(missing)}", missing)

    def run(self, beads: Iterable[BoardBead]) -> BoardRun:
        told, around, end = self.told, self.around, self.told.end or {}
        counts = Counter(bead.status for bead in beads)
        mode, words = self._mode()
        return BoardRun(
            id=around.run_id,
            mode=mode,  # type: ignore[arg-type]
            words=words,
            store=self.look.kind,
            started_at=told.started_at or None,
            ended_at=end.get("at"),
            end=end.get("ended"),
            seconds=end.get("duration_seconds"),
            workers=sum(bead.at_work for bead in told.beads.values()) if self.running else 0,
            parallel=told.parallel,
            most=told.most,
            tokens=told.tokens,
            cost_usd=told.cost_usd,
            budget_usd=around.budget.get("cost_usd"),
            budget_tokens=_whole(around.budget.get("tokens")),
            budget_minutes=around.budget.get("minutes"),
            counts={name: counts.get(name, 0) for name in ("open", "in_progress", "blocked", "closed")},
            programs=tuple(
                RunProgram(name, str(row.get("reason") or ""), str(row.get("until") or ""))
                for name, row in told.unavailable.items()
                if self.running and str(row.get("until") or "") > around.now
            ),
            pull_requests=tuple(
                str(pull.get("url") or pull.get("branch")) for pull in end.get("pull_requests") or ()
            ),
            next_commands=tuple(map(str, end.get("next") or ())),
            remarks=tuple(map(str, end.get("remarks") or ())),
            forecast=around.forecast if mode == "running" else None,
            broken_lines=around.broken_lines + told.spoiled,
            problem=self.look.problem,
        )

    def _mode(self) -> tuple[str, str]:
        told, around = self.told, self.around
        if around.run_id is None:
            return "none", "no run yet"
        if told.end is not None:
            return "ended", f"{str(told.end.get('ended')).replace('_', ' ')}: {told.end.get('reason')}"
        if not around.alive:
            return "dead", "interrupted: it has told no end, and its process is gone"
        if told.draining or around.told_to == "stop":
            return "draining", f"starts nothing more: {told.draining or 'told to stop'}"
        if told.paused or around.told_to == "pause":
            return "paused", "paused"
        return "running", "running"


def _lane(status: str) -> Lane:
    return "running" if status == "in_progress" else "done" if status == "closed" else "next"


def _kind(stored: BeadView | None, said: ToldBead) -> str:
    if stored is not None:
        return "merge" if stored.metadata.get("branches_to_merge") else "work"
    return said.kind or "work"


def _pull(stored: BeadView | None, said: ToldBead) -> str | None:
    return said.pull_request or (stored.pull_request if stored else None)


def _last_failure(stored: BeadView | None) -> str:
    verdict = (stored.metadata.get("last_verdict") or {}) if stored else {}
    return "" if verdict.get("ruling") in (None, "pass") else str(verdict.get("message") or "")


def _spent(metadata: Mapping[str, Any], what: str) -> Any:
    spent = metadata.get("spent") or {}
    if what == "cost":
        return spent.get("cost_usd")
    known = [spent.get(name) for name in ("input_tokens", "output_tokens")]
    return sum(one or 0 for one in known) if known != [None, None] else None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _held(waits: Iterable[Mapping[str, Any]]) -> dict[str, list[WaitLine]]:
    """Bead → the gates and people's steps that hold it up."""
    held: dict[str, list[WaitLine]] = {}
    for wait in waits:
        person = wait.get("state") in ("person", "failed")
        text = f"{wait.get('title')}: {wait.get('reason')}"
        line = WaitLine("person" if person else "gate", text, (str(wait["id"]),), None, wait.get("command"))
        for name in wait.get("beads") or ():
            held.setdefault(str(name), []).append(line)
    return held


# --- the pipeline -------------------------------------------------------------------------------------


def pipeline(said: ToldBead, status: str, *, proposed: bool) -> tuple[StageLine, ...]:
    """The five stages as they stand. What came before a stage that was reached is done; a closed bead of an
    earlier run has done all."""
    if status == "closed" and not said.steps:
        return tuple(
            StageLine(name, "done" if name != "proposed" or proposed else "waits") for name in PIPELINE
        )
    if not said.steps and not said.since:
        return ()
    by_stage: dict[StageName, list[ToldStep]] = {name: [] for name in PIPELINE}
    for step in said.steps:
        by_stage[step.stage].append(step)
    furthest = max((at for at, name in enumerate(PIPELINE) if by_stage[name]), default=0)
    return tuple(
        _stage_line(name, by_stage[name], at, furthest, working=status == "in_progress")
        for at, name in enumerate(PIPELINE)
    )


def _stage_line(
    name: StageName, steps: list[ToldStep], at: int, furthest: int, *, working: bool
) -> StageLine:
    state: StageState = "waits"
    # A conflict that was merged and a call that was repeated have not failed; a check that failed has.
    telling = steps[-1:] if name == "developed" else steps
    if any(step.state == "failed" for step in telling):
        state = "failed"
    elif any(step.state == "now" for step in steps) or (at == furthest and working):
        state = "now"
    elif steps:
        state = "done"
    times = [step.seconds for step in steps if step.seconds is not None]
    shown = tuple(
        SubStep(step.name, step.state, step.at, step.seconds, step.note)  # type: ignore[arg-type]
        for step in steps
    )
    return StageLine(name, state, round(sum(times), 3) if times else None, shown)
