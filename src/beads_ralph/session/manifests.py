"""Manifests of projects: the part of each that checks obey, and the libraries that Python's name.

A change brings along much that is in a manifest, such as a version or a dependency. Only the part that says
which tests there are and how they run decides what passes.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from beads_ralph.git import objects, worktree_status

CALL: Final = r"(?im)^\s*(?:{names})\s*\([^)]*\)"
OF_CMAKE: Final = re.compile(
    CALL.format(
        names=r"add_test|enable_testing|set_tests_properties|include\s*\(\s*ctest|\w+_discover_tests|"
        r"\w+_add_tests|add_custom_\w+|add_subdirectory|return|cmake_policy|cmake_language"
    )
)
OF_MESON: Final = re.compile(CALL.format(names=r"test|benchmark|subdir|subdir_done|add_test_setup"))
OF_GO: Final = re.compile(
    r"(?m)^(?:module|replace|exclude|ignore|toolchain|tool|retract)\b(?:[ \t]*\([^)]*\)|.*)"
)
REQUIREMENT: Final = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
MODULES: Final = {
    "pyyaml": ("yaml",),
    "beautifulsoup4": ("bs4",),
    "python-dateutil": ("dateutil",),
    "pillow": ("PIL",),
    "scikit-learn": ("sklearn",),
    "opencv-python": ("cv2",),
    "attrs": ("attr", "attrs"),
    "python-dotenv": ("dotenv",),
    "protobuf": ("google",),
    "pytest-mock": ("pytest_mock",),
    "setuptools": ("setuptools", "pkg_resources"),
}
"""Libraries that are imported by another name than they are installed by."""


# --- what checks obey ---------------------------------------------------------------------------------


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


def _deno(text: str) -> Any:
    said = json.loads(text)
    return {name: said.get(name) for name in ("tasks", "test", "exclude", "unstable", "workspace")}


def _cargo(text: str) -> Any:
    said = tomllib.loads(text)
    package = {key: value for key, value in said.get("package", {}).items() if key.startswith("auto")}
    members = said.get("workspace", {})
    return {
        name: said.get(name)
        for name in ("test", "bench", "lib", "bin", "profile", "lints", "patch", "replace")
    } | {
        "package": package,
        "workspace": {
            key: members[key] for key in ("members", "exclude", "default-members") if key in members
        },
    }


def _matching(pattern: re.Pattern[str]) -> Callable[[str], Any]:
    return lambda text: {"calls": [" ".join(match.group().split()) for match in pattern.finditer(text)]}


PARTIAL: Final[Mapping[str, Callable[[str], Any]]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _ini,
    "package.json": _package,
    "deno.json": _deno,
    "deno.jsonc": _deno,
    "Cargo.toml": _cargo,
    "go.mod": _matching(OF_GO),
    "CMakeLists.txt": _matching(OF_CMAKE),
    "meson.build": _matching(OF_MESON),
}
"""By name, wherever in the repository."""


def is_manifest(file: str) -> bool:
    return PurePosixPath(file).name in PARTIAL


def sets_up_checks(repo: Path, base: str, file: str) -> bool:
    """Whether the part of a manifest that checks obey is another one than at the base."""
    return bool(_part(repo, base, file) != _part(repo, worktree_status.head(repo), file))


def _part(repo: Path, commit: str, file: str) -> Any:
    """The settings of checks in a file, nothing where there are none; all of it where it cannot be read."""
    with objects.of(repo) as reader:
        text = reader.text_of(commit, file)
    try:
        said = PARTIAL[PurePosixPath(file).name](text) if text else {}
        return {key: value for key, value in said.items() if value}
    except (ValueError, configparser.Error, AttributeError, TypeError):
        return text


# --- libraries ----------------------------------------------------------------------------------------


def libraries(repo: Path, base: str, known: Iterable[str]) -> frozenset[str]:
    """The modules of the libraries that a Python project asks for: a file named like one stands in for it."""
    found: set[str] = set()
    with objects.of(repo) as reader:
        for file in known:
            listing = file in LISTS or (file.startswith(("requirements", "constraints")) and "/" not in file)
            read = LISTED.get(PurePosixPath(file).suffix) if listing else None
            with suppress(ValueError, AttributeError, TypeError):
                found |= {*read(reader.text_of(base, file))} if read else set()
    plain = {name.lower().replace("_", "-").replace(".", "-") for name in found}
    return frozenset(module for name in plain for module in MODULES.get(name, (name.replace("-", "_"),)))


def _of_lines(text: str) -> Iterator[str]:
    yield from (match[1] for line in text.splitlines() if (match := REQUIREMENT.match(line)))


def _of_toml(text: str) -> Iterator[str]:
    said = tomllib.loads(text)
    project = said.get("project", {})
    groups = [*project.get("optional-dependencies", {}).values(), *said.get("dependency-groups", {}).values()]
    rows = [*project.get("dependencies", []), *(row for group in groups for row in group)]
    yield from (match[1] for row in rows if isinstance(row, str) and (match := REQUIREMENT.match(row)))
    poetry = said.get("tool", {}).get("poetry", {})
    for part in (poetry, *poetry.get("group", {}).values()):
        yield from (name for name in part.get("dependencies", {}) if name != "python")


def _of_lock(text: str) -> Iterator[str]:
    """The project itself is among them, from a folder."""
    for row in tomllib.loads(text).get("package", []):
        source = row.get("source")
        if not (isinstance(source, dict) and {"editable", "virtual", "directory"} & source.keys()):
            yield row["name"]


LISTED: Final[Mapping[str, Callable[[str], Iterable[str]]]] = {
    ".txt": _of_lines,
    ".toml": _of_toml,
    ".lock": _of_lock,
}
LISTS: Final = ("pyproject.toml", "uv.lock", "poetry.lock", "pdm.lock")
