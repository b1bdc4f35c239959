"""config show, config explain: what is set, where it comes from, and what it means."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import yaml
from pydantic import BaseModel

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import escape, table
from beads_ralph.config import edit, workspace
from beads_ralph.config.model import INNER, KEYS, SECTIONS, SHORTCUTS
from beads_ralph.config.published import json_schema
from beads_ralph.config.read import LoadedConfig, parse, read
from beads_ralph.config.settings_file import CONFIG_NAME, SET, users_file, users_path
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files

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
    place = found.files.get(key)
    variable = place if place is not None and place.startswith(SET) else None
    own = users_file()
    kind_of = "variable" if variable else "user" if place and place == str(own) else "file"
    return {
        "key": key,
        "value": _plain(value),
        "source": kind_of if place else BUILT_IN,
        "file": place,
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
            if row["source"] == "variable":
                place = escape(row["file"])
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


# --- set --------------------------------------------------------------------------------------------


def set_key(
    key: Annotated[str, typer.Argument(help="Such as dev_agent_timeout or plan.rig.")],
    value: Annotated[str, typer.Argument(help="As it would stand in the file: YAML.")],
    users: Annotated[bool, typer.Option("--user", help="In your own file, for all repositories.")] = False,
    json_: options.Json = False,
) -> Answer:
    """Set one key in the settings file; comments and everything else stay as they are."""
    name = full_key(key)
    path = users_path() if users else workspace.place().root / CONFIG_NAME
    before = text_files.read_text(path) if path.exists() else ""
    parse(before, str(path))
    try:
        said = yaml.safe_load(value)
        after = edit.with_setting(before, name, said)
    except (yaml.YAMLError, ValueError) as problem:
        raise RalphError(Code.USAGE, f"the value is not YAML: {problem}".splitlines()[0]) from None
    parse(after, str(path))
    text_files.make_folder(path.parent)
    text_files.write_text(path, after)
    data = {"key": name, "value": said, "file": str(path)}
    return Answer(data, lambda console: console.print(escape(f"{name}: {_shown(name, said)}  ({path})")))


# --- explain ----------------------------------------------------------------------------------------


def explain(
    key: Annotated[str, typer.Argument(help="Such as dev_agent_timeout or plan.rig, or a word to look for.")],
    json_: options.Json = False,
) -> Answer:
    """Explain a setting: what it means, what it may be, its default, an example."""
    found = [] if not key or _is_key(key) else _search(key)
    if len(found) > 1:
        rows = [{"key": one, "description": schema_of(one)["description"]} for one in found]
        return Answer({"found": rows}, lambda console: _show_found(console, rows))
    name = found[0] if found else full_key(key)
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


def _is_key(written: str) -> bool:
    try:
        full_key(written)
    except RalphError:
        return False
    return True


def _search(word: str) -> list[str]:
    """The keys that have the word in their name, their other names or what they mean."""
    wanted = word.lower().replace("-", "_")
    return [
        key
        for key in KEYS
        if wanted in key
        or any(wanted in other for other in also(key))
        or wanted.replace("_", " ") in schema_of(key)["description"].lower()
    ]


def _show_found(console: Console, rows: list[dict[str, Any]]) -> None:
    shown = table("key", folding=("meaning",))
    for row in rows:
        shown.add_row(row["key"], escape(row["description"]))
    console.print(shown)


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
    value = schema["examples"][0]
    for name in reversed(key.split(".")):
        value = {name: value}
    return str(yaml.safe_dump(value, sort_keys=False)).strip()
