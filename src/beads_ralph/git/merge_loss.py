"""Which changes of a merged side are not in the merged tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal

from beads_ralph.git import commands, objects
from beads_ralph.git.objects import TreeEntry

Kind = Literal["dropped", "rewritten", "returned", "missing", "undeleted", "rename", "mode", "content"]

MAX_LINES: Final = 20
MAX_WIDTH: Final = 200
MAX_COMPARED: Final = 100
SIMILAR: Final = 0.6
REGULAR: Final = ("100644", "100755")
HUNK: Final = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# Whatever the user's settings, the same diff: white space (line ends too) is no change of substance.
DIFF: Final = (
    "diff", "-U0", "-w", "--text", "--no-color", "--no-ext-diff", "--no-textconv", "--no-indent-heuristic",
    "--diff-algorithm=histogram", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
RAW: Final = (
    "diff",
    "--raw",
    "-z",
    "--no-abbrev",
    "-M",
    "-l2000",
    "--no-ext-diff",
    "--ignore-submodules=none",
)


@dataclass(frozen=True)
class LostHunk:
    """A change of a merged side that the merged tree does not hold.

    kind: `dropped` (lines the side added are gone), `rewritten` (they are gone, but lines like them stand
    in their place: look whether that was meant), `returned` (lines the side removed are back), `missing`
    (a file the side added or changed), `undeleted` (a file it deleted), `rename` (undone), `mode`,
    `content` (a binary file, link or submodule that is not the side's).
    """

    file: str
    kind: Kind
    first_line: int = 0
    """Lines of the side's file; of the base's file for `returned`; 0 where lines say nothing."""
    last_line: int = 0
    lines: tuple[str, ...] = ()
    """What was lost, at most 20 lines of at most 200 characters."""
    lost: int = 0
    total: int = 0
    """Of so many essential lines in this hunk so many were lost."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.first_line}-{self.last_line}" if self.first_line else self.file
        return f"{place}: {self.kind}" + (f" ({self.lost} of {self.total} lines)" if self.total else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "kind": self.kind,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "lines": list(self.lines),
            "lost": self.lost,
            "total": self.total,
        }


def lost_changes(
    repo_root: Path, base: str, side: str, merged: str, others: Sequence[str] = ()
) -> list[LostHunk]:
    """The changes from `base` to `side` that did not survive in `merged`; `base` is their merge base.

    The rule, for a file that the side changed and whose merged version is not the side's own:

    - The side's added lines, in paragraphs (runs without a blank line). Lines that the side only moved are
      no additions. Only essential lines count: those with a letter or digit, or all that are not blank
      where none has one. A line survives when `git diff -w side merged` leaves it in place, or when that
      diff adds the same text elsewhere in the file (moved; each such line excuses one). A paragraph is
      lost when more than half of its essential lines do not survive. It is `rewritten` when most of the
      lost lines have one at least 60 % alike in what the merge put in their place, one that stands
      neither in the base nor in `others` (the commits that the side was merged with); otherwise
      `dropped`. Both are reported: whether a rewriting kept the meaning only its tests and a reviewer
      can say.
    - The side's removed lines are `returned` when more than half of the essential ones still stand in
      place in `git diff -w base merged`, each more often in the merged file than in the side's (so
      moving is not returning). Not reported beside added lines of the same hunk that were lost.
    - A file is looked for under its name, else where the merge renamed it to. Added or changed and gone:
      `missing`. Deleted and there: `undeleted`. Renamed by the side, but the old name is there: `rename`.
      An executable bit or type that is neither changed nor kept: `mode`. Binary files, links and
      submodules must be exactly the side's: else `content`.

    Changes of white space alone, line ends included, and of the order of lines are never reported.
    """
    changed = [change for change in _changes(repo_root, base, side) if change.new != change.old]
    if not changed:
        return []
    trees = _Trees(repo_root, base, side, merged, others)
    return [hunk for change in changed for hunk in _losses(trees, change)]


# --- trees --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Change:
    """One row of `git diff --raw`: what was where, what is where; None for not there."""

    status: str
    old_path: str
    path: str
    old: TreeEntry | None
    new: TreeEntry | None


def _changes(repo: Path, before: str, after: str) -> list[_Change]:
    fields = iter(commands.output(*RAW, "--end-of-options", before, after, cwd=repo).split("\0"))
    return [_change(row, fields) for row in fields if row]


def _change(row: str, fields: Iterator[str]) -> _Change:
    old_mode, new_mode, old_blob, new_blob, status = row.lstrip(":").split(" ")
    old_path = next(fields)
    path = next(fields) if status[0] in "RC" else old_path
    old = None if status[0] == "A" else TreeEntry(old_mode, old_blob)
    new = None if status[0] == "D" else TreeEntry(new_mode, new_blob)
    return _Change(status[0], old_path, path, old, new)


class _Trees:
    """The merged tree, and where the merge renamed things to."""

    def __init__(self, repo: Path, base: str, side: str, merged: str, others: Sequence[str]) -> None:
        self.repo = repo
        self._without_side = (base, *others)
        self.merged = _tree(repo, merged)
        self._from_side = _renames(repo, side, merged)
        self._from_base = _renames(repo, base, merged)

    def place(self, change: _Change) -> str | None:
        """Where the merged tree has the file that the side has at `change.path`."""
        if change.path in self.merged:
            return change.path
        moved = self._from_side.get(change.path) or self._from_base.get(change.old_path)
        return moved if moved in self.merged else None

    def lines(self, blob: str) -> list[str]:
        """The lines of a file, given by its id."""
        with objects.of(self.repo) as reader:
            return _lines(reader.text(blob))

    def borrowed(self, paths: Iterable[str]) -> frozenset[str]:
        """What the file says in the base and on the other sides, under any of its names."""
        places = [(commit, path) for commit in self._without_side for path in dict.fromkeys(paths)]
        with objects.of(self.repo) as reader:
            texts = [reader.text_of(*place) for place in places]
        return frozenset(_plain(line) for text in texts for line in _lines(text))

    def hunks(self, before: str, after: str) -> list[_Hunk]:
        words = (*DIFF, "--end-of-options", before, after)
        return [] if before == after else list(_hunks(commands.output(*words, cwd=self.repo)))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _tree(repo: Path, commit: str) -> Mapping[str, TreeEntry]:
    with objects.of(repo) as reader:
        return reader.files(commit)


def _renames(repo: Path, before: str, after: str) -> Mapping[str, str]:
    return {row.old_path: row.path for row in _changes(repo, before, after) if row.status == "R"}


# --- files --------------------------------------------------------------------------------------------


def _losses(trees: _Trees, change: _Change) -> list[LostHunk]:
    if change.new is None:
        return [LostHunk(change.path, "undeleted")] if change.path in trees.merged else []
    place = trees.place(change)
    renamed_back = change.status == "R" and change.old_path in trees.merged
    lost = [LostHunk(change.path, "rename", lines=(change.old_path,))] if renamed_back else []
    if place is None and renamed_back:  # under its old name: are the changes there at least?
        place = change.old_path
    if place is None:
        return [LostHunk(change.path, "missing", lines=_bounded(trees.lines(change.new.id)))]
    return lost + _in_file(trees, change, change.new, place)


def _in_file(trees: _Trees, change: _Change, new: TreeEntry, place: str) -> list[LostHunk]:
    merged = trees.merged[place]
    lost: list[LostHunk] = []
    if change.old and new.mode not in (change.old.mode, merged.mode):
        lost.append(LostHunk(change.path, "mode", lines=(f"{new.mode}, not {merged.mode}",)))
    if merged.id == new.id or (change.old and change.old.id == new.id):
        return lost
    if merged.mode not in REGULAR or new.mode not in REGULAR or _any_binary(trees, change, merged):
        return [*lost, LostHunk(change.path, "content")]
    return lost + _in_text(trees, change, new.id, place)


def _any_binary(trees: _Trees, change: _Change, merged: TreeEntry) -> bool:
    entries = [entry for entry in (change.old, change.new, merged) if entry]
    return any("\0" in line for entry in entries for line in trees.lines(entry.id))


# --- lines --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Hunk:
    """Lines replaced: numbers and texts on both sides."""

    removed: Mapping[int, str]
    added: Mapping[int, str]


def _hunks(diff: str) -> Iterator[_Hunk]:
    rows = diff.split("\n")
    for index, row in enumerate(rows):
        if found := HUNK.match(row):
            old, old_count, new, new_count = (int(1 if part is None else part) for part in found.groups())
            body = [line for line in rows[index + 1 : index + 3 + old_count + new_count] if line[:1] in "+-"]
            removed = [line[1:] for line in body if line[:1] == "-"][:old_count]
            added = [line[1:] for line in body if line[:1] == "+"][:new_count]
            yield _Hunk(dict(enumerate(removed, old)), dict(enumerate(added, new)))


def _in_text(trees: _Trees, change: _Change, side: str, place: str) -> list[LostHunk]:
    base, merged = change.old.id if change.old else None, trees.merged[place].id
    whole = _Hunk({}, dict(enumerate(trees.lines(side), 1)))
    own = _without_moves(trees.hunks(base, side)) if base else [whole]
    after = trees.hunks(side, merged)
    gone = frozenset(number for hunk in _without_moves(after) for number in hunk.removed)
    borrowed = trees.borrowed((place, change.path, change.old_path)) if gone else frozenset()
    kept_from_base = _kept(trees, base, merged) if base else frozenset()
    more = _counts(trees.lines(merged))
    more.subtract(_counts(trees.lines(side)))
    lost: list[LostHunk] = []
    for hunk in own:
        dropped = [_dropped(change.path, lines, gone, after, borrowed) for lines in _paragraphs(hunk.added)]
        found = [one for one in dropped if one]
        lost += found or _returned(change.path, hunk, kept_from_base, more)
    return lost


def _without_moves(hunks: Sequence[_Hunk]) -> list[_Hunk]:
    """The hunks without lines that are removed in one place and added in another; each excuses one."""
    added = _counts(text for hunk in hunks for text in hunk.added.values())
    removed = _counts(text for hunk in hunks for text in hunk.removed.values())
    moved_away, moved_here = added & removed, added & removed
    return [_Hunk(_less(hunk.removed, moved_away), _less(hunk.added, moved_here)) for hunk in hunks]


def _less(lines: Mapping[int, str], moved: Counter[str]) -> Mapping[int, str]:
    """The lines that are not in `moved`, from which each one found is taken."""
    left: dict[int, str] = {}
    for number, text in lines.items():
        plain = _plain(text)
        if plain and moved[plain] > 0:
            moved[plain] -= 1
        else:
            left[number] = text
    return left


def _kept(trees: _Trees, base: str, merged: str) -> frozenset[int]:
    removed = {number for hunk in trees.hunks(base, merged) for number in hunk.removed}
    return frozenset(range(1, len(trees.lines(base)) + 1)) - removed


def _dropped(
    path: str,
    lines: Mapping[int, str],
    gone: frozenset[int],
    after: Sequence[_Hunk],
    borrowed: frozenset[str],
) -> LostHunk | None:
    essential = _essential(lines)
    lost = {number: text for number, text in essential.items() if number in gone}
    if len(lost) * 2 <= len(essential):
        return None
    alike = sum(_has_successor(number, text, after, borrowed) for number, text in lost.items())
    kind: Kind = "rewritten" if alike * 2 > len(lost) else "dropped"
    return _hunk(path, kind, lines, lost, len(essential))


def _has_successor(number: int, text: str, after: Sequence[_Hunk], borrowed: frozenset[str]) -> bool:
    """True if the merge put a similar line, and one of its own, where this one stood."""
    hunk = next(hunk for hunk in after if number in hunk.removed)
    new = [line for line in map(_plain, hunk.added.values()) if line not in borrowed]
    mine = _plain(text)[:MAX_WIDTH]
    return any(
        SequenceMatcher(None, mine, line[:MAX_WIDTH], autojunk=False).ratio() >= SIMILAR
        for line in new[:MAX_COMPARED]
    )


def _returned(path: str, hunk: _Hunk, kept: frozenset[int], more: Counter[str]) -> list[LostHunk]:
    found: list[LostHunk] = []
    for lines in _paragraphs(hunk.removed):
        essential = _essential(lines)
        back = {n: text for n, text in essential.items() if n in kept and more[_plain(text)] > 0}
        if len(back) * 2 > len(essential):
            found.append(_hunk(path, "returned", lines, back, len(essential)))
    return found


def _hunk(path: str, kind: Kind, lines: Mapping[int, str], lost: Mapping[int, str], total: int) -> LostHunk:
    return LostHunk(path, kind, min(lines), max(lines), _bounded(list(lost.values())), len(lost), total)


def _paragraphs(lines: Mapping[int, str]) -> list[dict[int, str]]:
    """Runs of lines between blank ones, so that one lost function is seen in a long addition."""
    found: list[dict[int, str]] = [{}]
    for number, text in lines.items():
        if text.strip():
            found[-1][number] = text
        elif found[-1]:
            found.append({})
    return [paragraph for paragraph in found if paragraph]


def _essential(lines: Mapping[int, str]) -> Mapping[int, str]:
    telling = {number: text for number, text in lines.items() if any(char.isalnum() for char in text)}
    return telling or lines


def _counts(lines: Iterable[str]) -> Counter[str]:
    return Counter(_plain(line) for line in lines)


def _plain(line: str) -> str:
    return "".join(line.split())


def _bounded(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.rstrip("\r")[:MAX_WIDTH] for line in lines[:MAX_LINES])
