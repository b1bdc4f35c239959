"""What past runs teach, as settings: each with what it is now, what it should be, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.config.edit import setting_of
from beads_ralph.config.model import Config
from beads_ralph.report.advice import Advice, sure
from beads_ralph.report.comparing import LEVEL, chance_below
from beads_ralph.report.figures import Rate, time_text
from beads_ralph.report.tally import Tally

HOPELESS: Final = 0.1
"""A last attempt that passes less often than this is not worth its price."""
HOPEFUL: Final = 0.4
FEW: Final = 3
ENOUGH_TIMES: Final = 20
ROOM: Final = 3.0
"""How much longer than 95 % of the attempts that passed one may take."""
MUCH_SHORTER: Final = 0.5


@dataclass(frozen=True)
class Proposal:
    """One setting that should be another."""

    key: str
    now: Any
    proposed: Any
    why: str
    confidence: float | None
    beads: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "now": self.now,
            "proposed": self.proposed,
            "why": self.why,
            "confidence": self.confidence,
            "beads": list(self.beads[:20]),
        }


def proposals(tally: Tally, advice: Sequence[Advice], config: Config) -> list[Proposal]:
    """All that the records give reason for; at most one for each setting."""
    found = [
        *_model(advice, config),
        *_attempts(tally, config),
        *_timeout(tally, config),
        *_parallelism(advice, config),
    ]
    return [one for one in found if one.proposed != one.now]


def _model(advice: Sequence[Advice], config: Config) -> Iterator[Proposal]:
    """Where all kinds of beads that show a difference are done best by the same model."""
    key = "agent_defaults.default_model"
    named = [piece for piece in advice if piece.rule == "model-per-kind"]
    models = {piece.evidence["model"] for piece in named}
    if len(models) == 1 and not any(piece.rule == "model-trade-off" for piece in advice):
        why = " ".join(piece.text for piece in named)
        least = min(piece.confidence or 0.0 for piece in named)
        beads = [bead for piece in named for bead in piece.beads]
        yield Proposal(key, setting_of(config, key), models.pop(), why, least, beads)


def _attempts(tally: Tally, config: Config) -> Iterator[Proposal]:
    """One fewer where the last one hardly ever passes, one more where it passes often."""
    key, most = "max_retry_attempts", config.max_retry_attempts
    rate = tally.by_number.get(most, Rate(0, 0))
    if most > 1 and (low := chance_below(rate.hits, rate.of, HOPELESS)) >= 1 - LEVEL:
        why = f"The last attempt, number {most}, passes in {rate}: it is not worth its price."
        yield Proposal(key, most, most - 1, why, sure(1 - low))
    elif (high := 1 - chance_below(rate.hits, rate.of, HOPEFUL)) >= 1 - LEVEL:
        given_up = [name for name, whole in tally.beads.items() if whole.outcome == "failed"]
        if len(given_up) >= FEW:
            why = (
                f"The last attempt, number {most}, still passes in {rate}, "
                f"and {len(given_up)} beads were given up."
            )
            yield Proposal(key, most, most + 1, why, sure(1 - high), sorted(given_up))


def _timeout(tally: Tally, config: Config) -> Iterator[Proposal]:
    """Shorter where work that passes is done long before, and some was waited for in vain."""
    key, limit = "dev_agent_timeout", config.dev_agent_timeout
    times = sorted(tally.passed_seconds)
    vain = tally.setbacks.get("agent-timeout", 0)
    if len(times) < ENOUGH_TIMES or not vain:
        return
    usual = times[math.ceil(0.95 * len(times)) - 1]
    wanted = float(60 * math.ceil(ROOM * usual / 60))
    if wanted <= MUCH_SHORTER * limit:
        why = (
            f"95 % of {len(times)} attempts that passed took at most {time_text(usual)}, checks included; "
            f"{vain} ended at the limit of {time_text(limit)}."
        )
        yield Proposal(key, limit, wanted, why, None)


def _parallelism(advice: Sequence[Advice], config: Config) -> Iterator[Proposal]:
    key = "max_parallel_sessions"
    for piece in advice:
        if piece.rule == "parallelism":
            yield Proposal(key, setting_of(config, key), piece.evidence["max_parallel"], piece.text, None)
