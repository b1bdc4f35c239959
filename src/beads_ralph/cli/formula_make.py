"""formula make: repeated sprints of a plan into a formula; nothing is poured."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from beads_ralph.bead.names import SprintId
from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.plan import compiled
from beads_ralph.cli.text import escape
from beads_ralph.compile import rows as value_rows
from beads_ralph.compile.build import Built
from beads_ralph.compile.rows import Loss
from beads_ralph.compile.setting import Setting
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.formula import patterns
from beads_ralph.formula.check import check
from beads_ralph.formula.definitions import BeadJson, Instance, essence, find_parting, written
from beads_ralph.formula.file_format import dumps, null_in, read_text, sheet
from beads_ralph.formula.patterns import InferenceContext, Made

if TYPE_CHECKING:
    from rich.console import Console

NAME: Final = re.compile(r"[^\W_][\w.-]{0,99}")
FORMATS: Final = ("toml", "json")
SHOWN_LOSSES: Final = 5
SHOWN_LENGTH: Final = 40
ROW_FILES: Final = {".csv": "csv", ".json": "json"}

FromPlan = Annotated[Path, typer.Option("--from", help="The markdown plan.", readable=False)]
Sprints = Annotated[str, typer.Option("--sprints", help="The repeats: 2.1,2.2 or 2.1+2.2,3.1+3.2")]
Format = Annotated[Literal["toml", "json"] | None, typer.Option("--format", help="How to write it.")]
RowsFile = Annotated[
    Path | None,
    typer.Option("--rows", help="Also write the values of these sprints: a .csv or .json.", readable=False),
]


def make(  # noqa: PLR0913 - one parameter an option
    name: Annotated[str, typer.Argument(help="What to call the formula.")],
    *,
    plan: FromPlan,
    sprints: Sprints,
    format_: Format = None,
    rows: RowsFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    no_agent_check: options.NoAgentCheck = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Write a formula that gives these sprints back, with what varies between them as variables."""
    space = workspace.find(config_file=config)
    folder = space.root / ".beads" / "formulas"
    _check_name(name)
    _require_free(folder, name, format_, force=force)  # before the work, and once more where it is settled
    row_form = _rows_format(rows, force=force)
    setting, built = compiled(space, plan, agent_check=not no_agent_check)
    instances = _instances(sprints, built)
    _require_one_shape(instances)
    form = format_ or _best_format(instances)
    _require_free(folder, name, form, force=force)
    made = patterns.make(instances, surroundings(name, form, space, setting))
    path = folder / _file_name(name, form)
    text, values = _proven(made, instances, path, row_form, setting)
    text_files.make_folder(folder)
    if rows is not None:
        text_files.write_text(rows, values)
    text_files.write_text(path, text)
    warnings = [*built.warnings, *_warnings(made, instances)]
    data = _made_json(name, path, made, instances, rows) | {
        "format": form,
        "warnings": [warning.to_json() for warning in warnings],
    }
    return Answer(data, lambda console: _show(console, data), warnings)


# --- the plan ---------------------------------------------------------------------------------------


def plain_beads(built: Built) -> dict[str, BeadJson]:
    """The sprints that no formula gives already, in the order of the plan."""
    return {sprint: bead.to_json() for sprint, bead in built.beads.items()}


def surroundings(name: str, form: str, space: Workspace, setting: Setting) -> InferenceContext:
    return InferenceContext(
        name,
        f".beads/formulas/{_file_name(name, form)}",
        setting.plan_file,
        lambda branch: setting.worktree(branch, setting.config.plan),
        lambda path: _portable(path, space.root),
    )


def _portable(path: str, root: Path) -> str:
    """From the root where it lies inside of it or beside it, since that holds for every clone."""
    beside = root.parent != root and Path(path).is_relative_to(root.parent)
    return os.path.relpath(path, root) if beside else path


def _instances(text: str, built: Built) -> list[Instance]:
    """`2.1+2.2,3.1+3.2` → their beads."""
    groups = [[word.strip() for word in group.split("+")] for group in text.split(",") if group.strip()]
    words = [word for group in groups for word in group]
    if not words or not all(words):
        action = "Name sprints: --sprints 2.1,2.2, or groups of them: --sprints 2.1+2.2,3.1+3.2"
        raise RalphError(Code.USAGE, f"--sprints {text!r} does not name sprints", suggested_action=action)
    twice = [word for word, count in Counter(words).items() if count > 1]
    if twice:
        message = f"--sprints names {', '.join(twice)} more than once"
        raise RalphError(Code.USAGE, message, suggested_action="Name each sprint once")
    beads = plain_beads(built)
    faults = [_unknown(word, built) for word in words if word not in beads]
    if faults:
        raise gathered(faults, built.plan.file)
    return [[beads[word] for word in group] for group in groups]


def _unknown(word: str, built: Built) -> Fault:
    plan, known = built.plan, [sprint.id.text for sprint in built.plan.sprints]
    if SprintId.parse(word) is None:
        return Fault(Code.PLAN_PATTERN, f"--sprints names {word!r}, which is not a sprint id", plan.file)
    struck = next((one for one in plan.struck if one.id.text == word), None)
    if struck is not None:
        return Fault(Code.UNRESOLVED, f"sprint {word} is struck out", plan.file, struck.line)
    if word in known:
        line = next(sprint.line for sprint in plan.sprints if sprint.id.text == word)
        return Fault(Code.CONSTRAINT, f"sprint {word} is poured from a formula already", plan.file, line)
    close = difflib.get_close_matches(word, known, n=1)
    action = f"Did you mean {close[0]}?" if close else None
    return Fault(Code.UNRESOLVED, f"sprint {word} is not in the plan", plan.file, None, None, action)


def _require_one_shape(instances: Sequence[Instance]) -> None:
    found = find_parting(instances)
    if found is None:
        return
    first = written(instances[0])
    message = (
        f"these sprints do not repeat one another: {first} and {found.odd} part at {found.field} "
        f"({first}: {found.one}; {found.odd}: {found.other})"
    )
    raise RalphError(
        Code.FORMULA_INVALID,
        message,
        details="would fit together: " + "; ".join(found.fitting),
        data={"field": found.field, "fitting": list(found.fitting)},
        suggested_action=f"Take those that fit: --sprints {found.fitting[0]}",
    )


# --- files ------------------------------------------------------------------------------------------


def _file_name(name: str, form: str) -> str:
    return f"{name}.formula.{form}"


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None or name.endswith((".formula", ".toml", ".json")):
        message = f"{name!r} cannot name a formula: it becomes the file NAME.formula.toml"
        action = "Use letters, digits, '-', '_' and '.', beginning with a letter or a digit"
        raise RalphError(Code.USAGE, message, suggested_action=action)


def _require_free(folder: Path, name: str, form: str | None, *, force: bool) -> None:
    """What is there stays. A file of the other format stays even with --force: one of the two would
    never be found."""
    for other in FORMATS:
        path = folder / _file_name(name, other)
        if not os.path.lexists(path) or (force and form in (None, other)):
            continue
        again = form in (None, other)
        action = "Use --force to replace it, or another name" if again else f"Remove {path} first"
        raise RalphError(Code.CONSTRAINT, f"{path} exists already", suggested_action=action)


def _rows_format(path: Path | None, *, force: bool) -> Literal["csv", "json"]:
    if path is None:
        return "json"
    form = ROW_FILES.get(path.suffix.lower())
    if form is None:
        message = f"--rows {path} must end in .csv or .json"
        raise RalphError(Code.USAGE, message, suggested_action="Write for example: --rows rows.csv")
    if os.path.lexists(path) and not force:
        action = "Use --force to replace it, or another name"
        raise RalphError(Code.CONSTRAINT, f"{path} exists already", suggested_action=action)
    return "csv" if form == "csv" else "json"


def _best_format(instances: Sequence[Instance]) -> Literal["toml", "json"]:
    """bd looks for TOML first, and it reads best; but it has no null."""
    has_null = any(null_in(essence(bead)) is not None for instance in instances for bead in instance)
    return "json" if has_null else "toml"


def _proven(
    made: Made, instances: Sequence[Instance], path: Path, form: Literal["csv", "json"], setting: Setting
) -> tuple[str, str]:
    """The texts of both files, once they have given back what they were made from."""
    text = dumps(made.formula, "json" if path.suffix == ".json" else "toml")
    values = sheet(made.rows, form)
    read = read_text(text, path, "project")
    faults = read.faults if read.formula is None else check(read.formula).faults
    if faults or read.formula is None:
        raise gathered(faults, str(path))
    given = [row.given for row in value_rows.read(values, f"rows.{form}")]
    lost = list(value_rows.losses(read.formula, given, instances, setting))
    if lost:
        raise _lost(lost)
    return text, values


def _lost(lost: Sequence[Loss]) -> RalphError:
    faults = [
        Fault(
            Code.FORMULA_INVALID,
            f"{loss.bead}: {loss.field} would come back as {short(loss.got)}, not {short(loss.wanted)}",
            field=loss.field,
        )
        for loss in lost[:SHOWN_LOSSES]
    ]
    count = plural(len(lost), "difference")
    message = f"the formula would not give these sprints back ({count}); nothing is written"
    action = "Leave the sprints named above out, or change the field in the plan"
    return RalphError(Code.FORMULA_INVALID, message, faults=faults, suggested_action=action)


def _warnings(made: Made, instances: Sequence[Instance]) -> list[Fault]:
    found = []
    if len(instances) == 1:
        found.append("made from one sprint alone: what else may vary cannot be seen")
    if any(isinstance(step["priority"], str) for step in made.formula["steps"]):
        found.append("bd itself cannot read this formula, since its priority is a variable; beads-ralph can")
    return [Fault(Code.CONSTRAINT, message) for message in found]


# --- answers ----------------------------------------------------------------------------------------


def _made_json(
    name: str, path: Path, made: Made, instances: Sequence[Instance], rows: Path | None
) -> dict[str, Any]:
    steps = [
        {"id": step["id"], "title": step["title"], "type": step["type"], "needs": step.get("needs", [])}
        for step in made.formula["steps"]
    ]
    return {
        "formula_name": name,
        "formula_path": str(path),
        "description": made.formula["description"],
        "vars": made.formula["vars"],
        "steps": steps,
        "sprints": [[bead["metadata"]["sprint"] for bead in instance] for instance in instances],
        "beads": sum(map(len, instances)),
        "rows": made.rows,
        "rows_path": str(rows) if rows is not None else None,
        "pour_command": _pour_line(name, made.formula["vars"], rows),
    }


# --- for people -----------------------------------------------------------------------------------


def _pour_line(name: str, variables: Mapping[str, Mapping[str, Any]], rows: Path | None) -> str:
    """The rows once more, or the next sprint with values of its own."""
    needed = [word for word, said in variables.items() if said.get("required")]
    given = [part for word in needed for part in ("--var", f"{word}=VALUE")]
    return shlex.join(["beads-ralph", "pour", name, *(["--vars-file", str(rows)] if rows else given)])


def _show(console: Console, data: Mapping[str, Any]) -> None:
    for step in data["steps"]:
        needs = f"  ← {', '.join(step['needs'])}" if step["needs"] else ""
        console.print(f"{escape(step['id'])}  {escape(step['title'])}[dim]{escape(needs)}[/dim]")
    for word, text in _variables(data["vars"]):
        console.print(f"  {word:8} {escape(text)}")
    given_back = f"gives back {plural(data['beads'], 'bead')}"
    console.print(f"✓ {escape(data['formula_path'])}: {plural(len(data['steps']), 'step')}, {given_back}")
    if data["rows_path"]:
        console.print(f"✓ {escape(data['rows_path'])}: {plural(len(data['rows']), 'row')}")
    console.print(f"→ {escape(data['pour_command'])}")


def _variables(found: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Which must be given, which may be, and which follow from others."""
    usual = [f"{name} = {short(said['default'])!r}" for name, said in found.items() if "default" in said]
    rows = {
        "give": [name for name, said in found.items() if said.get("required")],
        "may give": usual,
        "derived": derived(found),
    }
    return ((word, ", ".join(names)) for word, names in rows.items() if names)


def derived(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{name} = {said['derive']}" for name, said in found.items() if "derive" in said]


def short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        text = "; ".join(value) or "none"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"
