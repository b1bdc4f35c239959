"""Blocking work in a thread of its own: a cancellation waits for it, so that git is never left running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


async def in_thread(call: Callable[Given, Answer], *args: Given.args, **named: Given.kwargs) -> Answer:
    """What the call returns. Cancelled, it ends when the call has ended: half a change is never left."""
    working = asyncio.ensure_future(asyncio.to_thread(call, *args, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # looked at, lest asyncio complain that nobody did
        raise
