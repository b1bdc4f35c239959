"""Who plays an agent: its own program, and those that stand in for it, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead import personas
from beads_ralph.bead.model import CLAUDE, MODELS, AgentSpec, Bead
from beads_ralph.bead.names import persona_path
from beads_ralph.bead.personas import PersonaFiles
from beads_ralph.config.model import AgentDefaults, Config

MERGE_SPECIALIST: Final = "merge-specialist"
"""The persona that `init` installs for merges."""


class AgentChoice(Protocol):
    """What decides which program plays an agent."""

    @property
    def personas(self) -> PersonaFiles:
        """The files of personas, which may recommend a model."""

    @property
    def config(self) -> Config:
        """The settings, with defaults for agents that name no program."""

    @property
    def select(self) -> Callable[[str], AgentCLI]:
        """The adapter of a program."""


@dataclass(frozen=True)
class Player:
    """A program for an agent."""

    key: str
    """Whose limits it shares: the program's, or those of one model of it, where that stands in for the
    program itself."""
    spec: AgentSpec
    """The agent as this program is to be called."""
    model: str = ""
    """The model that it is asked for; empty for its own default."""

    @property
    def program(self) -> str:
        return self.spec.executable or CLAUDE

    @property
    def setup(self) -> str:
        """The program with its model and the options of its own: with whom it shares faults of these."""
        name = f"{self.program}:{self.model}" if self.model else self.program
        return " ".join((name, *(self.spec.options or ())))


def players(spec: AgentSpec, choice: AgentChoice) -> list[Player]:
    """The agent's own program first; nobody twice."""
    entries = choice.config.agent_defaults.fallback if spec.fallback is None else spec.fallback
    spec = _overridden(spec, choice)
    own = with_defaults(spec, choice)
    found = {own.executable or CLAUDE: own}
    for entry in entries:
        program, _, model = entry.partition(":")
        key = entry if program in found and model else program
        if key not in found and (program, model) != (own.executable, own.model):
            found[key] = _stand_in(spec, program, model, choice)
    return [Player(key, own, _model_asked(own, choice)) for key, own in found.items()]


def _overridden(spec: AgentSpec, choice: AgentChoice) -> AgentSpec:
    """The agent as whoever started the run wants it played, whatever the plan says."""
    defaults = choice.config.agent_defaults
    program, model = defaults.override_executable, defaults.override_model
    if program and program != with_defaults(spec, choice).executable:
        return _stand_in(spec, program, model or "", choice)
    return spec.model_copy(update={"model": model}) if model else spec


def _stand_in(spec: AgentSpec, program: str, model: str, choice: AgentChoice) -> AgentSpec:
    """The same agent for another program: options and models of the first one mean nothing to it."""
    asked = model_of(spec, choice)  # one of Claude's words, which every other CLI takes for its own default
    chosen = model or (asked if asked in MODELS else personas.DEFAULT_MODEL)
    changes: dict[str, Any] = {"executable": program, "model": chosen, "options": None, "fallback": []}
    return with_defaults(spec.model_copy(update=changes), choice)


def model_of(spec: AgentSpec, choice: AgentChoice) -> str:
    defaults = choice.config.agent_defaults
    return personas.model_of(
        spec,
        choice.personas.find(spec.agent),
        default_model=defaults.default_model,
        role_models=defaults.role_models,
    )


def _model_asked(spec: AgentSpec, choice: AgentChoice) -> str:
    adapter = choice.select(spec.executable or CLAUDE).name
    return personas.model_asked(adapter, model_of(spec, choice))


def with_defaults(spec: AgentSpec, choice: AgentChoice) -> AgentSpec:
    """The configured program and options where the persona names none of its own."""
    defaults = choice.config.agent_defaults
    given = spec.model_fields_set
    changes: dict[str, str | list[str]] = {}
    if "executable" not in given or spec.executable is None:
        changes["executable"] = defaults.default_executable
    program = str(changes.get("executable", spec.executable))
    options = default_options(defaults, program, choice.select(program).name)
    if spec.options is None and options is not None:
        changes["options"] = list(options)
    return spec.model_copy(update=changes)


def default_options(defaults: AgentDefaults, program: str, adapter: str) -> list[str] | None:
    """Those of the program, however it is named, else of its adapter; None where nothing says any."""
    named = (defaults.program_options.get(name) for name in (program, adapter))
    own = next((options for options in named if options is not None), None)
    return own if own is not None or adapter != CLAUDE else defaults.default_options


def merger(spec: AgentSpec, choice: AgentChoice) -> AgentSpec:
    """Who resolves conflicts: the specialist where its file is there, played by the developer's program; else
    the developer. Claude takes the model that the file recommends."""
    if choice.personas.find(MERGE_SPECIALIST) is None:
        return spec
    own = with_defaults(spec, choice)
    changes: dict[str, Any] = {"agent": persona_path(MERGE_SPECIALIST), "context": None, "agent_id": None}
    if choice.select(own.executable or CLAUDE).name == CLAUDE:
        changes["model"] = None
    return spec.model_copy(update=changes)


def of_bead(bead: Bead, choice: AgentChoice) -> Iterator[list[str]]:
    """For each of a bead's agents, by their keys, those that can play it."""
    for spec in agents_of(bead):
        yield [player.key for player in players(spec, choice)]


def agents_of(bead: Bead) -> list[AgentSpec]:
    """The agents that a run may call for the bead."""
    place = bead.metadata
    own = [place.scrum_master_agent] if names_scrum_master(bead) else []
    return [*own, *place.dev_agents, *place.qa_agents]


def names_scrum_master(bead: Bead) -> bool:
    """True if the bead has a scrum-master agent of its own; the usual one is this program itself."""
    return persona_path(bead.metadata.scrum_master_agent.agent) not in personas.BUILT_IN
