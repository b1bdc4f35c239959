"""plan check, plan graph, plan diff, plan status: a plan by itself, and beside the store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import typer

from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import MERGE
from beads_ralph.bead.words import plural, several
from beads_ralph.cli import differences, options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.compile import load, plan_status, preflight
from beads_ralph.compile.build import Built, build, compile_plan, plan_setting, read_plan, require_graph
from beads_ralph.compile.reconcile import reconcile
from beads_ralph.compile.setting import Setting, without_verifier
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Fault, gathered
from beads_ralph.plan import Sprint, draw
from beads_ralph.store import registry

Format = Literal["text", "mermaid", "dot", "json"]


def check(
    plan: options.PlanFile,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    no_agent_check: options.NoAgentCheck = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Find every fault of a plan at once; exit 0 only when there is none."""
    space = workspace.find(config_file=config)
    built = compile_plan(space, plan, agent_check=not no_agent_check)
    faults = built.all_faults or (built.warnings if strict else ())
    if faults:
        return Answer(error=gathered(faults, str(plan), built.warnings if built.all_faults else ()))
    count = len(built.beads) + len(built.molecules)
    refused = [] if no_agent_check else _here(space, built)
    data = {
        "plan": str(plan),
        "sprints": count,
        "faults": [],
        "warnings": [warning.to_json() for warning in built.warnings],
        "without_verifier": (bare := _without_verifier(built)),
        "merges_by_title": (by_title := _merges_by_title(built)),
        "refused_here": [fault.to_json() for fault in refused],
    }
    warned = f", {plural(len(built.warnings), 'warning')}" if built.warnings else ""
    summary = f"✓ {plan}: {plural(count, 'sprint')}, no faults{warned}"
    remarks = (*_review_alone(bare), *_told_by_title(by_title), *_refused(refused))
    return Answer(data, lines(summary, *remarks), built.warnings)


def _here(space: Workspace, built: Built) -> list[Fault]:
    """What a run of the plan would refuse on this machine, which is no fault of the plan."""
    if space.repository is None:
        return []
    made = [one for molecule in built.molecules.values() for one in molecule.members if isinstance(one, Bead)]
    beads = [bead for bead in (*built.beads.values(), *made) if isinstance(bead, Bead)]
    scene = preflight.RunScene(space, space.config, beads)
    found = (problem for check in preflight.OF_THE_PLACE.values() for problem in check(scene))
    problems = [problem for problem in found if not problem.remark]
    return list({str(fault): fault for problem in problems for fault in problem.faults}.values())


def _refused(faults: Sequence[Fault]) -> list[str]:
    told = ((f"! a run here would refuse: {fault}", f"  → {fault.remedy}") for fault in faults)
    return [text for pair in told for text in pair]


def _without_verifier(built: Built) -> list[str]:
    """The sprints of which a bead can be closed on review alone."""
    steps = {name: molecule.members for name, molecule in built.molecules.items()}
    made = {**{name: [bead] for name, bead in built.beads.items()}, **steps}
    sprint_of = {one.id: name for name, ones in made.items() for one in ones if isinstance(one, Bead)}
    beads = [one for ones in made.values() for one in ones if isinstance(one, Bead)]
    bare = {sprint_of[bead_id] for bead_id in without_verifier(beads)}
    return [sprint.id.text for sprint in built.plan.sprints if sprint.id.text in bare]


def _review_alone(bare: Sequence[str]) -> list[str]:
    """A remark, and no warning that --strict would make a fault of: review alone may be meant."""
    if not bare:
        return []
    those = "sprint " if len(bare) == 1 else "sprints "
    return [
        f"! without a verifier, so closed on review alone: {those}{several(bare)}",
        "  → add **Verify** there, or verify to the front matter or to plan: in beads-ralph.yaml",
    ]


def _merges_by_title(built: Built) -> list[str]:
    """The sprints that merge what they wait for because of a word in their title, and of nothing else."""
    return [sprint.id.text for sprint in built.plan.sprints if _merge_of(sprint, built) == "title"]


def _merge_of(sprint: Sprint, built: Built) -> draw.MergeBy | None:
    """What makes the sprint a merge; None where it is none."""
    bead = built.beads.get(sprint.id.text)
    if bead is None or bead.issue_type != MERGE:
        return None
    return "plan" if sprint.type or sprint.branches_to_merge else "title"


def _told_by_title(merges: Sequence[str]) -> list[str]:
    """A remark as well: mostly it is what was meant."""
    if not merges:
        return []
    those = f"sprint{'' if len(merges) == 1 else 's'} {several(merges)}"
    return [
        f"! a merge because of the title alone, so git merges before anybody works: {those}",
        "  → add **Type**: merge to say so yourself, or **Type**: work",
    ]


def graph(
    plan: options.PlanFile,
    format_: Annotated[Format, typer.Option("--format", help="How to draw it.")] = "text",
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Draw what waits for what: waves, and the critical path."""
    built = require_graph(compile_plan(workspace.find(config_file=config), plan))
    drawing = draw.Drawing.of([_node(sprint, built) for sprint in built.plan.sprints], built.edges)
    data = drawing.to_json()
    if format_ in ("mermaid", "dot"):
        return Answer(data, lines((draw.mermaid if format_ == "mermaid" else draw.dot)(drawing)))
    return Answer(data, lambda console: draw.text(drawing, console), always_json=format_ == "json")


def _node(sprint: Sprint, built: Built) -> draw.Node:
    """A sprint that is poured is one box; its steps are told in JSON."""
    name = sprint.id.text
    molecule = built.molecules.get(name)
    members = molecule.members if molecule else ()
    steps = tuple(draw.DrawnStep(step.id, step.title, tuple(step.dependencies)) for step in members)
    formula = sprint.formula.value if sprint.formula else None
    bead = built.beads.get(name)
    team = bead.metadata.team_name if isinstance(bead, Bead) else ""
    own = (formula, steps, _merge_of(sprint, built), team)
    return draw.Node(name, built.ids[name], sprint.title, sprint.line, *own)


def diff(
    plan: options.PlanFile,
    store: options.Store = None,
    no_agent_check: options.NoAgentCheck = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Show what an edited plan would add, change or orphan in the store."""
    space = workspace.find(config_file=config)
    opened = cache(lambda: registry.open_store(space, store))
    met = reconcile(space, plan, lambda: opened().store, agent_check=not no_agent_check)
    return Answer(
        {"store": met.store.kind, **met.diff.to_json()},
        lambda console: differences.show(console, met.diff),
        tuple(dict.fromkeys((*met.built.warnings, *opened().warnings))),
    )


def status(
    plan: options.PlanFile,
    write: Annotated[bool, typer.Option("--write", help="Mark it in the plan itself.")] = False,
    store: options.Store = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Show what became of each sprint of a plan; --write marks it in the plan."""
    space = workspace.find(config_file=config)
    opened = cache(lambda: registry.open_store(space, store))
    met = reconcile(space, plan, lambda: opened().store, agent_check=False)
    found = plan_status.states(met)
    written, left = plan_status.write(plan, found) if write else (False, [])
    data = {
        "plan": str(plan),
        "store": met.store.kind,
        "sprints": [state.to_json() for state in found],
        "written": written,
        "not_marked": left,
    }
    rows = [f"{state.sprint}  {state.words}  {state.title}" for state in found]
    closed = sum(state.status == "closed" for state in found)
    summary = f"{closed} of {plural(len(found), 'sprint')} closed"
    notes = [f"{plan} is marked" if written else "the plan says so already"] if write else []
    notes += [f"! not marked, since it would read differently: sprint {name}" for name in left]
    return Answer(data, lines(*rows, summary, *notes), tuple(opened().warnings))


def compiled(space: Workspace, plan: Path, *, agent_check: bool = True) -> tuple[Setting, Built]:
    """A plan that has no faults, before any store is asked."""
    read = read_plan(plan)
    setting = plan_setting(space, read, agent_check=agent_check)
    built = build(read, setting)
    load.require_valid(built, [sprint.id.text for sprint in read.sprints])
    return setting, built
