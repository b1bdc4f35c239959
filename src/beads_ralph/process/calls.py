"""Blocking calls: tried again after trouble that may pass, and made in threads that are waited for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, ParamSpec, TypeVar

from beads_ralph.errors import RalphError

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Growth = Literal["exponential", "linear", "constant"]
FOREVER: Final = float("inf")
DOUBLINGS: Final = 30
"""Beyond these a pause does not grow, and stays a number."""


@dataclass(frozen=True)
class Retry:
    """The one policy for trouble that may pass: a bounded number of tries.

    The pauses are at random within their jitter: two who met in the way of one another should not meet again.
    """

    tries: int = 4
    first: float = 1.0
    """Seconds before the second try."""
    growth: Growth = "exponential"
    jitter: float = 0.5
    """The share by which a pause may be longer or shorter."""
    longest: float = FOREVER

    def pause(self, failures: int) -> float:
        """The seconds to wait after so many failures."""
        return self._grown(failures) * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311

    def pauses(self) -> Iterator[float]:
        """The seconds before the second, the third … try."""
        return map(self.pause, range(1, self.tries))

    def call(
        self,
        attempt: Callable[[], Answer],
        passes: Callable[[RalphError], bool],
        sleep: Callable[[float], object] = time.sleep,
    ) -> Answer:
        """The attempt's answer, tried again after errors that pass; the last error where all tries fail."""
        for pause in self.pauses():
            try:
                return attempt()
            except RalphError as error:
                if not passes(error):
                    raise
            sleep(pause)
        return attempt()

    def _grown(self, failures: int) -> float:
        times = {"exponential": 1 << min(failures - 1, DOUBLINGS), "linear": failures, "constant": 1}
        return min(self.first * times[self.growth], self.longest)


async def in_thread(call: Callable[Given, Answer], *args: Given.args, **named: Given.kwargs) -> Answer:
    """Give what the call returns. Cancelled, it ends when the call has ended: no git is left running, and no
    change half made."""
    import asyncio  # here, since most commands retry and few wait

    working = asyncio.ensure_future(asyncio.to_thread(call, *args, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # looked at, lest asyncio complain that nobody did
        raise
