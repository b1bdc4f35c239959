"""agents: which agent programs are here, and whether they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.agents import probe
from beads_ralph.agents.probe import Present, SmokeTest
from beads_ralph.agents.protocol import AGENTS, AgentCLI
from beads_ralph.bead.model import AgentSpec
from beads_ralph.bead.personas import DEFAULT_MODEL
from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer
from beads_ralph.cli.text import escape
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError

if TYPE_CHECKING:
    from rich.console import Console


def agents(
    names: Annotated[list[str] | None, typer.Argument(help="Only these.")] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Ask each that is here one small question; costs a few tokens.")
    ] = False,
    json_: options.Json = False,
) -> Answer:
    """List the agent programs: which are here, in which version, signed in or not."""
    asked = _asked(names or [])
    present = probe.call(asked.values())
    answers = [_smoke(asked[found.name]) for found in present if found.path] if smoke else []
    absent = bool(names) and any(found.path is None for found in present)
    failed = absent or any(not answer.ok for answer in answers)
    data = {
        "agents": [found.to_json() for found in present],
        "smoke_tests": [answer.to_json() for answer in answers],
    }
    return Answer(data, lambda console: _show(console, present, answers), exit_code=FAILED if failed else OK)


def _asked(names: Sequence[str]) -> dict[str, AgentCLI]:
    known = {name: cli for name, cli in AGENTS.items() if cli.profile.executable}
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"no agent program is called {', '.join(unknown)}"
        action = f"Known are {', '.join(known)}; any other program is played by `command`"
        raise RalphError(Code.USAGE, message, suggested_action=action)
    return {name: cli for name, cli in known.items() if not names or name in names}


def _smoke(cli: AgentCLI) -> SmokeTest:
    from beads_ralph.agents.players import default_options
    from beads_ralph.session.confinement import home_of

    space = workspace.find()
    defaults = space.config.agent_defaults
    given: dict[str, object] = {"role": "polecat", "agent": "claude", "executable": cli.profile.executable}
    if (options := default_options(defaults, cli.profile.executable, cli.name)) is not None:
        given["options"] = list(options)
    return probe.smoke(
        cli,
        AgentSpec.model_validate(given),
        defaults.default_model or DEFAULT_MODEL,
        space.config.agent_env,
        home_of(space.config, space.root),
    )


MARKS = {
    "yes": "[green]signed in[/green]",
    "no": "[red]not signed in[/red]",
    "unknown": "[dim]sign-in unknown[/dim]",
}


def _show(console: Console, present: Sequence[Present], answers: Sequence[SmokeTest]) -> None:
    said = {answer.name: answer for answer in answers}
    for found in present:
        console.print(_line(found))
        if found.untested:
            console.print(f"    [yellow]![/yellow] {escape(found.untested)}")
        if found.action:
            console.print(f"    [dim]→ {escape(found.action)}[/dim]")
        if found.name in said:
            answer = said[found.name]
            mark = "[green]✓[/green]" if answer.ok else "[red]✗[/red]"
            console.print(f"    {mark} {escape(answer.message)} ({answer.seconds:.1f} s)")
    if not answers:
        console.print("[dim]Try one: beads-ralph agents --smoke NAME (costs a few tokens)[/dim]")


def _line(found: Present) -> str:
    if found.path is None:
        return f"[dim]✗ {found.name:<9} {found.title}: not on PATH[/dim]"
    version = found.version or "says no version"
    return f"[green]✓[/green] {found.name:<9} {found.title} {version}, {MARKS[found.signed_in]}"
