"""A branch on its way over the network: pushed with patience, and read back from the other side."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from beads_ralph.config.model import Config
from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.protocol import Proposal, PushTarget
from beads_ralph.git import commands, guard, large_files, proofs, settings
from beads_ralph.git.git_files import HEADS
from beads_ralph.process.calls import Retry
from beads_ralph.process.jobs import Exit

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
OVERTAKEN: Final = re.compile(r"non-fast-forward|fetch first|stale info")
REHEARSED: Final = "beads-ralph-rehearsal"
MOST_NAMED: Final = 500
"""So many branches one command line may name."""
CREDENTIALS: Final = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True)
class Network:
    """How long to wait for an answer, and how often to ask again."""

    retry: Retry = field(default_factory=Retry)
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


# --- pushing ----------------------------------------------------------------------------------------


def target(root: Path, remote: str) -> PushTarget:
    """The remote as people know it."""
    ended = commands.run("remote", "get-url", "--push", "--", remote, cwd=root)
    return PushTarget(remote, CREDENTIALS.sub("://", ended.stdout.strip()) or remote)


def require_target(root: Path, remote: str, network: Network, *config: str) -> None:
    """Rehearse a push: the remote is there, and lets us in. No hook runs, and nothing is written."""
    words = (*config, "push", "--dry-run", "--no-verify", "--quiet", "--", remote, f"HEAD:{HEADS}{REHEARSED}")

    def ask() -> None:
        ended = commands.run(*words, cwd=root, timeout=network.timeout)
        if not ended.ok:
            message = f"{target(root, remote)} cannot be pushed to"
            kind = TemporaryError if is_temporary(ended) else RalphError
            said = words_of(ended, network.timeout)
            action = f"Fix it, or set push: no in beads-ralph.yaml. git says: {said.splitlines()[-1]}"
            raise kind(Code.GIT_ERROR, message, details=said, suggested_action=action)

    persist(ask, network.retry)


def publish(root: Path, remote: str, proposal: Proposal, network: Network, *config: str) -> None:
    """Push the commit from where it was proven, never by force; done when the remote itself names it as the
    branch's head."""
    refspec = f"{proposal.commit}:{HEADS}{proposal.branch}"
    place = proofs.at(root)
    place.bring([proposal.commit])

    def push() -> None:
        words = (*config, "push", "--quiet", "--", remote, refspec)
        ended = commands.run(*words, cwd=root, timeout=network.push_timeout, env=place.env)
        if not ended.ok:
            raise _not_pushed(ended, remote, proposal.branch, network)

    if large_files.are_kept(settings.of(root)):
        persist(lambda: _push_large_files(root, remote, proposal.commit, network, *config), network.retry)
    persist(push, network.retry)
    held = head(root, remote, proposal.branch, network, *config)
    if held != proposal.commit:
        message = f"git push reported success, but {remote} has {proposal.branch} at {held or 'nothing'}"
        action = f"Look at the remote: git ls-remote {remote} refs/heads/{proposal.branch}"
        raise RalphError(Code.GIT_ERROR, message, suggested_action=action)


def _push_large_files(root: Path, remote: str, commit: str, network: Network, *config: str) -> None:
    """git-lfs does this in a hook, and no git of ours obeys hooks."""
    words = (*config, "lfs", "push", remote, commit)
    ended = commands.run(*words, cwd=root, timeout=network.push_timeout)
    if not ended.ok:
        raise _failed(ended, f"git lfs push {remote} failed", network.push_timeout)


def head(root: Path, remote: str, branch: str, network: Network, *config: str) -> str | None:
    """The commit that the remote has for the branch."""
    return heads(root, remote, [branch], network, *config).get(branch)


def heads(root: Path, remote: str, branches: Sequence[str], network: Network, *config: str) -> dict[str, str]:
    """The commits that the remote has for those of the branches that it has; for all, where none is named."""
    refs = {f"{HEADS}{branch}": branch for branch in branches}

    def ask() -> str:
        named = refs if 0 < len(refs) <= MOST_NAMED else (f"{HEADS}*",)
        words = (*config, "ls-remote", "--", remote, *named)
        ended = commands.run(*words, cwd=root, timeout=network.timeout, env=proofs.at(root).env)
        if not ended.ok:
            raise _failed(ended, f"git ls-remote {remote} failed", network.timeout)
        return ended.stdout

    rows = (line.split("\t") for line in persist(ask, network.retry).splitlines())
    # git matches the ends of names, so that another ref could answer too.
    return {name.removeprefix(HEADS): commit for commit, name in rows if name in refs or not refs}


def holds(root: Path, remote: str, branch: str, commit: str, network: Network, *config: str) -> bool:
    """True if the remote's branch has the commit in it."""
    place, there = proofs.at(root), head(root, remote, branch, network, *config)
    if there is None:
        return False
    words = (*config, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    fetched = (*words, "--", remote, f"{HEADS}{branch}")
    commands.run(*fetched, cwd=root, timeout=network.push_timeout, env=place.env)
    asked = ("merge-base", "--is-ancestor", commit, there)
    return commands.run(*asked, cwd=root, env=place.env).ok


def put_back(
    root: Path, remote: str, branch: str, commit: str, there: str | None, network: Network, *config: str
) -> None:
    """Push the proven commit in place of what was found there, and of nothing else. That is kept here."""
    ref = f"{HEADS}{branch}"
    if there is not None:
        kept = f"+{ref}:{guard.MOVED}/remotes/{remote}/{branch}/{there}"
        words = (*config, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote, kept)
        commands.run(*words, cwd=root, timeout=network.push_timeout)
    place = proofs.at(root)
    place.bring([commit])
    lease = f"--force-with-lease={ref}:{there or ''}"
    words = (*config, "push", "--quiet", lease, "--", remote, f"{commit}:{ref}")
    ended = commands.run(*words, cwd=root, timeout=network.push_timeout, env=place.env)
    if not ended.ok:
        raise _failed(ended, f"git push {remote} {branch} failed", network.push_timeout)


def _not_pushed(ended: Exit, remote: str, branch: str, network: Network) -> RalphError:
    if not OVERTAKEN.search(ended.stderr):
        return _failed(ended, f"git push {remote} {branch} failed", network.push_timeout)
    message = f"{remote} has commits on {branch} that are not here; they are not overwritten"
    action = f"Look at them: git fetch {remote} {branch} && git log {branch}..FETCH_HEAD"
    said = words_of(ended, network.push_timeout)
    return RalphError(Code.FORGE_DIVERGED, message, details=said, suggested_action=action)


def _failed(ended: Exit, message: str, timeout: float) -> RalphError:
    kind = TemporaryError if is_temporary(ended) else RalphError
    return kind(Code.GIT_ERROR, message, details=words_of(ended, timeout))
