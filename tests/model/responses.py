"""OpenAI Responses."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.model import chat
from tests.model.exchange import Answer, Item, Json, Question, Say, Tool, Usage, pieces, text_of

name = "responses"
refuse = chat.refuse
CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
RESULTS = {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}


def read(path: str, body: Json) -> Question:
    del path
    given = body.get("input", [])
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    system = [body.get("instructions") or ""]
    system += [text_of(item.get("content")) for item in listed if _role(item) in {"system", "developer"}]
    wanted = (body.get("text") or {}).get("format") or {}
    return Question(
        model=body.get("model", ""),
        system="\n".join(filter(None, system)),
        items=tuple(_items(listed)),
        tools=tuple(_tools([*body.get("tools", []), *_additional(listed)])),
        schema=wanted.get("schema"),
        streams=bool(body.get("stream")),
    )


def _role(item: Json) -> str:
    return str(item.get("role", "")) if item.get("type", "message") == "message" else ""


def _items(listed: list[Json]) -> Iterator[Item]:
    for item in listed:
        kind = item.get("type", "message")
        if kind in RESULTS:
            yield Item("result", text_of(item.get("output", "")))
        elif kind in CALLS:
            yield Item("call", str(item.get(CALLS[kind], "")))
        elif _role(item) == "user":
            yield Item("user", text_of(item.get("content")))
        elif _role(item) == "assistant":
            yield Item("assistant", text_of(item.get("content")))


def _additional(listed: list[Json]) -> Iterator[Json]:
    """Tools that come inside the conversation: how codex sends them for the models it knows."""
    for item in listed:
        if item.get("type") == "additional_tools":
            yield from item.get("tools", [])


def _tools(listed: list[Json], namespace: str = "") -> Iterator[Tool]:
    for tool in listed:
        kind = tool.get("type")
        if kind == "namespace":
            # "functions" is where tools live anyway; a call does not name it.
            inner = "" if tool["name"] == "functions" else tool["name"]
            yield from _tools(tool.get("tools", []), inner)
        elif kind == "custom":
            yield Tool(tool["name"], {}, code=True, namespace=namespace)
        elif "name" in tool:
            yield Tool(tool["name"], tool.get("parameters") or {}, namespace=namespace)


def whole(question: Question, answer: Answer, usage: Usage) -> Json:
    return _response(question, [_output(answer)], "completed", _usage(usage))


def _response(question: Question, output: list[Json], status: str, usage: Json | None) -> Json:
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": question.model,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": usage,
    }


def _output(answer: Answer) -> Json:
    unique = uuid.uuid4().hex
    if isinstance(answer, Say):
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        message = {"type": "message", "id": f"msg_{unique}", "role": "assistant"}
        return {**message, "status": "completed", "content": [part]}
    call: Json = {"id": f"fc_{unique}", "call_id": f"call_{unique[:24]}", "name": answer.tool.name}
    if answer.tool.namespace:
        call["namespace"] = answer.tool.namespace
    if isinstance(answer.arguments, str):
        return {"type": "custom_tool_call", **call, "status": "completed", "input": answer.arguments}
    arguments = json.dumps(answer.arguments)
    return {"type": "function_call", **call, "status": "completed", "arguments": arguments}


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }


def events(question: Question, answer: Answer, usage: Usage) -> Iterator[bytes]:
    for number, data in enumerate(_stream(question, answer, usage)):
        text = json.dumps({**data, "sequence_number": number})
        yield f"event: {data['type']}\ndata: {text}\n\n".encode()


def _stream(question: Question, answer: Answer, usage: Usage) -> Iterator[Json]:
    response = _response(question, [], "in_progress", None)
    yield {"type": "response.created", "response": response}
    output = _output(answer)
    place = {"output_index": 0, "item_id": output["id"]}
    yield {"type": "response.output_item.added", "output_index": 0, "item": _emptied(output, answer)}
    yield from _said(output, place) if isinstance(answer, Say) else _called(output, place)
    yield {"type": "response.output_item.done", "output_index": 0, "item": output}
    ended = {**response, "status": "completed", "output": [output], "usage": _usage(usage)}
    yield {"type": "response.completed", "response": ended}


def _emptied(output: Json, answer: Answer) -> Json:
    changed: Json = {"content": []} if isinstance(answer, Say) else {_filled(output): ""}
    return {**output, "status": "in_progress", **changed}


def _filled(output: Json) -> str:
    return CALLS[output["type"]]


def _said(output: Json, place: Json) -> Iterator[Json]:
    part: dict[str, Any] = output["content"][0]
    at = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece}
    yield {"type": "response.output_text.done", **at, "text": part["text"]}
    yield {"type": "response.content_part.done", **at, "part": part}


def _called(output: Json, place: Json) -> Iterator[Json]:
    field = _filled(output)
    kind = "function_call_arguments" if field == "arguments" else "custom_tool_call_input"
    for piece in pieces(output[field]):
        yield {"type": f"response.{kind}.delta", **place, "delta": piece}
    yield {"type": f"response.{kind}.done", **place, field: output[field]}
