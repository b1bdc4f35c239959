"""New files that the base tells git to ignore: a build makes such files, and takes one that is there for its
own. git decides; it is asked only about files that some rule may mean."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from beads_ralph.files import scratch
from beads_ralph.git import commands, objects, settings, worktree_status

NAME: Final = ".gitignore"
ANYTHING: Final = re.compile(r"[*?/]+")
"""What stands between the plain parts of a rule."""
NOT_PLAIN: Final = ("[", "\\")
"""A rule with these is left to git."""


def among(added: Collection[str], repo: Path, base: str, known: Collection[str]) -> frozenset[str]:
    """Those of the new files that rules of the base mean."""
    near = {parent for file in added for parent in PurePosixPath(file).parents}
    places = [path for path in map(PurePosixPath, known) if path.name == NAME and path.parent in near]
    if not places:
        return frozenset()
    with objects.of(repo) as reader:
        rules = {path: reader.text_of(base, str(path)) for path in places}
    texts = [*rules.values(), *_everywhere(repo)]
    if doubtful := [file for file in added if any(_may_mean(text, file) for text in texts)]:
        return _asked(doubtful, repo, rules)
    return frozenset()


def _everywhere(repo: Path) -> Iterator[str]:
    """The user's own rules: of this repository, and of all of them."""
    run = settings.at(repo)
    if run is None:  # nobody knows which file that is
        yield "*"
        return
    said = [value for key, value in (*run.everywhere, *run.local) if key.lower() == "core.excludesfile"]
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    own = os.path.expanduser(said[-1] if said and said[-1] else f"{home}/git/ignore")  # noqa: PTH111
    for place in (run.common / "info" / "exclude", Path(own)):
        yield settings.content(place).decode("utf-8", "surrogateescape")


def _may_mean(text: str, file: str) -> bool:
    """Whether some rule has no part that the file's path lacks."""
    path = file.lower()
    return any(all(part in path for part in parts) for parts in _rules(text.lower()))


def _rules(text: str) -> Iterator[list[str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        rule = line.strip()
        if rule and not rule.startswith(("#", "!")):
            yield [] if any(sign in rule for sign in NOT_PLAIN) else ANYTHING.split(rule)


def _asked(added: Collection[str], repo: Path, rules: dict[PurePosixPath, str]) -> frozenset[str]:
    folder = scratch.make()
    try:
        for file, text in rules.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, "utf-8", "surrogateescape")
        own = {"GIT_DIR": str(worktree_status.git_dir(repo)), **settings.environment(repo)}
        env, names = {**own, "GIT_WORK_TREE": str(folder)}, "\0".join(added)
        words = ("check-ignore", "--no-index", "-z", "--stdin")
        return frozenset(commands.run(*words, cwd=folder, env=env, stdin=names).stdout.split("\0")) - {""}
    finally:
        scratch.discard(folder)
