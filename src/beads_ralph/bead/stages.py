"""The stages of an attempt that has no verdict yet: who of its developers and reviewers has done their part.

Nobody is paid again for a stage that ended well. Verifiers cost no money, so a proof never rests on those of
an earlier run: they run again on the same commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from beads_ralph.bead import json_fields
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.json_fields import Argument, FieldError


@dataclass(frozen=True)
class Review:
    """A reviewer's verdict, and what it rests on."""

    seat: int
    """Which of the bead's reviewers it is."""
    told: Argument
    """A hash of what the reviewer was told: where the work begins, who it is, checks, findings."""
    check: Evidence
    """The verdict; it names the commit."""
    flags: tuple[str, ...] = ()
    """What the reviewer was asked to look at."""

    def is_on(self, commit: str, told: str, flags: Collection[str]) -> bool:
        """True if it would be asked for again word by word. A flag that is not raised any more stays."""
        return (self.check.commit, self.told) == (commit, told) and set(flags) <= set(self.flags)


@dataclass(frozen=True)
class Reached:
    """How far an attempt came."""

    attempt: int
    of: Argument
    """A hash of what the bead asked for then."""
    developers: int = 0
    """So many of the bead's developers have done their part, in their order."""
    commit: Argument = ""
    """Where the last of them left the branch."""
    reviews: tuple[Review, ...] = ()

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Reached | None:
        """As a bead keeps it; None where that cannot be read, and the stages count for nothing."""
        try:
            return json_fields.from_json(cls, row)
        except FieldError:
            return None

    @property
    def mark(self) -> tuple[object, ...]:
        """Tells it from any other, however a store writes it down."""
        given = ((one.seat, one.told, one.check.commit, one.check.ruling) for one in self.reviews)
        return (self.attempt, self.of, self.developers, self.commit, *given)

    def begun(self, seat: int) -> Reached:
        """A developer has begun: its part and what follows is to be done."""
        return replace(self, developers=min(self.developers, seat - 1), reviews=())

    def developed(self, seat: int, commit: str | None) -> Reached:
        """A developer has done its part. What others said of the work before is not about this."""
        return replace(self, developers=seat, commit=commit or "", reviews=())

    def asked(self, seat: int) -> Reached:
        """A reviewer is asked, perhaps again: what it said before does not count."""
        return replace(self, reviews=tuple(one for one in self.reviews if one.seat != seat))

    def reviewed(self, review: Review) -> Reached:
        return replace(self, reviews=(*self.asked(review.seat).reviews, review))
