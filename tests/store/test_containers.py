"""When containers are done: whatever lies in what, and even where they lie in one another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.store.protocol import Settled
from beads_ralph.store.rules import Container, settled

CONTAINERS = "ABCDE"
THINGS = "xyz"
MEMBERS = st.lists(st.sampled_from(CONTAINERS + THINGS), max_size=4, unique=True).map(tuple)


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Container], set[str]]:
    built = [Container(name, draw(st.booleans()), draw(MEMBERS), draw(MEMBERS)) for name in CONTAINERS]
    return built, draw(st.sets(st.sampled_from(THINGS)))


def after(containers: list[Container], outcome: Settled) -> list[Container]:
    closed = {it.id for it in containers if it.closed} - set(outcome.reopened) | set(outcome.closed)
    return [Container(it.id, it.id in closed, it.members, it.needs) for it in containers]


@given(stores())
def test_nothing_is_left_to_do_afterwards(store: tuple[list[Container], set[str]]) -> None:
    containers, open_things = store
    outcome = settled(containers, open_things.__contains__)
    assert settled(after(containers, outcome), open_things.__contains__) == Settled()


@given(stores())
def test_who_is_closed_has_nothing_open_and_who_is_open_has_a_reason(
    store: tuple[list[Container], set[str]],
) -> None:
    containers, open_things = store
    outcome = settled(containers, open_things.__contains__)
    then = {it.id: it for it in after(containers, outcome)}
    left_open = open_things | {name for name, it in then.items() if not it.closed}
    for was in containers:
        now = then[was.id]
        held = [name for name in now.members if name in left_open and name != now.id]
        if not now.members:
            assert now.closed == was.closed
        elif now.closed:
            assert not held
        elif was.closed:
            assert held
        else:
            assert held or left_open.intersection(now.needs)
