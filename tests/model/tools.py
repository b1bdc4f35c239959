"""The shell tool among those that a CLI offers, and calls of it that its schema accepts."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.model.exchange import Call, Json, Question, Tool

# In the order of preference: claude; codex, old and new; gemini; goose, old and new; opencode and copilot.
SHELLS = (
    "Bash",
    "exec_command",
    "shell_command",
    "shell",
    "run_shell_command",
    "developer__shell",
    "bash",
    "execute_bash",
)
COMMANDS = ("command", "cmd", "script")
# codex returns early from a command that takes longer, and wants to be asked again.
STILL_RUNNING = re.compile(r"Process running with session ID (\d+)")
WAIT_MILLISECONDS = 30_000
PROGRAM_MILLISECONDS = 600_000


def shell(question: Question) -> Tool | None:
    """The tool that runs a command; codex's program tool can run one too."""
    found = question.tool(*SHELLS)
    if found:
        return found
    return next((tool for tool in question.tools if tool.code and tool.name == "exec"), None)


def run(tool: Tool, command: str) -> Call:
    """A call that runs the command."""
    if tool.code:
        return Call(tool, _program(command))
    properties: Json = tool.schema.get("properties") or {}
    field = next((name for name in COMMANDS if name in properties), COMMANDS[0])
    taken = str((properties.get(field) or {}).get("type", "string")).lower()
    arguments: Json = {name: instance(properties.get(name) or {}) for name in tool.schema.get("required", [])}
    arguments[field] = ["bash", "-lc", command] if taken == "array" else command
    if "yield_time_ms" in properties:
        arguments["yield_time_ms"] = WAIT_MILLISECONDS
    return Call(tool, arguments)


def _program(command: str) -> str:
    """For codex's tool that takes JavaScript; it waits for the command itself."""
    asked = json.dumps({"cmd": command, "yield_time_ms": WAIT_MILLISECONDS})
    again = f'{{session_id: r.session_id, chars: "", yield_time_ms: {WAIT_MILLISECONDS}}}'
    return (
        f'// @exec: {{"yield_time_ms": {PROGRAM_MILLISECONDS}}}\n'
        f"let r = await tools.exec_command({asked});\n"
        f"while (r.session_id !== undefined && r.exit_code === undefined) "
        f"r = await tools.write_stdin({again});\n"
        f"text(r);\n"
    )


def wait(question: Question) -> Call | None:
    """A call that waits on, when the last command has not ended yet."""
    results = question.done
    running = STILL_RUNNING.search(results[-1]) if results else None
    tool = question.tool("write_stdin")
    if not (running and tool):
        return None
    asked = {"session_id": int(running[1]), "chars": "", "yield_time_ms": WAIT_MILLISECONDS}
    return Call(tool, asked)


def ended(question: Question) -> int:
    """How many commands of this turn have run to their end."""
    return sum(not STILL_RUNNING.search(result) for result in question.done)


def instance(schema: Json) -> Any:
    """The smallest value that the schema accepts, as far as tools' schemas go."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for several in ("anyOf", "oneOf", "allOf"):
        if schema.get(several):
            return instance(schema[several][0])
    kind = schema.get("type", "string")
    return _of_kind(str(kind[0] if isinstance(kind, list) else kind).lower(), schema)


def _of_kind(kind: str, schema: Json) -> Any:
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: instance(properties.get(name) or {}) for name in schema.get("required", [])}
    if kind == "array":
        return [instance(schema.get("items") or {})] * int(schema.get("minItems", 0))
    if kind in {"integer", "number"}:
        return schema.get("minimum", 1)
    plain: dict[str, Any] = {"boolean": False, "null": None}
    return plain.get(kind, "a step of the script")
