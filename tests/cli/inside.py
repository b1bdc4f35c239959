"""The commands inside the test's own process, which saves the half second that Python takes to import them.

The streams are real files under the numbers 0, 1 and 2, as the programs that a command starts expect them.
What a process has to itself is put back afterwards: its directory, its environment, its handlers of signals.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple, TextIO

from beads_ralph.cli import entry

MAINS: Final[dict[str, Callable[[], int]]] = {"beads-ralph": entry.main, "beads-mason": entry.mason}
HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
# What the interpreter reads when it starts, and never again.
AT_START: Final = ("PYTHON", "LC_", "LANG")
ERRORS: Final = {"stdin": "surrogateescape", "stdout": "surrogateescape", "stderr": "backslashreplace"}


class Said(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def call(program: str, words: Sequence[str], cwd: Path, stdin: bytes, env: Mapping[str, str]) -> Said:
    """Run a console command as its script would: `sys.exit(main())`."""
    changed = {name for name in {*env, *os.environ} if env.get(name) != os.environ.get(name)}
    assert not any(name.startswith(AT_START) for name in changed - {"PYTHONUNBUFFERED"}), "needs a process"
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in ERRORS]
        files[0].write(stdin)
        files[0].seek(0)
        with _streams(files), _directory(cwd), _environment(env), _state([program, *words]):
            code = _exit_code(MAINS[program])
        return Said(code, *(_text(file) for file in files[1:]))


def _exit_code(main: Callable[[], int]) -> int:
    """As the interpreter ends: what was not caught is told, and what is buffered is written."""
    try:
        return main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001 - the outer edge of a process
        traceback.print_exc()
        return 1


def _text(file: IO[bytes]) -> str:
    """As `subprocess` reads text: every kind of line end is one."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


# --- what a process has to itself -------------------------------------------------------------------


@contextmanager
def _streams(files: Sequence[IO[bytes]]) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    before = (sys.stdin, sys.stdout, sys.stderr)
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = ours = tuple(map(_stream, ERRORS))
        yield
        for stream in (sys.stdout, sys.stderr, *ours[1:]):
            stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for number, handle in enumerate(kept):
            os.dup2(handle, number)
            os.close(handle)


def _stream(name: str) -> TextIO:
    number = list(ERRORS).index(name)
    return open(
        number,
        "w" if number else "r",
        encoding="utf-8",
        errors=ERRORS[name],
        buffering=1 if name == "stderr" else -1,
        closefd=False,
    )


@contextmanager
def _directory(path: Path) -> Iterator[None]:
    before = os.open(".", os.O_RDONLY)  # a number, since the directory may be renamed or removed meanwhile
    try:
        os.chdir(path)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    try:
        _settle(env)
        yield
    finally:
        _settle(before)


def _settle(env: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)
    time.tzset()


@contextmanager
def _state(argv: list[str]) -> Iterator[None]:
    """The rest: arguments, where temporary files go, the mask of new files, handlers of signals, logging."""
    handlers = {number: signal.getsignal(number) for number in HANDLED}
    arguments, folder, log = sys.argv, tempfile.tempdir, logging.getLogger("beads_ralph")
    logged = (log.level, log.propagate, list(log.handlers))
    mask = os.umask(0o022)
    os.umask(mask)
    sys.argv, tempfile.tempdir = argv, None
    try:
        yield
    finally:
        sys.argv, tempfile.tempdir = arguments, folder
        os.umask(mask)
        log.level, log.propagate, log.handlers[:] = logged
        for number, handler in handlers.items():
            signal.signal(number, handler)
