"""Runs `beads-ralph`, numbers what it does to git, store, journal and files, and kills it at one number.

As a program it is a server: one order a line on stdin, one answer a line on stdout. Each order is carried out
in a fork of it, which saves the half second that Python takes to import everything. As a module it is the
client of that server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

Answer = TypeVar("Answer")

CHANGES: Final = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
)
"""Audit events of Python that tell of a change to files; `open` is one where it is to write."""
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATIENCE: Final = 240


# --- in the process that is killed ------------------------------------------------------------------


class Points:
    """Counts, and kills the process when it has counted far enough; 0 for never."""

    def __init__(self, last: int, names: Path | None) -> None:
        self.last = last
        self.names = names.open("w", encoding="utf-8") if names else None
        self.count = 0
        self.lock = threading.RLock()
        self.inside = threading.local()

    def reach(self, name: str) -> None:
        with self.lock:
            self.count += 1
            if self.names:
                self.names.write(f"{self.count} {name}\n")
                self.names.flush()
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Answer], name: Callable[..., str]) -> Callable[..., Answer]:
        """The call with a point before and one after it; what it does to files inside counts, too."""

        def wrapped(*args: Any, **named: Any) -> Answer:
            said = name(*args, **named)
            self.reach(f"before {said}")
            answer = call(*args, **named)
            self.reach(f"after {said}")
            return answer

        return wrapped

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in CHANGES and not (event == "open" and _writes(args)):
            return
        if isinstance(args[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(args[0])
            if path != os.devnull and not path.startswith(("/proc/", "/dev/")):
                self.reach(f"before {event} {path}")


def _writes(args: tuple[Any, ...]) -> bool:
    return isinstance(args[2], int) and bool(args[2] & WRITING)


def install(points: Points) -> None:
    """Put points around the few places where git, the store, the journal and the ledger are written."""
    from beads_ralph.git.ref_changes import RefWriter
    from beads_ralph.journal.journal import Journal
    from beads_ralph.journal.proofs import Ledger
    from beads_ralph.process import jobs, reaper
    from beads_ralph.store.embedded.database import Database

    def committed(database: Database) -> Iterator[Any]:
        points.reach("before a transaction")
        with writing(database) as connection:
            yield connection
            points.reach("before a commit")
        points.reach("after a commit")

    writing = Database.writing
    said: list[tuple[Any, str, Callable[..., str]]] = [
        (jobs, "run", lambda job, *_, **__: " ".join(job.argv)[:120]),
        (reaper, "start", lambda job, *_: f"job {job.name or job.argv[0]}"),
        (RefWriter, "write", lambda _, change: f"ref {change}"),
        (Journal, "_write", lambda _, line, **__: f"journal {json.loads(line)['kind']}"),
        (Ledger, "_append", lambda _, row: f"ledger {row.kind}"),
    ]
    for owner, attribute, name in said:
        setattr(owner, attribute, points.around(getattr(owner, attribute), name))
    around_commits: Any = contextmanager(committed)
    Database.writing = around_commits  # type: ignore[method-assign]
    sys.addaudithook(points.audit)


def _carry_out(order: Mapping[str, Any]) -> int:
    """In a fork: the command, with its output in a file."""
    out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(order["cwd"])
    from beads_ralph.cli import entry
    from beads_ralph.files import scratch

    vars(scratch)["_owner"] = os.getpid()  # imported by the server, used here
    if order["kill_at"] is not None:
        install(Points(order["kill_at"], Path(order["names"]) if order["names"] else None))
    sys.argv = ["beads-ralph", *order["words"]]
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    try:
        code = entry.main()
    finally:
        sys.stdout.flush()
    import atexit

    atexit._run_exitfuncs()
    return code


def serve(orders: IO[str], answers: IO[str]) -> None:
    """Until nobody orders any more."""
    from beads_ralph.app import planning  # noqa: F401 - imported once for all forks
    from beads_ralph.cli import board, parser, quick, run  # noqa: F401
    from beads_ralph.store.bd import bd_store  # noqa: F401
    from beads_ralph.store.embedded import embedded_store  # noqa: F401

    for line in orders:
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                os._exit(_carry_out(json.loads(line)))
            os._exit(70)
        _, status = os.waitpid(pid, 0)
        answers.write(json.dumps(os.waitstatus_to_exitcode(status)) + "\n")
        answers.flush()


# --- in the test -------------------------------------------------------------------------------------


@dataclass
class Server:
    """Carries out commands, each in a process of its own."""

    process: subprocess.Popen[str]
    out: Path

    def run(self, *words: str, cwd: Path, kill_at: int | None = None, names: Path | None = None) -> int:
        """The exit code, negative for a signal; `kill_at` 0 only counts."""
        said = {"words": words, "cwd": str(cwd), "kill_at": kill_at, "out": str(self.out)}
        order = json.dumps({**said, "names": str(names) if names else None})
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return int(json.loads(self.process.stdout.readline()))

    @property
    def said(self) -> str:
        return self.out.read_text("utf-8", "replace")


@contextmanager
def server(folder: Path, env: Mapping[str, str]) -> Iterator[Server]:
    command: Sequence[str] = [sys.executable, "-B", "-m", "tests.loop.crash_points"]
    root = Path(__file__).parents[2]
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                command,
                cwd=root,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        yield Server(process, folder / "said.txt")
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)


if __name__ == "__main__":
    serve(sys.stdin, os.fdopen(os.dup(1), "w"))
