"""Files that decide what passes: which of them a change touches, and its checks with those of the base."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from beads_ralph.bead.model import Verifier
from beads_ralph.git import commands, objects
from beads_ralph.session import ignored_files, manifests
from beads_ralph.session.gate_patterns import (
    CI,
    SCRIPTS,
    SHADOWED,
    STEERING,
    is_check,
    is_of_checks,
    kind_of,
    matches,
)

MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
MAKE: Final = re.compile(r"(^|[\s;&|])(g?make|bmake)\b")
SOURCED: Final = re.compile(
    r"(?:^|[;&|]|\bthen\b|\bdo\b)\s*(?:\.|source|-?s?include)\s+([^;&|\n#]+)", re.MULTILINE
)
PLUGIN: Final = re.compile(r"(?:^|[\s'\"=,\[])-p[\s=]*['\",]*\s*([A-Za-z_][\w.]*)(?![\w:])")
NAMED_PLUGINS: Final = re.compile(r"^pytest_plugins\s*(?::[^=\n]+)?=\s*([\[(][^\])]*[\])]|.*)", re.MULTILINE)
PYTEST: Final = re.compile(r"\bpy\.?test\b")
PYTEST_FILES: Final = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml")
NAMED: Final = "is named by a verifier"
LONGEST_SCRIPT: Final = 256 * 1024


@dataclass(frozen=True)
class GateChanges:
    """What a change touched of all that decides whether it passes."""

    flags: tuple[str, ...] = ()
    """For whoever judges the work."""
    restored: tuple[str, ...] = ()
    """Files of the base that the change edited or removed."""
    removed: tuple[str, ...] = ()
    """Files that the change added beside those of the base."""

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.restored, *self.removed)


@dataclass(frozen=True)
class Allowed:
    """What of the gate files the plan lets a change touch."""

    patterns: Sequence[str] = ()
    """What the sprint declares (`**May Change**`)."""
    tasks: str = ""
    """The words of the plan: data that they name may be the work itself."""

    def covers(self, file: str) -> bool:
        return any(_is_meant(file, pattern) for pattern in self.patterns)

    def names(self, file: str) -> bool:
        return re.search(rf"(?<![\w-]){re.escape(PurePosixPath(file).name)}(?![\w-])", self.tasks) is not None


def find(
    repo: Path,
    base: str,
    changed: Sequence[str],
    added: Collection[str],
    verifiers: Sequence[Verifier],
    allowed: Allowed | None = None,
    read: Collection[str] = (),
) -> GateChanges:
    """Look through a change. A file that a verifier names and that the base does not have was asked for by
    the tasks, and so was whatever the sprint says may change. `read` are files of the base that checks were
    seen to open, and that are theirs."""
    may = allowed or Allowed()
    told = [file for file in changed if matches(file, *CI, *STEERING)]
    flags = [f"{file} {_what(file)}, and was {_done(file, added)}" for file in told]
    touched: list[str] = []
    gates = _Gates.of(repo, base, added, verifiers) if verifiers else None
    for file in changed if gates else ():
        reason = gates.reason(file, new=file in added) if gates and file not in told else ""
        of_checks = not reason and file in read
        reason = "belongs to a check, which opened it" if of_checks else reason
        if not reason or may.covers(file):
            continue
        flags.append(f"{file} {reason}, and was {_done(file, added)}")
        may_be_work = of_checks or (reason == NAMED and not is_of_checks(file))
        if not (may_be_work and may.names(file)):
            touched.append(file)
    return GateChanges(
        tuple(flags),
        tuple(file for file in touched if file not in added),
        tuple(file for file in touched if file in added),
    )


@dataclass(frozen=True)
class _Gates:
    """What decides about a change: words of verifiers, what scripts take in, and the files of the base."""

    repo: Path
    base: str
    known: frozenset[str]
    added: frozenset[str]
    named: frozenset[str]
    """Files, modules and patterns that verifiers name, and that there is something for at the base."""
    asked: frozenset[str]
    """Those that there was nothing for: the work is to bring it."""
    sourced: frozenset[str]
    plugins: frozenset[str]
    targets: frozenset[str]
    libraries: frozenset[str]
    """Modules that the base asks for and has not."""
    ignored: frozenset[str]
    """New files that the base tells git to ignore."""

    @classmethod
    def of(cls, repo: Path, base: str, added: Collection[str], verifiers: Sequence[Verifier]) -> _Gates:
        lines = [one.command for one in verifiers]
        words = named_by(verifiers)
        known = files_of(repo, base)
        named = frozenset(word for word in words if any(_is_meant(file, word) for file in known))
        return cls(
            repo,
            base,
            known,
            frozenset(added),
            named,
            words - named,
            _sourced(repo, base, [file for file in known if _is_script(file, named)]),
            _plugins(repo, base, known, lines),
            frozenset(word for one in lines if MAKE.search(one) for word in _words(one)),
            _libraries(repo, base, known) if any(map(_is_importable, added)) else frozenset(),
            ignored_files.among(added, repo, base, known),
        )

    def reason(self, file: str, *, new: bool) -> str:
        """Why the file decides what passes; empty where it does not."""
        if why := self._takes_over(file, new=new):
            return why
        if new and any(_is_meant(file, word) for word in self.asked):
            return ""
        if any(is_named(file, word) for word in self.named):
            return NAMED if not new and _may_be_check(file) else ""
        kind = kind_of(file)
        if kind and (not new or _is_beside(kind, self.known)):
            return "decides what passes"
        if any(_is_listed(file, word) for word in self.named):
            return "is one of the checks that a verifier names"
        return "sets up the checks" if self._sets_up_checks(file, new=new) else ""

    def _takes_over(self, file: str, *, new: bool) -> str:
        """Why a check would take it in, or take it for something else."""
        if new and PurePosixPath(file).parts[0] in self.targets:
            return "is named like a target of make"
        if new and (_stands_in(file) or (_top(file) in self.libraries and _is_importable(file))):
            return "stands in for a program or a module"
        if file in self.ignored:
            return "is one that git is told to ignore"
        if self._swaps(file, new=new):
            return "has to do with a folder in place of a file"
        if any(is_named(file, word) or fnmatch.fnmatch(file, word) for word in self.sourced):
            return "is read by a check"
        return "is a plugin of the tests" if any(_is_module(file, name) for name in self.plugins) else ""

    def _swaps(self, file: str, *, new: bool) -> bool:
        """A file gave way to a folder of its name, so that whoever names it gets something else."""
        if new:
            return any(str(parent) in self.known for parent in PurePosixPath(file).parents)
        return any(other.startswith(f"{file}/") for other in self.added)

    def _sets_up_checks(self, file: str, *, new: bool) -> bool:
        """Whether the change is in the part of the file that checks obey, and there are checks already."""
        if not manifests.is_manifest(file) or (new and not _is_beside("pytest", self.known)):
            return False
        return manifests.sets_up_checks(self.repo, self.base, file)


def steering(changed: Iterable[str]) -> list[str]:
    """The files among them that would tell a reviewer what to think."""
    return [file for file in changed if matches(file, *STEERING)]


# --- which files --------------------------------------------------------------------------------------


def misleads(tree: Path, file: str) -> bool:
    """Whether Python's and JavaScript's test programs would go by a file or folder that is in no commit. A
    build makes makefiles and the like; nothing honest makes these."""
    path = PurePosixPath(file)
    module = path.suffix in (".py", ".pyc", ".so") or any((tree / path).glob("__init__.*"))
    shadows = len(path.parts) == 1 and module and path.name.partition(".")[0] in SHADOWED
    return shadows or kind_of(path.name) in ("pytest", "npm")


def _what(file: str) -> str:
    return "steers agents" if matches(file, *STEERING) else "decides what passes"


def _done(file: str, added: Collection[str]) -> str:
    return "added" if file in added else "changed"


def _libraries(repo: Path, base: str, known: Collection[str]) -> frozenset[str]:
    return manifests.libraries(repo, base, known) - {_top(file) for file in known}


def _top(file: str) -> str:
    """The module that a file would be, or be a part of, at the top of the repository."""
    return PurePosixPath(file).parts[0].partition(".")[0]


def _is_importable(file: str) -> bool:
    return PurePosixPath(file).suffix in (".py", ".pyc", ".so")


def _stands_in(file: str) -> bool:
    """A module of the standard library or of a test program, at the top of the repository; a program in a
    folder that package managers put on PATH."""
    path = PurePosixPath(file)
    module = _is_importable(file) and _top(file) in SHADOWED
    program = "bin" in path.parts[:-1] and shutil.which(path.name) is not None
    return module or program or bool({".bin", ".venv", "venv"} & {*path.parts[:-1]})


def _may_be_check(file: str) -> bool:
    """Whether a file that a verifier names is its own. What `grep -q done notes.txt` and `python app.py` name
    is the work itself."""
    return is_of_checks(file) or PurePosixPath(file).suffix in (*SCRIPTS, "")


def _is_beside(kind: str, known: Collection[str]) -> bool:
    """Whether the base has something that the file joins: the first Makefile or test of a repository is
    work, the second one may outdo the first."""
    if kind == "git":
        return True
    joins = {"pytest": ("pytest", "tests"), "npm": ("npm", "tests")}.get(kind, (kind,))
    return any(
        kind_of(file) in joins or (kind in ("pytest", "npm") and manifests.is_manifest(file))
        for file in known
    )


def _is_script(file: str, named: Collection[str]) -> bool:
    """Whether a shell or make reads it, for a check; only there do words like `. lib.sh` mean a file."""
    if kind_of(file) in ("make", "just", "shell"):
        return True
    is_shell = PurePosixPath(file).suffix in (*SCRIPTS, "")
    return is_shell and any(_is_meant(file, word) for word in named)


def _sourced(repo: Path, base: str, scripts: Iterable[str]) -> frozenset[str]:
    """The files that scripts take in, whether they are there or not."""
    found: set[str] = set()
    for script in scripts:
        text = _text(repo, base, script)
        for words in SOURCED.findall(text):
            found |= {word.removeprefix("./") for word in _split(words)}
    return frozenset(word.rpartition("}")[2].lstrip("/") for word in found) - {""}


def _split(words: str) -> list[str]:
    """As a shell does, names with blanks included."""
    try:
        return shlex.split(words)
    except ValueError:
        return [word.strip("\"'") for word in words.split()]


def _text(repo: Path, commit: str, file: str) -> str:
    with objects.of(repo) as reader:
        return reader.text_of(commit, file)[:LONGEST_SCRIPT]


def _saying(repo: Path, commit: str, pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The files of these names that hold the pattern."""
    places = (f":(glob)**/{name}" for name in names)
    listing = commands.run(
        "grep", "-l", "-I", "-z", "-E", "-e", pattern, commit, "--", *places, cwd=repo
    ).stdout
    return frozenset(place.removeprefix(f"{commit}:") for place in listing.split("\0") if place)


@lru_cache(maxsize=8)
def files_of(repo: Path, commit: str) -> frozenset[str]:
    """The names of a commit's files; asked for several times in an attempt."""
    with objects.of(repo) as reader:
        return frozenset(reader.files(commit))


# --- what verifiers name ------------------------------------------------------------------------------


def _is_meant(file: str, word: str) -> bool:
    """By its path, by a folder above it, or by a pattern."""
    plain = _plain(word)
    if is_named(file, word) or plain == "." or file.startswith(f"{plain}/"):
        return True
    return any(char in word for char in "*?[") and fnmatch.fnmatch(file, word)


@lru_cache(maxsize=4096)
def _plain(word: str) -> str:
    return str(PurePosixPath(word))


def is_named(file: str, word: str) -> bool:
    """By its own path; `cd sub && sh check.sh` means sub/check.sh, and `tests.test_a.Case` the module."""
    if file.endswith(".py") and "." in word and MODULE.fullmatch(word):
        dotted = file.removesuffix(".py").replace("/", ".")
        if f"{word}.".startswith(f"{dotted}.") or dotted.startswith(f"{word}."):
            return True
    below = "/" not in word and "." in word and file.endswith(f"/{word}")
    return file == _plain(word) or below


def _is_listed(file: str, word: str) -> bool:
    """One of several checks that a command names by a pattern or by their folder. `mypy src` and
    `ruff check lib/*.py` name the work itself."""
    if not _is_meant(file, word):
        return False
    by_pattern = any(char in word for char in "*?[")
    return is_check(word) or (by_pattern and PurePosixPath(file).suffix in SCRIPTS)


def _is_module(file: str, name: str) -> bool:
    """The module, or a part of the package, wherever the path to it begins."""
    path = PurePosixPath(file)
    return path.suffix == ".py" and f".{name}." in f".{'.'.join(path.with_suffix('').parts)}."


def _plugins(repo: Path, base: str, known: Iterable[str], lines: Iterable[str]) -> frozenset[str]:
    """The modules that pytest is told to load, by a command or by the settings of the base."""
    texts = [command for command in lines if PYTEST.search(command)]
    places = [file for file in known if file.rpartition("/")[2] in PYTEST_FILES]
    told = _saying(repo, base, r"pytest_plugins|-p", PYTEST_FILES) if places else frozenset()
    texts += [_text(repo, base, file) for file in told.intersection(places)]
    found = {name for text in texts for name in PLUGIN.findall(text)}
    lists = (said for text in texts for said in NAMED_PLUGINS.findall(text))
    return frozenset(found | {name for said in lists for name in re.findall(r"['\"]([\w.]+)['\"]", said)})


def named_by(verifiers: Iterable[Verifier]) -> frozenset[str]:
    """The words of their commands that may be paths."""
    return frozenset(word for one in verifiers for word in _words(one.command))


def _words(command: str) -> set[str]:
    """The words of a command that may be paths, those within quotes too; `tests/test_x.py::test_y` names
    the file before `::`, and `--config=ci/lint.ini` the one behind `=`."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        words = command.split()
    inner = {part for word in words if len(word.split()) > 1 for part in _words(word)}
    bare = {word.rpartition("=")[2].partition("::")[0].removeprefix("./") for word in words}
    return inner | {word for word in bare if word.strip("./*") and not word.startswith("-")}
