"""A plugin of pytest that prints, at the end, how many liars of each kind still get a bead closed.

`pytest tests/liars -m "" -n 2 -p tests.liars.table`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pytest


def _played(reports: Iterable[Any]) -> Iterator[tuple[str, str, str, list[str]]]:
    for report in reports:
        if getattr(report, "when", "") == "call":
            yield from (value for key, value in report.user_properties if key == "liar")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = sorted(_played(chain.from_iterable(terminalreporter.stats.values())))
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section("liars: beads closed falsely, of those played")
    for kind in dict.fromkeys(kind for kind, *_ in rows):
        counts = []
        for mode in ("none", "bwrap", "bare"):
            false = [bool(why) for of, _, where, why in rows if (of, where) == (kind, mode)]
            counts.append(f"{mode} {sum(false):3} of {len(false):3}")
        write(f"{kind:12} {'   '.join(counts)}")
    for kind, name, mode, why in rows:
        if why:
            write(f"{kind:12} {mode:6} {name}: {why[0]}")
