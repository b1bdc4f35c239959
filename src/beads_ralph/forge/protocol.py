"""The contract of a forge, and the values that cross it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Proposal:
    """A finished branch, to become a pull request."""

    bead_id: str
    title: str
    body: str
    branch: str
    target: str
    commit: str


@dataclass(frozen=True)
class PullRequest:
    """A proposal that a forge has taken."""

    number: int | None
    url: str | None
    branch: str
    target: str
    commit: str
    """What the forge's side holds, read back; equal to the proposed commit or the proposal failed."""

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "url": self.url,
            "branch": self.branch,
            "target": self.target,
            "commit": self.commit,
        }


@runtime_checkable
class Forge(Protocol):
    """Where a finished branch is proposed."""

    kind: str

    def propose(self, proposal: Proposal) -> PullRequest:
        """Publish the branch and open the pull request, or find the open one of this branch and bring it
        up to date. The commit in the answer was read back from the forge's side."""

    def find(self, branch: str) -> PullRequest | None:
        """The open pull request of a branch."""
