"""A job inside bubblewrap: everything can be read, and only what it needs can be written.

Writable are the job's own folder and what the job names, such as the parts of the repository that git writes
for a commit. The temporary folders are its own and empty. It sees no process but its own, and without a
network none but its own. What of the outside lies in a temporary folder is let in, for reading, where the
job's command line or environment names it.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Exit, Job, Watcher

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
OF_THE_STORE: Final = (".ralph", ".beads")
"""Below a repository: the beads, and what runs have noted and proven."""
DATABASES: Final = (".ralph", ".beads/embeddeddolt", ".beads/dolt", ".beads/beads.db")
"""Below a worktree: what else lies in `.beads` there is in git, and whoever works there sees it as it is."""
BORROWED: Final = ".ralph/proof.git/objects"
"""Clean checkouts have their objects from there."""
SECRETS: Final = (
    *(".ssh", ".gnupg", ".netrc", ".git-credentials", ".config/git/credentials", ".password-store"),
    *(".config/gh", ".config/hub", ".config/glab-cli", ".config/op", ".config/sops", ".local/share/keyrings"),
    *(".aws", ".azure", ".config/gcloud", ".oci", ".config/doctl", ".fly", ".kube", ".docker", ".boto"),
    *(
        ".config/containers/auth.json",
        ".config/helm/registry",
        ".terraform.d",
        ".terraformrc",
        ".vault-token",
    ),
    *(".npmrc", ".pypirc", ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".composer/auth.json", ".config/composer/auth.json"),
    *(".pgpass", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".config/rclone", ".databrickscfg", ".snowflake"),
    *(".cache/huggingface/token", ".huggingface/token", ".kaggle", ".beads", ".dolt/creds"),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".config/Bitwarden", ".config/1Password"),
    *("snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
)
"""Below a home: what lets one push, which is the harness's to do, or get into anything else."""
WHERE_SECRETS_ARE: Final = (
    *("GH_CONFIG_DIR", "GNUPGHOME", "NETRC", "KUBECONFIG", "DOCKER_CONFIG", "CLOUDSDK_CONFIG"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "NPM_CONFIG_USERCONFIG"),
    "GOOGLE_APPLICATION_CREDENTIALS",
)
"""Variables of the user's that name such a place; a job that is given the variable may read it."""
KEPT_BY_ROOT: Final = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID")
"""bwrap leaves root all its powers, such as mounting the disk anew; these are the harmless ones."""
SETTINGS_OF_A_WORKTREE: Final = "config.worktree"
FIXED_IN_GIT: Final = ("config", SETTINGS_OF_A_WORKTREE, "hooks", "commondir", "gitdir")
"""What says where git's settings are and which programs it runs: a later git outside would obey it."""
NONE_HERE: Final = "there can be no sandbox: "
FIRST_COPY: Final = 7
"""The descriptor of the first file that is copied; shells know only those of one digit."""
DROPPED: Final = ("XDG_RUNTIME_DIR",)
CACHES: Final = {
    "npm_config_cache": ".npm",
    "npm_config_store_dir": ".local/share/pnpm/store",
    "YARN_CACHE_FOLDER": ".cache/yarn",
    "BUN_INSTALL_CACHE_DIR": ".bun/install/cache",
    "DENO_DIR": ".cache/deno",
    "PIP_CACHE_DIR": ".cache/pip",
    "UV_CACHE_DIR": ".cache/uv",
    "POETRY_CACHE_DIR": ".cache/pypoetry",
    "PRE_COMMIT_HOME": ".cache/pre-commit",
    "GOCACHE": ".cache/go-build",
    "GOMODCACHE": "go/pkg/mod",
    "CARGO_HOME": ".cargo",
    "GRADLE_USER_HOME": ".gradle",
    "NUGET_PACKAGES": ".nuget/packages",
    "PUB_CACHE": ".pub-cache",
    "COMPOSER_CACHE_DIR": ".cache/composer",
    "CCACHE_DIR": ".cache/ccache",
}
"""Variables that tell programs where their downloads go, and where that is below a home."""
OWN_CACHES: Final = ".cache/beads-ralph/sandbox"
"""Below a home: the caches of what is closed in. Nothing outside reads them."""


@dataclass(frozen=True)
class Sandbox:
    """How jobs are closed in."""

    kind: ClassVar = "bwrap"

    repository: Path
    network: bool = True
    writes: tuple[Path, ...] = ()
    """What every job may write to, such as a cache of packages."""
    reads: tuple[Path, ...] = ()
    """What every job may read although it would be hidden."""
    program: str = PROGRAM

    def wrap(self, job: Job) -> Job:
        """The same job, closed in."""
        env = dict(job.env if job.env is not None else os.environ)
        for name in DROPPED:
            env.pop(name, None)
        if env.get("TMPDIR") not in PRIVATE:
            env["TMPDIR"] = "/tmp"  # noqa: S108 - its own
        caches = self._caches(env)
        env |= {name: str(path) for name, path in caches.items()}
        own = replace(job, env=env, writes=(*job.writes, *caches.values()))
        inside = (self.program, *self._options(own), "--", *job.argv)
        return replace(job, argv=(*_opened(job.copied), *inside), env=env, keeper=PROGRAM)

    def _caches(self, env: Mapping[str, str]) -> dict[str, Path]:
        """Where programs put what they download, since the user's own caches cannot be written, unless the
        settings say so. Without the network those are worth more, as they are."""
        home = env.get("HOME")
        if not (home and self.network):
            return {}
        found = {
            name: Path(home, OWN_CACHES, place)
            for name, place in CACHES.items()
            if name not in env and not any(Path(home, place).is_relative_to(one) for one in self.writes)
        }
        for path in found.values():
            if not path.is_dir():
                with suppress(OSError):
                    path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return found

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
        yield from _bound("--ro-bind", _outermost(self._shown(job)))
        yield from self._places(job)
        yield from _overlaid(job)
        yield from _fixed(job)
        for number, path in enumerate(job.copied):
            yield from ("--bind-data", str(FIRST_COPY + number), str(real(path)))
        for mount in job.mounts:
            yield from ("--bind" if mount.writable else "--ro-bind", str(mount.source), str(mount.target))
        yield from ("--chdir", str(real(job.cwd)))

    def _places(self, job: Job) -> Iterator[str]:
        """What it can write to, without what is hidden, but with what of that it needs."""
        writable, hidden = _present((job.cwd, *job.writes, *self.writes)), self._hidden(job)
        yield from _bound("--bind", writable)
        for path in hidden:
            yield from ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", os.devnull, str(path))
        yield from _bound("--ro-bind", self._revealed(job, hidden))
        yield from _bound("--bind", _below(hidden, writable))

    def _shown(self, job: Job) -> Iterator[Path]:
        """What of the private places must be seen all the same."""
        yield from (self.repository, *_homes(job), *job.reads, *(path.parent for path in job.files))
        yield Path("/etc/resolv.conf")
        yield from _named(job)
        search = (job.env or {}).get("PATH", os.defpath)
        yield from _installed(job.argv[0], search) if job.argv else ()
        if job.argv and job.argv[0] == sys.executable:
            yield from (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2])

    def _hidden(self, job: Job) -> list[Path]:
        """What it has no business with, as far as it is there."""
        env = job.env or {}
        named = [os.environ[name] for name in WHERE_SECRETS_ARE if os.environ.get(name) and name not in env]
        beads = [os.environ["BEADS_DIR"]] if os.environ.get("BEADS_DIR") else []
        places = [
            *(word for word in (*named, *beads) if os.path.isabs(word)),  # noqa: PTH117
            *(f"{home}/{name}" for home in _homes(job) for name in SECRETS),
            *(f"{self.repository}/{name}" for name in OF_THE_STORE),
            *(f"{job.cwd}/{name}" for name in DATABASES),
        ]
        allowed = [real(path) for path in (*self.reads, *job.reads)]
        found = [path for path in _present(places) if not any(path.is_relative_to(one) for one in allowed)]
        return [path for path in found if not any(path != one and path.is_relative_to(one) for one in found)]

    def _revealed(self, job: Job, hidden: list[Path]) -> list[Path]:
        """What of the hidden it needs all the same: what it was given, and what it was given the name of."""
        given = [real(path.parent) / path.name for path in job.files]  # they are written after this
        wanted = _present((*_named(job), *self.reads, *job.reads, self.repository / BORROWED))
        return _below(hidden, [*wanted, *given])


class Sandboxed:
    """An executor whose jobs are all closed in."""

    def __init__(self, executor: Executor, sandbox: Sandbox) -> None:
        self.executor = executor
        self.sandbox = sandbox
        self.kind = executor.kind

    async def run(self, job: Job, watcher: Watcher | None = None) -> Exit:
        """A job that is in a room of its own already is left there."""
        return await self.executor.run(job if job.keeper else self.sandbox.wrap(job), watcher)


# --- places -------------------------------------------------------------------------------------------


def _named(job: Job) -> list[Path]:
    """What the command line and the environment name by its path."""
    words = [*job.argv, *(part for value in (job.env or {}).values() for part in value.split(os.pathsep))]
    return [Path(word) for word in words if word.startswith(os.sep) and "\0" not in word]


def _homes(job: Job) -> list[Path]:
    """The job's, and the user's own, where their settings may lie."""
    said = [(job.env or {}).get("HOME"), os.environ.get("HOME")]
    return list(dict.fromkeys(Path(home) for home in said if home and os.path.isabs(home)))  # noqa: PTH117


def _bound(how: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from (how, str(path), str(path))


def _below(hidden: Iterable[Path], paths: Iterable[Path]) -> list[Path]:
    """Those of the paths that lie in hidden folders."""
    folders = [str(one) for one in hidden]
    return [path for path in paths if any(lies_below(str(path), one) for one in folders)]


def real(path: Path | str) -> Path:
    """bwrap cannot mount over a link."""
    return Path(os.path.realpath(path))


def lies_below(path: str, folder: str) -> bool:
    """Both without links, dots and a slash at the end. As text: pathlib takes tens of times as long, and each
    job asks hundreds of times."""
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep) and path != folder


def _present(paths: Iterable[Path | str]) -> list[Path]:
    """In an order in which none hides another: what contains comes first."""
    # os.path, since a word that only looks like a path may be too long for one, and most are not there
    there = [path for path in dict.fromkeys(os.fspath(path) for path in paths) if os.path.exists(path)]  # noqa: PTH110
    folders: dict[str, str] = {}
    found = {_without_links(path, folders) for path in there}
    return [Path(path) for path in sorted(found, key=lambda path: (path.count(os.sep), path))]


def _without_links(path: str, folders: dict[str, str]) -> str:
    """Many lie in the same few folders, which are looked up once."""
    folder, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir) or os.path.islink(path):  # noqa: PTH114
        return os.path.realpath(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)  # noqa: PTH118


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Those in private places, without the places themselves, and without what lies in another one."""
    found: list[Path] = []
    for path in _present(paths):
        if _is_private(path) and not any(lies_below(str(path), str(other)) for other in found):
            found.append(path)
    return found


def _is_private(path: Path) -> bool:
    return any(lies_below(str(path), place) for place in PRIVATE)


def _installed(program: str, search: str) -> Iterator[Path]:
    """A program and what was installed with it: a script among the packages of node needs those beside it."""
    found = jobs.which(program, search)
    if found is None:
        return
    yield Path(found)
    path = real(Path(found))
    yield path.parent
    packages = [parent for parent in path.parents if parent.name == "node_modules"]
    yield from packages[-1:]


def _overlaid(job: Job) -> Iterator[str]:
    """Folders of the job's own, in which everything is that is there outside, read-only."""
    for folder in _present(job.overlaid):
        yield from ("--tmpfs", str(folder))
        yield from _bound("--ro-bind", (path for path in sorted(folder.iterdir()) if path.exists()))


def _opened(copied: tuple[Path, ...]) -> tuple[str, ...]:
    """A shell that opens files for bubblewrap, which copies what it reads there."""
    if not copied:
        return ()
    opened = " ".join(f"{FIRST_COPY + number}<{shlex.quote(str(path))}" for number, path in enumerate(copied))
    return ("/bin/sh", "-c", f'exec "$@" {opened}', "sh")


def _fixed(job: Job) -> Iterator[str]:
    """Files inside of what can be written that stay as they are."""
    link = job.cwd / ".git"
    folders = [folder for folder in (link, *job.writes) if (folder / "HEAD").is_file()]
    files = [link] if link.is_file() else []
    in_git = [*files, *(folder / name for folder in folders for name in FIXED_IN_GIT)]
    yield from _bound("--ro-bind", _present([*in_git, *job.settings]))
    for folder in folders:
        if not (folder / SETTINGS_OF_A_WORKTREE).exists():
            yield from ("--ro-bind", os.devnull, str(real(folder) / SETTINGS_OF_A_WORKTREE))


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
