"""A program that has our terminal for a while, and the terminal afterwards as it was before."""

from __future__ import annotations

import sys
import termios
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from beads_ralph.process import jobs

POLL_SECONDS: Final = 0.05
RESTORED: Final = "\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m"
"""Leaves the other screen, shows the cursor, and undoes what else a program asks of a terminal."""


class StartedProgram(Protocol):
    """A process that somebody waits for."""

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""

    def wait(self) -> int: ...

    def terminate(self) -> None: ...


@dataclass
class ForegroundProgram:
    """One that was started with our own streams."""

    process: StartedProgram
    modes: list[Any] = field(default_factory=list)

    @classmethod
    def start(cls, words: tuple[str, ...]) -> Self:
        modes = termios.tcgetattr(sys.stdin)
        return cls(jobs.in_foreground(words), modes)

    def wait(self, seconds: float = float("inf")) -> int | None:
        """Its exit code; None where it is still there after so many seconds."""
        until = time.monotonic() + seconds
        while (code := self.process.poll()) is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return code

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait()

    def restore(self, code: int) -> None:
        """Give the terminal back: a program that was killed has left it in a state of its own."""
        if code != 0:
            sys.stderr.write(RESTORED)
            sys.stderr.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.modes)
