"""Patience with the network: temporary failures are tried again, a bounded number of times."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from beads_ralph.config.model import Config
from beads_ralph.errors import RalphError
from beads_ralph.process.jobs import Exit
from beads_ralph.process.retry import Retry

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
RETRY: Final = Retry()
CREDENTIALS: Final = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True)
class Network:
    """How long to wait for an answer, and how often to ask again."""

    retry: Retry = RETRY
    timeout: float = 30.0
    push_timeout: float = 600.0
    """A push carries data and runs the hooks of both sides."""
    creation: Retry | None = None
    """How often to try to open a pull request; None where that is as anything else."""

    @classmethod
    def of(cls, config: Config) -> Network:
        """As the settings say."""
        retry = Retry(config.max_network_retries + 1, growth=config.retry_backoff)
        creation = replace(retry, tries=config.pr_creation_retries + 1)
        return cls(retry, config.network_timeout, creation=creation)


class TemporaryError(RalphError):
    """A failure that may be gone at the next try."""


def persist(attempt: Callable[[], Answer], retry: Retry) -> Answer:
    """The attempt's answer, tried again after temporary failures; the last failure where all fail."""
    return retry.call(attempt, lambda error: isinstance(error, TemporaryError))


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
