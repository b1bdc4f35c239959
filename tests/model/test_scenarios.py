"""The named scenarios mean the same in every wire format, streamed or not."""

from __future__ import annotations

import http.client
import json
import re
import select
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

import pytest

from tests.model.asking import WIRES, Talk, post
from tests.model.exchange import Json, Tool
from tests.model.scenarios import COMMIT, scenario
from tests.model.server import ModelServer
from tests.model.tools import instance, run


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as serving:
        yield serving


@pytest.fixture(params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def talk(request: pytest.FixtureRequest, wire: str) -> Talk:
    """Still without an address."""
    return Talk("", wire, request.param)


def begin(talk: Talk, server: ModelServer, name: str, text: str = "Do it. MARK-one") -> Talk:
    return replace(talk, base=server.base(name, "r")).user(text)


def fenced(text: str) -> Json:
    found = re.search(r"```json\n(.*)\n```", text)
    assert found, text
    value: Json = json.loads(found[1])
    return value


def test_a_command_then_a_verdict(server: ModelServer, talk: Talk) -> None:
    talk = begin(talk, server, "ok")
    first = talk.ask()
    assert first.call
    assert first.call["arguments"] == {"command": COMMIT, "risk": "LOW"}
    last = talk.result(first).ask()
    assert last.call is None
    assert fenced(last.text)["status"] == "pass"


def test_usage_can_be_computed(server: ModelServer, talk: Talk) -> None:
    talk = begin(talk, server, "loop")
    for n in range(3):
        reply = talk.ask()
        assert reply.usage == (1000 + 100 * n, 20 + n, 300)
        talk = talk.result(reply)


def test_a_resumed_conversation_shows_in_the_markers(server: ModelServer, talk: Talk) -> None:
    talk = begin(talk, server, "ok")
    first = talk.ask()
    talk = talk.result(first)
    talk = talk.answered(talk.ask()).user("QA says: mend it. MARK-two")
    second = talk.ask()
    assert second.call
    assert "per QA" in second.call["arguments"]["command"]
    assert fenced(talk.result(second).ask().text)["markers"] == ["MARK-one", "MARK-two"]


def test_a_loop_never_ends(server: ModelServer, talk: Talk) -> None:
    talk = begin(talk, server, "loop")
    for _ in range(20):
        reply = talk.ask()
        assert reply.call
        talk = talk.result(reply)


def test_a_flood_has_the_size_that_was_asked_for(server: ModelServer, talk: Talk) -> None:
    assert len(begin(talk, server, "flood3").ask().text) == 3_000_000


def test_a_long_tool(server: ModelServer, talk: Talk) -> None:
    reply = begin(talk, server, "sleep5").ask()
    assert reply.call
    assert "time.sleep(5)" in reply.call["arguments"]["command"]


@pytest.mark.parametrize("name", ["text", "prose", "denied"])
def test_without_a_shell_there_is_a_text(server: ModelServer, talk: Talk, name: str) -> None:
    reply = replace(begin(talk, server, name), tool="Read").ask()
    assert reply.call is None
    assert ("```json" in reply.text) == (name != "prose")


def test_an_error_has_its_status_and_the_vendors_shape(server: ModelServer, talk: Talk, wire: str) -> None:
    for status in (400, 401, 403, 404, 413, 429, 500, 529):
        reply = begin(talk, server, str(status)).ask()
        assert reply.status == status
        error = json.loads(reply.raw)["error"]
        assert str(status) in error["message"]
        assert error["code"] == status if wire == "gemini" else error["type"]


def test_a_limit_tells_when_it_is_over(server: ModelServer, talk: Talk, wire: str) -> None:
    before = int(time.time())
    reply = begin(talk, server, "limitr600").ask()
    assert reply.status == 429
    assert reply.headers["retry-after"] == "600"
    error = json.loads(reply.raw)["error"]
    if wire == "messages":
        told = float(reply.headers["anthropic-ratelimit-unified-reset"])
        moment = datetime.fromisoformat(reply.headers["anthropic-ratelimit-requests-reset"])
        assert abs(moment.timestamp() - told) <= 1
    elif wire == "gemini":
        assert [entry.get("retryDelay") for entry in error["details"]] == [None, "600s"]
        return
    else:
        assert reply.headers["x-ratelimit-reset-requests"] == "600s"
        told = error["resets_at"]
    assert before + 600 <= told <= time.time() + 601


def test_only_the_first_go_wrong(server: ModelServer, talk: Talk) -> None:
    talk = begin(talk, server, "500x2")
    assert [talk.ask().status for _ in range(4)] == [500, 500, 200, 200]


def test_what_goes_wrong_is_counted_for_each_run_alone(server: ModelServer, talk: Talk) -> None:
    talk = begin(talk, server, "500x1")
    other = replace(talk, base=server.base("500x1", "other"))
    assert [talk.ask().status, other.ask().status, talk.ask().status] == [500, 500, 200]


def test_half_a_stream(server: ModelServer, talk: Talk) -> None:
    with pytest.raises(http.client.IncompleteRead) as caught:
        begin(talk, server, "drop").ask()
    assert caught.value.partial.startswith((b"event: ", b"data: ") if talk.streams else b"{")


def test_a_stream_that_is_no_json(server: ModelServer, talk: Talk) -> None:
    with pytest.raises(json.JSONDecodeError):
        begin(talk, server, "malformed").ask()


@pytest.mark.parametrize("name", ["hang", "stall"])
def test_silence_lasts_until_the_client_goes_and_holds_nobody_else_up(
    server: ModelServer, talk: Talk, wire: str, name: str
) -> None:
    hanging = begin(talk, server, name)
    path, body = WIRES[wire].request(hanging)
    place = urlsplit(hanging.base)
    with closing(http.client.HTTPConnection(str(place.netloc), timeout=30)) as connection:
        connection.request("POST", place.path + path, json.dumps(body))
        if name == "stall":
            assert connection.getresponse().read1(10)
        assert begin(talk, server, "ok").ask().status == 200
        readable, _, _ = select.select([connection.sock], [], [], 0.3)
        # What half a stream brought may still lie there; an end would be readable as nothing.
        assert not readable or connection.sock.recv(1_000_000)


def test_asides_are_answered_whatever_goes_wrong(server: ModelServer, talk: Talk) -> None:
    asked = replace(begin(talk, server, "500"), tool="", system="You write a short title for a conversation.")
    assert asked.ask().text == "A piece of work"
    router = {
        "type": "object",
        "properties": {"choice": {"type": "string", "enum": ["flash", "pro"]}},
        "required": ["choice"],
    }
    assert json.loads(replace(asked, schema=router).ask().text) == {"choice": "flash"}
    assert [kept.aside for kept in server.requests("r")] == [True, True]


def test_a_wanted_schema_gets_the_bare_json(server: ModelServer, talk: Talk) -> None:
    schema = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    reply = replace(begin(talk, server, "text"), schema=schema).ask()
    assert json.loads(reply.text)["markers"] == ["MARK-one"]
    strict = {**schema, "additionalProperties": False}
    reply = replace(begin(talk, server, "text"), schema=strict).ask()
    assert json.loads(reply.text) == {"status": "pass"}


def test_every_request_is_kept(server: ModelServer, talk: Talk, wire: str) -> None:
    talk = begin(talk, server, "ok")
    talk.result(talk.ask()).ask()
    first, second = server.requests("r")
    assert first.wire == wire
    assert first.headers["content-type"] == "application/json"
    assert "MARK-one" in json.dumps(first.body)
    assert [question.results for question in server.questions("r")] == [0, 1]
    assert second.question
    assert second.question.system == "Be an agent."
    assert second.question.done == ("fine",)
    assert server.requests("another") == []


def test_what_is_no_scenario_is_told(server: ModelServer) -> None:
    status, _, text = post(f"{server.root}/s/nonsense/r/v1/messages", {"messages": []})
    assert status == 404
    assert "nonsense" in text
    assert post(f"{server.root}/elsewhere", {}, "GET")[0] == 404


def test_lists_and_counts(server: ModelServer) -> None:
    base = server.base("ok", "r")
    models = json.loads(post(f"{base}/v1/models", {}, "GET")[2])
    assert "mock-model" in [entry["id"] for entry in models["data"]]
    assert post(base, {}, "HEAD")[0] == 200
    assert json.loads(post(f"{base}/v1/messages/count_tokens", {"messages": []})[2])["input_tokens"] > 0
    assert server.questions("r") == []


@pytest.mark.parametrize("name", ["okay", "500x", "999x", "loopx2", "hangr", "", "x2", "200"])
def test_names_that_are_no_scenario(name: str) -> None:
    assert scenario(name) is None


def test_a_command_in_the_shape_that_the_tool_takes() -> None:
    properties = {"cmd": {"type": "string"}, "yield_time_ms": {"type": "number"}, "why": {"type": "string"}}
    offered = Tool("exec_command", {"properties": properties, "required": ["cmd", "why"]})
    arguments = run(offered, "ls").arguments
    assert isinstance(arguments, dict)
    assert arguments["cmd"] == "ls"
    assert arguments["why"]
    array = Tool("shell", {"properties": {"command": {"type": "array"}}, "required": ["command"]})
    assert run(array, "ls").arguments == {"command": ["bash", "-lc", "ls"]}
    assert '"cmd": "ls"' in run(Tool("exec", {}, code=True), "ls").arguments


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 7}, 7),
        ({"enum": ["a", "b"]}, "a"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"type": ["integer", "null"]}, 1),
        ({"type": "INTEGER", "minimum": 3}, 3),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}, {"a": False}),
    ],
)
def test_the_smallest_value_of_a_schema(schema: Json, value: object) -> None:
    assert instance(schema) == value
