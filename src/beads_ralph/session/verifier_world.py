"""The world of verifiers: a home, temporary folders and a PATH that no agent has prepared.

A check gets an empty home, but for tools, downloads and what `verifier_home_keeps` names, and temporary
folders of its own. Where bubblewrap works it runs in a room (`process/room.py`) in which the rest of the
home, the repository and the worktrees are not there at all. Elsewhere the variables lead to the new folders.

What a check uses of the user's things must be as it was when the run began: lent files, kept settings, an
environment of the main checkout that is on PATH. A program in a folder of the home that was put there or
changed since is not seen.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import beads_ralph
from beads_ralph.agents.environment import OF_A_HOME
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.words import several
from beads_ralph.config.model import Config
from beads_ralph.files import scratch, snapshot
from beads_ralph.files.snapshot import FolderSurvey, Snapshot
from beads_ralph.git import settings
from beads_ralph.process import jobs, room, sandbox
from beads_ralph.process.jobs import RUN_ID, Job
from beads_ralph.process.room import Room, RoomMount
from beads_ralph.process.sandbox import Sandbox, real
from beads_ralph.session import lent_files, verifier_home
from beads_ralph.session.instructions import Instructions
from beads_ralph.session.verifier_home import DEEP_ENOUGH, PROGRAMS, Home, installation
from beads_ralph.session.verify import Bench

TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - replaced by folders of the check's own
MARKS: Final = ("BEADS_RALPH_JOB", "BEADS_RALPH_ORDER", RUN_ID)
"""By these we find processes of ours; in a room they are found without."""
NAMED: Final = re.compile(r"(?<![\w.$}~/:-])/[^\s'\"`;|&<>()$*?\[\]{}\\,=:]+")
"""An absolute path in a command."""
AT_HOME: Final = re.compile(r"(?<![\w./])(?:~|\$HOME|\$\{HOME\})/([^\s'\"`;|&<>()$*?\[\]{}\\,=:]+)")
OWN: Final = "beads-ralph"
SCRIPTS: Final = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua")


@dataclass(frozen=True)
class CheckSetting:
    """What one check is run with."""

    env: Mapping[str, str]
    folder: Path
    """The check's own, with a home and temporary folders in it."""
    room: Room | None = None
    problem: str = ""
    """Why nothing that is checked here would be worth anything."""
    notes: tuple[str, ...] = ()

    def wrap(self, job: Job, *, network: bool = True) -> Job:
        """The job as it runs here; its environment is the one above, and its own."""
        if self.room is None:
            return replace(job, writes=(*job.writes, self.folder))
        return replace(self.room, network=self.room.network and network).wrap(job)

    def bench(self, bench: Bench, config: Config) -> Bench:
        """The same bench, here."""
        wrap = partial(self.wrap, network=config.verifier_network)
        return replace(bench, environment=self.env, wrap=wrap)

    def unfit(self, commit: str) -> list[Evidence]:
        """The failure of a check whose setting is not what it was when the run began."""
        return (
            [Evidence("surroundings", "verifier", "", commit, "fail", self.problem)] if self.problem else []
        )


@dataclass(frozen=True)
class CheckPlace:
    """Where a check stands, and where the work that it looks at was done."""

    checkout: Path
    worktree: Path
    branch: str
    commands: Sequence[str] = ()
    objects: Path | None = None
    """The files that git's objects in the checkout are links to."""

    @property
    def trees(self) -> list[Path]:
        """The worktree, and the folder of all worktrees, where the worktree lies in it by its branch."""
        top = str(self.worktree).removesuffix(f"/{self.branch}")
        return [
            real(self.worktree),
            *([real(Path(top))] if top != str(self.worktree) else []),
        ]


@dataclass(frozen=True)
class VerifierWorld:
    """The user's things as they were when the run began, and how much of them checks see."""

    root: Path
    config: Config
    environment: Mapping[str, str]
    began: int
    """In nanoseconds, by the clock of the file system."""
    search: tuple[tuple[Path, Path], ...]
    """The folders of PATH, as they are named and where they really are."""
    home: Home | None
    lent: Snapshot
    """By `worktree_files`."""
    environments: Mapping[Path, int]
    """Folders of the main checkout that are on PATH, with what they are part of: how many files they had."""
    instructions: Instructions
    """What reviewers obey."""
    closed_in: Sandbox | None = None
    """What agents are sandboxed with."""
    program: str | None = None
    """bubblewrap, where checks get rooms."""

    @property
    def is_own(self) -> bool:
        """Whether checks get a home of their own."""
        return self.config.verifier_home == "own" and self.home is not None

    @contextmanager
    def around(self, place: CheckPlace) -> Iterator[Callable[[], CheckSetting]]:
        """Folders for one check, gone at the end whatever happened inside, and how things are there now."""
        folder = scratch.make()
        try:
            if self.home is not None and self.is_own:
                own = _made(folder / "home")
                settings.write(own / ".gitconfig", settings.of(self.root).everywhere)
                named = [path for path in self._named_paths(place) if path.exists()]
                self.home.link(own, named, everything=self.program is None)
            yield lambda: self._look(place, folder)
        finally:
            scratch.discard(folder)

    def _look(self, place: CheckPlace, folder: Path) -> CheckSetting:
        borrowed = self._borrowed(place)
        surveys = {one: snapshot.survey(one, self.began) for one in borrowed}
        problems = [*self._changed_files(place), *self._changed_environments(surveys)]
        changed = self.home.changed_programs() if self.home else []
        instead = _without(changed, folder)
        env = {
            name: value
            for name, value in self.environment.items()
            if not (self.is_own and OF_A_HOME.fullmatch(name))
        }
        own = _own_program(place, folder)
        env["PATH"] = os.pathsep.join([*map(str, own[:1]), self._search(place, borrowed, instead)])
        if any(one.compiled for one in surveys.values()):
            env["PYTHONPYCACHEPREFIX"] = str(_made(folder / "compiled"))
        if self.program is None:
            env |= {name: str(_made(folder / "tmp")) for name in ("TMPDIR", "TMP", "TEMP")}
            env |= {"HOME": str(folder / "home")} if self.is_own else {}
        found = self._room(place, folder, [*borrowed, *instead.values()], own) if self.program else None
        notes = tuple(f"checks do not see {one}: it was changed after the run began" for one in changed)
        return CheckSetting(env, folder, found, "; ".join(problems), notes)

    def _borrowed(self, place: CheckPlace) -> list[Path]:
        """Environments of the main checkout that this one has none of its own for."""
        top = real(self.root)
        return [one for one in self.environments if not (place.checkout / one.relative_to(top)).exists()]

    def _search(self, place: CheckPlace, borrowed: Sequence[Path], instead: Mapping[str, Path]) -> str:
        """PATH: a folder of the repository's is looked for in the checkout, and nothing lies in a worktree
        or a temporary folder."""
        top = real(self.root)
        hidden = [*map(Path, _temporary_places(self.environment)), *place.trees]
        words: list[Path] = []
        for path, where in self.search:
            if where.is_relative_to(top):
                words.append(place.checkout / where.relative_to(top))
                words += [path] * any(where.is_relative_to(one) for one in borrowed)
            elif self._is_at_home(where) or not any(where.is_relative_to(one) for one in hidden):
                words.append(instead.get(str(path), path))
        return os.pathsep.join(map(str, words))

    def _is_at_home(self, path: Path) -> bool:
        return self.home is not None and path.is_relative_to(self.home.path)

    # --- what was changed since the run began ---

    def misleading(self, checkout: Path) -> str:
        """Why a reviewer's word would be worth nothing there. In a sandbox nobody could have changed it."""
        changed = self.instructions.changed(checkout) if self.closed_in is None else []
        what = f"{several(changed)} was changed after the run began" if changed else ""
        return what and f"{what}, and reviewers would obey it: look at it, and start the run again"

    def _changed_files(self, place: CheckPlace) -> list[str]:
        lent = self.lent.changed(_lendable(self.root, self.config))
        kept = self.home.changed_files() if self.home else []
        named = [path for path in self._named_paths(place) if _runs(path) and _is_newer(path, self.began)]
        rows = {"is lent to checks": lent, "is kept for checks": kept, "a check runs it": map(str, named)}
        return [
            f"{path} was changed after the run began, and {why}"
            for why, all_ in rows.items()
            for path in all_
        ]

    def _changed_environments(self, surveys: Mapping[Path, FolderSurvey]) -> Iterator[str]:
        for folder, now in surveys.items():
            if now.newer or now.count != self.environments[folder]:
                what = now.newer[0] if now.newer else folder
                yield (
                    f"{what} was changed after the run began, and {folder} is on PATH: make it in every "
                    "checkout (worktree_setup), or take it off PATH"
                )

    # --- the room ---

    def _room(self, place: CheckPlace, folder: Path, shown: Sequence[Path], own: Sequence[Path]) -> Room:
        sealed, kind = self.closed_in is not None, self._kind
        mounts = [*room.runtime(sealed=sealed), *self._hidden(place)]
        temporary = enumerate(_temporary_places(self.environment))
        mounts += room.temporary({one: _made(folder / f"tmp-{number}", 0o1777) for number, one in temporary})
        if self.home is not None and self.is_own:
            mounts += self.home.mounts(folder / "home", kind)
        elif self.home is not None:
            mounts.append(RoomMount(self.home.path, kind))
            mounts += room.without_credentials(self.home.path) if sealed else ()
        mounts += self._named(place, mounts)
        placed = room.in_order(mounts)
        mounts += [RoomMount(one, "show") for one in own if not room.is_seen(one, placed)]
        mounts += [RoomMount(one, "show") for one in (*shown, *([place.objects] if place.objects else []))]
        writes = (*(self.closed_in.writes if self.closed_in else ()), folder / "compiled")
        mounts += [RoomMount(path, "lend") for path in writes if path.exists()]
        network = self.closed_in is None or self.closed_in.network
        return Room(tuple(mounts), self.program or "", network, sealed, MARKS)

    @property
    def _kind(self) -> room.Kind:
        """Checks may write where agents may write anyway."""
        return "show" if self.closed_in else "lend"

    def _hidden(self, place: CheckPlace) -> Iterator[RoomMount]:
        agents = os.path.expanduser(self.config.agent_home or ".")  # noqa: PTH111 - pathlib raises for ~nobody
        for path in (real(self.root), real(self.root / agents), *place.trees):
            if path.is_dir() and len(path.parts) > 1:
                yield RoomMount(path, "hide")

    def _named(self, place: CheckPlace, mounts: Iterable[RoomMount]) -> Iterator[RoomMount]:
        """What a command or a variable of the user's names by its path is meant to be seen, unless it is the
        repository's or a worktree's. Of what is not there yet, the folder is."""
        placed = room.in_order(mounts)
        ours = [real(self.root), *place.trees]
        for named in self._named_paths(place):
            path = named if named.exists() else named.parent
            is_whole = len(path.parts) < DEEP_ENOUGH or any(mount.place == path for mount in placed)
            if is_whole or room.is_seen(path, placed) or any(path.is_relative_to(one) for one in ours):
                continue
            yield RoomMount(
                installation(path.parent, ()) if path.parent.name in PROGRAMS else path, self._kind
            )

    def _named_paths(self, place: CheckPlace) -> list[Path]:
        """What commands and variables of the user's name by its path, outside of the repository; of what they
        name as part of the home, whatever that is, only programs and scripts."""
        values = [self.environment.get(name, "") for name in self.config.agent_env]
        words = {part for value in values for part in value.split(os.pathsep) if part.startswith(os.sep)}
        words |= {word for text in place.commands for word in NAMED.findall(text)}
        found = {real(Path(word)) for word in words}
        if self.home is not None:
            below = {name for text in place.commands for name in AT_HOME.findall(text)}
            found |= {path for name in below if _runs(path := real(self.home.path / name))}
        return sorted(path for path in found if not path.is_relative_to(real(self.root)))


# --- the beginning of a run ---------------------------------------------------------------------------


def begin(
    root: Path, config: Config, environment: Mapping[str, str], closed_in: Sandbox | None = None
) -> VerifierWorld:
    """The world as it is now; agents are in that sandbox."""
    said = dict.fromkeys(environment.get("PATH", os.defpath).split(os.pathsep))
    search = tuple((Path(word), real(Path(word))) for word in said if word.startswith(os.sep))
    top, home = real(root), verifier_home.of_user(environment)
    inside = {installation(where, [top]) for _, where in search if where.is_relative_to(top)}
    outside = [path for path, where in search if not where.is_relative_to(top)]
    began = _moment()
    agents = Path(os.path.expanduser(config.agent_home)) if config.agent_home else home  # noqa: PTH111
    return VerifierWorld(
        root,
        config,
        environment,
        began=began,
        search=search,
        home=Home.taken(home, config.verifier_home_keeps, outside) if home else None,
        lent=Snapshot.of(_lendable(root, config)),
        environments={path: snapshot.survey(path, 0).count for path in sorted(inside) if path.is_dir()},
        instructions=Instructions.taken(root / agents if agents else None, began),
        closed_in=closed_in,
        program=_program() if closed_in or config.verifier_sandbox == "auto" else None,
    )


def _moment() -> int:
    folder = scratch.make()
    try:
        return folder.stat().st_ctime_ns
    finally:
        scratch.discard(folder)


def _program() -> str | None:
    found = jobs.which(sandbox.PROGRAM)
    return found if found and _works(found) else None


@cache
def _works(program: str) -> bool:
    """Tried once: the machine does not change while we run."""
    folder = scratch.make()
    try:
        tried = Room((RoomMount(folder, "hide"),), program).wrap(Job(("true",), Path("/")))
        return jobs.run(replace(tried, timeout=sandbox.PROBE_SECONDS)).ok
    finally:
        scratch.discard(folder)


# --- places -------------------------------------------------------------------------------------------


def _made(folder: Path, mode: int = 0o700) -> Path:
    """A folder in one that is private; a temporary one is for everybody who gets in there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(mode)
    return folder


def _runs(path: Path) -> bool:
    """Whether a check that names the file would run it; what it writes to, it may change."""
    return path.is_file() and (os.access(path, os.X_OK) or path.suffix in SCRIPTS)


def _is_newer(path: Path, moment: int) -> bool:
    return path.stat().st_ctime_ns > moment


def _lendable(root: Path, config: Config) -> list[str]:
    return [str(path) for path in lent_files.lendable(root, config.worktree_files)]


def _temporary_places(environment: Mapping[str, str]) -> list[str]:
    said = (*TEMPORARY, tempfile.gettempdir(), environment.get("TMPDIR", ""))
    return sorted({str(real(Path(one))) for one in said if one.startswith(os.sep)})


def _own_program(place: CheckPlace, folder: Path) -> list[Path]:
    """A folder with this very program, for checks that call it, and what it consists of: whatever is called
    so on PATH or in the checkout is not asked. Nothing where no check calls it."""
    if not any(OWN in command for command in place.commands):
        return []
    program = _made(folder / "own") / OWN
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m beads_ralph "$@"\n', "utf-8")
    program.chmod(0o755)
    parts = (sys.prefix, sys.base_prefix, os.path.dirname(beads_ralph.__file__))  # noqa: PTH120
    return [program.parent, *dict.fromkeys(real(Path(one)) for one in parts)]


def _without(changed: Sequence[str], folder: Path) -> dict[str, Path]:
    """By folder of programs: one of ours with links to all of them but the changed ones."""
    instead = {}
    for number, old in enumerate(sorted({os.path.dirname(path) for path in changed})):  # noqa: PTH120
        instead[old] = _made(folder / f"bin-{number}")
        for program in snapshot.programs(old):
            link = instead[old] / Path(program).name
            if program not in changed and not link.is_symlink():
                link.symlink_to(program)
    return instead
