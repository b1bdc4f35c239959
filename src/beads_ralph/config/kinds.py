"""The kinds of values that only settings have, each with the ways in which a file may write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, Verifier
from beads_ralph.bead.names import persona_path
from beads_ralph.bead.words import seconds_of

DURATION_PATTERN: Final = r"^\d+(\.\d+)?$|^(\s*\d+(\.\d+)?\s*(ms|s|m|h))+\s*$"


def _duration(value: Any) -> Any:
    """`30s`, `15m`, `1h30m` or a number of seconds."""
    if not isinstance(value, str):
        return value
    seconds = seconds_of(value)
    if seconds is None:
        raise PydanticCustomError("duration", "should be seconds, or a duration such as 30s, 15m or 1h30m")
    return seconds


def _agent(value: Any) -> Any:
    """An agent as in a plan's bullet, or spelled out as a mapping."""
    if isinstance(value, str):
        return personas.parse_agent(value)
    if isinstance(value, dict):
        spec = {"role": "polecat", **value}
        if isinstance(spec.get("agent"), str):
            spec["agent"] = persona_path(spec["agent"])
        return AgentSpec.model_validate(spec)
    return value


def _answer(value: Any) -> Any:
    """YAML takes a bare yes or no for true or false."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def _verifier(value: Any) -> Any:
    return Verifier(name=value, command=value) if isinstance(value, str) else value


def _kind(name: str, *shapes: Mapping[str, Any]) -> WithJsonSchema:
    """The JSON Schema of a value that may be written in several ways; the title is what people call it."""
    return WithJsonSchema({"title": name, "anyOf": list(shapes)})


def _mapping(model: type[BaseModel], *required: str) -> dict[str, Any]:
    """A mapping with the keys of a model; what their values must be, reading the file says."""
    keys = dict.fromkeys(model.model_fields, True)
    return {"type": "object", "properties": keys, "required": [*required], "additionalProperties": False}


TEXT: Final = {"type": "string", "minLength": 1}
Seconds = Annotated[
    float,
    BeforeValidator(_duration),
    Field(gt=0, allow_inf_nan=False),
    _kind(
        "duration", {"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}
    ),
]
SecondsOrNone = Annotated[
    float,
    BeforeValidator(_duration),
    Field(ge=0, allow_inf_nan=False),
    _kind("duration or 0", {"type": "number", "minimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}),
]
Push = Annotated[
    Literal["ask", "yes", "no"],
    BeforeValidator(_answer),
    _kind("ask, yes or no", {"enum": ["ask", "yes", "no"]}, {"type": "boolean"}),
]
Agent = Annotated[AgentSpec, BeforeValidator(_agent), _kind("agent", TEXT, _mapping(AgentSpec, "agent"))]
Command = Annotated[
    Verifier, BeforeValidator(_verifier), _kind("command", TEXT, _mapping(Verifier, "name", "command"))
]
