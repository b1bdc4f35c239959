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

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.agents.streams import Event
    from beads_ralph.bead.agent_call import Trouble

PASSES: Final = (
    r"GOOSE_(?!MODE$|TERMINAL$|WORKING_DIR$|SERVER_|RECIPE_)\w+"
    r"|(OPENAI|ANTHROPIC|OPENROUTER|AZURE_OPENAI|DATABRICKS|SNOWFLAKE|LITELLM|OLLAMA|XAI|GROQ|MISTRAL"
    r"|DEEPSEEK|VENICE|TETRATE|CEREBRAS|NVIDIA|GITHUB_COPILOT)_\w+"
    r"|GOOGLE_(API_KEY|HOST|APPLICATION_CREDENTIALS)|GEMINI_API_KEY|GCP_(PROJECT_ID|LOCATION)"
    r"|AWS_(PROFILE|REGION|DEFAULT_REGION|CONFIG_FILE|SHARED_CREDENTIALS_FILE)"
    r"|DBUS_SESSION_BUS_ADDRESS|SSL_CERT_(FILE|DIR)|XDG_\w+"
    r"|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
)
QUIET: Final = {
    "GOOSE_MODE": "auto",
    "GOOSE_TELEMETRY_ENABLED": "false",
    "GOOSE_PROVIDER_SKIP_BACKOFF": "true",
}
LONGEST_ARGUMENT: Final = 100_000  # Linux takes 128 KiB

UNKNOWN_SESSION: Final = re.compile(r"^Error: No session found with (name|id) .*", re.MULTILINE)
NOT_SET_UP: Final = re.compile(r"No provider configured|Unknown provider: |goose configure")
APPROVAL: Final = "Tool approval required in non-interactive mode"
USAGE_CODE: Final = 2
CONNECTION: Final = ("Server error", "Network error", "The model returned an empty response")
OPENINGS: Final[Mapping[str, Trouble]] = {
    "Ran into this error: Rate limit exceeded": "limit",
    "Ran into this error: Authentication error": "auth",
    **{f"{before}{said}": "server" for said in CONNECTION for before in ("Ran into this error: ", "")},
    "Ran into this error": "refused",
    "Context limit reached": "refused",
    "Please check your account with your provider to add more credits": "refused",
    "Please add credits to your account": "refused",
    "I've reached the maximum number of actions": "refused",
}
"""What goose itself says, the longer before the shorter; of the model's words nothing is read so."""


class Goose:
    name = "goose"
    profile = Profile(
        "goose",
        executable="goose",
        tested="1.52.0",
        session_is_given=True,
        passes=PASSES,
        keys=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY"),
        credentials=(".config/goose/config.yaml", ".config/goose/secrets.yaml"),
        state=(".config/goose", ".local/share/goose", ".local/state/goose", ".cache/goose"),
        install="Install goose as https://goose-docs.ai says, and put it on PATH",
        sign_in="Run goose configure, or set GOOSE_PROVIDER, GOOSE_MODEL and the provider's key",
    )

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        self.inherited = inherited

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        flags = _flags(task, transcript)
        system = any(flag.startswith("--system=") for flag in flags)
        prompt = task.prompt if system else streams.instructed(task)
        return environment.job_of(
            task,
            transcript,
            argv=(task.spec.executable or self.name, "run", *flags, *(task.spec.options or ())),
            env={**QUIET, **environment.of_task(task, transcript, self.inherited, PASSES)},
            stdin=f"The task:\n\n{prompt}" if prompt.lstrip().startswith("/") else prompt,
        )

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        seen = _GooseSeen()
        for event in streams.events(seen.heard(lines)):
            seen.take(event)
        trouble, detail = _trouble(seen, ended)
        result, complaint = streams.answer(str(seen.words))
        return Reply(
            text=str(seen.words),
            result=None if trouble else result,
            session_usage=_usage(seen.complete or {}),
            trouble=trouble or ("unreadable" if complaint else ""),
            detail=(detail or complaint)[: streams.MAX_DETAIL],
        )


# --- the command line ---------------------------------------------------------------------------------


def _flags(task: AgentTask, transcript: Transcript) -> list[str]:
    """Ours, but for those that the user's options decide."""
    options, persona = task.spec.options, task.persona
    flags = ["--instructions=-"]
    if not streams.given(options, "-q", "--quiet"):
        flags.append("--quiet")
    if not streams.given(options, "--output-format"):
        flags.append("--output-format=stream-json")
    if not streams.given(options, "-n", "--name", "--session-id", "--no-session", "--path"):
        flags.append(f"--name={task.session_id or environment.fresh_session(task, transcript)}")
        flags.extend(["--resume"] if task.session_id and not streams.given(options, "-r", "--resume") else [])
    if (model := streams.own_model(task)) and not streams.given(options, "--model"):
        flags.append(f"--model={model}")
    if persona and persona.body and _fits(persona.body) and not streams.given(options, "--system"):
        flags.append(f"--system={persona.body}")
    return flags


def _fits(text: str) -> bool:
    return len(text.encode()) <= LONGEST_ARGUMENT and "\0" not in text


# --- the reply ----------------------------------------------------------------------------------------


@dataclass
class _GooseSeen:
    """What the events have said so far; `words` are those of the last message that has any."""

    words: streams.Words = field(default_factory=streams.Words)
    message: str = ""
    by_model: bool = False
    """Whether a model said the last words."""
    any_by_model: bool = False
    failure: Event | None = None
    """What is an error by its type."""
    complete: Event | None = None
    events: int = 0
    plain: str = ""
    """What is printed before any event is goose's own."""

    def heard(self, lines: Iterable[str]) -> Iterator[str]:
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
            self.complete = event

    def _hear(self, message: Event) -> None:
        contents = message.get("content")
        by_model = "inference" in streams.part(message, "metadata")
        self.any_by_model = self.any_by_model or by_model
        for content in contents if isinstance(contents, list) else ():
            if not isinstance(content, dict):
                continue
            if content.get("type") == "error":
                self.failure = content
            elif content.get("type") == "text":
                self._say(streams.text(message, "id"), streams.text(content, "text"), by_model)

    def _say(self, message: str, words: str, by_model: bool) -> None:
        if message != self.message or by_model != self.by_model:
            self.words = streams.Words()
        self.message, self.by_model = message, by_model
        self.words.add(words)


def _trouble(seen: _GooseSeen, ended: Exit) -> tuple[Trouble, str]:
    if seen.failure is not None:
        said = streams.text(seen.failure, "message")
        refused = seen.failure.get("kind") == "authentication"
        return "auth" if refused else _opening(said) or "refused", said
    if seen.complete is None:
        return _before_the_end(seen.plain, ended)
    if seen.by_model or not str(seen.words):
        return "", ""
    return _of_own_words(str(seen.words), seen.any_by_model)


def _of_own_words(said: str, others_by_model: bool) -> tuple[Trouble, str]:
    """Words that no model said. Where nothing was said by one, the provider may be one that goose does
    not mark, and words that are none of goose's are an answer."""
    trouble = _opening(said)
    if trouble is None:
        return ("unfinished", said) if others_by_model else ("", "")
    return trouble, said


def _opening(said: str) -> Trouble | None:
    return next((trouble for opening, trouble in OPENINGS.items() if said.startswith(opening)), None)


def _before_the_end(printed: str, ended: Exit) -> tuple[Trouble, str]:
    said = " ".join(f"{printed} {ended.stderr}".split())[: streams.MAX_DETAIL]
    if unknown := UNKNOWN_SESSION.search(ended.stderr):
        return "forgotten", unknown[0]
    if ended.code > 0 and NOT_SET_UP.search(said):
        return "auth", said
    if ended.code == USAGE_CODE or (ended.code > 0 and APPROVAL in ended.stderr):
        return "refused", said
    return streams.unfinished(ended)


def _usage(complete: Event) -> Usage:
    """Of the whole session; a call that failed at once counts nothing."""
    read, written = (streams.count(complete, f"cache_{what}_input_tokens") for what in ("read", "write"))
    given, cached = streams.count(complete, "input_tokens"), (read or 0) + (written or 0)
    return Usage(
        input_tokens=None if given is None else max(given - cached, 0),
        output_tokens=streams.count(complete, "output_tokens"),
        cache_tokens=None if read is None and written is None else cached,
        cost_usd=streams.amount(complete, "cost_usd"),
    )


AGENT: Final = Goose()
