"""What was measured, as rows of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table. Without a bound it is only shown."""

    measurement: str
    value: str
    bound: str = ""
    ok: bool | None = None

    @property
    def verdict(self) -> str:
        return {None: "", True: "ok", False: "over"}[self.ok]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Judge:
    """Compares with the bounds. Small sizes say nothing about large ones, so a quick run judges no time."""

    quick: bool

    def at_most(self, measurement: str, ratio: float, bound: float, of: str = "") -> Row:
        return self._row(measurement, f"{ratio:.2f} x{of}", f"≤ {bound:g} x", ratio <= bound)

    def at_least(self, measurement: str, ratio: float, bound: float, of: str = "") -> Row:
        return self._row(measurement, f"{ratio:.0f} x{of}", f"≥ {bound:g} x", ratio >= bound)

    def _row(self, measurement: str, value: str, bound: str, ok: bool) -> Row:
        return Row(measurement, value, bound, None if self.quick else ok)

    def share(self, measurement: str, percent: float, least: float, most: float) -> Row:
        """A share that simulations must keep within bounds."""
        bound = f"{least:g} to {most:g} %" if least else f"≤ {most:g} %"
        return self._row(measurement, f"{percent:.1f} %", bound, least <= percent <= most)

    def exactly(self, measurement: str, found: int, wanted: int) -> Row:
        """Counting is judged at every size."""
        return Row(measurement, f"{found:,}", f"= {wanted:,}", found == wanted)


def seconds(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}" if value * factor < 100 else f"{value * factor:.0f} {unit}"
    return f"{value * 1e6:.0f} µs"


def table(rows: Sequence[Row]) -> str:
    cells = [("measurement", "value", "bound", "")]
    cells += [(row.measurement, row.value, row.bound, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [
        f"{name:<{widths[0]}}  {value:>{widths[1]}}  {bound:>{widths[2]}}  {verdict}".rstrip()
        for name, value, bound, verdict in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
