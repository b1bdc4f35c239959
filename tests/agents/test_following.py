"""Programs are followed while they run: one that only waits for its server is ended, and says what for."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents import following
from beads_ralph.agents.following import AT_ONCE, CallBudget, Follower, LiveLines, Patience
from beads_ralph.agents.protocol import AGENTS, ProgramWait, Reply, TalkingCLI
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.config.model import ModelPrice
from beads_ralph.process.jobs import Exit
from tests.agents.running import executable, spec, task, transcript
from tests.executors.running import executor_of


class Told:
    """A listener that waits as long as it is told to."""

    def __init__(self) -> None:
        self.waiting: ProgramWait | None = None
        self.lines: list[str] = []
        self.model = ""
        self.so_far = Usage()

    def printed(self, line: str) -> None:
        self.lines.append(line)

    def complained(self, line: str) -> None:
        self.lines.append(line)


def follower(folder: Path, cli: str | None = None, now: list[float] | None = None) -> Follower:
    clock = now if now is not None else [0.0]
    adapter = AGENTS[cli] if cli else None
    listener = adapter.listener() if isinstance(adapter, TalkingCLI) else Told()
    return Follower(listener, transcript(folder), Patience(20.0, 3, 10.0, 60.0), lambda: clock[0])


def lines(*events: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


# --- what is new in a file ----------------------------------------------------------------------------


def test_lines_come_whole_and_once(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before\n")
    found = LiveLines(path)
    assert list(found.more()) == []
    with path.open("ab") as file:
        for piece, heard in ((b"one\ntw", ["one"]), (b"", []), (b"o\r\n\xff\n", ["two", "\ufffd"])):
            file.write(piece)
            file.flush()
            assert list(found.more()) == heard


def test_a_line_without_end_costs_no_memory_and_hides_nothing_that_follows(tmp_path: Path) -> None:
    path = tmp_path / "out"
    found = LiveLines(path)
    path.write_bytes(b"x" * (3 * AT_ONCE) + b"\nafter\n")
    heard = [line for _ in range(6) for line in found.more()]
    told, *following = heard
    assert told.endswith(" … [cut off: a line of 3.1 MB]")
    assert len(told) < AT_ONCE // 100
    assert following == ["after"]
    path.unlink()
    assert list(found.more()) == []


# --- how long it is waited for ------------------------------------------------------------------------


def test_short_waits_pass_and_long_ones_do_not(tmp_path: Path) -> None:
    now = [0.0]
    watcher = follower(tmp_path, now=now)
    assert isinstance(watcher.listener, Told)

    def at(seconds: float, wait: ProgramWait | None) -> bool:
        now[0], watcher.listener.waiting = seconds, wait
        return watcher.is_in_vain()

    assert not at(0, None)
    assert not at(1, ProgramWait("server", "x"))
    assert not at(5, ProgramWait("server", "x", tries=3)), "three tries within a few seconds"
    assert at(12, ProgramWait("server", "x", tries=3))
    assert not at(13, None), "it got on"
    assert not at(14, ProgramWait("server", "x", 20.0))
    assert not at(74, ProgramWait("server", "x", 20.0))
    assert at(75, ProgramWait("server", "x", 20.0))
    assert not at(76, None)
    assert at(77, ProgramWait("limit", "x", 21.0)), "it says that it will be long"


def test_the_reply_of_an_ended_call_says_what_it_waited_for_and_until_when(tmp_path: Path) -> None:
    watcher = follower(tmp_path)
    before = datetime.now(UTC)
    watcher.listener.waiting = ProgramWait("limit", "too many requests", 300.0)
    assert watcher.is_in_vain()
    told = watcher.told(Reply(session_id="s", result={"status": "pass"}))
    assert told is not None
    assert (told.trouble, told.detail, told.session_id, told.result) == (
        "limit",
        "too many requests",
        "s",
        None,
    )
    until = datetime.fromisoformat(told.limit_reset_at or "") - before
    assert timedelta(seconds=300) <= until <= timedelta(seconds=360)


# --- what each program says ---------------------------------------------------------------------------

RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10}
FAILURE = {"type": "model.call_failure"}
WAITS: dict[str, tuple[str, str, str, float | None]] = {
    "claude at a limit": (
        lines({**RETRY, "retry_delay_ms": 300_000, "error_status": 429, "error": "rate_limit"}),
        "",
        "limit",
        300.0,
    ),
    "claude without network": (
        lines({**RETRY, "retry_delay_ms": 36_000, "error_status": None, "error": "unknown"}),
        "",
        "server",
        36.0,
    ),
    "codex without network": (
        lines({"type": "error", "message": "Reconnecting... waiting for network (Connection failed: x)"}) * 3,
        "",
        "server",
        None,
    ),
    "codex at a limit": (
        lines({"type": "error", "message": "Reconnecting... 1/5 (exceeded retry limit, last status: 429 x)"}),
        "",
        "limit",
        None,
    ),
    "gemini at a limit": (
        "",
        "Attempt 1 failed: scripted 429\nSuggested retry after 300s.. Retrying after 315058ms...\n",
        "limit",
        315.058,
    ),
    "gemini without delay": (
        "",
        "Attempt 2 failed with 429 error (no Retry-After header). Retrying with backoff... ApiError: x\n",
        "limit",
        None,
    ),
    "gemini at a server": ("", "Attempt 3 failed with 5xx error. Retrying with backoff...\n", "server", None),
    "copilot at a limit": (
        lines({"type": "model.call_failure", "data": {"statusCode": 429}}),
        "",
        "limit",
        None,
    ),
    "copilot without network": (lines({"type": "model.call_failure", "data": {}}) * 3, "", "server", None),
    "command at a server": ("", 'BEADS_RALPH_TROUBLE {"kind": "server", "detail": "502"}\n', "server", None),
}
GOES_ON = {
    "claude": lines({"type": "assistant", "message": {}}),
    "codex": lines({"type": "item.completed", "item": {"type": "agent_message", "text": "Back."}}),
    "gemini": lines({"type": "message", "role": "assistant", "content": "Back."}),
    "copilot": lines({"type": "assistant.message", "data": {"content": "Back."}}),
    "command": "Back.\n",
}


@pytest.mark.parametrize("case", WAITS)
def test_waiting_is_heard_and_forgotten_when_it_gets_on(case: str, tmp_path: Path) -> None:
    name = case.partition(" ")[0]
    out, err, trouble, seconds = WAITS[case]
    now = [0.0]
    watcher = follower(tmp_path, name, now)
    files = transcript(tmp_path)
    files.out.write_text(out, encoding="utf-8")
    files.err.write_text(err, encoding="utf-8")
    in_vain = watcher.is_in_vain()
    wait = watcher.listener.waiting
    assert wait is not None
    assert (wait.trouble, wait.seconds) == (trouble, seconds)
    assert in_vain == (seconds is not None)
    now[0] = 61.0
    assert watcher.is_in_vain(), "it has said nothing more for long"
    told = watcher.told(Reply())
    assert told is not None
    assert told.detail
    with files.out.open("a", encoding="utf-8") as file:
        file.write(GOES_ON[name])
    now[0] = 62.0
    assert not watcher.is_in_vain()
    assert watcher.listener.waiting is None


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_every_program_can_be_followed(name: str) -> None:
    assert isinstance(AGENTS[name], TalkingCLI)


# --- a whole call -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["local", pytest.param("tmux", marks=pytest.mark.tmux)])
def test_a_program_that_waits_for_a_limit_is_ended_and_has_said_until_when(kind: str, tmp_path: Path) -> None:
    until = (datetime.now(UTC) + timedelta(hours=2)).replace(microsecond=0)
    said = f"BEADS_RALPH_LIMIT {json.dumps({'reset_at': until.isoformat()})}"
    program = executable(
        tmp_path / "agent", f"#!/bin/sh\necho 'BEADS_RALPH_SESSION s-1' >&2\necho '{said}' >&2\nsleep 300\n"
    )
    cli = AGENTS["command"]
    job = cli.command(task(tmp_path, spec(executable=str(program)), timeout=120.0), transcript(tmp_path))
    watcher = following.follow(cli, job)
    ended = asyncio.run(executor_of(kind).run(job, watcher))
    reply = following.heard(cli, job, ended, watcher)
    assert (ended.gave_up, ended.timed_out) == (True, False)
    assert (reply.trouble, reply.session_id) == ("limit", "s-1")
    assert reply.limit_reset_at is not None
    assert until <= datetime.fromisoformat(reply.limit_reset_at) <= until + timedelta(seconds=2)


def test_a_call_that_stalled_says_so_and_one_that_waited_says_for_what(tmp_path: Path) -> None:
    cli = AGENTS["command"]
    job = cli.command(task(tmp_path), transcript(tmp_path))
    stalled = following.heard(cli, job, Exit(-15, stalled=600.0))
    assert (stalled.trouble, stalled.detail) == ("stalled", "no sign of life for 600 s, and was ended")
    watcher = follower(tmp_path)
    watcher.listener.waiting = ProgramWait("server", "502")
    watcher.is_in_vain()
    for ended in (Exit(-15, stalled=600.0), Exit(-15, timed_out=True), Exit(-15, gave_up=True)):
        assert following.heard(cli, job, ended, watcher).trouble == "server"
    assert following.heard(cli, job, Exit(1), watcher).trouble == ""


# --- what it spends -----------------------------------------------------------------------------------


def test_claude_is_ended_when_its_messages_have_used_up_the_budget(tmp_path: Path) -> None:
    """Each message comes in several events; the count of its last one holds. A call that ends by itself in
    some seconds is let."""
    now = [0.0]
    price = ModelPrice(input=1.0, output=10.0)
    spending = CallBudget(Budget(cost_usd=0.003), lambda model: price if model == "claude-x" else None)
    listener = AGENTS["claude"].listener() if isinstance(AGENTS["claude"], TalkingCLI) else Told()
    found = Follower(listener, transcript(tmp_path), clock=lambda: now[0], spending=spending)
    for second, message, tokens in ((1, "a", 900), (2, "a", 1000), (3, "b", 1000), (4, "c", 1200)):
        usage = {"input_tokens": tokens, "output_tokens": 0}
        said = {"type": "assistant", "message": {"id": message, "model": "claude-x", "usage": usage}}
        with transcript(tmp_path).out.open("a") as file:
            file.write(lines(said))
        now[0] = float(second)
        assert not found.is_in_vain()
    assert listener.so_far.input_tokens == 3200
    now[0] = 8.0
    assert not found.is_in_vain()
    now[0] = 10.0
    assert found.is_in_vain()
    assert found.overspent == "cost budget (USD) of 0.003 is used up"
