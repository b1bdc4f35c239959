"""The page: whole by itself, fit for a phone, safe whatever records say; looked at in a real Chromium."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

from beads_ralph.journal.records import Attempt
from beads_ralph.report import tallied
from beads_ralph.report.advice import advice
from beads_ralph.report.page import AnalysisSubject, html, last_run
from beads_ralph.report.tally import Stretch
from tests.report.browser import chromium, colours
from tests.report.made import START, attempt, check, failed

FIGURES = {"outcomes", "costs", "durations", "gantt", "failures"}
VOID = ("meta", "br")
HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>"\'&\x00\ud800' + "long-" * 60


def page(rows: list[Attempt]) -> str:
    tally = tallied(rows, stretches=True)
    return html(AnalysisSubject(tally, advice(tally), START + timedelta(days=40), "2026-01-01", 2))


def many() -> list[Attempt]:
    chance = Random(7)
    rows: list[Attempt] = []
    for number in range(80):
        start = START + timedelta(hours=9 * number)
        extra = {
            "run_id": f"run-{number // 20}",
            "kind": "work",
            "parallel": 1 + number % 3,
            "checks": [check("pass")],
            "usage": {"cost_usd": 0.5},
        }
        made: dict[str, Any] = {
            "agent": chance.choice(["claude", "codex", "a-program-with-quite-a-long-name"]),
            "extra": extra,
        }
        if chance.random() < 0.3:
            reason = chance.choice(["qa-failed", "verifier-failed", "session-exited-without-markers"])
            rows.append(failed(f"bd-{number}", started_at=start, latest=False, failure_reason=reason, **made))
            start += timedelta(minutes=6)
            made["attempt"] = 2
        status = chance.choices(["done", "failed", "timeout", "running"], [8, 1, 1, 1])[0]
        seconds = None if status == "running" else chance.expovariate(1 / 400)
        rows.append(attempt(f"bd-{number}", started_at=start, status=status, seconds=seconds, **made))
    return rows


class Tags(HTMLParser):
    """Checks that what is opened is closed, and gathers attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    assert found.open == []
    return found


def test_the_page_needs_nothing_else_and_runs_no_script() -> None:
    found = tags(page(many()))
    assert not found.names & {"script", "link", "img", "iframe", "object"}
    assert [value for name, value in found.attributes if name == "src" or name.startswith("on")] == []
    links = [value or "" for name, value in found.attributes if name == "href"]
    assert links, "beads that failed lead to their records"
    assert all(link.startswith("file:///") and link.endswith(".json") for link in links)
    assert "url(" not in page(many())


def test_whatever_a_record_says_is_text() -> None:
    row = failed(HOSTILE, agent=HOSTILE, model=HOSTILE, template=HOSTILE, failure_reason=HOSTILE)
    text = page([row] * 4)
    found = tags(text)
    assert not found.names & {"script", "img"}
    text.encode("utf-8")


def test_every_plot_has_a_title_and_the_same_figures_as_a_table() -> None:
    text = page(many())
    figures = re.findall(r'<figure id="(\w+)">(.*?)</figure>', text, flags=re.DOTALL)
    assert {name for name, _ in figures} == FIGURES
    for _, body in figures:
        assert re.search(r'<svg role="img"[^>]*aria-label="[^"]+"><title>[^<]+</title>', body)
        assert body.count("<tr>") > 1


def test_axes_count_whole_runs_and_long_ones_have_dates() -> None:
    rows = [attempt(f"bd-{n}", extra={"run_id": "r"}) for n in range(273)]
    rows.append(attempt("late", started_at=START + timedelta(days=72), extra={"run_id": "r"}))
    text = page(rows)
    assert "136.5" not in text
    assert f"{START:%Y-%m-%d %H:%M}</text>" in text
    assert "passed at first" in text
    assert "for each closed bead" in text


def test_a_page_without_records_says_so_and_draws_nothing() -> None:
    text = page([])
    tags(text)
    assert "<svg" not in text
    assert "No finished run yet" in text


def stretch(bead: str, minutes: float, run_id: str | None) -> Stretch:
    start = START + timedelta(minutes=minutes)
    return Stretch(start, start + timedelta(minutes=1), bead, 1, "success", run_id)


def test_the_last_run_is_the_one_that_began_an_attempt_last() -> None:
    rows = [stretch("late", 50, "b"), stretch("a", 0, "a"), stretch("early", 1, "b"), stretch("x", 2, None)]
    assert [row.bead for row in last_run(rows)] == ["early", "late"]


def test_without_the_name_of_a_run_a_long_quiet_ends_it() -> None:
    rows = [stretch("old", 0, None), stretch("new", 90, None), stretch("newer", 115, None)]
    assert [row.bead for row in last_run(rows)] == ["new", "newer"]
    assert last_run([]) == []


def test_a_real_browser_shows_it_on_a_phone_and_on_a_desk_by_day_and_by_night(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page(many()), encoding="utf-8")
    hostile = page([*many(), failed(HOSTILE, agent=HOSTILE, failure_reason=HOSTILE)])
    (tmp_path / "hostile.html").write_text(hostile, encoding="utf-8")
    seen: dict[tuple[int, str], set[bytes]] = {}
    with chromium(tmp_path / "profile") as browser:
        for name in ("page.html", "hostile.html"):
            for width in (320, 1280):
                for scheme in ("light", "dark"):
                    browser.open(tmp_path / name, width, scheme)
                    assert browser.value("document.documentElement.scrollWidth") <= width
                    sizes = browser.value(
                        "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect())"
                        ".map(r => [r.width, r.height])"
                    )
                    assert len(sizes) == len(FIGURES)
                    assert all(wide > 200 and tall > 30 for wide, tall in sizes), sizes
                    small = browser.value(
                        "Math.min(...[...document.querySelectorAll('svg text')]"
                        ".map(t => parseFloat(getComputedStyle(t).fontSize)))"
                    )
                    assert small >= 12
                    assert browser.value("document.images.length + document.scripts.length") == 0
                    seen[width, scheme] = colours(browser.picture())
                    (asked,) = browser.said("Network.requestWillBeSent")
                    assert asked["request"]["url"] == (tmp_path / name).as_uri()
                    assert (
                        browser.said("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
                        == []
                    )
    assert all(len(found) > 20 for found in seen.values()), {key: len(found) for key, found in seen.items()}
    assert seen[320, "light"] != seen[320, "dark"]
