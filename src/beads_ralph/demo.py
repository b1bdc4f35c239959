"""The main job, shown on a sample plan in a scratch repository."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beads_ralph import draw, files, git, workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.mason import load
from beads_ralph.mason.build import build
from beads_ralph.mason.setting import Setting
from beads_ralph.models import Bead
from beads_ralph.plan import annotate, parse

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration made."""

    root: Path
    plan: Path
    created: tuple[str, ...]
    drawing: draw.Drawing
    ready: tuple[Bead, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "plan": str(self.plan),
            "bead_ids": list(self.created),
            **self.drawing.to_json(),
            "ready": [bead.id for bead in self.ready],
        }


def prepare(folder: Path | None = None) -> Demonstration:
    """A scratch repository, the sample plan in it, its beads in the embedded store."""
    root = _scratch_repository(folder)
    plan_file = root / "plans" / "todo-app.md"
    plan_file.parent.mkdir()
    text = resources.files("beads_ralph").joinpath("samples/todo-app.md").read_text("utf-8")
    files.write_text(plan_file, text)
    space = workspace.find(root)
    workspace.init(space, "embedded")
    space = workspace.find(root)
    plan = parse(text, str(plan_file))
    setting = Setting(root, space.relative(plan_file), datetime.now(UTC), space.config, space.branches())
    built = build(plan, setting)
    beads = load.require_valid(built, [sprint.id.text for sprint in plan.sprints])
    store = workspace.open_store(space, "embedded").store
    loaded = load.load(store, beads, check_existing=False)
    files.write_text(plan_file, annotate(text, plan, loaded.bead_ids))
    nodes = [draw.Node(s.id.text, built.ids[s.id.text], s.title, s.line) for s in plan.sprints]
    drawing = draw.Drawing.of(nodes, built.edges)
    return Demonstration(root, plan_file, loaded.created, drawing, store.ready().beads)


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
    git.output("init", "--quiet", "--initial-branch", "main", cwd=root)
    who = ("-c", "user.name=beads-ralph demo", "-c", "user.email=demo@localhost")
    git.output(*who, "commit", "--quiet", "--allow-empty", "--message", "Start", cwd=root)
    return root


def show(shown: Demonstration, console: Console) -> None:
    from rich.markup import escape

    console.print(f"[bold]A plan[/bold]  [dim]{escape(str(shown.plan))}[/dim]")
    console.print(f"compiled into {len(shown.created)} beads in the embedded store\n")
    console.print("[bold]What waits for what[/bold]")
    draw.text(shown.drawing, console)
    console.print("\n[bold]Ready to start[/bold]")
    for bead in shown.ready:
        console.print(f"  ○ {bead.id}  {escape(bead.title)}  [dim]{bead.metadata.branch}[/dim]")
    console.print(
        f"\nLook around: [cyan]cd {escape(str(shown.root))}[/cyan] and try [cyan]beads-ralph list[/cyan],"
    )
    console.print("[cyan]beads-ralph plan graph plans/todo-app.md[/cyan], [cyan]beads-ralph show BEAD[/cyan]")
