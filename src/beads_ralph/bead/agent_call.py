"""An agent call: who was asked in which role, and what kind of trouble it ran into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beads_ralph.bead.usage import UNKNOWN, Usage

Trouble = Literal["", "limit", "auth", "server", "refused", "forgotten", "unfinished", "unreadable"]
"""limit: a rate or usage limit. auth: not signed in. server: may be over in a moment. refused: the CLI or
its model will not do it, however often it is asked. forgotten: the session to go on with is not known.
unfinished: it ended without its own last word, so that an exit code of 0 says nothing. unreadable: there
is an answer, but not one that can be read."""


@dataclass(frozen=True)
class Session:
    """A conversation that an agent can go on with."""

    id: str
    counted: Usage = UNKNOWN
    """What its CLI has counted from its beginning, so that a call can be told from those before it."""
