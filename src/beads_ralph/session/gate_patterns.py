"""Files that decide what passes, by name: what programs obey without being told, tests, and data of tests."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

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


SHADOWED: Final = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "coverage", "hypothesis", "xdist"}
"""Modules that a file of the same name at the top of the repository would stand in for."""


def kind_of(file: str) -> str:
    """The programs that obey the file, `tests` for a test; empty for anything else."""
    path = PurePosixPath(file)
    if any(fnmatch.fnmatch(path.name, one) for one in TESTS) or TEST_FOLDERS & {*path.parts[:-1]}:
        return "tests"
    return next((kind for kind, names in SETTINGS.items() if any(matches(file, one) for one in names)), "")


def matches(file: str, pattern: str) -> bool:
    """By its name anywhere, or by its path where the pattern has one; make and just know no case."""
    path = PurePosixPath(file)
    if "/" not in pattern:
        return fnmatch.fnmatch(path.name.lower(), pattern.lower()) or pattern in path.parts[:-1]
    return fnmatch.fnmatch(file, pattern) or fnmatch.fnmatch(file, f"*/{pattern}")


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
