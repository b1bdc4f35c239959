"""A forge in one file of `forge/adapters`: a pull request is a line in a ledger beside the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from beads_ralph.forge import branches
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Proposal, PullRequest
from beads_ralph.git import commands


class LedgerForge:
    """One line a branch; the number of a pull request is that of its line."""

    kind = "ledger"

    def __init__(self, root: Path, _remote: str | None = None, _network: Network | None = None) -> None:
        self.root = root
        self.ledger = root.parent / "ledger.txt"

    def propose(self, proposal: Proposal) -> PullRequest:
        branches.check(self.root, proposal)
        rows = self._rows()
        if not any(branch == proposal.branch for branch, _target in rows):
            rows.append((proposal.branch, proposal.target))
            self.ledger.write_text(
                "".join(f"{branch} {target}\n" for branch, target in rows), encoding="utf-8"
            )
        found = self.find(proposal.branch)
        assert found is not None
        return found

    def find(self, branch: str) -> PullRequest | None:
        for number, (name, target) in enumerate(self._rows(), 1):
            if name == branch:
                held = commands.output("rev-parse", f"refs/heads/{branch}", cwd=self.root)
                return PullRequest(number, f"{self.ledger.as_uri()}#{number}", branch, target, held)
        return None

    def _rows(self) -> list[tuple[str, str]]:
        text = self.ledger.read_text("utf-8") if self.ledger.exists() else ""
        return [(branch, target) for branch, target in map(str.split, text.splitlines())]


def serves(_root: Path, _remote: str, _network: Network) -> bool:
    """It is only taken where somebody names it."""
    return False


FORGE: Final = LedgerForge
