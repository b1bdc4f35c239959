"""A small run killed before and after each of its operations on git, store, journal and files, and run again.

At every point the same laws hold afterwards: nothing is lost, nothing done twice, nothing left over, the pull
request holds the proven commit, and journal and records say what the store says.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.journal.records import repair
from beads_ralph.journal.records.agreement import disagreements
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.store.query import Query
from tests import selection
from tests.cli.running import environment
from tests.loop import crash_points
from tests.loop.crash_points import Server
from tests.loop.plans import Project, git, sprint

BEAD = "bd-1-1-one"
RIGHT = "`test -e right.txt`"
SECOND_TRY = [
    [{"write": {"wrong.txt": "no\n"}}, {"commit": "wrong"}],
    [{"write": {"right.txt": "yes\n"}}, {"commit": "right"}],
]
NEVER = [[{"write": {"wrong.txt": "no\n"}}, {"commit": "wrong"}]]
ENDS = {"bead_closed", "bead_blocked", "bead_released", "bead_parked", "attempt_interrupted"}
TELLING = re.compile(r"after (a commit|journal|ledger)|rename .*state/")
"""Where what was done and what is told of it differ the most."""
PARTS = 32
BD_PARTS = 16
BD_STEP = 17
"""With bd, whose commands take their time, one point in so many is tried: some fifty."""


# --- the small run, again and again at the same place -------------------------------------------------


@dataclass
class Stage:
    """A repository as it was before the run, a place to run it at, and the run."""

    folder: Path
    store: str
    server: Server

    @property
    def root(self) -> Path:
        return self.folder / "work" / "app"

    @property
    def project(self) -> Project:
        return Project(self.root, self.store)

    def set_up(self, *sprints: str, script: Any, **settings: Any) -> None:
        """The plan in the repository, and its beads in the store."""
        Project.make(self.root, *sprints, script=script, store=self.store, **settings)
        assert self.project.ralph("mason", "plan.md", "--json").code == 0
        shutil.copytree(self.root.parent, self.folder / "before", symlinks=True)

    def reset(self) -> None:
        for place in (self.root.parent, self.folder / "tmp"):
            shutil.rmtree(place)
        (self.folder / "tmp").mkdir()
        shutil.copytree(self.folder / "before", self.root.parent, symlinks=True)

    def run(self, kill_at: int | None = None, names: Path | None = None) -> int:
        return self.server.run("run", "--json", cwd=self.root, kill_at=kill_at, names=names)

    def points(self) -> list[str]:
        """The names of all points of a whole run."""
        names = self.folder / "names.txt"
        assert self.run(0, names) in (0, 1), self.server.said
        return names.read_text("utf-8").splitlines()

    def killed_at(self, point: int) -> list[str]:
        """What is not as it should be after a kill at the point, and another run."""
        self.reset()
        self.run(point)
        code = self.run()
        said = [] if code in (0, 1) else [f"the next run ended with {code}: {self.server.said}"]
        return [*said, *broken_laws(self)]


@contextmanager
def staged(folder: Path, repo: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (folder / "tmp").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    (folder / "work").mkdir()
    shutil.move(repo, folder / "work" / "app")
    with crash_points.server(folder, environment({"TMPDIR": str(folder / "tmp")})) as server:
        yield Stage(folder, store, server)


# --- the laws -----------------------------------------------------------------------------------------


def broken_laws(stage: Stage) -> list[str]:
    project = stage.project
    told = project.events()
    return [
        *done_once(project, told),
        *told_wholly(told),
        *records_are_the_store(project),
        *nothing_left(stage),
    ]


def done_once(project: Project, told: list[dict[str, Any]]) -> Iterator[str]:
    """Every bead has come to its end; a closed one was closed once, and proposed as it was proven."""
    pulls = project.pulls()
    closed = Counter(row["bead"] for row in told if row["kind"] == "bead_closed")
    for bead in project.store.find(Query()).beads:
        if bead.status not in ("closed", "blocked"):
            yield f"{bead.id} is {bead.status}"
        if closed[bead.id] != (bead.status == "closed"):
            yield f"{bead.id} is {bead.status}, and was closed {closed[bead.id]} times"
        if bead.status == "closed":
            proven = bead.metadata.proven.commit if bead.metadata.proven else None
            tip = git(project.root, "rev-parse", bead.metadata.branch)
            if {proven, tip} != {pulls.get(bead.metadata.branch)}:
                yield f"{bead.id}: proven {proven}, its branch {tip}, its pull request {pulls}"


def told_wholly(told: list[dict[str, Any]]) -> Iterator[str]:
    """Each attempt has one verdict, and each claim one end."""
    verdicts = Counter((row["bead"], row["attempt"]) for row in told if row["kind"] == "verdict_given")
    yield from (f"{len(verdicts)} verdicts: {verdicts}" for count in verdicts.values() if count != 1)
    held: set[str] = set()
    for row in told:
        if row["kind"] == "bead_claimed":
            if row["bead"] in held:
                yield f"{row['bead']} was claimed again before its claim of before had an end"
            held.add(row["bead"])
        elif row["kind"] in ENDS:
            held.discard(row["bead"])
    yield from (f"the claim of {bead} has no end" for bead in held)


def records_are_the_store(project: Project) -> Iterator[str]:
    """Every record is sound, says what the store says, and there is one of each attempt."""
    state = project.root / "state"
    for bead in project.store.find(Query()).beads:
        yield from (f"{bead.id}: {text}" for text in disagreements(StateFolder(state), bead))
        count = len([*(state / "runs").glob(f"{bead.id}*.json")])
        if count != bead.metadata.attempt_count:
            yield f"{count} records of {bead.metadata.attempt_count} attempts at {bead.id}"
    for path, kind in repair.find(state, ["run", "result"]):
        yield from (f"{path.name}: {fault}" for fault in repair.check(path, kind).faults)


def nothing_left(stage: Stage) -> Iterator[str]:
    """No process, no lock of git, no half-written file, no sign of life of a dead run."""
    root, project = stage.root, stage.project
    yield from (f"process {pid} is left" for pid in project.strays())
    live = (root / "state" / "runs" / ".live").glob("*")
    marks = (root / ".ralph" / "runs").glob("*/unfinished")
    locks = (root / ".git").rglob("*.lock")
    half = [path for path in root.rglob("*.tmp") if "objects" not in path.parts]
    temporary = [*(stage.folder / "tmp").glob("tmp*"), *(stage.folder / "tmp").glob("beads-ralph-*")]
    yield from (f"{path} is left" for path in (*live, *marks, *locks, *half, *temporary))


# --- the tests ----------------------------------------------------------------------------------------


def tried(stage: Stage, points: list[int], names: list[str]) -> list[str]:
    return [f"{names[point - 1]}: {text}" for point in points for text in stage.killed_at(point)]


def test_killed_where_it_tells_most(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The points between the first verdict and the end where store, journal and records are apart."""
    with staged(tmp_path / "stage", repo, "embedded", monkeypatch) as stage:
        stage.set_up(sprint("1.1", "One", verify=RIGHT), script={"1.1": {"dev": SECOND_TRY}})
        names = stage.points()
        assert broken_laws(stage) == []
        first = next(at for at, name in enumerate(names) if "journal verdict_given" in name)
        telling = [at for at, name in enumerate(names, 1) if at > first - 4 and TELLING.search(name)]
        assert len(telling) > 10
        assert tried(stage, telling[:: max(len(telling) // selection.few(12), 1)], names) == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_every_point(
    repo: Path, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(tmp_path / "stage", repo, "embedded", monkeypatch) as stage:
        stage.set_up(sprint("1.1", "One", verify=RIGHT), script={"1.1": {"dev": SECOND_TRY}})
        names = stage.points()
        assert tried(stage, [*range(1 + part, len(names) + 1, PARTS)], names) == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_every_point_on_the_way_to_a_block(
    repo: Path, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(tmp_path / "stage", repo, "embedded", monkeypatch) as stage:
        one = sprint("1.1", "One", verify=RIGHT)
        stage.set_up(one, script={"1.1": {"dev": NEVER}}, plan_settings={"max_retry_attempts": 1})
        names = stage.points()
        assert stage.project.statuses() == {BEAD: "blocked"}
        first = next(at for at, name in enumerate(names, 1) if "after journal agent_ended" in name)
        assert tried(stage, [*range(first + part, len(names) + 1, PARTS)], names) == []


@pytest.mark.full
@pytest.mark.bd
@pytest.mark.parametrize("part", range(BD_PARTS))
def test_killed_at_points_with_bd(
    bd_repo: Path, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(tmp_path / "stage", bd_repo, "bd", monkeypatch) as stage:
        stage.set_up(sprint("1.1", "One", verify=RIGHT), script={"1.1": {"dev": SECOND_TRY}})
        names = stage.points()
        assert tried(stage, [*range(1 + part * BD_STEP, len(names) + 1, BD_PARTS * BD_STEP)], names) == []
