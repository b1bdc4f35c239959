"""A QA agent's reply → pass, fail or stop; whatever is no verdict is a failure that says what it is."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from beads_ralph.agents import faults
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.evidence import Ruling
from beads_ralph.bead.model import OUTPUT_SCHEMA
from beads_ralph.process.jobs import Exit

Outcome = Literal[
    "time-out",
    "flooded",
    "memory",
    "crash",
    "no JSON",
    "bad JSON",
    "missing field",
    "wrong value",
    "limit",
    "auth",
    "server",
    "credit",
    "configuration",
    "refused",
    "too long",
    "stalled",
    "forgotten",
]
TROUBLES: Final[Mapping[str, Outcome]] = {
    "limit": "limit",
    "auth": "auth",
    "server": "server",
    "credit": "credit",
    "configuration": "configuration",
    "refused": "refused",
    "too_long": "too long",
    "stalled": "stalled",
    "unfinished": "crash",
    "forgotten": "forgotten",
}
"""Not verdicts on the work; a team looks at them before it asks for a judgement."""
NONCE: Final = "nonce"
SHORTEST: Final = 7
"""The fewest digits that name a commit."""
MAX_MESSAGE: Final = 16_000
MAX_SHOWN: Final = 80


class Judgement(NamedTuple):
    ruling: Ruling
    message: str
    details: Mapping[str, Any]
    """The agent's words beyond status and message; `outcome` names a failure that is no verdict."""


class NoVerdict(Judgement):
    """Nobody has judged: the answer cannot be read, or the call came to nothing. It passes nothing."""

    __slots__ = ()


class Flaw(NamedTuple):
    """One thing in an answer that its schema does not allow."""

    outcome: Outcome
    message: str


@dataclass(frozen=True)
class Question:
    """The call that a verdict must answer. What a file quotes, or another call said, lacks its nonce."""

    bead_id: str
    commit: str
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))

    def schema(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The agent's schema, with the nonce in it."""
        nonce = {"type": "string", "enum": [self.nonce]}
        properties = {**own.get("properties", {}), NONCE: nonce}
        return {**own, "properties": properties, "required": [*own.get("required", ()), NONCE]}

    def flaws(self, result: Mapping[str, Any], *, must_repeat: bool) -> Iterator[Flaw]:
        """Signs that the answer belongs to another call; a missing nonce is one where it must be there."""
        if NONCE not in result:
            if must_repeat:
                yield Flaw("missing field", f"{NONCE!r} is missing: it may be a quotation")
        elif result[NONCE] != self.nonce:
            yield Flaw("wrong value", f"{NONCE!r} is that of another call")
        inner = result.get("details")
        for said in (result, inner if isinstance(inner, Mapping) else {}):
            for key in ("bead", "bead_id"):
                if isinstance(said.get(key), str) and said[key] != self.bead_id:
                    yield Flaw("wrong value", f"the verdict is on bead {_shown(said[key])}")
            named = said.get("commit")
            if isinstance(named, str) and not (len(named) >= SHORTEST and self.commit.startswith(named)):
                yield Flaw("wrong value", f"the verdict is on commit {_shown(named)}")


def judge(
    reply: Reply,
    ended: Exit,
    schema: Mapping[str, Any] = OUTPUT_SCHEMA,
    question: Question | None = None,
    *,
    must_repeat: bool = True,
) -> Judgement:
    """Judge a QA agent's call. Its exit code can spoil a `pass`, but repairs nothing: a checker
    that says `fail` and exits with 1 has spoken clearly. An answer to another question is no verdict."""
    if (cut := _cut_short(reply, ended)) is not None:
        return cut
    if reply.result is None:
        return _no_result(reply, ended)
    bound = question.flaws(reply.result, must_repeat=must_repeat) if question else ()
    found = (*flaws_in(reply.result, OUTPUT_SCHEMA), *flaws_in(reply.result, schema), *bound)
    flaws = list(dict.fromkeys(found))
    if flaws:
        return _failed(flaws[0].outcome, "; ".join(flaw.message for flaw in flaws[:5]), ended)
    if reply.result["status"] == "pass" and ended.code != 0:
        return _failed("crash", f"said pass, but {_ending(ended)}", ended)
    return _spoken(reply.result, ended)


def _cut_short(reply: Reply, ended: Exit) -> Judgement | None:
    if (kind := faults.kind_of(reply, ended)) and kind in TROUBLES:
        said = reply.detail or faults.told(kind, "the program")
        return _failed(TROUBLES[kind], f"{said.rstrip('.')}. {faults.remedy(kind)}", ended)
    if ended.timed_out:
        return _failed("time-out", f"did not answer in time and was ended after {ended.seconds:.0f} s", ended)
    if ended.flooded:
        return _failed("flooded", "printed more than is allowed and was ended", ended)
    if ended.over_memory:
        return _failed("memory", f"used more than {ended.over_memory} MB and was ended", ended)
    trouble = TROUBLES.get(reply.trouble)
    return _failed(trouble, reply.detail or "it could not go on", ended) if trouble else None


def _no_result(reply: Reply, ended: Exit) -> Judgement:
    if ended.code != 0:
        return _failed("crash", f"{_ending(ended)}: {reply.detail}".rstrip(": "), ended)
    if reply.trouble == "unreadable":
        return _failed("bad JSON", reply.detail.removeprefix("bad JSON: "), ended)
    return _failed("no JSON", "the answer has no fenced json block", ended)


def _spoken(result: Mapping[str, Any], ended: Exit) -> Judgement:
    spoken = ("status", "message", "details", NONCE)
    details = {key: value for key, value in result.items() if key not in spoken}
    inner = result.get("details")
    if isinstance(inner, Mapping):
        details |= inner
    elif inner is not None:
        details["details"] = inner
    if ended.code != 0:
        details["exit_code"] = ended.code
    status: Ruling = result["status"]
    return Judgement(status, result["message"][:MAX_MESSAGE], details)


def _failed(outcome: Outcome, message: str, ended: Exit) -> Judgement:
    return NoVerdict(
        "fail", f"{outcome}: {message}"[:MAX_MESSAGE], {"outcome": outcome, "exit_code": ended.code}
    )


def _ending(ended: Exit) -> str:
    return f"was ended by signal {-ended.code}" if ended.code < 0 else f"exited with code {ended.code}"


# --- the part of JSON Schema that an output_schema uses -----------------------------------------------

TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "boolean": bool,
    "object": Mapping,
    "array": list,
    "null": type(None),
}


def flaws_in(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[Flaw]:
    """Breaches of type, enum, required and properties, at any depth; other keywords say nothing here."""
    name = repr(path) if path else "the answer"
    kinds = _kinds(schema)
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield Flaw("wrong value", f"{name} must be of type {' or '.join(kinds)}, not {_shown(value)}")
        return
    allowed = schema.get("enum")
    if isinstance(allowed, list) and not any(_same(value, choice) for choice in allowed):
        yield Flaw(
            "wrong value", f"{name} must be one of {', '.join(map(str, allowed))}, not {_shown(value)}"
        )
    if isinstance(value, Mapping):
        yield from _flaws_in_object(value, schema, path)


def _flaws_in_object(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[Flaw]:
    required, properties = schema.get("required"), schema.get("properties")
    for key in required if isinstance(required, list) else ():
        if key not in value:
            yield Flaw("missing field", f"{f'{path}.{key}' if path else key!r} is missing")
    for key, inner in properties.items() if isinstance(properties, Mapping) else ():
        if key in value and isinstance(inner, Mapping):
            yield from flaws_in(value[key], inner, f"{path}.{key}" if path else key)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    said = schema.get("type")
    return [
        kind
        for kind in (said if isinstance(said, list) else [said])
        if isinstance(kind, str) and kind in TYPES
    ]


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):  # which Python counts among the integers
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[kind])


def _same(value: Any, choice: Any) -> bool:
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
