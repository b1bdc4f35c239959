"""Ranges of ports, each lent to one worktree at a time, whichever of the user's runs it belongs to."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock

LAST: Final = 65535


@dataclass(frozen=True)
class LentPorts:
    """`count` ports from `first` on."""

    first: int
    count: int

    @property
    def env(self) -> Mapping[str, str]:
        return {
            "PORT": str(self.first),
            "BEADS_RALPH_PORT_FIRST": str(self.first),
            "BEADS_RALPH_PORT_COUNT": str(self.count),
        }

    def to_json(self) -> dict[str, int]:
        return {"first": self.first, "count": self.count}


class Ports:
    """Lends ranges. Who holds one is known by a lock on the byte of each port in one file: the kernel drops
    the locks of a process that was killed, so that no range can be lost."""

    def __init__(self, first: int, count: int, file: Path | None = None) -> None:
        self.first = first
        self.count = count
        self.file = file or register()
        self._descriptor: int | None = None
        self._held: set[int] = set()

    @contextmanager
    def lent(self) -> Iterator[LentPorts]:
        """A range that nobody else has and nobody listens on, until the end of the block."""
        found = self._take()
        try:
            yield found
        finally:
            self._give_back(found)

    def _take(self) -> LentPorts:
        for first in range(self.first, LAST - self.count + 2, self.count):
            # The locks are the process's own, not the thread's: what we hold ourselves is in `_held`.
            if first not in self._held and lock.take_bytes(self._open(), first, self.count):
                self._held.add(first)
                if all(_is_free(port) for port in range(first, first + self.count)):
                    return LentPorts(first, self.count)
                self._give_back(LentPorts(first, self.count))
        message = f"worktree_ports: no {self.count} free ports in a row from {self.first} on"
        action = "Set a lower worktree_ports.first or a lower count in beads-ralph.yaml"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)

    def _open(self) -> int:
        if self._descriptor is None:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as problem:
                message = f"cannot open {self.file}: {problem.strerror}"
                raise RalphError(Code.WRITE_FAILED, message) from None
        return self._descriptor

    def _give_back(self, range_: LentPorts) -> None:
        self._held.discard(range_.first)
        if self._descriptor is not None:
            lock.free_bytes(self._descriptor, range_.first, range_.count)
        if not self._held and self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def register() -> Path:
    """One for all repositories of a user: they share the machine's ports."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "beads-ralph" / "ports"


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True
