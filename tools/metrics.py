"""Measure the source: its size, its shape, and what should not be in it.

    make metrics

Prints a Markdown table; `--write` puts it into docs/internals/architecture.md. `--trace` adds what one bead
goes through, see tools/trace_bead.py.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import architecture_page
from tools.architecture_page import PROJECT

PACKAGE: Final = "beads_ralph"
SOURCE: Final = PROJECT / "src" / PACKAGE
BLOCK: Final = "metrics"
RUN: Final = 6
"""As many lines in a row count as copied."""
MOCKS: Final = re.compile(r"^(?:import|from) (?:unittest\.)?mock\b|\bmocker\.", re.MULTILINE)
REPLACED: Final = re.compile(r"\bmonkeypatch\.setattr\(")
BROAD: Final = {"Exception", "BaseException"}

FIRST: Final = {
    "modules": "256",
    "lines": "40,776",
    "loose modules": "45",
    "packages": "17",
    "import layers": "29",
    "import cycles": "0",
    "class names used twice": "36",
    "lines of a function: median, p90, longest": "6, 15, 52",
    "broad excepts, of all handlers": "3 of 222",
    "copied pairs, 6 lines or more": "9",
    "mocks in tests": "0",
    "attributes replaced in tests": "3",
    "rooms that one bead enters": "46",
    "room changes of one bead": "1,040",
    "of these upwards": "51",
    "files that one bead goes through": "107",
}
"""The same numbers for version 0.1.0, before the source was arranged in rooms."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the source."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


def modules(folder: Path = SOURCE) -> list[Module]:
    return [Module(_dotted(path), path) for path in sorted(folder.rglob("*.py"))]


def _dotted(path: Path) -> str:
    parts = (
        path.relative_to(SOURCE.parent).with_suffix("").parts if path.is_relative_to(SOURCE) else (path.stem,)
    )
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- shape --------------------------------------------------------------------------------------------


def loose() -> list[str]:
    """Modules that lie in no room."""
    return sorted(path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__"))


def packages() -> list[str]:
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def layers() -> list[str]:
    """The layers that import-linter holds the source to, the topmost first."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (found,) = [contract["layers"] for contract in contracts if contract.get("containers") == [PACKAGE]]
    return list(found)


def levels() -> dict[str, int]:
    """The layer of every room, counted from the top."""
    named = ((name.strip(" ()"), at) for at, row in enumerate(layers(), 1) for name in re.split("[|:]", row))
    return {name: at for name, at in named if not name.startswith("__")}


def lengths(source: Iterable[Module]) -> list[int]:
    """Lines of every function, decorators left out, the shortest first."""
    return sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in source
        for node in module.nodes
        if isinstance(node, Function)
    )


def handlers(source: Iterable[Module]) -> list[bool]:
    """For every `except`, whether it catches everything."""
    return [
        _is_broad(node.type)
        for module in source
        for node in module.nodes
        if isinstance(node, ast.ExceptHandler)
    ]


def _is_broad(caught: ast.expr | None) -> bool:
    names = {node.id for node in ast.walk(caught) if isinstance(node, ast.Name)} if caught else BROAD
    return bool(names & BROAD)


def class_names_twice(source: Iterable[Module]) -> dict[str, int]:
    """Names that more than one class has, and how many have them."""
    found = Counter(node.name for module in source for node in module.nodes if isinstance(node, ast.ClassDef))
    return {name: count for name, count in sorted(found.items()) if count > 1}


def uses(tests: Iterable[Module], pattern: re.Pattern[str]) -> int:
    return sum(len(pattern.findall(module.text)) for module in tests)


# --- imports ------------------------------------------------------------------------------------------


def cycles(source: list[Module]) -> list[list[str]]:
    """Modules that import one another when they are loaded."""
    names = {module.name for module in source}
    return _knots({module.name: set(_imported(module, names)) for module in source})


def _imported(module: Module, names: set[str]) -> Iterator[str]:
    """What a module imports when it is loaded, each by its longest name."""
    for node in _loaded(module.tree.body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in names else node.module for name in wanted if node.module in names)


def _loaded(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import: not those in functions, nor those for type checkers only."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _loaded([*node.body, *node.orelse])
        elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
            yield from _loaded(node.body)


def _knots(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups whose members all reach one another."""
    reach = {name: _reached(graph, name) for name in graph}
    groups = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


# --- copies -------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Place:
    """Where a run of lines begins; blank lines, comments and imports are not counted in `at`."""

    module: str
    at: int
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}"

    def overlaps(self, other: Place) -> bool:
        return self.module == other.module and abs(self.at - other.at) < RUN


def duplicates(source: Iterable[Module]) -> list[tuple[str, str]]:
    """Pairs of places from which on the same lines follow."""
    places: dict[tuple[str, ...], list[Place]] = {}
    for module in source:
        lines = _telling(module)
        for at in range(len(lines) - RUN + 1):
            run = tuple(text for _, text in lines[at : at + RUN])
            places.setdefault(run, []).append(Place(module.name, at, lines[at][0]))
    pairs = [
        pair for found in places.values() for pair in combinations(found, 2) if not pair[0].overlaps(pair[1])
    ]
    known = {_keys(pair) for pair in pairs}
    return [(str(one), str(two)) for one, two in sorted(pairs) if _keys((one, two), before=1) not in known]


def _keys(pair: tuple[Place, Place], before: int = 0) -> tuple[tuple[str, int], tuple[str, int]]:
    one, two = pair
    return (one.module, one.at - before), (two.module, two.at - before)


def _telling(module: Module) -> list[tuple[int, str]]:
    """The lines with their numbers, without those that say nothing of their own."""
    skipped = {
        number
        for node in module.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = ((number, line.strip()) for number, line in enumerate(module.text.splitlines(), 1))
    return [(n, line) for n, line in lines if line and not line.startswith("#") and n not in skipped]


# --- the table ----------------------------------------------------------------------------------------


def rows() -> dict[str, str]:
    """Everything that is measured by reading, by its name in the table."""
    source, tests = modules(), modules(PROJECT / "tests")
    long, caught = lengths(source), handlers(source)
    return {
        "modules": f"{len(source)}",
        "lines": f"{sum(len(module.text.splitlines()) for module in source):,}",
        "loose modules": f"{len(loose())}",
        "packages": f"{len(packages())}",
        "import layers": f"{len(layers())}",
        "import cycles": f"{len(cycles(source))}",
        "class names used twice": f"{len(class_names_twice(source))}",
        "lines of a function: median, p90, longest": (
            f"{statistics.median_low(long)}, {long[len(long) * 9 // 10]}, {long[-1]}"
        ),
        "broad excepts, of all handlers": f"{sum(caught)} of {len(caught)}",
        f"copied pairs, {RUN} lines or more": f"{len(duplicates(source))}",
        "mocks in tests": f"{uses(tests, MOCKS)}",
        "attributes replaced in tests": f"{uses(tests, REPLACED)}",
    }


def traced() -> dict[str, str]:
    """What one bead goes through; traced in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("trace_bead.py")), "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "rooms that one bead enters": f"{len(found['rooms'])}",
        "room changes of one bead": f"{found['room_changes']:,}",
        "of these upwards": f"{found['upwards']:,}",
        "files that one bead goes through": f"{len(found['files'])}",
    }


def table(measured: Mapping[str, str]) -> str:
    lines = ["| | 0.1.0 | now |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {name} | {FIRST.get(name, '')} | {now} |" for name, now in measured.items())]
    )


def read_table(text: str) -> dict[str, str]:
    """The last column of a table, by the first one."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {row[0]: row[-1] for row in cells}


def details() -> Iterator[str]:
    """What stands behind the numbers that should be nought."""
    source = modules()
    yield from (f"loose: {name}" for name in loose())
    yield from (f"cycle: {' ↔ '.join(names)}" for names in cycles(source))
    yield from (f"twice: class {name} ({count})" for name, count in class_names_twice(source).items())
    yield from (f"copied: {one} = {two}" for one, two in duplicates(source))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the source.")
    parser.add_argument("--trace", action="store_true", help="trace one bead, too")
    parser.add_argument("--details", action="store_true", help="name what is counted")
    parser.add_argument("--write", action="store_true", help="put the table into the architecture page")
    wanted = parser.parse_args()
    found = table({**rows(), **(traced() if wanted.trace else {})})
    if wanted.write:
        architecture_page.put(BLOCK, found)
    print(found)
    if wanted.details:
        print("", *details(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
