"""Instructions outside of the tree that agent programs obey: those of a reviewer must be the user's.

They lie in the home, and in every folder above the one that the program works in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.files.snapshot import Snapshot
from beads_ralph.session.gate_patterns import STEERING

IN_HOME: Final = (
    *(".claude/*.md", ".claude/settings*.json", ".claude/agents/*", ".claude/commands/*", ".claude/rules/*"),
    *(".claude/skills/*/*", ".claude/output-styles/*", ".codex/*.md", ".codex/prompts/*", ".gemini/*.md"),
    *(".config/opencode/*.md", ".config/opencode/agent/*", ".config/goose/.goosehints", ".qwen/*.md"),
    *(".copilot/*.md", ".cursor/rules/*", ".aider*"),
)
"""Not what programs write to by themselves, such as .claude.json and .codex/config.toml."""
NOTHING: Final = "{}\n"


@dataclass(frozen=True)
class Instructions:
    """Those of the agents' home as they were when the run began."""

    home: Path | None
    began: int
    before: Snapshot

    @classmethod
    def taken(cls, home: Path | None, began: int) -> Instructions:
        return cls(home, began, Snapshot.of(_in_home(home)))

    def changed(self, checkout: Path) -> list[str]:
        """What a program that works in the checkout would obey, and that came or was changed since."""
        return [*self.before.changed(_in_home(self.home)), *_above(checkout, self.began)]


def _in_home(home: Path | None) -> list[str]:
    found = (path for pattern in IN_HOME for path in home.glob(pattern)) if home else ()
    return sorted(str(path) for path in found if path.is_file() and _says_something(path))


def _says_something(path: Path) -> bool:
    """Not an empty file, such as a sandbox makes so that nobody else can."""
    try:
        return path.stat().st_size > len(NOTHING) or path.read_text("utf-8") not in ("", NOTHING)
    except (OSError, UnicodeDecodeError):
        return True


def _above(checkout: Path, moment: int) -> Iterator[str]:
    for folder in checkout.parents:
        for path in (path for pattern in STEERING for path in folder.glob(pattern)):
            if path.is_file() and path.lstat().st_ctime_ns > moment:
                yield str(path)
