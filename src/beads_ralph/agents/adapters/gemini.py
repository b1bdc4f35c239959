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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import utc_text
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.agents.streams import Event
    from beads_ralph.bead.agent_call import Trouble

PASSES: Final = (
    r"GEMINI_(API_KEY|API_KEY_AUTH_MECHANISM|MODEL|SYSTEM_MD|SANDBOX\w*|TELEMETRY_\w+)"
    r"|GEMINI_CLI_(HOME|SYSTEM_(SETTINGS|DEFAULTS)_PATH|TRUSTED_FOLDERS_PATH|CUSTOM_HEADERS|USE_COMPUTE_ADC)"
    r"|GOOGLE_(API_KEY|APPLICATION_CREDENTIALS|GEMINI_BASE_URL|VERTEX_BASE_URL|GENAI_\w+|CLOUD_\w+)"
    r"|CLOUDSDK_CONFIG|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|XDG_\w+"
    r"|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
)
QUIET: Final = {"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_TELEMETRY_ENABLED": "false"}
SETTINGS: Final = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
OTHER_SIGN_INS: Final = ("GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI")

AT: Final = re.compile(r"(?<!\\)@(?=\S)")
NO_SESSION: Final = re.compile(r"^Error resuming session: .*", re.MULTILINE)
MISUSED: Final = re.compile(r"^(.+)\nUsage: gemini ", re.MULTILINE)
NOISE: Final = re.compile(r"(Security )?Warning: |YOLO mode |Approval mode |Ripgrep |\[STARTUP\] |Attempt \d")
COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
BAD_KEY: Final = re.compile(r"API_KEY_INVALID|API key (not valid|expired|not found)")
OF_THE_SERVER: Final = "[API Error: "
NO_SUCH_MODEL: Final = "ModelNotFoundError: "
DELAY: Final = re.compile(r"(?:retry (?:after|in)|reset after) ((?:[\d.]+(?:ms|[hms]))+)")
UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
ALMOST_A_SECOND: Final = timedelta(microseconds=999_999)

OWN_CODES: Final[Mapping[int, Trouble]] = {
    41: "auth",
    42: "refused",  # bad input
    44: "refused",  # no sandbox
    52: "refused",  # bad settings
    53: "refused",  # too many turns
    55: "refused",  # a folder that is not trusted
}
STATUSES: Final = {status % 256: status for status in (*range(400, 512), *range(520, 530))}
DENIED: Final = ("policy_violation", "tool_not_registered")


class Gemini:
    """`root` says whether settings from outside are read at all."""

    name = "gemini"
    profile = Profile(
        "Gemini CLI",
        executable="gemini",
        tested="0.61.0",
        session_is_given=True,
        hides_git=True,
        passes=PASSES,
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
        credentials=(".gemini/oauth_creds.json", ".config/gcloud/application_default_credentials.json"),
        state=(".gemini",),
        state_variables=("GEMINI_CLI_HOME",),
        install="npm install --global @google/gemini-cli (Node.js 20 or newer)",
        sign_in="Set GEMINI_API_KEY, or run gemini once and sign in",
    )

    def __init__(self, inherited: Mapping[str, str] = os.environ, *, root: bool | None = None) -> None:
        self.inherited = inherited
        self.root = os.geteuid() == 0 if root is None else root

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = {**QUIET, **environment.of_task(task, transcript, self.inherited, PASSES)}
        files = {}
        if self.root and SETTINGS not in env:
            settings = transcript.out.with_name(f"{transcript.out.name}.gemini.json")
            env[SETTINGS] = str(settings)
            files[settings] = json.dumps(_settings(env), indent=1)
        return environment.job_of(
            task,
            transcript,
            argv=(task.spec.executable or self.name, *_flags(task, transcript), *(task.spec.options or ())),
            env=env,
            stdin=as_text(streams.instructed(task)),
            files=files,
        )

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        seen = _GeminiSeen()
        for event in streams.events(lines):
            seen.take(event)
        trouble, detail = _trouble(seen, ended)
        result, complaint = streams.answer(str(seen.words))
        return Reply(
            session_id=seen.session if seen.can_go_on else None,
            text=str(seen.words),
            result=result,
            usage=_usage(streams.part(seen.result or {}, "stats")),
            denied=tuple(dict.fromkeys(seen.denied)),
            trouble=trouble or ("unreadable" if complaint else ""),
            detail=detail or complaint,
            limit_reset_at=_reset(seen.result or {}) if trouble == "limit" else None,
        )


# --- the command line ---------------------------------------------------------------------------------


def _flags(task: AgentTask, transcript: Transcript) -> list[str]:
    """Ours, but for those that the user's options decide."""
    options = task.spec.options
    flags = ["--output-format=stream-json"]
    if not streams.given(options, "--skip-trust"):
        flags.append("--skip-trust")
    if not streams.given(options, "-y", "--yolo", "--approval-mode"):
        flags.append("--approval-mode=yolo")
    if (model := streams.own_model(task)) and not streams.given(options, "-m", "--model"):
        flags.append(f"--model={model}")
    if not streams.given(options, "-r", "--resume", "--session-id", "--session-file"):
        fresh = environment.fresh_session(task, transcript)
        flags.append(f"--resume={task.session_id}" if task.session_id else f"--session-id={fresh}")
    return flags


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


# --- the reply ----------------------------------------------------------------------------------------


@dataclass
class _GeminiSeen:
    """The state after the events so far."""

    session: str | None = None
    words: streams.Words = field(default_factory=streams.Words)
    spoke: bool = True
    """Whether the last words are those of the running turn, or a tool was called since."""
    answered: bool = False
    """Whether the model began to answer."""
    acted: bool = False
    """Whether a tool has ended, so that the answer which called it was whole."""
    tools: dict[str, str] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    complaint: str = ""
    result: Event | None = None

    def take(self, event: Event) -> None:
        kind = streams.text(event, "type")
        if kind == "init":
            self.session = streams.text(event, "session_id") or None
        elif kind == "message" and event.get("role") == "assistant":
            self._say(streams.text(event, "content"))
        elif kind == "tool_use":
            self.answered, self.spoke = True, False
            self.tools[streams.text(event, "tool_id")] = streams.text(event, "tool_name")
        elif kind == "tool_result":
            self._act(event)
        elif kind == "error" and event.get("severity") == "error":
            self.complaint = streams.text(event, "message")
        elif kind == "result":
            self.result = event

    @property
    def can_go_on(self) -> bool:
        failed = self.result is not None and self.result.get("status") != "success"
        return self.acted or (self.answered and not failed)

    def _act(self, event: Event) -> None:
        self.acted = True
        if streams.text(streams.part(event, "error"), "type") in DENIED:
            self.denied.append(self.tools.get(streams.text(event, "tool_id")) or "a tool")

    def _say(self, words: str) -> None:
        """The answer is what follows the last call of a tool."""
        if not self.spoke:
            self.words, self.spoke = streams.Words(), True
        self.words.add(words)
        self.answered = True


def _trouble(seen: _GeminiSeen, ended: Exit) -> tuple[Trouble, str]:
    if seen.result is None:
        return _before_the_end(ended)
    if seen.result.get("status") == "success":
        return "", ""
    said = streams.text(streams.part(seen.result, "error"), "message") or seen.complaint
    return _of_error(said, ended), said[: streams.MAX_DETAIL]


def _of_error(said: str, ended: Exit) -> Trouble:
    """An answer that was empty or blocked ends with 0 and may be better the next time; what the server's
    error was is in the exit code, unless the connection broke or there is no such model."""
    if ended.code == 0:
        return "server"
    if ended.code in STATUSES:
        return "auth" if BAD_KEY.search(said) else streams.of_status(STATUSES[ended.code])
    if said.startswith(OF_THE_SERVER):
        return "refused" if NO_SUCH_MODEL in ended.stderr else "server"
    return OWN_CODES.get(ended.code, "")


def _before_the_end(ended: Exit) -> tuple[Trouble, str]:
    if unknown := NO_SESSION.search(ended.stderr):
        return "forgotten", unknown[0]
    if misused := MISUSED.search(ended.stderr):
        return "refused", misused[1]
    said = _complaint(ended.stderr)
    own = OWN_CODES.get(ended.code)
    if own is None:
        return streams.unfinished(replace(ended, stderr=said))
    return own, said


def _complaint(stderr: str) -> str:
    """Its last words there, but for what it says on every run."""
    lines = [COLOUR.sub("", line).strip() for line in stderr.splitlines()]
    return " ".join([line for line in lines if line and not NOISE.match(line)][-2:])[: streams.MAX_DETAIL]


def _usage(stats: Event) -> Usage:
    """For this call alone. What the model thought is in the total only."""
    total, given = streams.count(stats, "total_tokens"), streams.count(stats, "input_tokens")
    cached, answered = streams.count(stats, "cached"), streams.count(stats, "output_tokens")
    if total is not None and given is not None:
        answered = max(answered or 0, total - given)
    return Usage(
        input_tokens=None if given is None else max(given - (cached or 0), 0),
        output_tokens=answered,
        cache_tokens=cached,
    )


def _reset(result: Event) -> str | None:
    """When it is worth trying again: the event's own time and the delay in it, never too early."""
    match = DELAY.search(streams.text(streams.part(result, "error"), "message"))
    try:
        at = datetime.fromisoformat(streams.text(result, "timestamp"))
        parts = re.findall(r"([\d.]+)(ms|[hms])", match[1]) if match and at.tzinfo else []
        delay = timedelta(seconds=sum(float(number) * UNITS[unit] for number, unit in parts))
        return utc_text(at + delay + ALMOST_A_SECOND) if parts else None
    except (ValueError, OverflowError):
        return None


AGENT: Final = Gemini()
