"""Rates with what they rest on, and spreads of times and costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

CONFIDENCE_Z: Final = 1.959964
"""Of a 95 % interval."""
MINUTE: Final = 60
HOUR: Final = 3600


@dataclass(frozen=True)
class Rate:
    """So many of so many."""

    hits: int
    of: int

    @property
    def percent(self) -> float | None:
        """None where there is nothing to take a share of."""
        return round(100 * self.hits / self.of, 2) if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's: where the true rate lies, in 95 of 100 cases. Honest for few runs, too."""
        if not self.of:
            return None
        n, p, z = self.of, self.hits / self.of, CONFIDENCE_Z
        middle = p + z * z / (2 * n)
        reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        low, high = ((middle + side * reach) / (1 + z * z / n) for side in (-1, 1))
        # Rounding would otherwise leave 0 of n a hair above 0, and n of n below 100.
        return round(100 * max(low, 0.0), 2), round(100 * min(high, 1.0), 2)

    def __str__(self) -> str:
        if self.interval is None:
            return "-"
        low, high = self.interval
        return f"{100 * self.hits / self.of:.0f} % ({self.hits} of {self.of}; {low:.0f} to {high:.0f} %)"


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of ascending values, at least one; between two of them in proportion."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True)
class Spread:
    """Mean and quantiles of values; all None where there are none."""

    n: int
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values:
            return cls(0)
        ordered = sorted(values)
        mean = math.fsum(ordered) / len(ordered)
        return cls(len(ordered), mean, quantile(ordered, 0.5), quantile(ordered, 0.95))

    def to_json(self, digits: int = 3) -> dict[str, Any]:
        rounded = {name: shortened(getattr(self, name), digits) for name in ("mean", "p50", "p95")}
        return {"n": self.n, **rounded}


def shortened(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def time_text(seconds: float | None) -> str:
    """For people: 0.4 s, 42 s, 3 min, 3 min 05 s, 2 h 10 min."""
    if seconds is None:
        return "-"
    if seconds < 10:  # noqa: PLR2004 - where tenths begin to matter
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s".removesuffix(" 00 s")
    minutes = round(seconds / MINUTE)
    return f"{minutes // MINUTE} h {minutes % MINUTE:02d} min".removesuffix(" 00 min")


def money_text(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:,.2f}"
