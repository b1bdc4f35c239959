"""The web board in a real Chromium: every page, every order, two browsers, a server that dies."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from beads_ralph.bead.items import Item
from beads_ralph.journal import runs
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import ItemQuery
from tests.board.journals import RUN
from tests.board.sample import large_run
from tests.board.web_server import serving
from tests.cli.running import RALPH, environment
from tests.conftest import GIVEN_PATH, IN_CI
from tests.items import make_item
from tests.loop.plans import Project, passes, sprint
from tests.report.browser import NAMES

PATIENCE = 60_000
AXE = os.environ.get("BEADS_RALPH_AXE")
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"


def needed(found: str | None, what: str) -> str:
    """Without it the test is skipped, and fails in CI: there a skip would hide a gap."""
    if found:
        return found
    (pytest.fail if IN_CI else pytest.skip)(f"needs {what}")
    raise AssertionError


@pytest.fixture
def browser() -> Iterator[Browser]:
    program = next((one for name in NAMES if (one := shutil.which(name, path=GIVEN_PATH))), None)
    with sync_playwright() as play:
        found = play.chromium.launch(
            executable_path=needed(program, "chromium: run tools/system-packages"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        yield found
        found.close()


@contextmanager
def page_of(
    browser: Browser, address: str, width: int = 1280, scheme: Any = "light", but: str = "net::ERR"
) -> Iterator[Page]:
    """A page of a person of its own; whatever it complains of fails the test, `but` for what it may."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda problem: complaints.append(str(problem)))
    page.on("dialog", lambda dialog: complaints.append(f"an alert: {dialog.message}"))
    page.goto(address)
    yield page
    context.close()
    assert [one for one in complaints if not re.search(but, one)] == []


def shot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


# --- every page ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_every_page_is_sound_and_keeps_nobody_out(
    repo: Path, browser: Browser, width: int, scheme: str
) -> None:
    axe = Path(needed(AXE, "axe-core: run tools/axe/install")).read_text("utf-8")
    with large_run(repo) as run, serving(repo) as served:
        pages = {
            "board": ("/", ".card"),
            "list": ("/", "tbody tr"),
            "graph": ("/graph", ".node"),
            "timeline": ("/timeline", ".grow svg"),
            "bead": (f"/beads/{run.working[0]}", "#script .said, #script .note-line"),
            "runs": ("/runs", "tbody tr"),
            "analysis": ("/analysis", ".empty, table"),
        }
        with page_of(browser, served.address, width, scheme) as page:
            for name, (path, wanted) in pages.items():
                page.goto(served.url + path)
                if name == "list":
                    page.keyboard.press("l")
                expect(page.locator(wanted).first).to_be_visible(timeout=PATIENCE)
                expect(page.locator("#live")).to_have_text("live", timeout=PATIENCE)
                shot(page, f"{name}-{width}")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                page.evaluate(axe)
                found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                assert [(one["id"], [part["html"][:200] for part in one["nodes"]]) for one in found] == []
                page.evaluate("localStorage.clear()")


def test_the_keyboard_alone_finds_and_opens_a_bead(repo: Path, browser: Browser) -> None:
    with (
        large_run(repo, phases=3) as run,
        serving(repo) as served,
        page_of(browser, served.address) as page,
    ):
        expect(page.locator(".card").first).to_be_visible(timeout=PATIENCE)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("search")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("put together")
        expect(page.locator(".card")).to_have_count(3)
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/beads/*")
        assert page.url.rsplit("/", 1)[1] in run.names
        expect(page.locator("#live")).to_have_text("live", timeout=PATIENCE)
        page.keyboard.press("g")
        page.keyboard.press("w")
        page.wait_for_url("**/graph")
        expect(page.locator(".node")).to_have_count(len(run.names), timeout=PATIENCE)
        before = page.locator("#stage svg > g").get_attribute("transform")
        page.keyboard.press("+")
        assert page.locator("#stage svg > g").get_attribute("transform") != before


# --- orders -------------------------------------------------------------------------------------------

HELD = [
    {"run": 'echo working on it; until [ -e "$HOME/go" ]; do sleep 0.05; done'},
    {"run": 'echo "$BEADS_RALPH_ATTEMPT" >> "$BEADS_RALPH_BEAD.txt"'},
    {"commit": "work"},
]


def test_a_real_run_is_watched_and_steered_from_two_browsers(
    repo: Path, browser: Browser, isolated: Path
) -> None:
    project = Project.make(
        repo, sprint("1.1", "One"), sprint("1.2", "Two"), script={"*": {"dev": HELD, "qa": passes()}}
    )
    with (
        serving(repo) as served,
        page_of(browser, served.address) as page,
        page_of(browser, served.url, 320, "dark") as other,
        project.running() as process,
    ):
        for one in (page, other):
            expect(one.locator("[data-lane=running] .card")).to_contain_text("One", timeout=PATIENCE)
            expect(one.locator("#filters")).to_have_text(re.compile("All 2.*At work 1.*Waiting 1"))
        assert other.locator("button[data-order]:visible").count() == 0  # without the token one only looks
        shot(page, "run-1280")
        page.keyboard.press("p")
        for one in (page, other):
            expect(one.locator("#run .pill")).to_have_text("paused", timeout=PATIENCE)
        page.get_by_role("button", name="Resume").click()
        expect(other.locator("#run .pill")).to_have_text("running", timeout=PATIENCE)
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert runs.ordered(repo / ".ralph") is None
        page.keyboard.press("x")
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        expect(other.locator("#run .pill")).to_have_text("draining", timeout=PATIENCE)
        (isolated / "go").touch()
        for one in (page, other):
            expect(one.locator("#run .pill")).to_have_text("ended", timeout=PATIENCE)
            expect(one.locator("[data-lane=done] .card")).to_contain_text("One", timeout=PATIENCE)
        process.wait(60)
    assert project.statuses() == {"bd-1-1-one": "closed", "bd-1-2-two": "open"}


def test_beads_and_steps_of_people_are_settled_from_the_board(repo: Path, browser: Browser) -> None:
    store = EmbeddedStore(repo)
    with (
        large_run(repo, phases=3) as run,
        serving(repo) as served,
        page_of(browser, served.address) as page,
    ):
        store.create(
            [
                Item(id="bd-mol", title="A release", issue_type="molecule"),
                Item(id="bd-sign", title="Sign the contract", issue_type="task", parent="bd-mol"),
                Item(id="bd-ask", title="Which colour?", issue_type="task", parent="bd-mol"),
                Item(id="bd-ship", title="Ship it", issue_type="task", parent="bd-mol"),
                make_item(
                    "bd-gate", "gate", title="Go live", parent="bd-mol", metadata={"gate": {"type": "human"}}
                ),
            ]
        )
        page.locator(".alert", has_text="3 attempts").get_by_role("button", name="Retry").click()
        expect(page.locator(".alert", has_text="3 attempts")).to_have_count(0, timeout=PATIENCE)
        assert store.show(run.blocked).status == "open"
        page.locator(".alert", has_text="Sign the").get_by_role("button", name="Done").click()
        page.get_by_role("dialog").get_by_role("button", name="Done").click()
        expect(page.locator(".alert", has_text="Sign the")).to_have_count(0, timeout=PATIENCE)
        page.locator(".alert", has_text="Which").get_by_role("button", name="Answer").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("<b>blue</b>")
        page.get_by_role("dialog").get_by_role("button", name="Answer").click()
        expect(page.locator(".alert", has_text="Which")).to_have_count(0, timeout=PATIENCE)
        assert store.items.find(ItemQuery(ids=["bd-ask"]))[0].close_reason == "<b>blue</b>"
        page.locator(".alert", has_text="Go live").get_by_role("button", name="Approve").click()
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(page.locator(".alert", has_text="Go live")).to_have_count(0, timeout=PATIENCE)
        page.goto(f"{served.url}/beads/{run.blocked}")
        page.get_by_role("button", name="Accept as done").click()
        page.get_by_role("dialog").get_by_role("button", name="Accept as done").click()
        expect(page.get_by_role("dialog")).to_be_visible()  # it wants a reason
        page.get_by_role("dialog").get_by_role("textbox").fill("finished by hand")
        page.get_by_role("dialog").get_by_role("button", name="Accept as done").click()
        expect(page.locator("#state")).to_contain_text("done", timeout=PATIENCE)
        assert store.show(run.blocked).status == "closed"
    with serving(repo) as served, page_of(browser, served.address) as page:  # the run is gone by now
        expect(page.locator("#run .pill")).to_have_text("dead", timeout=PATIENCE)
        page.goto(f"{served.url}/beads/{run.working[0]}")
        page.get_by_role("button", name="Release").click()
        page.get_by_role("dialog").get_by_role("button", name="Release").click()
        expect(page.locator("#state")).to_contain_text("ready", timeout=PATIENCE)
        assert store.show(run.working[0]).status == "open"


def test_a_page_comes_back_after_its_server_was_killed(repo: Path, browser: Browser) -> None:
    with large_run(repo, phases=3) as run:
        pass  # it is over: what whoever holds its lock starts would be an agent of the run
    with ExitStack() as stack:
        with serve_process(repo) as (server, said):
            page = stack.enter_context(page_of(browser, said["open"], but="net::ERR|status of 401"))
            blocked = page.locator("[data-lane=blocked] .card")
            expect(blocked).to_have_count(1, timeout=PATIENCE)
            server.kill()
            server.wait(60)
        expect(page.locator("#live")).to_contain_text("no connection", timeout=PATIENCE)
        shot(page, "no-connection-1280")
        with runs.exclusive(repo / ".ralph", RUN), serving(repo, said["port"]) as again:
            assert again.order("retry", {"bead": run.blocked}).status == 200
            expect(page.locator("#live")).to_have_text("live", timeout=PATIENCE)
            expect(blocked).to_have_count(0, timeout=PATIENCE)
            expect(page.locator("#run .pill")).to_have_text("running", timeout=PATIENCE)
            page.keyboard.press("p")  # the page still has the token of the server before
            expect(page.locator(".toast.bad")).to_contain_text("earlier server", timeout=PATIENCE)
            stack.close()


@contextmanager
def serve_process(root: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`beads-ralph serve`, and what it says when it listens."""
    words = [*RALPH, "serve", "--port", "0", "--json"]
    started = subprocess.Popen(words, cwd=root, env=environment({}), stdout=subprocess.PIPE, text=True)
    with started as server:
        try:
            assert server.stdout is not None
            told = ""
            while not told.endswith("\n}\n"):
                line = server.stdout.readline()
                assert line, f"it ended: {told}"
                told += line
            yield server, json.loads(told)["data"]
        finally:
            server.kill()


# --- a large plan -------------------------------------------------------------------------------------


def test_a_graph_of_three_hundred_beads_can_be_read(repo: Path, browser: Browser) -> None:
    """It opens where the work is, large enough to read; all of it is one key away, and so is the way back."""
    with (
        large_run(repo, phases=38) as run,
        serving(repo) as served,
        page_of(browser, f"{served.url}/graph") as page,
    ):
        expect(page.locator(".node")).to_have_count(len(run.names), timeout=PATIENCE)
        assert len(run.names) > 300
        label = page.locator(f'.node[data-bead="{run.working[0]}"] text').last
        high = "(text) => text.getBoundingClientRect().height"
        assert label.evaluate(high) >= 8
        expect(label).to_be_in_viewport()
        page.keyboard.press("0")
        inside = page.locator(".node").evaluate_all(
            "(all) => all.every((one) => { const box = one.getBoundingClientRect();"
            " return box.left >= 0 && box.right <= innerWidth; })"
        )
        assert inside
        shot(page, "graph-300-1280")
        for _ in range(12):
            page.keyboard.press("+")
        assert label.evaluate(high) >= 8
