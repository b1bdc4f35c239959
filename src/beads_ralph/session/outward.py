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
from beads_ralph.git import commands
from beads_ralph.session.state import BeadSession

LINK: Final = "120000"
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
    words = ("diff", "--raw", "-z", "--no-renames", "--abbrev=64", "--diff-filter=d", base, commit)
    fields = commands.output(*words, cwd=tree).split("\0")
    for row, name in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, blob, _ = row.lstrip(":").split(" ")
        if mode != LINK:
            continue
        target = commands.output("cat-file", "blob", blob, cwd=tree)
        inside = os.path.normpath(Path("/", name).parent.relative_to("/") / target)
        if target.startswith(os.sep) or inside == os.pardir or inside.startswith(f"{os.pardir}{os.sep}"):
            yield name, target


def _naming(tree: Path, base: str, commit: str, places: Iterable[Path]) -> list[str]:
    """Changed files that name such a place more often, or less, than before."""
    named = "|".join(re.escape(str(place)) for place in dict.fromkeys(places))
    words = ("diff", "--name-only", "-z", "--no-renames", "--diff-filter=d", "--pickaxe-regex")
    listing = commands.output(*words, f"-S({named})([^A-Za-z0-9_.-]|$)", base, commit, cwd=tree)
    return [name for name in listing.split("\0") if name]
