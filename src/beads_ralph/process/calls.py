"""Blocking calls: tried again after trouble that may pass, made in threads that are waited for, and ended
with all that they started by whoever ends us."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal, NoReturn, ParamSpec, TypeVar

from beads_ralph.errors import Code, RalphError

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Item = TypeVar("Item")
Growth = Literal["exponential", "linear", "constant"]
FOREVER: Final = float("inf")
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""How a command is told to end."""
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


# --- ended from outside -------------------------------------------------------------------------------


@contextmanager
def ends_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end us as Ctrl-C does, so that whoever started a program ends it, too. A signal
    that is ignored, as nohup has it, stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def side_by_side(call: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """What the call gives for each, all at the same time. Whatever ends us ends what they have started."""
    from concurrent.futures import ThreadPoolExecutor

    from beads_ralph.process import jobs

    given = list(items)
    with ends_as_ctrl_c(), ThreadPoolExecutor(max_workers=max(len(given), 1)) as pool:
        try:
            return list(pool.map(call, given))
        except KeyboardInterrupt:
            jobs.end_running()
            raise


def run_until_ended(work: Coroutine[Any, Any, Answer], left: str = "") -> Answer:
    """What the work gives. Ctrl-C, SIGTERM and SIGHUP cancel it, so that it ends all that it has started; it
    was interrupted then, and `left` says how it left things."""
    import asyncio

    async def cancellable() -> Answer:
        running = asyncio.ensure_future(work)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        try:
            return await running
        except asyncio.CancelledError:
            message = f"interrupted; {left}" if left else "interrupted"
            raise RalphError(Code.INTERRUPTED, message) from None

    return asyncio.run(cancellable())
