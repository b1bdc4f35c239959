"""Proven work on the remote, looked at once more at the end of a run: it holds what was proven, or people
have taken it; what an agent has pushed over or deleted is put back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.errors import RalphError
from beads_ralph.forge.protocol import Forge, PullRequest
from beads_ralph.git import guard
from beads_ralph.journal.events import WarningGiven
from beads_ralph.journal.journal import EventSink
from beads_ralph.process.calls import in_thread

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pushed:
    """The proven work of a bead, as the remote was seen to hold it."""

    bead: str
    branch: str
    target: str
    commit: str


@dataclass
class Published:
    """What the remote has to hold at the end of a run."""

    root: Path
    forge: Forge
    journal: EventSink
    remarks: list[str]
    """What a person should be told at the end."""
    expected: dict[str, Pushed] = field(default_factory=dict)
    """By branch; of several beads there the last one."""
    begun: Mapping[str, str] = field(default_factory=dict)
    """What the remote held when the run began."""

    async def begin(self, before: Sequence[Pushed], *, more: bool = False) -> None:
        """Beads that were closed before the run: those whose commit the remote holds now are watched. People
        may have taken the others, or gone on with them. With `more` to come, nobody knows yet of which."""
        named = () if more else sorted({pushed.branch for pushed in before})
        if not (named or more):
            return
        try:
            held = await in_thread(self.forge.held, named)
            self.begun = held or {}
        except RalphError as error:  # whoever needs the remote will be told so
            LOG.warning("the remote cannot be read: %s", error.message)
        self.watch(before)

    def watch(self, before: Iterable[Pushed]) -> None:
        held = self.begun
        self.expected |= {one.branch: one for one in before if held.get(one.branch) == one.commit}

    def expect(self, bead_id: str, pull: PullRequest) -> None:
        """A bead of this run; one without a pull request was in its target already."""
        if pull.number is not None:
            self.expected[pull.branch] = Pushed(bead_id, pull.branch, pull.target, pull.commit)

    async def settle(self, block: Callable[[str, str], Awaitable[None]]) -> dict[str, str]:
        """Put back what can be, refs of the repository too, and tell of it. The beads whose proven commit the
        remote does not hold all the same, with the reason: those are blocked."""
        missing = await in_thread(self._settle) if self.expected else {}
        for bead_id, why in missing.items():
            await block(bead_id, why)
        self.remarks += await in_thread(guard.put_back, self.root)
        self.remarks += await in_thread(guard.wandered, self.root)
        for remark in self.remarks:
            self.journal.emit(WarningGiven(message=remark))
        return missing

    def _settle(self) -> dict[str, str]:
        try:
            held = self.forge.held(sorted(self.expected))
        except RalphError as error:
            self.remarks.append(f"the remote could not be looked at once more: {error.message}")
            return {}
        if held is None:
            return {}
        sound = [branch for branch, pushed in self.expected.items() if held.get(branch) == pushed.commit]
        self._tell_declined(sound)
        wrong = [pushed for branch, pushed in self.expected.items() if held.get(branch) != pushed.commit]
        found = {pushed.bead: self._mend(pushed, held.get(pushed.branch)) for pushed in wrong}
        return {bead: why for bead, why in found.items() if why}

    def _tell_declined(self, branches: list[str]) -> None:
        """People may have said no to work whose branch is as it was proven."""
        try:
            declined = self.forge.declined(branches) if branches else {}
        except RalphError as error:
            LOG.warning("pull requests cannot be looked at: %s", error.message)
            return
        for branch, where in declined.items():
            bead = self.expected[branch].bead
            self.remarks.append(f"{bead}: its pull request was closed without being merged: {where}")

    def _mend(self, pushed: Pushed, there: str | None) -> str:
        """Put the proven commit back; why not, empty where it is or need not be."""
        went = f"was moved to {there[:12]}" if there else "was deleted"
        text = f"{pushed.branch} {went} on the remote, away from the proven {pushed.commit[:12]}"
        try:
            if self.forge.is_taken(pushed.branch, pushed.target, pushed.commit):
                return ""
            self.forge.put_back(pushed.branch, pushed.commit, there)
        except RalphError as error:
            return f"{text}, and cannot be put back: {error.message}"
        self.remarks.append(f"{text}; put back")
        return ""
