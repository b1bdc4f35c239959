"""The matcher of patterns: Go's language, and no pattern that takes for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.formula import expressions

LETTERS = "ab-1\n"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "", True),
        ("b", "abc", True),
        ("^b", "abc", False),
        (r"^\d+[a-z]*\.\d+[a-z]*$", "12ab.3c", True),
        (r"^\d+[a-z]*\.\d+[a-z]*$", "12", False),
        (r"^\d$", "٣", False),
        (r"^\pN$", "٣", True),
        (r"^\p{Lu}\P{Lu}\PL$", "Äx1", True),
        ("^a$", "a\n", False),
        ("(?m)^a$", "b\na\nb", True),
        ("^a.c$", "a\nc", False),
        ("(?s)^a.c$", "a\nc", True),
        ("(?i)^straße$", "STRAßE", True),
        ("(?i:a)b", "Ab", True),
        ("(?i:a)b", "AB", False),
        ("^(?i)a|B$", "b", True),
        ("a(?-i)b", "ab", True),
        (r"^\Qa.b*\E+$", "a.b***", True),
        (r"^\Qa.b*\E+$", "aXb*", False),
        ("^[[:alpha:]_-]+$", "ab_-", True),
        ("^[[:^alpha:]]+$", "12", True),
        ("^[]a]+$", "]a", True),
        ("^[^]a]+$", "b", True),
        (r"^[\w.]+$", "a.b_1", True),
        (r"^[^\d\s]+$", "a 1", False),
        (r"^\x41\x{42}\t$", "AB\t", True),
        ("^a{2}$", "aa", True),
        ("^a{2,}$", "a", False),
        ("^a{0,2}$", "aaa", False),
        (r"\bword\b", "a word.", True),
        (r"\bword\b", "swords", False),
        (r"\Bord\B", "swords", True),
        (r"\Aa\z", "a", True),
        ("^(?:a|b)*?c+$", "abac", True),
        ("^(?P<one>a)(?<two>b)$", "ab", True),
        ("P<x>", "P<x>", True),
        ("^(a|)*$", "aa", True),
        ("^()$", "", True),
        ("^$", "x", False),
        ("|x", "", True),
    ],
)
def test_what_matches(pattern: str, text: str, *, found: bool) -> None:
    assert expressions.pattern_fault(pattern) is None
    assert (expressions.pattern_refusal(pattern, text) is None) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "{2}a", "(", ")", "a)", "[a", "[", "*a", "a|*", "(?=x)", "(?!x)", "(?<=x)", "(?<!x)",
        "(?>x)", "(?#x)",
        r"(a)\1", r"\9", r"\k", r"\y", "\\", "a{3,2}", "[b-a]",
        r"\p{Nope}", r"\p{", "(?P<1>a)", "(?P<n>a)(?P<n>b)", "(?P<n", "(?i", r"\x{110000}", r"\xZZ",
        r"[a-\d]",
        "a" * 2001, "((a{100}){100}){100}",
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    assert expressions.pattern_fault(pattern)
    assert expressions.pattern_refusal(pattern, "x")


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """Python's own matcher would not be done in this universe's time; the time limit of tests holds it."""
    assert expressions.pattern_refusal(pattern, "a" * 5000 + "!")


def test_a_long_value_is_matched_all_the_same() -> None:
    assert expressions.pattern_refusal("^(a{30}){30}$", "a" * 1_000_000)
    assert expressions.pattern_refusal("^(a{30})*$", "a" * 900_000) is None


def test_a_pattern_that_cannot_be_used_is_told_in_words() -> None:
    assert (
        expressions.pattern_fault("(?=x)y")
        == "look-around, including look-ahead and look-behind, is not supported"
    )
    assert (
        expressions.pattern_fault("((a{100}){100}){100}")
        == "Compiled regex exceeds size limit of 10485760 bytes."
    )


# --- against Python, where both mean the same -------------------------------------------------------


def _patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["a", "b", "-", "1", ".", "[ab]", "[^a]", "[a-b1]", r"\n", r"\A", r"\b", "(?:)"])
    signs = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        groups = inner.map(lambda text: f"(?:{text})")
        return st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(groups, signs).map("".join),
            st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        )

    return st.recursive(atoms, larger, max_leaves=6)


@given(_patterns(), st.text(LETTERS, max_size=8), st.booleans())
def test_it_finds_what_python_finds(pattern: str, text: str, whole: bool) -> None:
    said = rf"\A(?:{pattern})" if whole else pattern
    theirs = re.search(said + (r"\Z" if whole else ""), text) is not None
    assert (expressions.pattern_refusal(said + (r"\z" if whole else ""), text) is None) is theirs


@given(st.text(r"ab\()[]{}|*+?^$.:-,19dwpPQExzi<>=!", max_size=14), st.text(LETTERS, max_size=6))
def test_any_text_is_a_pattern_or_told_to_be_none(pattern: str, text: str) -> None:
    refused = expressions.pattern_refusal(pattern, text)
    if expressions.pattern_fault(pattern) is not None:
        assert refused
