"""Following an agent's program while it runs: one that only waits for its server need not be waited for.

A short wait is left to the program, which may get on. One that it announces to be long, one that it repeats,
and one after which it says nothing more is known as trouble at once, and whoever runs the program ends it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from beads_ralph.agents import prices, reply_reader
from beads_ralph.agents.protocol import AgentCLI, Listener, ProgramWait, Reply, TalkingCLI
from beads_ralph.bead.usage import UNKNOWN, Budget, Usage
from beads_ralph.bead.words import utc_text
from beads_ralph.config.model import ModelPrice
from beads_ralph.process.jobs import Exit, Job, Transcript

AT_ONCE: Final = 1024 * 1024
"""So much is read at one look; of a longer line only the beginning is kept."""
BEGINNING: Final = 2000
PAUSE: Final = 1.0
"""Seconds between two looks."""
ENDING: Final = 5.0
"""Seconds for a program that has used up its budget to end by itself."""
ALMOST_A_SECOND: Final = timedelta(microseconds=999_999)


@dataclass(frozen=True)
class Patience:
    """How long a program may wait for its server."""

    announced: float = 20.0
    """The longest wait that it may announce."""
    tries: int = 3
    settling: float = 10.0
    """So many tries in vain are enough, but not within these seconds."""
    silence: float = 60.0
    """The longest that it may say nothing after it has told that it waits: it may be at work again, without a
    word."""

    def is_over(self, wait: ProgramWait, seconds: float) -> bool:
        """Tell whether it is enough, `seconds` after the first word of it."""
        if wait.seconds is not None and wait.seconds > self.announced:
            return True
        return seconds > self.silence or (wait.tries >= self.tries and seconds > self.settling)


PATIENCE: Final = Patience()


@dataclass
class _LongLine:
    """A line of which only the beginning is kept."""

    beginning: bytes
    size: int

    def told(self) -> str:
        return f"{_decoded(self.beginning)} … [cut off: a line of {self.size / 1e6:.1f} MB]"


def _decoded(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


class LiveLines:
    """The whole lines of a file that is being written, as they come."""

    def __init__(self, path: Path, start: int | None = None) -> None:
        """From its end as it is now, or from `start`."""
        self.path = path
        self._at = _size(path) if start is None else start
        self._rest = b""
        self._long: _LongLine | None = None

    def more(self) -> Iterator[str]:
        """What was written since the last look, but not more than one reads at once."""
        if _size(self.path) == self._at:
            return
        *whole, self._rest = (self._rest + self._read()).split(b"\n")
        if self._long is not None:
            self._long.size += len(whole[0]) if whole else len(self._rest)
            if not whole:
                self._rest = b""
            else:
                yield self._long.told()
                whole, self._long = whole[1:], None
        if len(self._rest) > AT_ONCE:
            self._long, self._rest = _LongLine(self._rest[:BEGINNING], len(self._rest)), b""
        for line in whole:
            yield _decoded(line)

    def all(self) -> Iterator[str]:
        """Everything up to the end that the file has now."""
        before = -1
        while before != self._at:
            before = self._at
            yield from self.more()

    def rest(self) -> Iterator[str]:
        """What stands after the last line end, of a file to which nobody writes any more."""
        if self._long is not None:
            yield self._long.told()
        elif self._rest:
            yield _decoded(self._rest)
        self._long, self._rest = None, b""

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                found = file.read(AT_ONCE)
        except OSError:  # the program may have removed it
            return b""
        self._at += len(found)
        return found


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - once a second for each agent
    except OSError:
        return 0


@dataclass
class CallBudget:
    """What one call may use, and what its tokens cost."""

    most: Budget
    price: Callable[[str], ModelPrice | None]
    """Of the model that answers, as far as the program tells which that is."""
    used: Usage = UNKNOWN

    def used_up(self, listener: Listener) -> str:
        self.used, _ = prices.priced(listener.so_far, self.price(listener.model))
        return self.most.used_up(self.used, 0.0)


class Follower:
    """A watcher of one call."""

    def __init__(
        self,
        listener: Listener,
        transcript: Transcript,
        patience: Patience = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        spending: CallBudget | None = None,
    ) -> None:
        self.listener = listener
        self.patience = patience
        self.clock = clock
        self.spending = spending
        self.overspent = ""
        self._over_since: float | None = None
        self.out, self.err = LiveLines(transcript.out), LiveLines(transcript.err)
        self._since: float | None = None
        self._looked = -PAUSE
        self._heard_at = datetime.now(UTC)
        self._wait: ProgramWait | None = None

    def is_in_vain(self) -> bool:
        if self.clock() < self._looked + PAUSE:
            return False
        self._looked = self.clock()
        self._hear()
        if self._spends_too_much():
            return True
        wait = self.listener.waiting
        if wait is None:
            self._since = None
            return False
        if self._since is None:
            self._since = self.clock()
        return self.patience.is_over(wait, self.clock() - self._since)

    def _spends_too_much(self) -> bool:
        """Most tell what they have used with their last words, and end by themselves then."""
        used_up = self.spending.used_up(self.listener) if self.spending else ""
        if not used_up:
            self._over_since = None
            return False
        if self._over_since is None:
            self._over_since = self.clock()
        self.overspent = used_up if self.clock() - self._over_since > ENDING else ""
        return bool(self.overspent)

    def _hear(self) -> None:
        for line in self.out.more():
            self.listener.printed(line)
        for line in self.err.more():
            self.listener.complained(line)
        if self.listener.waiting is not self._wait:
            self._wait, self._heard_at = self.listener.waiting, datetime.now(UTC)

    def told(self, reply: Reply) -> Reply | None:
        """The reply of a call that was ended while it waited, with what it waited for; None where it did not
        wait."""
        wait = self._wait
        if wait is None:
            return None
        until = reply.limit_reset_at
        if wait.trouble == "limit" and wait.seconds is not None:
            until = utc_text(self._heard_at + timedelta(seconds=wait.seconds) + ALMOST_A_SECOND)
        return replace(reply, trouble=wait.trouble, detail=wait.said, limit_reset_at=until, result=None)


def follow(
    cli: AgentCLI, job: Job, patience: Patience = PATIENCE, spending: CallBudget | None = None
) -> Follower | None:
    """Follow a job of this program; None for one that tells nothing while it runs."""
    if not isinstance(cli, TalkingCLI) or job.transcript is None:
        return None
    return Follower(cli.listener(), job.transcript, patience, spending=spending)


def heard(cli: AgentCLI, job: Job, ended: Exit, follower: Follower | None = None) -> Reply:
    """The reply of a job that has ended, by itself or not."""
    reply = reply_reader.heard(cli, job, ended)
    if follower is not None and follower.overspent and ended.gave_up:
        words = f"the {follower.overspent}"
        return replace(reply, trouble="", detail=words, overspent=words, result=None)
    if ended.limit not in ("trouble", "stalled", "timeout"):
        return reply
    if follower is not None and (waited := follower.told(reply)) is not None:
        return waited
    if not ended.stalled:
        return reply
    return replace(reply, trouble="stalled", detail=ended.cut_short.removeprefix("stalled: "), result=None)
