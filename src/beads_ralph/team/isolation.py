"""What an agent's process may use: its home, how much it may take, and whether that can be had here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from beads_ralph import git, strays
from beads_ralph.agents import environment
from beads_ralph.config import Config
from beads_ralph.errors import Code, RalphError
from beads_ralph.jobs import Job, Profile
from beads_ralph.memory import MB
from beads_ralph.models import Bead


def require(config: Config, root: Path) -> None:
    """What is set and cannot be had is better said before the first agent starts."""
    environment.refuse_names(config.agent_env)
    home = home_of(config, root)
    if home is not None and not (home.is_dir() and os.access(home, os.R_OK | os.W_OK | os.X_OK)):
        message = f"agent_home: {home} is not a folder that agents could use"
        action = f"Make it (mkdir -p {home}), and sign the agent's program in with HOME={home}"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)
    if config.agent_memory_mb is not None and not strays.has_table():
        message = "agent_memory_mb needs /proc to see how much memory is used, and there is none here"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action="Remove the key; Linux has /proc")


def home_of(config: Config, root: Path) -> Path | None:
    """The HOME of agents: `~` is the user's own, anything relative lies in the repository."""
    if config.agent_home is None:
        return None
    return Path(os.path.abspath(root / os.path.expanduser(config.agent_home)))  # noqa: PTH100, PTH111 - no errors


def committer(config: Config, root: Path, profile: Profile) -> Mapping[str, str]:
    """Another HOME has other settings of git, or none, and some programs hide those that there are: an
    agent could not commit then."""
    return _identity(root) if config.agent_home is not None or profile.hides_git else {}


@cache
def _identity(root: Path) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for key, fallback in (("name", "beads-ralph"), ("email", "beads-ralph@localhost")):
        said = git.run("config", "--get", f"user.{key}", cwd=root).stdout.strip() or fallback
        found |= {f"GIT_AUTHOR_{key.upper()}": said, f"GIT_COMMITTER_{key.upper()}": said}
    return found


def memory_limit_mb(bead: Bead, config: Config) -> int:
    """The bead's own limit, else the configured one; 0 for none."""
    own = bead.metadata.resource_limits
    return (own and own.memory_mb) or config.agent_memory_mb or 0


def confined(job: Job, bead: Bead, config: Config) -> Job:
    """An agent's job within the limits."""
    return replace(
        job,
        output_limit=config.agent_output_mb * MB,
        memory_limit_mb=memory_limit_mb(bead, config),
    )
