"""OpenAI Chat Completions, and the errors that both of OpenAI's formats share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

from tests.model.exchange import (
    Answer,
    Call,
    Item,
    Json,
    Question,
    Refusal,
    Say,
    Tool,
    Usage,
    pieces,
    text_of,
)

name = "chat"
KINDS = {
    400: ("invalid_request_error", "invalid_value"),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("requests", "rate_limit_exceeded"),
}


def read(path: str, body: Json) -> Question:
    del path
    messages = body.get("messages", [])
    system = [
        text_of(message["content"]) for message in messages if message["role"] in {"system", "developer"}
    ]
    functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
    wanted = (body.get("response_format") or {}).get("json_schema") or {}
    return Question(
        model=body.get("model", ""),
        system="\n".join(system),
        items=tuple(item for message in messages for item in _items(message)),
        tools=tuple(Tool(entry["name"], entry.get("parameters") or {}) for entry in functions),
        schema=wanted.get("schema"),
        streams=bool(body.get("stream")),
    )


def _items(message: Json) -> Iterator[Item]:
    text = text_of(message.get("content"))
    if message["role"] == "tool":
        yield Item("result", text)
    elif message["role"] == "user":
        yield Item("user", text)
    elif message["role"] == "assistant":
        if text:
            yield Item("assistant", text)
        yield from (Item("call", call["function"]["arguments"]) for call in message.get("tool_calls") or [])


def whole(question: Question, answer: Answer, usage: Usage) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **_said(answer)}, "finish_reason": _reason(answer)}
    return {**_head(question, "chat.completion"), "choices": [choice], "usage": _usage(usage)}


def _head(question: Question, kind: str) -> Json:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": 1, "model": question.model}


def _said(answer: Answer) -> Json:
    if isinstance(answer, Say):
        return {"content": answer.text}
    function = {"name": answer.tool.name, "arguments": json.dumps(answer.arguments)}
    call = {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}


def _reason(answer: Answer) -> str:
    return "tool_calls" if isinstance(answer, Call) else "stop"


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def events(question: Question, answer: Answer, usage: Usage) -> Iterator[bytes]:
    head = _head(question, "chat.completion.chunk")
    for delta in _deltas(answer):
        yield _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    ended = {"index": 0, "delta": {}, "finish_reason": _reason(answer)}
    yield _data({**head, "choices": [ended]})
    yield _data({**head, "choices": [], "usage": _usage(usage)})
    yield b"data: [DONE]\n\n"


def _deltas(answer: Answer) -> Iterator[Json]:
    if isinstance(answer, Say):
        yield {"role": "assistant", "content": ""}
        yield from ({"content": piece} for piece in pieces(answer.text))
        return
    (call,) = _said(answer)["tool_calls"]
    arguments = call["function"]["arguments"]
    first = {**call, "index": 0, "function": {**call["function"], "arguments": ""}}
    yield {"role": "assistant", "content": None, "tool_calls": [first]}
    for piece in pieces(arguments):
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _data(chunk: Json) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _in_own_words(kind: str) -> tuple[Json, dict[str, str]]:
    if kind == "too_long":
        said = (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001."
        )
        return _error(said, "invalid_request_error", "context_length_exceeded"), {}
    said = "You exceeded your current quota, please check your plan and billing details."
    return _error(said, "insufficient_quota", "insufficient_quota"), {"status": "429"}


def _error(said: str, kind: str, code: str) -> Json:
    return {"error": {"message": said, "type": kind, "param": None, "code": code}}


def refuse(refusal: Refusal, now: float) -> tuple[Json, dict[str, str]]:
    if refusal.kind:
        return _in_own_words(refusal.kind)
    kind, code = KINDS.get(refusal.status, ("server_error", "server_error"))
    error: Json = {"message": f"scripted {refusal.status}", "type": kind, "param": None, "code": code}
    if refusal.status != 429:
        return {"error": error}, {}
    headers = {
        "retry-after": str(refusal.after),
        "retry-after-ms": str(refusal.after * 1000),
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": f"{refusal.after}s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": f"{refusal.after}s",
    }
    if refusal.exhausted:
        over = int(now + refusal.after)
        error |= {"type": "usage_limit_reached", "code": "insufficient_quota"}
        error |= {"plan_type": "plus", "resets_at": over, "resets_in_seconds": refusal.after}
        headers |= {"x-codex-primary-used-percent": "100.0", "x-codex-primary-reset-at": str(over)}
        headers["x-codex-primary-window-minutes"] = "300"
    return {"error": error}, headers
