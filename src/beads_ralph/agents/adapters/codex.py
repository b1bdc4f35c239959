"""Codex: `codex exec --json`, one JSON event a line.

How it behaves where that matters, as measured with the version in the profile:

- Its last event is `turn.completed` or `turn.failed`. `error` events are notices of attempts that go on,
  and of what went wrong there is nothing but the CLI's own sentence.
- It counts tokens from the session's beginning, cached ones among them, and no money.
- A flag given twice is an error, but a later `-c key=value` goes before an earlier one, and a flag before
  both: so what the user may want otherwise we say with `-c`.
- Its sandbox makes the folders of git read-only, and then a commit fails while the exit code stays 0. What a
  commit in a worktree needs is made writable; hooks and settings of the repository stay read-only.
- The sandbox needs user namespaces. Where it cannot start, every command fails, and the exit code is 0. It
  also needs a helper, which the CLI will not make where its own home lies below the temporary folder.
- `resume` with a name that it does not know begins a new session without a word; with an unknown UUID it
  says so.
- Without a network it waits for one as long as it is let, and as long as a server tells it to after a 429.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import AgentTask
from beads_ralph.agents.streams import LONGEST_ARGUMENT, Event, Problem
from beads_ralph.agents.transcript import (
    Cost,
    Note,
    Said,
    ShellCommand,
    Thought,
    ToolResult,
    ToolUse,
    TranscriptLine,
    unwrapped,
)
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.words import utc_text
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

ANOTHER_TMP: Final = "/var/tmp"  # noqa: S108
BYPASS: Final = "--dangerously-bypass-approvals-and-sandbox"
WRITTEN_BY_A_COMMIT: Final = ("objects", "refs", "logs", "reftable")
# Together these two spare five seconds of waiting at the end of each call.
QUIET: Final = ("--disable=plugins", "-c", "analytics.enabled=false")
UNATTENDED: Final = ("-c", "features.memories=false", "-c", "check_for_update_on_startup=false")
PASSES: Final = (
    r"OPENAI_[A-Z0-9_]+|AZURE_OPENAI_[A-Z_]+|CODEX_(HOME|API_KEY|ACCESS_TOKEN|CA_CERTIFICATE)"
    r"|RUST_LOG|" + environment.NETWORK
)
STATUS: Final = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b")
SAYINGS: Final[tuple[tuple[str, Trouble], ...]] = (
    ("You\N{RIGHT SINGLE QUOTATION MARK}ve hit your usage limit", "limit"),
    ("You've hit your usage limit", "limit"),
    ("Quota exceeded", "credit"),
    ("To use Codex with your ChatGPT plan", "auth"),
    ("Missing environment variable", "auth"),
    ("Your access token could not be refreshed", "auth"),
    ("We\N{RIGHT SINGLE QUOTATION MARK}re currently experiencing high demand", "server"),
    ("stream disconnected", "server"),
    ("Connection failed", "server"),
    ("error sending request", "server"),
    ("request timed out", "server"),
    ("Selected model is at capacity", "server"),
    ("Codex ran out of room", "too_long"),
)
"""How the sentences begin that name no status."""
BAD_REQUEST: Final = '{"'
"""A bad request is given as the server's own JSON."""
WAITING: Final = re.compile(r"Reconnecting\.\.\. [^(]*\((.*)\)", re.DOTALL)
AGAIN: Final = re.compile(
    r"try again at (?:(?P<day>[A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (?P<year>\d{4}) )?"
    r"(?P<time>\d{1,2}:\d{2} [AP]M)"
)
NO_SANDBOX: Final = (
    f"its sandbox cannot start on this machine; where that is itself a sandbox, give the options [{BYPASS}], "
    "else allow user namespaces"
)


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _CodexSeen(streams.Seen):
    now: Callable[[], datetime] = datetime.now
    done: bool = False
    failure: str = ""
    commands: int = 0
    not_started: int = 0
    """How many of the commands its sandbox did not start."""

    def take(self, event: Event) -> None:
        kind = streams.text(event, "type")
        message = streams.text(event, "message")
        if kind != "error":
            self.waiting = None
        elif found := WAITING.match(message):
            self.waits(*_of_failure(found[1]))
        if kind == "thread.started":
            self.session = streams.text(event, "thread_id") or None
        elif kind == "item.completed":
            self._item(streams.part(event, "item"))
        elif kind == "turn.completed":
            counts, names = streams.part(event, "usage"), ("input_tokens", "output_tokens")
            self.done, self.session_usage = True, streams.tokens(counts, *names, "cached_input_tokens")
        elif kind == "turn.failed":
            self.failure = streams.text(streams.part(event, "error"), "message") or "it did not say why"

    def _item(self, item: Event) -> None:
        if item.get("type") == "agent_message":
            self.say(streams.text(item, "text"))
        elif item.get("type") == "command_execution":
            # One complaint of bubblewrap, and nothing else, is what a command prints that it did not start.
            said = streams.text(item, "aggregated_output").strip()
            complains = item.get("exit_code") == 1 and said.startswith("bwrap: ") and "\n" not in said
            self.commands += 1
            self.not_started += complains

    def trouble(self, ended: Exit) -> Problem:
        if self.failure:
            return _of_failure(self.failure)
        if self.done:
            broken = self.commands > 0 and self.commands == self.not_started
            return ("configuration", NO_SANDBOX) if broken else ("", "")
        return self._before_the_end(ended)

    def _before_the_end(self, ended: Exit) -> Problem:
        """It complains about its command line and its settings before the first event."""
        if "no rollout found" in ended.stderr:
            return "forgotten", streams.last_line(ended.stderr)
        if self.session is None and ended.code > 0 and ended.stderr.strip():
            # In its first line, after warnings; what follows is how it is used.
            lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
            return "configuration", next((line for line in lines if not line.startswith("WARNING")), lines[0])
        return streams.unfinished(ended)

    def reset_at(self, said: str) -> str | None:
        """The CLI tells the minute, without the seconds, and the day if it is not today."""
        match, now = AGAIN.search(said), self.now()
        if match is None:
            return None
        day = f"{match['day']} {match['year']}" if match["day"] else now.strftime("%b %d %Y")
        try:
            at = datetime.strptime(f"{day} {match['time']}", "%b %d %Y %I:%M %p").replace(tzinfo=now.tzinfo)
            return utc_text(at + timedelta(minutes=1))
        except (ValueError, OverflowError):
            return None


def _of_failure(said: str) -> Problem:
    if status := STATUS.match(said):
        return streams.of_status(int(status[1]), said), said
    if said.startswith(BAD_REQUEST):
        return streams.of_status(400, said), said
    return next((trouble for start, trouble in SAYINGS if said.startswith(start)), "unfinished"), said


def _told(event: Event) -> Iterator[TranscriptLine]:
    kind, item = streams.text(event, "type"), streams.part(event, "item")
    if kind.startswith("item."):
        yield from _item(kind == "item.completed", item)
    elif kind == "error":
        yield Note(streams.text(event, "message"), trouble=True)
    elif kind == "turn.failed":
        yield Note(streams.text(streams.part(event, "error"), "message"), trouble=True)
    elif kind == "turn.completed":
        counts, names = streams.part(event, "usage"), ("input_tokens", "output_tokens")
        yield Cost(streams.tokens(counts, *names, "cached_input_tokens"), of_session=True)


def _item(done: bool, item: Event) -> Iterator[TranscriptLine]:
    what, call = streams.text(item, "type"), streams.text(item, "id")
    if what == "command_execution":
        yield ShellCommand(unwrapped(streams.text(item, "command")), call)
        if done:
            code, failed = item.get("exit_code"), item.get("status") == "failed"
            output = streams.text(item, "aggregated_output")
            yield ToolResult(output, call, code if isinstance(code, int) else None, failed=failed)
    elif not done:
        return
    elif what == "agent_message":
        yield Said(streams.text(item, "text"))
    elif what == "reasoning":
        yield Thought(streams.text(item, "text"))
    elif what == "file_change":
        for change in streams.objects(item, "changes"):
            yield ToolUse(streams.text(change, "kind") or "change", streams.text(change, "path"))
    elif what in ("mcp_tool_call", "web_search"):
        yield ToolUse(streams.text(item, "tool") or what, streams.text(item, "query"), call)
    elif what == "error":
        yield Note(streams.text(item, "message"))


# --- what is asked ------------------------------------------------------------------------------------


class Codex(streams.StreamCLI):
    name = "codex"
    profile = Profile(
        "Codex",
        executable="codex",
        tested="0.163.0",
        resumes_elsewhere=True,
        passes=PASSES,
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        credentials=(".codex/auth.json",),
        state=(".codex",),
        state_variables=("CODEX_HOME",),
        settings=(
            *(".codex/config.toml", ".codex/AGENTS.md", ".codex/AGENTS.override.md", ".codex/hooks.json"),
            *(
                ".codex/hooks",
                ".codex/plugins",
                ".codex/prompts",
                ".codex/rules",
                ".codex/.env",
                ".codex/bin*",
            ),
            *(".codex/*.toml", ".codex/*.md", ".codex/*.sh", ".codex/*.py", ".codex/skills/*"),
        ),
        install="npm install --global @openai/codex",
        sign_in="sign in with `codex login`, or set CODEX_API_KEY",
    )

    def __init__(
        self, inherited: Mapping[str, str] = os.environ, *, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """`now` is the local time, in which the CLI tells when a limit ends."""
        super().__init__(inherited)
        self.now = now

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        return _told(event)

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        options = tuple(task.spec.options or ())
        env = self.env(task, transcript)
        who = _who(task)
        files = {} if streams.given(options, "--output-schema") else _schema_file(task, transcript)
        return self.job(
            task,
            transcript,
            (
                *("exec", *QUIET, *UNATTENDED, *_model(task), *_address(env), *who),
                *_sandbox(task),
                *(f"--output-schema={file}" for file in files),
                *options,
                # After the options, lest one that takes several values takes these words too.
                *streams.flags(task, {"--skip-git-repo-check": (), "--json": ()}),
                *(("resume", environment.known_session(task.session_id)) if task.session_id else ()),
                "-",
            ),
            env={**env, **_helper_folder(env)},
            stdin=task.prompt if who else streams.instructed(task),
            files=files,
        )

    def listener(self) -> streams.Seen:
        return _CodexSeen(now=self.now)


def _who(task: AgentTask) -> tuple[str, ...]:
    """The persona as instructions of the developer; one too long for an argument goes with the prompt."""
    said = f"developer_instructions={_toml(task.body)}"
    return ("-c", said) if task.body and len(said.encode()) <= LONGEST_ARGUMENT else ()


def _model(task: AgentTask) -> tuple[str, ...]:
    model = streams.own_model(task)
    return ("-c", f"model={_toml(model)}") if model else ()


def _address(env: Mapping[str, str]) -> tuple[str, ...]:
    """The CLI takes the address of another server from its settings, and not from the variable that every
    other program with OpenAI's models takes it from. A provider of the user's own has its own address."""
    address = env.get("OPENAI_BASE_URL")
    return ("-c", f"openai_base_url={_toml(address)}") if address else ()


def _toml(text: str) -> str:
    """A JSON string is one of TOML's too, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _sandbox(task: AgentTask) -> Iterator[str]:
    """Commands write in the worktree and the temporary folders, and where git keeps the commits. The
    sandbox does not start with a folder that is missing, and not every repository has all of them. Inside
    of ours, which allows the same, it does not start at all."""
    mode = "danger-full-access" if task.closed_in else "workspace-write"
    yield from ("-c", f'sandbox_mode="{mode}"', "-c", 'approval_policy="never"')
    if task.closed_in:
        return
    for common in task.git_folders[:1]:
        within = [common / name for name in WRITTEN_BY_A_COMMIT]
        yield from (f"--add-dir={folder}" for folder in within if folder.is_dir())
    yield from (f"--add-dir={folder}" for folder in task.git_folders[1:])


def _schema_file(task: AgentTask, transcript: Transcript) -> dict[Path, str]:
    form = strict(task.output_schema) if task.output_schema else None
    return {transcript.out.with_suffix(".schema.json"): json.dumps(form)} if form else {}


def _helper_folder(env: Mapping[str, str]) -> dict[str, str]:
    """Another temporary folder, where the usual one holds the CLI's home: see above."""
    home = Path(env.get("CODEX_HOME") or env.get("HOME") or "/")
    usual = Path(env.get("TMPDIR") or "/tmp")  # noqa: S108 - what the CLI takes then
    return {"TMPDIR": ANOTHER_TMP} if home.is_relative_to(usual) and usual != Path(ANOTHER_TMP) else {}


# --- a JSON Schema in the strict form that OpenAI's models take: every property required, and no others ---

SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
BEYOND: Final = ("$ref", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems")
DEEPEST: Final = 5  # of objects in one another


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The strict form; None where the schema uses what that form does not have. What is dropped from it is
    looked for when the answer is judged, by the schema as the user wrote it."""
    try:
        return _form(schema, DEEPEST) if _kind(schema) == "object" else None
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
    said, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(said, Mapping) or not isinstance(required, list):
        raise _BeyondError
    inner = {str(name): _form(said.get(name, {}), depth - 1) for name in dict.fromkeys([*said, *required])}
    return _described(
        schema, type="object", properties=inner, required=list(inner), additionalProperties=False
    )


def _scalar(schema: Mapping[str, Any], kind: str, depth: int) -> dict[str, Any]:
    if kind not in (*SCALARS, "scalars", "any"):
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


AGENT: Final = Codex()
