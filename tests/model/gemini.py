"""Gemini generateContent and streamGenerateContent."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator

from tests.model.exchange import Answer, Item, Json, Question, Refusal, Say, Tool, Usage, pieces, text_of

name = "gemini"
METHOD = re.compile(r"/models/(?P<model>[^/:]+):(?P<method>\w+)")
KINDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    529: "UNAVAILABLE",
}


def read(path: str, body: Json) -> Question:
    matched = METHOD.search(path)
    assert matched, path
    settings = body.get("generationConfig") or {}
    return Question(
        model=matched["model"],
        system=_text((body.get("systemInstruction") or {}).get("parts", [])),
        items=tuple(item for content in body.get("contents", []) for item in _items(content)),
        tools=tuple(_tools(body.get("tools") or [])),
        schema=settings.get("responseJsonSchema") or settings.get("responseSchema"),
        streams=matched["method"] == "streamGenerateContent",
    )


def _text(parts: list[Json]) -> str:
    return "\n".join(part["text"] for part in parts if "text" in part)


def _items(content: Json) -> Iterator[Item]:
    parts = content.get("parts", [])
    for part in parts:
        if "functionResponse" in part:
            yield Item("result", text_of(part["functionResponse"].get("response", "")))
        elif "functionCall" in part:
            yield Item("call", json.dumps(part["functionCall"].get("args")))
    if text := _text([part for part in parts if not part.get("thought")]):
        yield Item("assistant" if content.get("role") == "model" else "user", text)


def _tools(listed: list[Json]) -> Iterator[Tool]:
    for group in listed:
        for entry in group.get("functionDeclarations", []):
            schema = entry.get("parametersJsonSchema") or entry.get("parameters") or {}
            yield Tool(entry["name"], schema)


def whole(question: Question, answer: Answer, usage: Usage) -> Json:
    return _response(question, [_part(answer)], "STOP", usage)


def _response(question: Question, parts: list[Json], reason: str | None, usage: Usage) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    head = {"modelVersion": question.model, "responseId": uuid.uuid4().hex}
    return {"candidates": [candidate], "usageMetadata": _usage(usage), **head}


def _part(answer: Answer) -> Json:
    if isinstance(answer, Say):
        return {"text": answer.text}
    return {"functionCall": {"name": answer.tool.name, "args": answer.arguments}}


def _usage(usage: Usage) -> Json:
    return {
        "promptTokenCount": usage.prompt,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.prompt + usage.output + usage.reasoning,
    }


def events(question: Question, answer: Answer, usage: Usage) -> Iterator[bytes]:
    if isinstance(answer, Say):
        for piece in pieces(answer.text):
            yield _data(_response(question, [{"text": piece}], None, usage))
        yield _data(_response(question, [{"text": ""}], "STOP", usage))
    else:
        yield _data(whole(question, answer, usage))


def _data(response: Json) -> bytes:
    return f"data: {json.dumps(response)}\n\n".encode()


def refuse(refusal: Refusal, now: float) -> tuple[Json, dict[str, str]]:
    del now
    if refusal.kind == "too_long":
        said = "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."
        return {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}, {}
    if refusal.kind == "credit":
        said = "Your prepaid credits are used up: payment required."
        return {"error": {"code": 402, "message": said, "status": "FAILED_PRECONDITION"}}, {"status": "402"}
    status = KINDS.get(refusal.status, "INTERNAL")
    error: Json = {"code": refusal.status, "message": f"scripted {refusal.status}", "status": status}
    if refusal.status != 429:
        return {"error": error}, {}
    rpc = "type.googleapis.com/google.rpc"
    period = "PerDay" if refusal.exhausted else "PerMinute"
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": f"GenerateRequests{period}PerProjectPerModel-FreeTier",
    }
    error["details"] = [
        {"@type": f"{rpc}.QuotaFailure", "violations": [violation]},
        {"@type": f"{rpc}.RetryInfo", "retryDelay": f"{refusal.after}s"},
    ]
    return {"error": error}, {"retry-after": str(refusal.after)}
