"""pour: a formula into the store, once or once a row."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.gauge import meter
from beads_ralph.config import workspace
from beads_ralph.config.store_settings import StoreChoice
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.store import registry
from beads_ralph.store.registry import OpenStore

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.compile.molecule import Molecule
    from beads_ralph.compile.pour import Account
    from beads_ralph.compile.recipe import FilledRow, Recipe
    from beads_ralph.compile.rows import ValueRow
    from beads_ralph.formula.model import Formula

FormulaName = Annotated[str, typer.Argument(metavar="NAME", help="The formula.", show_default=False)]
Vars = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="A variable; repeatable.", show_default=False),
]
VarsFile = Annotated[
    Path | None,
    typer.Option(
        "--vars-file",
        help="One pour a row: a CSV file, a JSON array of objects, or - for stdin.",
        show_default=False,
        readable=False,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option("--rows", help="Only these rows of the file: 41-, 2-40, 7,9.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be poured; write nothing.")]
Assignee = Annotated[
    str | None, typer.Option("--assignee", help="Who the molecule belongs to.", show_default=False)
]
Attach = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        metavar="NAME",
        help="Another formula, poured into the same molecule after it; repeatable.",
        show_default=False,
    ),
]


def pour(  # noqa: PLR0913 - one parameter an option
    name: FormulaName,
    *,
    var: Vars = None,
    vars_file: VarsFile = None,
    rows: Rows = None,
    dry_run: DryRun = False,
    assignee: Assignee = None,
    attach: Attach = None,
    store: options.Store = None,
    no_agent_check: options.NoAgentCheck = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Pour a formula: its steps become beads, all of them or none."""
    request = Request(
        name=name,
        var=tuple(var or ()),
        vars_file=vars_file,
        rows=rows,
        dry_run=dry_run,
        assignee=assignee,
        attach=tuple(attach or ()),
        store=store,
        agent_check=not no_agent_check,
        config=config,
    )
    return answer(request)


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    name: str
    var: tuple[str, ...] = ()
    vars_file: Path | None = None
    rows: str | None = None
    dry_run: bool = False
    assignee: str | None = None
    attach: tuple[str, ...] = ()
    store: StoreChoice | None = None
    agent_check: bool = True
    config: Path | None = None
    wisp: bool = False

    def again(self, rows: str | None) -> str:
        """The command that pours these rows."""
        words = ["beads-ralph", *(["wisp", "pour"] if self.wisp else ["pour"]), self.name]
        words += [word for given in self.var for word in ("--var", given)]
        words += ["--vars-file", str(self.vars_file)] if self.vars_file else []
        words += ["--rows", rows] if rows else []
        words += ["--assignee", self.assignee] if self.assignee else []
        words += [word for other in self.attach for word in ("--attach", other)]
        words += ["--store", self.store] if self.store else []
        words += ["--config", str(self.config)] if self.config else []
        words += [] if self.agent_check else ["--no-agent-check"]
        return shlex.join(words)


def answer(request: Request) -> Answer:
    """Load, check the variables, render, check the beads, check the store, write: in that order."""
    from beads_ralph.compile.recipe import orders

    space = workspace.find(config_file=request.config)
    recipe = _recipe(request, space)
    ordered = orders(recipe, _rows(request), _common(request.var))
    opened = registry.open_store(space, request.store)
    why = _why_rendered(recipe, opened)
    pouring = Pouring(request, recipe, opened, ordered, why)
    return pouring.dry_run() if request.dry_run else pouring.pour()


# --- before -----------------------------------------------------------------------------------------


def _recipe(request: Request, space: Workspace) -> Recipe:
    from beads_ralph.compile.recipe import Recipe
    from beads_ralph.compile.setting import Setting
    from beads_ralph.formula.folders import Folders

    folders = Folders.of(space.root, space.checkout)
    formula = folders.load(request.name)
    attached = tuple(folders.load(name) for name in request.attach)
    file = _file(formula, space)
    setting = Setting(
        root=space.root,
        plan_file=file,
        now=datetime.now(UTC),
        config=space.config,
        branches=space.branches(),
        agent_check=request.agent_check,
        warnings=space.warnings,
    )
    return Recipe(formula, setting, file, attached, wisp=request.wisp, assignee=request.assignee)


def _file(formula: Formula, space: Workspace) -> str:
    """As the beads name it: a file of the repository, or just the name of one from elsewhere."""
    if formula.file is not None and formula.place in ("project", "checkout"):
        return space.relative(formula.file)
    return f"formula:{formula.name}"


def _rows(request: Request) -> list[ValueRow]:
    from beads_ralph.compile.rows import ValueRow, choose, read
    from beads_ralph.files import text_files

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
    from beads_ralph.formula.bd_compatible import why_not_plain
    from beads_ralph.store.protocol import Pours

    if not isinstance(opened.store, Pours):
        return f"the {opened.store.kind} store knows no formulas itself"
    if recipe.attached:
        return "bd attaches only what it has in its database"
    return why_not_plain(recipe.formula) or ""


# --- pouring ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pouring:
    """One request, ready to be poured."""

    request: Request
    recipe: Recipe
    opened: OpenStore
    ordered: Sequence[FilledRow]
    why: str

    def dry_run(self) -> Answer:
        from beads_ralph.compile.pour import Account

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
        from beads_ralph.compile.pour import prepare

        try:
            return list(prepare(self.opened.store, self.recipe, self.ordered).made)
        except RalphError as error:
            if self.why or error.code is not Code.FORMULA_UNSUPPORTED:
                raise
            return []

    def pour(self) -> Answer:
        from beads_ralph.compile import pour as smelting
        from beads_ralph.store.protocol import Pours

        store = self.opened.store
        if not self.why and isinstance(store, Pours):
            with meter(len(self.ordered)) as tell:
                account = smelting.pour_plain(store, self.recipe, self.ordered, tell)
        else:
            prepared = smelting.prepare(store, self.recipe, self.ordered)
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
        step = self.request.again(self._left(account))
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
        from beads_ralph.compile.rows import spelled

        left = [order.row.number for order in self.ordered[account.poured :]]
        numbers = [number for number in left if number is not None]
        if not numbers:
            return None
        return f"{numbers[0]}-" if self.request.rows is None else spelled(numbers)

    @property
    def warnings(self) -> tuple[Fault, ...]:
        own = [_vapor(self.recipe)] if _is_vapor(self.recipe) else []
        own += [_foreign_ids(self.recipe)] if self.request.dry_run and not self.why else []
        return tuple(dict.fromkeys((*self.opened.warnings, *own)))

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


def _is_vapor(recipe: Recipe) -> bool:
    return recipe.formula.phase == "vapor" and not recipe.wisp


def _vapor(recipe: Recipe) -> Fault:
    name = recipe.formula.name
    message = f"{name} is meant for wisps (phase: vapor), but its beads are here to stay"
    return Fault(
        Code.CONSTRAINT, message, recipe.file, None, "phase", f"Pour it with: beads-ralph wisp {name}"
    )


def _foreign_ids(recipe: Recipe) -> Fault:
    message = f"bd itself pours {recipe.formula.name}, and gives other ids than those shown here"
    return Fault(Code.CONSTRAINT, message, recipe.file)


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
    from rich.markup import escape

    for molecule in made:
        console.print(f"[bold]{molecule.root.id}[/bold]  {escape(molecule.root.title)}")
        for member in molecule.members:
            waits = f"  ← {', '.join(member.dependencies)}" if member.dependencies else ""
            kind = f"  [dim]{member.issue_type}{waits}[/dim]"
            console.print(f"  {member.id}  {escape(member.title)}{kind}")
    count = plural(sum(len(molecule.members) for molecule in made), "bead") if made else "what only bd knows"
    console.print(f"{plural(len(pouring.ordered), 'molecule')} with {count} would be poured; nothing was")
