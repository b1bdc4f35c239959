"""Every requirement in docs/internals/requirements.md has a test with its id, or a reason why it has none."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
TABLE = PROJECT / "docs" / "internals" / "requirements.md"
ROW = re.compile(r"^\| (S[0-4]-[A-Z]+[0-9]+(?:\.[0-9]+)?) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
SHORTEST_REASON = 10


class Requirement(NamedTuple):
    """One row of the table."""

    id: str
    sentence: str
    held_by: str


def requirements() -> list[Requirement]:
    return [Requirement(*row) for row in ROW.findall(TABLE.read_text(encoding="utf-8"))]


def names_of_tests() -> list[str]:
    """The name of every test function in this project."""
    trees = [ast.parse(path.read_bytes()) for path in sorted((PROJECT / "tests").rglob("test_*.py"))]
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [function.name for function in functions if function.name.startswith("test_")]


def carries(name: str, requirement: str) -> bool:
    """Whether a test's name has the id in it: `s1_fr3_2` for S1-FR3.2, and not as the head of `s1_fr3_21`."""
    wanted = re.sub(r"[-.]", "_", requirement.lower())
    return re.search(rf"(?<![a-z0-9]){wanted}(?![0-9])", name) is not None


def test_the_table_is_read_whole() -> None:
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| S")]
    found = requirements()
    assert len(found) == len(rows) > 0
    assert len({requirement.id for requirement in found}) == len(found)


def test_an_id_is_not_found_in_a_longer_one() -> None:
    assert carries("test_s0_nb1_s0_nb2_patterns", "S0-NB1")
    assert carries("test_s1_fr3_2_names", "S1-FR3.2")
    assert not carries("test_s0_nb10_explicit", "S0-NB1")
    assert not carries("test_s1_fr1_10_missing", "S1-FR1.1")


def test_every_requirement_has_a_test_or_a_reason() -> None:
    names = names_of_tests()
    open_ids = [
        requirement.id
        for requirement in requirements()
        if requirement.held_by == "test" and not any(carries(name, requirement.id) for name in names)
    ]
    assert open_ids == []


def test_every_reason_says_something() -> None:
    short = [row.id for row in requirements() if row.held_by != "test" and len(row.held_by) < SHORTEST_REASON]
    assert short == []
