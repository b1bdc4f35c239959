"""The gh CLI: its environment, its time limit, and what its failures mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.network import Network, TemporaryError, is_temporary, words_of
from beads_ralph.process import proc
from beads_ralph.process.jobs import Exit, Job

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


def knows(host: str, cwd: Path, network: Network) -> bool:
    """Whether gh has credentials for the host.

    `gh auth status` would ask the server, and calls the token invalid when the network is down; what is
    asked here needs no network, so that an outage does not send pull requests to another place.
    """
    if proc.which("gh") is None:
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
        raise RalphError(
            Code.FORGE_FAILED,
            "gh is not logged in to GitHub",
            details=said,
            suggested_action="Run: gh auth login",
        )
    temporary = is_temporary(ended) or ALREADY.search(ended.stderr)
    kind = TemporaryError if temporary else RalphError
    raise kind(Code.FORGE_FAILED, f"{command} failed: {said.splitlines()[0]}", details=said)


def _run(words: tuple[str, ...], cwd: Path, stdin: str | None, network: Network) -> Exit:
    environment = proc.environment(QUIET, drop_prefixes=LEFT_BEHIND)
    try:
        return proc.run(Job(("gh", *words), cwd, env=environment, stdin=stdin, timeout=network.timeout))
    except FileNotFoundError:
        raise RalphError(
            Code.FORGE_FAILED,
            "gh, GitHub's command line, is not installed",
            suggested_action="Install gh and run: gh auth login; or choose the forge 'local'",
        ) from None
