"""A registered script is played step by step, in every wire format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.model.asking import WIRES, Talk, post
from tests.model.exchange import Item, Question, Tool
from tests.model.script import Rule, Script
from tests.model.server import ModelServer

ROOT = Path(__file__).parents[2]
PLAN = (
    Rule(r"examine the work on bead (?P<bead>\S+)", say='```json\n{"status": "fail"}\n```', times=1),
    Rule(r"examine the work on bead (?P<bead>\S+)", say='```json\n{"status": "pass"}\n```'),
    Rule(r"attempt 2", ("mend",), "mended", earlier="bead bd-1"),
    Rule(r"developer.*bead (?P<bead>[\w-]+)", ("first @bead@", "second"), "@bead@ is done, not @other@"),
    Rule("", system="You merge", run=("git commit",), say="merged"),
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as serving:
        yield serving


@pytest.fixture(params=list(WIRES))
def talk(request: pytest.FixtureRequest, server: ModelServer) -> Talk:
    return Talk(server.play("r", PLAN), request.param)


def commands(talk: Talk) -> tuple[list[str], Talk]:
    """Play the turn to its end; the commands, and the conversation after it with the final text."""
    found = []
    while (reply := talk.ask()).call:
        found.append(reply.call["arguments"]["command"])
        talk = talk.result(reply)
    return found, talk.answered(replace(reply, text=reply.text))


def test_the_commands_one_after_the_other_then_the_text(server: ModelServer, talk: Talk) -> None:
    ran, _ = commands(talk.user("You are the developer of bead bd-1, do it"))
    assert ran == ["first bd-1", "second"]
    assert server.requests("r")[-1].answered == "bd-1 is done, not @other@"


def test_a_resumed_session_plays_the_rule_of_its_new_turn(server: ModelServer, talk: Talk) -> None:
    _, talk = commands(talk.user("You are the developer of bead bd-1, do it"))
    ran, _ = commands(talk.user("Not accepted; attempt 2"))
    assert ran == ["mend"]
    assert server.requests("r")[-1].answered == "mended"


def test_a_fresh_session_is_told_apart_from_a_resumed_one(server: ModelServer, talk: Talk) -> None:
    commands(talk.user("Not accepted; attempt 2"))
    assert server.requests("r")[-1].answered == "No rule of the script fits what was asked."


def test_a_rule_is_used_up(talk: Talk) -> None:
    asked = talk.user("You examine the work on bead bd-1")
    assert ["fail" in asked.ask().text, "pass" in asked.ask().text, "pass" in asked.ask().text] == [True] * 3


def test_a_rule_may_ask_for_a_system_prompt(talk: Talk) -> None:
    ran, _ = commands(replace(talk, system="You merge branches.").user("go on"))
    assert ran == ["git commit"]


def test_runs_have_scripts_of_their_own(server: ModelServer, talk: Talk) -> None:
    other = replace(talk, base=server.play("other", [Rule("hello", say="other")]))
    assert other.user("hello").ask().text == "other"
    assert "No rule" in talk.user("hello").ask().text


def test_after_the_trouble_the_script_is_played(server: ModelServer, talk: Talk) -> None:
    asked = replace(talk, base=server.base("429x1", "r")).user("You are the developer of bead bd-1")
    assert asked.ask().status == 429
    assert commands(asked)[0] == ["first bd-1", "second"]


def test_claude_gets_its_verdict_through_the_tool_for_it(server: ModelServer) -> None:
    base = server.play("r", [Rule("judge", say='So:\n```json\n{"status": "pass"}\n```')])
    talk = Talk(base, "messages", tool="StructuredOutput").user("judge")
    first = talk.ask()
    assert first.call
    assert first.call["arguments"] == {"status": "pass"}
    assert talk.result(first).ask().call is None


def test_what_a_cli_adds_by_itself_is_no_new_turn() -> None:
    items = (
        Item("user", "do it"),
        Item("call", "{}"),
        Item("result", "one"),
        Item("user", "<info-msg>It is Sunday</info-msg>"),
        Item("call", "{}"),
        Item("result", "two"),
    )
    question = Question("m", "", items, (Tool("Bash", {}),))
    assert question.done == ("one", "two")
    part = Script.of([Rule("do it", ("a", "b", "c"))]).part(question)
    assert part
    assert part.run == ("a", "b", "c")


def test_a_command_that_goes_on_is_waited_for(server: ModelServer) -> None:
    base = server.play("r", [Rule("work", ("make",), "made")])
    tools = [
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
        {"type": "function", "name": "write_stdin", "parameters": {}},
    ]
    call = {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"}
    told = {"type": "function_call_output", "call_id": "c", "output": "Process running with session ID 41"}
    body = {"model": "m", "tools": tools, "input": [{"role": "user", "content": "work"}, call, told]}
    answer = json.loads(post(f"{base}/v1/responses", body)[2])["output"][0]
    assert answer["name"] == "write_stdin"
    assert json.loads(answer["arguments"])["session_id"] == 41


def test_by_hand() -> None:
    words = [sys.executable, "-m", "tests.model", "--port", "0"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            root = process.stdout.readline().strip()
            rules = [{"when": "hello", "run": ["ls"], "say": "hello to you"}]
            told = json.loads(post(f"{root}/runs/r/script", {"rules": rules}, "PUT")[2])
            talk = Talk(told["base"], "chat").user("hello")
            assert talk.result(talk.ask()).ask().text == "hello to you"
            kept = json.loads(post(f"{root}/runs/r/requests", {}, "GET")[2])["requests"]
            assert len(kept) == 2
        finally:
            process.terminate()


def test_a_rule_may_say_what_goes_wrong_and_whose_session_meets_it(server: ModelServer, talk: Talk) -> None:
    rules = [Rule("again", earlier="begin", trouble="toolong"), Rule("", say="fine")]
    server.play("r", rules)
    _, begun = commands(talk.user("begin"))
    overlong = begun.user("again")
    assert [overlong.ask().status, overlong.ask().status] == [400, 400]
    assert talk.user("again").ask().status == 200
