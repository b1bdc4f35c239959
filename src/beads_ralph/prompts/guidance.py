"""Prompt templates: what is told to a developer of a bug fix, of a feature, of documents."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, get_args

from beads_ralph.bead.model import TemplateName

NAMES: Final[tuple[TemplateName, ...]] = get_args(TemplateName)
KEYWORDS: Final[Mapping[TemplateName, str]] = {
    "bug-fix": r"fix(es|ed|ing)?|bugs?(?!-)|repair\w*|debug\w*|regressions?|crash(es|ing)?|broken|hotfix",
    "refactor": r"refactor\w*|restructur\w*|renam\w+|extract\w*|simplif\w+|clean ?up|decoupl\w+",
    "docs": r"document(s|ed|ing|ation)?|docs?|readme|changelog|tutorials?|guides?|manual",
    "script": r"scripts?|scripting|automat(e|es|ing|ion)|shell|makefile|cron",
    "code-review": r"review(s|ed|ing)?|audit(s|ed|ing)?|inspect(s|ing)?",
    "refine": r"refin(e|es|ing|ement)|polish\w*|improv\w+|tun(e|es|ing)|optimi[sz]\w+|speed up",
}
"""Words that tell what a piece of work is; the first of them in a text decides."""
NEW: Final = re.compile(
    r"\b(add|adds|adding|build|builds|implement\w*|creat\w+|introduc\w+|support|supports|write|writes|make|new)\b",
    re.IGNORECASE,
)
"""Weaker: one can also build a script and write a document."""
PATTERNS: Final = {name: re.compile(rf"\b({words})\b", re.IGNORECASE) for name, words in KEYWORDS.items()}


def choose(title: str, tasks: Sequence[str] = ()) -> TemplateName:
    """What the title says; else what the tasks say, the first of them first; else `custom`."""
    for text in (title, *tasks):
        found = [(match.start(), name) for name, one in PATTERNS.items() if (match := one.search(text))]
        if found:
            return min(found)[1]
        if NEW.search(text):
            return "feature"
    return "custom"


def nearest(word: str) -> TemplateName | None:
    """The template that was probably meant."""
    plain = re.sub(r"[\s_]+", "-", word.strip().lower())
    close = difflib.get_close_matches(plain, NAMES, n=1)
    return next((name for name in NAMES if close and name == close[0]), None)


@cache
def guidance(name: TemplateName) -> str:
    """The text itself."""
    place = resources.files(__package__ or "").joinpath("templates", f"{name}.md")
    return place.read_text(encoding="utf-8").strip()
