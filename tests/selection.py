"""Which tests run: those of `make test`, or all; and what of the rest fits into a given time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings

ALL: Final = os.environ.get("BEADS_RALPH_TESTS") == "all"
# What `make test` leaves out, the most telling first: where time is short, the last ones are not run.
WORTH: Final = (
    "tests/contract/",
    "tests/store/",
    "tests/liars/",
    "tests/engine/",
    "tests/loop/test_chaos.py",
    "tests/loop/",
    "tests/real/",
    "tests/",
    "tests/test_bench.py",
)
_UNTIL: pytest.StashKey[float] = pytest.StashKey()


def examples(full: int) -> int:
    """How many examples a property is tried with: a fifth of them in the quick run."""
    return full if ALL else max(full // 5, 10)


def few(full: int) -> int:
    """How many of the points of a crash are tried: half of them in the quick run."""
    return full if ALL else full // 2


def settle_examples() -> None:
    """The settings of Hypothesis. In CI the same examples every time."""
    many = examples(100)
    settings.register_profile("beads-ralph", deadline=None, max_examples=many)
    settings.register_profile(
        "beads-ralph-ci", deadline=None, max_examples=many, derandomize=True, database=None
    )
    settings.load_profile("beads-ralph-ci" if os.environ.get("CI") else "beads-ralph")


def repeats_over_bd(item: pytest.Item) -> bool:
    """A law of every store, tried with bd, whose commands take half a second each."""
    given = (
        item.callspec.params.values()
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ()
    )
    return "bd" in list(given) and item.get_closest_marker("core") is None


def repeats_a_law(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of tests marked `sampled(n)` but for n of each, taken evenly from the first to the last."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and item.get_closest_marker("full") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for listed in cases.values():
        marker = listed[0].get_closest_marker("sampled")
        assert marker is not None
        step = max(len(listed) / marker.args[0], 1)
        kept = {int(step * number) for number in range(marker.args[0])}
        yield from (item for number, item in enumerate(listed) if number not in kept)


def needs_server(item: pytest.Item) -> bool:
    """It talks to a Temporal server, which takes seconds to start and minutes to build."""
    return "temporal_server" in getattr(item, "fixturenames", ())


def worth(item: pytest.Item) -> int:
    fitting = [rank for rank, start in enumerate(WORTH) if item.nodeid.startswith(start)]
    return max(fitting, key=lambda rank: len(WORTH[rank]), default=len(WORTH))


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "start no test after this many seconds, and take the most telling first"
    parser.addoption("--within", type=float, metavar="SECONDS", help=said)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in filter(repeats_over_bd, items):
        item.add_marker(pytest.mark.full)
    for item in repeats_a_law(items):
        item.add_marker(pytest.mark.full)
    for item in filter(needs_server, items):
        item.add_marker(pytest.mark.full)
        item.add_marker(pytest.mark.temporal)
    if config.getoption("within") is not None:
        items.sort(key=worth)


def pytest_configure(config: pytest.Config) -> None:
    settle_examples()
    within = config.getoption("within")
    if within is None:
        return
    started = getattr(config, "workerinput", {}).get("started", time.time())
    config.stash[_UNTIL] = started + within


def pytest_configure_node(node: object) -> None:
    """The workers of xdist start later than the run."""
    node.workerinput["started"] = time.time()  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.stash.get(_UNTIL, float("inf")):
        pytest.skip("did not fit into the time given")
