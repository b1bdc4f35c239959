"""A job inside bubblewrap: everything can be read, and only what it needs can be written.

Writable are the job's own folder and what the job names, such as the parts of the repository that git writes
for a commit. The temporary folders are its own and empty. It sees no process but its own, and without a
network none but its own. What of the outside lies in a temporary folder is let in, for reading, where the
job's command line or environment names it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Exit, Job

if TYPE_CHECKING:
    from beads_ralph.process.jobs import Executor

PROGRAM: Final = "bwrap"
PROBE_SECONDS: Final = 15.0

NAMESPACES: Final = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
PRIVATE: Final = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - they are hidden, not used
"""Others leave files and sockets there, such as those of the tmux server and of a container engine."""
CREDENTIALS: Final = (".config/gh", ".git-credentials", ".config/git/credentials", ".netrc", ".ssh")
"""Below a home: what lets one push, which is the harness's to do."""
KEPT_BY_ROOT: Final = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID")
"""bwrap leaves root all its powers, such as mounting the disk anew; these are the harmless ones."""
SETTINGS_OF_A_WORKTREE: Final = "config.worktree"
FIXED_IN_GIT: Final = ("config", SETTINGS_OF_A_WORKTREE, "hooks", "commondir", "gitdir")
"""What says where git's settings are and which programs it runs: a later git outside would obey it."""
NONE_HERE: Final = "there can be no sandbox: "
DROPPED: Final = ("XDG_RUNTIME_DIR",)


@dataclass(frozen=True)
class Sandbox:
    """How jobs are closed in."""

    kind: ClassVar = "bwrap"

    repository: Path
    network: bool = True
    writes: tuple[Path, ...] = ()
    """What every job may write to, such as a cache of packages."""
    program: str = PROGRAM

    def wrap(self, job: Job) -> Job:
        """The same job, closed in."""
        env = dict(job.env if job.env is not None else os.environ)
        for name in DROPPED:
            env.pop(name, None)
        if env.get("TMPDIR") not in PRIVATE:
            env["TMPDIR"] = "/tmp"  # noqa: S108 - its own
        argv = (self.program, *self._options(replace(job, env=env)), "--", *job.argv)
        return replace(job, argv=argv, env=env, keeper=PROGRAM)

    def _options(self, job: Job) -> Iterator[str]:
        yield from NAMESPACES
        if not self.network:
            yield "--unshare-net"
        if os.getuid() == 0:
            yield from ("--cap-drop", "ALL")
            for power in KEPT_BY_ROOT:
                yield from ("--cap-add", power)
        for place in PRIVATE:
            if Path(place).is_dir() and not Path(place).is_symlink():
                yield from ("--tmpfs", place)
        for path in _outermost(self._shown(job)):
            yield from ("--ro-bind", str(path), str(path))
        for home in _homes(job):
            yield from _masked(home)
        for path in _present((job.cwd, *job.writes, *self.writes)):
            yield from ("--bind", str(path), str(path))
        yield from _fixed(job)
        yield from ("--chdir", str(_real(job.cwd)))

    def _shown(self, job: Job) -> Iterator[Path]:
        """What of the private places must be seen all the same."""
        env = job.env or {}
        yield from (self.repository, *_homes(job), *(path.parent for path in job.files))
        yield Path("/etc/resolv.conf")
        words = [*job.argv, *(part for value in env.values() for part in value.split(os.pathsep))]
        yield from (Path(word) for word in words if word.startswith(os.sep) and "\0" not in word)
        yield from _installed(job.argv[0], env.get("PATH", os.defpath)) if job.argv else ()
        if job.argv and job.argv[0] == sys.executable:
            yield from (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2])


class Sandboxed:
    """An executor whose jobs are all closed in."""

    def __init__(self, executor: Executor, sandbox: Sandbox) -> None:
        self.executor = executor
        self.sandbox = sandbox
        self.kind = executor.kind

    async def run(self, job: Job) -> Exit:
        return await self.executor.run(self.sandbox.wrap(job))


# --- places -------------------------------------------------------------------------------------------


def _homes(job: Job) -> list[Path]:
    """The job's, and the user's own, where their settings may lie."""
    said = [(job.env or {}).get("HOME"), os.environ.get("HOME")]
    return list(dict.fromkeys(Path(home) for home in said if home and os.path.isabs(home)))  # noqa: PTH117


def _masked(home: Path) -> Iterator[str]:
    for name in CREDENTIALS:
        path = _real(home / name)
        if os.path.isdir(path):  # noqa: PTH112 - what is not ours to look at is not theirs either
            yield from ("--tmpfs", str(path))
        elif os.path.exists(path):  # noqa: PTH110
            yield from ("--ro-bind", os.devnull, str(path))


def _real(path: Path) -> Path:
    """bwrap cannot mount over a link."""
    return Path(os.path.realpath(path))


def _present(paths: Iterable[Path]) -> list[Path]:
    """In an order in which none hides another: what contains comes first."""
    # os.path, since a word that only looks like a path may be too long for one
    found = {_real(path) for path in paths if os.path.exists(path)}  # noqa: PTH110
    return sorted(found, key=lambda path: (len(path.parts), path))


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Those in private places, without the places themselves, and without what lies in another one."""
    found: list[Path] = []
    for path in _present(paths):
        if _is_private(path) and not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def _is_private(path: Path) -> bool:
    return any(path.is_relative_to(place) and path != Path(place) for place in PRIVATE)


def _installed(program: str, search: str) -> Iterator[Path]:
    """A program and what was installed with it: a script among the packages of node needs those beside it."""
    found = jobs.which(program, search)
    if found is None:
        return
    yield Path(found)
    path = _real(Path(found))
    yield path.parent
    packages = [parent for parent in path.parents if parent.name == "node_modules"]
    yield from packages[-1:]


def _fixed(job: Job) -> Iterator[str]:
    """Files inside of what can be written that stay as they are."""
    link = job.cwd / ".git"
    folders = [folder for folder in (link, *job.writes) if (folder / "HEAD").is_file()]
    files = [link] if link.is_file() else []
    for path in _present([*files, *(folder / name for folder in folders for name in FIXED_IN_GIT)]):
        yield from ("--ro-bind", str(path), str(path))
    for folder in folders:
        if not (folder / SETTINGS_OF_A_WORKTREE).exists():
            yield from ("--ro-bind", os.devnull, str(_real(folder) / SETTINGS_OF_A_WORKTREE))


# --- whether it can be had ----------------------------------------------------------------------------


def problem(*, network: bool = True) -> RalphError | None:
    """Why there can be no sandbox on this machine, and what to do; None where there can."""
    if not sys.platform.startswith("linux"):
        return _refused("it needs Linux", "", "Set sandbox: none, or run it on Linux")
    program = jobs.which(PROGRAM)
    if program is None:
        action = "Install it (apt-get install bubblewrap, dnf install bubblewrap), or set sandbox: none"
        return _refused(f"{PROGRAM} is not on PATH", "", action)
    return _tried(program, network)


@cache
def _tried(program: str, network: bool) -> RalphError | None:
    """Make one, once for a whole run: bubblewrap may be there and not be allowed."""
    with tempfile.TemporaryDirectory(prefix="beads-ralph-") as folder:
        tried = Sandbox(Path(folder), network, program=program).wrap(Job(("true",), Path(folder)))
        ended = jobs.run(replace(tried, timeout=PROBE_SECONDS))
    if ended.ok:
        return None
    action = (
        "Let users make namespaces (sysctl kernel.unprivileged_userns_clone=1 or "
        "kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined), or set sandbox: none"
    )
    return _refused("bubblewrap cannot make one here", ended.stderr.strip(), action)


def _refused(why: str, details: str, action: str) -> RalphError:
    said = f"{why}: {details.splitlines()[0]}" if details else why
    return RalphError(Code.NO_SANDBOX, f"{NONE_HERE}{said}", details=details, suggested_action=action)
