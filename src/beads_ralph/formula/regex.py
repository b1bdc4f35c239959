"""The patterns that variables may have."""

from __future__ import annotations

import re


def fault(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as problem:
        return str(problem)
    return None


def refusal(pattern: str, text: str) -> str | None:
    if re.search(pattern, text):
        return None
    return f"must match {pattern}"
