"""Verifiers over their runs: how often each was red, and which of them say red and green of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

RED: Final = 1
GREEN: Final = 2
BOTH: Final = RED | GREEN
AGAIN: Final = 4
BITS: Final = 3
MASK: Final = BOTH | AGAIN
RULINGS: Final = {"pass": GREEN, "fail": RED, "stop": RED}


@dataclass(slots=True)
class SeenCheck:
    """The record of one verifier."""

    name: str
    place: int
    """Where its bits begin in what was said of a commit."""
    runs: int = 0
    red: int = 0
    flips: int = 0
    """Commits of which it said both."""
    repeated: int = 0
    """Commits on which it ran more than once: only there it could be caught."""
    beads: set[str] = field(default_factory=set)
    """In which it was caught."""

    def to_json(self) -> dict[str, Any]:
        return {
            "verifier": self.name,
            "runs": self.runs,
            "red": self.red,
            "commits_repeated": self.repeated,
            "commits_flaky": self.flips,
            "beads": sorted(self.beads),
        }


def _rulings(said: Any) -> list[int]:
    """What each run of a check said, where it was run again on the same commit."""
    rows = said if isinstance(said, list) else []
    return [RULINGS[one] for one in rows if type(one) is str and one in RULINGS]


class Verifiers:
    """Every verifier, by its name and its command."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], SeenCheck] = {}
        self.said: dict[str, int] = {}
        """By commit three bits a verifier: RED, GREEN, and AGAIN where it was asked more than once. There may
        be a hundred thousand commits, each judged by the same few verifiers."""

    def add(self, bead: str, checks: Any, *, in_place: bool = False) -> None:
        """The checks of one attempt. Those that ran `in_place`, among changes that nobody committed, say
        nothing of a commit."""
        for check in checks if type(checks) is list else ():
            if type(check) is not dict or check.get("kind") != "verifier":
                continue
            said, name, command = check.get("ruling"), check.get("name"), check.get("command") or ""
            if type(name) is not str or type(command) is not str or not name:
                continue
            seen = self.seen.get((name, command))
            if seen is None:
                seen = self.seen[name, command] = SeenCheck(name, BITS * len(self.seen))
            ruling = RULINGS.get(said) if type(said) is str else None
            if ruling is None:
                continue
            rulings = _rulings(check["rulings"]) if "rulings" in check else ()
            self._count(bead, seen, rulings or (ruling,), None if in_place else check.get("commit"))

    def _count(self, bead: str, seen: SeenCheck, rulings: Sequence[int], commit: Any) -> None:
        known = type(commit) is str and commit != ""
        for ruling in rulings:
            seen.runs += 1
            if ruling == RED:
                seen.red += 1
            if known:
                self._judge(bead, seen, ruling, commit)

    def _judge(self, bead: str, seen: SeenCheck, ruling: int, commit: str) -> None:
        said = self.said.get(commit, 0)
        before = said >> seen.place & MASK
        if before:
            seen.repeated += not before & AGAIN
            if (before | ruling) & BOTH == BOTH:
                seen.flips += before & BOTH != BOTH
                seen.beads.add(bead)
            ruling |= AGAIN
        self.said[commit] = said | ruling << seen.place

    @property
    def flaky(self) -> list[SeenCheck]:
        """Those that were caught, the worst first."""
        caught = (seen for seen in self.seen.values() if seen.flips)
        return sorted(caught, key=lambda seen: (-seen.flips, seen.name))
