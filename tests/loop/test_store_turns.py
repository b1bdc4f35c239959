"""Whose turn it is at the store: a close that dependents wait for goes before heartbeats and other beads."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from beads_ralph.loop.store_turns import StoreTurns


async def served(*names: str, cancelled: int | None = None) -> list[str]:
    """The order in which calls get their turn that all come while another one is at the store."""
    turns, order = StoreTurns(), list[str]()
    held = asyncio.Event()

    async def ask(name: str) -> None:
        async with turns.turn(name):
            order.append(name)
            await asyncio.sleep(0)

    async def first() -> None:
        async with turns.turn("update"):
            await held.wait()

    at_work = asyncio.create_task(first())
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(ask(name)) for name in names]
    await asyncio.sleep(0)
    if cancelled is not None:
        waiting[cancelled].cancel()
    held.set()
    await at_work
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*waiting)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not turns.busy
    return order


def test_what_others_wait_for_goes_first_and_the_rest_as_it_came() -> None:
    came = ("heartbeat", "update", "claim", "ready", "release", "close", "heartbeat", "close")
    ordered = ["close", "close", "ready", "claim", "update", "release", "heartbeat", "heartbeat"]
    assert asyncio.run(served(*came)) == ordered


def test_a_heartbeat_is_not_put_off_for_ever() -> None:
    order = asyncio.run(served("heartbeat", *["close"] * 100))
    assert 0 < order.index("heartbeat") < 50


def test_who_gives_up_while_it_waits_holds_nobody_up() -> None:
    assert asyncio.run(served("update", "close", "claim", cancelled=1)) == ["claim", "update"]


def test_a_turn_that_comes_together_with_the_cancellation_is_handed_on() -> None:
    async def both() -> list[str]:
        turns, order = StoreTurns(), list[str]()

        async def ask(name: str) -> None:
            async with turns.turn(name):
                order.append(name)

        async with turns.turn("update"):
            given_up, other = asyncio.create_task(ask("close")), asyncio.create_task(ask("ready"))
            await asyncio.sleep(0)
        given_up.cancel()  # its turn has come, and it does not know yet
        await asyncio.gather(given_up, other, return_exceptions=True)
        assert not turns.busy
        return order

    assert asyncio.run(both()) == ["ready"]
