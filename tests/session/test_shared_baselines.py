"""One baseline for beads that start alike: no check runs twice to say the same, none is taken on trust."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beads_ralph.bead.evidence import Evidence, Ruling
from beads_ralph.process.opened_files import OpenedFiles
from beads_ralph.session.shared_baselines import Baseline, Baselines
from tests.loop.plans import Project, names, sprint, work

ALIKE = ("bd-1a-1-one", "bd-1b-1-two", "bd-1c-1-three")


def baselines_run(project: Project) -> list[str]:
    ended = [row for row in project.events("verifier_ended") if row["stage"] == "baseline"]
    return names(ended)


@pytest.mark.parametrize(("verify", "ran"), [("`test -f plan.md`", 1), ("`test -f one.txt`", 3)])
def test_beads_that_start_alike_share_what_passed(repo: Path, verify: str, ran: int) -> None:
    sprints = [sprint("1a.1", "One", verify=verify), sprint("1b.1", "Two", verify=verify)]
    sprints.append(sprint("1c.1", "Three", verify=verify))
    project = Project.make(repo, *sprints, script={"*": {"dev": work("one.txt")}})
    done = project.run("--max-parallel", "3")
    assert sorted(done.data["closed"]) == sorted(ALIKE), done.out
    first = baselines_run(project)
    assert len(first) == ran
    taken = {row["bead"]: row.get("taken_for") for row in project.events("baseline_taken")}
    shared = {name: (None if name in first else first[0]) for name in ALIKE}
    assert taken == shared
    for name in ALIKE:
        before = project.metadata(name)["red_before"]
        assert [*before.values()] == [ran > 1]


def test_other_checks_or_another_commit_have_a_baseline_of_their_own(repo: Path) -> None:
    """The second sprint starts where the first has ended, the third has another check."""
    sprints = [sprint("1a.1", "One", verify="`true`"), sprint("1a.2", "Two", verify="`true`")]
    project = Project.make(repo, *sprints, sprint("1b.1", "Three", verify="`test -f plan.md`"))
    assert project.run().code == 0
    assert sorted(baselines_run(project)) == ["bd-1a-1-one", "bd-1a-2-two", "bd-1b-1-three"]


# --- who waits for whom -----------------------------------------------------------------------------


def taken(bead: str, ruling: Ruling = "pass") -> Baseline:
    return Baseline(bead, (Evidence("t", "verifier", "true", "c", ruling, ""),), OpenedFiles())


async def asked(shared: Baselines, bead: str, outcome: Baseline | BaseException) -> str:
    async def take() -> Baseline:
        await asyncio.sleep(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return (await shared.of("same", take)).bead


@pytest.mark.parametrize(
    ("first", "answers"),
    [
        (taken("a"), ["a", "a", "a"]),
        (taken("a", "fail"), ["a", "b", "c"]),
        (RuntimeError("no space"), [RuntimeError, "b", "c"]),
        (asyncio.CancelledError(), [asyncio.CancelledError, "b", "c"]),
    ],
)
def test_whoever_waits_goes_on_whatever_became_of_the_first(
    first: Baseline | BaseException, answers: list[object]
) -> None:
    async def all_three() -> list[object]:
        shared = Baselines()
        waiting = [asked(shared, "a", first), asked(shared, "b", taken("b")), asked(shared, "c", taken("c"))]
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = asyncio.run(all_three())
    assert [type(one) if isinstance(one, BaseException) else one for one in found] == answers


def test_one_that_stops_waiting_takes_nothing_from_the_others() -> None:
    async def left() -> str:
        shared, go = Baselines(), asyncio.Event()

        async def slow() -> Baseline:
            await go.wait()
            return taken("a")

        first = asyncio.create_task(shared.of("same", slow))
        await asyncio.sleep(0)
        gone, last = (asyncio.create_task(asked(shared, name, taken(name))) for name in "bc")
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        go.set()
        await first
        return await last

    assert asyncio.run(left()) == "a"
