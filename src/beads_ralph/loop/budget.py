"""What a run has used of its budget, and how many beads it may have at work: read off its own journal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from beads_ralph.agents import prices
from beads_ralph.agents.players import Player, model_of, players
from beads_ralph.agents.protocol import select
from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.personas import model_asked
from beads_ralph.bead.usage import UNKNOWN, Budget, ProgramUse, Usage
from beads_ralph.compile.preflight import Obstacle, RunScene, agents_in, obstacle
from beads_ralph.errors import Code
from beads_ralph.journal.events import AgentEnded, AgentStarted, Event, ParallelismChanged, ProgramUnavailable
from beads_ralph.journal.journal import Journal
from beads_ralph.loop.limits import Parallelism
from beads_ralph.session.program_limits import ProgramLimits

TELLS: Final = "have it report its usage (beads-ralph help agents) and name it in agent_defaults.tells_usage"


@dataclass
class Meter:
    """Listens while a run lasts."""

    journal: Journal
    budget: Budget
    parallelism: Parallelism
    programs: ProgramLimits
    spent: Usage = field(default_factory=Usage)
    in_flight: dict[str, Usage] = field(default_factory=dict)
    """By bead: what its call has used so far, where its program tells that while it runs."""
    by_program: dict[tuple[str, str], ProgramUse] = field(default_factory=dict)
    """By program and model."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    widened: bool = False
    """Whether the number of beads at once has changed since somebody asked."""
    untold: str = ""
    """Why the budget cannot be kept, once a call has shown that it cannot."""

    @property
    def seconds(self) -> float:
        return (datetime.now(UTC) - self.started).total_seconds()

    def used_up(self) -> str:
        """Why nothing more may start; empty where there is some left of each part of the budget."""
        used_up = self.budget.used_up(sum(self.in_flight.values(), self.spent), self.seconds)
        return f"the {used_up}; run again to go on" if used_up else self.untold

    def left_for(self, bead: str, in_flight: Usage) -> Budget:
        """What the run leaves to the call of a bead: calls side by side may not spend the same money."""
        if bead in self.in_flight:
            self.in_flight[bead] = in_flight
        others = (usage for other, usage in self.in_flight.items() if other != bead)
        return self.budget.left(sum(others, self.spent))

    def hear(self, event: Event) -> None:
        self._note_usage(event)
        self._note_limits(event)

    def _note_usage(self, event: Event) -> None:
        """As it is spent, not when the bead ends: three attempts later may be too late."""
        if isinstance(event, AgentStarted):
            self.in_flight[event.bead or ""] = UNKNOWN
        elif isinstance(event, AgentEnded):
            self.spent = self.spent + event.call.usage
            self.in_flight.pop(event.bead or "", None)
            self._note_program(event.call)
            self.untold = self.untold or _untold(event.call, self.budget)

    def _note_program(self, call: AgentCall) -> None:
        key = (call.program, call.model)
        before = self.by_program.get(key, ProgramUse(program=call.program, model=call.model))
        self.by_program[key] = replace(
            before,
            calls=before.calls + 1,
            usage=before.usage + call.usage,
            cost_computed=before.cost_computed or call.cost_computed,
        )

    def _note_limits(self, event: Event) -> None:
        """Fewer at once from the moment a limit is met; more again, one by one, as calls go well."""
        match event:
            case ProgramUnavailable(trouble="limit"):
                changed = self.parallelism.lower()
            case AgentEnded(call=AgentCall(trouble="")):
                changed = not self.programs.limited and self.parallelism.widen()
            case _:
                return
        if changed:
            self.widened = True
            now, most = self.parallelism.now, self.parallelism.most
            self.journal.emit(ParallelismChanged(parallel=now, most=most))


# --- budgets that cannot be kept ----------------------------------------------------------------------


def _untold(call: AgentCall, budget: Budget) -> str:
    """Why a call that went well shows that the budget cannot be kept. A failed one may have used nothing."""
    if call.problem or call.trouble or select(call.program).profile.counts == "cost":
        return ""
    tokens, usage = call.usage.input_tokens or call.usage.output_tokens, call.usage
    if budget.cost_usd is not None and usage.cost_usd is None:
        action = _name_price(call.model) if tokens else TELLS
        return f"the cost budget (USD) cannot be kept: {call.program} reported no cost; {action}"
    if budget.tokens is not None and not tokens:
        return f"the token budget cannot be kept: {call.program} reported no tokens; {TELLS}"
    return ""


def budgets_bind(scene: RunScene) -> Iterator[Obstacle]:
    """A limit that nothing can hold is none, and whoever set it sleeps well for no reason. Every program that
    may play must tell what it uses, those that stand in too."""
    beads = {bead.id: bead for bead in scene.beads}
    seen: set[str] = set()
    for owner, spec in agents_in(scene):
        for key, most, whose in _budgets(scene, beads.get(owner or "")):
            for player in players(spec, scene):
                why, action = _why_not(key, player, scene)
                text = f"{key} of {most:g} cannot be kept: {why}"
                if why and (found := f"{whose}{text}") not in seen:
                    seen.add(found)
                    yield obstacle(Code.CONFIG_INVALID, text, action, bead=whose)


def _budgets(scene: RunScene, bead: Bead | None) -> Iterator[tuple[str, float, str | None]]:
    """Each limit of cost or tokens by its key; and the bead, where that has set it itself."""
    config, own = scene.config, bead.metadata if bead else None
    for key in ("budget_usd", "budget_tokens"):
        if (most := getattr(config, key)) is not None:
            yield key, most, None
        if own and (most := getattr(own, key)) is not None and bead:
            yield key, most, bead.id
        elif (most := getattr(config, f"bead_{key}")) is not None:
            yield f"bead_{key}", most, None


def _why_not(key: str, player: Player, scene: RunScene) -> tuple[str, str]:
    """Why a budget does not hold a program, and the way out; empty where it does."""
    profile = scene.select(player.program).profile
    if profile.counts == "cost" or player.program in scene.config.agent_defaults.tells_usage:
        return "", ""
    usd = key.endswith("usd")
    if not profile.counts:
        other = key.replace("usd", "minutes").replace("tokens", "minutes")
        what = "cost" if usd else "tokens"
        return f"{player.program} is not known to report its {what}", f"Either {TELLS}; or use {other}"
    if not usd:
        return "", ""
    model = _model(player.spec, scene)
    if prices.price_of(model, scene.config.prices):
        return "", ""
    tokens = f"or use {key.replace('usd', 'tokens')}"
    if not model:
        why = f"{profile.title} reports no price, and nothing says which model it takes"
        return why, f"Name its model, as in {player.program}:MODEL, {tokens}"
    why = f"{profile.title} reports no price, and that of {model} is not known"
    return why, f"{_name_price(model)}, {tokens}"


def _model(spec: AgentSpec, scene: RunScene) -> str:
    cli = scene.select(spec.executable or "")
    asked = model_asked(cli.name, model_of(spec, scene))
    return prices.named_model(asked, spec.options, {**os.environ, **(spec.env or {})}, cli.profile)


def _name_price(model: str) -> str:
    return f"Name the price of {model or 'its model'} under prices in beads-ralph.yaml"
