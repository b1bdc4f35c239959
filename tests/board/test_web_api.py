"""The JSON behind the board, and the live feed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.board.web.diffs import parsed
from beads_ralph.board.web.feed import KEPT, Feed, changed
from tests.board.web_server import Served, serving
from tests.cli.running import RALPH, environment
from tests.loop.plans import Project, fails, passes, sprint, work

FIRST, SECOND = "bd-1-1-one", "bd-1-2-two"


def done_project(repo: Path) -> Project:
    """One bead that passed at its second attempt, and one that waits behind a blocked one."""
    script = {
        "1.1": {"dev": work("one.txt", "<b>one</b>\n"), "qa": [fails("one is missing"), passes()]},
        "1.2": {"dev": [{"crash": 3}]},
    }
    sprints = (sprint("1.1", "One"), sprint("1.2", "Two"), sprint("1.3", "Three"))
    project = Project.make(repo, *sprints, script=script, plan_settings={"max_retry_attempts": 2})
    assert project.run().code == 1
    return project


@pytest.fixture
def served(repo: Path) -> Iterator[Served]:
    done_project(repo)
    with serving(repo) as found:
        yield found


def test_the_whole_story_is_told_and_orders_are_obeyed(served: Served) -> None:
    state = served.ask("/api/v1/state").json
    assert {"run", "beads", "attention"} <= set(state)
    beads = {bead["id"]: bead for bead in state["beads"]}
    assert {name: bead["status"] for name, bead in beads.items()} == {
        FIRST: "closed",
        SECOND: "blocked",
        "bd-1-3-three": "open",
    }
    assert any(one["bead"] == SECOND for one in state["attention"])

    told = served.ask(f"/api/v1/beads/{FIRST}").json
    assert [(one["attempt"], one["ruling"]) for one in told["attempts"]] == [(2, "pass"), (1, "fail")]
    assert "one is missing" in json.dumps(told["attempts"][1])
    assert [file["path"] for file in told["diff"]["files"]] == ["one.txt"]
    assert told["diff"]["files"][0]["hunks"][0]["lines"][0]["text"] == "<b>one</b>"
    assert told["pull_request"]["branch"] == "feature/1-1-one"
    assert told["transcript"]["calls"]
    page = served.ask(f"/beads/{FIRST}").text
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert "<b>one</b>" not in page

    spans = served.ask("/api/v1/timeline").json["beads"][FIRST]
    assert {"dev", "qa"} <= {one["kind"] for one in spans}
    assert all(one["end"] >= one["start"] for one in spans)
    (run,) = served.ask("/api/v1/runs").json["runs"]
    assert (run["closed"], run["blocked"]) == (1, 1)
    assert served.ask("/api/v1/analysis").json["statistics"]["attempts"]["total"] >= 3

    for path in ("/runs", "/analysis"):  # with records, every part of the page is there
        got = served.ask(path)
        assert (got.status, "<table>" in got.text) == (200, True), path

    assert served.order("pause").error["code"] == "DATABASE.CONFLICT"
    assert served.order("dance").error["code"] == "USAGE.INVALID"
    assert served.order("retry", {"bead": FIRST}).status == 409
    assert served.order("retry", {"bead": "bd-9-9-gone"}).status == 404
    with served.events() as events:
        first = next(events)
        assert first["event"] == "state"
        assert served.order("retry", {"bead": SECOND}).json["success"] is True
        change = next(events)
        assert (change["event"], change["data"]["beads"][0]["id"]) == ("change", SECOND)
        assert change["data"]["beads"][0]["status"] == "open"
    with served.events(first["id"]) as events:  # only what it has not seen
        assert next(events)["id"] == change["id"]
    with served.events("another-7") as events:
        assert next(events)["event"] == "state"
    assert served.order("accept", {"bead": SECOND}).status == 400
    assert served.order("accept", {"bead": SECOND, "reason": "by hand"}).json["data"]["bead"] == SECOND


@pytest.mark.full
@pytest.mark.bd
def test_the_same_is_told_of_beads_in_bd(bd_repo: Path) -> None:
    project = Project.make(bd_repo, sprint("1.1", "One"), sprint("1.2", "Two"), store="bd")
    assert project.ralph("mason", "plan.md", "--json").code == 0
    with serving(bd_repo) as served:
        state = served.ask("/api/v1/state").json
        assert [bead["id"] for bead in state["beads"]] == [FIRST, SECOND]
        assert state["run"]["store"] == "bd"
        assert served.ask(f"/api/v1/beads/{SECOND}").json["waits_for"] == [FIRST]
        assert served.order("accept", {"bead": FIRST, "reason": "by hand"}).status == 200
        assert served.ask("/api/v1/state").json["beads"][0]["status"] == "closed"


# --- the feed -----------------------------------------------------------------------------------------


def state(**beads: int) -> dict[str, Any]:
    return {"run": {}, "beads": [{"id": name, "at": at} for name, at in beads.items()]}


def test_a_change_names_what_is_new_and_what_is_gone() -> None:
    assert changed(state(a=1, b=1), state(a=1, b=1)) == {}
    assert changed(state(a=1, b=1), state(a=1, b=2)) == {"beads": [{"id": "b", "at": 2}]}
    assert changed(state(a=1, b=1), state(b=1)) == {"gone": ["a"], "order": ["b"]}
    assert changed({"run": 1, "beads": []}, {"run": 2, "beads": []}) == {"run": 2}


def rebuilt(frames: list[bytes], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state as a browser has it after these frames."""
    found = before or {}
    for frame in frames:
        kind, _, data = frame.decode().partition("event: ")[2].partition("\ndata: ")
        said = json.loads(data)
        if kind == "state":
            found = said
            continue
        beads = {bead["id"]: bead for bead in found["beads"]}
        beads |= {bead["id"]: bead for bead in said.get("beads", ())}
        order = said.get("order") or list(beads)
        rest = {key: value for key, value in said.items() if key not in ("beads", "gone", "order")}
        found = {**found, **rest, "beads": [beads[name] for name in order]}
    return found


@pytest.mark.parametrize("missed", [0, 1, 5, KEPT, KEPT + 50])
def test_a_browser_that_comes_back_ends_with_the_same_state(missed: int) -> None:
    async def story() -> None:
        now = state(a=0)
        feed = Feed(lambda: now)
        await feed.refresh()
        seen, at = now, feed.number
        for step in range(missed):
            now = state(**{"a": step + 1, f"b{step % 3}": step})
            await feed.refresh()
        frames = feed._since(at)
        assert rebuilt(frames, seen) == now
        assert len(frames) == (missed if missed <= KEPT else 1)
        assert feed._place(f"{feed.life}-{at}") == at
        assert feed._place(f"0000-{at}") == -1

    asyncio.run(story())


def test_many_browsers_share_one_reader_and_a_slow_one_holds_up_nobody(repo: Path) -> None:
    async def story() -> None:
        looks, now = 0, state(a=0)

        def look() -> dict[str, Any]:
            nonlocal looks
            looks += 1
            return now

        feed = Feed(look, every=0.0)
        streams = [feed.frames() for _ in range(20)]
        for stream in streams:
            await anext(stream)
            assert b"event: state" in await anext(stream)
        before, now = looks, state(a=1)
        slow, *others = streams  # nobody reads the first one any more
        await feed.refresh()
        for stream in others:
            assert b"event: change" in await anext(stream)
        assert looks == before + 1
        for step in range(KEPT + 1):
            now = state(a=step + 2)
            await feed.refresh()
        assert b"event: state" in await anext(slow)
        assert feed.watchers == 20
        await feed.end()
        for stream in streams:
            await stream.aclose()
        assert feed.watchers == 0

    asyncio.run(story())


def test_a_look_that_fails_is_tried_again(repo: Path) -> None:
    async def story() -> None:
        broken = True

        def look() -> dict[str, Any]:
            if broken:
                raise OSError("the disk is away")
            return state(a=1)

        feed = Feed(look)
        await feed._try()
        assert "disk is away" in feed.trouble
        broken = False
        await feed._try()
        assert (feed.trouble, feed.state) == ("", state(a=1))

    asyncio.run(story())


# --- diffs --------------------------------------------------------------------------------------------

DIFF = """\
diff --git a b/c.txt a b/c.txt
index 1..2 100644
--- a b/c.txt
+++ a b/c.txt
@@ -3,2 +3,2 @@ def f():
 same
-old
+new
diff --git old.py new.py
similarity index 90%
rename from old.py
rename to new.py
diff --git pic.png pic.png
new file mode 100644
Binary files /dev/null and pic.png differ
diff --git gone gone
deleted file mode 100644
--- gone
+++ /dev/null
@@ -1 +0,0 @@
--- a line that looks like a head
\\ No newline at end of file
"""


def test_a_diff_is_read_file_by_file_with_the_numbers_of_its_lines() -> None:
    changed_, renamed, picture, gone = parsed(DIFF)
    assert (changed_.path, changed_.added, changed_.removed) == ("a b/c.txt", 1, 1)
    rows = [(one["sign"], one["old"], one["new"]) for one in changed_.hunks[0]["lines"]]
    assert rows == [(" ", 3, 3), ("-", 4, None), ("+", None, 4)]
    assert (renamed.old_path, renamed.path) == ("old.py", "new.py")
    assert picture.binary
    assert (gone.path, gone.removed) == ("gone", 1)


# --- the command --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_it_is_and_ends_in_order(repo: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*RALPH, "serve", "--port", "0", "--json"],
        cwd=repo,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        while not said.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            said += line
        data = json.loads(said)["data"]
        assert data["open"].startswith(f"http://127.0.0.1:{data['port']}/?token=")
        os.kill(process.pid, number)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_browsers_that_leave_at_any_moment_hold_nobody_up() -> None:
    async def go() -> tuple[list[object], int]:
        state: dict[str, Any] = {"seq": 0, "beads": []}
        feed = Feed(lambda: dict(state))

        async def read() -> None:
            async for _ in feed.frames():
                pass

        readers = [asyncio.create_task(read()) for _ in range(40)]
        while feed.watchers < len(readers):
            await asyncio.sleep(0)
        for reader in readers:
            state["seq"] += 1
            await feed.refresh()
            reader.cancel()  # just when it was told, and again while it winds up
            await asyncio.sleep(0)
            reader.cancel()
        return list(await asyncio.gather(*readers, return_exceptions=True)), feed.watchers

    ended, left = asyncio.run(asyncio.wait_for(go(), 120))
    assert {type(one) for one in ended} == {asyncio.CancelledError}
    assert left == 0
