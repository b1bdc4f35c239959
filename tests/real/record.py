"""Recorded runs of real CLIs, for tests of adapters that need no CLI: `python -m tests.real.record NAME …`.

Each scenario is one call through the CLI's own adapter, on the scripted model. What it printed and how it
ended go to `tests/agents/cassettes/NAME-VERSION/SCENARIO.{out,err,json}`, without the names of this machine.
What a CLI notes in a file of its own is kept as SCENARIO.report.
Needs `BEADS_RALPH_AGENTS=$(tools/agents/install --nightly)`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beads_ralph.agents import following
from beads_ralph.agents.protocol import AGENTS, AgentCLI
from beads_ralph.agents.reply_reader import output_of
from beads_ralph.bead.personas import Persona
from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Exit, Job
from tests.agents import running
from tests.model.server import ModelServer
from tests.real.clis import IDENTITY, Cli, found, prepare

CASSETTES = Path(__file__).parents[1] / "agents" / "cassettes"
SESSION = "11111111-2222-4333-8444-555555555555"
NOBODY_THERE = "http://127.0.0.1:9"
UNKNOWN = "99999999-2222-4333-8444-555555555555"


@dataclass(frozen=True)
class Take:
    """One call: which scenario of the model, and what is special about it."""

    model: str = "ok"
    prompt: str = "Add hello.py and commit it. MARK-one"
    session: str | None = None
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    timeout: float = 60.0
    persona: Persona | None = None


COMMON: dict[str, Take] = {
    "ok": Take(),
    "resumed": Take(prompt="QA says: mend it. MARK-two", session=SESSION),
    "prose": Take("prose"),
    "unknown-session": Take("text", session=UNKNOWN),
    "unknown-option": Take("text", options=("--no-such-option",)),
    "killed": Take("sleep30", timeout=8.0),
    **{name: Take(name) for name in ("400", "401", "403", "404", "413", "500", "529", "drop", "malformed")},
    "429": Take("429r7"),
    "quota": Take("limitr7"),
    **{name: Take(name) for name in ("402", "credit", "toolong", "unreachable")},
}
DENY_POLICY = (
    '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "printf"\ndecision = "deny"\npriority = 999\n'
)
SUBSCRIBED = (("ANTHROPIC_API_KEY", ""), ("CLAUDE_CODE_OAUTH_TOKEN", "dummy"))
SIGNED_OUT = (
    ("COPILOT_OFFLINE", "false"),
    ("COPILOT_PROVIDER_BASE_URL", ""),
    ("HTTPS_PROXY", "http://127.0.0.1:9"),
    ("HTTP_PROXY", "http://127.0.0.1:9"),
)
OF_ONE: dict[str, dict[str, Take]] = {
    "claude": {
        "denied": Take("denied", options=("--permission-mode=dontAsk",)),
        "not-signed-in": Take(env=(("ANTHROPIC_API_KEY", ""),)),
        "subscription": Take("limitr600", env=SUBSCRIBED),
        "turn-limit": Take("loop", options=("--max-turns=2",)),
    },
    "codex": {"no-key": Take("text", env=(("SCRIPTED_KEY", ""),))},
    "copilot": {
        "denied": Take("denied", options=("--allow-tool=view",)),
        "not-signed-in": Take(env=SIGNED_OUT),
        "unknown-agent": Take("text", options=("--agent=nobody",)),
    },
    "gemini": {
        "denied": Take("denied", options=("--policy={home}/deny.toml",)),
        "not-signed-in": Take(env=(("GEMINI_API_KEY", ""),)),
        "no-trust": Take(
            "text", env=(("GEMINI_CLI_TRUST_WORKSPACE", "false"),), options=("--no-skip-trust",)
        ),
    },
    "goose": {
        "turn-limit": Take("loop", options=("--max-turns=2",)),
        "approval": Take(env=(("GOOSE_MODE", "approve"),)),
        "no-provider": Take(env=(("GOOSE_PROVIDER", ""),)),
    },
    "opencode": {
        "denied": Take(
            "denied", env=(("OPENCODE_PERMISSION", '{"bash": {"*": "allow", "printf *": "deny"}}'),)
        ),
        "nobody-to-ask": Take(env=(("OPENCODE_PERMISSION", '{"bash": "ask"}'),), options=("--no-auto",)),
        "unknown-model": Take("text", options=("--model=scripted/no-such-model",)),
        "killed": Take("sleep90", timeout=45.0),
    },
}


NOT_OF: dict[str, set[str]] = {"codex": {"resumed"}, "opencode": {"resumed"}}
"""Their sessions have ids of their own choice, so that there is none of a known one."""


def record(name: str, folder: Path, only: Collection[str] = ()) -> None:
    """All scenarios of one CLI, or only those, in a place of their own."""
    installed = found(name, Path(os.environ["BEADS_RALPH_AGENTS"]))
    assert installed, f"{name} is not installed"
    target = CASSETTES / f"{name}-{AGENTS[name].profile.tested}"
    if not only:
        shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    home, worktree = folder / "home", folder / "worktree"
    home.mkdir()
    (home / "deny.toml").write_text(DENY_POLICY, encoding="utf-8")
    running.git("init", "--quiet", str(worktree), cwd=folder)
    with ModelServer() as server:
        takes = {**COMMON, **OF_ONE.get(name, {})}
        wanted = (set(only) or set(takes)) - NOT_OF.get(name, set())
        for scenario in sorted(wanted, key=list(takes).index):
            take = takes[scenario]
            base = address(server, take.model, f"{name}-{scenario}")
            ended = play(prepare(name, installed, home, base), take, worktree, folder / scenario)
            keep(target / scenario, ended, folder, installed)
            sys.stdout.write(f"{name} {scenario}: {ended.code}\n")


def address(server: ModelServer, model: str, run: str) -> str:
    """Of the model in that scenario; of nobody, where nobody is to be reached."""
    return NOBODY_THERE if model == "unreachable" else server.base(model, run)


def play(
    cli: Cli,
    take: Take,
    worktree: Path,
    place: Path,
    adapter: AgentCLI | None = None,
    before: Sequence[str] = (),
) -> Exit:
    """One call, to its end; nothing of it is left afterwards. `before` are words that start the command line,
    to be somebody else."""
    spec = running.spec(
        executable=str(cli.program),
        options=[word.replace("{home}", str(cli.home)) for word in take.options],
        env={"TMPDIR": str(cli.home), **cli.env, **dict(take.env)},  # gemini leaves reports of errors there
    )
    place.mkdir()
    asked = running.task(
        worktree,
        spec,
        prompt=take.prompt,
        session_id=take.session,
        timeout=take.timeout,
        persona=take.persona,
        committer=IDENTITY,
    )
    job = _in_known_session((adapter or AGENTS[cli.name]).command(asked, running.transcript(place)))
    job = replace(job, argv=(*before, *job.argv), mark=uuid.uuid4().hex)
    follower = following.follow(adapter or AGENTS[cli.name], job)
    ended = asyncio.run(LocalExecutor().run(job, follower))
    if job.report and job.transcript:
        noted = [*output_of(replace(job, transcript=None))]
        job.transcript.out.with_suffix(".report").write_text("".join(f"{line}\n" for line in noted), "utf-8")
    return ended


def _in_known_session(job: Job) -> Job:
    """The id that the adapter chose differs from run to run; the first call's is the one to resume."""
    chosen = (job.env or {})["BEADS_RALPH_SESSION"]
    first = job.transcript is not None and job.transcript.out.parent.name == "ok"
    if not first:
        return job
    report = job.report and replace(job.report, path=Path(str(job.report.path).replace(chosen, SESSION)))
    return replace(job, argv=tuple(word.replace(chosen, SESSION) for word in job.argv), report=report)


def keep(path: Path, ended: Exit, folder: Path, installed: Path) -> None:
    assert ended.transcript
    names = {str(folder): "/somewhere", str(installed.resolve().parents[1]): "/opt/cli"}
    out = ended.transcript.out
    sources = {"out": out, "err": ended.transcript.err, "report": out.with_suffix(".report")}
    for suffix, source in sources.items():
        if suffix == "report" and not source.exists():
            continue
        text = _scrubbed(source.read_text("utf-8", "replace"), names)
        path.with_name(f"{path.name}.{suffix}").write_text(text, encoding="utf-8")
    how = {"code": ended.code, "timed_out": ended.timed_out, **({"gave_up": True} if ended.gave_up else {})}
    path.with_name(f"{path.name}.json").write_text(json.dumps(how) + "\n", encoding="utf-8")


def _scrubbed(text: str, names: dict[str, str]) -> str:
    for name, instead in names.items():
        text = text.replace(name, instead)
    text = re.sub(r"/(tmp|var/tmp)/[^\"\s]*", "/tmp/x", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text)
    text = re.sub(r"(?m)^    at .*\n?", "", text)  # where in its own code it failed
    return re.sub(r"(file://)?/[\w./@-]*/node_modules/", "/opt/cli/", text)


if __name__ == "__main__":
    clis = [word for word in sys.argv[1:] if word in AGENTS]
    for given in clis:
        with tempfile.TemporaryDirectory() as scratch:
            record(given, Path(scratch), {word for word in sys.argv[1:] if word not in AGENTS})
