"""What an agent's process may use: its home, how much it may take, and whether that can be had here."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from beads_ralph.agents import environment
from beads_ralph.agents.protocol import AgentTask, select
from beads_ralph.bead.model import Bead
from beads_ralph.config.model import Config
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.git.quarantine import Quarantine
from beads_ralph.journal.runs import evidence_folder
from beads_ralph.process import process_table, sandbox
from beads_ralph.process.jobs import Job, Profile
from beads_ralph.process.ports import Ports
from beads_ralph.process.sandbox import Sandbox
from beads_ralph.process.supervise import MB
from beads_ralph.session import lent_files, verifier_home

COMMITTED: Final = ("objects", "refs", "logs", "reftable", "lfs", "rr-cache")
"""Parts of the repository's own folder that git writes to for a commit in a worktree."""
XDG: Final = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
    ".cache": "XDG_CACHE_HOME",
}


def require(config: Config, root: Path) -> None:
    """What is set and cannot be had is better said before the first agent starts."""
    environment.refuse_names(config.agent_env)
    lent_files.refuse_patterns(config.worktree_files)
    verifier_home.refuse_names(config.verifier_home_keeps)
    home = home_of(config, root)
    if home is not None and not (home.is_dir() and os.access(home, os.R_OK | os.W_OK | os.X_OK)):
        message = f"agent_home: {home} is not a folder that agents could use"
        action = f"Make it (mkdir -p {home}), and sign the agent's program in with HOME={home}"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)
    if config.agent_memory_mb is not None and not process_table.has_table():
        message = "agent_memory_mb needs /proc to see how much memory is used, and there is none here"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action="Remove the key; Linux has /proc")
    if config.sandbox == "bwrap" and (refusal := sandbox.problem(network=config.sandbox_network)):
        raise refusal


def home_of(config: Config, root: Path) -> Path | None:
    """The HOME of agents: `~` is the user's own, anything relative lies in the repository."""
    return None if config.agent_home is None else _place(config.agent_home, root)


def _place(said: str, root: Path) -> Path:
    # pathlib raises for an unknown ~name, and leaves `..` in
    return Path(os.path.abspath(root / os.path.expanduser(said)))  # noqa: PTH100, PTH111


def committer(config: Config, root: Path, profile: Profile) -> Mapping[str, str]:
    """Another HOME has other settings of git, or none, and some programs hide those that there are: an
    agent could not commit then."""
    return _identity(root) if config.agent_home is not None or profile.hides_git else {}


@cache
def _identity(root: Path) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for key, fallback in (("name", "beads-ralph"), ("email", "beads-ralph@localhost")):
        said = commands.run("config", "--get", f"user.{key}", cwd=root).stdout.strip() or fallback
        found |= {f"GIT_AUTHOR_{key.upper()}": said, f"GIT_COMMITTER_{key.upper()}": said}
    return found


def memory_limit_mb(bead: Bead | None, config: Config) -> int:
    """The bead's own limit, else the configured one; 0 for none."""
    own = bead.metadata.resource_limits if bead else None
    return (own and own.memory_mb) or config.agent_memory_mb or 0


def confined(job: Job, task: AgentTask, profile: Profile, bead: Bead | None, config: Config) -> Job:
    """An agent's job within the limits; for a sandbox, also with the places in the home that it needs, which
    are made where they are missing. Without one, nothing is made there."""
    limited = replace(
        job, output_limit=config.agent_output_mb * MB, memory_limit_mb=memory_limit_mb(bead, config)
    )
    if not task.closed_in:
        return limited
    return replace(
        limited,
        writes=(*state_of(profile, job.env or {}), *evidence_folder(task.env)),
        reads=places_of(profile.credentials, profile, job.env or {}),
        settings=tuple(settings_of(profile, job.env or {})),
        overlaid=places_of(profile.overlaid, profile, job.env or {}),
        copied=places_of(profile.copied, profile, job.env or {}),
    )


def with_git(job: Job, task: AgentTask, own: Quarantine | None) -> Job:
    """The job with git: in a quarantine, where there is one, else with what a commit is written to."""
    if own is None:
        return replace(job, writes=(*job.writes, *written_by_git(task)))
    return replace(job, mounts=tuple(own.mounts()), reads=(*job.reads, *own.reads()))


def ports_of(config: Config) -> Ports | None:
    """Where worktrees get their ports from."""
    said = config.worktree_ports
    return Ports(said.first, said.count) if said else None


# --- the sandbox --------------------------------------------------------------------------------------


MEANS: Final = (
    "agents, and what they wrote when it is checked, can read your keys and write wherever you can; "
    "what they do to the store, to git and to proven work is found, not prevented"
)
"""What it means to have no sandbox."""


def sandbox_of(config: Config, root: Path) -> Sandbox | None:
    """What jobs are closed in by; None where nothing is. `auto` is on wherever it works."""
    if config.sandbox == "none" or _refusal(config):
        return None
    said = (config.sandbox_writes, config.sandbox_reads)
    writes, reads = (tuple(_place(name, root) for name in names) for names in said)
    return Sandbox(root, config.sandbox_network, writes, reads)


def _refusal(config: Config) -> RalphError | None:
    """Why `sandbox: auto` is off here; None where it is on, or something else is set."""
    return sandbox.problem(network=config.sandbox_network) if config.sandbox == "auto" else None


def sandbox_note(config: Config) -> str:
    """Why there is no sandbox, what that means, and how to get one."""
    refusal = _refusal(config)
    why = refusal.message.removeprefix(sandbox.NONE_HERE) if refusal else f"sandbox: {config.sandbox}"
    network = "" if config.sandbox_network else "; sandbox_network: false has no effect"
    action = f". {refusal.suggested_action}" if refusal else ""
    return f"no sandbox ({why}): {MEANS}{network}{action}"


def sandbox_gaps(config: Config, root: Path) -> list[str]:
    """What a sandbox cannot keep from agents in this repository, in words."""
    if sandbox_of(config, root) is None:
        return []
    found = []
    if (root / ".git" / "reftable").exists():
        found.append(
            "the repository's refs are a reftable: agents can move and delete them in the sandbox, too"
        )
    if config.sandbox_network and _has_server(root):
        text = (
            "bd works over a Dolt server here, whose port agents reach from the sandbox: what they change in "
        )
        found.append(f"{text}the store is found, not prevented; sandbox_network: false closes it")
    return found


def _has_server(root: Path) -> bool:
    """Whether bd's database of this repository is served over a port."""
    try:
        said = json.loads((root / ".beads" / "metadata.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("dolt_mode") in ("server", "proxied-server")


def refuse_unreachable(config: Config, root: Path, beads: Iterable[Bead]) -> None:
    """CONFIG.INVALID where agents would wait in vain for their model: without a network not even a server
    on this machine is reached."""
    if config.sandbox_network or sandbox_of(config, root) is None:
        return
    agents = [spec for bead in beads for spec in (*bead.metadata.dev_agents, *bead.metadata.qa_agents)]
    programs = {spec.executable or config.agent_defaults.default_executable for spec in agents}
    cut_off = sorted(name for name in programs if select(name).profile.reads_prompts)
    if cut_off:
        message = f"sandbox_network is false, and {', '.join(cut_off)} must reach a model over the network"
        action = "Remove sandbox_network from beads-ralph.yaml, or name agents that need no network"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)


def written_by_git(task: AgentTask) -> tuple[Path, ...]:
    """What a commit is written to: not git's settings and hooks, which a later git outside would obey.

    A QA agent looks and does not commit, so it has only the folder of its own checkout.
    """
    if not task.git_folders:
        return ()
    common, own = task.git_folders[0], task.git_folders[-1]
    if task.role == "qa":
        return (own,)
    (common / "logs").mkdir(exist_ok=True)  # git makes it at the first commit
    return (own, *(path for name in COMMITTED if (path := common / name).is_dir()))


def state_of(profile: Profile, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where a program keeps its sessions and settings; made where it is missing, since a program that is
    closed in cannot make it itself."""
    home = env.get("HOME")
    below = [_moved(Path(name), Path(home), env) for name in profile.state] if home else []
    named = [Path(env[name]) for name in profile.state_variables if env.get(name)]
    for path in (*below, *named):
        with suppress(OSError):
            _make(path)
    return (*below, *named)


def settings_of(profile: Profile, env: Mapping[str, str]) -> Iterator[Path]:
    """What a program obeys, of what it can write to. What is missing is made, empty: it can then be kept from
    being made by an agent."""
    for path in _candidates(profile.settings, profile, env):
        if "*" in path.name:
            yield from sorted(path.parent.glob(path.name))
            continue
        with suppress(OSError):
            if path.parent.is_dir():
                _make(path, is_file=path.name.startswith("."))
        yield path


@dataclass(frozen=True)
class SettingsLinks:
    """Settings that are links to elsewhere, as from a folder of dotfiles. A sandbox keeps what they lead to
    from being changed, and cannot keep the link itself: so it is put back when the agent has ended."""

    links: Mapping[Path, str]

    @classmethod
    def taken(cls, settings: Iterable[Path]) -> SettingsLinks:
        return cls({path: os.readlink(path) for path in settings if path.is_symlink()})  # noqa: PTH115

    def put_back(self, aside: Path) -> list[str]:
        """Undo what was done to them, in words; what is there instead goes aside."""
        changed = [path for path, target in self.links.items() if not _leads_to(path, target)]
        return [self._returned(path, aside) for path in changed]

    def _returned(self, path: Path, aside: Path) -> str:
        told = f"in its sandbox an agent replaced the link {path}"
        try:
            kept = ""
            if path.is_symlink() or path.exists():
                aside.mkdir(parents=True, exist_ok=True)
                shutil.move(path, aside / f"{path.name}-{secrets.token_hex(4)}")
                kept = f", and what was there is kept in {aside}"
            path.symlink_to(self.links[path])
        except OSError as problem:
            return f"{told}; that cannot be undone: {problem.strerror or problem}"
        return f"{told}; put back{kept}"


def _leads_to(path: Path, target: str) -> bool:
    return path.is_symlink() and os.readlink(path) == target  # noqa: PTH115


def places_of(names: Iterable[str], profile: Profile, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Those of the files and folders that are there."""
    return tuple(path for path in _candidates(names, profile, env) if path.exists())


def _candidates(names: Iterable[str], profile: Profile, env: Mapping[str, str]) -> Iterator[Path]:
    """Where a program looks for files that it usually has below HOME."""
    home = env.get("HOME")
    main = profile.state[0] if profile.state else ""
    moved = [Path(env[name]) for name in profile.state_variables if env.get(name)]
    for name in map(Path, names):
        if home:
            yield _moved(name, Path(home), env)
        yield from (
            place / (name.relative_to(main) if name.is_relative_to(main) else name) for place in moved
        )


def _moved(name: Path, home: Path, env: Mapping[str, str]) -> Path:
    """`.config/x` lies in XDG_CONFIG_HOME where that is set."""
    for folder, variable in XDG.items():
        if name.is_relative_to(folder) and env.get(variable):
            return Path(env[variable]) / name.relative_to(folder)
    return home / name


def _make(path: Path, *, is_file: bool = False) -> None:
    """A name with an ending is that of a file."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix or is_file:
        path.write_text("{}\n" if path.suffix == ".json" else "", encoding="utf-8")
    else:
        path.mkdir(mode=0o700)
