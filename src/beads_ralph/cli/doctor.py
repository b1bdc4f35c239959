"""doctor: what the program needs and what it finds, each with what to do."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from beads_ralph.agents.probe import Present, numbers, version_of
from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import plural, several
from beads_ralph.cli import options
from beads_ralph.cli.agents import candidates, scene_here
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import escape
from beads_ralph.compile.preflight import MORE_SPACE, Obstacle, RunScene, free_gb
from beads_ralph.config import workspace
from beads_ralph.config.model import Config
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod.imports import is_gate
from beads_ralph.errors import RalphError
from beads_ralph.forge.protocol import Forge
from beads_ralph.git import commands
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal.proofs import Ledger, LedgerRow
from beads_ralph.loop import closed_beads, preflight
from beads_ralph.process import jobs, sandbox
from beads_ralph.process.calls import ends_as_ctrl_c, side_by_side
from beads_ralph.session import confinement
from beads_ralph.store import registry
from beads_ralph.store.query import Query

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["found", "missing", "unknown"]
MARKS: Final = {"found": "[green]✓[/green]", "missing": "[red]✗[/red]", "unknown": "[yellow]?[/yellow]"}


def doctor(json_: options.Json = False) -> Answer:
    """Check everything the program needs, and say how to fix what is missing."""
    with ends_as_ctrl_c():
        checks = examine(Path.cwd())
    bad = [check for check in checks if check.required and check.status != "found"]
    data = {"healthy": not bad, "checks": [check.to_json() for check in checks]}
    return Answer(data, lambda console: _show_checks(console, checks), exit_code=1 if bad else 0)


def _show_checks(console: Console, checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        need = " [red](needed)[/red]" if check.required and check.status != "found" else ""
        console.print(f"{MARKS[check.status]} {check.name:<{width}}  {escape(check.detail)}{need}")
        if check.action and check.status != "found":
            console.print(f"  {' ' * width}[dim]→ {escape(check.action)}[/dim]")


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    name: str
    status: Status
    detail: str
    action: str = ""
    required: bool = False
    version: str | None = None

    def to_json(self) -> dict[str, Any]:
        words = ("name", "status", "version", "detail", "action", "required")
        return {word: getattr(self, word) for word in words}


@dataclass(frozen=True)
class Program:
    """A command that we may use."""

    name: str
    purpose: str
    action: str
    version_args: tuple[str, ...] = ("--version",)
    required: bool = False


PROGRAMS: Final = (
    Program("git", "worktrees, branches, merges", "Install git 2.33 or newer", required=True),
    Program("bd", "the bd store", "Install bd 1.3 or newer, or use the embedded store"),
    Program("tmux", "watching agents in panes", "Install tmux (apt-get install tmux)", ("-V",)),
    Program("gh", "pull requests on GitHub", "Install gh and run: gh auth login"),
)


def examine(here: Path) -> list[Check]:
    """Every check; slow probes run side by side."""
    programs = side_by_side(_program, PROGRAMS)
    version = platform.python_version()
    python = Check("python", "found", f"Python {version}", version=version, required=True)
    try:
        space = workspace.find(here)
    except RalphError as error:
        broken = Check("settings", "missing", error.message, error.suggested_action, required=True)
        place = [_repository(here), broken, _sandbox(Config()), _disk(here, Config())]
        return [python, _sqlite(), *programs, *place]
    scene = scene_here(space)
    agents = side_by_side(lambda one: one.seen(scene), candidates(scene).values())
    return [python, _sqlite(), *programs, *map(_agent, agents), *_place(here, scene)]


def _agent(found: Present) -> Check:
    """An agent's program; whether one that is missing is needed, the agents say."""
    use = (
        f"used here{' with ' + ', '.join(found.models) if found.models else ''}" if found.used else "not used"
    )
    if found.path is None:
        return Check(found.name, "missing", f"not on PATH (agent CLI, {use})", found.action)
    if found.version is None and found.tested:
        action = f"Run {found.name} --version by hand and see what it says"
        return Check(found.name, "unknown", f"{found.path} does not report its version ({use})", action)
    signed = {"yes": "signed in", "no": "not signed in", "unknown": "sign-in unknown"}[found.signed_in]
    provider = f"provider {found.provider}" if found.provider else ""
    facts = ", ".join(filter(None, ("agent CLI", use, signed, provider, found.untested)))
    lacks = found.used and found.signed_in == "no"
    status: Status = "unknown" if lacks else "found"
    return Check(
        found.name, status, f"{found.version or found.path} ({facts})", found.action, version=found.version
    )


def _sqlite() -> Check:
    version = sqlite3.sqlite_version
    status: Status = "found" if sqlite3.sqlite_version_info >= (3, 35) else "missing"
    action = "Use a Python built with SQLite 3.35 or newer"
    return Check("sqlite", status, f"SQLite {version}", action, required=True, version=version)


def _program(program: Program) -> Check:
    path = jobs.which(program.name)
    if path is None:
        detail = f"not on PATH ({program.purpose})"
        return Check(program.name, "missing", detail, program.action, program.required)
    version = version_of(path, program.version_args)
    if version is None:
        action = f"Run {program.name} {' '.join(program.version_args)} by hand and see what it says"
        return Check(program.name, "unknown", f"{path} does not report its version", action, program.required)
    if program.name == "bd" and numbers(version) < (1, 3):
        detail = f"bd {version} is too old ({program.purpose})"
        return Check("bd", "missing", detail, program.action, program.required, version)
    return Check(program.name, "found", f"{version} ({program.purpose})", "", program.required, version)


def _place(here: Path, scene: RunScene) -> list[Check]:
    """The repository, its settings, its store, its disk."""
    space, config = scene.space, scene.config
    store = _store(space)
    there = store.status == "found"
    proofs = [_proofs(space)] if there else []
    run = _preflight(scene, stored=there) if space.repository else []
    place = [_repository(here), _settings(space), store, *proofs]
    engine = [] if config.engine == "local" else [_engine(config)]
    return [*place, *engine, _sandbox(config), _disk(space.root, config), *run]


def _engine(config: Config) -> Check:
    """The server of sessions on other machines, and the workers that ask it for beads."""
    import asyncio

    from beads_ralph.app.many_machines import require_temporal

    try:
        require_temporal()
        from beads_ralph.engine.temporal import health

        seen = asyncio.run(health.look(config.temporal))
    except RalphError as error:
        return Check("engine", "missing", error.message, error.suggested_action, required=True)
    said = config.temporal
    place = f"Temporal {seen.version} at {said.address}, namespace {said.namespace}"
    if not seen.workers:
        detail = f"{place}; no worker has asked for beads of {said.task_queue} in the last minutes"
        return Check("engine", "unknown", detail, "On each host: beads-ralph worker", version=seen.version)
    workers = f"{plural(len(seen.workers), 'worker')}: {several(seen.workers)}"
    return Check("engine", "found", f"{place}; {workers}", version=seen.version)


def _preflight(scene: RunScene, *, stored: bool) -> list[Check]:
    """What a run would refuse, or a person should know before it starts."""
    chosen, refusal = _forge(scene.space)
    found = preflight.examine(replace(scene, forge=chosen)) | ({"push": [refusal]} if refusal else {})
    target = chosen.push_target() if chosen else None
    told = {"push": f"bead branches are pushed to {target}" if target else "nothing is pushed"}
    published = [_published(scene.space, chosen)] if stored and chosen and target else []
    return published + [
        _foreseen(name, problems, len(scene.beads), told.get(name))
        for name, problems in found.items()
        if name != "disk"
    ]


def _published(space: Workspace, forge: Forge) -> Check:
    """Closed beads whose proven commit the remote does not hold, or whose pull request people have closed."""
    rows = Ledger(space.home).rows()
    beads = registry.open_store(space).store.find(Query(statuses=["closed"])).beads
    pushed = {
        bead.metadata.branch: bead
        for bead in beads
        if closed_beads.is_proven(bead, rows.get(bead.id)) and bead.metadata.pr_url
    }
    try:
        held = forge.held(sorted(pushed)) or {}
        doubts = [why for branch, bead in pushed.items() if (why := _astray(forge, bead, held.get(branch)))]
        declined = forge.declined(sorted(pushed))
    except RalphError as error:
        return Check("pull requests", "unknown", error.message, error.suggested_action)
    doubts += [f"{pushed[name].id}: {where} was closed without a merge" for name, where in declined.items()]
    if not doubts:
        return Check("pull requests", "found", f"{plural(len(pushed), 'closed bead')} as proven, or merged")
    action = "Look at the pull request; beads-ralph retry BEAD --again redoes the work"
    return Check("pull requests", "missing", "; ".join(doubts), action)


def _astray(forge: Forge, bead: Bead, there: str | None) -> str:
    place = bead.metadata
    commit = place.proven.commit if place.proven else None
    if commit is None or there == commit or forge.is_taken(place.branch, place.source_branch, commit):
        return ""
    return f"{bead.id}: {place.branch} is {there[:12] if there else 'gone'} on the remote, not {commit[:12]}"


def _forge(space: Workspace) -> tuple[Forge | None, Obstacle | None]:
    """Asked once: whoever calls the doctor waits for it."""
    from beads_ralph import app

    try:
        return app.forge_of(space.root, space.config.model_copy(update={"max_network_retries": 0})), None
    except RalphError as error:
        return None, Obstacle(error)


def _foreseen(name: str, problems: Sequence[Obstacle], beads: int, said: str | None) -> Check:
    if not problems:
        return Check(name, "found", said or f"a run would find no fault ({plural(beads, 'bead')} to start)")
    told = {problem.error.message: problem for problem in problems}
    of_beads = {problem.bead: problem for problem in problems if problem.bead}
    whose = f" ({several(sorted(of_beads))})" if of_beads else ""
    actions = dict.fromkeys(filter(None, (problem.error.suggested_action for problem in problems)))
    action = several(list(actions), "; ")
    if all(problem.remark for problem in problems):
        return Check(name, "unknown", "; ".join(told), action)
    return Check(name, "missing", "; ".join(told) + whose, action, required=True)


def _proofs(space: Workspace) -> Check:
    """Closed beads that nobody has proven or accepted, or whose branch does not hold what was proven."""
    rows = Ledger(space.home).rows()
    beads = registry.open_store(space).store.find(Query()).beads
    closed = [bead for bead in beads if bead.status == "closed" and not is_gate(bead)]
    found = {bead.id: _doubt(bead, rows.get(bead.id), space.root) for bead in closed}
    doubts = [f"{bead}: {why}" for bead, why in found.items() if why]
    if not doubts:
        return Check("proofs", "found", f"{plural(len(closed), 'closed bead')}, each proven or accepted")
    action = "beads-ralph accept BEAD where the work is done, or beads-ralph retry BEAD"
    return Check("proofs", "missing", "; ".join(doubts), action)


def _doubt(bead: Bead, row: LedgerRow | None, root: Path) -> str:
    _, why = closed_beads.trust(bead, row, before=True)
    proof = bead.metadata.proven
    if not closed_beads.is_proven(bead, row) or proof is None or not proof.commit:
        return why
    branch = f"{HEADS}{bead.metadata.branch}"
    there = commands.commit_of(branch, root)
    if there is None or there == proof.commit or commands.contains(root, branch, proof.commit):
        return ""  # a branch that is gone was merged, or cleaned up
    return f"its branch {bead.metadata.branch} holds {there[:12]}, not the proven {proof.commit[:12]}"


def _sandbox(config: Config) -> Check:
    """Tried for real: bubblewrap may be there and not be allowed."""
    refusal = sandbox.problem(network=config.sandbox_network)
    needed = config.sandbox == "bwrap"
    if refusal is None:
        how = f"not in use; sandbox: none: {confinement.MEANS}" if config.sandbox == "none" else "in use"
        rooms = "rooms of their own" if config.verifier_sandbox == "auto" else "no rooms of their own"
        return Check("sandbox", "found", f"bubblewrap works ({how}); checks get {rooms}", required=needed)
    told = f"{refusal.message}; checks get no rooms of their own"
    detail = told if needed else f"{told}: {confinement.MEANS}"
    return Check("sandbox", "missing", detail, refusal.suggested_action, required=needed)


def _repository(here: Path) -> Check:
    try:
        found = commands.find(here)
    except RalphError as error:
        return Check("repository", "unknown", error.message, error.suggested_action)
    if found is None:
        none = commands.no_repository(here)
        return Check("repository", "missing", none.message, none.suggested_action)
    return Check("repository", "found", f"{found.root}, on {found.current_branch() or 'no branch'}")


def _settings(space: Workspace) -> Check:
    path = space.root / CONFIG_NAME
    if not path.exists():
        return Check("settings", "missing", f"no {path.name}; defaults apply", "Run: beads-ralph init")
    doubts = "; ".join(warning.message for warning in space.warnings)
    return Check("settings", "found", f"{path.name}" + (f" ({doubts})" if doubts else ""))


def _store(space: Workspace) -> Check:
    if not space.home.exists() and not registry.has_bd_database(space.root):
        return Check("store", "missing", "no store here yet", "Run: beads-ralph init")
    try:
        opened = registry.open_store(space)
        info = opened.store.check()
    except RalphError as error:
        return Check("store", "missing", error.message, error.suggested_action, required=True)
    return Check("store", "found", f"{opened.why}: {info.location}", version=info.version)


def _disk(place: Path, config: Config) -> Check:
    free = free_gb(place)
    detail = f"{free:.1f} GB free, {config.min_free_gb:g} GB needed"
    status: Status = "found" if free >= config.min_free_gb else "missing"
    return Check("disk", status, detail, MORE_SPACE)
