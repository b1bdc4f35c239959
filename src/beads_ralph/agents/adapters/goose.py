"""goose: the prompt on stdin, JSON messages on stdout, and errors told as if the model had said them.

How 1.52 behaves, where it matters here:

- A server's 400, 404, 429 or 500, a broken connection, a turn limit and a failed compaction all end with
  exit code 0, a `complete` event, and an assistant's message that says what happened. What tells such a
  message from the model's own words is its metadata: only what a model said has `inference` in it.
- 401 and 403 end with exit code 1 and a message whose content is of type `error`, kind `authentication`.
- One message may come in many events, each with the next piece of its text, under one id.
- No event names the session. Its name is chosen with --name; an unknown one cannot be resumed, and a name
  that exists is not refused.
- The counts of `complete` are those of the whole session, cached tokens included in those of the input.
- An option that is given twice is an error, so that the user's replaces ours.
- --system is added to its own system prompt; text on the command line must not be too long.
- It asks a server four times, with waits in between that GOOSE_PROVIDER_SKIP_BACKOFF=true leaves out.
- A prompt that begins with `/` may be a command, whatever blanks stand before it.
- Modes that ask for approval end with exit code 1 as soon as a tool is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import AgentTask, Reply
from beads_ralph.agents.streams import LONGEST_ARGUMENT, Event, Problem
from beads_ralph.agents.transcript import (
    Cost,
    Note,
    Said,
    Thought,
    ToolResult,
    TranscriptLine,
    text_in,
    tool_call,
)
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

PASSES: Final = (
    r"GOOSE_(?!MODE$|TERMINAL$|WORKING_DIR$|SERVER_|RECIPE_)\w+"
    r"|(OPENAI|ANTHROPIC|OPENROUTER|AZURE_OPENAI|DATABRICKS|SNOWFLAKE|LITELLM|OLLAMA|XAI|GROQ|MISTRAL"
    r"|DEEPSEEK|VENICE|TETRATE|CEREBRAS|NVIDIA|GITHUB_COPILOT)_\w+"
    r"|GOOGLE_(API_KEY|HOST|APPLICATION_CREDENTIALS)|GEMINI_API_KEY|GCP_(PROJECT_ID|LOCATION)"
    r"|AWS_(PROFILE|REGION|DEFAULT_REGION|CONFIG_FILE|SHARED_CREDENTIALS_FILE)"
    r"|DBUS_SESSION_BUS_ADDRESS|XDG_\w+|" + environment.NETWORK
)
QUIET: Final = {
    "GOOSE_MODE": "auto",
    "GOOSE_TELEMETRY_ENABLED": "false",
    "GOOSE_PROVIDER_SKIP_BACKOFF": "true",
}
SESSIONS: Final = ("-n", "--name", "--session-id", "--no-session", "--path")
UNKNOWN_SESSION: Final = re.compile(r"^Error: No session found with (name|id) .*", re.MULTILINE)
NOT_SET_UP: Final = re.compile(r"No provider configured|Unknown provider: |goose configure")
APPROVAL: Final = "Tool approval required in non-interactive mode"
USAGE_CODE: Final = 2
KINDS: Final[Mapping[str, Trouble]] = {"authentication": "auth", "creditsExhausted": "credit"}
CONNECTION: Final = ("Server error", "Network error", "The model returned an empty response")
OPENINGS: Final[Mapping[str, Trouble]] = {
    "Ran into this error: Rate limit exceeded": "limit",
    "Ran into this error: Authentication error": "auth",
    "Ran into this error: Context length exceeded": "too_long",
    "Ran into this error trying to compact": "too_long",
    **{f"{before}{said}": "server" for said in CONNECTION for before in ("Ran into this error: ", "")},
    "Context limit reached": "too_long",
    "Please check your account with your provider to add more credits": "credit",
    "Please add credits to your account": "credit",
    "I've reached the maximum number of actions": "unfinished",
}
"""What goose itself says, the longer before the shorter; of the model's words nothing is read so."""
ANY_ERROR: Final = "Ran into this error"
STATUS: Final = re.compile(r"\((\d{3})\b")
NO_CREDITS: Final = "creditsExhausted"


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _GooseSeen(streams.Seen):
    by_model: bool = False
    """True if a model said the last words."""
    any_by_model: bool = False
    failure: Event | None = None
    """What is an error by its type."""
    complete: bool = False
    events: int = 0
    plain: str = ""
    """What is printed before any event is goose's own."""

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        return super().reply(ended, self._heard(lines))

    def _heard(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if not self.events and len(self.plain) < streams.MAX_DETAIL and not line.startswith("{"):
                self.plain += f"{line.strip()} "
            yield line

    def take(self, event: Event) -> None:
        self.events += 1
        kind = streams.text(event, "type")
        if kind == "message" and streams.part(event, "message").get("role") == "assistant":
            self._hear(streams.part(event, "message"))
        elif kind == "error":
            self.failure = self.failure or {"message": streams.text(event, "error")}
        elif kind == "complete":
            self.complete, self.session_usage = True, _usage(event)

    def _hear(self, message: Event) -> None:
        contents = message.get("content")
        by_model = "inference" in streams.part(message, "metadata")
        self.any_by_model = self.any_by_model or by_model
        for content in contents if isinstance(contents, list) else ():
            if not isinstance(content, dict):
                continue
            if content.get("type") == "error":
                self.failure = content
            elif content.get("notificationType") == NO_CREDITS:
                self.failure = {"kind": NO_CREDITS, "message": streams.text(content, "msg")}
            elif content.get("type") == "text":
                self.by_model = by_model
                self.say(streams.text(content, "text"), (streams.text(message, "id"), by_model))

    def trouble(self, ended: Exit) -> Problem:
        if self.failure is not None:
            said = streams.text(self.failure, "message")
            return KINDS.get(streams.text(self.failure, "kind")) or _opening(said) or "refused", said
        if not self.complete:
            return _before_the_end(self.plain, ended)
        if self.by_model or not str(self.words):
            return "", ""
        return self._of_own_words(str(self.words))

    def _of_own_words(self, said: str) -> Problem:
        """Words that no model said. Where nothing was said by one, the provider may be one that goose does
        not mark, and words that are none of goose's are an answer."""
        trouble = _opening(said)
        if trouble is None:
            return ("unfinished", said) if self.any_by_model else ("", "")
        return trouble, said


def _opening(said: str) -> Trouble | None:
    own = next((trouble for opening, trouble in OPENINGS.items() if said.startswith(opening)), None)
    if own == "limit" and streams.NO_CREDIT.search(said):
        return "credit"
    if own is None and said.startswith(ANY_ERROR):
        status = STATUS.search(said)
        return streams.of_status(int(status[1]) if status else 400, said)
    return own


def _before_the_end(printed: str, ended: Exit) -> Problem:
    said = " ".join(f"{printed} {ended.stderr}".split())
    if unknown := UNKNOWN_SESSION.search(ended.stderr):
        return "forgotten", unknown[0]
    if ended.code > 0 and NOT_SET_UP.search(said[: streams.MAX_DETAIL]):
        return "auth", said
    if ended.code == USAGE_CODE or (ended.code > 0 and APPROVAL in ended.stderr):
        return "configuration", said
    return streams.unfinished(ended)


def _usage(complete: Event) -> Usage:
    """Of the whole session; a call that failed at once counts nothing."""
    cached = ("cache_read_input_tokens", "cache_write_input_tokens")
    counted = streams.tokens(complete, "input_tokens", "output_tokens", *cached)
    return counted + Usage(cost_usd=streams.amount(complete, "cost_usd"))


def _told(event: Event) -> Iterator[TranscriptLine]:
    kind, message = streams.text(event, "type"), streams.part(event, "message")
    if kind == "message":
        own = "inference" not in streams.part(message, "metadata")
        for content in streams.objects(message, "content"):
            yield from _content(message, content, own=own)
    elif kind == "error":
        yield Note(streams.text(event, "error"), trouble=True)
    elif kind == "complete":
        yield Cost(_usage(event), of_session=True)


def _content(message: Event, content: Event, *, own: bool) -> Iterator[TranscriptLine]:
    """A part of a message; `own` where it may be goose itself that speaks."""
    what, call = streams.text(content, "type"), streams.text(content, "id")
    if what == "text" and message.get("role") == "assistant":
        said = streams.text(content, "text")
        trouble = own and _opening(said) is not None
        yield Note(said, trouble=True) if trouble else Said(said, streams.text(message, "id"))
    elif what == "thinking":
        yield Thought(streams.text(content, "thinking"), streams.text(message, "id"))
    elif what == "toolRequest":
        asked = streams.part(content, "toolCall", "value")
        yield tool_call(streams.text(asked, "name"), asked.get("arguments"), call)
    elif what == "toolResponse":
        yield _response(streams.part(content, "toolResult"), call)
    elif what in ("error", "systemNotification"):
        yield Note(streams.text(content, "message") or streams.text(content, "msg"), trouble=what == "error")


def _response(result: Event, call: str) -> ToolResult:
    value = streams.part(result, "value")
    code = streams.count(streams.part(value, "structuredContent"), "exit_code")
    failed = result.get("status") == "error" or value.get("isError") is True
    said = text_in(value.get("content")) or streams.text(result, "error")
    return ToolResult(said, call, code, failed=failed)


# --- what is asked ------------------------------------------------------------------------------------


class Goose(streams.StreamCLI):
    name = "goose"
    profile = Profile(
        "goose",
        executable="goose",
        model_variable="GOOSE_MODEL",
        tested="1.52.0",
        session_is_given=True,
        asks_nobody="GOOSE_MODE=auto",
        passes=PASSES,
        keys=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY"),
        credentials=(".config/goose/config.yaml", ".config/goose/secrets.yaml"),
        state=(".config/goose", ".local/share/goose", ".local/state/goose", ".cache/goose"),
        settings=(
            *(".config/goose/config.yaml", ".config/goose/.goosehints", ".config/goose/recipes"),
            *(".config/goose/custom_providers", ".config/goose/prompts", ".config/goose/skills"),
            *(".config/goose/agents", ".config/goose/plugins", ".config/goose/*.md"),
        ),
        install="Install goose as https://goose-docs.ai says, and put it on PATH",
        sign_in="Run goose configure, or set GOOSE_PROVIDER, GOOSE_MODEL and the provider's key",
    )

    quiet = QUIET
    seen = _GooseSeen

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        return _told(event)

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        flags = _flags(task, transcript)
        system = any(flag.startswith("--system=") for flag in flags)
        prompt = task.prompt if system else streams.instructed(task)
        prompt = f"The task:\n\n{prompt}" if prompt.lstrip().startswith("/") else prompt
        return self.job(task, transcript, ("run", *flags, *(task.spec.options or ())), prompt)


def _flags(task: AgentTask, transcript: Transcript) -> list[str]:
    fits = len(task.body.encode()) <= LONGEST_ARGUMENT and "\0" not in task.body
    ours = {
        "--quiet": ("-q", "--quiet"),
        "--output-format=stream-json": (),
        f"--name={task.session_id or environment.fresh_session(task, transcript)}": SESSIONS,
        "--resume" if task.session_id else "": ("-r", "--resume", *SESSIONS),
        streams.model_flag(task): (),
        f"--system={task.body}" if task.body and fits else "": (),
    }
    return ["--instructions=-", *streams.flags(task, ours)]


AGENT: Final = Goose()
