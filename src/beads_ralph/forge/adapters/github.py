"""GitHub, through the gh CLI and its credentials: pull requests, and what gates wait for there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from beads_ralph.bead.items import GateRule, Item, Standing
from beads_ralph.bead.words import moment_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.network import (
    Network,
    TemporaryError,
    heads,
    holds,
    is_temporary,
    persist,
    publish,
    put_back,
    require_target,
    target,
    words_of,
)
from beads_ralph.forge.protocol import Proposal, PullRequest, PushTarget, check_proposal, fitting_section
from beads_ralph.git import commands
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Exit, Job

FIELDS: Final = "number,url,state,headRefOid,baseRefName,isCrossRepository,body"
MAX_BODY: Final = 65_536
MAX_TITLE: Final = 256
MERGED: Final = "MERGED"
CLOSED: Final = "CLOSED"
LATEST: Final = 100


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

    def push_target(self) -> PushTarget | None:
        return target(self.root, self.remote)

    def require_target(self) -> None:
        require_target(self.root, self.remote, self.network, *self._credentials())

    def propose(self, proposal: Proposal) -> PullRequest:
        check_proposal(self.root, proposal)
        publish(self.root, self.remote, proposal, self.network, *self._credentials())
        persist(lambda: self._ensure(proposal), self.network.creation or self.network.retry)
        return persist(lambda: self._read_back(proposal), self.network.retry)

    def find(self, branch: str) -> PullRequest | None:
        pull = persist(lambda: self._pull_of(branch), self.network.retry)
        return _answer(pull, branch) if pull else None

    def held(self, branches: Sequence[str]) -> Mapping[str, str] | None:
        return heads(self.root, self.remote, branches, self.network, *self._credentials())

    def is_taken(self, branch: str, target: str, commit: str) -> bool:
        pulls = persist(lambda: self._pulls(branch), self.network.retry)
        if any(pull.state == MERGED for pull in pulls):
            return True
        return holds(self.root, self.remote, target, commit, self.network, *self._credentials())

    def declined(self, branches: Sequence[str]) -> Mapping[str, str]:
        """The latest closed ones are asked for at once, and then the few branches that are among them."""
        path = f"pulls?state=closed&sort=updated&direction=desc&per_page={LATEST}"
        answer = persist(lambda: _ask(self.address, path, self.root, self.network), self.network.retry)
        rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
        named = {(row.get("head") or {}).get("ref") for row in rows if not row.get("merged_at")}
        found = {branch: self._pulls(branch) for branch in branches if branch in named}
        return {
            branch: pulls[0].url
            for branch, pulls in found.items()
            if pulls and all(pull.state == CLOSED for pull in pulls)
        }

    def put_back(self, branch: str, commit: str, there: str | None) -> None:
        """A pull request goes with its branch, and comes back with it."""
        put_back(self.root, self.remote, branch, commit, there, self.network, *self._credentials())
        persist(lambda: self._reopen(branch, commit), self.network.retry)

    def _reopen(self, branch: str, commit: str) -> None:
        pulls = self._pulls(branch)
        closed = [pull for pull in pulls if pull.state == CLOSED and pull.commit == commit]
        if closed and not any(pull.is_open for pull in pulls):
            self._patch(max(closed, key=lambda pull: pull.number), {"state": "open"})

    def _gh(self, *words: str, stdin: str | None = None) -> str:
        return call(*words, cwd=self.root, network=self.network, stdin=stdin)

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
        pulls = self._pulls(branch)
        still = [pull for pull in pulls if pull.is_open]
        merged = [pull for pull in pulls if pull.state == MERGED and pull.commit == commit]
        return min(still or merged, key=lambda pull: (pull.target != target, pull.number), default=None)

    def _pulls(self, branch: str) -> list[ListedPull]:
        words = (f"--repo={self.address}", f"--head={branch}", "--state=all", f"--json={FIELDS}")
        text = self._gh("pr", "list", *words)
        try:
            return [pull for pull in LISTED.validate_json(text) if not pull.from_fork]
        except ValidationError as problem:
            message = "gh pr list did not answer with a list of pull requests"
            raise RalphError(Code.FORGE_FAILED, message, details=str(problem)) from None

    def _create(self, proposal: Proposal) -> None:
        title = " ".join(proposal.title.split())
        words = (f"--head={proposal.branch}", f"--base={proposal.target}", f"--title={title[:MAX_TITLE]}")
        body = fitting_section("", proposal.bead_id, proposal.body, MAX_BODY)
        self._gh("pr", "create", f"--repo={self.address}", *words, "--body-file=-", stdin=body)

    def _renew_body(self, pull: ListedPull, proposal: Proposal) -> None:
        written = pull.body.replace("\r\n", "\n")
        body = fitting_section(written, proposal.bead_id, proposal.body, MAX_BODY)
        if body == written:
            return
        self._patch(pull, {"body": body})

    def _patch(self, pull: ListedPull, changes: Mapping[str, str]) -> None:
        """By REST: `gh pr edit` asks for project boards too, for which a token may have no right."""
        path = f"repos/{self.address.path}/pulls/{pull.number}"
        words = ("api", "--method=PATCH", f"--hostname={self.address.host}", path, "--input=-")
        self._gh(*words, stdin=json.dumps(changes))

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
    return found is not None and found.host in known and _knows(found.host, root, network)


def _found(root: Path, remote: str) -> Address | None:
    """Either way of writing the address will do: git may be told to go another way to the same place."""
    addresses = map(address_of, commands.remote_addresses(remote, root))
    return next((address for address in addresses if address), None)


def address(root: Path, remote: str = "origin") -> Address:
    """Where the remote lies; FORGE.FAILED where that is not on GitHub."""
    found = _found(root, remote)
    if found is None:
        message = f"the remote '{remote}' is not a repository on GitHub"
        action = f"Set it (git remote set-url {remote} URL), or choose the forge 'local'"
        raise RalphError(Code.FORGE_FAILED, message, suggested_action=action)
    return found


def _answer(pull: ListedPull, branch: str) -> PullRequest:
    return PullRequest(pull.number, pull.url, branch, pull.target, pull.commit)


# --- the gh CLI: its environment, its time limit, and what its failures mean ----------------------


NEEDS_LOGIN: Final = 4
UNAUTHENTICATED: Final = re.compile(r"HTTP 401|gh auth login|Bad credentials", re.IGNORECASE)
ALREADY: Final = re.compile(r"pull request .*already exists", re.IGNORECASE | re.DOTALL)
QUIET: Final = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "LC_ALL": "C"}
# These would send it to another repository, or put colours and debugging notes into its answers.
LEFT_BEHIND: Final = ("GH_REPO", "GH_DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE", "GIT_DIR", "GIT_WORK")


@dataclass(frozen=True)
class Address:
    """A repository on a GitHub host."""

    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"


# https://github.com/acme/app.git, ssh://git@ssh.github.com:443/acme/app, git@github.com:acme/app.git
ADDRESS: Final = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@]+@)?(?P<host>[^/:@]+)(?::\d+)?/|(?:[^/@:]+@)?(?P<short>[^/:@]+):(?!/))"
    r"(?P<path>[^/:]+/[^/:]+?)(?:\.git)?/?"
)


def address_of(url: str) -> Address | None:
    """Host and owner/name out of a remote's address; None where it has another form, such as a path."""
    found = ADDRESS.fullmatch(url)
    if found is None:
        return None
    host = (found["host"] or found["short"]).lower()
    return Address("github.com" if host == "ssh.github.com" else host, found["path"])


def _knows(host: str, cwd: Path, network: Network) -> bool:
    """True if gh has credentials for the host.

    `gh auth status` would ask the server, and calls the token invalid when the network is down; what is
    asked here needs no network, so that an outage does not send pull requests to another place.
    """
    if jobs.which("gh") is None:
        return False
    return _run(("auth", "token", f"--hostname={host}"), cwd, None, network).ok


def call(*words: str, cwd: Path, network: Network, stdin: str | None = None) -> str:
    """What gh printed. A failure that may pass is a TemporaryError, so is a pull request that appeared
    meanwhile: at the next try it is found."""
    ended = _run(words, cwd, stdin, network)
    if ended.ok:
        return ended.stdout
    command, said = f"gh {' '.join(words[:2])}", words_of(ended, network.timeout)
    if ended.code == NEEDS_LOGIN or UNAUTHENTICATED.search(ended.stderr):
        message, action = "gh is not logged in to GitHub", "Run: gh auth login"
        raise RalphError(Code.FORGE_FAILED, message, details=said, suggested_action=action)
    temporary = is_temporary(ended) or ALREADY.search(ended.stderr)
    kind = TemporaryError if temporary else RalphError
    raise kind(Code.FORGE_FAILED, f"{command} failed: {said.splitlines()[0]}", details=said)


def _run(words: tuple[str, ...], cwd: Path, stdin: str | None, network: Network) -> Exit:
    environment = jobs.environment(QUIET, drop_prefixes=LEFT_BEHIND)
    try:
        return jobs.run(Job(("gh", *words), cwd, env=environment, stdin=stdin, timeout=network.timeout))
    except FileNotFoundError:
        message = "gh, GitHub's command line, is not installed"
        action = "Install gh and run: gh auth login; or choose the forge 'local'"
        raise RalphError(Code.FORGE_FAILED, message, suggested_action=action) from None


# --- what gates wait for: a pull request that is merged, a workflow run that succeeds -------------

NUMBER: Final = re.compile(r"#?(\d+)", re.ASCII)
# https://github.com/acme/app/pull/7, https://github.com/acme/app/actions/runs/123
PAGE: Final = re.compile(
    r"https?://(?P<host>[^/]+)/(?P<path>[^/]+/[^/]+)/(?:pull|actions/runs)/(?P<number>\d+)(?:/.*)?", re.ASCII
)
REPOSITORY: Final = re.compile(r"(?:(?P<host>[\w.-]+)/)?(?P<path>[\w.-]+/[\w.-]+)", re.ASCII)
NOT_FOUND: Final = "HTTP 404"
GOOD: Final = "success"
"""A run that was skipped proves nothing: there a person decides."""
WORKFLOWS: Final = 100


@dataclass(frozen=True)
class GitHubGates:
    """Asked by REST, whose answers stay the same from one gh to the next."""

    root: Path
    network: Network

    def __call__(self, gate: Item) -> Standing:
        """How it stands. Trouble that may pass is waited out; any other is for a person."""
        rule = gate.gate
        if rule is None or not rule.await_id:
            return Standing("failed", "the gate does not say what it waits for")
        try:
            address, number = self._place(rule)
            if rule.type == "gh:pr":
                return self._pull(address, number, rule.await_id)
            return self._run(address, number, rule.await_id, gate.created_at)
        except TemporaryError as error:
            return Standing("waits", error.message)
        except RalphError as error:
            return Standing("failed", f"{error.message}; {error.suggested_action}")

    def _place(self, rule: GateRule) -> tuple[Address, str | None]:
        """The repository, and the number, where it was given as one or as a page's address."""
        said = (rule.await_id or "").strip()
        if page := PAGE.fullmatch(said):
            return Address(page["host"].lower(), page["path"]), page["number"]
        number = NUMBER.fullmatch(said)
        return self._repository(rule.repo), number[1] if number else None

    def _repository(self, said: str | None) -> Address:
        if not said:
            return address(self.root)
        found = REPOSITORY.fullmatch(said)
        if found is None:
            message, action = f"the gate names a repository {said!r}", "Write it as OWNER/NAME"
            raise RalphError(Code.CONSTRAINT, message, suggested_action=action)
        return Address((found["host"] or "github.com").lower(), found["path"])

    def _ask(self, address: Address, path: str) -> Any:
        return _ask(address, path, self.root, self.network)

    # --- pull requests ------------------------------------------------------------------------------

    def _pull(self, address: Address, number: str | None, said: str) -> Standing:
        named = f"pull request {said}" if number is None else f"pull request {number} of {address.path}"
        found = self._ask(address, f"pulls/{number}") if number else self._newest_pull(address, said)
        if not isinstance(found, dict):
            return Standing("failed", f"there is no {named}")
        if found.get("merged_at"):
            return Standing("passed", f"{named} was merged at {found['merged_at']}")
        if found.get("state") == "closed":
            return Standing("failed", f"{named} was closed without being merged")
        return Standing("waits", f"{named} is open")

    def _newest_pull(self, address: Address, branch: str) -> Any:
        owner = address.path.partition("/")[0]
        head = quote(f"{owner}:{branch}", safe="")
        rows = self._ask(address, f"pulls?state=all&per_page=1&head={head}")
        return rows[0] if isinstance(rows, list) and rows else None

    # --- workflow runs ------------------------------------------------------------------------------

    def _run(self, address: Address, number: str | None, said: str, since: str | None) -> Standing:
        if number is not None:
            return _standing(self._ask(address, f"actions/runs/{number}"), f"workflow run {number}")
        workflow = self._workflow(address, said)
        if workflow is None:
            return Standing("failed", f"{address.path} has no workflow {said}")
        rows = self._ask(address, f"actions/workflows/{workflow}/runs?per_page=1")
        runs = rows.get("workflow_runs") if isinstance(rows, dict) else None
        if not runs or _ended_before(runs[0], since):
            return Standing("waits", f"workflow {said} has not run since the gate was made")
        return _standing(runs[0], f"run {runs[0].get('id')} of workflow {said}")

    def _workflow(self, address: Address, said: str) -> int | None:
        """By its file or by its name."""
        found = self._ask(address, f"actions/workflows?per_page={WORKFLOWS}")
        rows = found.get("workflows") if isinstance(found, dict) else None
        for row in rows or ():
            if said in (row.get("name"), row.get("path"), str(row.get("path")).rpartition("/")[2]):
                return int(row["id"])
        return None


def _ask(address: Address, path: str, cwd: Path, network: Network) -> Any:
    """By REST; None where GitHub knows nothing of the kind."""
    words = ("api", f"--hostname={address.host}", f"repos/{address.path}/{path}")
    try:
        return json.loads(call(*words, cwd=cwd, network=network))
    except RalphError as error:
        if NOT_FOUND in error.message:
            return None
        raise
    except ValueError:
        return None


def _ended_before(run: Mapping[str, Any], since: str | None) -> bool:
    """A run that was over before there was a gate says nothing of what the gate guards."""
    ended = run.get("updated_at")
    if run.get("status") != "completed" or not since or not ended:
        return False
    return moment_of(str(ended)) < moment_of(since)


def _standing(run: Any, named: str) -> Standing:
    if not isinstance(run, dict):
        return Standing("failed", f"there is no {named}")
    if run.get("status") != "completed":
        return Standing("waits", f"{named} is {run.get('status')}")
    ended = str(run.get("conclusion"))
    return Standing("passed" if ended == GOOD else "failed", f"{named} ended with {ended}")


FORGE: Final = GitHubForge
