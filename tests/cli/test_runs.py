"""runs, events and report: the history of a repository, from its journals alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.usage import Usage
from beads_ralph.journal import runs
from beads_ralph.journal.events import (
    AgentEnded,
    AgentStarted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BlockedId,
    Event,
    PullRequestOpened,
    RunEnded,
    RunStarted,
    VerdictGiven,
    VerifierEnded,
)
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.runs import RunFolder
from tests.cli.running import compiled_here, ralph
from tests.compile.plans import plan, sprint

PLAN = plan(sprint("1.1", "One", source_branch="main"), sprint("1.2", "Two", source_branch="main"))
ONE, TWO = "bd-1-1-one", "bd-1-2-two"
NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b]0;x\x07 'q' \"d\" </style>"


def at(minute: int) -> str:
    return f"2026-11-16T08:{minute:02d}:00.000Z"


def call(seconds: float, **facts: Any) -> AgentCall:
    used = Usage(1000, 50, 200, 0.25)
    return AgentCall(
        attempt=1, role="dev", agent="x.md", program="claude", seconds=seconds, usage=used, **facts
    )


def story() -> list[Event]:
    """A bead that is closed, and one that is blocked."""
    told: list[Event] = [RunStarted(at=at(0), max_parallel=2, actor="a")]
    for bead, number in ((ONE, "1.1"), (TWO, "1.2")):
        whose: dict[str, Any] = {"bead": bead, "attempt": 1}
        told += [
            BeadClaimed(
                at=at(1),
                bead=bead,
                title=NASTY,
                bead_kind="work",
                sprint=number,
                plan_file="plan.md",
                branch=f"b/{bead}",
                max_attempts=3,
            ),
            AgentStarted(at=at(1), call=call(0.0), **whose),
            AgentEnded(at=at(3), call=call(120.0), **whose),
            VerifierEnded(
                at=at(4),
                name="tests",
                ruling="pass",
                exit_code=0,
                seconds=30.0,
                commit="c",
                stage="verify",
                **whose,
            ),
        ]
    verdict: dict[str, Any] = {"flags": (), "will_retry": False, "checks": ()}
    told += [
        VerdictGiven(at=at(5), bead=ONE, attempt=1, ruling="pass", message="fine", **verdict),
        PullRequestOpened(
            at=at(5),
            bead=ONE,
            number=7,
            url="https://h.example/7",
            branch="b",
            target="main",
            commit="c" * 40,
        ),
        BeadClosed(at=at(6), bead=ONE, reason="proven"),
        VerdictGiven(at=at(6), bead=TWO, attempt=1, ruling="fail", message=NASTY, **verdict),
        BeadBlocked(at=at(7), bead=TWO, reason=NASTY),
    ]
    return told


def ending() -> RunEnded:
    return RunEnded(
        at=at(10),
        ended="blocked",
        reason="1 bead is blocked",
        closed=(ONE,),
        blocked=(BlockedId(TWO, NASTY),),
        waiting_for=(),
        finished=(),
        left_for_people=(),
        pull_requests=(),
        attempts=2,
        duration_seconds=600.0,
        usage=Usage(2000, 100, 400, 0.5),
        next=("beads-ralph retry --failed",),
    )


def written(repo: Path, run_id: str, events: list[Event]) -> RunFolder:
    folder = RunFolder(repo / ".ralph", run_id)
    journal = Journal(folder.journal, run_id)
    for event in events:
        journal.emit(event)
    journal.close()
    return folder


@pytest.fixture
def history(repo: Path) -> Path:
    """A run that told its end, and one that was killed in the middle of its second bead."""
    compiled_here(repo, PLAN)
    written(repo, "20261116T080000000Z-aaaa", [*story(), ending()])
    killed = written(repo, "20261116T090000000Z-bbbb", story()[:-1])
    with killed.journal.open("a", encoding="utf-8") as file:
        file.write('{"kind": "bead_clo')
    return repo


def test_runs_are_listed_with_their_ends_and_costs(history: Path) -> None:
    first, second = ralph("runs", "list", "--json", cwd=history).data["runs"]
    assert (first["ended"], first["closed"], first["blocked"], first["attempts"]) == ("blocked", 1, 1, 2)
    assert (first["usage"]["cost_usd"], first["duration_seconds"]) == (0.5, 600.0)
    assert (second["ended"], second["closed"], second["blocked"], second["attempts"]) == ("killed", 1, 0, 2)
    assert second["usage"] == first["usage"], "counted from its calls"
    text = ralph("runs", "list", cwd=history).out
    assert "20261116T080000000Z-aaaa  blocked  2026-11-16 08:00 UTC, 10 min" in text
    assert "1 closed, 1 blocked, 2 attempts, $0.50, 2,100 tokens" in text
    assert ralph("runs", "list", "--limit", "1", "--json", cwd=history).data["runs"] == [second]


def test_the_quick_row_of_a_run_is_that_of_its_whole_account(history: Path) -> None:
    for row in ralph("runs", "list", "--json", cwd=history).data["runs"]:
        whole = ralph("runs", "show", row["run_id"], "--json", cwd=history).data
        assert {key: whole[key] for key in row} == row


@pytest.mark.parametrize("command", [("runs", "show"), ("events",), ("report",)])
def test_a_run_is_named_by_its_beginning_or_as_the_latest(history: Path, command: tuple[str, ...]) -> None:
    told = [ralph(*command, name, "--json", cwd=history) for name in ("20261116T08", "latest", "2026", "x")]
    assert [ran.data["run_id"] for ran in told[:2]] == [
        "20261116T080000000Z-aaaa",
        "20261116T090000000Z-bbbb",
    ]
    assert "2 runs begin with 2026: 20261116T080000000Z-aaaa, " in told[2].error["message"]
    assert told[3].error["suggested_action"].endswith("beads-ralph runs list")


def test_a_run_shows_what_became_of_each_bead(history: Path) -> None:
    found = ralph("runs", "show", "20261116T08", "--json", cwd=history).data
    assert [(bead["id"], bead["result"], bead["attempts"]) for bead in found["beads"]] == [
        (ONE, "closed", 1),
        (TWO, "blocked", 1),
    ]
    assert [(one["program"], one["calls"]) for one in found["programs"]] == [("claude", 2)]
    text = ralph("runs", "show", cwd=history).out
    assert f"▶ {TWO}" in text
    assert "https://h.example/7" in text


def test_a_running_run_is_no_killed_one(history: Path) -> None:
    with runs.exclusive(history / ".ralph", "20261116T090000000Z-bbbb"):
        first, second = ralph("runs", "list", "--json", cwd=history).data["runs"]
    assert (first["ended"], second["ended"]) == ("blocked", "running")


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("run", ["20261116T08", "20261116T09"])
def test_the_page_of_any_run_stands_alone_whatever_its_words(history: Path, run: str) -> None:
    page = history / "out" / "run.html"
    page.parent.mkdir()
    assert ralph("report", run, "--html", page, cwd=history).code == 0
    found = Tags(page.read_text("utf-8"))
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "form", "base"}
    assert not [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)]
    links = [str(attrs["href"]) for tag, attrs in found.tags if tag == "a"]
    assert "https://h.example/7" in links
    assert {f"#{ONE}", f"#{TWO}"} <= {*links}, "the graph leads to the beads"
    assert {attrs.get("id") for _, attrs in found.tags} >= {ONE, TWO, "timeline"}
    for words in ("2026-11-16 08:01:00", "2026-11-16 08:04:00", "claude", "$0.50", "1 of 2", NASTY[:25]):
        assert words in found.text, words
    assert 'class="edge"' in page.read_text("utf-8"), "one waits for the other"
    outputs = [link for link in links if not link.startswith(("#", "http"))]
    assert all((page.parent / link).exists() for link in outputs)


def test_a_page_needs_no_store(history: Path) -> None:
    (history / ".ralph" / "beads.db").unlink()
    page = history / "run.html"
    assert ralph("report", "20261116T08", "--html", page, cwd=history).code == 0
    assert re.search(r"blocked, 1 attempt", page.read_text("utf-8"))
