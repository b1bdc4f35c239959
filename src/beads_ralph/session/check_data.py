"""Files that belong to the checks, found by what they opened on the baseline.

A check opens the work as well, so being opened says little. Data is taken to be a check's where checks of the
base name it, or it lies among fixtures, and no source of the work names it; a script, where another script of
the checks names it, and its own name says that it checks something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from beads_ralph.bead.model import Verifier
from beads_ralph.git import commands
from beads_ralph.session import gate_files
from beads_ralph.session.gate_patterns import (
    CODE,
    DATA,
    DEPENDENCIES,
    FIXTURES,
    SCRIPTS,
    is_check,
    kind_of,
    matches,
)

MOST_NAMES: Final = 2000
MOST_KEPT: Final = 500
"""So many names a bead keeps."""
SCRIPTED: Final = ("make", "just", "shell")
RUN_BY: Final = ("package.json", "tox.ini", "noxfile.py", "pyproject.toml")


def folders(repo: Path, commit: str) -> set[str]:
    """Those that hold files of the commit."""
    parents = (str(PurePosixPath(file).parent) for file in gate_files.files_of(repo, commit))
    return {"" if parent == "." else parent for parent in parents}


def found(repo: Path, base: str, opened: Collection[str], verifiers: Sequence[Verifier]) -> list[str]:
    """The files among those opened that are the checks' own."""
    known = gate_files.files_of(repo, base)
    named = gate_files.named_by(verifiers)
    open_ = sorted(file for file in known.intersection(opened) if not _is_known(file, named))
    data = [file for file in open_ if PurePosixPath(file).suffix.lower() in DATA]
    scripts = [file for file in open_ if _is_program(file) and is_check(file)]
    mentions = _mentions(repo, base, {PurePosixPath(file).name for file in (*data, *scripts)})
    checks = _Checks(named)
    theirs = [file for file in data if checks.own_data(file, mentions.get(PurePosixPath(file).name, set()))]
    theirs += [file for file in scripts if checks.run(file, mentions.get(PurePosixPath(file).name, set()))]
    return sorted(theirs)[:MOST_KEPT]


def _is_known(file: str, named: Iterable[str]) -> bool:
    """Whether its name decides already: a gate file, or what any change may bring along."""
    if kind_of(file) or matches(file, *DEPENDENCIES):
        return True
    return any(gate_files.is_named(file, word) for word in named)


def _is_program(file: str) -> bool:
    suffix = PurePosixPath(file).suffix
    return suffix in SCRIPTS or suffix in CODE or not suffix


class _Checks:
    """Tells files that check from files that are the work."""

    def __init__(self, named: Collection[str]) -> None:
        self.named = named

    def own_data(self, file: str, named_in: Iterable[str]) -> bool:
        others = [other for other in named_in if other != file]
        if any(self._is_work(other) for other in others):
            return False
        return bool(FIXTURES & {*PurePosixPath(file).parts[:-1]}) or any(self._checks(one) for one in others)

    def run(self, file: str, named_in: Iterable[str]) -> bool:
        return any(other != file and self._is_script(other) for other in named_in)

    def _checks(self, file: str) -> bool:
        return bool(kind_of(file)) or any(gate_files.is_named(file, word) for word in self.named)

    def _is_work(self, file: str) -> bool:
        return PurePosixPath(file).suffix in CODE and not self._checks(file)

    def _is_script(self, file: str) -> bool:
        path = PurePosixPath(file)
        by_name = kind_of(file) in SCRIPTED or path.name in RUN_BY or path.suffix in SCRIPTS
        return by_name or any(gate_files.is_named(file, word) for word in self.named)


def _mentions(repo: Path, base: str, names: Collection[str]) -> Mapping[str, set[str]]:
    """By name, the files of the base that hold it as a word."""
    held: dict[str, set[str]] = {}
    if not names or len(names) > MOST_NAMES:
        return held
    words = [word for name in sorted(names) for word in ("-e", name)]
    listing = commands.run("grep", "-I", "-w", "-o", "-z", "-F", *words, base, cwd=repo).stdout
    for file, name in _rows(listing, base):
        held.setdefault(name, set()).add(file)
    return held


def _rows(listing: str, base: str) -> Iterator[tuple[str, str]]:
    for line in listing.splitlines():
        place, _, name = line.partition("\0")
        if name:
            yield place.removeprefix(f"{base}:"), name
