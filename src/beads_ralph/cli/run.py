"""run: work through the ready beads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from beads_ralph.bead.words import plural, several
from beads_ralph.cli import options, questions
from beads_ralph.cli.answer import Answer, speaker
from beads_ralph.cli.commands import Argument, Option
from beads_ralph.cli.differences import asked, tell
from beads_ralph.cli.style import can_ask, current_style
from beads_ralph.cli.text import escape
from beads_ralph.errors import RalphError
from beads_ralph.files.plugins import ExecutorName, ForgeName

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.app import PlannedRun
    from beads_ralph.bead.usage import Usage
    from beads_ralph.cli.board import Board
    from beads_ralph.forge.protocol import PushTarget
    from beads_ralph.journal.journal import Journal
    from beads_ralph.loop import Ended
    from beads_ralph.store.protocol import Progress, Store

PlanChanges = Literal["apply", "refuse"]
Engine = Annotated[
    Literal["local", "temporal"] | None, Option("--engine", help="Where sessions run: here, or on workers.")
]
Executor = Annotated[ExecutorName | None, Option("--executor", help="Where agents run.")]
Forge = Annotated[ForgeName | None, Option("--forge", help="Where pull requests are opened.")]


def run(  # noqa: PLR0913 - one parameter an option
    plan: Annotated[Path | None, Argument(help="Compile this plan first.")] = None,
    *,
    max_parallel: Annotated[
        int | None, Option("--max-parallel", min=1, help="Beads at work at once.")
    ] = None,
    team: Annotated[list[str] | None, Option("--team", help="Only this team.")] = None,
    bead: Annotated[list[str] | None, Option("--bead", help="Only this bead.")] = None,
    convoy: Annotated[list[str] | None, Option("--convoy", help="Only the beads of this convoy.")] = None,
    wisps: Annotated[bool, Option("--wisps", help="Wisps too.")] = False,
    once: Annotated[bool, Option("--once", help="One round of ready beads, then end.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would start, in waves.")] = False,
    stop_on_failure: Annotated[
        bool, Option("--stop-on-failure", help="Stop when a bead is blocked.")
    ] = False,
    force_gates: Annotated[
        bool, Option("--force-gates", help="Start features although a gate is red; it is recorded.")
    ] = False,
    plan_changes: Annotated[
        PlanChanges | None, Option("--plan-changes", help="What to do with an edited plan.")
    ] = None,
    prefer: options.Prefer = None,
    watch_plan: Annotated[
        bool | None,
        Option("--watch-plan/--no-watch-plan", help="Apply edits of the plan while it runs."),
    ] = None,
    push: Annotated[
        bool | None,
        Option("--push/--no-push", help="Push finished branches to origin, or not, in this run."),
    ] = None,
    agent: Annotated[str | None, Option("--agent", help="The program of every agent, in this run.")] = None,
    model: Annotated[str | None, Option("--model", help="The model of every agent, in this run.")] = None,
    plain: Annotated[bool, Option("--plain", help="Lines instead of the board.")] = False,
    engine: Engine = None,
    executor: Executor = None,
    forge_name: Forge = None,
    store: options.Store = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Work through the ready beads with agents until nothing is left, and say why it ended."""
    from beads_ralph import app

    request = app.RunRequest(
        plan=plan,
        max_parallel=max_parallel,
        teams=frozenset(team or ()),
        beads=frozenset(bead or ()),
        convoys=tuple(convoy or ()),
        wisps=wisps,
        once=once,
        dry_run=dry_run,
        stop_on_failure=stop_on_failure,
        force_gates=force_gates,
        plan_changes=plan_changes,
        prefer=prefer,
        watch_plan=watch_plan,
        push=push,
        agent=agent,
        model=model,
        engine=engine,
        executor=executor,
        forge=forge_name,
        store=store,
        config=config,
    )
    say = speaker(current_style())
    planned = app.plan_run(
        request, progress=say, settle=asked, tell=lambda found: tell(found, say), ask_push=may_push
    )
    if dry_run:
        return _rehearsed(planned)
    ended = planned.start(lambda journal: _display(journal, plain=plain), say)
    if plan is not None and planned.space.config.write_plan_status:
        _mark(planned, plan, say)
    return ended_answer(planned, ended, _report(planned, ended, say))


def _report(planned: PlannedRun, ended: Ended, say: Progress) -> Path | None:
    """Write the page of a run that did something; the run is over, whatever becomes of this."""
    from beads_ralph.cli import report
    from beads_ralph.journal.runs import RunFolder
    from beads_ralph.report.run_subject import NAME
    from beads_ralph.store.query import Query

    folder = RunFolder(planned.space.home, planned.settings.run_id)
    path = folder.path / NAME
    try:
        if ended.attempts:
            about = Query(plan_file=planned.scope.plan_file, wisps=True)
            report.write(folder, path, planned.opened.store.find(about).beads)
    except RalphError as error:
        say(f"the report of the run could not be written: {error.message}")
    return path if path.exists() else None


def _display(journal: Journal, *, plain: bool) -> Board:
    """A board where a person sits at a terminal, lines everywhere else."""
    from beads_ralph.cli import watching
    from beads_ralph.cli.board import Board

    board = not plain and not os.environ.get("CI") and watching.is_screen()
    return (watching.BoardBeside if board else Board)(journal, current_style())


def _mark(planned: PlannedRun, plan: Path, say: Progress) -> None:
    """The run is over, whatever becomes of this."""
    from beads_ralph.compile import plan_status

    try:
        _, left = plan_status.write(plan, plan_status.states(planned.at_end))
    except RalphError as error:
        say(f"the plan could not be marked: {error.message}")
    else:
        for name in left:
            say(f"sprint {name} could not be marked in the plan: it would read differently")


def _rehearsed(planned: PlannedRun) -> Answer:
    found, people = planned.rehearse(), planned.peoples_items()
    waves, waiting, bare = found.waves, found.waiting, found.without_verifier

    def show(console: Console) -> None:
        for number, wave in enumerate(waves, 1):
            console.print(f"[cyan]wave {number}[/cyan]  " + ", ".join(wave))
        for bead_id, reason in waiting.items():
            console.print(f"[yellow]✗[/yellow] {bead_id}  {escape(reason)}")
        if bare:
            console.print(f"{plural(len(bare), 'bead')} would be closed on review alone: no verifier")
        for step in people:
            then = f"; then: {step.command}" if step.command else f"; waits for {', '.join(step.waits_for)}"
            console.print(f"○ for a person: {step.item.id}  {escape(step.item.title + then)}")
        for remark in filter(None, (planned.push_line, *found.remarks)):
            console.print(f"[yellow]![/yellow] {escape(remark)}")
        left = "nothing is left for agents to do" if people else "nothing is left to do"
        console.print("nothing was started" if waves or waiting else left)

    rows = [{"id": bead_id, "reason": reason} for bead_id, reason in waiting.items()]
    data = {
        "dry_run": True,
        "waves": waves,
        "waiting": rows,
        "without_verifier": bare,
        "people": [step.to_json() for step in people],
        "remarks": [*found.remarks],
        "push": _target(planned),
        "store": planned.opened.store.kind,
    }
    return Answer(data, show)


def may_push(target: PushTarget) -> bool | None:
    """Ask a person; None where nobody is there to be asked."""
    if not can_ask():
        return None
    return questions.confirmed(f"Push the branches of finished beads to {target}? The answer is kept")


def _target(planned: PlannedRun) -> dict[str, str] | None:
    target = planned.push_target
    return {"remote": target.remote, "url": target.url} if target else None


def ended_answer(planned: PlannedRun, ended: Ended, report: Path | None = None) -> Answer:
    """How a run ended; exit 0 only where it is done."""
    from beads_ralph.loop import ENDS

    store = planned.opened.store
    return Answer(
        ended.to_json()
        | {"run_id": planned.settings.run_id, "store": store.kind, "sandbox": planned.sandbox}
        | {"push": _target(planned), "report": str(report) if report else None},
        lambda console: _show_end(console, ended, store, report),
        exit_code=ENDS[ended.why].exit_code,
    )


def _show_end(console: Console, ended: Ended, store: Store, report: Path | None) -> None:
    """The summary: what was closed, what blocked, who must do what, where to look next."""
    from beads_ralph.loop import ENDS
    from beads_ralph.store import convoys

    end = ENDS[ended.why]
    console.print(f"\n[{end.colour}]{end.mark} {end.words}[/{end.colour}]: {escape(ended.reason)}")
    counts = f"{len(ended.closed)} closed, {len(ended.blocked)} blocked, {plural(ended.attempts, 'attempt')}"
    console.print(", ".join([counts, f"{ended.seconds:.1f} s", *_spent(ended)]))
    for line in _by_program(ended):
        console.print(f"  [dim]{escape(line)}[/dim]")
    if reviewed := [*ended.standing.values()].count("reviewed"):
        console.print(f"{reviewed} of the closed on review alone: no verifier ran")
    _show_pulls(console, ended)
    for bead_id, reason in ended.blocked:
        console.print(f"  [red]✗[/red] {bead_id}  {escape(reason.splitlines()[0] if reason else '')}")
    for wait in ended.waits:
        console.print(f"  [yellow]…[/yellow] {escape(str(wait))}")
        console.print(f"    [dim]{escape('holds up ' + ', '.join(wait.beads))}[/dim]")
    for line in convoys.ended(store, ended.finished):
        console.print(f"  {escape(line)}")
    for item in ended.for_people:
        console.print(f"  [yellow]…[/yellow] {escape(f'left for you: {item.id} ({item.title})')}")
    for remark in ended.remarks:
        console.print(f"  [yellow]![/yellow] {escape(remark)}")
    for step in ended.next_commands:
        console.print(f"  → {escape(step)}")
    if report is not None:
        console.print(f"  [dim]the whole run on one page: {escape(report.as_uri())}[/dim]", soft_wrap=True)


def _show_pulls(console: Console, ended: Ended) -> None:
    """The pull requests, what to look at in them, and which of them conflict."""
    for bead_id, pull in ended.pull_requests:
        where, standing = pull.url or pull.branch, ended.standing.get(bead_id, "")
        console.print(
            f"  [green]✓[/green] {bead_id}  {escape(where)}  [dim]{standing} {pull.commit[:12]}[/dim]"
        )
        for flag in ended.flags.get(bead_id, ()):
            console.print(f"    [yellow]![/yellow] {escape(f'look at: {flag}')}")
    for clash in ended.conflicts:
        words = f"the pull requests of {' and '.join(clash.beads)} conflict in {several(clash.files)}"
        console.print(f"  [yellow]![/yellow] {escape(words)}")


def _spent(ended: Ended) -> list[str]:
    """Money and tokens, as far as the programs tell; nothing where no agent was at work."""
    worked = ended.attempts or _tokens(ended.usage)
    return _costs(ended.usage) if worked else []


def _costs(usage: Usage, about: str = "") -> list[str]:
    cost = "cost unknown" if usage.cost_usd is None else f"{about}${usage.cost_usd:.2f}"
    return [cost, f"{_tokens(usage):,} tokens"] if _tokens(usage) else [cost]


def _tokens(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _by_program(ended: Ended) -> Iterator[str]:
    """What each program used. A cost of our own table is about right, and no bill."""
    for one in ended.programs:
        about = "about " if one.cost_computed else ""
        whole = f"{one.program} ({one.model})" if one.model else one.program
        yield f"{whole}: {plural(one.calls, 'call')}, {', '.join(_costs(one.usage, about))}"
