"""The contract of a forge, the values that cross it, and what every forge does with a proposal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands

PROTECTED: Final = frozenset({"main", "master", "develop"})
MARK: Final = re.compile(r"<!--(?=\s*/?bead )")
PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
"""Names that git takes for a branch without any doubt."""
COMMIT: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


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
        return asdict(self)


@dataclass(frozen=True)
class PushTarget:
    """Where branches are pushed to."""

    remote: str
    url: str
    """Without the credentials that it may carry."""

    def __str__(self) -> str:
        return f"{self.remote} ({self.url})"


@runtime_checkable
class Forge(Protocol):
    """Where a finished branch is proposed."""

    kind: str

    def push_target(self) -> PushTarget | None:
        """Where it pushes to; None where it pushes nothing."""

    def require_target(self) -> None:
        """Raise where nothing could be pushed now. Nothing is."""

    def propose(self, proposal: Proposal) -> PullRequest:
        """Publish the branch and open the pull request, or find the open one of this branch and bring it
        up to date. The commit in the answer was read back from the forge's side."""

    def find(self, branch: str) -> PullRequest | None:
        """The open pull request of a branch."""

    def held(self, branches: Sequence[str]) -> Mapping[str, str] | None:
        """The commits that the remote has for branches, or for all where none is named, asked once; None
        where it has no remote."""

    def is_taken(self, branch: str, target: str, commit: str) -> bool:
        """True if people have taken the proposed commit, so that its branch has done its part."""

    def declined(self, branches: Sequence[str]) -> Mapping[str, str]:
        """By branch: its pull request, where people have closed it without a merge and there is no other."""

    def put_back(self, branch: str, commit: str, there: str | None) -> None:
        """Let the branch on the remote hold the commit again instead of what was found there."""


# --- may it be proposed? ----------------------------------------------------------------------------


def check_proposal(root: Path, proposal: Proposal) -> None:
    """Refuse what must never be pushed. Names are checked because they become part of a refspec."""
    branch = proposal.branch
    if branch in PROTECTED or branch == proposal.target:
        raise _refused(
            f"{branch} is not proposed: it is protected or the target itself",
            "Give the sprint a branch of its own (**Branch**)",
        )
    plain = PLAIN_NAME.fullmatch(branch) and not branch.endswith(".lock")
    if not plain and not commands.run("check-ref-format", f"refs/heads/{branch}", cwd=root).ok:
        raise _refused(f"{branch!r} is not a branch name", "Rename the branch in the plan")
    if COMMIT.fullmatch(proposal.commit) is None:
        raise _refused(f"{proposal.commit!r} is not the full name of a commit")
    _check_head(root, proposal)


def _check_head(root: Path, proposal: Proposal) -> None:
    """Only the commit that the checks ran on is proposed, so the branch must still be there."""
    held = commands.commit_of(f"refs/heads/{proposal.branch}", root)
    if held is None:
        raise _refused(f"there is no branch {proposal.branch}")
    if held != proposal.commit:
        raise _refused(
            f"{proposal.branch} has moved on from {proposal.commit[:12]} to {held[:12]} since it was checked",
            "Let the checks run again on the new commit",
        )


def _refused(message: str, action: str | None = None) -> RalphError:
    return RalphError(Code.FORGE_FAILED, message, suggested_action=action)


# --- the body of a pull request: one section for each bead on the branch, and whatever people added ---


def with_section(body: str, bead_id: str, text: str) -> str:
    """The body with the bead's section new or renewed; everything else in it stays as it is. The text
    cannot hold a mark, which would end its section or begin that of another bead."""
    start, end = f"<!-- bead {bead_id} -->", f"<!-- /bead {bead_id} -->"
    section = f"{start}\n{MARK.sub('< !--', text)}\n{end}"
    before, found, rest = body.partition(start)
    if not found:
        return f"{body.rstrip()}\n\n{section}".lstrip()
    return before + section + rest.partition(end)[2]


def fitting_section(body: str, bead_id: str, text: str, limit: int) -> str:
    """The same within a forge's limit: the bead's own text is cut, and says so."""
    whole = with_section(body, bead_id, text)
    if len(whole) <= limit:
        return whole
    note = "\n\n(cut here: the forge allows no longer text)"
    room = limit - len(with_section(body, bead_id, note))
    return with_section(body, bead_id, text[:room] + note) if room > 0 else body[:limit]
