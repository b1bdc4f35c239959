"""The benchmarks run and report; how fast things are is not a test's business."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beads_ralph.agents.protocol import AGENTS
from beads_ralph.plan import parse
from bench import plans
from bench.peer_adapters import BareMake, BeadsRalph, Task
from bench.peers import staged
from bench.report import Judge, Row, seconds, table
from tests.real.clis import DEFAULT
from tests.real.conftest import installed

PROJECT = Path(__file__).parent.parent


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *words]
    return subprocess.run(
        command,
        cwd=PROJECT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.full
def test_a_quick_run_prints_one_table_and_writes_the_same_rows(tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    done = run("startup", "embedded-claims", "pour", "analyze", "--quick", "--json", str(target))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(target.read_text("utf-8"))
    assert report["quick"] is True
    for row in report["rows"]:
        assert row["measurement"] in done.stdout
        assert row["value"] in done.stdout
        # Only what can be counted is judged at small sizes, and the counts must be right.
        assert row["ok"] is (True if row["bound"].startswith("=") else None)
    assert any(row["ok"] for row in report["rows"])


@pytest.mark.full
@pytest.mark.bd
def test_pours_are_measured_against_bds_own(tmp_path: Path, bd_path: Path) -> None:
    target = tmp_path / "rows.json"
    words = ("bd-pour", "--rows", "2", "--quick", "--json", str(target))
    done = run(*words, BEADS_RALPH_BD=str(bd_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(target.read_text("utf-8"))["rows"]
    assert [row["measurement"] for row in rows] == [
        "bd mol pour, 2 rows one by one",
        "pour of 2 rows into bd, a formula that bd pours",
        "pour of 2 rows into bd, one that is rendered here",
    ]


@pytest.mark.full
def test_whole_runs_are_measured_and_leave_nothing(tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    done = run("overhead", "scale", "--quick", "--json", str(target))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["measurement"]: row for row in json.loads(target.read_text("utf-8"))["rows"]}
    assert rows["a whole run against what it cannot avoid"]["value"]
    assert rows["… processes left"]["ok"]
    assert rows["… check-outs left"]["ok"]
    profile = json.loads(target.with_suffix(".profile.json").read_text("utf-8"))["overhead"]
    assert profile["beads"] > 0
    assert sum(profile["shares"].values()) == pytest.approx(1)


@pytest.mark.full
def test_the_first_agent_is_timed_in_small_and_in_full_stores(tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    done = run("first-agent", "full-store", "--quick", "--json", str(target))
    assert done.returncode == 0, done.stdout + done.stderr
    values = {row["measurement"]: row["value"] for row in json.loads(target.read_text("utf-8"))["rows"]}
    assert "nan" not in " ".join(values.values())
    assert values["first agent, 100 beads in the store against 10"]


def test_a_program_that_believes_its_agents_is_told_from_one_that_does_not(tmp_path: Path) -> None:
    tasks = [Task("t1"), Task("t2", after="t1")]
    for peer, believed in ((BareMake(), {"t1", "t2"}), (BeadsRalph(), set[str]())):
        place = tmp_path / peer.program.rpartition("/")[2]
        trial = staged(peer, place, tasks, "lies", 60.0).run()
        assert trial.code is not None
        assert {name for kind, name, _ in trial.log if kind == "start"} >= {"t1"}
        assert peer.done(place / "app", tasks) == believed


@pytest.mark.full
@pytest.mark.real_agents
def test_calls_of_real_clis_are_measured_and_stay_on_this_machine(tmp_path: Path) -> None:
    folder = {installed(name).parent.parent for name in DEFAULT}.pop()
    target = tmp_path / "rows.json"
    done = run("agents", "memory", "--quick", "--json", str(target), BEADS_RALPH_AGENTS=str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["measurement"]: row for row in json.loads(target.read_text("utf-8"))["rows"]}
    for name in DEFAULT:
        title = AGENTS[name].profile.title
        for what in (
            "from its start to its first request",
            "most memory at once",
            "with us against bare, of 1",
        ):
            assert rows[f"{title}: {what}"]["value"]
    assert rows["requests of theirs to other machines"]["ok"]
    assert rows["5 MB from Claude Code: our memory against 1 MB"]["value"]
    assert rows["… jobs that ended well"]["ok"]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    done = run("plan-chekc", "--quick")
    assert done.returncode == 2
    assert "plan-chekc" in done.stderr
    assert "plan-check" in done.stderr


@pytest.mark.parametrize("sprints", [1, 19, 20, 41, 130])
def test_a_made_up_plan_has_the_sprints_asked_for_and_no_fault(sprints: int) -> None:
    plan = parse(plans.plan(sprints))
    assert len(plan.sprints) == len({sprint.id.text for sprint in plan.sprints}) == sprints
    assert plan.faults == ()
    assert plan.warnings == ()
    assert plans.plan(sprints) == plans.plan(sprints)


def test_a_broken_bound_is_over_and_a_quick_run_judges_only_counts() -> None:
    full, quick = Judge(quick=False), Judge(quick=True)
    assert full.at_most("time", 1.51, 1.5).verdict == "over"
    assert full.at_most("time", 1.5, 1.5).verdict == "ok"
    assert full.at_least("speed", 99.0, 100.0).verdict == "over"
    assert quick.at_most("time", 9.0, 1.5).verdict == ""
    assert quick.exactly("claims", 7, 8).verdict == "over"


def test_the_table_lines_up_and_keeps_every_cell() -> None:
    rows = [Row("short", "1 s"), Row("a longer one", "0.50 x", "≤ 2 x", True)]
    lines = table(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert lines[-1].split() == ["a", "longer", "one", "0.50", "x", "≤", "2", "x", "ok"]
    assert lines[-2].index("1 s") + len("1 s") == lines[-1].index("0.50 x") + len("0.50 x")


@pytest.mark.parametrize(
    ("value", "shown"), [(123.4, "123 s"), (1.0, "1 s"), (0.0125, "12.5 ms"), (0.000_25, "250 µs")]
)
def test_a_time_is_shown_in_a_unit_that_fits(value: float, shown: str) -> None:
    assert seconds(value) == shown
