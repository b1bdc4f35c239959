"""prove: a change against the commit that it began with; for verifiers, and for people."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer
from beads_ralph.cli.text import escape
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.session.before_and_after import BASE, ChangeKind, ChangeProof, Wanted
from beads_ralph.session.before_and_after import prove as find_proof
from beads_ralph.session.test_failures import TestRun

if TYPE_CHECKING:
    from rich.console import Console

PYTEST = "python3 -m pytest"
Kind = Annotated[ChangeKind, typer.Argument(help="What the change is.", metavar="KIND")]
Command = Annotated[str, typer.Option("--run", help="Runs the tests; pytest where it is left out.")]
Tests = Annotated[str, typer.Option("--test", help="Test files, or patterns of them: a,b")]
Product = Annotated[str, typer.Option("--product", help="Where the product code is: paths or patterns, a,b")]
Base = Annotated[str | None, typer.Option("--base", help="The commit that the work began with.")]
Assertion = Annotated[str, typer.Option("--assertion", help="What a failing assertion prints: a pattern.")]


def prove(
    kind: Kind,
    *,
    run: Command = "",
    test: Tests = "",
    product: Product = "",
    base: Base = None,
    assertion: Assertion = "",
    json_: options.Json = False,
) -> Answer:
    """Run a change's tests without its product code and with it, and say whether that proves it."""
    root = commands.toplevel(Path.cwd())
    if root is None:
        raise commands.no_repository(Path.cwd())
    tests = _listed(test)
    if kind == "fix" and not tests:
        action = "Name the file: --test tests/test_it.py"
        raise RalphError(Code.USAGE, "a fix needs the test that shows it", suggested_action=action)
    command = run.strip() or " ".join((PYTEST, *(tests if kind == "fix" else ())))
    wanted = Wanted(kind, command, tests, _listed(product), assertion)
    found = find_proof(root, _base(root, base), wanted)
    code = FAILED if found.faults else OK
    return Answer(found.to_json(), lambda console: _show(console, found), exit_code=code)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _base(root: Path, named: str | None) -> str:
    """The commit that a verifier is told; a person names it, and has nothing that could be lost."""
    told = os.environ.get(BASE)
    if named is None and told:
        return told
    if named is None:
        action = "Name it: --base main"
        raise RalphError(
            Code.USAGE, f"{BASE} is not set, which a run tells its checks", suggested_action=action
        )
    if commands.output("status", "--porcelain", "--untracked-files=no", cwd=root):
        action = "Commit them, or put them aside with git stash"
        raise RalphError(Code.CONSTRAINT, "there are changes that are not committed", suggested_action=action)
    shared = commands.run("merge-base", named, "HEAD", cwd=root)
    return shared.stdout.strip() if shared.ok else named


def _show(console: Console, found: ChangeProof) -> None:
    for name, known in found.pinned.items():
        console.print(f"{escape(name)}  sha256 {known}")
    for when, run in (("without the change", found.before), ("with the change", found.after)):
        if run is not None:
            console.print(f"{when}: {_ended(run)}")
            console.print(escape(textwrap.indent(run.output.strip(), "  | ")), highlight=False)
    for fault in found.faults:
        console.print(f"[red]✗[/red] {escape(fault)}")
    if not found.faults:
        console.print(f"[green]✓[/green] proven against {found.base[:12]}")


def _ended(run: TestRun) -> str:
    if run.exit_code == 0:
        return "passed"
    return "failed by an assertion" if run.asserted else f"failed, exit code {run.exit_code}"
