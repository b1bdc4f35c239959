"""pour: a formula into the store, once or once a row."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead.personas import parse_agent
from beads_ralph.bead.words import plural
from beads_ralph.cli import options, page
from beads_ralph.cli.answer import Answer, Display
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import escape
from beads_ralph.compile import pour as smelting
from beads_ralph.compile.molecule import Molecule, handed_over
from beads_ralph.compile.pour import Account, Tell, prepare
from beads_ralph.compile.rows import FilledRow, Recipe, ValueRow, choose, orders, read, spelled
from beads_ralph.compile.setting import Setting
from beads_ralph.config import workspace
from beads_ralph.config.model import FormulaSettings
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.formula.bd_compatible import unheeded, why_not_plain
from beads_ralph.formula.expansion import expanded
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.store import registry
from beads_ralph.store.protocol import Pours
from beads_ralph.store.registry import OpenStore

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


@dataclass(frozen=True, kw_only=True)
class PourRequest:
    """What was asked for: one field an option."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="The formula.")]
    var: Annotated[
        list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="A variable; repeatable.")
    ] = None
    vars_file: Annotated[
        Path | None,
        typer.Option(
            "--vars-file",
            help="One pour a row: a CSV file, a JSON array of objects, or - for stdin.",
            readable=False,
        ),
    ] = None
    rows: Annotated[
        str | None, typer.Option("--rows", help="Only these rows of the file: 41-, 2-40, 7,9.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be poured; write nothing.")] = (
        False
    )
    assignee: Annotated[str | None, typer.Option("--assignee", help="Who the molecule belongs to.")] = None
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "--attach",
            metavar="NAME",
            help="Another formula, poured into the same molecule after it; repeatable.",
        ),
    ] = None
    for_agents: Annotated[
        bool, typer.Option("--for-agents", help="Agents do the plain steps, which are for people otherwise.")
    ] = False
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="Which agent does them, such as: dev (opus)."),
    ] = None
    store: options.Store = None
    no_agent_check: options.NoAgentCheck = False
    config: options.ConfigFile = None
    json_: options.Json = False

    def again(self, rows: str | None, *, wisp: bool) -> str:
        """The command that pours these rows."""
        words = ["beads-ralph", *(["wisp", "pour"] if wisp else ["pour"]), self.name]
        words += [word for given in self.var or () for word in ("--var", given)]
        words += ["--vars-file", str(self.vars_file)] if self.vars_file else []
        words += ["--rows", rows] if rows else []
        words += ["--assignee", self.assignee] if self.assignee else []
        words += [word for other in self.attach or () for word in ("--attach", other)]
        words += ["--for-agents"] if self.for_agents else []
        words += ["--agent", self.agent] if self.agent else []
        words += ["--store", self.store] if self.store else []
        words += ["--config", str(self.config)] if self.config else []
        words += ["--no-agent-check"] if self.no_agent_check else []
        return shlex.join(words)


@options.taken_from(PourRequest)
def pour(request: PourRequest) -> Answer:
    """Pour a formula: its steps become beads, all of them or none."""
    return _answer(request, wisp=False)


@options.taken_from(PourRequest)
def pour_wisps(request: PourRequest) -> Answer:
    """Pour a formula as wisps; `wisp NAME` is short for it."""
    return _answer(request, wisp=True)


def _answer(request: PourRequest, *, wisp: bool) -> Answer:
    """Load, check the variables, render, check the beads, check the store, write: in that order."""
    space = workspace.find(config_file=request.config)
    recipe = _recipe(request, space, wisp=wisp)
    ordered = orders(recipe, _rows(request), _common(request.var or ()))
    opened = registry.open_store(space, request.store)
    pouring = Pouring(request, recipe, opened, ordered, _why_rendered(recipe, opened))
    return pouring.dry_run() if request.dry_run else pouring.pour()


# --- before -----------------------------------------------------------------------------------------


def _recipe(request: PourRequest, space: Workspace, *, wisp: bool) -> Recipe:
    folders = Folders.of(space.root, space.checkout)
    formula = expanded(folders.load(request.name), folders.load)
    attached = tuple(expanded(folders.load(name), folders.load) for name in request.attach or ())
    file = _file(formula, space)
    setting = Setting(
        root=space.root,
        plan_file=file,
        now=datetime.now(UTC),
        config=space.config,
        branches=space.branches(),
        agent_check=not request.no_agent_check,
        warnings=space.warnings,
    )
    handed = _handed(request, handed_over(space.config, formula.name))
    return Recipe(formula, setting, file, attached, wisp=wisp, assignee=request.assignee, handed=handed)


def _handed(request: PourRequest, said: FormulaSettings) -> FormulaSettings | None:
    """Who does plain steps, where the options say so; an agent that is named is there to work."""
    if not request.for_agents and request.agent is None:
        return None
    try:
        agent = parse_agent(request.agent) if request.agent is not None else said.agent
    except ValueError as problem:
        raise _slip(
            f"--agent {request.agent!r}: {problem}", "Write for example: --agent 'dev (opus)'"
        ) from None
    return FormulaSettings(for_agents=True, agent=agent)


def _file(formula: Formula, space: Workspace) -> str:
    """As the beads name it: a file of the repository, or just the name of one from elsewhere."""
    if formula.file is not None and formula.place in ("project", "checkout"):
        return space.relative(formula.file)
    return f"formula:{formula.name}"


def _rows(request: PourRequest) -> list[ValueRow]:
    if request.vars_file is None:
        if request.rows is not None:
            raise _slip("--rows chooses rows of a file", "Give the file with --vars-file")
        return [ValueRow(None, {})]
    if str(request.vars_file) == "-":
        return choose(read(text_files.read_stdin(), "<stdin>"), request.rows)
    return choose(read(text_files.read_text(request.vars_file), str(request.vars_file)), request.rows)


def _common(words: Sequence[str]) -> dict[str, str]:
    """`name=value`; the value may hold further equals signs."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise _slip(f"--var {word!r} is not NAME=VALUE", "Write for example: --var title='Search box'")
        if name.strip() in found:
            raise _slip(f"--var {name.strip()} is given twice", "Keep one of them")
        found[name.strip()] = value
    return found


def _slip(message: str, action: str) -> RalphError:
    return RalphError(Code.USAGE, message, suggested_action=action)


def _why_rendered(recipe: Recipe, opened: OpenStore) -> str:
    """Why beads-ralph makes the beads itself; empty where the store pours the formula."""
    if not isinstance(opened.store, Pours):
        return f"the {opened.store.kind} store knows no formulas itself"
    if recipe.is_for_agents:
        return "its steps are for agents, whose metadata bd cannot complete"
    if recipe.attached:
        return "bd attaches only what it has in its database"
    return why_not_plain(recipe.formula) or ""


# --- pouring ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pouring:
    """One request, ready to be poured."""

    request: PourRequest
    recipe: Recipe
    opened: OpenStore
    ordered: Sequence[FilledRow]
    why: str

    def dry_run(self) -> Answer:
        made = self._foreseen()
        things = [thing for molecule in made for thing in molecule.batch]
        data = self._data([], [], "dry_run") | {
            "dry_run": True,
            "molecules": [molecule.root.id for molecule in made],
            "bead_ids": [member.id for molecule in made for member in molecule.members],
            "beads": [thing.to_json() for thing in things],
            "account": Account(len(self.ordered)).to_json(),
        }
        return Answer(data, lambda console: _show_dry_run(console, made, self), self.warnings)

    def _foreseen(self) -> list[Molecule]:
        """What a pour would make; nothing where only bd knows."""
        try:
            return list(prepare(self.opened.store, self.recipe, self.ordered).made)
        except RalphError as error:
            if self.why or error.code is not Code.FORMULA_UNSUPPORTED:
                raise
            return []

    def pour(self) -> Answer:
        store = self.opened.store
        if not self.why and isinstance(store, Pours):
            with meter(len(self.ordered)) as tell:
                account = smelting.pour_plain(store, self.recipe, self.ordered, tell)
        else:
            prepared = prepare(store, self.recipe, self.ordered)
            with meter(len(self.ordered)) as tell:
                account = smelting.pour(store, prepared, tell)
        self._require_all(account)
        data = self._data(account.roots, account.members, "poured") | {"account": account.to_json()}
        return Answer(data, lambda console: _show_poured(console, account, self), self.warnings)

    def _require_all(self, account: Account) -> None:
        if account.poured == account.rows:
            return
        facts = {
            "account": account.to_json(),
            "molecules_created": account.roots,
            "bead_ids": account.members,
        }
        step = self.request.again(self._left(account), wisp=self.recipe.wisp)
        done = f"{account.poured} of {plural(account.rows, 'row')} poured"
        if account.failed is None:
            message, action = f"interrupted: {done}", f"Go on with: {step}"
            raise RalphError(Code.INTERRUPTED, message, data=facts, suggested_action=action)
        error, row = account.failed, account.failed_row
        where = f"row {row}: " if row is not None else ""
        kept = f" ({done})" if account.rows > 1 else ""
        raise RalphError(
            Code.POUR_FAILED,
            f"{self.recipe.formula.name} was not poured: {where}{error.message}{kept}",
            details=error.text,
            faults=error.faults,
            data=facts,
            suggested_action=f"{error.suggested_action}; then go on with: {step}",
        )

    def _left(self, account: Account) -> str | None:
        left = [order.row.number for order in self.ordered[account.poured :]]
        numbers = [number for number in left if number is not None]
        if not numbers:
            return None
        return f"{numbers[0]}-" if self.request.rows is None else spelled(numbers)

    @property
    def warnings(self) -> tuple[Fault, ...]:
        name, file = self.recipe.formula.name, self.recipe.file
        own: list[Fault] = []
        if self.recipe.formula.phase == "vapor" and not self.recipe.wisp:
            message = f"{name} is meant for wisps (phase: vapor), but its beads are here to stay"
            action = f"Pour it with: beads-ralph wisp {name}"
            own.append(Fault(Code.CONSTRAINT, message, file, None, "phase", action))
        if self.request.dry_run and not self.why:
            message = f"bd itself pours {name}, and gives other ids than those shown here"
            own.append(Fault(Code.CONSTRAINT, message, file))
        return tuple(dict.fromkeys((*self.opened.warnings, *own, *unheeded(self.recipe.formula))))

    def _data(self, roots: Sequence[str], members: Sequence[str], status: str) -> dict[str, Any]:
        return {
            "mode": "formula",
            "formulas_created": 0,
            "formulas_poured": len(roots) * len(self.recipe.formulas),
            "molecules_created": list(roots),
            "beads_created": len(members),
            "bead_ids": list(members),
            "database_status": status,
            "formula": self.recipe.formula.name,
            "wisp": self.recipe.wisp,
            "store": self.opened.store.kind,
            "poured_by": "beads-ralph" if self.why else "bd",
            "why": self.why or None,
            "warnings": [warning.to_json() for warning in self.warnings],
        }


# --- for people -------------------------------------------------------------------------------------

SHOWN = 20


def _show_poured(console: Console, account: Account, pouring: Pouring) -> None:
    console.print(f"[dim]{pouring.opened.why}[/dim]")
    for identity in account.members[:SHOWN]:
        console.print(f"[green]+[/green] {identity}")
    if len(account.members) > SHOWN:
        console.print(f"[dim]… and {len(account.members) - SHOWN} more[/dim]")
    what = plural(len(account.members), "wisp" if pouring.recipe.wisp else "bead")
    made = f"{plural(account.poured, 'molecule')} poured: {account.roots[0]}"
    if account.poured > 1:
        made += f" … {account.roots[-1]}"
    console.print(f"✓ {made} ({what})")


def _show_dry_run(console: Console, made: Sequence[Molecule], pouring: Pouring) -> None:
    for molecule in made:
        console.print(f"[bold]{molecule.root.id}[/bold]  {escape(molecule.root.title)}")
        for member in molecule.members:
            waits = f"  ← {', '.join(member.dependencies)}" if member.dependencies else ""
            kind = f"  [dim]{member.issue_type}{waits}[/dim]"
            console.print(f"  {member.id}  {escape(member.title)}{kind}")
    count = plural(sum(len(molecule.members) for molecule in made), "bead") if made else "what only bd knows"
    console.print(f"{plural(len(pouring.ordered), 'molecule')} with {count} would be poured; nothing was")


# --- how far it is -------------------------------------------------------------------------------

LINES = 20
"""So many lines tell of a pour, and one more; a file of a thousand rows need not fill a log."""


@contextmanager
def meter(rows: int) -> Iterator[Tell]:
    """A bar for a person at a terminal, lines for a file, nothing for a script or a single row."""
    if rows == 1 or current_style() != "text":
        yield lambda _done, _all: None
        return
    gauge = Gauge(rows)
    try:
        yield gauge.tell
    finally:
        gauge.stop()


class Gauge(Display):
    """Shows on stderr how far a pour is; where nobody looks any more, the pour goes on unseen."""

    def __init__(self, rows: int) -> None:
        self.bar = _bar(rows) if sys.stderr.isatty() else None
        self.silent = False
        self.told = 0

    def tell(self, done: int, rows: int) -> None:
        enough = self.bar is not None or done == rows or (done - self.told) * LINES >= rows
        if enough and not self.silent:
            self.told = done
            with self._unseen():
                self._show(done, rows)

    def _show(self, done: int, rows: int) -> None:
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done)
        else:
            sys.stderr.write(f"poured {done} of {rows} rows\n")
            sys.stderr.flush()

    def stop(self) -> None:
        if self.bar is not None:
            with self._unseen():
                self.bar.stop()


def _bar(rows: int) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("pouring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=page.screen(stderr=True), transient=True)
    bar.add_task("rows", total=rows)
    bar.start()
    return bar
