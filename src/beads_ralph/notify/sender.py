"""Sending beside the run: a queue and a thread, so that no receiver holds anything up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from beads_ralph.journal.events import Event
from beads_ralph.journal.journal import Journal
from beads_ralph.notify.channels import Channel, NotSentError
from beads_ralph.notify.messages import Message, digest, message_of

GATHERING: Final = 2.0
"""Seconds in which messages come together before they are sent."""
MANY: Final = 3
"""More messages than this at once go out as one."""
WAITING: Final = 500
"""The most messages that wait; what comes beyond is dropped, and told at the end."""
FAILURES: Final = 3
"""A channel that failed so often in a row is left alone for the rest of the run."""
LAST_SECONDS: Final = 8.0
"""The longest that the end of a run waits for its messages."""


class Notifier:
    """Hears the journal, and sends from a thread of its own."""

    def __init__(
        self, channels: Sequence[Channel], gathering: float = GATHERING, last_seconds: float = LAST_SECONDS
    ) -> None:
        self.channels = channels
        self.gathering, self.last_seconds = gathering, last_seconds
        self.problems: dict[str, str] = {}
        """By channel, why its last message did not arrive."""
        self.dropped = 0
        self._told: set[str] = set()
        self._failures: dict[str, int] = {}
        self._waiting: queue.Queue[Message | None] = queue.Queue(WAITING)
        # A daemon: a receiver that hangs must not keep the program from ending.
        self._thread = threading.Thread(target=self._work, name="notify", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hear(self, event: Event) -> None:
        """Take an event of the journal; never waits."""
        message = message_of(event)
        if message is None or message.cause in self._told:
            return
        if not any(message.urgency in channel.when for channel in self.channels):
            return
        self._told.add(message.cause)
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self.dropped += 1

    def close(self) -> list[str]:
        """Send what is left, for a bounded time; gives what a person should know of it."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            self.dropped += 1
        self._thread.join(self.last_seconds)
        told = [f"{name}: {why}" for name, why in list(self.problems.items())]
        if self._thread.is_alive():
            told.append("some messages were still under way when the run ended")
        return [*told, *([f"{self.dropped} messages were dropped"] if self.dropped else [])]

    # --- in the thread ---

    def _work(self) -> None:
        while True:
            messages, over = self._gathered()
            for channel in self.channels:
                wanted = [one for one in messages if one.urgency in channel.when]
                for message in [digest(wanted)] if len(wanted) > MANY else wanted:
                    self._send(channel, message)
            if over:
                return

    def _gathered(self) -> tuple[list[Message], bool]:
        """The next message, and those that follow it closely; True where none comes any more."""
        first = self._waiting.get()
        found, until = [first], time.monotonic() + self.gathering
        while found[-1] is not None:
            try:
                found.append(self._waiting.get(timeout=max(until - time.monotonic(), 0.0)))
            except queue.Empty:
                break
        return [one for one in found if one is not None], found[-1] is None

    def _send(self, channel: Channel, message: Message) -> None:
        if self._failures.get(channel.name, 0) >= FAILURES:
            return
        try:
            channel.send(message)
        except NotSentError as problem:
            self.problems[channel.name] = str(problem)
            self._failures[channel.name] = self._failures.get(channel.name, 0) + 1
        except Exception as problem:  # noqa: BLE001 - a library of somebody else's must not end the thread
            self.problems[channel.name] = type(problem).__name__
            self._failures[channel.name] = FAILURES
        else:
            self._failures[channel.name] = 0


@contextmanager
def listening(
    journal: Journal, channels: Sequence[Channel], note: Callable[[str], None]
) -> Iterator[Notifier | None]:
    """Send what the journal tells while this lasts; `note` is told what did not arrive."""
    if not channels:
        yield None
        return
    notifier = Notifier(channels)
    notifier.start()
    journal.listeners.append(notifier.hear)
    try:
        yield notifier
    finally:
        for problem in notifier.close():
            note(f"warning: {problem}")
