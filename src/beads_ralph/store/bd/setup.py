"""Set up bd for our use: the program, a database here, our words in its settings, one writer."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from beads_ralph.bead.names import ASSIGNEE, CONVOY, ISSUE_TYPES
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.files.text_files import RALPH_DIR, ralph_dir
from beads_ralph.process import jobs
from beads_ralph.store.bd.cli import Bd

OLDEST: Final = (1, 3, 0)
PREFIX: Final = "bd"
LOCK_FILE: Final = "bd-writer.lock"
GRAPH_FILE: Final = "bd-graph-version"
UNKNOWN_TO_BD: Final = (CONVOY,)  # types of items that bd takes only after they were registered
WAITS: Final = 10  # time limits of one call that a writer waits for its turn: a large insert takes minutes
INIT: Final = (
    *("init", "--non-interactive", f"--prefix={PREFIX}", "--stealth", "--skip-hooks", "--skip-agents"),
    *("--quiet", "--init-if-missing"),
)
_turns: dict[Path, threading.Lock] = {}
_turns_guard = threading.Lock()


@dataclass(frozen=True)
class Preflight:
    """The result of bd's preflight."""

    version: str
    location: str
    settings: Mapping[str, str]
    warnings: tuple[Fault, ...] = ()


def program(bd: str | None = None) -> str:
    """The bd to run."""
    found = jobs.which(bd or "bd")
    if found is None:
        where = f"{bd} is not a program" if bd else "bd is not on PATH"
        raise RalphError(Code.CLI_NOT_FOUND, where)
    return str(Path(found).absolute())


def preflight(bd: Bd) -> Preflight:
    """Is it a bd that we can work with, and does it have a database in this very repository?"""
    with ThreadPoolExecutor(max_workers=1) as beside:  # either takes a third of a second
        version = beside.submit(_version, bd)
        try:
            info = _info(bd)
        except RalphError:
            version.result()  # what is wrong with bd itself goes first
            raise
    location = str(info.get("database_path", ""))
    if not _is_within(location, bd.root):
        raise _no_database(bd.root, f"bd would use {location} instead")
    settings = {key: str(value) for key, value in (info.get("config") or {}).items()}
    return Preflight(version.result(), location, settings, _warnings(info))


def _info(bd: Bd) -> Any:
    if not (bd.root / ".beads").is_dir():  # bd would go and find the database of a directory above
        raise _no_database(bd.root, "it has no .beads directory")
    return bd.read("info")


def initialise(root: Path, bd: str | None = None, timeout: float = 120.0) -> None:
    """Make a database in the repository where there is none, and register our words in it."""
    called = Bd(program(bd), root.absolute(), timeout)
    try:
        preflight(called)  # a database with a prefix of its own is fine, but `bd init` would refuse it
    except RalphError as problem:
        if problem.code is not Code.NOT_INITIALIZED:
            raise
        done = called.run(INIT)
        if not done.ok:
            raise called.failure(INIT, done) from None
    with writer_turn(called):
        register(called, preflight(called).settings)


def writer_turn(bd: Bd) -> AbstractContextManager[None]:
    """The one writer queue of the repository, as a context manager."""
    return only_writer(ralph_dir(bd.root) / LOCK_FILE, WAITS * bd.timeout)


def graph_version(bd: Bd) -> str:
    """Changes whenever one of us may have made a ready bead wait again."""
    try:
        return (bd.root / RALPH_DIR / GRAPH_FILE).read_text("utf-8")
    except FileNotFoundError:
        return ""


def graph_changed(bd: Bd) -> None:
    text_files.write_text(ralph_dir(bd.root) / GRAPH_FILE, uuid4().hex)


def register(
    bd: Bd, settings: Mapping[str, str], ids: Collection[str] = (), types: Collection[str] = ()
) -> Mapping[str, str]:
    """Add our types, our pool and the prefixes of the ids to what the user has there; the new settings."""
    if not missing_settings(settings, ids, types):
        return settings
    fresh = dict(preflight(bd).settings)  # the settings we were given may be old; nobody else writes now
    for key, value in missing_settings(fresh, ids, types).items():
        _set(bd, key, value)
        fresh[key] = value
    return fresh


def _set(bd: Bd, key: str, value: str) -> None:
    bd.change(("config", "set", key, value), lambda: preflight(bd).settings.get(key) == value)


def missing_settings(
    settings: Mapping[str, str], ids: Collection[str], types: Collection[str] = ()
) -> dict[str, str]:
    """The settings to write: each is a whole list, so the user's entries stay in it."""
    wanted = {
        "types.custom": [*ISSUE_TYPES, *(kind for kind in UNKNOWN_TO_BD if kind in types)],
        "claim.pools": [ASSIGNEE],
        "allowed_prefixes": _missing_prefixes(settings, ids),
    }
    have = {key: _entries(settings.get(key, "")) for key in wanted}
    new = {key: [entry for entry in entries if entry not in have[key]] for key, entries in wanted.items()}
    return {key: ",".join(have[key] + new[key]) for key in wanted if new[key]}


def _missing_prefixes(settings: Mapping[str, str], ids: Collection[str]) -> list[str]:
    """bd refuses explicit ids of a prefix that is neither the database's nor in this list."""
    known = [settings.get("issue_prefix", ""), *_entries(settings.get("allowed_prefixes", ""))]
    starts = tuple(f"{prefix.removesuffix('-')}-" for prefix in known if prefix)
    strange = [name for name in (f"{PREFIX}-", *ids) if not name.startswith(starts)]
    return list(dict.fromkeys(name.partition("-")[0] for name in strange if "-" in name))


def _entries(text: str) -> list[str]:
    """A setting that is a list: with commas, or as a JSON array, which bd takes as well."""
    try:
        array = json.loads(text)
    except ValueError:
        array = None
    entries = array if isinstance(array, list) else text.split(",")
    return [str(entry).strip() for entry in entries if str(entry).strip()]


def _version(bd: Bd) -> str:
    if not bd.root.is_dir():
        raise _no_database(bd.root, "it is not a directory")
    done = bd.run(("--version",), reading=True)
    if done.timed_out:
        raise bd.failure(("--version",), done)
    numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    if not done.ok or numbers is None:
        message = f"{bd.program} does not tell its version"
        raise bd.error(Code.CLI_NOT_FOUND, message, ("--version",), done)
    if tuple(map(int, numbers.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise RalphError(Code.CLI_NOT_FOUND, f"{bd.program} is bd {numbers[0]}; {oldest} or newer is needed")
    return numbers[0]


def _is_within(location: str, root: Path) -> bool:
    """True for this repository's own database, or one that the repository itself points to."""
    beads = root / ".beads"
    return Path(location).resolve().is_relative_to(beads.resolve()) or (beads / "redirect").exists()


def _no_database(root: Path, why: str) -> RalphError:
    return RalphError(Code.NOT_INITIALIZED, f"{root} has no bd database: {why}")


def _warnings(info: Mapping[str, Any]) -> tuple[Fault, ...]:
    if info.get("daemon_running") is not False:  # bd 1.3 has no daemon and does not speak of one
        return ()
    return (Fault(Code.DAEMON_NOT_RUNNING, "the bd daemon is not running; going on without it"),)


# --- one writer at a time --------------------------------------------------------------------------


@contextmanager
def only_writer(lock_file: Path, wait: float) -> Iterator[None]:
    """Hold the lock for the block; DATABASE.TIMEOUT where it did not come free within `wait` seconds."""
    deadline = time.monotonic() + wait
    turn = _turn(lock_file)
    if not turn.acquire(timeout=wait):
        raise _too_late(lock_file, wait)
    try:
        left = max(deadline - time.monotonic(), 0.0)
        with lock.held(lock_file, left, lambda: _too_late(lock_file, wait)):
            yield
    finally:
        turn.release()


def _turn(lock_file: Path) -> threading.Lock:
    with _turns_guard:
        return _turns.setdefault(lock_file.resolve(), threading.Lock())


def _too_late(lock_file: Path, wait: float) -> RalphError:
    message = f"another writer has held {lock_file} for {wait:g} s"
    action = f"See who holds it (fuser {lock_file}), wait for it or end it, then run it again"
    return RalphError(Code.DATABASE_TIMEOUT, message, suggested_action=action)
