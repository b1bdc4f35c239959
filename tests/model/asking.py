"""A plain HTTP client that asks the scripted model in each of its formats, as a CLI would."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.model.exchange import Json, text_of

SCHEMA: Json = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "risk": {"type": "string", "enum": ["LOW", "HIGH"]}},
    "required": ["command", "risk"],
}
# No proxy of the machine's may come between.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Reply:
    """What came back, whichever format it had."""

    status: int
    headers: dict[str, str]
    text: str = ""
    call: Json | None = None
    usage: tuple[int, int, int] = (0, 0, 0)
    """Fresh input, output and cached tokens."""
    raw: str = ""


@dataclass(frozen=True)
class Talk:
    """A conversation in one format; every method gives a longer one."""

    base: str
    wire: str
    streams: bool = True
    turns: tuple[Json, ...] = ()
    tool: str = "Bash"
    schema: Json | None = None
    system: str = "Be an agent."

    def user(self, text: str) -> Talk:
        return self._with(WIRES[self.wire].user(text))

    def answered(self, reply: Reply) -> Talk:
        """With the final text of the model."""
        return self._with(WIRES[self.wire].assistant(reply.text))

    def result(self, reply: Reply, text: str = "fine") -> Talk:
        """With the call and what came of it."""
        assert reply.call is not None, reply
        talk = self
        for turn in WIRES[self.wire].result(reply.call, text):
            talk = talk._with(turn)
        return talk

    def _with(self, turn: Json) -> Talk:
        return replace(self, turns=(*self.turns, turn))

    def ask(self) -> Reply:
        wire = WIRES[self.wire]
        path, body = wire.request(self)
        status, headers, text = post(self.base + path, body)
        read = wire.stream if self.streams else wire.whole
        if status != 200:
            return Reply(status, headers, raw=text)
        return replace(read(text), status=status, headers=headers, raw=text)


def post(url: str, body: Json, method: str = "POST") -> tuple[int, dict[str, str], str]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)  # noqa: S310 - loopback
    try:
        with OPENER.open(request, timeout=30) as response:
            return response.status, _small(response.headers), response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _small(error.headers), error.read().decode()


def _small(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def data_of(text: str) -> list[Json]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@dataclass(frozen=True)
class WireTalk:
    user: Callable[[str], Json]
    assistant: Callable[[str], Json]
    result: Callable[[Json, str], tuple[Json, ...]]
    request: Callable[[Talk], tuple[str, Json]]
    whole: Callable[[str], Reply]
    stream: Callable[[str], Reply]


# --- Anthropic Messages ---------------------------------------------------------------------------


def _messages_request(talk: Talk) -> tuple[str, Json]:
    body: Json = {"model": "m", "system": talk.system, "messages": list(talk.turns), "stream": talk.streams}
    if talk.tool:
        body["tools"] = [{"name": talk.tool, "input_schema": SCHEMA}]
    if talk.schema:
        body["output_config"] = {"format": {"type": "json_schema", "schema": talk.schema}}
    return "/v1/messages?beta=true", body


def _messages_whole(text: str) -> Reply:
    message = json.loads(text)
    (block,) = message["content"]
    used = message["usage"]
    usage = (used["input_tokens"], used["output_tokens"], used["cache_read_input_tokens"])
    call = block if block["type"] == "tool_use" else None
    return Reply(200, {}, block.get("text", ""), call and {**call, "arguments": call["input"]}, usage)


def _messages_stream(text: str) -> Reply:
    events = data_of(text)
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    (block,) = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    arguments = "".join(delta.get("partial_json", "") for delta in deltas)
    (ended,) = [event for event in events if event["type"] == "message_delta"]
    message = {"content": [{**block, "text": "".join(delta.get("text", "") for delta in deltas)}]}
    if block["type"] == "tool_use":
        message["content"][0]["input"] = json.loads(arguments)
    return _messages_whole(json.dumps({**message, "usage": ended["usage"]}))


def _messages_result(call: Json, text: str) -> tuple[Json, ...]:
    used = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["input"]}
    told = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
    reminder = {"type": "text", "text": "<system-reminder>Mind the gap.</system-reminder>"}
    return {"role": "assistant", "content": [used]}, {"role": "user", "content": [told, reminder]}


# --- OpenAI Responses -----------------------------------------------------------------------------


def _responses_request(talk: Talk) -> tuple[str, Json]:
    body: Json = {
        "model": "m",
        "instructions": talk.system,
        "input": list(talk.turns),
        "stream": talk.streams,
    }
    if talk.tool:
        body["tools"] = [{"type": "function", "name": talk.tool, "parameters": SCHEMA}]
    if talk.schema:
        body["text"] = {"format": {"type": "json_schema", "name": "n", "schema": talk.schema}}
    return "/v1/responses", body


def _responses_whole(text: str) -> Reply:
    response = json.loads(text)
    (item,) = response["output"]
    used = response["usage"]
    cached = used["input_tokens_details"]["cached_tokens"]
    usage = (used["input_tokens"] - cached, used["output_tokens"], cached)
    if item["type"] == "function_call":
        return Reply(200, {}, call={**item, "arguments": json.loads(item["arguments"])}, usage=usage)
    return Reply(200, {}, text_of(item["content"]), usage=usage)


def _responses_stream(text: str) -> Reply:
    events = data_of(text)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    reply = _responses_whole(json.dumps(events[-1]["response"]))
    deltas = "".join(event["delta"] for event in events if event["type"].endswith(".delta"))
    assert (json.loads(deltas) == reply.call["arguments"]) if reply.call else (deltas == reply.text)
    return reply


def _responses_result(call: Json, text: str) -> tuple[Json, ...]:
    arguments = json.dumps(call["arguments"])
    used = {"type": "function_call", "call_id": call["call_id"], "name": call["name"], "arguments": arguments}
    return used, {"type": "function_call_output", "call_id": call["call_id"], "output": text}


# --- OpenAI Chat Completions ----------------------------------------------------------------------


def _chat_request(talk: Talk) -> tuple[str, Json]:
    messages = [{"role": "system", "content": talk.system}, *talk.turns]
    body: Json = {"model": "m", "messages": messages, "stream": talk.streams}
    if talk.tool:
        body["tools"] = [{"type": "function", "function": {"name": talk.tool, "parameters": SCHEMA}}]
    if talk.schema:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": talk.schema}}
    return "/v1/chat/completions", body


def _chat_whole(text: str) -> Reply:
    completion = json.loads(text)
    message = completion["choices"][0]["message"]
    used = completion["usage"]
    cached = used["prompt_tokens_details"]["cached_tokens"]
    usage = (used["prompt_tokens"] - cached, used["completion_tokens"], cached)
    calls = message.get("tool_calls")
    if calls:
        (call,) = calls
        return Reply(
            200, {}, call={**call, "arguments": json.loads(call["function"]["arguments"])}, usage=usage
        )
    return Reply(200, {}, message["content"], usage=usage)


def _chat_stream(text: str) -> Reply:
    *chunks, last = data_of(text)
    assert text.endswith("data: [DONE]\n\n")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    message: Json = {"content": "".join(delta.get("content") or "" for delta in deltas)}
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    if calls:
        arguments = "".join(call["function"]["arguments"] for call in calls)
        message["tool_calls"] = [{**calls[0], "function": {**calls[0]["function"], "arguments": arguments}}]
    return _chat_whole(json.dumps({"choices": [{"message": message}], "usage": last["usage"]}))


def _chat_result(call: Json, text: str) -> tuple[Json, ...]:
    used = {"id": call["id"], "type": "function", "function": call["function"]}
    answered = {"role": "tool", "tool_call_id": call["id"], "content": text}
    return {"role": "assistant", "content": None, "tool_calls": [used]}, answered


# --- Gemini ---------------------------------------------------------------------------------------


def _gemini_request(talk: Talk) -> tuple[str, Json]:
    body: Json = {"contents": list(talk.turns), "systemInstruction": {"parts": [{"text": talk.system}]}}
    if talk.tool:
        body["tools"] = [{"functionDeclarations": [{"name": talk.tool, "parametersJsonSchema": SCHEMA}]}]
    if talk.schema:
        body["generationConfig"] = {"responseJsonSchema": talk.schema}
    method = "streamGenerateContent?alt=sse" if talk.streams else "generateContent"
    return f"/v1beta/models/gemini-2.5-flash:{method}", body


def _gemini_whole(text: str) -> Reply:
    response = json.loads(text)
    candidate = response["candidates"][0]
    assert candidate["finishReason"] == "STOP"
    (part,) = candidate["content"]["parts"]
    used = response["usageMetadata"]
    cached = used["cachedContentTokenCount"]
    usage = (used["promptTokenCount"] - cached, used["candidatesTokenCount"], cached)
    call = part.get("functionCall")
    return Reply(200, {}, part.get("text", ""), call and {**call, "arguments": call["args"]}, usage)


def _gemini_stream(text: str) -> Reply:
    responses = data_of(text)
    parts = [part for entry in responses for part in entry["candidates"][0]["content"]["parts"]]
    last = responses[-1]
    if "functionCall" not in parts[-1]:
        last["candidates"][0]["content"]["parts"] = [{"text": "".join(part["text"] for part in parts)}]
    return _gemini_whole(json.dumps(last))


def _gemini_result(call: Json, text: str) -> tuple[Json, ...]:
    used = {"functionCall": {"name": call["name"], "args": call["args"]}}
    told = {"functionResponse": {"name": call["name"], "response": {"output": text}}}
    return {"role": "model", "parts": [used]}, {"role": "user", "parts": [told]}


WIRES = {
    "messages": WireTalk(
        lambda text: {"role": "user", "content": [{"type": "text", "text": text}]},
        lambda text: {"role": "assistant", "content": [{"type": "text", "text": text}]},
        _messages_result,
        _messages_request,
        _messages_whole,
        _messages_stream,
    ),
    "responses": WireTalk(
        lambda text: {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        lambda text: {"role": "assistant", "content": [{"type": "output_text", "text": text}]},
        _responses_result,
        _responses_request,
        _responses_whole,
        _responses_stream,
    ),
    "chat": WireTalk(
        lambda text: {"role": "user", "content": text},
        lambda text: {"role": "assistant", "content": text},
        _chat_result,
        _chat_request,
        _chat_whole,
        _chat_stream,
    ),
    "gemini": WireTalk(
        lambda text: {"role": "user", "parts": [{"text": text}]},
        lambda text: {"role": "model", "parts": [{"text": text}]},
        _gemini_result,
        _gemini_request,
        _gemini_whole,
        _gemini_stream,
    ),
}
