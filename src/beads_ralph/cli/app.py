"""All the commands, and the one way in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from beads_ralph import __version__
from beads_ralph.cli import (
    agents,
    analyzing,
    asking,
    beads,
    configuring,
    control,
    convoy,
    demo,
    formula,
    formula_find,
    gate,
    mason,
    plan,
    pouring,
    ralph,
    run,
    schema,
    setup,
    state,
    watching,
    wisps,
)
from beads_ralph.cli.answer import INTERRUPTED, OK, Answer, Style, guarded, out
from beads_ralph.cli.style import settle_style
from beads_ralph.errors import Code, RalphError

app = typer.Typer(
    name="beads-ralph",
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Compile a markdown plan of phases and sprints into beads, and work through them.",
)
app.command("init")(setup.init)
app.command("doctor")(setup.doctor)
app.command("agents")(agents.agents)
app.add_typer(configuring.app, name="config")
app.command("demo")(demo.demo)
app.add_typer(plan.app, name="plan")
formula.app.command("find")(formula_find.find)
formula.app.command("make")(formula_find.make)
app.add_typer(formula.app, name="formula")
app.command("mason")(mason.mason)
app.command("pour")(pouring.pour)
app.add_typer(wisps.app, name="wisp")
app.command("run")(run.run)
app.command("status")(watching.status)
app.command("logs")(watching.logs)
app.command("events")(watching.show_events)
app.command("analyze")(analyzing.analyze)
app.command("forecast")(analyzing.forecast)
app.command("sessions")(asking.sessions)
app.command("ask")(asking.ask)
app.command("pause")(control.pause)
app.command("resume")(control.resume)
app.command("stop")(control.stop)
app.command("retry")(control.retry)
app.command("release")(control.release)
app.command("clean")(control.clean)
app.command("close")(control.close)
app.add_typer(convoy.app, name="convoy")
app.command("exec")(ralph.exec_beads)
app.command("import")(ralph.import_beads)
app.command("export")(ralph.export_beads)
app.add_typer(gate.app, name="gate")
app.command("list")(beads.list_beads)
app.command("ready")(beads.ready)
app.command("show")(beads.show)
app.command("validate")(schema.validate)
app.command("migrate")(schema.migrate)
app.command("schema")(schema.print_schema)
app.add_typer(state.app, name="state")

mason_app = typer.Typer(name="beads-mason", add_completion=False, pretty_exceptions_enable=False)
mason_app.command()(mason.mason)


def _print_version(asked: bool) -> None:
    if asked:
        out(f"beads-ralph {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str]) -> int:
    """Run `beads-ralph` with these arguments; the exit code."""
    return _run(app, arguments, settle_style(arguments))


def run_mason(arguments: Sequence[str]) -> int:
    return _run(mason_app, arguments, settle_style(arguments, default="fenced"))


def _run(commands: typer.Typer, arguments: Sequence[str], style: Style) -> int:
    return guarded(lambda: _answer(commands, arguments), style)


USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""The parser's UsageError; typer exports only this subclass of it."""


def _answer(commands: typer.Typer, arguments: Sequence[str]) -> Answer:
    command = typer.main.get_command(commands)
    try:
        result = command.main(
            list(arguments) or ["--help"], prog_name=commands.info.name, standalone_mode=False
        )
    except USAGE_ERROR as usage:
        raise _usage(usage, str(commands.info.name)) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    if result == INTERRUPTED:  # what newer typer makes of Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, Answer) else Answer(exit_code=result or OK, printed=True)


def _usage(problem: Any, program: str) -> RalphError:
    where = problem.ctx.command_path if problem.ctx else program
    return RalphError(Code.USAGE, problem.format_message(), suggested_action=f"See: {where} --help")
