"""Somebody at a real terminal, who reads what a command shows and types an answer."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.running import RALPH, environment

CTRL_C, CTRL_D = "\x03", "\x04"
SETTINGS = {"TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": "1"}
PATIENCE = 120.0
AGAIN = 10.0


@dataclass
class Terminal:
    """A command with a terminal of its own."""

    pid: int
    fd: int
    seen: str = ""
    deadline: float = field(default_factory=lambda: time.monotonic() + PATIENCE)
    code: int | None = None

    def shows(self, text: str) -> None:
        """Read until the text is there."""
        while text not in self.seen:
            assert self._reads(), f"ended without {text!r}:\n{self.seen}"

    def types(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def ends(self, typed: str = "") -> int:
        """Read to the end; the value is the exit code. What was typed is typed again where nothing came of it
        for a while, as people do: in the moment between a prompt and the wait for an answer it is lost."""
        while self._reads(typed):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def _reads(self, typed: str = "") -> bool:
        left = max(0.0, self.deadline - time.monotonic())
        ready, _, _ = select.select([self.fd], [], [], min(left, AGAIN) if typed else left)
        if typed and not ready and left > AGAIN:
            self.types(typed)
            return True
        assert ready, f"nothing more was shown:\n{self.seen}"
        more = b""
        with suppress(OSError):  # how a terminal says that nobody writes to it any more
            more = os.read(self.fd, 65536)
        self.seen += more.decode("utf-8", "replace")
        return bool(more)


@contextmanager
def at_a_terminal(root: Path, *words: str, **settings: str) -> Iterator[Terminal]:
    """`beads-ralph …` at a terminal; whatever happens, it is gone at the end."""
    env = environment({**SETTINGS, **settings})
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.chdir(root)
            os.execve(RALPH[0], [*RALPH, *words], env)  # noqa: S606 - a shell would be somebody else
        finally:
            os._exit(127)
    terminal = Terminal(pid, fd)
    try:
        yield terminal
    finally:
        if terminal.code is None:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        os.close(fd)
