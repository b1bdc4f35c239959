"""What gates wait for on GitHub: a pull request that is merged, a workflow run that succeeds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from beads_ralph.bead.items import GateRule, Item, Standing
from beads_ralph.bead.words import moment_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.adapters import github
from beads_ralph.forge.adapters.github import Address
from beads_ralph.forge.network import Network, TemporaryError

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
            return github.address(self.root)
        found = REPOSITORY.fullmatch(said)
        if found is None:
            message, action = f"the gate names a repository {said!r}", "Write it as OWNER/NAME"
            raise RalphError(Code.CONSTRAINT, message, suggested_action=action)
        return Address((found["host"] or "github.com").lower(), found["path"])

    def _ask(self, address: Address, path: str) -> Any:
        """None where GitHub knows nothing of the kind."""
        words = ("api", f"--hostname={address.host}", f"repos/{address.path}/{path}")
        try:
            text = github.call(*words, cwd=self.root, network=self.network)
        except RalphError as error:
            if NOT_FOUND in error.message:
                return None
            raise
        try:
            return json.loads(text)
        except ValueError:
            return None

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
