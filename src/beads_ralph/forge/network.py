"""Patience with the network: temporary failures are tried again, a bounded number of times."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

from beads_ralph.errors import RalphError
from beads_ralph.process.jobs import Exit

Answer = TypeVar("Answer")

# What git, ssh, curl and gh say of trouble that may be over in a moment; all else is for the user.
TEMPORARY: Final = re.compile(
    r"HTTP (5\d\d|429)|returned error: (5\d\d|429)|rate limit|time-?out|timed out|could not resolve host"
    r"|no such host|name resolution|connection (refused|reset|closed)|network is unreachable|no route to host"
    r"|error connecting|failed to connect|couldn't connect|early EOF|: EOF|unexpected disconnect"
    r"|hung up unexpectedly|kex_exchange_identification|invalid character '<'",
    re.IGNORECASE,
)
REJECTED: Final = "rejected]"
# Two pushes at once; but a branch `a` in the way of `a/b` stays there.
RACED: Final = re.compile(r"cannot lock ref(?!.*cannot create)|incorrect old value")
CREDENTIALS: Final = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True)
class Network:
    """How long to wait for an answer, and how often to ask again."""

    retries: int = 3
    timeout: float = 30.0
    backoff: Literal["exponential", "linear", "constant"] = "exponential"
    pause: float = 1.0
    """Seconds before the second try; up to as much again is added by chance."""
    push_timeout: float = 600.0
    """A push carries data and runs the hooks of both sides."""
    creation_retries: int | None = None
    """How often to try again to open a pull request; None where that is as anything else."""

    @property
    def creating(self) -> Network:
        """The patience with opening a pull request."""
        return self if self.creation_retries is None else replace(self, retries=self.creation_retries)

    def wait(self, failures: int) -> float:
        """The seconds to wait after so many failures."""
        grown = {"exponential": 2.0 ** (failures - 1), "linear": failures, "constant": 1}[self.backoff]
        return self.pause * grown + secrets.SystemRandom().uniform(0, self.pause)


class TemporaryError(RalphError):
    """A failure that may be gone at the next try."""


def persist(attempt: Callable[[], Answer], network: Network) -> Answer:
    """The attempt's answer, tried again after temporary failures; the last failure where all fail."""
    for failures in range(1, network.retries + 1):
        try:
            return attempt()
        except TemporaryError:
            time.sleep(network.wait(failures))
    return attempt()


def is_temporary(ended: Exit) -> bool:
    """A ref that the other side rejected is mostly none, whatever words its name has in it."""
    if ended.timed_out:
        return True
    telling = RACED if REJECTED in ended.stderr else TEMPORARY
    return telling.search(ended.stderr) is not None


def words_of(ended: Exit, timeout: float) -> str:
    """What the program said, without the credentials that an address may carry."""
    said = CREDENTIALS.sub("://", ended.stderr.strip())
    if ended.timed_out:
        return f"no answer within {timeout:g} s\n{said}".strip()
    return said or f"exit code {ended.code}"
