"""Who plays an agent: its own program first, then those that stand in, each called in its own way."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from beads_ralph import forge
from beads_ralph.agents import protocol
from beads_ralph.agents.players import of_bead, players
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.agent_call import Session
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import Usage
from beads_ralph.config.model import AgentDefaults, Config
from beads_ralph.journal import runs
from beads_ralph.journal.events import Event, event_of
from beads_ralph.journal.journal import Journal
from beads_ralph.loop.recovery import unrecorded
from beads_ralph.process import executors
from beads_ralph.session import Tools
from beads_ralph.session.agent_calls import session_after, unasked
from tests.agents.running import executable
from tests.beads import make_bead
from tests.loop.plans import Project, sprint, work

OPTIONS = ["--dangerously-skip-permissions"]
MINE = """\
#!/bin/sh
cat > /dev/null
[ "$BEADS_RALPH_ROLE" = qa ] && echo '{"status": "pass", "message": "fine"}' && exit
echo work > one.txt && git add --all && git commit --quiet --message work
"""


def tools(root: Path, **defaults: Any) -> Tools:
    folder = runs.RunFolder(root / ".ralph", "run")
    config = Config(agent_defaults=AgentDefaults(**defaults))
    return Tools(
        root, config, executors.choose("local"), folder, {}, protocol.select, forge.choose("none", root)
    )


def played(root: Path, spec: dict[str, Any], **defaults: Any) -> list[tuple[Any, ...]]:
    agent = AgentSpec.model_validate({"role": "polecat", "agent": "claude", **spec})
    found = tools(root, **defaults)
    return [
        (player.key, player.program, player.spec.model, player.spec.options)
        for player in players(agent, found)
    ]


@pytest.mark.parametrize(
    ("spec", "defaults", "expected"),
    [
        ({}, {}, [("claude", "claude", None, OPTIONS)]),
        (
            {"model": "opus", "options": ["--x"], "fallback": ["codex", "gemini:flash"]},
            {},
            [
                ("claude", "claude", "opus", ["--x"]),
                ("codex", "codex", "opus", None),
                ("gemini", "gemini", "flash", None),
            ],
        ),
        (
            {"executable": "codex", "model": "gpt-5", "fallback": ["claude"]},
            {"default_options": ["--own"]},
            [("codex", "codex", "gpt-5", None), ("claude", "claude", "sonnet", ["--own"])],
        ),
        (
            {"model": "opus", "options": ["--x"], "fallback": ["gemini"]},
            {"override_executable": "codex", "override_model": "gpt-5"},
            [("codex", "codex", "gpt-5", None), ("gemini", "gemini", "sonnet", None)],
        ),
        (
            {"executable": "codex", "model": "gpt-5", "options": ["--x"]},
            {"override_model": "gpt-6"},
            [("codex", "codex", "gpt-6", ["--x"])],
        ),
        (
            {"executable": "codex", "fallback": ["claude"]},
            {"default_model": "gpt-5"},
            [("codex", "codex", None, None), ("claude", "claude", "sonnet", OPTIONS)],
        ),
        (
            {"model": "opus", "fallback": ["claude:haiku", "claude", "claude:opus", "codex", "codex"]},
            {},
            [
                ("claude", "claude", "opus", OPTIONS),
                ("claude:haiku", "claude", "haiku", OPTIONS),
                ("codex", "codex", "opus", None),
            ],
        ),
        (
            {"executable": "codex"},
            {"fallback": ["codex", "gemini"]},
            [("codex", "codex", None, None), ("gemini", "gemini", "sonnet", None)],
        ),
        (  # each program has its own, however it comes to play; what an agent names itself goes before
            {"executable": "/opt/codex", "fallback": ["goose", "claude", "./mine"]},
            {"program_options": {"codex": ["--c"], "goose": ["--g"], "./mine": ["--m"]}},
            [
                ("/opt/codex", "/opt/codex", None, ["--c"]),
                ("goose", "goose", "sonnet", ["--g"]),
                ("claude", "claude", "sonnet", OPTIONS),
                ("./mine", "./mine", "sonnet", ["--m"]),
            ],
        ),
        (
            {"options": []},
            {"program_options": {"claude": ["--c"]}, "fallback": ["claude:opus"]},
            [("claude", "claude", None, []), ("claude:opus", "claude", "opus", ["--c"])],
        ),
        ({"fallback": []}, {"fallback": ["codex"]}, [("claude", "claude", None, OPTIONS)]),
        (
            {},
            {"default_executable": "gemini", "fallback": ["claude:opus"]},
            [("gemini", "gemini", None, None), ("claude", "claude", "opus", OPTIONS)],
        ),
    ],
)
def test_who_plays_in_which_order_and_how(
    tmp_path: Path, spec: dict[str, Any], defaults: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    assert played(tmp_path, spec, **defaults) == expected


def test_a_stand_in_is_the_same_agent(tmp_path: Path) -> None:
    given = {"role": "witness", "agent": "qa", "context": "look", "env": {"A": "1"}, "fallback": ["codex"]}
    found = tools(tmp_path)
    own, other = (player.spec for player in players(AgentSpec.model_validate(given), found))
    for name in ("role", "agent", "context", "env", "output_schema"):
        assert getattr(own, name) == getattr(other, name)


def test_every_agent_of_a_bead_is_asked_about(tmp_path: Path) -> None:
    found = tools(tmp_path, fallback=["codex"])
    rows = list(of_bead(make_bead("bd-a"), found))
    assert rows == [["claude", "codex"], ["claude", "codex"]]


# --- what a session has counted -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "reply", "after"),
    [
        (None, Reply(), None),
        (None, Reply(session_id="a"), Session("a")),
        (None, Reply(session_id="a", session_usage=Usage(5)), Session("a", Usage(5))),
        (Session("a", Usage(5, 2)), Reply(session_id="a"), Session("a", Usage(5, 2))),
        (
            Session("a", Usage(5, 2)),
            Reply(session_id="a", session_usage=Usage(9)),
            Session("a", Usage(9, 2)),
        ),
        (Session("a", Usage(5)), Reply(session_id="b"), Session("b")),
    ],
)
def test_a_call_that_broke_off_does_not_make_a_session_cheaper(
    before: Session | None, reply: Reply, after: Session | None
) -> None:
    assert session_after(before, reply) == after


# --- what a killed run had in hand --------------------------------------------------------------------


def journal(path: Path, *told: Event) -> Path:
    written = Journal(path / "events.jsonl", "run")
    for event in told:
        written.emit(event)
    written.close()
    return path / "events.jsonl"


def ended(attempt: int, bead: str = "bd-a", **data: Any) -> Event:
    facts = {
        "role": "dev",
        "agent": "x",
        "seat": 1,
        "program": "codex",
        "session_id": f"s{attempt}",
        "usage": {"input_tokens": 3},
        "session_usage": {"input_tokens": 9},
        "started_at": "2026-01-01T00:00:00Z",
        "problem": "",
        "trouble": "",
    }
    return _event("agent_ended", bead, attempt, {**facts, **data})


def _event(kind: str, bead: str, attempt: int, facts: dict[str, Any]) -> Event:
    stamp = {"kind": kind, "at": "", "run_id": "run"}
    return event_of({**stamp, "bead": bead, "team": "team", "attempt": attempt, **facts})


CLAIMED = _event("bead_claimed", "bd-a", 1, {})


def test_calls_that_the_store_never_heard_of_are_added_to_what_it_knows(tmp_path: Path) -> None:
    bead = make_bead(
        "bd-a",
        metadata={
            "attempt_count": 1,
            "spent": {"input_tokens": 10, "seconds": 4.0},
            "dev_agent_executions": [],
        },
    )
    told = [
        CLAIMED,
        ended(1),
        ended(2),
        ended(2, role="qa"),
        ended(2, bead="bd-b"),
        ended(3, problem="timed out"),
    ]
    found = unrecorded(bead, journal(tmp_path, *told)).to_metadata()
    rows = found["dev_agent_executions"]
    assert [(row["session_id"], row["status"]) for row in rows] == [("s2", "completed"), ("s3", "timeout")]
    assert rows[0]["session_usage"] == asdict(Usage(9))
    assert found["spent"]["input_tokens"] == 10 + 3 + 3 + 3
    assert found["spent"]["seconds"] == 4.0
    Bead.model_validate(
        bead.model_copy(update={}).to_json() | {"metadata": {**bead.metadata.to_json(), **found}}
    )


def test_a_call_that_was_cut_off_goes_on_in_its_session(tmp_path: Path) -> None:
    def begun(**data: Any) -> Event:
        facts = {"role": "dev", "agent": "x", "seat": 1, "program": "codex", "session_id": "s"}
        return _event("agent_started", "bd-a", 1, {**facts, **data})

    told = [CLAIMED, begun(), ended(1), begun(seat=2, session_id="cut"), begun(role="qa")]
    found = unrecorded(make_bead("bd-a"), journal(tmp_path, *told)).to_metadata()
    rows = found["dev_agent_executions"]
    facts = [(row["seat"], row["session_id"], row["status"], row["trouble"]) for row in rows]
    assert facts == [(1, "s1", "completed", ""), (2, "cut", "failed", "interrupted")]
    Bead.model_validate(make_bead("bd-a", metadata=found).to_json())


def test_what_was_given_back_in_between_is_in_the_store_already(tmp_path: Path) -> None:
    told = journal(tmp_path, CLAIMED, ended(1), CLAIMED, ended(1, session_id="later"))
    calls = unrecorded(make_bead("bd-a"), told).dev_calls
    assert [call.session_id for call in calls] == ["later"]


def test_without_a_journal_there_is_nothing_to_add(tmp_path: Path) -> None:
    assert unrecorded(make_bead("bd-a"), tmp_path / "none.jsonl") == RunState()
    assert unrecorded(make_bead("bd-a"), journal(tmp_path, CLAIMED, ended(1), CLAIMED)) == RunState()


def test_each_program_that_asks_nobody_is_named_once_with_its_stand_ins(tmp_path: Path) -> None:
    agents: list[dict[str, Any]] = [
        {"executable": "gemini", "fallback": ["copilot"]},
        {"executable": "gemini", "model": "other", "fallback": []},
        {"executable": "codex", "fallback": []},
        {"executable": "codex", "options": ["--dangerously-bypass-approvals-and-sandbox"], "fallback": []},
        {"executable": "opencode", "options": ["--no-auto"], "fallback": ["goose"]},
        {"executable": "goose", "env": {"GOOSE_MODE": "approve"}, "fallback": []},
        {"executable": "scripted", "fallback": []},
    ]
    specs = [{"role": "polecat", "agent": "claude", **agent} for agent in agents]
    bead = make_bead("bd-1-1-x", metadata={"dev_agents": specs, "qa_agents": specs[:1]})
    assert sorted(set(unasked(bead, tools(tmp_path)))) == [
        ("codex", "--dangerously-bypass-approvals-and-sandbox"),
        ("copilot", "--allow-all"),
        ("gemini", "--approval-mode=yolo"),
        ("goose", "GOOSE_MODE=auto"),
    ]


def test_whoever_starts_a_run_chooses_the_program_of_its_agents(repo: Path, tmp_path: Path) -> None:
    """Whatever the plan says; and what is no program with a model is refused before anything starts."""
    program = executable(tmp_path / "mine", MINE)
    project = Project.make(repo, sprint("1.1", "One"), script={"*": {"dev": work()}})
    refused = project.run("--agent", "claude", "--model", "gpt-5")
    assert (refused.code, refused.error["code"]) == (2, "USAGE.INVALID"), refused.out
    assert project.events() == []
    ran = project.run("--agent", str(program), "--model", "large")
    assert ran.data["closed"] == ["bd-1-1-one"], ran.out
    calls = [(row["role"], row["program"], row["model"]) for row in project.events("agent_ended")]
    assert calls == [("dev", str(program), "large"), ("qa", str(program), "large")]
