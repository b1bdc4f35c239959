"""Gemini CLI: the prompt on stdin, JSON events on stdout, the server's status in the exit code.

How 0.61 behaves, where it matters here:

- It looks for the file behind every `@word` of a prompt in the whole tree, pastes what it finds and
  rewrites the prompt; with many of them, as in the output of tests, it never begins. A prompt whose first
  character is `/` is a command. Both are written so that they stay text.
- GEMINI_SYSTEM_MD replaces what tells its model how to use the tools (32 KB), and a context file ends up in
  the first turn of the user: the persona may as well stand before the prompt, where nothing is lost.
- A failed call ends with a `result` of status `error` and the HTTP status modulo 256 as its exit code; an
  empty answer ends so too, with exit code 0. SIGTERM: exit code 0 and no `result` at all.
- The process that it starts by default passes no signals on; GEMINI_CLI_NO_RELAUNCH leaves that one out.
- A session whose first answer failed is known when its id is used again, and unknown when it is resumed: a
  call in which no answer of the model came to its end names no session.
- Settings from outside are read only where root owns the file and every folder above it, which is never so
  for an ordinary user. Without them it tries ten times, for minutes, before it gives up at 429 or 500.
- Its shell hides the user's git settings (GIT_CONFIG_GLOBAL) and turns hooks off.
- Without approval of everything its shell is not even offered to the model: exit code 0, no work done.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import AgentTask
from beads_ralph.agents.streams import Event, Problem
from beads_ralph.agents.transcript import Cost, Note, Said, ToolResult, TranscriptLine, tool_call
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import COLOUR, utc_text
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

PASSES: Final = (
    r"GEMINI_(API_KEY|API_KEY_AUTH_MECHANISM|MODEL|SYSTEM_MD|SANDBOX\w*|TELEMETRY_\w+)"
    r"|GEMINI_CLI_(HOME|SYSTEM_(SETTINGS|DEFAULTS)_PATH|TRUSTED_FOLDERS_PATH|CUSTOM_HEADERS|USE_COMPUTE_ADC)"
    r"|GOOGLE_(API_KEY|APPLICATION_CREDENTIALS|GEMINI_BASE_URL|VERTEX_BASE_URL|GENAI_\w+|CLOUD_\w+)"
    r"|CLOUDSDK_CONFIG|XDG_\w+|" + environment.NETWORK
)
QUIET: Final = {"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_TELEMETRY_ENABLED": "false"}
SETTINGS: Final = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
OTHER_SIGN_INS: Final = ("GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI")

AT: Final = re.compile(r"(?<!\\)@(?=\S)")
NO_SESSION: Final = re.compile(r"^Error resuming session: .*", re.MULTILINE)
MISUSED: Final = re.compile(r"^(.+)\nUsage: gemini ", re.MULTILINE)
NOISE: Final = re.compile(r"(Security )?Warning: |YOLO mode |Approval mode |Ripgrep |\[STARTUP\] |Attempt \d")
BAD_KEY: Final = re.compile(r"API_KEY_INVALID|API key (not valid|expired|not found)")
OF_THE_SERVER: Final = "[API Error: "
NO_SUCH_MODEL: Final = "ModelNotFoundError: "
DELAY: Final = re.compile(r"(?:retry (?:after|in)|reset after) ((?:[\d.]+(?:ms|[hms]))+)")
ATTEMPT: Final = re.compile(r"Attempt \d+ failed(?P<why>.*)")
AGAIN: Final = re.compile(r"Retrying (with backoff|after (?P<ms>\d+)ms)")
UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
ALMOST_A_SECOND: Final = timedelta(microseconds=999_999)

OWN_CODES: Final[Mapping[int, Trouble]] = {
    41: "auth",
    42: "configuration",  # bad input
    44: "configuration",  # no sandbox
    52: "configuration",  # bad settings
    53: "unfinished",  # too many turns
    55: "configuration",  # a folder that is not trusted
}
STATUSES: Final = {status % 256: status for status in (*range(400, 512), *range(520, 530))}
DENIED: Final = ("policy_violation", "tool_not_registered")


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _GeminiSeen(streams.Seen):
    calls: int = 0
    """Of tools: the answer is what follows the last of them."""
    answered: bool = False
    """True if the model began to answer."""
    acted: bool = False
    """True if a tool has ended, so that the answer which called it was whole."""
    tools: dict[str, str] = field(default_factory=dict)
    complaint: str = ""
    attempt: str = ""
    """Why its last attempt at the server failed; more lines of it may follow."""
    result: Event = field(default_factory=dict)

    def complained(self, line: str) -> None:
        """It tells of attempts that it will make again, and when."""
        line = COLOUR.sub("", line)
        if found := ATTEMPT.match(line):
            self.attempt = found["why"].strip(" :")
        elif self.attempt:
            self.attempt = f"{self.attempt} {line.strip()}"
        if self.attempt and (again := AGAIN.search(line)):
            said, self.attempt = self.attempt, ""
            self.waits(_of_attempt(said), said, float(again["ms"]) / 1000 if again["ms"] else None)

    def take(self, event: Event) -> None:
        kind = streams.text(event, "type")
        if kind != "init" and event.get("role") != "user":
            self.waiting = None
        if kind == "init":
            self.session = streams.text(event, "session_id") or None
        elif kind == "message" and event.get("role") == "assistant":
            self.answered = True
            self.say(streams.text(event, "content"), self.calls)
        elif kind == "tool_use":
            self.answered, self.calls = True, self.calls + 1
            self.tools[streams.text(event, "tool_id")] = streams.text(event, "tool_name")
        elif kind == "tool_result":
            self.acted = True
            if streams.text(streams.part(event, "error"), "type") in DENIED:
                self.denied.append(self.tools.get(streams.text(event, "tool_id")) or "a tool")
        elif kind == "error" and event.get("severity") == "error":
            self.complaint = streams.text(event, "message")
        elif kind == "result":
            self.result, self.usage = event, _usage(streams.part(event, "stats"))

    def can_go_on(self) -> bool:
        failed = bool(self.result) and self.result.get("status") != "success"
        return self.acted or (self.answered and not failed)

    def trouble(self, ended: Exit) -> Problem:
        if not self.result:
            return _before_the_end(ended)
        if self.result.get("status") == "success":
            return "", ""
        said = streams.text(streams.part(self.result, "error"), "message") or self.complaint
        return _of_error(said, ended), said

    def reset_at(self, said: str) -> str | None:
        """When it is worth trying again: the event's own time and the delay in it, never too early."""
        match = DELAY.search(streams.text(streams.part(self.result, "error"), "message"))
        try:
            at = datetime.fromisoformat(streams.text(self.result, "timestamp"))
            parts = re.findall(r"([\d.]+)(ms|[hms])", match[1]) if match and at.tzinfo else []
            delay = timedelta(seconds=sum(float(number) * UNITS[unit] for number, unit in parts))
            return utc_text(at + delay + ALMOST_A_SECOND) if parts else None
        except (ValueError, OverflowError):
            return None


def _usage(stats: Event) -> Usage:
    """For this call alone. What the model thought is in the total only."""
    found = streams.tokens(stats, "input_tokens", "output_tokens", "cached")
    total, given = streams.count(stats, "total_tokens"), streams.count(stats, "input_tokens")
    if total is None or given is None:
        return found
    return replace(found, output_tokens=max(found.output_tokens or 0, total - given))


def _of_error(said: str, ended: Exit) -> Trouble:
    """An answer that was empty or blocked ends with 0 and may be better the next time; what the server's
    error was is in the exit code, unless the connection broke or there is no such model."""
    if ended.code == 0:
        return "server"
    if ended.code in STATUSES:
        return "auth" if BAD_KEY.search(said) else streams.of_status(STATUSES[ended.code], said)
    if said.startswith(OF_THE_SERVER):
        return "configuration" if NO_SUCH_MODEL in ended.stderr else "server"
    return OWN_CODES.get(ended.code, "")


def _of_attempt(said: str) -> Trouble:
    """The kind of trouble of an attempt that failed: a delay is told for nothing but a limit."""
    if "429" in said or DELAY.search(said) or "Retrying after" in said:
        return "limit"
    return "server"


def _before_the_end(ended: Exit) -> Problem:
    """Its last words on stderr count, but for what it says there on every run."""
    if unknown := NO_SESSION.search(ended.stderr):
        return "forgotten", unknown[0]
    if misused := MISUSED.search(ended.stderr):
        return "configuration", misused[1]
    lines = [COLOUR.sub("", line).strip() for line in ended.stderr.splitlines()]
    said = " ".join([line for line in lines if line and not NOISE.match(line)][-2:])
    own = OWN_CODES.get(ended.code)
    return (own, said) if own else streams.unfinished(replace(ended, stderr=said))


def _told(event: Event) -> Iterator[TranscriptLine]:
    kind, call = streams.text(event, "type"), streams.text(event, "tool_id")
    if kind == "message" and event.get("role") == "assistant":
        piece = "the answer" if event.get("delta") is True else ""
        yield Said(streams.text(event, "content"), piece)
    elif kind == "tool_use":
        yield tool_call(streams.text(event, "tool_name"), event.get("parameters"), call)
    elif kind == "tool_result":
        failed = event.get("status") == "error"
        yield ToolResult(streams.text(event, "output"), call, failed=failed)
    elif kind == "error":
        yield Note(streams.text(event, "message"), trouble=event.get("severity") == "error")
    elif kind == "result":
        if event.get("status") != "success":
            yield Note(streams.text(streams.part(event, "error"), "message"), trouble=True)
        yield Cost(_usage(streams.part(event, "stats")))


# --- what is asked ------------------------------------------------------------------------------------


class Gemini(streams.StreamCLI):
    """`root` says whether settings from outside are read at all."""

    name = "gemini"
    profile = Profile(
        "Gemini CLI",
        executable="gemini",
        model_variable="GEMINI_MODEL",
        tested="0.61.0",
        session_is_given=True,
        hides_git=True,
        asks_nobody="--approval-mode=yolo",
        asks_by=("--approval-mode",),
        passes=PASSES,
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
        credentials=(".gemini/oauth_creds.json", ".config/gcloud/application_default_credentials.json"),
        state=(".gemini",),
        state_variables=("GEMINI_CLI_HOME",),
        settings=(
            *(".gemini/settings.json", ".gemini/GEMINI.md", ".gemini/.env", ".gemini/agents"),
            *(
                ".gemini/commands",
                ".gemini/extensions",
                ".gemini/hooks",
                ".gemini/policies",
                ".gemini/skills",
            ),
            *(".gemini/trusted*.json", ".gemini/*.md", ".gemini/*.sh", ".gemini/*.py"),
        ),
        install="npm install --global @google/gemini-cli (Node.js 20 or newer)",
        sign_in="Set GEMINI_API_KEY, or run gemini once and sign in",
    )

    quiet = QUIET
    seen = _GeminiSeen

    def __init__(self, inherited: Mapping[str, str] = os.environ, *, root: bool | None = None) -> None:
        super().__init__(inherited)
        self.root = os.geteuid() == 0 if root is None else root

    def shown_complaint(self, line: str) -> Iterator[TranscriptLine]:
        """Without what it says on every run."""
        return iter(()) if NOISE.match(COLOUR.sub("", line)) else super().shown_complaint(line)

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        return _told(event)

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = self.env(task, transcript)
        files = {}
        if self.root and SETTINGS not in env:
            settings = transcript.out.with_name(f"{transcript.out.name}.gemini.json")
            env[SETTINGS] = str(settings)
            files[settings] = json.dumps(_settings(env), indent=1)
        words = (*_flags(task, transcript), *(task.spec.options or ()))
        return self.job(task, transcript, words, as_text(streams.instructed(task)), env, files)


def _flags(task: AgentTask, transcript: Transcript) -> list[str]:
    fresh = environment.fresh_session(task, transcript)
    session = f"--resume={task.session_id}" if task.session_id else f"--session-id={fresh}"
    ours = {
        "--skip-trust": (),
        "--approval-mode=yolo": ("-y", "--yolo", "--approval-mode"),
        streams.model_flag(task): ("-m", "--model"),
        session: ("-r", "--resume", "--session-id", "--session-file"),
    }
    return ["--output-format=stream-json", *streams.flags(task, ours)]


def as_text(prompt: str) -> str:
    """The prompt so that no part of it is a command: `\\@` for `@`, and no `/` at its beginning."""
    escaped = AT.sub(r"\\@", prompt)
    return f"\n{escaped}" if escaped.startswith("/") else escaped


def _settings(env: Mapping[str, str]) -> dict[str, Any]:
    """Defaults below the user's own settings. An address of another server is taken for another way to
    sign in unless the settings say that there is a key."""
    settings: dict[str, Any] = {
        "general": {"maxAttempts": 2, "enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    if "GEMINI_API_KEY" in env and not any(env.get(name) == "true" for name in OTHER_SIGN_INS):
        settings["security"] = {"auth": {"selectedType": "gemini-api-key"}}
    return settings


AGENT: Final = Gemini()
