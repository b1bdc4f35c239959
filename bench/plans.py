"""Made-up plans of any size: phases of twenty sprints, with parallel sprints and tracks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice

FRONT_MATTER = """\
---
source_branch: main
dev_agents:
  - claude (sonnet)
qa_agents:
  - claude (haiku) - Run the tests and read the change; fail on anything unfinished
---

# A shop, from nothing to released

A made-up plan, to measure with. Its sprints are alike in size, so that time per sprint can be compared.
"""


def _words(text: str) -> list[str]:
    return text.split()


THINGS = _words(
    "catalogue basket checkout invoice refund voucher shipment warehouse supplier customer account session "
    "search index category review rating wish-list newsletter report ledger currency tax discount stock "
    "address courier receipt payment subscription"
)
PARTS = _words("model storage command view import export cache audit form endpoint migration schedule")
VERBS = _words("Create Extend Replace Check Document Split Speed-up Guard Rename Move")
REASONS = (
    "so that a crash in between loses nothing",
    "and reject empty values with an error that names the field",
    "without touching the public interface of the module",
    "in one transaction, with a test that interrupts it half-way",
    "behind the setting `experimental`, which is off by default",
    "as the *operations* team asked for in the last review",
)


def plan(sprints: int) -> str:
    """A plan of exactly that many sprints; the same text every time."""
    return FRONT_MATTER + "".join(islice(_sections(), sprints))


def _sections() -> Iterator[str]:
    for phase in count(1):
        heading = f"\n## Phase {phase}: {_title(random.Random(-phase))}\n"
        for name, joins in _tracks(phase) if phase % 2 == 0 else _line(phase):
            yield heading + _sprint(name, joins=joins)
            heading = ""


def _line(phase: int) -> Iterator[tuple[str, bool]]:
    """One sprint, three beside one another, one that joins them; four times. The mark is for those."""
    for start in range(1, 12, 3):
        yield f"{phase}.{start}", False
        yield from ((f"{phase}.{start + 1}{letter}", False) for letter in "abc")
        yield f"{phase}.{start + 2}", True


def _tracks(phase: int) -> Iterator[tuple[str, bool]]:
    """Two tracks of nine sprints, and two sprints that wait for both tracks."""
    for track in "ab":
        for start in range(1, 7, 3):
            yield f"{phase}{track}.{start}", False
            yield from ((f"{phase}{track}.{start + 1}{letter}", False) for letter in "ab")
            yield f"{phase}{track}.{start + 2}", True
        yield f"{phase}{track}.7", False
    yield from ((f"{phase}ab.1", True), (f"{phase}ab.2", False))


def _title(draw: random.Random) -> str:
    return f"{draw.choice(THINGS).capitalize()} {draw.choice(PARTS)} and {draw.choice(THINGS)}"


def _sprint(name: str, *, joins: bool) -> str:
    draw = random.Random(name)
    thing, part = draw.choice(THINGS), draw.choice(PARTS)
    title = f"Integration of {thing} and {draw.choice(THINGS)}" if joins else _title(draw)
    tasks = "".join(f"- {_task(draw)}\n" for _ in range(draw.randint(3, 5)))
    criteria = "".join(f"- {_criterion(draw)}\n" for _ in range(2))
    extra = f"\n**Labels**: `{thing}`, `{part}`\n" if draw.random() < 0.3 else ""
    extra += f"\n**Priority**: {draw.randint(1, 3)}\n" if draw.random() < 0.3 else ""
    return f"""
### Sprint {name}: {title}

The **{thing}** needs its own {part}, as `shop/{thing}/` has grown past what one reader can hold.
Nothing of it may be seen outside; see the [notes](docs/{thing}.md) for what was tried before.
{extra}
**Tasks**:
{tasks}
**Acceptance Criteria**:
{criteria}
**Verify**: `python -m pytest tests/{thing}/test_{part}.py`
"""


def _task(draw: random.Random) -> str:
    thing, part = draw.choice(THINGS), draw.choice(PARTS)
    return f"{draw.choice(VERBS)} the {part} in `shop/{thing}/{part}.py`, {draw.choice(REASONS)}"


def _criterion(draw: random.Random) -> str:
    return f"A {draw.choice(THINGS)} that was added is listed by a second process, {draw.choice(REASONS)}"
