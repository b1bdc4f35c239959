"""A JSON Schema in the strict form that OpenAI's models take: every property required, and no others.

Where a schema uses what that form does not have, there is none; what is dropped from it is looked for when
the answer is judged, by the schema as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
BEYOND: Final = ("$ref", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems")
DEEPEST: Final = 5  # of objects in one another


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The strict form, None where there is none."""
    try:
        return _object(schema, DEEPEST) if _kind(schema) == "object" else None
    except _BeyondError:
        return None


class _BeyondError(Exception):
    """The schema cannot be said strictly."""


def _kind(schema: Mapping[str, Any]) -> str:
    said = schema.get("type")
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return "scalars" if set(map(str, said)) <= SCALARS else "beyond"
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "any"


def _form(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or any(word in schema for word in BEYOND) or depth == 0:
        raise _BeyondError
    kind = _kind(schema)
    if kind == "object":
        return _object(schema, depth)
    if kind == "array":
        return _described(schema, type="array", items=_form(schema.get("items", {"type": "string"}), depth))
    return _described(schema, **_scalar(schema, kind, depth))


def _object(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """An object of any properties has none: nobody could say which."""
    if any(word in schema for word in BEYOND):
        raise _BeyondError
    said, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(said, Mapping) or not isinstance(required, list):
        raise _BeyondError
    inner = {str(name): _form(said.get(name, {}), depth - 1) for name in dict.fromkeys([*said, *required])}
    return _described(
        schema, type="object", properties=inner, required=list(inner), additionalProperties=False
    )


def _scalar(schema: Mapping[str, Any], kind: str, depth: int) -> dict[str, Any]:
    if kind == "beyond" or (kind not in SCALARS and kind not in ("scalars", "any")):
        raise _BeyondError
    if isinstance(several := schema.get("anyOf"), list):
        return {"anyOf": [_form(each, depth) for each in several]}
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return {"type": schema.get("type") or _types(values), "enum": values}
    return {"type": schema.get("type") or "string"}


def _types(values: list[Any]) -> str | list[str]:
    names = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
    found = list(dict.fromkeys(names.get(type(value), "") for value in values))
    if "" in found or not found:
        raise _BeyondError
    return found[0] if len(found) == 1 else found


def _described(schema: Mapping[str, Any], **form: Any) -> dict[str, Any]:
    said = schema.get("description")
    return {**form, "description": said} if isinstance(said, str) else form
