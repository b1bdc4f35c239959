"""agents: which agent programs are here, which of them are used, and whether they answer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.agents import following, probe, programs
from beads_ralph.agents.players import model_of, players, with_defaults
from beads_ralph.agents.probe import Present, SmokeTest
from beads_ralph.agents.protocol import AGENTS, AgentCLI
from beads_ralph.agents.sign_in import Caller
from beads_ralph.bead.model import CLAUDE, AgentSpec
from beads_ralph.bead.personas import model_asked
from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer
from beads_ralph.cli.text import escape
from beads_ralph.compile.preflight import RunScene, agents_in
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.loop import preflight
from beads_ralph.process import executors
from beads_ralph.process.calls import ends_as_ctrl_c, run_until_ended, side_by_side
from beads_ralph.process.jobs import Transcript
from beads_ralph.session import confinement
from beads_ralph.store import registry

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.bead.model import Bead
    from beads_ralph.forge.protocol import Forge


def agents(
    names: Annotated[list[str] | None, typer.Argument(help="Only these.")] = None,
    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="Ask each that is used one small question; costs a few tokens."),
    ] = False,
    json_: options.Json = False,
) -> Answer:
    """List the agent programs: which are here, in which version, signed in or not."""
    scene = scene_here(workspace.find())
    asked = _asked(names or [], scene)
    with ends_as_ctrl_c():
        present = side_by_side(lambda one: one.seen(scene), asked.values())
    wanted = [asked[found.name] for found in present if found.path and (names or found.used)]
    answers = [answer for one in wanted for answer in _smoke(one, scene)] if smoke else []
    absent = bool(names) and any(found.path is None for found in present)
    failed = absent or any(not answer.ok for answer in answers)
    data = {
        "agents": [found.to_json() for found in present],
        "smoke_tests": [answer.to_json() for answer in answers],
    }
    return Answer(data, lambda console: _show(console, present, answers), exit_code=FAILED if failed else OK)


# --- who is used --------------------------------------------------------------------------------------


def scene_here(space: Workspace, forge: Forge | None = None) -> RunScene:
    """What a run of all open beads would meet; where there are none, with the agents of the settings."""
    beads = _open_beads(space)
    plan = space.config.plan
    named = [*(plan.dev_agents or ()), *(plan.qa_agents or ())]
    plain = AgentSpec.model_validate({"role": "polecat", "agent": CLAUDE})
    return RunScene(space, space.config, beads, () if beads else (named or [plain]), forge)


def _open_beads(space: Workspace) -> list[Bead]:
    """None where there is no store yet, or it cannot be read, which `doctor` tells."""
    if not space.home.exists() and not registry.has_bd_database(space.root):
        return []
    try:
        return preflight.would_start(registry.open_store(space).store)
    except RalphError:
        return []


@dataclass(frozen=True)
class Candidate:
    """A program that may play agents here."""

    name: str
    program: str
    cli: AgentCLI
    calls: tuple[AgentSpec, ...]
    """How agents would call it, one for each model; one that is used by nobody, as the settings have it."""
    used: bool = True

    def seen(self, scene: RunScene) -> Present:
        found = probe.look_at(self.cli, self.program, self.caller(scene, self.calls[0]), scene.root)
        models = tuple(dict.fromkeys(self.model(scene, spec) for spec in self.calls)) if self.used else ()
        return replace(found, name=self.name, used=self.used, models=tuple(filter(None, models)))

    def caller(self, scene: RunScene, spec: AgentSpec) -> Caller:
        home = confinement.home_of(scene.config, scene.root)
        return Caller.of(spec, self.cli.profile, scene.config.agent_env, home)

    def model(self, scene: RunScene, spec: AgentSpec) -> str:
        return model_asked(self.cli.name, model_of(spec, scene))


def candidates(scene: RunScene) -> dict[str, Candidate]:
    """Every program with an adapter, and every other that is used here, by name."""
    calls: dict[str, dict[str, AgentSpec]] = {}
    for _, spec in agents_in(scene):
        for player in players(spec, scene):
            calls.setdefault(player.program, {}).setdefault(model_of(player.spec, scene), player.spec)
    found: dict[str, Candidate] = {}
    for name, cli in AGENTS.items():
        if program := cli.profile.executable:
            own = calls.pop(program, None)
            specs = tuple(own.values()) if own else (_plain(program, scene),)
            found[name] = Candidate(name, program, cli, specs, used=own is not None)
    for program, own in calls.items():
        if not (cli := scene.select(program)).profile.built_in:
            found[program] = Candidate(program, program, cli, tuple(own.values()))
    return found


def _plain(program: str, scene: RunScene) -> AgentSpec:
    """An agent that nobody has asked for, as the settings would have it played."""
    said = {"role": "polecat", "agent": CLAUDE, "executable": program}
    return with_defaults(AgentSpec.model_validate(said), scene)


def _asked(names: Sequence[str], scene: RunScene) -> dict[str, Candidate]:
    known = candidates(scene)
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"no agent program is called {', '.join(unknown)}"
        action = f"Known: {', '.join(known)}; any other program is played by `command`"
        raise RalphError(Code.USAGE, message, suggested_action=action)
    return {name: one for name, one in known.items() if not names or name in names}


# --- do they answer -----------------------------------------------------------------------------------


def _smoke(one: Candidate, scene: RunScene) -> list[SmokeTest]:
    """Ask it as agents would call it: with each of their models, in the sandbox of the settings."""
    return [_asked_once(one, spec, scene) for spec in one.calls]


def _asked_once(one: Candidate, spec: AgentSpec, scene: RunScene) -> SmokeTest:
    config, cli = scene.config, one.cli
    sandbox = confinement.sandbox_of(config, scene.root)
    with tempfile.TemporaryDirectory(prefix="beads-ralph-smoke-") as folder:
        place = Path(folder)
        home = confinement.home_of(config, scene.root)
        model, closed_in = model_of(spec, scene), sandbox is not None
        task = probe.question(spec, model, place, config.agent_env, home, closed_in=closed_in)
        made = cli.command(task, Transcript(place / ".out", place / ".err"))
        made = replace(made, argv=(programs.path_of(made.argv[0], scene.root), *made.argv[1:]))
        job = confinement.confined(made, task, cli.profile, None, config)
        follower = following.follow(cli, job)
        ended = run_until_ended(executors.choose("local", sandbox).run(job, follower))
        ok, message = probe.answered(following.heard(cli, job, ended, follower), ended)
    room = "bwrap" if sandbox else "none"
    return SmokeTest(one.name, ok, message, ended.seconds, one.model(scene, spec), room)


# --- in words -----------------------------------------------------------------------------------------

MARKS = {
    "yes": "[green]signed in[/green]",
    "no": "[red]not signed in[/red]",
    "unknown": "[dim]sign-in unknown[/dim]",
}


def _show(console: Console, present: Sequence[Present], answers: Sequence[SmokeTest]) -> None:
    for found in sorted(present, key=lambda one: not one.used):
        console.print(_line(found))
        if found.untested:
            console.print(f"    [yellow]![/yellow] {escape(found.untested)}")
        if found.action:
            console.print(f"    [dim]→ {escape(found.action)}[/dim]")
        for answer in answers:
            if answer.name == found.name:
                mark = "[green]✓[/green]" if answer.ok else "[red]✗[/red]"
                asked = f"{answer.model}: " if answer.model else ""
                room = f", in {answer.sandbox}" if answer.sandbox != "none" else ""
                console.print(f"    {mark} {escape(asked + answer.message)} ({answer.seconds:.1f} s{room})")
    if not answers:
        console.print("[dim]Try one: beads-ralph agents --smoke NAME (costs a few tokens)[/dim]")


def _line(found: Present) -> str:
    use = f"used here{' with ' + ', '.join(found.models) if found.models else ''}" if found.used else ""
    if found.path is None:
        said = f"✗ {found.name:<9} {found.title}: not on PATH"
        return f"[red]{escape(said)}, {escape(use)}[/red]" if use else f"[dim]{escape(said)}[/dim]"
    version = f" {found.version or 'reports no version'}" if found.tested else ""
    facts = [f"{escape(found.title)}{version}", MARKS[found.signed_in]]
    facts += [f"provider {escape(found.provider)}"] if found.provider else []
    facts += [escape(use)] if use else []
    return f"[green]✓[/green] {escape(f'{found.name:<9}')} {', '.join(facts)}"
