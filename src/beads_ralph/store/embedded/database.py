"""The SQLite file of the embedded store: its tables, its connection, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files.text_files import RALPH_DIR, check_ralph_dir, open_private, ralph_dir
from beads_ralph.store.embedded.rows import STEPS, VERSION
from beads_ralph.store.query import StoreInfo

FILE_NAME: Final = "beads.db"
APPLICATION: Final = 0x52616C70  # "Ralp": tells our file from another program's
OLDEST_SQLITE: Final = (3, 35, 0)  # the first with RETURNING
BUSY_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 0.02


class Database:
    """One connection, made at first use and lent to one thread at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / RALPH_DIR / FILE_NAME
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        with _FORKING:
            _LIVE.add(self)

    def __del__(self) -> None:
        self._disconnect()

    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def check(self) -> StoreInfo:
        """Raise what a write would meet, without making anything."""
        if self.exists():
            with self.writing():  # proves that it opens, has our tables and can be written
                pass
        else:
            _require_place(self.root)
            check_ralph_dir(self.root)
        return StoreInfo("embedded", str(self.path), f"SQLite {sqlite3.sqlite_version}")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several queries that see one state. Looking makes no file: where none is, nothing is found."""
        if not self.exists():
            _require_place(self.root)
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as nothing:
                _prepare(nothing, self.path)
                yield nothing
            return
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of it is on disk afterwards, or, after an exception, nothing of it.

        IMMEDIATE, since a reader that turns writer is refused at once where another wrote in between.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lent() as connection:
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _explained(self.path):
            try:
                yield self._current()
            except sqlite3.Error:
                self._disconnect()  # whatever state it is in, the next operation starts afresh
                raise

    def _current(self) -> sqlite3.Connection:
        """The open connection; a new one where the file was removed or replaced under the old one."""
        if self._connection is not None and self._identity != _identity(self.path):
            self._disconnect()
        if self._connection is None:
            self._connection = self._connect()
            self._identity = _identity(self.path)
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        _require_place(self.root)
        ralph_dir(self.root)
        # SQLite's journals get the mode of the file. Only a new one: closing one in use would free its locks.
        with suppress(OSError):
            os.close(open_private(self.path, os.O_RDWR | os.O_EXCL))
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def pause(self) -> None:
        """Wait for the running operation, then keep the file closed until `resume`."""
        self._lock.acquire()
        self._disconnect()

    def resume(self) -> None:
        self._lock.release()


# --- forks ------------------------------------------------------------------------------------------

# SQLite's locks belong to the process but its notes on them are copied by a fork: a child that opens
# the file again would believe that it holds locks which it does not. So no file is open during a fork.
_FORKING: Final = threading.Lock()
_LIVE: Final[weakref.WeakSet[Database]] = weakref.WeakSet()
_PAUSED: Final[list[Database]] = []


def _before_fork() -> None:
    _FORKING.acquire()
    for database in tuple(_LIVE):
        database.pause()
        _PAUSED.append(database)


def _after_fork() -> None:
    while _PAUSED:
        _PAUSED.pop().resume()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


# --- opening ----------------------------------------------------------------------------------------


def _require_place(root: Path) -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise _too_old()
    if os.path.lexists(root / RALPH_DIR) and not (root / RALPH_DIR).is_dir():
        check_ralph_dir(root)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or those that are missing; leave alone what is not ours or is newer than we are."""
    connection.row_factory = sqlite3.Row
    # Bytes that are not UTF-8 in one bead must not hide all the others.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    if _version(connection, path) < VERSION:
        _bring_up_to_date(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    connection.execute("BEGIN")  # one state for the three questions, while another process makes tables
    version = _number(connection, "PRAGMA user_version")
    application = _number(connection, "PRAGMA application_id")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    connection.execute("COMMIT")
    if tables and application != APPLICATION:
        raise _foreign(path)
    if version > VERSION:
        raise _newer(path, version)
    return version


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Every missing step in one transaction: whoever is killed in between leaves the file as it was."""
    _use_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    version = _number(connection, "PRAGMA user_version")  # another process may have been faster
    for step in STEPS[version:]:
        for statement in step:
            connection.execute(statement)
    if version < VERSION:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers and the writer do not wait for one another. The file remembers it.

    SQLite does not wait for a lock here as it does elsewhere, so we do.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if _primary(problem) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


# --- errors -----------------------------------------------------------------------------------------


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        raise _explanation(problem, path) from problem
    except UnicodeEncodeError as problem:
        message = f"text that is not valid Unicode cannot be stored: {problem}"
        raise RalphError(Code.BEAD_SCHEMA, message, suggested_action="Remove that character") from problem


def _primary(problem: sqlite3.Error) -> int:
    """SQLite's error code without its refinement; 0 where Python itself raised the error."""
    return int(getattr(problem, "sqlite_errorcode", 0)) & 0xFF


def _explanation(problem: sqlite3.Error, path: Path) -> Exception:
    """The error in the user's words, or the error itself where it can only be a bug of ours."""
    primary = _primary(problem)
    tables_missing = str(problem).startswith("no such ")
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or tables_missing:
        return _damaged(path, problem)
    if primary not in _MEANINGS:
        return problem
    code, words, advice = _MEANINGS[primary]
    return RalphError(
        code, f"{path}: {words} ({problem})", suggested_action=advice.format(path=path, folder=path.parent)
    )


_SPACE: Final = "Free some space on the disk of {folder}, then run the command again"
_ACCESS: Final = "Make sure you may write in {folder}"
_WAIT: Final = "See which process holds {path} (fuser {path}), then run the command again"
_MEANINGS: Final = {
    sqlite3.SQLITE_FULL: (Code.WRITE_FAILED, "the disk is full; nothing was changed", _SPACE),
    sqlite3.SQLITE_IOERR: (Code.WRITE_FAILED, "could not be read or written; nothing was changed", _SPACE),
    sqlite3.SQLITE_READONLY: (Code.PERMISSION_DENIED, "must not be written", _ACCESS),
    sqlite3.SQLITE_PERM: (Code.PERMISSION_DENIED, "must not be opened", _ACCESS),
    sqlite3.SQLITE_CANTOPEN: (Code.PERMISSION_DENIED, "cannot be opened", _ACCESS),
    sqlite3.SQLITE_BUSY: (Code.DATABASE_TIMEOUT, f"was busy for {BUSY_SECONDS:.0f} s", _WAIT),
    sqlite3.SQLITE_LOCKED: (Code.DATABASE_TIMEOUT, f"was busy for {BUSY_SECONDS:.0f} s", _WAIT),
    sqlite3.SQLITE_TOOBIG: (Code.INSERT_FAILED, "a text is too large for it", "Shorten the text"),
}


def _damaged(path: Path, problem: sqlite3.Error) -> RalphError:
    return RalphError(
        Code.NOT_INITIALIZED,
        f"{path} is damaged or not a database of ours ({problem})",
        suggested_action=f"Move {path} away, then compile the plan again",
    )


def _foreign(path: Path) -> RalphError:
    return RalphError(
        Code.NOT_INITIALIZED,
        f"{path} is a database of another program",
        suggested_action=f"Move {path} away; it was not changed",
    )


def _newer(path: Path, version: int) -> RalphError:
    return RalphError(
        Code.NOT_INITIALIZED,
        f"{path} has version {version}, this beads-ralph knows versions up to {VERSION}",
        suggested_action="Update beads-ralph; the file was not changed",
    )


def _too_old() -> RalphError:
    needed = ".".join(map(str, OLDEST_SQLITE[:2]))
    return RalphError(
        Code.NOT_INITIALIZED,
        f"the embedded store needs SQLite {needed} or newer; this Python has {sqlite3.sqlite_version}",
        suggested_action="Use a Python that was built with a newer SQLite, or --store bd",
    )
