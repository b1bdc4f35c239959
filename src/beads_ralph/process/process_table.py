"""The one reader of /proc: which processes there are, and what the kernel tells of each.

A process is its number and its start: a later one with the same number is another. Where there is no /proc
the table is empty, and nothing is known of anybody.
"""

from __future__ import annotations

import ipaddress
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
EXEC_SECONDS: Final = 0.001
"""A process has no environment for a moment while it becomes another program."""
EXEC_LOOKS: Final = 3
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")

# Where /proc/<pid>/stat has them, counted from behind the name.
_STATE: Final = 0
_RELATIONS: Final = slice(1, 4)
_WORKED: Final = slice(11, 15)
_THREADS: Final = 17
_STARTED: Final = 19


class Process(NamedTuple):
    """One living process."""

    pid: int
    started: int
    """In ticks since the machine was booted."""
    parent: int = 0
    group: int = 0
    session: int = 0

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.started

    @property
    def began(self) -> float:
        """Its start in seconds since the epoch, as far as the clock has not been set since."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + self.started / TICKS


def has_table() -> bool:
    return Path("/proc/self/stat").exists()


def read_table(since: int = 0) -> dict[int, Process]:
    """Every living process that did not start before `since`, by its number."""
    if not has_table():
        return {}
    with os.scandir(PROC) as entries:
        numbers = [int(entry.name) for entry in entries if entry.name.isdecimal()]
    found = (read_process(number) for number in numbers)
    return {one.pid: one for one in found if one and one.started >= since}


def read_process(pid: int) -> Process | None:
    """One living process, or None."""
    fields = _stat(pid)
    if not fields or fields[_STATE] == b"X" or (fields[_STATE] == b"Z" and int(fields[_THREADS]) <= 1):
        return None  # a zombie has ended, unless only its first thread has
    parent, group, session = map(int, fields[_RELATIONS])
    return Process(pid, int(fields[_STARTED]), parent, group, session)


def is_alive(process: Process) -> bool:
    now = read_process(process.pid)
    return now is not None and now.started == process.started


def is_gone(pid: int) -> bool:
    """Tell whether there is no such process any more; one of somebody else is there."""
    if has_table():
        return read_process(pid) is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def start_of(pid: int) -> int:
    """When a process started (it may have ended since), in ticks; 0, before everything, if unknown."""
    fields = _stat(pid)
    return int(fields[_STARTED]) if fields else 0


def free_memory() -> int:
    """What the machine could still give, in bytes, as the kernel reckons it; 0 where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else 0


def control_groups_root() -> Path | None:
    """Where the kernel's control groups (v2) are, as far as we see them; None where there are none."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    mounts = (line.split(" - ", 1)[0].split() for line in lines if " - cgroup2 " in line)
    return next((Path(mount[4]) for mount in mounts if mount[3] == "/"), None)


def control_group() -> Path | None:
    """The folder of our own control group; None where we have none that we can see."""
    root = control_groups_root()
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    named = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if root is None or named is None or named.startswith(".."):
        return None
    return root / named


# --- what is known of one ---------------------------------------------------------------------------


def name_of(pid: int) -> str:
    """What the kernel calls a process: its program's name, cut to 15 letters; empty where it has ended."""
    return (_read(pid, "comm", 64) or b"").decode("utf-8", "replace").rstrip("\n")


def words_of(pid: int) -> list[str]:
    """Its command line; empty where it has ended."""
    data = _read(pid, "cmdline") or b""
    return [os.fsdecode(word) for word in data.removesuffix(b"\0").split(b"\0")] if data else []


def folder_of(pid: int) -> Path | None:
    """Where it works; None where it ended or is somebody else's."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def variable_of(pid: int, name: str) -> str:
    """The value of a variable in the environment that a process was started with; empty where none is."""
    prefix = os.fsencode(f"{name}=")
    for entry in _environment(pid) or ():
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return ""


def has_entry(process: Process, entry: bytes) -> bool:
    """Tell whether NAME=value is in the environment that the process was started with."""
    entries = _environment(process.pid)
    for _ in range(EXEC_LOOKS if process.group else 0):  # a thread of the kernel's has no group
        if entries != [b""]:
            break
        time.sleep(EXEC_SECONDS)
        entries = _environment(process.pid)
    return entry in (entries or ())


def is_open(path: Path) -> bool:
    """Tell whether any process that we may look at has the file open."""
    real = os.path.realpath(path)
    return any(_link(entry) == real for pid in read_table() for entry in _files(pid))


def worked(pid: int) -> float:
    """Seconds that processors have worked for a process, and for those of its children that have ended and
    that it knows of; 0 where it has ended."""
    fields = _stat(pid)
    return sum(map(int, fields[_WORKED])) / TICKS if fields else 0.0


def resident(pid: int) -> int:
    """Bytes of memory that a process has at hand, shared ones included; 0 where it has ended."""
    fields = (_read(pid, "statm", 256) or b"").split()
    return int(fields[1]) * PAGE if fields else 0


def proportional(pid: int) -> int:
    """The same, with what it shares counted in part; as `resident` where the kernel does not tell."""
    for line in (_read(pid, "smaps_rollup") or b"").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident(pid)


# --- processes by name ------------------------------------------------------------------------------


def own_name() -> str:
    """This process for those who come after it."""
    return name_of_process(os.getpid())


def name_of_process(pid: int) -> str:
    """A process for those who come after it: host, number and start."""
    return f"{os.uname().nodename}:{pid}:{_start_name(pid)}"


def is_running(name: str) -> bool:
    """Tell whether the process of that name still runs; one on another host counts as running."""
    host, _colon, rest = name.partition(":")
    number, _colon, started = rest.partition(":")
    if host != os.uname().nodename or not number.isdecimal():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_name(int(number)) == started


def _start_name(pid: int) -> str:
    """Its start in ticks since boot, with the boot; empty where the system does not tell."""
    process = read_process(pid)
    return f"{boot_id()[:8]}-{process.started}" if process else ""


def boot_id() -> str:
    """The machine's start, as the kernel names it; empty where it does not."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


# --- files of /proc ---------------------------------------------------------------------------------


def _stat(pid: int) -> list[bytes]:
    data = _read(pid, "stat", 1024) or b""
    # The name stands in parentheses and may itself hold spaces and parentheses.
    return data[data.rfind(b")") + 2 :].split(None, _STARTED + 1)


def _environment(pid: int) -> list[bytes] | None:
    data = _read(pid, "environ")
    return None if data is None else data.split(b"\0")


def _files(pid: int) -> Iterator[str]:
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            yield from (entry.path for entry in entries)
    except OSError:  # ended meanwhile, or somebody else's
        return


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - many thousands at a time
    except OSError:
        return ""


def _read(pid: int, name: str, size: int = 0) -> bytes | None:
    """A file of a process; None where it ended meanwhile or is not ours to read."""
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(file, size) if size else _read_all(file)
    except OSError:
        return None
    finally:
        os.close(file)


def _read_all(file: int) -> bytes:
    # An environment has no bound but that of its program's arguments, a few MB.
    return b"".join(iter(lambda: os.read(file, 1 << 16), b""))


# --- connections --------------------------------------------------------------------------------------

CONNECTIONS: Final = {4: "net/tcp", 6: "net/tcp6"}
_LOCAL, _REMOTE, _UID = 1, 2, 7
End = tuple[str, int]
"""An address and a port."""


def owner_of_connection(own: End, other: End) -> int | None:
    """The user whose socket on this machine has these two ends; None where the kernel does not say."""
    try:
        version = ipaddress.ip_address(own[0]).version
        ends = (table_form(*own), table_form(*other))
        with (PROC / CONNECTIONS[version]).open(encoding="ascii") as table:
            for row in table:
                columns = row.split()
                if (columns[_LOCAL], columns[_REMOTE]) == ends:
                    return int(columns[_UID])
    except (OSError, ValueError, IndexError):
        pass
    return None


def table_form(host: str, port: int) -> str:
    """`0100007F:1F90`: words of the address in the machine's own order, and the port."""
    packed = ipaddress.ip_address(host).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
