"""A branch on its way to a forge: may it be proposed, and did it arrive?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.network import Network, TemporaryError, is_temporary, persist, words_of
from beads_ralph.forge.protocol import Proposal
from beads_ralph.git import commands, proofs
from beads_ralph.process.jobs import Exit

PROTECTED: Final = frozenset({"main", "master", "develop"})
COMMIT: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
OVERTAKEN: Final = re.compile(r"non-fast-forward|fetch first|stale info")


def check(root: Path, proposal: Proposal) -> None:
    """Refuse what must never be pushed. Names are checked because they become part of a refspec."""
    branch = proposal.branch
    if branch in PROTECTED or branch == proposal.target:
        raise _refused(
            f"{branch} is not proposed: it is protected or the target itself",
            "Give the sprint a branch of its own (**Branch**)",
        )
    if not commands.run("check-ref-format", f"refs/heads/{branch}", cwd=root).ok:
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


def publish(root: Path, remote: str, proposal: Proposal, network: Network, *config: str) -> None:
    """Push the commit from where it was proven, never by force; done when the remote itself names it as the
    branch's head."""
    refspec = f"{proposal.commit}:refs/heads/{proposal.branch}"
    place = proofs.at(root)
    place.bring([proposal.commit])

    def push() -> None:
        words = (*config, "push", "--quiet", "--", remote, refspec)
        ended = commands.run(*words, cwd=root, timeout=network.push_timeout, env=place.env)
        if not ended.ok:
            raise _not_pushed(ended, remote, proposal.branch, network)

    persist(push, network.retry)
    held = head(root, remote, proposal.branch, network, *config)
    if held != proposal.commit:
        raise RalphError(
            Code.GIT_ERROR,
            f"git push reported success, but {remote} has {proposal.branch} at {held or 'nothing'}",
            suggested_action=f"Look at the remote: git ls-remote {remote} refs/heads/{proposal.branch}",
        )


def head(root: Path, remote: str, branch: str, network: Network, *config: str) -> str | None:
    """The commit that the remote has for the branch."""
    ref = f"refs/heads/{branch}"

    def ask() -> str:
        words = (*config, "ls-remote", "--", remote, ref)
        ended = commands.run(*words, cwd=root, timeout=network.timeout, env=proofs.at(root).env)
        if not ended.ok:
            raise _failed(ended, f"git ls-remote {remote} failed", network.timeout)
        return ended.stdout

    rows = (line.split("\t") for line in persist(ask, network.retry).splitlines())
    # git matches the ends of names, so that another ref could answer too.
    return next((commit for commit, name in rows if name == ref), None)


def _not_pushed(ended: Exit, remote: str, branch: str, network: Network) -> RalphError:
    if not OVERTAKEN.search(ended.stderr):
        return _failed(ended, f"git push {remote} {branch} failed", network.push_timeout)
    return RalphError(
        Code.FORGE_DIVERGED,
        f"{remote} has commits on {branch} that are not here; they are not overwritten",
        details=words_of(ended, network.push_timeout),
        suggested_action=f"Look at them: git fetch {remote} {branch} && git log {branch}..FETCH_HEAD",
    )


def _failed(ended: Exit, message: str, timeout: float) -> RalphError:
    kind = TemporaryError if is_temporary(ended) else RalphError
    return kind(Code.GIT_ERROR, message, details=words_of(ended, timeout))
