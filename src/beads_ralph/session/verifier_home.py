"""The user's home as checks see it: tools and downloads as they were when the run began, and no settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import snapshot
from beads_ralph.files.snapshot import Snapshot
from beads_ralph.process import room
from beads_ralph.process.room import RoomMount
from beads_ralph.process.sandbox import real

TOOLS: Final = (
    # Python
    *(".pyenv", ".local/share/uv", ".cache/pip", ".local/share/pipx", ".local/pipx", ".rye"),
    *(".pixi", "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".cache/pre-commit"),
    # Rust and Go
    *(".rustup", ".cargo/bin", ".cargo/registry/index", ".cargo/registry/cache", ".cargo/git/db"),
    *("go/bin", "go/pkg/mod", "go/pkg/sumdb", "sdk"),
    # JavaScript
    *(".nvm", ".volta", ".fnm", ".local/share/fnm", ".npm-global", ".cache/node"),
    *(
        ".local/share/pnpm",
        ".bun/bin",
        ".deno/bin",
        ".cache/ms-playwright",
        ".cache/puppeteer",
        ".cache/Cypress",
    ),
    # Java and its kin
    *(".sdkman", ".jenv", ".m2/repository", ".m2/wrapper", ".gradle/wrapper"),
    *(".gradle/jdks", ".ivy2/cache", ".cache/coursier", ".sbt/boot", ".konan"),
    # others
    *(".rbenv", ".rvm", ".gem", ".local/share/gem", ".asdf", ".tool-versions", ".local/share/mise"),
    *(".dotnet", ".nuget/packages", ".pub-cache", ".hex/packages", ".mix/archives", ".cabal/packages"),
    *(".cabal/store", ".ghcup", ".stack/programs", ".opam", ".elan", ".juliaup", ".julia", ".swiftly"),
    *(".foundry", ".nix-profile", ".local/state/nix"),
    *(".cache/bazelisk", ".cache/huggingface/hub", ".cache/torch/hub", ".cache/electron", ".cache/selenium"),
    *(".docker/cli-plugins", "Android/Sdk", ".local/bin", "bin"),
)
"""Programs and downloads below a home. Not settings (.cargo/config.toml, .npmrc), nor what remembers that
something passed (.cache/go-build), nor what is unpacked from a download once and not compared with it again
(.cargo/registry/src, .npm/_npx), nor caches whose program fails where it cannot write to them (.npm/_cacache,
.gradle/caches): it downloads anew."""
PROGRAMS: Final = ("bin", "sbin", ".bin", "shims", "Scripts")
"""Folders whose programs need what lies beside them."""
DEEP_ENOUGH: Final = 3
"""So many parts has the path of a folder that something was installed in."""


def refuse_names(names: Iterable[str]) -> None:
    """CONFIG.INVALID for what does not lie in the home."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or name.startswith("~") or not path.parts:
            message = f"verifier_home_keeps: {name!r} does not lie in your home"
            action = "Write it relative to your home, such as .npmrc or .config/pip"
            raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)


@dataclass(frozen=True)
class Home:
    """The home as it was when the run began."""

    path: Path
    kept: tuple[Path, ...]
    """What checks see of it."""
    files: Snapshot
    """Those of the user's settings among it."""
    programs: Mapping[str, Snapshot]
    """By folder on PATH."""

    @classmethod
    def taken(cls, path: Path, settings: Sequence[str], search: Sequence[Path]) -> Home:
        """As it is now; `settings` are the names that the user wants to be kept, `search` is PATH."""
        tools = [path / name for name in (*TOOLS, *settings)]
        found = [one for one in search if real(one).is_relative_to(path)]
        around = [installation(real(one), tools) for one in found]
        kept = tuple(one for one in dict.fromkeys([*tools, *around]) if one.exists())
        files = [str(path / name) for name in settings if (path / name).is_file()]
        programs = {str(one): Snapshot.of(snapshot.programs(str(one))) for one in found}
        return cls(path, kept, Snapshot.of(files), programs)

    def changed_files(self) -> list[str]:
        return self.files.changed([name for name in self.files.marks if os.path.exists(name)])  # noqa: PTH110

    def changed_programs(self) -> list[str]:
        """Those that came or were changed since."""
        found = []
        for folder, before in self.programs.items():
            now = snapshot.programs(folder)
            found += [path for path in before.changed(now) if path in now]
        return found

    def link(self, own: Path, named: Iterable[Path], *, everything: bool) -> None:
        """Links in another home to what is kept or named; all of it, or only what lies elsewhere."""
        for source in (*self.kept, *(one for one in named if one.is_relative_to(self.path))):
            target, link = real(source), own / source.relative_to(self.path)
            if (everything or target != source) and not link.is_symlink() and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target)

    def mounts(self, own: Path, kind: room.Kind) -> Iterator[RoomMount]:
        """Another home in place of this one, with what is kept."""
        yield RoomMount(self.path, "lend", own)
        yield from (RoomMount(path, kind) for path in self.kept)


def of_user(environment: Mapping[str, str]) -> Path | None:
    """The user's home; None where there is none that another one could stand in for."""
    said = environment.get("HOME", "")
    found = real(Path(said)) if said.startswith(os.sep) else None
    return found if found is not None and found.is_dir() and len(found.parts) > 1 else None


def installation(path: Path, others: Sequence[Path]) -> Path:
    """The folder around a folder of programs; not where it holds other things that are told apart."""
    around = path.parent
    shared = len(around.parts) < DEEP_ENOUGH or any(
        one != path and one.is_relative_to(around) for one in others
    )
    return around if path.name in PROGRAMS and not shared else path
