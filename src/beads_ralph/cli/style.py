"""Whether a person or a script is listening, as the arguments say; known before they are parsed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beads_ralph.cli.answer import Style

_current: list[Style] = ["text"]


def settle_style(arguments: Sequence[str], default: Style = "text") -> Style:
    """`--json` anywhere before `--` asks for the envelope."""
    words = list(arguments)
    words = words[: words.index("--")] if "--" in words else words
    _current[0] = "json" if "--json" in words else default
    if not words or "--help" in words:  # help is for people, whoever asks
        _current[0] = "text"
    return _current[0]


def current_style() -> Style:
    return _current[0]


def can_ask() -> bool:
    """True if a person is there to answer a question."""
    return current_style() == "text" and sys.stdin.isatty() and sys.stderr.isatty()
