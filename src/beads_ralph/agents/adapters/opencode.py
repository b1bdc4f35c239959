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
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.agents.streams import Event
    from beads_ralph.bead.agent_call import Trouble

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
    "ContextOverflowError": "refused",
    "MessageOutputLengthError": "refused",
    "ContentFilterError": "refused",
    "MessageAbortedError": "unfinished",
}
NO_SESSION: Final = re.compile(r"Session not found")
NO_MODEL: Final = re.compile(r'error="(ProviderModelNotFoundError|ModelNotFoundError): ([^"\n]*)"')
USAGE: Final = re.compile(r"^opencode run \[message", re.MULTILINE)
COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")


class OpenCode:
    name = "opencode"
    profile = Profile(
        "opencode",
        executable="opencode",
        tested="1.18.33",
        passes=PASSES,
        keys=("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
        credentials=(".local/share/opencode/auth.json", ".config/opencode/opencode.json"),
        state=(
            *(".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
            ".opencode",  # where there is one, it writes a file into it and ends where it cannot
        ),
        state_variables=("OPENCODE_CONFIG_DIR",),
        install="npm install --global opencode-ai",
        sign_in="sign in with `opencode auth login`, or set the provider's key, such as ANTHROPIC_API_KEY",
    )

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        self.inherited = inherited

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = {**QUIET, **environment.of_task(task, transcript, self.inherited, PASSES)}
        plugin = transcript.out.with_name(f"{transcript.out.name}.opencode.js")
        persona = transcript.out.with_name(f"{transcript.out.name}.persona.md")
        body = task.persona.body if task.persona else ""
        config = _config(env.get(CONFIG), plugin=plugin.as_uri(), instructions=str(persona) if body else "")
        files = {plugin: PLUGIN, **({persona: body} if body else {})}
        return environment.job_of(
            task,
            transcript,
            argv=(task.spec.executable or self.name, "run", *_flags(task), *(task.spec.options or ())),
            env={**env, CONFIG: config} if config else env,
            stdin=task.prompt if config else streams.instructed(task),
            files=files if config else {},
        )

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        seen = _OpencodeSeen()
        for event in streams.events(lines):
            seen.take(event)
        trouble, detail = _trouble(seen, ended)
        result, complaint = streams.answer(str(seen.words))
        return Reply(
            session_id=seen.session if trouble != "forgotten" else None,
            text=str(seen.words),
            result=None if trouble else result,
            usage=seen.usage,
            denied=tuple(dict.fromkeys(seen.denied)),
            trouble=trouble or ("unreadable" if complaint else ""),
            detail=(detail or complaint)[: streams.MAX_DETAIL],
            limit_reset_at=_reset(seen) if trouble == "limit" else None,
        )


# --- the command line ---------------------------------------------------------------------------------


def _flags(task: AgentTask) -> Iterator[str]:
    """Ours, but for those that the user's options decide."""
    options = task.spec.options
    yield from ("--format=json", "--print-logs", "--log-level=ERROR")
    if not streams.given(options, "--auto", "--no-auto"):
        yield "--auto"
    if (model := streams.own_model(task)) and not streams.given(options, "-m", "--model"):
        yield f"--model={model}"
    if streams.given(options, "-s", "--session", "-c", "--continue"):
        return
    yield f"--session={_known(task.session_id)}" if task.session_id else f"--title={task.bead_id}"


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


# --- the reply ----------------------------------------------------------------------------------------


@dataclass
class _OpencodeSeen:
    """What the events have said so far; `words` are those of the last message that has any."""

    session: str | None = None
    message: str = ""
    words: streams.Words = field(default_factory=streams.Words)
    reason: str = ""
    """Why the model's last turn ended; empty while one is under way."""
    usage: Usage = field(default_factory=Usage)
    denied: list[str] = field(default_factory=list)
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
            self._say(streams.text(part, "messageID"), streams.text(part, "text"))
        elif kind == "tool_use" and streams.text(streams.part(part, "state"), "error").startswith(DENIALS):
            self.denied.append(streams.text(part, "tool") or "a tool")

    def _say(self, message: str, words: str) -> None:
        if message != self.message:
            self.words = streams.Words()
        self.message = message
        self.words.add(words)


def _usage(step: Event) -> Usage:
    tokens = streams.part(step, "tokens")
    cache = streams.part(tokens, "cache")
    thought = Usage(output_tokens=streams.count(tokens, "reasoning"))
    read, written = (Usage(cache_tokens=streams.count(cache, name)) for name in ("read", "write"))
    said = Usage(
        input_tokens=streams.count(tokens, "input"),
        output_tokens=streams.count(tokens, "output"),
        cost_usd=streams.amount(step, "cost"),
    )
    return said + thought + read + written


def _trouble(seen: _OpencodeSeen, ended: Exit) -> tuple[Trouble, str]:
    if seen.elsewhere:
        return "forgotten", f"its session belongs to {seen.elsewhere}"
    if seen.gave_up is not None:
        return _of_code(streams.count(seen.gave_up, "code")), streams.text(seen.gave_up, "message")
    if seen.error is not None:
        return _of_error(seen.error, ended)
    if seen.reason in ANSWERED:
        return "", ""
    return _before_the_end(seen, ended)


def _of_code(code: int | None) -> Trouble:
    """What was tried again without a bad status was a connection that broke."""
    return streams.of_status(code) if code is not None and code >= 400 else "server"  # noqa: PLR2004


def _of_error(error: Event, ended: Exit) -> tuple[Trouble, str]:
    name, data = streams.text(error, "name"), streams.part(error, "data")
    said = streams.text(data, "message") or name
    if unknown := NO_MODEL.search(ended.stderr):
        return "refused", unknown[2]
    return ERRORS.get(name) or _of_code(streams.count(data, "statusCode")), said


def _before_the_end(seen: _OpencodeSeen, ended: Exit) -> tuple[Trouble, str]:
    stderr = COLOUR.sub("", ended.stderr)
    if NO_SESSION.search(stderr) and seen.session is None:
        return "forgotten", "Session not found"
    if ended.code > 0 and USAGE.search(stderr):
        return "refused", "it did not understand its command line; look at the options of the agent"
    if seen.denied and ended.code == 0:
        return "unfinished", f"it stopped when {seen.denied[-1]} was refused"
    if seen.reason not in ("", "tool-calls"):
        return "unfinished", f"the model's last answer was cut off: {seen.reason}"
    return streams.unfinished(ended)


def _reset(seen: _OpencodeSeen) -> str | None:
    """When it would have tried again, where it was the server that said when."""
    if seen.gave_up is None:
        return None
    moment = streams.amount(seen.gave_up, "next")
    return None if moment is None else streams.since_1970(moment / 1000)


AGENT: Final = OpenCode()
