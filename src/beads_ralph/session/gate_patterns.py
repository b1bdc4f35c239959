"""Files that decide what passes, by name: what programs obey without being told, tests, and data of tests."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

CI: Final = (
    ".github/*",
    ".gitlab-ci.yml",
    ".circleci/*",
    ".claude/agents/*",
    ".beads-ralph/*",
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
        "tox.toml",
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
        "bunfig.toml",
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
    "cmake": ("ctestcustom.*", "cmakepresets.json", "cmakeuserpresets.json"),
    "php": ("phpunit.xml*", "phpunit.dist.xml"),
    "dotnet": ("*.runsettings", "xunit.runner.json", "directory.build.*"),
    "bazel": (".bazelrc",),
    "git": (".gitattributes",),
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
    "*.snap",
    "*.ambr",
    "*.golden",
    "golden.*",
    "*.approved.*",
    "*.expected",
    "expected.*",
    "expected_*",
)
TEST_FOLDERS: Final = frozenset(
    {"test", "tests", "spec", "specs", "__tests__", "__mocks__", "__snapshots__", "testdata", "e2e"}
)


SHADOWED: Final = sys.stdlib_module_names | {
    *("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "coverage"),
    *("hypothesis", "xdist", "execnet", "mock", "nose"),
}
"""Modules that a file of the same name at the top of the repository would stand in for."""


@lru_cache(maxsize=1 << 16)
def kind_of(file: str) -> str:
    """The programs that obey the file, `tests` for a test; empty for anything else."""
    folder, _, name = file.rpartition("/")
    if TEST_NAMES.match(name) or not TEST_FOLDERS.isdisjoint(folder.split("/")):
        return "tests"
    if not matches(file, *ALL_SETTINGS):
        return ""
    return next(kind for kind, names in SETTINGS.items() if matches(file, *names))


def matches(file: str, *patterns: str) -> bool:
    """By its name anywhere, or by its path where a pattern has one; make and just know no case."""
    return _compiled(patterns).matches(file)


@dataclass(frozen=True)
class _PatternSet:
    """Many patterns in few comparisons: a repository has many files."""

    names: re.Pattern[str]
    paths: re.Pattern[str]
    folders: frozenset[str]

    def matches(self, file: str) -> bool:
        folder, _, name = file.rpartition("/")
        if self.names.match(name.lower()) or self.paths.match(file):
            return True
        return bool(folder) and not self.folders.isdisjoint(folder.split("/"))


@lru_cache(maxsize=256)
def _compiled(patterns: Sequence[str]) -> _PatternSet:
    names = [pattern for pattern in patterns if "/" not in pattern]
    paths = [pattern for pattern in patterns if "/" in pattern]
    return _PatternSet(
        _one_of([pattern.lower() for pattern in names]),
        _one_of([*paths, *(f"*/{pattern}" for pattern in paths)]),
        frozenset(names),
    )


def _one_of(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)) or "(?!)")


TEST_NAMES: Final = _one_of(TESTS)
ALL_SETTINGS: Final = tuple(name for names in SETTINGS.values() for name in names)


# --- what checks open ---------------------------------------------------------------------------------

SCRIPTS: Final = (".sh", ".bash", ".zsh", ".ksh", ".bats")
DATA: Final = frozenset(
    (
        *(".json", ".jsonl", ".ndjson", ".json5", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".txt"),
        *(".csv", ".tsv", ".xml", ".dat", ".bin", ".db", ".sqlite", ".out", ".log", ".diff", ".patch"),
        *(".png", ".jpg", ".gif", ".svg", ".pdf", ".wav", ".pem", ".key"),
    )
)
"""Suffixes of what is rather read than run."""
FIXTURES: Final = frozenset(
    {"fixtures", "__fixtures__", "fixture", "golden", "goldens", "snapshots", "cassettes"}
)
"""Folders whose files tests compare with, if tests open them at all."""
DEPENDENCIES: Final = (
    *("requirements*.txt", "constraints*.txt", "*.lock", "*-lock.*", "environment.y*ml", "*.sum"),
    *("package.json", "pyproject.toml", "setup.cfg", "cargo.toml", "tsconfig*.json", "composer.json"),
    *("version", "version.*", "*.gitignore", "manifest.json"),
)
"""What a change of the work brings along with it."""
CODE: Final = frozenset(
    (
        *(".py", ".pyi", ".pyx", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte"),
        *(".go", ".rs", ".java", ".kt", ".scala", ".groovy", ".rb", ".php", ".c", ".h", ".cc"),
        *(".cpp", ".hpp", ".cs", ".swift", ".m", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj"),
        *(".lua", ".pl", ".r", ".jl", ".dart", ".zig", ".nim"),
    )
)


def is_of_checks(file: str) -> bool:
    """Whether its name alone says that it checks something, or sets that up."""
    return bool(kind_of(file)) or is_check(file)


def is_check(path: str) -> bool:
    """Whether people say by its name that it checks something."""
    return CHECKS.search(path) is not None


CHECKS: Final = re.compile(
    r"(^|[/_.-])(checks?|tests?|verify|verifiers?|validate|lint|ci|qa|smoke|e2e)([/_.*-]|$)", re.IGNORECASE
)
