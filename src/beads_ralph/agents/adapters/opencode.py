"""opencode: the prompt on stdin, JSON events on stdout, and a small plugin of ours where it has no setting.

How 1.18 behaves, where it matters here:

- No event says that it is done. Its last one is a `step_finish` whose reason is not `tool-calls`. A tool
  that is refused because nobody is there to ask ends it with exit code 0 and without that; a tool that is
  denied by a rule leaves it a success. The only sign is the error of the tool.
- At a rate limit or a server's error it tries five times more, says nothing, and waits as long as the server
  tells it to, be it hours. No setting changes that. The plugin does: it lets one short wait pass, and ends
  the program at the next with the HTTP status and the time that the server named.
- A session goes on in the folder where it began, wherever it is called from: it works there, prints nothing
  and never ends. The plugin ends it before it begins, so that a fresh session is asked instead.
- `instructions` are added to its system prompt; an agent of its own would replace all of it, and an unknown
  one is passed over. Lists of OPENCODE_CONFIG_CONTENT are added to those of the user's own files.
- Each `step_finish` counts one request, and thoughts apart from the other output.
- A model that does not exist is `Unexpected server error` to the events; the log on stderr says what it is.
- A session is not given an id but says it. The call for a title is left out where one is given.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import AgentTask
from beads_ralph.agents.streams import Event, Problem
from beads_ralph.agents.transcript import Cost, Note, Said, Thought, ToolResult, TranscriptLine, tool_call
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import COLOUR
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

PASSES: Final = (
    r"OPENCODE_(CONFIG|CONFIG_DIR|CONFIG_CONTENT|PERMISSION|API_KEY|AUTH_CONTENT|CONSOLE_TOKEN|PURE|DB"
    r"|MODELS_(URL|PATH)|WEBSEARCH_PROVIDER|DISABLE_\w+|ENABLE_\w+|EXPERIMENTAL\w*)"
    r"|(OPENAI|ANTHROPIC|OPENROUTER|AZURE|AZURE_OPENAI|XAI|GROQ|MISTRAL|DEEPSEEK|CEREBRAS|TOGETHER|FIREWORKS"
    r"|PERPLEXITY|COHERE|MOONSHOT|ZHIPU|MINIMAX|NVIDIA|HF|OLLAMA|GITHUB_COPILOT)_\w+"
    r"|GOOGLE_(API_KEY|GENERATIVE_AI_API_KEY|APPLICATION_CREDENTIALS|CLOUD_PROJECT|VERTEX_\w+)|GEMINI_API_KEY"
    r"|AWS_(PROFILE|REGION|DEFAULT_REGION|CONFIG_FILE|SHARED_CREDENTIALS_FILE|BEARER_TOKEN_BEDROCK)|"
    + environment.NETWORK
)
QUIET: Final = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"}
CONFIG: Final = "OPENCODE_CONFIG_CONTENT"
SESSION: Final = re.compile(r"ses_[A-Za-z0-9]+")

PLUGIN: Final = """\
// What opencode has no setting for; beads-ralph reads what it prints.
import { writeSync } from "node:fs"

const PATIENCE = 5000

function end(type, facts) {
  writeSync(1, JSON.stringify({ type, ...facts }) + "\\n")
  process.exit(1)
}

export const BeadsRalph = async ({ directory }) => {
  if (directory !== process.cwd()) end("elsewhere", { directory })
  const ask = globalThis.fetch
  let code = 0
  let told = false
  globalThis.fetch = Object.assign(async (...asked) => {
    code = 0
    const answer = await ask(...asked)
    code = answer.status
    told = answer.headers.has("retry-after") || answer.headers.has("retry-after-ms")
    return answer
  }, ask)
  return {
    event: async ({ event }) => {
      if (event.type !== "session.status" || event.properties?.status?.type !== "retry") return
      const { attempt, message, next } = event.properties.status
      if (attempt === 1 && next - Date.now() < PATIENCE) return
      end("gave_up", { code, message, next: told ? next : null })
    },
  }
}
"""

ANSWERED: Final = ("stop", "other", "unknown")
"""Reasons to end with which a model has said what it had to say; servers differ in the last two."""
DENIALS: Final = (
    "The user rejected permission to use this specific tool call",
    "The user has specified a rule which prevents you from using this specific tool call",
)
ERRORS: Final[Mapping[str, Trouble]] = {
    "ProviderAuthError": "auth",
    "ContextOverflowError": "too_long",
    "MessageOutputLengthError": "refused",
    "ContentFilterError": "refused",
    "MessageAbortedError": "unfinished",
}
NO_SESSION: Final = re.compile(r"Session not found")
NO_MODEL: Final = re.compile(r'error="(ProviderModelNotFoundError|ModelNotFoundError): ([^"\n]*)"')
USAGE: Final = re.compile(r"^opencode run \[message", re.MULTILINE)


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _OpencodeSeen(streams.Seen):
    reason: str = ""
    """Why the model's last turn ended; empty while one is under way."""
    error: Event | None = None
    gave_up: Event | None = None
    elsewhere: str = ""

    def take(self, event: Event) -> None:
        kind, part = streams.text(event, "type"), streams.part(event, "part")
        if kind in ("step_start", "text", "tool_use", "step_finish"):
            self.session = streams.text(event, "sessionID") or self.session
            self._go_on(kind, part)
        elif kind == "error":
            self.error = streams.part(event, "error")
        elif kind == "gave_up":
            self.gave_up = event
        elif kind == "elsewhere":
            self.elsewhere = streams.text(event, "directory") or "another folder"

    def _go_on(self, kind: str, part: Event) -> None:
        self.reason = streams.text(part, "reason") if kind == "step_finish" else ""
        if kind == "step_finish":
            self.usage = self.usage + _usage(part)
        elif kind == "text":
            self.say(streams.text(part, "text"), streams.text(part, "messageID"))
        elif kind == "tool_use" and streams.text(streams.part(part, "state"), "error").startswith(DENIALS):
            self.denied.append(streams.text(part, "tool") or "a tool")

    def trouble(self, ended: Exit) -> Problem:
        if self.elsewhere:
            return "forgotten", f"its session belongs to {self.elsewhere}"
        if self.gave_up is not None:
            said = streams.text(self.gave_up, "message")
            return _of_code(streams.count(self.gave_up, "code"), said), said
        if self.error is not None:
            return _of_error(self.error, ended)
        if self.reason in ANSWERED:
            return "", ""
        return self._before_the_end(ended)

    def _before_the_end(self, ended: Exit) -> Problem:
        stderr = COLOUR.sub("", ended.stderr)
        if NO_SESSION.search(stderr) and self.session is None:
            return "forgotten", "Session not found"
        if ended.code > 0 and USAGE.search(stderr):
            return "configuration", "it did not understand its command line; look at the options of the agent"
        if self.denied and ended.code == 0:
            return "unfinished", f"it stopped when {self.denied[-1]} was refused"
        if self.reason not in ("", "tool-calls"):
            return "unfinished", f"the model's last answer was cut off: {self.reason}"
        return streams.unfinished(ended)

    def reset_at(self, said: str) -> str | None:
        """When it would have tried again, where it was the server that said when."""
        moment = streams.amount(self.gave_up or {}, "next")
        return None if moment is None else streams.since_1970(moment / 1000)


def _usage(step: Event) -> Usage:
    """Of one request; what the model thought is counted apart from its other output."""
    counts = streams.part(step, "tokens")
    named = {**counts, **streams.part(counts, "cache")}
    said = streams.tokens(named, "input", "output", "read", "write", within=False)
    return said + Usage(
        output_tokens=streams.count(counts, "reasoning"), cost_usd=streams.amount(step, "cost")
    )


def _of_code(code: int | None, said: str) -> Trouble:
    """What was tried again without a bad status was a connection that broke."""
    return streams.of_status(code, said) if code is not None and code >= 400 else "server"  # noqa: PLR2004


def _of_error(error: Event, ended: Exit) -> Problem:
    name, data = streams.text(error, "name"), streams.part(error, "data")
    said = streams.text(data, "message") or name
    if unknown := NO_MODEL.search(ended.stderr):
        return "configuration", unknown[2]
    return ERRORS.get(name) or _of_code(streams.count(data, "statusCode"), said), said


def _told(event: Event) -> Iterator[TranscriptLine]:
    kind, part = streams.text(event, "type"), streams.part(event, "part")
    if kind == "text":
        yield Said(streams.text(part, "text"))
    elif kind == "reasoning":
        yield Thought(streams.text(part, "text"))
    elif kind == "tool_use":
        yield from _tool(part, streams.part(part, "state"))
    elif kind == "step_finish":
        yield Cost(_usage(part))
    elif kind == "error":
        error = streams.part(event, "error")
        said = streams.text(streams.part(error, "data"), "message") or streams.text(error, "name")
        yield Note(said, trouble=True)
    elif kind == "gave_up":
        yield Note(streams.text(event, "message"), trouble=True)
    elif kind == "elsewhere":
        yield Note(f"its session belongs to {streams.text(event, 'directory')}", trouble=True)


def _tool(part: Event, state: Event) -> Iterator[TranscriptLine]:
    """A call of a tool is told once, when it has ended."""
    call = streams.text(part, "callID")
    yield tool_call(streams.text(part, "tool"), state.get("input"), call)
    code = streams.count(streams.part(state, "metadata"), "exit")
    said = streams.text(state, "output") or streams.text(state, "error")
    yield ToolResult(said, call, code, failed=state.get("status") == "error")


# --- what is asked ------------------------------------------------------------------------------------


class OpenCode(streams.StreamCLI):
    name = "opencode"
    profile = Profile(
        "opencode",
        executable="opencode",
        tested="1.18.33",
        asks_nobody="--auto",
        asks_by=("--no-auto",),
        passes=PASSES,
        keys=("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
        credentials=(".local/share/opencode/auth.json", ".config/opencode/opencode.json"),
        state=(
            *(".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
            ".opencode",
        ),
        state_variables=("OPENCODE_CONFIG_DIR",),
        overlaid=(".config/opencode", ".opencode"),  # it writes a file into each, and ends where it cannot
        settings=(".cache/opencode/bin/*",),
        install="npm install --global opencode-ai",
        sign_in="sign in with `opencode auth login`, or set the provider's key, such as ANTHROPIC_API_KEY",
    )

    quiet = QUIET
    seen = _OpencodeSeen

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        return _told(event)

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = self.env(task, transcript)
        plugin = transcript.out.with_name(f"{transcript.out.name}.opencode.js")
        persona = transcript.out.with_name(f"{transcript.out.name}.persona.md")
        instructions = str(persona) if task.body else ""
        config = _config(env.get(CONFIG), plugin=plugin.as_uri(), instructions=instructions)
        files = {plugin: PLUGIN, **({persona: task.body} if task.body else {})}
        return self.job(
            task,
            transcript,
            ("run", *_flags(task), *(task.spec.options or ())),
            env={**env, CONFIG: config} if config else env,
            stdin=task.prompt if config else streams.instructed(task),
            files=files if config else {},
        )


def _flags(task: AgentTask) -> list[str]:
    session = f"--session={_known(task.session_id)}" if task.session_id else f"--title={task.bead_id}"
    ours = {
        "--auto": ("--auto", "--no-auto"),
        streams.model_flag(task): ("-m", "--model"),
        session: ("-s", "--session", "-c", "--continue"),
    }
    return ["--format=json", "--print-logs", "--log-level=ERROR", *streams.flags(task, ours)]


def _known(session_id: str) -> str:
    """The session to go on with; an id of another CLI becomes one that opencode has never seen."""
    if SESSION.fullmatch(session_id):
        return session_id
    return f"ses_{hashlib.sha256(session_id.encode()).hexdigest()[:26]}"


def _config(given: str | None, **added: str) -> str:
    """What the user gives, with ours added to its lists; empty where it cannot be read, for then it is left
    as it is."""
    try:
        config: Any = json.loads(given or "{}")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(config, dict):
        return ""
    for name, value in added.items():
        there = config.get(name, [])
        if not isinstance(there, list):
            return ""
        config[name] = [*there, value] if value else there
    return json.dumps({name: value for name, value in config.items() if value != []})


AGENT: Final = OpenCode()
