"""Who plays an agent: its own program, and those that stand in for it, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead import personas
from beads_ralph.bead.model import CLAUDE, MODELS, AgentSpec, Bead, TemplateName
from beads_ralph.bead.names import MERGE, persona_path
from beads_ralph.prompts import guidance
from beads_ralph.session.order import Tools

SKIP: Final = "--dangerously-skip-permissions"


@dataclass(frozen=True)
class Player:
    """A program for an agent."""

    key: str
    """Whose limits it shares: the program's, or those of one model of it, where that stands in for the
    program itself."""
    spec: AgentSpec
    """The agent as this program is to be called."""

    @property
    def program(self) -> str:
        return self.spec.executable or CLAUDE


def players(spec: AgentSpec, tools: Tools) -> list[Player]:
    """The agent's own program first; nobody twice."""
    own = with_defaults(spec, tools)
    found = {own.executable or CLAUDE: own}
    entries = tools.config.agent_defaults.fallback if spec.fallback is None else spec.fallback
    for entry in entries:
        program, _, model = entry.partition(":")
        key = entry if program in found and model else program
        if key not in found and (program, model) != (own.executable, own.model):
            found[key] = _stand_in(spec, program, model, tools)
    return [Player(key, as_played) for key, as_played in found.items()]


def _stand_in(spec: AgentSpec, program: str, model: str, tools: Tools) -> AgentSpec:
    """The same agent for another program: options and models of the first one mean nothing to it."""
    chosen = model or _claude_model(spec, tools)
    changes: dict[str, Any] = {"executable": program, "model": chosen, "options": None, "fallback": []}
    return with_defaults(spec.model_copy(update=changes), tools)


def _claude_model(spec: AgentSpec, tools: Tools) -> str:
    """One of Claude's words, which every other CLI takes for its own default."""
    asked = _model(spec, tools)
    return asked if asked in MODELS else personas.DEFAULT_MODEL


def _model(spec: AgentSpec, tools: Tools) -> str:
    defaults = tools.config.agent_defaults
    return personas.resolve_model(
        spec, tools.root, default_model=defaults.default_model, role_models=defaults.role_models
    )


def with_defaults(spec: AgentSpec, tools: Tools) -> AgentSpec:
    """The configured program and options where the persona names none of its own."""
    defaults = tools.config.agent_defaults
    given = spec.model_fields_set
    changes: dict[str, str | list[str]] = {}
    if "executable" not in given or spec.executable is None:
        changes["executable"] = defaults.default_executable
    program = str(changes.get("executable", spec.executable))
    if spec.options is None and tools.select(program).name == CLAUDE:
        changes["options"] = list(defaults.default_options)
    return spec.model_copy(update=changes)


def of_bead(bead: Bead, tools: Tools) -> Iterator[list[str]]:
    """For each of a bead's agents, by their keys, those that can play it."""
    place = bead.metadata
    own = [place.scrum_master_agent] if names_scrum_master(bead) else []
    for spec in (*own, *place.dev_agents, *place.qa_agents):
        yield [player.key for player in players(spec, tools)]


def unasked(bead: Bead, tools: Tools) -> Iterator[str]:
    """The programs whose options let a bead's agents do whatever they like."""
    for spec in (*bead.metadata.dev_agents, *bead.metadata.qa_agents):
        own = with_defaults(spec, tools)
        if SKIP in (own.options or ()):
            yield own.executable or CLAUDE


def template_of(bead: Bead) -> TemplateName | None:
    """The prompt template of its developers; None where they are not told what to do by us."""
    if bead.issue_type == MERGE or names_scrum_master(bead):
        return None
    return bead.metadata.template or guidance.choose(bead.title, bead.metadata.dev_prompts)


def names_scrum_master(bead: Bead) -> bool:
    """Whether the bead has a scrum-master agent of its own; the usual one is this program itself."""
    return persona_path(bead.metadata.scrum_master_agent.agent) not in personas.BUILT_IN
