"""Anthropic Messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

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

name = "messages"
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read(path: str, body: Json) -> Question:
    del path
    items = [item for message in body.get("messages", []) for item in _items(message)]
    tools = [Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools", [])]
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return Question(
        model=body.get("model", ""),
        system=text_of(body.get("system", "")),
        items=tuple(items),
        tools=tuple(tools),
        schema=wanted.get("schema"),
        streams=bool(body.get("stream")),
    )


def _items(message: Json) -> Iterator[Item]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if results:
        # Text beside a result is a reminder of the CLI's, not a new turn of the user's.
        yield from (Item("result", text_of(block.get("content", ""))) for block in results)
        rest = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
        if Item("user", rest).is_said:
            yield Item("user", rest)
        return
    for block in blocks:
        if block.get("type") == "tool_use":
            yield Item("call", json.dumps(block.get("input")))
        elif block.get("type") == "text":
            yield Item("assistant" if message["role"] == "assistant" else "user", block["text"])


def whole(question: Question, answer: Answer, usage: Usage) -> Json:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": [_block(answer)],
        "stop_reason": _reason(answer),
        "stop_sequence": None,
        "usage": _usage(usage),
    }


def _block(answer: Answer) -> Json:
    if isinstance(answer, Say):
        return {"type": "text", "text": answer.text}
    return {
        "type": "tool_use",
        "id": f"toolu_{uuid.uuid4().hex[:24]}",
        "name": answer.tool.name,
        "input": answer.arguments,
    }


def _reason(answer: Answer) -> str:
    return "tool_use" if isinstance(answer, Call) else "end_turn"


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.fresh,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def events(question: Question, answer: Answer, usage: Usage) -> Iterator[bytes]:
    message = whole(question, answer, usage)
    block = message["content"][0]
    first = {**message, "content": [], "stop_reason": None, "usage": {**_usage(usage), "output_tokens": 1}}
    yield _event("message_start", {"message": first})
    empty = {**block, "input": {}} if isinstance(answer, Call) else {**block, "text": ""}
    yield _event("content_block_start", {"index": 0, "content_block": empty})
    yield _event("ping", {})
    for delta in _deltas(answer):
        yield _event("content_block_delta", {"index": 0, "delta": delta})
    yield _event("content_block_stop", {"index": 0})
    ended = {"stop_reason": _reason(answer), "stop_sequence": None}
    yield _event("message_delta", {"delta": ended, "usage": _usage(usage)})
    yield _event("message_stop", {})


def _deltas(answer: Answer) -> Iterator[Json]:
    if isinstance(answer, Say):
        yield from ({"type": "text_delta", "text": piece} for piece in pieces(answer.text))
    else:
        arguments = json.dumps(answer.arguments)
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments))


def _event(kind: str, data: Json) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


OWN_WORDS = {
    "too_long": "prompt is too long: 208310 tokens > 200000 maximum",
    "credit": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
}


def refuse(refusal: Refusal, now: float) -> tuple[Json, dict[str, str]]:
    kind = KINDS.get(refusal.status, "api_error")
    said = OWN_WORDS.get(refusal.kind, f"scripted {refusal.status}")
    body = {
        "type": "error",
        "error": {"type": kind, "message": said},
        "request_id": "req_scripted",
    }
    return body, _limit_headers(refusal, now) if refusal.status == 429 else {}


def _limit_headers(refusal: Refusal, now: float) -> dict[str, str]:
    over = now + refusal.after
    moment = datetime.fromtimestamp(over, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {"retry-after": str(refusal.after)}
    for what in ("requests", "tokens", "input-tokens", "output-tokens"):
        headers[f"anthropic-ratelimit-{what}-limit"] = "50"
        headers[f"anthropic-ratelimit-{what}-remaining"] = "0"
        headers[f"anthropic-ratelimit-{what}-reset"] = moment
    if refusal.exhausted:
        headers |= {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(int(over)),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        }
    return headers
