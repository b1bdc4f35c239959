"""Gates in a run: checked beside the work, before the first feature starts and when beads were closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.dod import gates
from beads_ralph.dod.gates import Checker, Gate
from beads_ralph.dod.imports import is_feature
from beads_ralph.journal.events import GatesOverridden, RedGate, WarningGiven
from beads_ralph.journal.journal import Journal
from beads_ralph.loop.run_settings import Settings
from beads_ralph.process.calls import in_thread
from beads_ralph.session import Tools
from beads_ralph.store.protocol import Store

BY: Final = "run --force-gates"


@dataclass
class Gating:
    """Which beads the gates let start. Without gates it costs nothing and holds nobody up."""

    checker: Checker
    journal: Journal
    forced: bool
    interval: float
    gates: Sequence[Gate] = ()
    fresh: bool = True
    """Whether a check has ended since the last look."""
    stale: bool = False
    """Whether a bead was closed since the last check."""
    checking: asyncio.Task[None] | None = None
    checked: bool = False
    next_check: float = 0.0

    @classmethod
    def of(cls, store: Store, tools: Tools, journal: Journal, settings: Settings) -> Gating:
        def warn(text: str) -> None:
            journal.emit(WarningGiven(message=text))

        how = (tools.bench(journal), store, settings.actor, warn, tools.world)
        checker = Checker(tools.root, tools.config, *how)
        return cls(checker, journal, settings.force_gates, tools.config.gate_interval)

    def begin(self, beads: Iterable[Bead]) -> None:
        """What was found at the start of the run; its first check begins."""
        self.gates = gates.known(self.checker.root, beads, self.checker.store)
        self.checked = not self.gates
        if self.gates:
            self._start()

    def look(self, *, idle: bool) -> bool:
        """Begin a check where one is due; True where one has ended since the last look. Where nothing else
        is at work, nobody waits for the interval."""
        if self.checking is not None and self.checking.done():
            self.checking.result()
            self.checking = None
            self.fresh = True
        news, self.fresh = self.fresh, False
        due = self.stale and (idle or asyncio.get_running_loop().time() >= self.next_check)
        if self.gates and self.checking is None and (due or self._is_red_for_long()):
            self._start()
        return news

    def _is_red_for_long(self) -> bool:
        """Somebody may have mended it from outside."""
        return bool(self.red) and asyncio.get_running_loop().time() >= self.next_check

    def _start(self) -> None:
        self.stale = False
        self.checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        run_id = self.checker.bench.folder.run_id
        async with gates.alone(self.checker.root, run_id, self.checker.warn) as others_did:
            await self._check_alone(find=self.checked or others_did)

    async def _check_alone(self, *, find: bool) -> None:
        if find:
            self.gates = await in_thread(gates.find, self.checker.root, self.checker.store)
        found = await self.checker.check(self.gates)
        if self.forced and any(gate.holds for gate in found):
            red = [gate.key for gate in found if gate.holds]
            found = await in_thread(lambda: self.checker.override(found, BY, lasting=False))
            self.journal.emit(GatesOverridden(gates=tuple(red), by=BY))
        self.gates = found
        self.checked = True
        self.next_check = asyncio.get_running_loop().time() + self.interval

    @property
    def red(self) -> list[Gate]:
        return [gate for gate in self.gates if gate.holds]

    @property
    def red_gates(self) -> tuple[RedGate, ...]:
        """Every red gate, those included that somebody has overridden."""
        red = [gate for gate in self.gates if gate.colour == "red"]
        return tuple(RedGate(gate.key, gate.reason, _by(gate)) for gate in red)

    def admitted(self, ready: Sequence[Bead]) -> list[Bead]:
        """Those that may start: features wait while a gate is red, or while nobody knows."""
        closed = not self.forced and (not self.checked or bool(self.red))
        return [bead for bead in ready if not (closed and is_feature(bead))]

    @property
    def busy(self) -> bool:
        """Whether a check is still to end: it may let something start, or find that a gate is red now."""
        return bool(self.gates) and (self.checking is not None or self.stale)

    async def end(self) -> None:
        """End a check that nobody waits for any more."""
        if self.checking is not None:
            self.checking.cancel()
            await asyncio.gather(self.checking, return_exceptions=True)

    def blocked(self) -> dict[str, str]:
        """The red gates, as what a run could not do anything about."""
        return {gate.key: f"gate is red: {gate.reason}" for gate in self.red}


def _by(gate: Gate) -> str | None:
    return str(gate.override.get("by") or "somebody") if gate.override else None
