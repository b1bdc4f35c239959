"""Plain words: the terms of the glossary, and none of the phrases that nobody would say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "beads_ralph"
DOCS = PROJECT / "docs"
PAGES = [PROJECT / "README.md", *sorted(DOCS.rglob("*.md"))]
STILTED = re.compile(
    r"""
    \bMend\b
    | \bmend\ (it|the|that|what|first)\b
    | \bheal\ one\b
    | ,\ be\ it\b
    | \bexclude\ one\ another\b
    | \bdid\ not\ suffice\b
    | \bwhich\ is\ no\ more\b
    | \bis\ no\ (date|array|object|variable|condition|wisp|macro|regular|sprint|worktree|number)\b
    | \bKnown\ are\b
    | \bgoes\ first\b
    | \bis\ closed\ in\ by\b
    | \ball\ the\ same:
    | \bcompiled\ all\ the\ same\b
    | \bknows\ no\ user\b
    """,
    re.VERBOSE,
)
"""Read as translated; house style says it in the usual words."""
KEPT = {"decisions.md", "requirements.md", "architecture.md"}
"""Pages for those who work on the source."""


def told(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that people may read: all but its docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_messages_are_in_plain_words() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in told(path)
        if STILTED.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_are_in_plain_words(path: Path) -> None:
    if path.name in KEPT:
        return
    found = [line for line in path.read_text("utf-8").splitlines() if STILTED.search(line)]
    assert found == []


def test_the_glossary_has_each_word_once_in_order() -> None:
    page = (DOCS / "reference" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| ([^|]+?) \| ", page, flags=re.MULTILINE)[1:]
    assert words == sorted(set(words), key=str.lower)
