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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import environment, streams
from beads_ralph.agents.openai_schema import strict
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import utc_text
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.agents.streams import Event
    from beads_ralph.bead.agent_call import Trouble

LONGEST_ARGUMENT: Final = 100_000  # the kernel's limit for one is 128 KiB
ANOTHER_TMP: Final = "/var/tmp"  # noqa: S108
BYPASS: Final = "--dangerously-bypass-approvals-and-sandbox"
WRITTEN_BY_A_COMMIT: Final = ("objects", "refs", "logs", "reftable")
# Together these two spare five seconds of waiting at the end of each call.
QUIET: Final = ("--disable=plugins", "-c", "analytics.enabled=false")
PASSES: Final = (
    r"OPENAI_[A-Z0-9_]+|AZURE_OPENAI_[A-Z_]+|CODEX_(HOME|API_KEY|ACCESS_TOKEN|CA_CERTIFICATE)"
    r"|RUST_LOG|" + environment.NETWORK
)
STATUS: Final = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b")
SAYINGS: Final[tuple[tuple[str, Trouble], ...]] = (
    ("You\N{RIGHT SINGLE QUOTATION MARK}ve hit your usage limit", "limit"),
    ("You've hit your usage limit", "limit"),
    ("Quota exceeded", "auth"),
    ("To use Codex with your ChatGPT plan", "auth"),
    ("Missing environment variable", "auth"),
    ("Your access token could not be refreshed", "auth"),
    ("We\N{RIGHT SINGLE QUOTATION MARK}re currently experiencing high demand", "server"),
    ("stream disconnected", "server"),
    ("Connection failed", "server"),
    ("error sending request", "server"),
    ("request timed out", "server"),
    ("Selected model is at capacity", "server"),
    ("Codex ran out of room", "refused"),
    ('{"', "refused"),
)
"""How the sentences begin that name no status. A bad request is given as the server's own JSON."""
WAITING: Final = re.compile(r"Reconnecting\.\.\. [^(]*\((.*)\)", re.DOTALL)
AGAIN: Final = re.compile(
    r"try again at (?:(?P<day>[A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (?P<year>\d{4}) )?"
    r"(?P<time>\d{1,2}:\d{2} [AP]M)"
)
NO_SANDBOX: Final = (
    f"its sandbox cannot start on this machine; where that is itself a sandbox, give the options [{BYPASS}], "
    "else allow user namespaces"
)


class Codex:
    name = "codex"
    profile = Profile(
        "Codex",
        executable="codex",
        tested="0.163.0",
        passes=PASSES,
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        credentials=(".codex/auth.json",),
        state=(".codex",),
        state_variables=("CODEX_HOME",),
        install="npm install --global @openai/codex",
        sign_in="sign in with `codex login`, or set CODEX_API_KEY",
    )

    def __init__(
        self, inherited: Mapping[str, str] = os.environ, *, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """`now` is the local time, in which the CLI tells when a limit ends."""
        self.inherited, self.now = inherited, now

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        options = tuple(task.spec.options or ())
        env = environment.of_task(task, transcript, self.inherited, PASSES)
        who = _who(task)
        files = {} if streams.given(options, "--output-schema") else _schema_file(task, transcript)
        return environment.job_of(
            task,
            transcript,
            argv=(
                *(task.spec.executable or self.profile.executable, "exec", *QUIET, *_model(task), *who),
                *_sandbox(task),
                *(f"--output-schema={file}" for file in files),
                *options,
                # After the options, lest one that takes several values takes these words too.
                *_unless_given(options, "--skip-git-repo-check", "--json"),
                *(("resume", environment.known_session(task.session_id)) if task.session_id else ()),
                "-",
            ),
            env={**env, **_helper_folder(env)},
            stdin=task.prompt if who else streams.instructed(task),
            files=files,
        )

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        seen = _CodexSeen()
        for event in streams.events(lines):
            seen.take(event)
        trouble, detail = _trouble(seen, ended)
        result, complaint = (None, "") if trouble else streams.answer(seen.text)
        return Reply(
            session_id=seen.session,
            text=seen.text,
            result=result,
            session_usage=seen.usage,
            trouble=trouble or ("unreadable" if complaint else ""),
            detail=detail or complaint,
            limit_reset_at=_reset(detail, self.now()) if trouble == "limit" else None,
        )


# --- what is asked ------------------------------------------------------------------------------------


def _who(task: AgentTask) -> tuple[str, ...]:
    """The persona as instructions of the developer; one too long for an argument goes with the prompt."""
    said = f"developer_instructions={_toml(task.persona.body)}" if task.persona and task.persona.body else ""
    return ("-c", said) if said and len(said.encode()) <= LONGEST_ARGUMENT else ()


def _model(task: AgentTask) -> tuple[str, ...]:
    model = streams.own_model(task)
    return ("-c", f"model={_toml(model)}") if model else ()


def _toml(text: str) -> str:
    """A JSON string is one of TOML's too, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _sandbox(task: AgentTask) -> Iterator[str]:
    """Commands write in the worktree and the temporary folders, and where git keeps the commits. The
    sandbox does not start with a folder that is missing, and not every repository has all of them. Inside
    of ours, which allows the same, it does not start at all."""
    if task.closed_in:
        yield from ("-c", 'sandbox_mode="danger-full-access"', "-c", 'approval_policy="never"')
        return
    yield from ("-c", 'sandbox_mode="workspace-write"', "-c", 'approval_policy="never"')
    for common in task.git_folders[:1]:
        within = [common / name for name in WRITTEN_BY_A_COMMIT]
        yield from (f"--add-dir={folder}" for folder in within if folder.is_dir())
    yield from (f"--add-dir={folder}" for folder in task.git_folders[1:])


def _unless_given(options: tuple[str, ...], *flags: str) -> Iterator[str]:
    yield from (flag for flag in flags if not streams.given(options, flag))


def _schema_file(task: AgentTask, transcript: Transcript) -> dict[Path, str]:
    form = strict(task.output_schema) if task.output_schema else None
    return {transcript.out.with_suffix(".schema.json"): json.dumps(form)} if form else {}


def _helper_folder(env: Mapping[str, str]) -> dict[str, str]:
    """Another temporary folder, where the usual one holds the CLI's home: see above."""
    home = Path(env.get("CODEX_HOME") or env.get("HOME") or "/")
    usual = Path(env.get("TMPDIR") or "/tmp")  # noqa: S108 - what the CLI takes then
    return {"TMPDIR": ANOTHER_TMP} if home.is_relative_to(usual) and usual != Path(ANOTHER_TMP) else {}


# --- what it answers ----------------------------------------------------------------------------------


@dataclass
class _CodexSeen:
    """The state after the events so far."""

    session: str | None = None
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    done: bool = False
    failure: str = ""
    waiting: str = ""
    """Why it tries again, if that was the last that it said."""
    commands: int = 0
    not_started: int = 0
    """How many of the commands its sandbox did not start."""

    def take(self, event: Event) -> None:
        kind = streams.text(event, "type")
        message = streams.text(event, "message")
        self.waiting = found[1] if kind == "error" and (found := WAITING.match(message)) else ""
        if kind == "thread.started":
            self.session = streams.text(event, "thread_id") or None
        elif kind == "item.completed":
            self._item(streams.part(event, "item"))
        elif kind == "turn.completed":
            self.done, self.usage = True, _usage(streams.part(event, "usage"))
        elif kind == "turn.failed":
            self.failure = streams.text(streams.part(event, "error"), "message") or "it did not say why"

    def _item(self, item: Event) -> None:
        if item.get("type") == "agent_message":
            self.text = streams.text(item, "text")
        elif item.get("type") == "command_execution":
            self.commands += 1
            self.not_started += _is_of_the_sandbox(item)


def _is_of_the_sandbox(item: Event) -> bool:
    """One complaint of bubblewrap, and nothing else, is what a command prints that it did not start."""
    said = streams.text(item, "aggregated_output").strip()
    return item.get("exit_code") == 1 and said.startswith("bwrap: ") and "\n" not in said


def _usage(counted: Event) -> Usage:
    """From the session's beginning; the input has the cached part in it."""
    given = streams.count(counted, "input_tokens")
    cached = streams.count(counted, "cached_input_tokens")
    return Usage(
        input_tokens=None if given is None else max(given - (cached or 0), 0),
        output_tokens=streams.count(counted, "output_tokens"),
        cache_tokens=cached,
    )


def _trouble(seen: _CodexSeen, ended: Exit) -> tuple[Trouble, str]:
    if seen.failure:
        return _of_failure(seen.failure)
    if seen.done:
        broken = seen.commands > 0 and seen.commands == seen.not_started
        return ("refused", NO_SANDBOX) if broken else ("", "")
    if ended.timed_out and seen.waiting:
        return _of_failure(seen.waiting)
    return _before_the_end(seen, ended)


def _of_failure(said: str) -> tuple[Trouble, str]:
    status = STATUS.match(said)
    sayings = (trouble for start, trouble in SAYINGS if said.startswith(start))
    trouble: Trouble = streams.of_status(int(status[1])) if status else next(sayings, "unfinished")
    return trouble, said[: streams.MAX_DETAIL]


def _before_the_end(seen: _CodexSeen, ended: Exit) -> tuple[Trouble, str]:
    """It complains about its command line and its settings before the first event."""
    if "no rollout found" in ended.stderr:
        return "forgotten", streams.last_line(ended.stderr)
    if seen.session is None and ended.code > 0 and ended.stderr.strip():
        return "refused", _complaint(ended.stderr)
    return streams.unfinished(ended)


def _complaint(stderr: str) -> str:
    """Its first line, after warnings; what follows is how it is used."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("WARNING")), lines[0])[: streams.MAX_DETAIL]


def _reset(said: str, now: datetime) -> str | None:
    """When a limit ends. The CLI tells the minute, without the seconds, and the day if it is not today."""
    match = AGAIN.search(said)
    if match is None:
        return None
    day = f"{match['day']} {match['year']}" if match["day"] else now.strftime("%b %d %Y")
    try:
        at = datetime.strptime(f"{day} {match['time']}", "%b %d %Y %I:%M %p").replace(tzinfo=now.tzinfo)
        return utc_text(at + timedelta(minutes=1))
    except (ValueError, OverflowError):
        return None


AGENT: Final = Codex()
