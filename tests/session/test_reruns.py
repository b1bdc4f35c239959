"""A red check is run again on the same commit; a flaky one passes only if it is green twice, and is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from beads_ralph.bead.evidence import Evidence, Ruling
from beads_ralph.session import reruns
from beads_ralph.session.verify import verdict
from tests.loop.plans import Project, sprint, work

BEAD = "bd-1-1-one"


def row(name: str, ruling: Ruling, **said: Any) -> Evidence:
    values: dict[str, Any] = {"kind": "verifier", "command": f"make {name}", "commit": "c0ffee"}
    return Evidence(name=name, ruling=ruling, message=f"said {ruling}", seconds=2.0, **values | said)


def settled(*runs: list[Evidence], again: bool = True) -> tuple[list[Evidence], list[str]]:
    """What the runs add up to, and which of them were made."""
    labels: list[str] = []

    async def run(label: str) -> list[Evidence]:
        labels.append(label)
        return runs[len(labels) - 1]

    return asyncio.run(reruns.settled(run, again=again)), labels


RED, GREEN = [row("test", "fail")], [row("test", "pass")]


@pytest.mark.parametrize(
    ("runs", "passes", "made"),
    [
        ([GREEN], True, 1),
        ([RED, RED], False, 2),
        ([RED, GREEN, GREEN], True, 3),
        ([RED, GREEN, RED], False, 3),
    ],
)
def test_red_is_believed_twice_and_flaky_green_twice(
    runs: list[list[Evidence]], passes: bool, made: int
) -> None:
    rows, labels = settled(*runs)
    assert (verdict(rows).ruling == "pass", len(labels)) == (passes, made)
    flaky = made == 3
    assert bool(reruns.flags(rows)) is flaky
    assert ("flaky: red, green" in rows[0].message) is flaky
    assert rows[0].seconds == 2.0 * made


def test_every_check_must_be_green_in_both_further_runs() -> None:
    """The first run ended at the first check, so nobody knows of the second one yet."""
    build, test = row("build", "pass"), row("test", "pass")
    rows, _ = settled([row("build", "fail")], [build, row("test", "fail")], [build, test])
    assert verdict(rows).ruling == "fail"
    rows, _ = settled([row("build", "fail")], [build, test], [build, test])
    assert verdict(rows).ruling == "pass"
    assert reruns.flags(rows) == ["build is flaky: on this commit it was red, green, green"]


@pytest.mark.parametrize(
    "red",
    [row("slow", "fail", details={"reason": "verifier-timeout"}), row("surroundings", "fail", command="")],
)
def test_what_would_only_cost_as_much_again_is_not_run_again(red: Evidence) -> None:
    assert settled([red]) == ([red], [""])


def test_it_can_be_turned_off() -> None:
    assert settled(RED, again=False) == (RED, [""])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_what_fails_at_random_is_found_within_twenty_runs(share: float) -> None:
    chance, found = Random(5), 0
    for _ in range(100):
        made = 0
        caught = False
        while made < 20:
            runs = [[row("test", "fail" if chance.random() < share else "pass")] for _ in range(3)]
            rows, labels = settled(*runs)
            made += len(labels)
            caught = caught or any(one.is_flaky for one in rows)
        found += caught
    assert found >= 90


def counting(place: Path, red: int) -> str:
    """A verifier that is red at its first runs, and says so where no checkout ends."""
    count = place / "count"
    return f"echo run >> {count}; test $(wc -l < {count}) -gt {red}"


def made(repo: Path, red: int, **settings: Any) -> Project:
    place = repo.parent / "outside"
    place.mkdir()
    script = {"*": {"dev": work("one.txt"), "qa": [{"json": {"status": "pass", "message": "fine"}}]}}
    check = f"`{counting(place, red)}`"
    return Project.make(
        repo, sprint("1.1", "One", verify=check), script=script, max_retry_attempts=1, **settings
    )


def test_a_flaky_check_closes_its_bead_at_the_first_attempt_and_everybody_is_told(repo: Path) -> None:
    """Red before the work, red after it, then green and green."""
    project = made(repo, red=2)
    ended = project.run().data
    assert (ended["closed"], ended["attempts"]) == ([BEAD], 1)
    flag = "is flaky: on this commit it was red, green, green"
    (given,) = project.events("verdict_given")
    assert [one["rulings"] for one in given["checks"] if one["kind"] == "verifier"] == [
        ["fail", "pass", "pass"]
    ]
    assert [flag in one for one in given["flags"]] == [True]
    (page,) = (project.root / ".ralph" / "pulls").glob("*.md")
    assert flag in page.read_text("utf-8")
    assert flag in " ".join(project.ralph("show", BEAD).out.split())
    stages = [event["stage"] for event in project.events("verifier_ended")]
    assert stages == ["baseline", "verify", "verify-again", "verify-third"]
    (seen,) = project.ralph("analyze", "--json").data["statistics"]["verifiers"]
    assert (seen["runs"], seen["red"], seen["commits_flaky"]) == (3, 1, 1)


def test_without_the_setting_the_first_run_decides(repo: Path) -> None:
    assert made(repo, red=2, rerun_red_checks=False).run().data["closed"] == []
