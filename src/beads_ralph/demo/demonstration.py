"""The main job, done once for show: a sample plan worked through in a scratch repository."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.bead.model import Bead
from beads_ralph.compile import base, load
from beads_ralph.compile.build import build
from beads_ralph.compile.setting import Setting
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.files.text_files import RALPH_DIR
from beads_ralph.git import commands, worktree_removal
from beads_ralph.journal import accounts, records, runs
from beads_ralph.journal.events import Event
from beads_ralph.journal.journal import read
from beads_ralph.plan import annotate, draw, parse
from beads_ralph.process import jobs
from beads_ralph.process.calls import ends_as_ctrl_c
from beads_ralph.process.jobs import Exit, Job
from beads_ralph.report import page as analysis_page
from beads_ralph.report import run_page, tallied
from beads_ralph.report.advice import advice
from beads_ralph.store import registry, setup
from beads_ralph.store.query import Query

if TYPE_CHECKING:
    from rich.console import Console

PLAN: Final = "plans/todo-app.md"
SAMPLES: Final = {
    "todo-app.md": PLAN,
    "todo-app.agents.yaml": "plans/todo-app.agents.yaml",
    "todo-app.settings.yaml": CONFIG_NAME,
}
REPORT: Final = "report.html"
ANALYSIS: Final = "analysis.html"
IGNORED: Final = f"__pycache__/\n{REPORT}\n{ANALYSIS}\ntodo.jsonl\n"
TESTS: Final = ("python3", "-B", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
# The user's own settings must not reach the agents of a show: no signatures, no hooks, no line ends.
GIT_SETTINGS: Final = {
    "user.name": "beads-ralph demo",
    "user.email": "demo@localhost",
    "commit.gpgSign": "false",
    "core.autocrlf": "false",
    "core.hooksPath": ".git/hooks",
    "gc.auto": "0",
    "maintenance.auto": "false",
}


@dataclass(frozen=True)
class Demonstration:
    """A scratch repository with the sample plan in its store."""

    root: Path
    plan: Path
    created: tuple[str, ...]
    drawing: draw.Drawing
    ready: tuple[Bead, ...]

    @property
    def settings(self) -> Path:
        return self.root / CONFIG_NAME

    def to_json(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "plan": str(self.plan),
            "bead_ids": list(self.created),
            **self.drawing.to_json(),
            "ready": [bead.id for bead in self.ready],
        }


@dataclass(frozen=True)
class Finished:
    """What became of the demonstration."""

    shown: Demonstration
    ended: Mapping[str, Any]
    """What `run --json` answers."""
    told: tuple[Event, ...]
    beads: tuple[Bead, ...]
    tests: Exit | None
    """The whole test suite on main, where everything was merged into it."""
    report: Path

    @property
    def analysis(self) -> Path:
        """What the records of the run teach."""
        return self.report.with_name(ANALYSIS)

    @property
    def ok(self) -> bool:
        return self.tests is not None and self.tests.ok

    def to_json(self) -> dict[str, Any]:
        return {
            **self.shown.to_json(),
            "ended": self.ended["ended"],
            "report": str(self.report),
            "analysis": str(self.analysis),
        }


# --- before the run -----------------------------------------------------------------------------------


def prepare(folder: Path | None = None) -> Demonstration:
    """A scratch repository, the sample plan in it, its beads in the embedded store."""
    root = _scratch_repository(folder)
    for sample, name in SAMPLES.items():
        (root / name).parent.mkdir(exist_ok=True)
        text = resources.files(__package__ or "").joinpath(sample).read_text("utf-8")
        text_files.write_text(root / name, text)
    text_files.write_text(root / ".gitignore", IGNORED)
    shown = _compile(root)
    commands.output("add", "--all", cwd=root)
    commands.output("commit", "--quiet", "--message", "Plan a to-do list", cwd=root)
    return shown


def _compile(root: Path) -> Demonstration:
    plan_file = root / PLAN
    text = text_files.read_text(plan_file)
    setup.init(workspace.find(root, root / CONFIG_NAME), "embedded", personas=False)
    space = workspace.find(root, root / CONFIG_NAME)
    plan = parse(text, str(plan_file))
    setting = Setting(root, space.relative(plan_file), datetime.now(UTC), space.config, space.branches())
    built = build(plan, setting)
    names = [sprint.id.text for sprint in plan.sprints]
    beads = load.require_valid(built, names, base.readings(text, plan))
    store = registry.open_store(space, "embedded").store
    loaded = load.load(store, beads)
    text_files.write_text(plan_file, annotate(text, plan, loaded.bead_ids))
    nodes = [draw.Node(s.id.text, built.ids[s.id.text], s.title, s.line) for s in plan.sprints]
    return Demonstration(
        root, plan_file, loaded.created, draw.Drawing.of(nodes, built.edges), store.ready().beads
    )


def _scratch_repository(folder: Path | None) -> Path:
    root = (folder or Path(tempfile.mkdtemp(prefix="beads-ralph-demo-")) / "todo-app").resolve()
    try:
        root.mkdir(parents=True, exist_ok=True)
        taken = any(root.iterdir())
    except PermissionError:
        raise RalphError(Code.PERMISSION_DENIED, f"cannot make {root}: permission denied") from None
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot make {root}: {problem.strerror}") from None
    if taken:
        raise RalphError(Code.USAGE, f"{root} is not empty", suggested_action="Name a new folder with --dir")
    commands.output("init", "--quiet", "--initial-branch", "main", cwd=root)
    for name, value in GIT_SETTINGS.items():
        commands.output("config", name, value, cwd=root)
    return root


# --- after the run ------------------------------------------------------------------------------------


def finish(shown: Demonstration, ended: Mapping[str, Any]) -> Finished:
    """Take what was proven into main, test it there, tidy up, and write the report."""
    space = workspace.find(shown.root, shown.settings)
    store = registry.open_store(space, "embedded").store
    beads = {bead.id: bead for bead in store.find(Query()).beads}
    folder = runs.latest(shown.root / RALPH_DIR)
    told = tuple(read(folder.journal)) if folder else ()
    tests = None
    if ended["ended"] == "done":
        last = beads[shown.drawing.nodes[shown.drawing.critical_path[-1]].bead_id]
        commands.output("merge", "--quiet", "--ff-only", last.metadata.branch, cwd=shown.root)
        with ends_as_ctrl_c():
            tests = jobs.run(Job(TESTS, shown.root, timeout=60.0))
        _tidy(shown.root, beads.values())
    ordered = tuple(beads[bead_id] for bead_id in shown.created)
    finished = Finished(shown, ended, told, ordered, tests, shown.root / REPORT)
    text_files.write_text(finished.report, run_page.html(_subject(finished)))
    tally = tallied(records.read_all(space.state), stretches=True)
    lessons = analysis_page.AnalysisSubject(tally, advice(tally), datetime.now(UTC))
    text_files.write_text(finished.analysis, analysis_page.html(lessons))
    return finished


def _tidy(root: Path, beads: Iterable[Bead]) -> None:
    """Everything is in main by now, so the worktrees beside the repository hold nothing of their own."""
    for place in {Path(bead.metadata.worktree_path) for bead in beads}:
        worktree_removal.remove(root, place, "main")
    common = root.parent / f"{root.name}-worktrees"
    if common.is_dir() and not any(path.is_file() for path in common.rglob("*")):
        shutil.rmtree(common)


def _subject(finished: Finished) -> run_page.PageSubject:
    said = finished.tests.stderr.strip().splitlines() if finished.tests else []
    count = next((line for line in said if line.startswith("Ran ")), "")
    closing = f"main holds it all: {count.partition(' in ')[0].lower()}" if finished.ok else ""
    return run_page.PageSubject(
        title="A to-do list, from nothing to released",
        drawing=finished.shown.drawing,
        beads=[run_page.ShownBead.of(bead) for bead in finished.beads],
        events=finished.told,
        account=accounts.account(str(finished.ended["run_id"]), finished.told),
        closing=closing,
        pulls_folder=f"{RALPH_DIR}/pulls",
        analysis=ANALYSIS,
    )


# --- for people ---------------------------------------------------------------------------------------


def show(shown: Demonstration, console: Console) -> None:
    from rich.markup import escape

    console.print(f"[bold]A plan[/bold]  [dim]{escape(str(shown.plan))}[/dim]")
    console.print(f"compiled into {len(shown.created)} beads in the embedded store\n")
    console.print("[bold]What waits for what[/bold]")
    draw.text(shown.drawing, console)


def show_ready(shown: Demonstration, console: Console) -> None:
    from rich.markup import escape

    console.print("\n[bold]Ready to start[/bold]")
    for bead in shown.ready:
        console.print(f"  ○ {bead.id}  {escape(bead.title)}  [dim]{bead.metadata.branch}[/dim]")
    place = escape(str(shown.root))
    console.print(f"\nWork through it: [cyan]cd {place} && beads-ralph run {PLAN}[/cyan]")


def show_end(finished: Finished, console: Console) -> None:
    from rich.markup import escape

    ended = finished.ended
    took = f"{ended['duration_seconds']:.1f} s"
    if finished.ok:
        done = f"{len(ended['closed'])} sprints proven, merged into main and tested there, in {took}"
        console.print(f"\n[green]✓[/green] {done}")
    else:
        console.print(f"\n[red]✗[/red] {escape(str(ended['reason']))}, after {took}")
    story = list(run_page.story(_subject(finished)))
    if story:
        console.print("\n[bold]On the way[/bold]")
    for sprint, text in story:
        console.print(f"  {sprint:<5} {escape(text)}")
    _show_next(finished, console)


def _show_next(finished: Finished, console: Console) -> None:
    from rich.markup import escape

    console.print("\n[bold]Look at it[/bold]")
    rows = [
        (finished.report.as_uri(), "the whole run on one page"),
        (f"cd {finished.shown.root}", "the repository; in it:"),
        ("  git log --graph --oneline", "how the branches came together"),
        ("  beads-ralph show bd-2a-1-reminders", "the one that lied, with the evidence"),
        ("  beads-ralph logs bd-1-2b-command-line", "what its agents and checks printed"),
        ("  python3 -m todo add Try beads-ralph", "the program they wrote"),
    ]
    for command, meaning in rows:
        console.print(f"  [cyan]{escape(command):<42}[/cyan]  [dim]{meaning}[/dim]")
    console.print(
        "\nYours next: [cyan]beads-ralph init[/cyan] in a repository, then [cyan]beads-ralph run PLAN[/cyan]"
    )
