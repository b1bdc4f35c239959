"""Files that decide what passes: which of them a change touches, and its checks with those of the base."""

from __future__ import annotations

import configparser
import fnmatch
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from beads_ralph.bead.model import Verifier
from beads_ralph.git import commands

CI: Final = (
    ".github/*",
    ".gitlab-ci.yml",
    ".circleci/*",
    ".claude/agents/*",
    ".pre-commit-config.yaml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "beads-ralph.yaml",
)
STEERING: Final = (
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "GEMINI.md",
    ".goosehints",
    ".mcp.json",
    "opencode.json",
    ".claude/*",
    ".codex/*",
    ".gemini/*",
    ".opencode/*",
    ".cursorrules",
    ".cursor/*",
    ".windsurfrules",
    ".windsurf/*",
    ".clinerules*",
    ".aider*",
    ".rules",
    ".github/copilot-instructions.md",
)
"""Files that agent programs read by themselves, a reviewer's too."""
SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "make": ("makefile", "gnumakefile", "*.mk", "*.make"),
    "just": ("justfile", ".justfile", "*.just"),
    "pytest": (
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "pytest.py",
        "_pytest",
        "sitecustomize.py",
        "usercustomize.py",
        "*.pth",
        "*.pyc",
        "unittest.py",
        ".coveragerc",
        "tox.ini",
        "noxfile.py",
    ),
    "npm": (
        ".npmrc",
        ".yarnrc*",
        ".mocharc*",
        "jest.config.*",
        "jest.setup.*",
        "vitest.config.*",
        "vitest.workspace.*",
        "vitest.setup.*",
        "vite.config.*",
        "babel.config.*",
        ".babelrc*",
        "karma.conf.*",
        "playwright.config.*",
        "cypress.config.*",
        "ava.config.*",
    ),
    "cargo": (".cargo/*", "build.rs", "rust-toolchain*", "nextest.toml"),
    "go": ("go.work", "magefile.go"),
    "java": (
        "pom.xml",
        ".mvn/*",
        "mvnw*",
        "build.gradle*",
        "settings.gradle*",
        "gradle.properties",
        "gradlew*",
        "gradle/*",
        "build.xml",
    ),
    "ruby": (".rspec", "rakefile", "spec_helper.rb", "rails_helper.rb", "test_helper.rb"),
    "elixir": ("mix.exs", "test_helper.exs"),
    "shell": (".env", ".envrc", ".bashrc", ".profile", "taskfile.y*ml", ".shellcheckrc"),
}
"""By the programs that read them without being told: their settings, which a check obeys."""
TESTS: Final = (
    "test_*.py",
    "*_test.py",
    "*_test.go",
    "*.test.*",
    "*.spec.*",
    "*_spec.rb",
    "*_test.rb",
    "*Test.java",
    "*Tests.java",
    "*IT.java",
    "*Test.kt",
    "*_test.exs",
    "*_test.rs",
    "*.bats",
)
TEST_FOLDERS: Final = frozenset(
    {"test", "tests", "spec", "specs", "__tests__", "__mocks__", "testdata", "e2e"}
)


SHADOWED: Final = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "coverage", "hypothesis", "xdist"}
"""Modules that a file of the same name at the top of the repository would stand in for."""
MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
MAKE: Final = re.compile(r"(^|[\s;&|])(g?make|bmake)\b")
SOURCED: Final = re.compile(
    r"(?:^|[;&|]|\bthen\b|\bdo\b)\s*(?:\.|source|-?s?include)\s+([^;&|\n#]+)", re.MULTILINE
)
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


def find(
    repo: Path,
    base: str,
    changed: Sequence[str],
    added: Collection[str],
    verifiers: Sequence[Verifier],
    may_change: Sequence[str] = (),
) -> GateChanges:
    """Look through a change. A file that a verifier names and that the base does not have was asked for by
    the tasks, and so was whatever the sprint says may change."""
    told = [file for file in changed if any(_matches(file, one) for one in (*CI, *STEERING))]
    flags = [f"{file} {_what(file)}, and was {_done(file, added)}" for file in told]
    touched: list[str] = []
    gates = _Gates.of(repo, base, verifiers) if verifiers else None
    for file in changed if gates else ():
        reason = gates.reason(file, new=file in added) if gates and file not in told else ""
        if reason and not any(_is_meant(file, pattern) for pattern in may_change):
            flags.append(f"{file} {reason}, and was {_done(file, added)}")
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
    named: frozenset[str]
    sourced: frozenset[str]
    targets: frozenset[str]

    @classmethod
    def of(cls, repo: Path, base: str, verifiers: Sequence[Verifier]) -> _Gates:
        named = frozenset(word for one in verifiers for word in _words(one.command))
        targets = frozenset(
            word for one in verifiers if MAKE.search(one.command) for word in _words(one.command)
        )
        known = _files_of(repo, base)
        sourced = _sourced(repo, base, [file for file in known if _is_script(file, named)])
        return cls(repo, base, known, named, sourced, targets)

    def reason(self, file: str, *, new: bool) -> str:
        """Why the file decides what passes; empty where it does not."""
        if new and PurePosixPath(file).parts[0] in self.targets:
            return "is named like a target of make"
        if new and _stands_in(file):
            return "stands in for a program or a module"
        if any(_is_meant(file, word) for word in self.sourced):
            return "is read by a check"
        if any(_is_meant(file, word) for word in self.named):
            return "" if new else "is named by a verifier"
        kind = _kind(file)
        if kind and (not new or _is_beside(kind, self.known)):
            return "decides what passes"
        return "sets up the checks" if self._sets_up_checks(file, new=new) else ""

    def _sets_up_checks(self, file: str, *, new: bool) -> bool:
        """Whether the change is in the part of the file that checks obey, and there are checks already."""
        if file not in PARTIAL or (new and not _is_beside("pytest", self.known)):
            return False
        return bool(_part(self.repo, self.base, file) != _part(self.repo, "HEAD", file))


def steering(changed: Iterable[str]) -> list[str]:
    """The files among them that would tell a reviewer what to think."""
    return [file for file in changed if any(_matches(file, one) for one in STEERING)]


# --- which files --------------------------------------------------------------------------------------


def _what(file: str) -> str:
    return "steers agents" if any(_matches(file, one) for one in STEERING) else "decides what passes"


def _done(file: str, added: Collection[str]) -> str:
    return "added" if file in added else "changed"


def _stands_in(file: str) -> bool:
    """A module of the standard library or of a test program, at the top of the repository; a program in a
    folder that package managers put on PATH."""
    path = PurePosixPath(file)
    module = path.suffix in (".py", ".pyc", ".so") and path.parts[0].partition(".")[0] in SHADOWED
    program = "bin" in path.parts[:-1] and shutil.which(path.name) is not None
    return module or program or bool({".bin", ".venv", "venv"} & {*path.parts[:-1]})


def _kind(file: str) -> str:
    """The programs that obey the file, `tests` for a test; empty for anything else."""
    path = PurePosixPath(file)
    if any(fnmatch.fnmatch(path.name, one) for one in TESTS) or TEST_FOLDERS & {*path.parts[:-1]}:
        return "tests"
    return next((kind for kind, names in SETTINGS.items() if any(_matches(file, one) for one in names)), "")


def _is_beside(kind: str, known: Collection[str]) -> bool:
    """Whether the base has something that the file joins: the first Makefile or test of a repository is
    work, the second one may outdo the first."""
    joins = {"pytest": ("pytest", "tests"), "npm": ("npm", "tests")}.get(kind, (kind,))
    return any(_kind(file) in joins or (kind in ("pytest", "npm") and file in PARTIAL) for file in known)


def _is_script(file: str, named: Collection[str]) -> bool:
    return any(_is_meant(file, word) for word in named) or _kind(file) in ("make", "just", "shell")


def _sourced(repo: Path, base: str, scripts: Iterable[str]) -> frozenset[str]:
    """The files that scripts take in, whether they are there or not."""
    found: set[str] = set()
    for script in scripts:
        text = commands.run("show", f"{base}:{script}", cwd=repo).stdout[:LONGEST_SCRIPT]
        for words in SOURCED.findall(text):
            found |= {word.strip("\"'").removeprefix("./") for word in words.split()}
    return frozenset(word.rpartition("}")[2].lstrip("/") for word in found) - {""}


def _files_of(repo: Path, commit: str) -> frozenset[str]:
    return frozenset(commands.output("ls-tree", "-r", "-z", "--name-only", commit, cwd=repo).split("\0")) - {
        ""
    }


def _matches(file: str, pattern: str) -> bool:
    """By its name anywhere, or by its path where the pattern has one; make and just know no case."""
    path = PurePosixPath(file)
    if "/" not in pattern:
        return fnmatch.fnmatch(path.name.lower(), pattern.lower()) or pattern in path.parts[:-1]
    return fnmatch.fnmatch(file, pattern) or fnmatch.fnmatch(file, f"*/{pattern}")


# --- settings of checks among others ------------------------------------------------------------------


def _pyproject(text: str) -> Any:
    tools = tomllib.loads(text).get("tool", {})
    return {
        name: tools.get(name)
        for name in ("pytest", "coverage", "tox", "nox", "hatch", "pdm", "poe", "taskipy")
    }


def _ini(text: str) -> Any:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    return {
        name: dict(parser[name]) for name in parser.sections() if not name.startswith(("metadata", "options"))
    }


def _package(text: str) -> Any:
    said = json.loads(text)
    return {
        name: said.get(name) for name in ("scripts", "jest", "vitest", "mocha", "ava", "nyc", "c8", "type")
    }


def _cargo(text: str) -> Any:
    said = tomllib.loads(text)
    return {
        name: said.get(name)
        for name in ("test", "bench", "lib", "bin", "profile", "lints", "patch", "replace")
    }


PARTIAL: Final[Mapping[str, Callable[[str], Any]]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _ini,
    "package.json": _package,
    "Cargo.toml": _cargo,
}


def _part(repo: Path, commit: str, file: str) -> Any:
    """The settings of checks in a file, nothing where there are none; all of it where it cannot be read."""
    text = commands.run("show", f"{commit}:{file}", cwd=repo).stdout
    try:
        said = PARTIAL[file](text) if text else {}
        return {key: value for key, value in said.items() if value}
    except (ValueError, configparser.Error, AttributeError, TypeError):
        return text


# --- what verifiers name ------------------------------------------------------------------------------


def _is_meant(file: str, word: str) -> bool:
    """By its path, by a folder above it, or by a pattern; `cd sub && sh check.sh` means sub/check.sh, and
    `tests.test_a` the module."""
    path, meant = PurePosixPath(file), PurePosixPath(word)
    if MODULE.fullmatch(word) and path.suffix == ".py":
        dotted = ".".join(path.with_suffix("").parts)
        if f"{word}.".startswith(f"{dotted}.") or dotted.startswith(f"{word}."):
            return True
    below = "/" not in word and "." in word and path.name == word
    return path == meant or meant in path.parents or below or fnmatch.fnmatch(file, word)


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
