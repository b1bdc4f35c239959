"""A place for one check: what others left on this machine is not there.

Inside of bubblewrap the home and the temporary folders are new and its own, at their usual paths; what the
check needs of the old ones is shown. The user's repository and the worktrees are not there, nor are the
processes that started it. Unlike a sandbox it does not keep the check from writing elsewhere, unless it is
`sealed`: it keeps the check from seeing what an agent may have prepared for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from beads_ralph.process.jobs import Job
from beads_ralph.process.sandbox import PROGRAM, SECRETS, lies_below, real

NAMESPACES: Final = ("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--as-pid-1")
FIRST: Final = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
"""The first process in there: like that of a container, it waits for the others, and has a common name."""
POWERS_OF_ROOT: Final = (
    *(
        "CAP_AUDIT_WRITE",
        "CAP_CHOWN",
        "CAP_DAC_OVERRIDE",
        "CAP_FOWNER",
        "CAP_FSETID",
        "CAP_KILL",
        "CAP_MKNOD",
    ),
    *("CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"),
    "CAP_SYS_CHROOT",
)
"""Those that a container has: it cannot undo what hides things."""
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - hidden, not used
RUNTIME: Final = "/run"
RESOLVER: Final = "/etc/resolv.conf"

Kind = Literal["hide", "show", "lend"]
"""hide: nothing is there. show: it can be read. lend: it can be written, too."""


@dataclass(frozen=True)
class RoomMount:
    """One place in there."""

    place: Path
    kind: Kind
    source: Path | None = None
    """What is seen there, where that is another folder."""


@dataclass(frozen=True)
class Room:
    """What a check finds."""

    mounts: tuple[RoomMount, ...]
    program: str = PROGRAM
    network: bool = True
    sealed: bool = False
    """True if nothing can be written but what is lent."""
    forgotten: tuple[str, ...] = field(default=())
    """Variables that only we need."""

    def wrap(self, job: Job) -> Job:
        """The same job, in there."""
        argv = (self.program, *self._options(job), "--", *FIRST, *job.argv)
        return replace(job, argv=argv, keeper=PROGRAM)

    def _options(self, job: Job) -> Iterator[str]:
        yield from NAMESPACES
        yield from () if self.network else ("--unshare-net",)
        yield from ("--ro-bind" if self.sealed else "--bind", "/", "/", "--proc", "/proc")
        if os.getuid() == 0:
            yield from ("--cap-drop", "ALL")
            for power in POWERS_OF_ROOT:
                yield from ("--cap-add", power)
        yield from ("--dev", "/dev") if self.sealed else ("--dev-bind", "/dev", "/dev")
        yield from ("--tmpfs", SHARED_MEMORY) if self.sealed or _is_there(SHARED_MEMORY) else ()
        own = [RoomMount(path, "lend") for path in (job.cwd, *job.writes)]
        placed = in_order([*self.mounts, *own])
        for mount in placed:
            yield from _options_of(mount)
        for mount in placed:
            if mount.kind == "hide":
                yield from ("--remount-ro", str(mount.place))
        for name in self.forgotten:
            yield from ("--unsetenv", name)
        yield from ("--chdir", str(real(job.cwd)))


def _is_there(folder: str) -> bool:
    return os.path.isdir(folder) and os.path.realpath(folder) == folder  # noqa: PTH112


def _options_of(mount: RoomMount) -> Iterator[str]:
    place = str(mount.place)
    if mount.kind == "hide":
        yield from ("--tmpfs", place)
    else:
        yield "--bind" if mount.kind == "lend" else "--ro-bind"
        yield from (str(mount.source or mount.place), place)


def in_order(mounts: Iterable[RoomMount]) -> list[RoomMount]:
    """What contains comes first; of two for one place the later one counts. What is not seen anyway is not
    hidden, lest its name be there, unless something in it is seen."""
    by_place = {real(mount.place): mount for mount in mounts}
    seen = [str(place) for place, mount in by_place.items() if mount.kind != "hide"]
    placed: list[RoomMount] = []
    for place in sorted(by_place, key=lambda path: (len(path.parts), path)):
        mount = replace(by_place[place], place=place)
        if mount.kind != "hide" or is_seen(place, placed) or any(_is_in(one, place) for one in seen):
            placed.append(mount)
    return placed


def is_seen(place: Path, mounts: Iterable[RoomMount]) -> bool:
    """True if what lies there outside is there inside; the mounts are in order."""
    own = str(place)
    above = [mount for mount in mounts if _is_in(own, mount.place)]
    return not above or (above[-1].kind != "hide" and above[-1].source is None)


def _is_in(path: str, place: Path) -> bool:
    return path == str(place) or lies_below(path, str(place))


def temporary(places: Mapping[str, Path]) -> Iterator[RoomMount]:
    """New folders in place of those that everybody writes to."""
    for place, own in places.items():
        if os.path.isdir(place):  # noqa: PTH112 - one that is not ours to enter counts, too
            yield RoomMount(Path(place), "lend", own)


def runtime(*, sealed: bool) -> Iterator[RoomMount]:
    """Sockets and files of whoever is signed in; those of services, too, where the room is sealed."""
    place = Path(RUNTIME) if sealed else Path(RUNTIME) / "user"
    if place.is_dir() and not place.is_symlink():
        yield RoomMount(place, "hide")
        yield RoomMount(real(Path(RESOLVER)), "show")


def without_credentials(home: Path) -> Iterator[RoomMount]:
    """Only the harness pushes."""
    for path in (real(home / name) for name in SECRETS):
        if path.exists():
            yield RoomMount(path, "hide") if path.is_dir() else RoomMount(path, "show", Path(os.devnull))
