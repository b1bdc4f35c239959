"""config show, config explain: what is set, where it comes from, and what it means."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pydantic import BaseModel

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import escape, table
from beads_ralph.config import workspace
from beads_ralph.config.model import INNER, KEYS, SECTIONS, SHORTCUTS
from beads_ralph.config.published import json_schema
from beads_ralph.config.read import LoadedConfig, read
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.errors import Code, RalphError

if TYPE_CHECKING:
    from rich.console import Console


BUILT_IN: Final = "built-in"
KINDS: Final = {"string": "text", "boolean": "true or false", "object": "mapping"}
UNITS: Final = (("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001))


# --- show -------------------------------------------------------------------------------------------


def show(config: options.ConfigFile = None, json_: options.Json = False) -> Answer:
    """Show every setting in effect here, and where it comes from."""
    found = read(workspace.place().root, config)
    file = str(found.file) if found.file else None
    rows = [_row(found, key) for key in KEYS]
    data = {"file": file, "named_by": found.named_by or None, "settings": rows}
    return Answer(data, lambda console: _show(console, found, rows), found.warnings)


def _row(found: LoadedConfig, key: str) -> dict[str, Any]:
    value: Any = found.config
    for name in key.split("."):
        value = getattr(value, name)
    said = key in found.lines
    return {
        "key": key,
        "value": _plain(value),
        "source": "file" if said else BUILT_IN,
        "file": str(found.file) if said else None,
        "line": found.lines.get(key),
    }


def _plain(value: Any) -> Any:
    """As JSON has it; of an agent or a verifier what was said of it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _show(console: Console, found: LoadedConfig, rows: list[dict[str, Any]]) -> None:
    shown = table(folding=("key", "from", "value"))
    for row in rows:
        place = f"[dim]{BUILT_IN}[/dim]"
        if row["file"]:
            name = os.path.relpath(row["file"])
            place = escape(f"{row['file'] if name.startswith('..') else name}:{row['line']}")
        shown.add_row(row["key"], place, escape(_shown(row["key"], row["value"])))
    console.print(shown)
    console.print(f"[dim]{escape(_origin(found))}[/dim]")


def _origin(found: LoadedConfig) -> str:
    if found.file is None:
        return f"no {CONFIG_NAME} here: all of it is built in"
    named = f", named by {found.named_by}" if found.named_by else ""
    return f"settings of {found.file}{named}"


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "not set"
    if kind(schema_of(key)).startswith("duration"):
        return duration(value)
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def duration(seconds: float) -> str:
    """`1800.0` as people write it: `30m`."""
    parts, left = [], seconds
    for unit, size in UNITS:
        count = int(left / size + 1e-9)
        if count:
            parts.append(f"{count}{unit}")
            left -= count * size
    return "".join(parts) or f"{seconds:g}s"


# --- explain ----------------------------------------------------------------------------------------


def explain(
    key: Annotated[str, typer.Argument(help="Such as dev_agent_timeout or plan.rig.")],
    json_: options.Json = False,
) -> Answer:
    """Explain a setting: what it means, what it may be, its default, an example."""
    name = full_key(key)
    schema = schema_of(name)
    default = _plain(KEYS[name].model_fields[name.rpartition(".")[2]].get_default(call_default_factory=True))
    data = {
        "key": name,
        "description": schema["description"],
        "type": kind(schema),
        "default": default,
        "example": _example(name, schema),
        "also": also(name),
    }
    return Answer(data, lambda console: _show_one(console, data))


def _show_one(console: Console, data: Mapping[str, Any]) -> None:
    rows = {
        "type": data["type"],
        "default": _shown(data["key"], data["default"]),
        "example": data["example"],
        "also": ", ".join(data["also"]),
    }
    console.print(f"[bold]{data['key']}[/bold]\n{escape(data['description'])}\n")
    for name, text in rows.items():
        if text:
            indented = text.replace("\n", "\n" + " " * 9)
            console.print(f"[dim]{name:<7}[/dim]  {escape(indented)}")


def full_key(written: str) -> str:
    """The key that a word means: itself, a shortcut, or a key of a section such as timeouts.dev_agent."""
    section, _, key = written.rpartition(".")
    name = written if section in INNER else SECTIONS.get(section, {}).get(key, key)
    name = SHORTCUTS.get(name, name)
    if name in KEYS and (not section or section in INNER or section in SECTIONS):
        return name
    known = [*KEYS, *SHORTCUTS, *(f"{part}.{word}" for part, words in SECTIONS.items() for word in words)]
    close = difflib.get_close_matches(written, known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    action = "List the keys with: beads-ralph config show"
    raise RalphError(Code.USAGE, f"there is no setting '{written}'{hint}", suggested_action=action)


def also(name: str) -> list[str]:
    """The other ways to write it."""
    words = [word for word, meant in SHORTCUTS.items() if meant == name]
    return words + [
        f"{section}.{key}"
        for section, keys in SECTIONS.items()
        for key, meant in keys.items()
        if SHORTCUTS.get(meant, meant) == name
    ]


def schema_of(key: str) -> dict[str, Any]:
    """The JSON Schema of one key."""
    definitions = json_schema()["$defs"]
    part, _, name = key.rpartition(".")
    home = INNER[part].__name__ if part else "Keys"
    found: dict[str, Any] = definitions[home]["properties"][name]
    return found


def kind(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in plain words."""
    if schema.get("title") in ("duration", "agent", "command"):
        return str(schema["title"])
    if "anyOf" in schema:
        words = [kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(words) + (", or nothing" if len(words) < len(schema["anyOf"]) else "")
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "$ref" in schema:
        return "mapping"
    if schema["type"] == "array":
        return f"list of {kind(schema['items'])}s"
    return KINDS.get(schema["type"]) or _number(schema)


def _number(schema: Mapping[str, Any]) -> str:
    word = "whole number" if schema["type"] == "integer" else "number"
    if "maximum" in schema:
        return f"{word} from {schema['minimum']} to {schema['maximum']}"
    if "exclusiveMinimum" in schema:
        return f"{word} above {schema['exclusiveMinimum']:g}"
    return f"{word} of at least {schema['minimum']:g}"


def _example(key: str, schema: Mapping[str, Any]) -> str:
    """As it would stand in the file."""
    import yaml

    value = schema["examples"][0]
    for name in reversed(key.split(".")):
        value = {name: value}
    return str(yaml.safe_dump(value, sort_keys=False)).strip()
