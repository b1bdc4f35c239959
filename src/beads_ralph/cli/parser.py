"""The parser of the command line: built by typer from the table of commands, one command at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import Signature, signature
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from beads_ralph import __version__
from beads_ralph.cli import bead_names
from beads_ralph.cli.answer import INTERRUPTED, OK, Answer, out
from beads_ralph.cli.commands import (
    COMMANDS,
    PANEL_OF,
    PROGRAM,
    Command,
    Group,
    Option,
    Parameter,
    refuse_agents,
)
from beads_ralph.cli.examples import EXAMPLES
from beads_ralph.errors import Code, RalphError

MASON = "beads-mason"


HELP = {"help_option_names": ["-h", "--help"]}


def _without_types(option: Any) -> Any:
    """A flag takes no value, so its help names no type."""
    if getattr(option, "is_flag", False):
        option.metavar = ""
    return option


class FlagCommand(TyperCommand):
    """A command whose flags are shown as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_without_types(one) for one in super().get_params(ctx)]


class LazyGroup(TyperGroup):
    """Lists its commands by the table, and imports one when it is called or asked for its help."""

    table: Mapping[str, Command | Group]
    default = ""

    def fill(self, table: Mapping[str, Command | Group], default: str = "") -> None:
        self.table, self.default = table, default
        self.commands = {
            name: TyperCommand(name, help=row.help, rich_help_panel=PANEL_OF.get(name))
            for name, row in table.items()
        }

    def get_params(self, ctx: Any) -> list[Any]:
        return [_without_types(one) for one in super().get_params(ctx)]

    def load(self, name: str) -> Any:
        """The whole command, with its options."""
        row = self.table[name]
        return group_of(name, row) if isinstance(row, Group) else command_of(name, row)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.default and args and args[0] not in {*self.commands, "-h", "--help"}:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.load(name), rest


def command_of(name: str, row: Command) -> Any:
    module, _, function = row.target.partition(":")
    found: Callable[..., Answer] = getattr(import_module(f"beads_ralph.cli.{module}"), function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    examples = "\n\n".join(f"{PROGRAM} {words}" for words in EXAMPLES.get(row.target, ()))
    epilog = f"Examples:\n\n{examples}" if examples else None
    made = _for_typer(found, name if row.changes else "")
    alone.command(name, cls=FlagCommand, context_settings=HELP, epilog=epilog)(made)
    return typer.main.get_command(alone)


def _for_typer(command: Callable[..., Answer], changing: str) -> Callable[..., Answer]:
    """The command with its options in typer's own terms; `changing` names one that agents may not call."""

    @wraps(command)
    def called(**said: Any) -> Answer:
        if changing:
            refuse_agents(changing)
        return bead_names.call(command, said)

    parameters = signature(command, eval_str=True).parameters.values()
    made = [one.replace(annotation=_typer_hint(one.annotation)) for one in parameters]
    called.__annotations__ = {one.name: one.annotation for one in made}
    vars(called)["__signature__"] = Signature(made)
    return called


def _typer_hint(hint: Any) -> Any:
    kind, *said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    made = [_typer_info(one) if isinstance(one, Parameter) else one for one in said]
    return Annotated[kind, *made] if made else kind


def _typer_info(said: Parameter) -> Any:
    make = typer.Option if isinstance(said, Option) else typer.Argument
    return make(*said.names, **said.settings)


def group_of(name: str, group: Group, callback: Callable[..., None] | None = None) -> LazyGroup:
    commands = typer.Typer(
        name=name,
        cls=LazyGroup,
        help=group.help,
        no_args_is_help=group.bare_is_help,
        callback=callback,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )
    made = typer.main.get_group(commands)
    assert isinstance(made, LazyGroup)  # noqa: S101 - tells the type checker what cls= says
    made.fill(group.commands, group.default)
    return made


def _print_version(asked: bool) -> None:
    if asked:
        out(f"{PROGRAM} {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def whole() -> LazyGroup:
    """`beads-ralph` with everything below it."""
    about = "Compile a markdown plan of phases and sprints into beads, and work through them."
    made = group_of(PROGRAM, Group(about, COMMANDS), _root)
    made.params += typer.main.get_install_completion_arguments()
    return made


def mason() -> Any:
    """`beads-mason`, which is `beads-ralph mason` by itself."""
    row = COMMANDS["mason"]
    assert isinstance(row, Command)  # noqa: S101 - as above
    return command_of(MASON, row)


# --- answering --------------------------------------------------------------------------------------

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""The parser's UsageError; typer exports only this subclass of it."""


def answer(command: Any, program: str, arguments: Sequence[str]) -> Answer:
    """Parse the arguments and call what they name."""
    try:
        result = command.main(list(arguments) or ["--help"], prog_name=program, standalone_mode=False)
    except USAGE_ERROR as usage:
        raise _usage(usage, program) from None
    except SystemExit as ended:  # a completion has been shown or installed
        return Answer(exit_code=int(ended.code or OK), printed=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if result == INTERRUPTED:  # what newer typer makes of Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, Answer) else Answer(exit_code=result or OK, printed=True)


def _usage(problem: Any, program: str) -> RalphError:
    where = problem.ctx.command_path if problem.ctx else program
    return RalphError(Code.USAGE, problem.format_message(), suggested_action=f"See: {where} --help")
