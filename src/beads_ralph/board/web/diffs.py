"""The work of a bead as files and hunks: what its own commits changed, without what was merged before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from beads_ralph.git import commands

HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
WORDS: Final = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--no-prefix"),
    *("--diff-algorithm=histogram", "--ignore-submodules=none"),
)
MOST_LINES: Final = 1500
"""Of one file; a longer one is cut, and says so."""
MOST_FILES: Final = 300
LONGEST_LINE: Final = 1000


@dataclass
class FileDiff:
    """The changes of one file."""

    path: str
    old_path: str = ""
    binary: bool = False
    added: int = 0
    removed: int = 0
    cut: bool = False
    hunks: list[dict[str, Any]] = field(default_factory=list)
    _lines: int = 0

    def begin(self, header: str) -> tuple[int, int]:
        """A hunk; the line numbers that it begins with, of before and of now."""
        found = HUNK.match(header)
        self.hunks.append({"header": header, "lines": []})
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def take(self, sign: str, text: str, before: int, now: int) -> None:
        self.added += sign == "+"
        self.removed += sign == "-"
        self._lines += 1
        if self._lines > MOST_LINES:
            self.cut = True
            return
        numbers = {"old": before if sign != "+" else None, "new": now if sign != "-" else None}
        self.hunks[-1]["lines"].append({"sign": sign, "text": text[:LONGEST_LINE], **numbers})

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}


def of_commit(repo: Path, commit: str, known: Sequence[str]) -> dict[str, Any] | None:
    """What the commits up to this one changed that are in none of the `known` refs; None where none is."""
    there = [one for ref in known if (one := commands.commit_of(ref, repo))]
    own = commands.run("rev-list", "--first-parent", "--no-merges", commit, "--not", *there, "--", cwd=repo)
    found = own.stdout.split() if own.ok else []
    if not found:
        return None
    ended = commands.run(*WORDS, "--end-of-options", f"{found[-1]}^", commit, "--", cwd=repo)
    if not ended.ok:
        return None
    files = list(parsed(ended.stdout))
    return {
        "commit": commit,
        "commits": len(found),
        "added": sum(file.added for file in files),
        "removed": sum(file.removed for file in files),
        "files": [file.to_json() for file in files[:MOST_FILES]],
        "files_left_out": max(len(files) - MOST_FILES, 0),
    }


def parsed(text: str) -> Iterator[FileDiff]:
    """A unified diff, file by file."""
    file: FileDiff | None = None
    before = now = 0
    for line in text.split("\n"):
        if line.startswith("diff --git "):
            if file is not None:
                yield file
            file = FileDiff(_name(line))
        elif file is None:
            continue
        elif line.startswith("@@ ") and HUNK.match(line):
            before, now = file.begin(line)
        elif file.hunks and line[:1] in ("+", "-", " "):
            file.take(line[0], line[1:], before, now)
            before, now = before + (line[0] != "+"), now + (line[0] != "-")
        elif not file.hunks:
            _heading(file, line)
    if file is not None:
        yield file


def _heading(file: FileDiff, line: str) -> None:
    """The lines between a file's name and its first hunk."""
    if line.startswith("rename from "):
        file.old_path = line.removeprefix("rename from ")
    elif line.startswith(("rename to ", "+++ ")) and not line.endswith("/dev/null"):
        file.path = line.split(" ", 2 if line.startswith("rename") else 1)[-1].rstrip("\t")
    elif line.startswith("--- ") and not line.endswith("/dev/null"):
        file.path = line.removeprefix("--- ").rstrip("\t")
    elif line.startswith("Binary files "):
        file.binary = True


def _name(line: str) -> str:
    """`diff --git src/a.py src/a.py`: the second half, until a better line comes."""
    names = line.removeprefix("diff --git ")
    return names[len(names) // 2 + 1 :] or names
