"""Findings: what a check or a reviewer holds against the work, open until a later verdict settles it.

A check's finding is settled when that check passes on a later commit, a reviewer's when that reviewer passes.
An attempt that never comes so far, since its agent crashed or an earlier check failed, settles nothing of
theirs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.json_fields import Argument

PLACE: Final = re.compile(r"(?<![\w./-])(?P<file>[\w.-]+(?:/[\w.-]+)*\.\w+):(?P<line>\d{1,7})(?!\w)")
"""`src/app.py:12`, as reviewers are asked to name it."""
CALLER: Final = "dev agent"
"""Whose finding it is that a call came to nothing: of interest to the next attempt alone."""
BRANCH: Final = "branch"
"""Whose finding it is that the branch holds nothing that could be checked."""
SHOWN_COMMIT: Final = 12

Source = tuple[str, str, int]
"""Kind and name of a check, and which of that name it is: two reviewers may play the same persona."""


@dataclass(frozen=True)
class Finding:
    """One thing that somebody found, as they said it."""

    by: str
    """The check or the reviewer."""
    kind: str
    """That of the check: `verifier`, `qa`, `merge` or `git`."""
    attempt: int
    words: str
    commit: Argument = ""
    number: int = 1
    """Which of the checks of that name it is."""
    command: str = ""
    """Of a verifier; for a reviewer, the program that played it."""
    output: str = ""
    """The end of what the check printed."""
    file: str = ""
    line: int | None = None

    @property
    def source(self) -> Source:
        return self.kind, self.by, self.number

    @property
    def text(self) -> str:
        """As a developer is told of it."""
        on = f", commit {self.commit[:SHOWN_COMMIT]}" if self.commit else ""
        head = f"{self.by} (attempt {self.attempt}{on}): {self.words}"
        return f"{head}\n{self.output}" if self.output else head


def open_after(before: Sequence[Finding], verdict: Verdict, attempt: int) -> list[Finding]:
    """The findings that are open after a verdict, oldest first."""
    if verdict.ruling == "pass":
        return []
    rows = list(_numbered(verdict.evidence))
    new = [_finding(row, number, attempt) for row, number in rows if row.ruling != "pass"]
    reached = _Reached.of(rows)
    again = {(one.source, one.words) for one in new}
    kept = [one for one in before if not reached.settles(one) and (one.source, one.words) not in again]
    return [*kept, *new]


def still_asked(
    found: Sequence[Finding], commands: Collection[str], reviewers: Sequence[str]
) -> list[Finding]:
    """Those whose check or reviewer the bead still has: a plan may have been edited since."""
    seats = Counter(reviewers)
    return [
        one
        for one in found
        if (one.kind != "verifier" or not one.command or one.command in commands)
        and (one.kind != "qa" or one.number <= seats[one.by])
    ]


@dataclass(frozen=True)
class _Reached:
    """How far an attempt came, and so what its verdict settles."""

    passed: Collection[Source]
    failed: Collection[Source]
    checked: bool
    """Checks ran, so there is something on the branch."""
    reviewed: bool
    """Reviewers were asked, which happens only where every other check has passed."""

    @classmethod
    def of(cls, rows: Sequence[tuple[Evidence, int]]) -> _Reached:
        return cls(
            {(row.kind, row.name, number) for row, number in rows if row.ruling == "pass"},
            {(row.kind, row.name, number) for row, number in rows if row.ruling != "pass"},
            any(row.kind != "git" for row, _ in rows),
            any(row.kind == "qa" for row, _ in rows),
        )

    def settles(self, one: Finding) -> bool:
        if one.kind == "qa":
            return one.source in self.passed  # another complaint does not take the first one back
        if one.kind == "git" and (one.by == CALLER or (one.by == BRANCH and self.checked)):
            return True
        return self.reviewed or one.source in self.passed or one.source in self.failed


def _numbered(rows: Sequence[Evidence]) -> Iterator[tuple[Evidence, int]]:
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        seen[row.kind, row.name] += 1
        yield row, seen[row.kind, row.name]


def _finding(row: Evidence, number: int, attempt: int) -> Finding:
    file, line = _place(row.message, row.details)
    return Finding(
        row.name, row.kind, attempt, row.message, row.commit, number, row.command, row.output_tail, file, line
    )


def _place(words: str, details: Mapping[str, Any]) -> tuple[str, int | None]:
    """The file and line that the answer names; else the first that its words do."""
    file, line = details.get("file"), details.get("line")
    if isinstance(file, str) and file:
        return file, line if isinstance(line, int) and not isinstance(line, bool) else None
    named = PLACE.search(words)
    return (named["file"], int(named["line"])) if named else ("", None)
