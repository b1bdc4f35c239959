"""The demonstration does the whole job: merged and tested code, a liar caught, a report to open."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.model import Bead
from beads_ralph.journal import journal, runs
from beads_ralph.journal.accounts import RunAccount
from beads_ralph.journal.events import AgentStarted, Event, ProposedBead, WorktreePrepared, event_of
from beads_ralph.plan.draw import Drawing, Node
from beads_ralph.report import run_page
from beads_ralph.report.run_page import ShownBead
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.cli.running import ralph
from tests.loop.plans import checkouts_of

LIAR = "bd-2a-1-reminders"
REPAIRED = "bd-1-2b-command-line"
MERGED = "bd-1-3-integration-of-storage-and-com"
VOID = ("meta", "br")
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"
BOARDS = (PICTURE.with_name("terminal-board.svg"), PICTURE.with_name("web-board.png"))
"""Made anew with `make picture`."""


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_the_demonstration_ends_in_merged_tested_code(tmp_path: Path) -> None:
    ran = ralph("demo", "--dir", tmp_path / "shown", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert ran.data["ended"] == "done"
    root = Path(ran.data["root"])
    beads = {bead.id: bead for bead in EmbeddedStore(root).find(Query()).beads}
    assert list(beads) == ran.data["bead_ids"]
    told = list(journal.read(_latest(root).journal))
    _check_main(root, beads, tmp_path)
    _check_what_went_wrong(beads, told)
    _check_nothing_is_left(root, tmp_path)
    text = Path(ran.data["report"]).read_text(encoding="utf-8")
    _check_page(text)
    assert all(bead.title in text for bead in beads.values())
    assert text.count("<li><b>") >= len(beads)  # a pull request each
    _check_records(root, Path(ran.data["analysis"]), list(beads))


def _check_records(root: Path, analysis: Path, beads: list[str]) -> None:
    """The records of the run validate, and the page made of them shows every bead."""
    checked = ralph("state", "validate", "--all", "--json", cwd=root)
    assert checked.code == 0, checked.out
    found = ralph("analyze", "--json", cwd=root).data["statistics"]
    assert (found["total_runs"], found["success"], found["finished"]) == (len(beads),) * 3
    assert found["retry_count"] >= 2  # the one that lied, and the one that was sent back
    text = analysis.read_text(encoding="utf-8")
    assert all(bead in text for bead in beads)
    assert f'href="{analysis.name}"' in (root / "report.html").read_text(encoding="utf-8")


def _latest(root: Path) -> runs.RunFolder:
    found = runs.latest(root / ".ralph")
    assert found is not None
    return found


def _check_main(root: Path, beads: dict[str, Bead], tmp_path: Path) -> None:
    """Every sprint's proven commit is in main, and a fresh clone passes its tests."""
    assert git(root, "symbolic-ref", "--short", "HEAD") == "main"
    assert git(root, "status", "--porcelain") == ""
    for bead in beads.values():
        assert bead.status == "closed"
        proven = bead.metadata.to_json()["proven"]["commit"]
        assert git(root, "rev-parse", f"refs/heads/{bead.metadata.branch}") == proven
        git(root, "merge-base", "--is-ancestor", proven, "main")
    git(tmp_path, "clone", "--quiet", str(root), "clone")
    suite = [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
    done = subprocess.run(
        suite, cwd=tmp_path / "clone", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 0 tests" not in done.stderr


def _check_what_went_wrong(beads: dict[str, Bead], told: list[Event]) -> None:
    liar = beads[LIAR].metadata
    assert liar.attempt_count == 2
    assert "nothing was changed" in str([call.feedback_from_qa for call in liar.dev_calls])
    repaired = beads[REPAIRED].metadata
    assert [call.status for call in repaired.qa_calls] == ["fail", "pass"]
    assert "overdue ones first" in str([call.feedback_from_qa for call in repaired.dev_calls])
    roles = [event.call.role for event in told if isinstance(event, AgentStarted) and event.bead == MERGED]
    assert roles == ["merge", "dev", "qa"]
    conflicts = [event.conflict for event in told if isinstance(event, WorktreePrepared)]
    assert [words for words in conflicts if words] == [
        words for words in conflicts if "todo/model.py" in words
    ]
    assert any(conflicts)


def _check_nothing_is_left(root: Path, tmp_path: Path) -> None:
    assert len(git(root, "worktree", "list").splitlines()) == 1
    assert checkouts_of(root) == []
    assert not (tmp_path / "shown-worktrees").exists()


@pytest.mark.full
def test_people_are_told_what_happened_and_where_to_look(tmp_path: Path) -> None:
    ran = ralph("demo", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.out + ran.err
    assert "✓ 8 sprints proven, merged into main and tested there" in ran.out
    assert "2a.1  attempt 1 was sent back: nothing was changed" in ran.out
    for words in ("report.html", "git log --graph", f"beads-ralph show {LIAR}", "beads-ralph init"):
        assert words in ran.out
    assert f"✓ {LIAR}" in ran.err  # live progress
    (place,) = set(re.findall(r"cd (\S+/todo-app)", ran.out))
    _check_picture((ran.err + ran.out).replace(place, "/tmp/todo-app"))


def _check_picture(told: str) -> None:
    """The recorded picture shows this very demonstration: the same steps, whatever the times and hashes."""
    shown = _picture_lines()
    everything = "".join(map(_bare, shown))
    assert [line for line in told.splitlines() if _bare(line) not in everything] == [], "run: make picture"
    told_whole = _bare(told)
    assert [line for line in shown if _bare(line) not in told_whole] == [], "run: make picture"


def _bare(text: str) -> str:
    """Without what differs from run to run: hashes, times, who was first, where lines break."""
    text = re.sub(r"proven on \w+|pulls/\d+|[\d.]+ s\b|^! .* will conflict .*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\s", "", text)


def _picture_lines(picture: Path = PICTURE) -> list[str]:
    lines: dict[str, str] = {}
    shown = re.findall(r'<text[^>]*clip-path="([^"]+)"[^>]*>(.*?)</text>', picture.read_text("utf-8"))
    for place, text in shown:
        lines[place] = lines.get(place, "") + unescape(text).replace("\xa0", " ")
    return list(lines.values())


@pytest.mark.parametrize("picture", [PICTURE, BOARDS[0]], ids=lambda path: path.name)
def test_a_drawn_picture_fetches_nothing(picture: Path) -> None:
    text = picture.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@font-face|<script|<image", text)


def test_the_pictures_are_shown() -> None:
    readme = (PICTURE.parents[2] / "README.md").read_text("utf-8")
    for picture in (PICTURE, *BOARDS):
        assert f"](docs/images/{picture.name})" in readme
        assert picture.exists()
    assert any("lied" in line for line in _picture_lines())


def test_the_boards_are_pictured_in_the_middle_of_this_demonstration() -> None:
    """Each of its sprints stands in the terminal's list, some done, some at work, some to come."""
    plan = (files("beads_ralph.demo") / "todo-app.md").read_text("utf-8")
    titles = re.findall(r"^### Sprint (\S+): (.+)$", plan, re.MULTILINE)
    shown = _picture_lines(BOARDS[0])
    for number, title in titles:
        assert any(number in line and title in line for line in shown), "run: make picture"
    assert {"▶", "…", "✓"} <= {line.strip()[:1] for line in shown}
    assert BOARDS[1].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


# --- the page -----------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """Checks that tags nest, and gathers what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action", "data")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _check_page(text: str) -> Outline:
    outline = Outline()
    outline.feed(text)
    outline.close()
    assert outline.open == []
    assert not outline.seen & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not [address for address in outline.addresses if ":" in address or address.startswith("/")]
    assert "url(" not in text
    assert "@import" not in text
    assert 'name="viewport"' in text
    inner = [address[1:] for address in outline.addresses if address.startswith("#")]
    assert set(inner) <= set(outline.ids)
    return outline


NASTY = "<script>alert('x')</script> & \"quoted\" </style>"


def _event(kind: Any, second: int, attempt: int | None = None, **data: Any) -> Event:
    at = f"2026-03-02T10:00:{second:02d}.000Z"
    row = {"kind": kind, "at": at, "run_id": "run", "bead": "bd-1-1-x", "attempt": attempt, **data}
    return event_of(row)


def _subject(**changes: Any) -> run_page.PageSubject:
    bead = make_bead("bd-1-1-x", title=NASTY)
    told = [
        _event("bead_claimed", 0),
        _event("worktree_prepared", 1, conflict=f"merging {NASTY} into y: a.py"),
        _event("agent_ended", 3, 1, role="dev", agent=NASTY, seconds=1.5, problem=NASTY),
        _event("verdict_given", 4, 1, ruling="fail", message=NASTY),
        _event("agent_ended", 5, 2, role="dev", agent="dev", seconds=0.5, problem=""),
        _event("verifier_ended", 6, 2, name=NASTY, ruling="fail", exit_code=1, seconds=0.5, stage="verify"),
    ]
    pull = ProposedBead(NASTY, None, None, NASTY, NASTY, "0" * 40)
    ended = RunAccount("run", ended="blocked", reason=NASTY, attempts=2, pull_requests=(pull,))
    drawing = Drawing.of([Node("1.1", "bd-1-1-x", NASTY, 1)], {"1.1": []})
    return replace(
        run_page.PageSubject(NASTY, drawing, [ShownBead.of(bead)], told, ended, closing=NASTY), **changes
    )


def test_whatever_agents_and_plans_say_stays_text() -> None:
    text = run_page.html(_subject())
    _check_page(text)
    assert "&lt;script&gt;" in text
    assert text.count("</style>") == 1


def test_an_attempt_that_was_cut_off_is_shown_as_such() -> None:
    assert list(run_page.story(_subject()))[-1][1].startswith("attempt 2 was sent back")
    assert "interrupted" in run_page.html(_subject())


def test_the_page_shows_flags_and_what_a_close_rests_on() -> None:
    verdict = {"ruling": "pass", "message": "fine", "flags": [NASTY, "fewer tests"]}
    row = {"name": "t", "kind": "verifier", "command": "t", "ruling": "pass", "commit": "0" * 40}
    state = {"proven": {"commit": "0" * 40}, "last_verdict": {**verdict, "evidence": [row]}}
    bead = make_bead("bd-1-1-x", status="closed", metadata=state)
    told = [_event("bead_claimed", 0), _event("verdict_given", 1, 1, **verdict)]
    text = run_page.html(_subject(beads=[ShownBead.of(bead)], events=told))
    _check_page(text)
    assert "closed, proven, 1 attempt, 2 flags" in text
    assert text.count('class="flag">look at: ') == 2


def test_a_run_without_events_or_beads_is_a_page_too() -> None:
    _check_page(run_page.html(_subject(beads=[], events=[], drawing=Drawing.of([], {}))))


@pytest.mark.parametrize("wide", [1, 2, 7])
def test_no_two_boxes_of_the_graph_overlap(wide: int) -> None:
    names = [f"1.{number}" for number in range(wide)]
    edges: dict[str, list[str]] = {"0.1": [], **{name: ["0.1"] for name in names}}
    edges |= {f"2.{number}": [names[number // 2]] for number in range(wide)}
    drawing = Drawing.of([Node(name, f"bd-{name}", name, 1) for name in edges], edges)
    text = run_page.html(_subject(drawing=drawing, beads=[]))
    boxes = [(int(x), int(y)) for x, y in re.findall(r'<rect class="box[^>]* x="(\d+)" y="(\d+)"', text)]
    assert len(boxes) == len(edges)
    for at, (x, y) in enumerate(boxes):
        assert not [
            other for other in boxes[at + 1 :] if other[1] == y and abs(other[0] - x) < run_page.BOX[0]
        ]
