"""A compiled graph as text, Mermaid or DOT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from beads_ralph.bead import graph
from beads_ralph.bead.words import plural

if TYPE_CHECKING:
    from rich.console import Console


TITLE_WIDTH: Final = 44
MergeBy = Literal["title", "plan"]
"""What makes a sprint a merge: a word in its title, or the plan's own word."""
MERGES: Final[Mapping[MergeBy, str]] = {"title": ", merges them: its title says so", "plan": ", merges them"}


@dataclass(frozen=True)
class DrawnStep:
    """One step of a sprint that is poured from a formula."""

    id: str
    title: str
    waits: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "depends_on": list(self.waits)}


@dataclass(frozen=True)
class Node:
    """One sprint of a drawing."""

    sprint: str
    bead_id: str
    title: str
    line: int
    formula: str | None = None
    steps: tuple[DrawnStep, ...] = ()
    merge_by: MergeBy | None = None
    team: str = ""

    @property
    def shown(self) -> str:
        """Its title, and what is poured there: one box, however many steps."""
        if self.formula is None:
            return self.title
        steps = f": {plural(len(self.steps), 'step')}" if self.steps else ""  # none where it has faults
        return f"{self.title} ({self.formula}{steps})"

    def kind_json(self) -> dict[str, Any]:
        """Only of a sprint that is poured, or merges what it waits for."""
        if self.formula is not None:
            return {"formula": self.formula, "steps": [step.to_json() for step in self.steps]}
        return {"merge_by": self.merge_by} if self.merge_by else {}


@dataclass(frozen=True)
class Drawing:
    """Nodes in plan order, edges between them, and what follows from both."""

    nodes: Mapping[str, Node]
    edges: Mapping[str, Sequence[str]]
    waves: Sequence[Sequence[str]]
    critical_path: Sequence[str]

    @classmethod
    def of(cls, nodes: Sequence[Node], edges: Mapping[str, Sequence[str]]) -> Drawing:
        known = {node.sprint: node for node in nodes}
        return cls(known, edges, graph.waves(edges), graph.critical_path(edges))

    def width(self, wave: Sequence[str]) -> int:
        """How many sprints of a wave may be at work at once: those of one team follow one another."""
        return len({self.nodes[sprint].team or sprint for sprint in wave})

    def inner(self, sprint: str) -> list[str]:
        """The sprints of the plan that it waits for."""
        return [other for other in self.edges[sprint] if other in self.nodes]

    def to_json(self) -> dict[str, Any]:
        wave_of = {sprint: number for number, wave in enumerate(self.waves, 1) for sprint in wave}
        return {
            "sprints": [
                {
                    "sprint": node.sprint,
                    "bead_id": node.bead_id,
                    "title": node.title,
                    "line": node.line,
                    "depends_on": self.inner(node.sprint),
                    "depends_on_beads": [b for b in self.edges[node.sprint] if b not in self.nodes],
                    "wave": wave_of[node.sprint],
                    **node.kind_json(),
                }
                for node in self.nodes.values()
            ],
            "waves": [list(wave) for wave in self.waves],
            "critical_path": list(self.critical_path),
        }


def text(drawing: Drawing, console: Console, counted: str = "") -> None:
    """Wave by wave; `★` marks the critical path, `←` what a sprint waits for. What is not a sprint is
    counted by the caller."""
    from rich.cells import cell_len, set_cell_size
    from rich.markup import escape

    critical = set(drawing.critical_path)
    width = max((len(sprint) for sprint in drawing.nodes), default=0)
    titles = {sprint: _one_line(node.shown) for sprint, node in drawing.nodes.items()}
    long = min(max(map(cell_len, titles.values()), default=0), TITLE_WIDTH)
    for number, wave in enumerate(drawing.waves, 1):
        for at, sprint in enumerate(wave):
            lead = f"wave {number:<3}" if at == 0 else " " * 8
            star = "[yellow]★[/yellow]" if sprint in critical else " "
            waits = drawing.edges[sprint]
            merge_by = drawing.nodes[sprint].merge_by
            merges = MERGES[merge_by] if merge_by else ""
            names = escape(", ".join(waits))
            behind = f"[dim]← {names}{merges}[/dim]" if waits else "[dim]starts at once[/dim]"
            cut = titles[sprint]
            cut = set_cell_size(cut, long - 1) + "…" if cell_len(cut) > long else cut
            title = escape(set_cell_size(cut, long))
            name = f"[bold]{sprint:<{width}}[/bold]"
            row = f"[cyan]{lead}[/cyan] {_branch(at, len(wave))} {star} {name}  {title}  {behind}"
            console.print(row, emoji=False)  # a title may well say :x:
    most = max((drawing.width(wave) for wave in drawing.waves), default=0)
    said = counted or plural(len(drawing.nodes), "sprint")
    console.print(
        f"\n{said}, {plural(len(drawing.waves), 'wave')}, up to {most} in parallel; "
        f"critical path [yellow]★[/yellow] {' → '.join(drawing.critical_path)}"
    )


def _branch(at: int, size: int) -> str:
    if size == 1:
        return "──"
    if at == 0:
        return "┬─"
    return "└─" if at == size - 1 else "├─"


def mermaid(drawing: Drawing) -> str:
    """A flowchart that GitHub and most editors render."""
    names = {sprint: f"s{number}" for number, sprint in enumerate(drawing.nodes)}
    lines = ["flowchart TD"]
    for sprint, node in drawing.nodes.items():
        lines.append(f'    {names[sprint]}["{sprint}: {_mermaid_text(node.shown)}"]')
    for sprint in drawing.nodes:
        lines += [f"    {names[other]} --> {names[sprint]}" for other in drawing.inner(sprint)]
    path = [names[sprint] for sprint in drawing.critical_path]
    if path:
        lines += ["    classDef critical stroke-width:3px", f"    class {','.join(path)} critical"]
    return "\n".join(lines)


def _mermaid_text(title: str) -> str:
    escapes = {"&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", ";": "#59;"}
    escapes |= {"%": "#37;", "\\": "#92;"}  # `%%{…}%%` would be a directive, wherever it stands
    return "".join(escapes.get(char, char) for char in _one_line(title))


def dot(drawing: Drawing) -> str:
    """Graphviz."""
    critical = set(drawing.critical_path)
    lines = ["digraph plan {", "    rankdir=TB;", "    node [shape=box];"]
    for sprint, node in drawing.nodes.items():
        style = ", penwidth=3" if sprint in critical else ""
        lines.append(f"    {_dot_text(sprint)} [label={_dot_text(f'{sprint}: {node.shown}')}{style}];")
    for sprint in drawing.nodes:
        lines += [f"    {_dot_text(other)} -> {_dot_text(sprint)};" for other in drawing.inner(sprint)]
    return "\n".join([*lines, "}"])


def _dot_text(text: str) -> str:
    escaped = _one_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _one_line(title: str) -> str:
    """Without line breaks and control characters, which no drawing can show."""
    return " ".join("".join(char if char.isprintable() else " " for char in title).split())
