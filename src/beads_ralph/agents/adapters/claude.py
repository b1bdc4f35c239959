"""Claude Code: `claude --print`, one JSON event a line.

How it behaves where that matters, as measured with the version in the profile:

- Its last event is `result`. A refused tool leaves that a success, and exit code 0; the only sign is
  `permission_denials`. An error of the API says `subtype: success` too, but `is_error`, with exit code 1.
  SIGINT ends it with exit code 0 and an error result.
- Usage counts this call, `total_cost_usd` the whole session. A budget caps this call, not the session.
- An agent given by `--agents` goes before a file of the same name in the worktree, which the agents there
  may have changed. Its list of tools hides the tool for structured answers unless that is on the list.
- What it is to be must be said again with every `--resume`: only the system prompt is remembered.
- A model that ignores `--json-schema` ends with exit code 0 and no `structured_output`.
- As root it refuses to skip permissions, unless IS_SANDBOX says that the machine is there for that.
- By itself it tries a failing server 10 times, which takes minutes.
- Its memory lies in a folder of the main repository's, which the user's own sessions share; timers, wake-ups
  and tasks in the background outlive the answer. All of that is off.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.protocol import AgentTask
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
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

SMALLEST_BUDGET: Final = 0.0001
ALLOWED: Final = ("Agent", "Bash", "Edit", "Glob", "Grep", "MultiEdit", "NotebookEdit", "Read", "Skill")
ALLOWED_MORE: Final = ("Task", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "Write")
SKIP: Final = "--dangerously-skip-permissions"
BYPASS: Final = re.compile(r"--permission-mode[= ]bypassPermissions")
PERMISSIONS: Final = (
    *(SKIP, "--permission-mode", "--permission-prompts", "--permission-prompt-tool"),
    *("--allowedTools", "--allowed-tools", "--restricted"),
)
QUIET: Final = {
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
UNATTENDED: Final = "--disallowedTools=Monitor,ScheduleWakeup"
"""Tools that wait for what happens after its last word, when nobody listens any more. No variable turns these
two off."""
PASSES: Final = (
    r"ANTHROPIC_[A-Z0-9_]+|CLAUDE_CONFIG_DIR|IS_SANDBOX|DISABLE_[A-Z_]+|MAX_(THINKING|MCP_OUTPUT)_TOKENS"
    r"|CLAUDE_CODE_(OAUTH_TOKEN|USE_[A-Z]+|SKIP_[A-Z]+_AUTH|MAX_(RETRIES|OUTPUT_TOKENS)|DISABLE_[A-Z0-9_]+"
    r"|SUBAGENT_MODEL|EFFORT_LEVEL|API_KEY_HELPER_TTL_MS|CLIENT_(CERT|KEY|KEY_PASSPHRASE)|GIT_BASH_PATH)"
    r"|API_TIMEOUT_MS|(BASH|MCP)_[A-Z_]*(TIMEOUT|LENGTH)[A-Z_]*|" + environment.NETWORK
)
CLOUDS: Final = {
    "CLAUDE_CODE_USE_BEDROCK": r"AWS_[A-Z0-9_]+",
    "CLAUDE_CODE_USE_VERTEX": r"GOOGLE_[A-Z_]+|GCLOUD_PROJECT|CLOUD_ML_REGION|VERTEX_REGION_[A-Z0-9_]+",
    "CLAUDE_CODE_USE_FOUNDRY": r"AZURE_[A-Z_]+",
}
"""Credentials of a cloud, which only somebody who reaches the model through it has a use for."""
KINDS: Final[Mapping[str, Trouble]] = {
    **dict.fromkeys(
        (
            *("authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required"),
            "cloud_credential_error",
        ),
        "auth",
    ),
    "billing_error": "credit",
    "model_not_found": "configuration",
    **dict.fromkeys(("overloaded", "server_error", "unknown"), "server"),
    **dict.fromkeys(("invalid_request", "max_output_tokens"), "refused"),
    "rate_limit": "limit",
}
SUBTYPES: Final[Mapping[str, Trouble]] = {
    "error_max_turns": "unfinished",
    "error_max_budget_usd": "unfinished",
    "error_max_structured_output_retries": "unreadable",
}
MODELS: Final = "model_usage_since_last_result"
OF_EACH: Final = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
OF_ONE: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
SYNTHETIC: Final = "<synthetic>"
"""The model of a message that the CLI itself has written, such as an error's."""
NO_SESSION: Final = re.compile(r"No conversation found|does not match any session")


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _ClaudeSeen(streams.Seen):
    started: bool = False
    result: Event = field(default_factory=dict)
    error: str = ""
    """Which kind of error of the API it met last."""
    in_turn: dict[str, Usage] = field(default_factory=dict)
    """By message: what the turn has used so far. Its result counts it anew, and all of it."""

    @property
    def so_far(self) -> Usage:
        return sum(self.in_turn.values(), self.usage)

    def take(self, event: Event) -> None:
        self.started = True
        kind = streams.text(event, "type")
        self.session = streams.text(event, "session_id") or self.session
        if kind == "system" and event.get("subtype") == "api_retry":
            self._retry(event)
        elif kind in ("assistant", "user", "result"):
            self.waiting = None
        if kind == "assistant":
            self.error = streams.text(event, "error")
            self._message(streams.part(event, "message"))
        elif kind == "rate_limit_event":
            info = streams.part(event, "rate_limit_info")
            if info.get("status") == "rejected":
                self.reset = streams.since_1970(streams.amount(info, "resetsAt"))
        elif kind == "result":
            self._end(event)

    def _retry(self, event: Event) -> None:
        status, delay = streams.count(event, "error_status"), streams.amount(event, "retry_delay_ms")
        said = streams.text(event, "error")
        trouble = streams.of_status(status, said) if status is not None else "server"
        words = f"{said}, HTTP {status}" if status is not None else said
        self.waits(trouble, words, None if delay is None else delay / 1000)

    def _message(self, message: Event) -> None:
        """One comes in several events, each with all that it has used by then."""
        said = streams.text(message, "model")
        self.model = said if said not in ("", SYNTHETIC) else self.model
        counted = streams.tokens(streams.part(message, "usage"), *OF_ONE, within=False)
        self.in_turn[streams.text(message, "id")] = counted

    def _end(self, event: Event) -> None:
        """There is a result for each turn, and background work can make it take several."""
        self.result = event
        self.in_turn.clear()
        self.say(streams.text(event, "result"))
        self.usage = self.usage + _usage(event)
        self.session_usage = Usage(cost_usd=streams.amount(event, "total_cost_usd"))
        denials = event.get("permission_denials")
        for denial in denials if isinstance(denials, list) else ():
            if isinstance(denial, dict):
                self.denied.append(streams.text(denial, "tool_name") or "a tool")

    def answer(self) -> tuple[Mapping[str, Any] | None, str]:
        given = streams.part(self.result, "structured_output")
        return (given, "") if given else super().answer()

    def trouble(self, ended: Exit) -> Problem:
        result = self.result
        if not result:
            return self._before_the_end(ended)
        if result.get("subtype") == "success" and result.get("is_error") is False:
            return "", ""
        errors = result.get("errors")
        said = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
        said = said or streams.text(result, "result")
        if NO_SESSION.search(said) and result.get("num_turns") == 0:
            return "forgotten", said
        return self._of_error(said), said

    def _of_error(self, said: str) -> Trouble:
        subtype = streams.text(self.result, "subtype")
        if subtype in SUBTYPES:
            return SUBTYPES[subtype]
        status = streams.count(self.result, "api_error_status")
        kind = KINDS.get(self.error)
        if status is not None and kind not in ("auth", "credit"):
            return streams.of_status(status, said)
        return "too_long" if streams.TOO_LONG.search(said) else kind or "unfinished"

    def _before_the_end(self, ended: Exit) -> Problem:
        """It complains about its command line and its settings before the first event."""
        said = streams.last_line(ended.stderr)
        if NO_SESSION.search(ended.stderr):
            return "forgotten", said
        if not self.started and ended.code > 0 and said:
            return "configuration", said
        return streams.unfinished(ended)


def _usage(result: Event) -> Usage:
    """Of every model that had a part in it, where the CLI says that; else of the main one."""
    models = [each for each in streams.part(result, MODELS).values() if isinstance(each, dict)]
    if not models:
        return streams.tokens(streams.part(result, "usage"), *OF_ONE, within=False)
    return sum((streams.tokens(each, *OF_EACH, within=False) for each in models), Usage())


def _told(event: Event) -> Iterator[TranscriptLine]:
    kind, message = streams.text(event, "type"), streams.part(event, "message")
    if kind == "system" and event.get("subtype") == "api_retry":
        said = streams.text(event, "error") or "no answer"
        yield Note(f"the server failed ({said}); attempt {event.get('attempt')} follows", trouble=True)
    elif kind in ("assistant", "user"):
        own = message.get("model") == SYNTHETIC
        for content in streams.objects(message, "content"):
            yield from _content(kind, content, own=own)
    elif kind == "result":
        if event.get("is_error"):
            yield Note(streams.text(event, "result") or streams.text(event, "subtype"), trouble=True)
        for denial in streams.objects(event, "permission_denials"):
            yield Note(f"refused: {streams.text(denial, 'tool_name')}", trouble=True)
        yield Cost(_usage(event) + Usage(cost_usd=streams.amount(event, "total_cost_usd")))


def _content(kind: str, content: Event, *, own: bool) -> Iterator[TranscriptLine]:
    """A part of a message. What the user says is a result, or the prompt."""
    what = content.get("type")
    if what == "tool_result":
        failed = content.get("is_error") is True
        yield ToolResult(text_in(content.get("content")), streams.text(content, "tool_use_id"), failed=failed)
    elif kind == "user" or own:  # the CLI's own words come again with the result
        return
    elif what == "text":
        yield Said(streams.text(content, "text"))
    elif what == "thinking":
        yield Thought(streams.text(content, "thinking"))
    elif what == "tool_use":
        yield tool_call(streams.text(content, "name"), content.get("input"), streams.text(content, "id"))


# --- what is asked ------------------------------------------------------------------------------------


class Claude(streams.StreamCLI):
    name = "claude"
    profile = Profile(
        "Claude Code",
        executable="claude",
        counts="cost",
        tested="2.1.325",
        session_is_given=True,
        resumes_elsewhere=True,
        passes=PASSES,
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", *CLOUDS),
        credentials=(".claude/.credentials.json",),
        state=(".claude", ".claude.json", ".cache/claude"),
        state_variables=("CLAUDE_CONFIG_DIR",),
        settings=(
            *(".claude/settings.json", ".claude/settings.local.json", ".claude/CLAUDE.md", ".claude/agents"),
            *(".claude/commands", ".claude/hooks", ".claude/output-styles", ".claude/plugins"),
            *(
                ".claude/rules",
                ".claude/skills",
                ".claude/*.md",
                ".claude/*.sh",
                ".claude/*.py",
                ".claude/*.js",
            ),
            *(".claude/local*", ".claude/bin*", ".claude/scripts*"),
        ),
        copied=(".claude.json",),
        install="npm install --global @anthropic-ai/claude-code",
        sign_in="sign in with `claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
    )

    quiet = QUIET
    seen = _ClaudeSeen

    def __init__(self, inherited: Mapping[str, str] = os.environ, *, as_root: bool | None = None) -> None:
        super().__init__(inherited)
        self.as_root = os.geteuid() == 0 if as_root is None else as_root

    def told(self, event: Event) -> Iterator[TranscriptLine]:
        return _told(event)

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = self.env(task, transcript)
        agents = _agents(task)
        file = transcript.out.with_suffix(".agents.json")
        in_file = len(agents.encode()) > LONGEST_ARGUMENT
        how = "resume" if task.session_id else "session-id"
        return self.job(
            task,
            transcript,
            (
                "--print",
                *_who(task, str(file) if in_file else agents),
                f"--{how}={environment.session_of(task, transcript)}",
                *_bounds(task),
                *streams.flags(task, {UNATTENDED: ("--disallowedTools", "--disallowed-tools")}),
                *self._options(task, env.get("IS_SANDBOX") == "1"),
                # After the options, as these decide whether we can read what it says.
                *("--output-format=stream-json", "--verbose"),
            ),
            env=env,
            stdin=task.prompt,
            files={file: agents} if in_file else {},
        )

    def passes(self, task: AgentTask) -> str:
        known = {**self.inherited, **(task.spec.env or {})}
        return "|".join([PASSES, *(more for name, more in CLOUDS.items() if known.get(name))])

    def _options(self, task: AgentTask, is_sandbox: bool) -> Iterator[str]:
        """The user's own. One who says nothing of permissions gets those that unattended work needs, and
        root, who is refused the skipping of them, gets the same."""
        options = task.spec.options or ()
        if not streams.given(options, *PERMISSIONS):
            yield from _allowing(task.persona)
        if not self.as_root or is_sandbox:
            yield from options
            return
        yield from _without_bypass(options, list(_allowing(task.persona)))


def _agents(task: AgentTask) -> str:
    """The persona as the CLI takes it; empty for the plain CLI."""
    persona = task.persona
    if persona is None or not persona.body:
        return ""
    said: dict[str, Any] = {"description": persona.description or persona.name, "prompt": persona.body}
    if persona.tools:
        said["tools"] = [*persona.tools, *(["StructuredOutput"] if task.output_schema else [])]
    return json.dumps({streams.agent_name(persona): said}, ensure_ascii=False)


def _who(task: AgentTask, agents: str) -> Iterator[str]:
    yield f"--model={task.model}"
    if agents and task.persona:
        yield from (f"--agents={agents}", f"--agent={streams.agent_name(task.persona)}")


def _bounds(task: AgentTask) -> Iterator[str]:
    schema = json.dumps(task.output_schema) if task.output_schema else ""
    if schema and len(schema) <= LONGEST_ARGUMENT:
        yield f"--json-schema={schema}"
    if task.budget_usd is not None:
        yield f"--max-budget-usd={max(task.budget_usd, SMALLEST_BUDGET):.4f}"


def _allowing(persona: Persona | None) -> Iterator[str]:
    """Every tool that the work may need, and no question that nobody is there to answer."""
    tools = dict.fromkeys((*ALLOWED, *ALLOWED_MORE, *(persona.tools if persona else ())))
    yield from ("--permission-mode=dontAsk", f"--allowedTools={','.join(tools)}")


def _without_bypass(options: Sequence[str], instead: Sequence[str]) -> Iterator[str]:
    words = list(options)
    while words:
        word = words.pop(0)
        if word == "--permission-mode" and words and BYPASS.fullmatch(f"{word} {words[0]}"):
            words.pop(0)
            yield from instead
        elif word == SKIP or BYPASS.fullmatch(word):
            yield from instead
        else:
            yield word


AGENT: Final = Claude()
