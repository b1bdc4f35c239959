"""The JSON Schema of beads-ralph.yaml, for editors and other programs; it knows both layouts."""

from __future__ import annotations

from functools import cache
from typing import Any

from beads_ralph.config.model import INNER, SECTIONS, SHORTCUTS, Config

DRAFT = "https://json-schema.org/draft/2020-12/schema"


@cache
def json_schema() -> dict[str, Any]:
    """Draft 2020-12. What is valid by it may still break a rule that only reading the file knows.

    Made once: whoever explains a setting asks for it again and again."""
    made = Config.model_json_schema()
    keys = made.pop("properties")
    parts = {name: _or_nothing(keys.pop(name)) for name in INNER}
    keys |= {shortcut: _reference(name) for shortcut, name in SHORTCUTS.items()}
    sections = {
        name: _or_nothing(
            {
                "type": "object",
                "$ref": "#/$defs/Keys",
                "properties": {key: _reference(SHORTCUTS.get(meant, meant)) for key, meant in own.items()},
                "unevaluatedProperties": False,
            }
        )
        for name, own in SECTIONS.items()
    }
    return {
        "$schema": DRAFT,
        "title": "beads-ralph.yaml",
        "description": "The settings of beads-ralph for one repository; every key is optional.",
        "type": ["object", "null"],
        "$ref": "#/$defs/Keys",
        "properties": {**parts, **sections},
        "unevaluatedProperties": False,
        "$defs": {**made["$defs"], "Keys": {"properties": keys}},
    }


def _or_nothing(schema: dict[str, Any]) -> dict[str, Any]:
    """A section whose keys are all commented out."""
    return {"anyOf": [schema, {"type": "null"}]}


def _reference(name: str) -> dict[str, str]:
    part, _, key = name.rpartition(".")
    place = f"$defs/{INNER[part].__name__}" if part else "$defs/Keys"
    return {"$ref": f"#/{place}/properties/{key}"}
