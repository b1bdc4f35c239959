"""Pull requests on GitHub, through the gh CLI and its credentials."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from beads_ralph.errors import Code, RalphError
from beads_ralph.forge import branches, gh
from beads_ralph.forge.network import Network, TemporaryError, persist
from beads_ralph.forge.protocol import Proposal, PullRequest
from beads_ralph.forge.sections import fitting_section
from beads_ralph.git import commands

FIELDS: Final = "number,url,state,headRefOid,baseRefName,isCrossRepository,body"
MAX_BODY: Final = 65_536
MAX_TITLE: Final = 256
MERGED: Final = "MERGED"
CLOSED: Final = "CLOSED"


class ListedPull(BaseModel):
    """A pull request as `gh pr list --json` prints it."""

    model_config = ConfigDict(frozen=True)

    number: int
    url: str
    state: str
    commit: str = Field(alias="headRefOid")
    target: str = Field(alias="baseRefName")
    from_fork: bool = Field(alias="isCrossRepository")
    body: str

    @property
    def is_open(self) -> bool:
        return self.state not in (MERGED, CLOSED)


LISTED: Final = TypeAdapter(list[ListedPull])


class GitHubForge:
    """The branch is pushed, then its pull request is looked for, and opened where there is none."""

    kind = "github"

    def __init__(self, root: Path, remote: str | None = None, network: Network | None = None) -> None:
        self.root = root
        self.network = network or Network()
        self.remote = remote or "origin"
        self.address = address(root, self.remote)

    def propose(self, proposal: Proposal) -> PullRequest:
        branches.check(self.root, proposal)
        branches.publish(self.root, self.remote, proposal, self.network, *self._credentials())
        persist(lambda: self._ensure(proposal), self.network.creation or self.network.retry)
        return persist(lambda: self._read_back(proposal), self.network.retry)

    def find(self, branch: str) -> PullRequest | None:
        pull = persist(lambda: self._pull_of(branch), self.network.retry)
        return _answer(pull, branch) if pull else None

    def _credentials(self) -> tuple[str, ...]:
        """gh's own as well, asked for after the helpers that the user's git has."""
        return "-c", f"credential.https://{self.address.host}.helper=!gh auth git-credential"

    def _ensure(self, proposal: Proposal) -> None:
        """Looks first at every try: an attempt whose answer was lost may have opened it."""
        found = self._pull_of(proposal.branch, proposal.target, proposal.commit)
        if found is None:
            self._create(proposal)
        elif found.is_open:
            self._renew_body(found, proposal)

    def _pull_of(self, branch: str, target: str = "", commit: str = "") -> ListedPull | None:
        """The branch's open pull request, rather into this target; GitHub itself may have changed that.

        Else the one that was merged with exactly this commit: somebody was quicker than the bead's close.
        """
        words = (
            "pr",
            "list",
            f"--repo={self.address}",
            f"--head={branch}",
            "--state=all",
            f"--json={FIELDS}",
        )
        text = gh.call(*words, cwd=self.root, network=self.network)
        try:
            pulls = [pull for pull in LISTED.validate_json(text) if not pull.from_fork]
        except ValidationError as problem:
            message = "gh pr list did not answer with a list of pull requests"
            raise RalphError(Code.FORGE_FAILED, message, details=str(problem)) from None
        still = [pull for pull in pulls if pull.is_open]
        merged = [pull for pull in pulls if pull.state == MERGED and pull.commit == commit]
        return min(still or merged, key=lambda pull: (pull.target != target, pull.number), default=None)

    def _create(self, proposal: Proposal) -> None:
        title = " ".join(proposal.title.split())
        words = (f"--head={proposal.branch}", f"--base={proposal.target}", f"--title={title[:MAX_TITLE]}")
        gh.call(
            *("pr", "create", f"--repo={self.address}", *words, "--body-file=-"),
            cwd=self.root,
            network=self.network,
            stdin=fitting_section("", proposal.bead_id, proposal.body, MAX_BODY),
        )

    def _renew_body(self, pull: ListedPull, proposal: Proposal) -> None:
        """By REST: `gh pr edit` asks for project boards too, for which a token may have no right."""
        written = pull.body.replace("\r\n", "\n")
        body = fitting_section(written, proposal.bead_id, proposal.body, MAX_BODY)
        if body == written:
            return
        path = f"repos/{self.address.path}/pulls/{pull.number}"
        gh.call(
            *("api", "--method=PATCH", f"--hostname={self.address.host}", path, "--input=-"),
            cwd=self.root,
            network=self.network,
            stdin=json.dumps({"body": body}),
        )

    def _read_back(self, proposal: Proposal) -> PullRequest:
        """GitHub shows a push in the pull request a little later, so this is asked more than once."""
        pull = self._pull_of(proposal.branch, proposal.target, proposal.commit)
        if pull is None or pull.commit != proposal.commit:
            shown = f"#{pull.number} at {pull.commit}" if pull else "no open pull request"
            message = f"GitHub shows {shown} for {proposal.branch}, not one at {proposal.commit}"
            raise TemporaryError(Code.FORGE_FAILED, message, suggested_action="Run it again in a minute")
        return _answer(pull, proposal.branch)


def serves(root: Path, remote: str, network: Network) -> bool:
    """Tell whether the remote is on GitHub and gh has credentials for it."""
    found = _found(root, remote)
    known = {"github.com", os.environ.get("GH_HOST", "github.com")}
    return found is not None and found.host in known and gh.knows(found.host, root, network)


def _found(root: Path, remote: str) -> gh.Address | None:
    """Either way of writing the address will do: git may be told to go another way to the same place."""
    addresses = map(gh.address_of, commands.remote_addresses(remote, root))
    return next((address for address in addresses if address), None)


def address(root: Path, remote: str = "origin") -> gh.Address:
    """Where the remote lies; FORGE.FAILED where that is not on GitHub."""
    found = _found(root, remote)
    if found is None:
        raise RalphError(
            Code.FORGE_FAILED,
            f"the remote '{remote}' is not a repository on GitHub",
            suggested_action=f"Set it (git remote set-url {remote} URL), or choose the forge 'local'",
        )
    return found


def _answer(pull: ListedPull, branch: str) -> PullRequest:
    return PullRequest(pull.number, pull.url, branch, pull.target, pull.commit)


FORGE: Final = GitHubForge
