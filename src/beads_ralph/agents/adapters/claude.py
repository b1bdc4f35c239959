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
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    from beads_ralph.bead.personas import Persona

LONGEST_ARGUMENT: Final = 100_000  # the kernel's limit for one is 128 KiB
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
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
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
            *("billing_error", "cloud_credential_error"),
        ),
        "auth",
    ),
    **dict.fromkeys(("overloaded", "server_error", "unknown"), "server"),
    **dict.fromkeys(("invalid_request", "model_not_found", "max_output_tokens"), "refused"),
    "rate_limit": "limit",
}
SUBTYPES: Final[Mapping[str, Trouble]] = {
    "error_max_turns": "refused",
    "error_max_budget_usd": "refused",
    "error_max_structured_output_retries": "unreadable",
}
MODELS: Final = "model_usage_since_last_result"
OF_EACH: Final = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
OF_ONE: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
NO_SESSION: Final = re.compile(r"No conversation found|does not match any session")


class Claude:
    name = "claude"
    profile = Profile(
        "Claude Code",
        executable="claude",
        tested="2.1.325",
        session_is_given=True,
        passes=PASSES,
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", *CLOUDS),
        credentials=(".claude/.credentials.json",),
        state=(".claude", ".claude.json", ".cache/claude"),
        state_variables=("CLAUDE_CONFIG_DIR",),
        install="npm install --global @anthropic-ai/claude-code",
        sign_in="sign in with `claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
    )

    def __init__(self, inherited: Mapping[str, str] = os.environ, *, as_root: bool | None = None) -> None:
        self.inherited = inherited
        self.as_root = os.geteuid() == 0 if as_root is None else as_root

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = {**QUIET, **environment.of_task(task, transcript, self.inherited, self._passes(task))}
        agents = _agents(task)
        file = transcript.out.with_suffix(".agents.json")
        in_file = len(agents.encode()) > LONGEST_ARGUMENT
        return environment.job_of(
            task,
            transcript,
            argv=(
                *(task.spec.executable or self.profile.executable, "--print"),
                *_who(task, str(file) if in_file else agents),
                *_session(task, transcript),
                *_bounds(task),
                *self._options(task, env.get("IS_SANDBOX") == "1"),
                # After the options, as these decide whether we can read what it says.
                *("--output-format=stream-json", "--verbose"),
            ),
            env=env,
            stdin=task.prompt,
            files={file: agents} if in_file else {},
        )

    def _passes(self, task: AgentTask) -> str:
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

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        seen = _ClaudeSeen()
        for event in streams.events(lines):
            seen.take(event)
        trouble, detail = _trouble(seen, ended)
        text = streams.text(seen.result, "result")
        given = streams.part(seen.result, "structured_output") or None
        result, complaint = (given, "") if given or trouble else streams.answer(text)
        return Reply(
            session_id=None if trouble == "forgotten" else seen.session,
            text=text,
            result=result,
            usage=seen.usage,
            session_usage=Usage(cost_usd=streams.amount(seen.result, "total_cost_usd")),
            denied=tuple(dict.fromkeys(seen.denied)),
            trouble=trouble or ("unreadable" if complaint else ""),
            detail=detail or complaint,
            limit_reset_at=seen.reset_at if trouble == "limit" else None,
        )


# --- what is asked ------------------------------------------------------------------------------------


def _agents(task: AgentTask) -> str:
    """The persona as the CLI takes it; empty for the plain CLI."""
    persona = task.persona
    if persona is None or not persona.body:
        return ""
    said: dict[str, Any] = {"description": persona.description or persona.name, "prompt": persona.body}
    if persona.tools:
        said["tools"] = [*persona.tools, *(["StructuredOutput"] if task.output_schema else [])]
    return json.dumps({_name(persona): said}, ensure_ascii=False)


def _name(persona: Persona) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", persona.name).strip("-") or "agent"


def _who(task: AgentTask, agents: str) -> Iterator[str]:
    yield f"--model={task.model}"
    if agents and task.persona:
        yield from (f"--agents={agents}", f"--agent={_name(task.persona)}")


def _session(task: AgentTask, transcript: Transcript) -> Iterator[str]:
    if task.session_id:
        yield f"--resume={environment.known_session(task.session_id)}"
    else:
        yield f"--session-id={environment.fresh_session(task, transcript)}"


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


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _ClaudeSeen:
    """What the events have said so far."""

    session: str | None = None
    started: bool = False
    result: Event = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    denied: list[str] = field(default_factory=list)
    error: str = ""
    """Which kind of error of the API it met last."""
    reset_at: str | None = None

    def take(self, event: Event) -> None:
        self.started = True
        kind = streams.text(event, "type")
        self.session = streams.text(event, "session_id") or self.session
        if kind == "assistant":
            self.error = streams.text(event, "error")
        elif kind == "rate_limit_event":
            self._limit(streams.part(event, "rate_limit_info"))
        elif kind == "result":
            self._end(event)

    def _limit(self, info: Event) -> None:
        if info.get("status") == "rejected":
            self.reset_at = streams.since_1970(streams.amount(info, "resetsAt"))

    def _end(self, event: Event) -> None:
        """There is a result for each turn, and background work can make it take several."""
        self.result = event
        self.usage = self.usage + _usage(event)
        denials = event.get("permission_denials")
        for denial in denials if isinstance(denials, list) else ():
            if isinstance(denial, dict):
                self.denied.append(streams.text(denial, "tool_name") or "a tool")


def _usage(result: Event) -> Usage:
    """Of every model that had a part in it, where the CLI says that; else of the main one."""
    models = [each for each in streams.part(result, MODELS).values() if isinstance(each, dict)]
    if not models:
        return _counted(streams.part(result, "usage"), OF_ONE)
    return sum((_counted(each, OF_EACH) for each in models), Usage())


def _counted(counts: Event, names: Sequence[str]) -> Usage:
    given, answered, written, read = (streams.count(counts, name) for name in names)
    cached = Usage(cache_tokens=written) + Usage(cache_tokens=read)
    return Usage(input_tokens=given, output_tokens=answered) + cached


def _trouble(seen: _ClaudeSeen, ended: Exit) -> tuple[Trouble, str]:
    result = seen.result
    if not result:
        return _before_the_end(seen, ended)
    if result.get("subtype") == "success" and result.get("is_error") is False:
        return "", ""
    said = _said(result)
    if NO_SESSION.search(said) and result.get("num_turns") == 0:
        return "forgotten", said
    return _of_error(seen), said


def _said(result: Event) -> str:
    errors = result.get("errors")
    said = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    return (said or streams.text(result, "result"))[: streams.MAX_DETAIL]


def _of_error(seen: _ClaudeSeen) -> Trouble:
    subtype = streams.text(seen.result, "subtype")
    if subtype in SUBTYPES:
        return SUBTYPES[subtype]
    status = streams.count(seen.result, "api_error_status")
    kind = KINDS.get(seen.error)
    if status is not None and kind != "auth":  # an empty account is a bad request to the server
        return streams.of_status(status)
    return kind or "unfinished"


def _before_the_end(seen: _ClaudeSeen, ended: Exit) -> tuple[Trouble, str]:
    """It complains about its command line and its settings before the first event."""
    said = streams.last_line(ended.stderr)
    if NO_SESSION.search(ended.stderr):
        return "forgotten", said
    if not seen.started and ended.code > 0 and said:
        return "refused", said
    return streams.unfinished(ended)


AGENT: Final = Claude()
