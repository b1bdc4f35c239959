"""GitHub Copilot CLI: the prompt on stdin, JSON events on stdout, the counts in the folder of its session.

How 1.0.102 behaves, where it matters here:

- Its last event is `result`, with its exit code. SIGTERM ends it with 0, mostly with a `result` of 0 too:
  what had been done by then shows only in the last message, which still asks for a tool. A refused tool is
  a success as well; its `tool.execution_complete` has the error code `denied`.
- An error of the server is `session.error`, with the HTTP status, before a `result` of 1; a prompt that is
  too long comes without one, which then stands in the `model.call_failure` before it. It tries five times
  more at 429 and 500, for up to 40 seconds; a longer wait that the server asks for is an error at once. No
  setting changes that, and no event says when a limit is over.
- What it prints has no counts of tokens. Its session's own `events.jsonl` has: for each request, and at the
  end for the whole session, cached tokens included in those of the input.
- An agent file is taken from a plugin, which may lie anywhere: it is added to its own system prompt.
- A session goes on in the folder where it began, unless COPILOT_DISABLE_RESUME_AUTO_CD says otherwise.
- The npm package starts the program as its child and passes no signals on; the sweep by mark finds that.
- Without approval of all paths it refuses what lies outside of the worktree, as the repository's .git does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import AgentTask
from beads_ralph.agents.streams import Event, Problem
from beads_ralph.agents.transcript import Cost, Note, Said, ToolResult, TranscriptLine, tool_call
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job, JobReport, Profile, Transcript

PASSES: Final = (
    r"COPILOT_(GITHUB_TOKEN|GH_HOST|HOME|CACHE_HOME|MODEL|OFFLINE|AUTO_TIER|AUTO_UPDATE|API_URL"
    r"|PROVIDER_\w+|PROVIDERS_CONFIG|CUSTOM_INSTRUCTIONS_DIRS|SKILLS_DIRS|PROXY_KERBEROS_SPN)"
    r"|GH_HOST|USE_BUILTIN_RIPGREP|USE_TGREP|DBUS_SESSION_BUS_ADDRESS|" + environment.NETWORK
)
QUIET: Final = {"COPILOT_AUTO_UPDATE": "false", "COPILOT_DISABLE_RESUME_AUTO_CD": "true"}
PLUGIN: Final = "beads-ralph"
ALLOWING: Final = ("--allow-all", "--yolo", "--allow-all-tools", "--allow-tool", "--assisted-approval")
SESSIONS: Final = ("-r", "--resume", "--session-id", "--continue", "--connect")
COUNTED: Final = r'\{"type":"session\.(usage_record|shutdown)"'

ERRORS: Final[Mapping[str, Trouble]] = {
    "authentication": "auth",
    "authorization": "auth",
    "policy": "refused",
    "quota": "limit",
    "rate_limit": "limit",
    "context_limit": "too_long",
}
NO_SESSION: Final = re.compile(r"No session, task, or name matched .*")
SHELL_END: Final = re.compile(r"\n?<shellId: \S+ completed with exit code -?\d+>\Z")
NOT_SIGNED_IN: Final = re.compile(r"No authentication information found.*")
MISUSED: Final = re.compile(r"^(error: .*|No such agent: .*|Error: .*)$", re.MULTILINE)


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _CopilotSeen(streams.Seen):
    spoke: bool = False
    asks: bool = False
    """True if the last message asks for tools, so that more must follow."""
    tools: dict[str, str] = field(default_factory=dict)
    failure: int | None = None
    """The HTTP status of the last call of the model, where that failed."""
    error: Event = field(default_factory=dict)
    result: Event = field(default_factory=dict)

    def take(self, event: Event) -> None:
        kind, data = streams.text(event, "type"), streams.part(event, "data")
        if kind == "assistant.message":
            self._hear(data)
        elif kind == "tool.execution_start":
            self.waiting = None
            self.tools[streams.text(data, "toolCallId")] = streams.text(data, "toolName")
        elif kind == "tool.execution_complete" and streams.part(data, "error").get("code") == "denied":
            self.denied.append(self.tools.get(streams.text(data, "toolCallId")) or "a tool")
        elif kind == "model.call_failure":
            self._fail(data)
        elif kind == "session.error":
            self.error, self.waiting = data, None
        elif kind == "result":
            self.result, self.session = event, streams.text(event, "sessionId") or None
        else:
            self._count(kind, data)

    def _fail(self, data: Event) -> None:
        """It tries again at a limit and at a server's error, and says neither so nor when."""
        self.failure, said = streams.count(data, "statusCode"), streams.text(data, "errorMessage")
        trouble = streams.of_status(self.failure, said) if self.failure else "server"
        self.waits(trouble, said or "the server cannot be reached")

    def _hear(self, data: Event) -> None:
        """Of the main agent: those that it sends out speak to it, not to us."""
        if streams.text(data, "parentToolCallId"):
            return
        self.asks, self.spoke = bool(data.get("toolRequests")), True
        if (words := streams.text(data, "content")) or not self.asks:
            self.say(words)
        self.failure, self.error, self.waiting = None, {}, None

    def _count(self, kind: str, data: Event) -> None:
        """Since its beginning, as of its last end, and each request after that."""
        if kind == "session.usage_record":
            self.session_usage = self.session_usage + _usage(data)
        elif kind == "session.shutdown":
            models = streams.part(data, "modelMetrics").values()
            counted = [_usage(model) for model in models if isinstance(model, dict)]
            self.session_usage = sum(counted, Usage()) if counted else self.session_usage

    def trouble(self, ended: Exit) -> Problem:
        if self.error:
            return self._of_error(), streams.text(self.error, "message")
        if not self.result:
            return _before_the_end(ended)
        if self.result.get("exitCode") == 0 and self.spoke and not self.asks:
            return "", ""
        return streams.unfinished(ended)

    def _of_error(self) -> Trouble:
        """Its own word for it, where that is plain; else what the server said; else a connection broke."""
        if streams.NO_CREDIT.search(streams.text(self.error, "message")):
            return "credit"
        kind = ERRORS.get(streams.text(self.error, "errorType"))
        status = streams.count(self.error, "statusCode") or self.failure
        said = streams.text(self.error, "message")
        return kind or (streams.of_status(status, said) if status else "server")


def _usage(said: Event) -> Usage:
    cached = ("cacheReadTokens", "cacheWriteTokens")
    return streams.tokens(streams.part(said, "usage"), "inputTokens", "outputTokens", *cached)


def _before_the_end(ended: Exit) -> Problem:
    """It complains about its command line before the first event."""
    if unknown := NO_SESSION.search(ended.stderr):
        return "forgotten", unknown[0]
    if ended.code > 0 and (missing := NOT_SIGNED_IN.search(ended.stderr)):
        return "auth", missing[0]
    if ended.code > 0 and (misused := MISUSED.search(ended.stderr)):
        return "configuration", misused[1]
    return streams.unfinished(ended)


def _told(event: Event) -> Iterator[TranscriptLine]:
    kind, data = streams.text(event, "type"), streams.part(event, "data")
    call = streams.text(data, "toolCallId")
    if kind == "assistant.message":
        yield Said(streams.text(data, "content"))
    elif kind == "tool.execution_start":
        yield tool_call(streams.text(data, "toolName"), data.get("arguments"), call)
    elif kind == "tool.execution_complete":
        said = streams.text(streams.part(data, "result"), "content")
        said = said or streams.text(streams.part(data, "error"), "message")
        code = streams.count(streams.part(data, "shellExecution"), "exitCode")
        yield ToolResult(SHELL_END.sub("", said), call, code, failed=data.get("success") is False)
    elif kind == "model.call_failure":
        said = streams.text(data, "errorMessage") or "the server cannot be reached"
        yield Note(f"{said} (HTTP {data.get('statusCode')})", trouble=True)
    elif kind == "session.error":
        yield Note(streams.text(data, "message"), trouble=True)
    elif kind == "session.usage_record":
        yield Cost(_usage(data))


# --- what is asked ------------------------------------------------------------------------------------


class Copilot(streams.StreamCLI):
    name = "copilot"
    profile = Profile(
        "GitHub Copilot CLI",
        executable="copilot",
        model_variable="COPILOT_MODEL",
        tested="1.0.102",
        session_is_given=True,
        asks_nobody="--allow-all",
        asks_by=("--allow-tool", "--assisted-approval"),
        passes=PASSES,
        keys=("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
        credentials=(".copilot/config.json",),
        state=(".copilot", ".cache/copilot"),
        state_variables=("COPILOT_HOME", "COPILOT_CACHE_HOME"),
        settings=(
            *(".copilot/settings.json", ".copilot/mcp-config.json", ".copilot/lsp-config.json"),
            *(".copilot/copilot-instructions.md", ".copilot/agents", ".copilot/hooks"),
            *(".copilot/installed-plugins", ".copilot/instructions", ".copilot/skills"),
            ".cache/copilot/pkg/*",
        ),
        install="npm install --global @github/copilot",
        sign_in="sign in with `copilot login`, or set COPILOT_GITHUB_TOKEN",
    )

    quiet = QUIET
    seen = _CopilotSeen

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        return _told(event)

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = self.env(task, transcript)
        plugin = transcript.out.with_name(f"{transcript.out.name}.copilot")
        session = _session(task, transcript)
        return self.job(
            task,
            transcript,
            (*_flags(task, plugin, session), *(task.spec.options or ())),
            env=env,
            stdin=task.prompt if _as_agent(task) else streams.instructed(task),
            files=_files(task.persona, plugin) if _as_agent(task) and task.persona else {},
            report=_report(env, session),
        )


def _flags(task: AgentTask, plugin: Path, session: str) -> Iterator[str]:
    quiet = ("--output-format=json", "--stream=off", "--no-ask-user", "--disable-client-telemetry")
    ours = {**dict.fromkeys(quiet, ()), "--allow-all": ALLOWING, streams.model_flag(task): ()}
    yield from streams.flags(task, ours)
    if session:
        yield f"--resume={session}" if task.session_id else f"--session-id={session}"
    if _as_agent(task) and task.persona:
        yield from (f"--plugin-dir={plugin}", f"--agent={PLUGIN}:{streams.agent_name(task.persona)}")


def _session(task: AgentTask, transcript: Transcript) -> str:
    """The id of the session; empty where the user's options choose another."""
    if streams.given(task.spec.options, *SESSIONS):
        return ""
    return environment.session_of(task, transcript)


def _as_agent(task: AgentTask) -> bool:
    """True if the persona is an agent of the plugin; an agent that the user's options name replaces it."""
    return bool(task.body) and not streams.given(task.spec.options, "--agent")


def _files(persona: Persona, plugin: Path) -> dict[Path, str]:
    """A plugin with one agent. JSON is YAML, so that no description can end the front matter."""
    name = streams.agent_name(persona)
    about = f"name: {name}\ndescription: {json.dumps(persona.description or persona.name)}"
    return {
        plugin / "plugin.json": json.dumps({"name": PLUGIN, "version": "1.0.0"}),
        plugin / "agents" / f"{name}.md": f"---\n{about}\n---\n\n{persona.body}\n",
    }


def _report(env: Mapping[str, str], session: str) -> JobReport | None:
    home = Path(env["COPILOT_HOME"]) if env.get("COPILOT_HOME") else Path(env.get("HOME", "")) / ".copilot"
    if not session or not home.is_absolute():
        return None
    return JobReport(home / "session-state" / session / "events.jsonl", COUNTED)


AGENT: Final = Copilot()
