"""Submodules of a working tree, filled as its commit names them.

What the repository has of a submodule already is taken from there, so that neither a network nor
`protocol.file.allow` is needed; the rest comes from the address in `.gitmodules`. Nothing is written to the
settings of the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.git import commands, settings

FILE: Final = ".gitmodules"
SECONDS: Final = 1800.0
"""It may be a whole history over the network."""
UNHOOKED: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
LINK: Final = "160000"


@dataclass(frozen=True)
class Submodule:
    """A submodule that a commit names."""

    name: str
    path: str
    url: str
    commit: str


def listed(tree: Path) -> list[Submodule]:
    """Those of the commit that is checked out, or staged; the tree may itself be a submodule."""
    if not (tree / FILE).is_file():
        return []
    named = _named(settings.rows_of(tree / FILE) or ())
    return list(_links(("ls-files", "--stage", "-z", "--", *named), named, tree, column=1))


def at(root: Path, commit: str) -> list[Submodule]:
    """Those of any commit."""
    asked = ("config", "--blob", f"{commit}:{FILE}", "--list", "-z")
    said = commands.run(*asked, cwd=root, env=settings.plain(root))
    named = _named(settings.rows_in(said.stdout)) if said.ok else {}
    return list(_links(("ls-tree", "-r", "-z", commit, "--", *named), named, root, column=2))


def _named(rows: Sequence[tuple[str, str | None]]) -> dict[str, tuple[str, str]]:
    """By path: the name and the address of each that has both."""
    facts: dict[str, dict[str, str]] = {}
    for key, value in rows:
        section, _, rest = key.partition(".")
        name, _, field = rest.rpartition(".")
        if section == "submodule" and name:
            facts.setdefault(name, {})[field] = value or ""
    return {said["path"]: (name, said["url"]) for name, said in facts.items() if {"path", "url"} <= {*said}}


def _links(
    asked: Sequence[str], named: Mapping[str, tuple[str, str]], tree: Path, column: int
) -> Iterator[Submodule]:
    """Those that git lists; `column` is where it writes the commit."""
    listing = commands.output(*asked, cwd=tree, env=settings.plain(tree)) if named else ""
    for row in filter(None, listing.split("\0")):
        facts, _, path = row.partition("\t")
        words = facts.split()
        if words[0] == LINK and path in named:
            name, url = named[path]
            yield Submodule(name, path, _address(url, tree), words[column])


def _address(url: str, tree: Path) -> str:
    """A relative address is seen from that of origin, else from the repository itself."""
    if not url.startswith(("./", "../")):
        return url
    asked = ("config", "--get", "remote.origin.url")
    base = commands.run(*asked, cwd=tree, env=settings.plain(tree)).stdout.strip().rstrip("/") or str(tree)
    while url.startswith(("./", "../")):
        up, _, url = url.partition("/")
        base = base if up == "." else base[: max(base.rfind("/"), base.rfind(":"), 0)]
    return f"{base}/{url}"


def fill(tree: Path, near: Sequence[Path], env: Mapping[str, str]) -> str:
    """Check out every submodule that is not there yet, and those inside it; why one cannot be had, empty
    where all are. `near` are folders that may hold repositories of theirs, by name."""
    for one in listed(tree):
        place = tree / one.path
        if not (place / ".git").exists() and (why := _update(tree, one, near, env)):
            return f"the submodule {one.path} cannot be fetched from {one.url}: {why}"
        if inner := fill(place, [folder / one.name / "modules" for folder in near], env):
            return inner
    return ""


def _update(tree: Path, one: Submodule, near: Sequence[Path], env: Mapping[str, str]) -> str:
    source = nearest(one, near)
    # by its transport, which checks every object, and not as a copy of files
    known = ("-c", "protocol.file.allow=always") if source else ()
    url = f"file://{source}" if source else one.url
    named = f"submodule.{one.name}"
    said = ("-c", f"{named}.active=true", "-c", f"{named}.url={url}", *known, *UNHOOKED)
    words = (*said, "submodule", "--quiet", "update", "--checkout", "--", one.path)
    ended = commands.run(*words, cwd=tree, timeout=SECONDS, env=env)
    if not ended.ok:
        return (ended.stderr.strip().splitlines() or [f"git ended with {ended.code}"])[-1]
    if source:
        commands.run("remote", "set-url", "origin", one.url, cwd=tree / one.path, env=env)
    return ""


def nearest(one: Submodule, near: Sequence[Path]) -> Path | None:
    """The repository on this machine that has the commit."""
    if "=" in one.name or ".." in one.name:  # git would take the rest for the value; or it leads elsewhere
        return None
    return next((folder / one.name for folder in near if _has(folder / one.name, one.commit)), None)


def _has(repository: Path, commit: str) -> bool:
    asked = ("cat-file", "-e", f"{commit}^{{commit}}")
    return (repository / "HEAD").is_file() and commands.run(*asked, cwd=repository, env={}).ok


def unpublished(tree: Path) -> str:
    """The first submodule with commits that no remote of it has; empty where there is none."""
    for one in listed(tree):
        place = tree / one.path
        if not (place / ".git").exists():
            continue
        asked = ("rev-list", "--max-count=1", "HEAD", "--branches", "--not", "--remotes")
        ended = commands.run(*asked, cwd=place, env=settings.plain(place))
        if not ended.ok or ended.stdout.strip():
            return one.path
        if inner := unpublished(place):
            return inner
    return ""
