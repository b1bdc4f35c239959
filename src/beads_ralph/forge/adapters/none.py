"""No forge: the finished branch stays where it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Proposal, PullRequest, check_proposal
from beads_ralph.git import commands


class NoForge:
    """Pushes nothing and opens nothing."""

    kind = "none"

    def __init__(self, root: Path, _remote: str | None = None, _network: Network | None = None) -> None:
        self.root = root

    def push_target(self) -> None:
        return None

    def require_target(self) -> None:
        return None

    def propose(self, proposal: Proposal) -> PullRequest:
        check_proposal(self.root, proposal)
        held = commands.output("rev-parse", "--verify", f"refs/heads/{proposal.branch}", cwd=self.root)
        return PullRequest(None, None, proposal.branch, proposal.target, held)

    def find(self, _branch: str) -> PullRequest | None:
        return None

    def held(self, _branches: Sequence[str]) -> None:
        return None

    def is_taken(self, _branch: str, _target: str, _commit: str) -> bool:
        return False

    def declined(self, _branches: Sequence[str]) -> dict[str, str]:
        return {}

    def put_back(self, _branch: str, _commit: str, _there: str | None) -> None:
        return None


def serves(_root: Path, _remote: str, _network: Network) -> bool:
    """It is only taken where somebody names it."""
    return False


FORGE: Final = NoForge
