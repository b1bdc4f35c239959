"""Work that leans on this machine: links that lead out of the tree, files that name the worktree."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.words import several
from beads_ralph.git import objects
from beads_ralph.git.objects import LINK, SUBMODULE, ObjectReader, TreeEntry
from beads_ralph.session.state import BeadSession

COMMON: Final = 2
"""Paths of so few parts, such as /tmp and /root, are in many a project for good reasons."""


def look(case: BeadSession, commit: str) -> tuple[list[Evidence], list[str]]:
    """What fails, and what whoever judges is told, of all that was changed since the work began."""
    ours = [case.worktree, case.tools.root, Path(tempfile.gettempdir()), Path.home()]
    failures, flags = [], []
    for name, target in _links_out(case.worktree, case.base, commit):
        text = f"{name} is a link that leads out of the repository, to {target}"
        if any(_is_in(target, place) for place in ours) or not target.startswith(os.sep):
            failures.append(f"{text}: commit what it leads to")
        else:
            flags.append(text)
    private = [one for one in (Path.home(), Path(tempfile.gettempdir())) if len(one.parts) > COMMON]
    if names := _naming(case.worktree, case.base, commit, [case.worktree, case.tools.root, *private]):
        text = f"{several(names)} names a place that nobody else has: the worktree, the main checkout, a home"
        (flags if _is_hidden(case) else failures).append(text)
    return [Evidence("paths", "git", "", commit, "fail", text) for text in failures], flags


def _is_hidden(case: BeadSession) -> bool:
    """Whether checks run where neither is to be found."""
    return case.tools.world is not None and case.tools.world.program is not None


def _is_in(target: str, place: Path) -> bool:
    return Path(os.path.normpath(target)).is_relative_to(place)


def _links_out(tree: Path, base: str, commit: str) -> Iterator[tuple[str, str]]:
    """New or changed links that lead out, with what they say."""
    with objects.of(tree) as reader:
        new = [(one.path, one.new) for one in reader.changes(base, commit)]
        links = {path: reader.text(file.id) for path, file in new if file and file.mode == LINK}
    for name, target in links.items():
        inside = os.path.normpath(Path("/", name).parent.relative_to("/") / target)
        if target.startswith(os.sep) or inside == os.pardir or inside.startswith(f"{os.pardir}{os.sep}"):
            yield name, target


def _naming(tree: Path, base: str, commit: str, places: Iterable[Path]) -> list[str]:
    """Changed files that name such a place more often, or less, than before."""
    named = b"|".join(re.escape(os.fsencode(place)) for place in dict.fromkeys(places))
    pattern = re.compile(rb"(?:%s)(?:[^A-Za-z0-9_.-]|$)" % named, re.MULTILINE)
    with objects.of(tree) as reader:
        changes = [one for one in reader.changes(base, commit) if one.new and one.new.mode != SUBMODULE]
        sides = {one.path: (one.old, one.new) for one in changes}
        counted = {path: {_count(pattern, reader, file) for file in both} for path, both in sides.items()}
    return [path for path, counts in counted.items() if len(counts) > 1]


def _count(pattern: re.Pattern[bytes], reader: ObjectReader, file: TreeEntry | None) -> int:
    return sum(1 for _ in pattern.finditer(reader.content(file.id))) if file else 0
