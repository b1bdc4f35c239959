"""Every command: its name, the function that answers it, and the line that --help has for it.

A module is imported when its command runs, and none of them for --help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.errors import Code, RalphError

PROGRAM: Final = "beads-ralph"


@dataclass(frozen=True)
class Command:
    """`module:function` in this package, and its help."""

    target: str
    help: str
    changes: bool = False
    """It changes beads or starts agents: agents of a run may not call it on the run's own repository."""


@dataclass(frozen=True)
class Group:
    """Commands below a word of their own."""

    help: str
    commands: Mapping[str, Command | Group]
    default: str = ""
    """The command meant where the next word is none of them."""
    bare_is_help: bool = False
    """True if the word alone asks for help; otherwise it is a slip."""


# --- options ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """An option or argument, as a command says it. Typer is told the same where typer parses; a command that
    is in a hurry parses plain words by it (`cli/quick.py`), and typer is not even imported."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


class Option(Parameter):
    """An option, by its names."""

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__(names, settings)


class Argument(Parameter):
    """A word that belongs to no option."""

    def __init__(self, **settings: Any) -> None:
        super().__init__((), settings)


# --- the table --------------------------------------------------------------------------------------

COMMANDS: Final[Mapping[str, Command | Group]] = {
    "init": Command(
        "init:init",
        "Set up this repository: settings, folders, store, agent files. What exists is kept.",
        changes=True,
    ),
    "doctor": Command(
        "doctor:doctor", "Check everything the program needs, and say how to fix what is missing."
    ),
    "help": Command(
        "help:show_help",
        "Show a page of the documents in the terminal, or the help of a command; alone: list the pages.",
    ),
    "agents": Command(
        "agents:agents", "List the agent programs: which are here, in which version, signed in or not."
    ),
    "demo": Command(
        "demo:demo",
        "Watch the main job: a sample plan worked through in a scratch repository, without any model.",
    ),
    "mason": Command(
        "mason:mason",
        "Compile a plan into beads and put them into the store: all of them, or none.",
        changes=True,
    ),
    "pour": Command(
        "pour:pour", "Pour a formula: its steps become beads, all of them or none.", changes=True
    ),
    "run": Command(
        "run:run",
        "Work through the ready beads with agents until nothing is left, and say why it ended.",
        changes=True,
    ),
    "status": Command("status:status", "Show what is at work, what is done and what is blocked."),
    "board": Command(
        "watching:board", "Watch a run and steer it on a board in the terminal; looking changes nothing."
    ),
    "serve": Command(
        "serve:serve",
        "Show the board in the browser: look at a run and steer it, until Ctrl-C.",
        changes=True,
    ),
    "logs": Command(
        "logs:logs",
        "Print what the agents and checks of a bead did, oldest first.",
    ),
    "events": Command(
        "events:show_events", "Print the journal of a run; by default the latest that did something."
    ),
    "report": Command(
        "report:report",
        "Say what a run did, also one that was killed; with --html as a page to keep or to send.",
    ),
    "worker": Command(
        "worker:worker",
        "Take beads of runs on other machines and work on them here, until Ctrl-C.",
    ),
    "runs": Group(
        "The runs of this repository: when, why each ended, what it closed and what it cost.",
        {
            "list": Command(
                "runs:list_runs",
                "List the runs, oldest first: when, how long, why each ended, what it closed and what it "
                "cost.",
            ),
            "show": Command(
                "runs:show", "Show what a run did: each bead, its attempts, its cost, and why the run ended."
            ),
        },
        bare_is_help=True,
    ),
    "analyze": Command(
        "analyze:analyze",
        "Learn from the records of past runs: rates, times, costs, failures, recommendations.",
    ),
    "tune": Command(
        "tune:tune",
        "Propose settings from the records of past runs, as a diff, and tell what became of earlier ones.",
        changes=True,
    ),
    "forecast": Command(
        "forecast:forecast",
        "Say how long what is left of a plan will take and cost, with a range, from the records of "
        "past runs.",
    ),
    "prompt": Command(
        "prompt:prompt", "Print the prompt that an agent of a bead would get now; nothing is started."
    ),
    "sessions": Command(
        "sessions:sessions", "List the calls of agents on a bead, and the sessions one can ask."
    ),
    "ask": Command(
        "sessions:ask",
        "Ask an agent a question in its recorded session, and print the answer.",
        changes=True,
    ),
    "pause": Command(
        "orders:pause",
        "Pause the running loop: what runs goes on, nothing new starts until it is resumed.",
        changes=True,
    ),
    "resume": Command("orders:resume", "Resume a paused loop.", changes=True),
    "stop": Command("orders:stop", "Stop the running loop once what runs has finished.", changes=True),
    "retry": Command(
        "reopen:retry",
        "Open a blocked bead again, or one closed without a proof; repair one that cannot be read.",
        changes=True,
    ),
    "release": Command("reopen:release", "Release a bead held by a run that died.", changes=True),
    "clean": Command(
        "clean:clean",
        "Remove the worktrees of closed beads whose work is merged or pushed; keep all others.",
        changes=True,
    ),
    "close": Command(
        "close:close",
        "End a person's step: a task that is done, a gate that may be passed. Beads are closed by a run.",
        changes=True,
    ),
    "accept": Command(
        "close:accept",
        "Accept as done a bead that no run has proven; it is shown as accepted, by whom and why.",
        changes=True,
    ),
    "exec": Command(
        "ralph_beads:exec_beads",
        "Work on Ralph beads in this folder until their verifiers hold: no git and no store are needed.",
        changes=True,
    ),
    "prove": Command(
        "prove:prove",
        "Run a change's tests without its product code and with it, and say whether that proves it.",
    ),
    "import": Command(
        "ralph_beads:import_beads",
        "Put Ralph beads into the store, all or none; their verifiers become their Definition of Done.",
        changes=True,
    ),
    "export": Command(
        "ralph_beads:export_beads", "Print beads of the store as Ralph beads, with how far they are."
    ),
    "list": Command("list:list_beads", "List the beads in the store, and the steps that are for people."),
    "ready": Command(
        "ready:ready", "List the beads that can start now, and the steps that a person can do now."
    ),
    "show": Command("show:show", "Show beads in full."),
    "validate": Command(
        "bead_files:validate", "Check bead files against the schema; every fault with its field path."
    ),
    "migrate": Command(
        "bead_files:migrate",
        "Convert beads older than schema 4.1a to 4.1a, in place; those that are 4.1a stay as they are.",
    ),
    "schema": Command(
        "bead_files:print_schema", "Print the JSON Schema of a bead, of one of its parts, or of the settings."
    ),
    "engine": Group(
        "The development server for sessions on other machines.",
        {
            "start": Command(
                "engine:start", "Start the development server, or find it running.", changes=True
            ),
            "status": Command("engine:status", "Say whether it runs and answers; exit 1 where it does not."),
            "stop": Command("engine:stop", "Stop it; what it knows stays in its database.", changes=True),
        },
        bare_is_help=True,
    ),
    "notify": Group(
        "Messages to you: what needs you, what is ready.",
        {
            "test": Command(
                "notify:try_out",
                "Send a message to every channel of the settings; exit 1 where one did not take it.",
            ),
        },
        bare_is_help=True,
    ),
    "config": Group(
        "See the settings, where they come from and what they mean.",
        {
            "show": Command("config:show", "Show every setting in effect here, and where it comes from."),
            "set": Command(
                "config:set_key",
                "Set one key in the settings file; comments and everything else stay as they are.",
                changes=True,
            ),
            "explain": Command(
                "config:explain", "Explain a setting: what it means, what it may be, its default, an example."
            ),
        },
    ),
    "plan": Group(
        "Check, draw and compare plans.",
        {
            "check": Command(
                "plan:check", "Find every fault of a plan at once; exit 0 only when there is none."
            ),
            "import": Command(
                "plan_import:import_plan",
                "Write a plan from that of another tool: a ralphex plan, or the stories of a prd.json.",
            ),
            "graph": Command("plan:graph", "Draw what waits for what: waves, and the critical path."),
            "diff": Command(
                "plan:diff", "Show what an edited plan would add, change or orphan in the store."
            ),
            "status": Command(
                "plan:status", "Show what became of each sprint of a plan; --write marks it in the plan."
            ),
        },
    ),
    "formula": Group(
        "Patterns of work: list, show, check, find in a plan, make.",
        {
            "list": Command(
                "formula:list_formulas",
                "List the formulas that can be poured here, and where each one comes from.",
            ),
            "show": Command(
                "formula:show",
                "Show a formula: its variables, its steps as a graph, and what pouring it makes.",
            ),
            "check": Command(
                "formula:check", "Find every fault of formulas at once; exit 0 only when there is none."
            ),
            "find": Command(
                "formula_find:find",
                "Report sprints and phases that repeat, and the formulas that could replace them.",
            ),
            "make": Command(
                "formula_make:make",
                "Write a formula that gives these sprints back, with what varies between them as variables.",
            ),
        },
        bare_is_help=True,
    ),
    "wisp": Group(
        "Temporary pours, kept out of runs until they are removed.",
        {
            "pour": Command(
                "pour:pour_wisps", "Pour a formula as wisps; `wisp NAME` is short for it.", changes=True
            ),
            "list": Command(
                "wisp:list_wisps", "List the wisps; those that nobody touched for a day are marked as old."
            ),
            "gc": Command(
                "wisp:collect",
                "Remove wisps that are finished or that nobody touches; what is in progress stays.",
                changes=True,
            ),
            "burn": Command("wisp:burn", "Remove a wisp with everything below it, for good.", changes=True),
        },
        default="pour",
        bare_is_help=True,
    ),
    "convoy": Group(
        "Sets of beads across plans, followed until all are closed.",
        {
            "create": Command("convoy:create", "Make a convoy that follows these beads.", changes=True),
            "add": Command(
                "convoy:add",
                "Add to a convoy; a closed one opens again if any of them is not closed.",
                changes=True,
            ),
            "show": Command(
                "convoy:show", "Show what a convoy follows, how far each is, and what holds it up."
            ),
            "list": Command(
                "convoy:list_convoys", "List the convoys that are not closed, each with how far it is."
            ),
        },
        bare_is_help=True,
    ),
    "gate": Group(
        "Checks of the repository as a whole; while one is red, no feature starts.",
        {
            "list": Command("gate:list_gates", "List the gates, as they are known; nothing is run."),
            "status": Command(
                "gate:status",
                "Say whether features may start, as it is known; exit 1 where a gate is red. Nothing is run.",
            ),
            "check": Command(
                "gate:check",
                "Run the gates' verifiers; a green gate is closed, a red one is open again. Exit 1 where "
                "one is red.",
                changes=True,
            ),
        },
    ),
    "state": Group(
        "Check and repair run and result records.",
        {
            "validate": Command(
                "state:validate",
                "Check records against their schemas, their runs and the store; every fault with its field.",
            ),
            "fix": Command(
                "state:fix",
                "Bring older records up to date, keeping each as it was beside it (.bak), then validate.",
                changes=True,
            ),
        },
        bare_is_help=True,
    ),
}


def refuse_agents(name: str) -> None:
    """An agent of a run changes no beads of it, whatever a file told it to do."""
    from beads_ralph.config import workspace
    from beads_ralph.journal import callers

    run_id = callers.run_behind(workspace.place().home)
    if run_id:
        message = f"{PROGRAM} {name} is not for agents: this process works for run {run_id}"
        raise RalphError(Code.NOT_FOR_AGENTS, message)


PANELS: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": ("init", "help", "doctor", "agents", "demo", "config", "notify", "engine"),
    "Work": ("run", "worker", "mason", "pour", "exec", "pause", "resume", "stop"),
    "Look": ("board", "serve", "status", "list", "ready", "show", "logs", "events", "runs", "report"),
    "Decide": ("retry", "release", "close", "accept", "ask", "sessions", "prompt", "clean"),
    "Plan": ("plan", "formula", "wisp", "convoy", "gate", "forecast", "analyze", "tune", "prove"),
    "Files": ("import", "export", "validate", "migrate", "schema", "state"),
}
"""The commands in groups, as --help shows them."""
PANEL_OF: Final = {name: panel for panel, names in PANELS.items() for name in names}
