"""Agent personas: how a plan names them, the files they live in, and the model each one runs on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import ValidationError

from beads_ralph.bead.legacy import SCRUM_MASTER
from beads_ralph.bead.model import CLAUDE, MODELS, AgentSpec, Bead
from beads_ralph.bead.names import AGENTS_DIR, persona_path
from beads_ralph.errors import Code, Fault

DASHES: Final = "\N{EN DASH}\N{EM DASH}-"  # the hyphen last, so that a character class takes it literally
DEFAULT_MODEL: Final = "sonnet"
AGENT: Final = re.compile(
    rf"(?P<name>[A-Za-z0-9_./-]+)\s*+(?:\((?P<program>[^()]*)\))?\s*+(?:[:{DASHES}]\s+(?P<note>.+))?",
    re.DOTALL,
)
PROGRAM_MODEL: Final = re.compile(r"(?P<executable>[A-Za-z0-9_./-]+):(?P<model>\S+)")
FRONT_MATTER: Final = re.compile(r"\ufeff?---\r?\n(.*?)\r?\n---\s*(?:\r?\n|$)", re.DOTALL)
BUILT_IN: Final = frozenset({CLAUDE, SCRUM_MASTER})
"""Personas that need no file: the plain CLI, and the scrum-master that this program plays itself."""


AgentRole = Literal["dev", "qa", "merge", "scrum-master"]


@dataclass(frozen=True)
class Persona:
    """A persona that an agent plays: an agent file, read."""

    name: str
    description: str = ""
    body: str = ""
    """The text below the front matter: the agent's standing instructions."""
    recommended_model: str | None = None
    tools: tuple[str, ...] = ()
    """Those it is meant to use; empty where the file does not say."""


def parse_agent(text: str) -> AgentSpec:
    """`name (model) - what to do`; the model is haiku, sonnet, opus, or PROGRAM:MODEL. Raises ValueError."""
    match = AGENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"cannot read {text!r} as an agent: write `name` (model) - what to do")
    given: dict[str, Any] = {"role": "polecat", "agent": persona_path(match["name"])}
    given |= _program(match["program"])
    if match["note"]:
        given["context"] = match["note"].strip()
    try:
        return AgentSpec.model_validate(given)
    except ValidationError as problem:
        raise ValueError("; ".join(fault["msg"] for fault in problem.errors())) from None


def _program(text: str | None) -> dict[str, str]:
    word = (text or "").strip()
    if not word:
        return {}
    if word.lower() in MODELS:
        return {"model": word.lower()}
    match = PROGRAM_MODEL.fullmatch(word)
    if match is None:
        raise ValueError(f"unknown model {word!r}: use one of {', '.join(MODELS)}, or PROGRAM:MODEL")
    return match.groupdict()


def persona_file(agent: str, root: Path) -> Path | None:
    """The file of a persona, None where its path does not name a file inside `.claude/agents/`.

    The path must stay inside; a link that the user put there may lead wherever they keep their agents.
    """
    folder = root / AGENTS_DIR
    path = Path(os.path.normpath(root / persona_path(agent)))
    try:
        return path if path.is_relative_to(folder) and path.is_file() else None
    except (OSError, ValueError):  # too long, a NUL byte in it
        return None


@dataclass(frozen=True)
class PersonaFiles:
    """The agent files of a repository at one moment: whoever changes them later steers nobody."""

    texts: Mapping[str, str] | None
    """By path, from the root; None where there is no folder of them."""

    @classmethod
    def taken(cls, root: Path) -> PersonaFiles:
        folder = root / AGENTS_DIR
        if not folder.is_dir():
            return cls(None)
        found = {path: persona_file(path, root) for path in _below(folder, root)}
        return cls({path: _text(file) for path, file in found.items() if file is not None})

    def find(self, agent: str) -> Persona | None:
        """The persona of that name; None where it has no file."""
        path = os.path.normpath(persona_path(agent))
        text = (self.texts or {}).get(path)
        return None if text is None else _parsed(text, Path(path))


def _below(folder: Path, root: Path) -> Iterable[str]:
    """Every file that a persona's path can name; folders may be links, also such as lead to themselves."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(place, name).relative_to(root).as_posix() for name in names if name.endswith(".md"))


def _text(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


def read_persona(path: Path) -> Persona:
    """An agent file; one without front matter is a persona all the same. OSError where there is none."""
    return _parsed(_text(path), path)


def _parsed(text: str, path: Path) -> Persona:
    match = FRONT_MATTER.match(text)
    facts = _front_matter(match[1]) if match else {}
    return Persona(
        name=str(facts.get("name") or path.stem),
        description=str(facts.get("description") or ""),
        body=(text[match.end() :] if match else text.removeprefix("\ufeff")).strip(),
        recommended_model=_model_word(facts.get("recommended_model")) or _model_word(facts.get("model")),
        tools=_tools(facts.get("tools")),
    )


def _front_matter(text: str) -> Mapping[str, Any]:
    """Nothing where it cannot be read: the model falls back to the defaults then."""
    try:
        said = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: the 99th of a month
        return {}
    return said if isinstance(said, dict) else {}


def _tools(value: Any) -> tuple[str, ...]:
    """`Bash, Read` or a list of names."""
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(word.strip() for word in words if isinstance(word, str) and word.strip())


def _model_word(value: Any) -> str | None:
    """Claude Code's own key may say `inherit`, which recommends nothing."""
    return value if isinstance(value, str) and value and value != "inherit" else None


def resolve_model(
    spec: AgentSpec,
    root: Path,
    *,
    default_model: str | None = None,
    role_models: Mapping[str, str] | None = None,
) -> str:
    """The model a persona runs on: its spec, its file, the role, the configured default, sonnet."""
    path = persona_file(spec.agent, root) if spec.model is None else None
    persona = read_persona(path) if path is not None else None
    return model_of(spec, persona, default_model=default_model, role_models=role_models)


def model_of(
    spec: AgentSpec,
    persona: Persona | None,
    *,
    default_model: str | None = None,
    role_models: Mapping[str, str] | None = None,
) -> str:
    """The same, where the persona is known already."""
    if spec.model is not None:
        return spec.model
    recommended = persona.recommended_model if persona is not None else None
    return recommended or (role_models or {}).get(spec.role) or default_model or DEFAULT_MODEL


def model_asked(program: str, model: str) -> str:
    """The model that a program is really asked for. Claude's own words mean nothing to any other, which then
    takes its default or has none: empty."""
    return model if program == CLAUDE or model not in MODELS else ""


def check_agents(bead: Bead, root: Path, file: str | None = None) -> list[Fault]:
    """A fault for each persona without a file; nothing is checked where there is no folder of them."""
    if not (root / AGENTS_DIR).is_dir():
        return []
    return [
        Fault(
            Code.CONSTRAINT,
            f"Agent path '{spec.agent}' does not exist in {AGENTS_DIR}",
            file=file,
            field=field,
            suggested_action=f"Create {persona_path(spec.agent)}, or name another agent",
        )
        for field, spec in _specs(bead)
        if persona_path(spec.agent) not in BUILT_IN and persona_file(spec.agent, root) is None
    ]


def _specs(bead: Bead) -> Iterable[tuple[str, AgentSpec]]:
    metadata = bead.metadata
    yield "metadata.scrum_master_agent.agent", metadata.scrum_master_agent
    for at, spec in enumerate(metadata.dev_agents):
        yield f"metadata.dev_agents.{at}.agent", spec
    for at, spec in enumerate(metadata.qa_agents):
        yield f"metadata.qa_agents.{at}.agent", spec


# --- sessions -----------------------------------------------------------------------------------------

AGENTS: Final[Mapping[str, AgentRole]] = {
    "scrum_master_agent": "scrum-master",
    "dev_agents": "dev",
    "qa_agents": "qa",
}
"""Where a bead's metadata keeps its agents, and what they do."""
SessionOf = Callable[[AgentRole, int, str | None], str | None]


def with_sessions(metadata: Mapping[str, Any], session: SessionOf) -> dict[str, Any]:
    """The agents of a bead, as JSON, with the session that each is in as its `agent_id`. `session` is asked
    with what the agent does, the how manieth of these it is, and its `agent_id` so far."""
    found: dict[str, Any] = {}
    for key, does in AGENTS.items():
        said = metadata.get(key)
        if isinstance(said, list):
            found[key] = [_in_session(row, does, seat, session) for seat, row in enumerate(said, 1)]
        elif said:
            found[key] = _in_session(said, does, 1, session)
    return found


def _in_session(row: Mapping[str, Any], does: AgentRole, seat: int, session: SessionOf) -> dict[str, Any]:
    known = session(does, seat, row.get("agent_id"))
    bare = {name: value for name, value in row.items() if name != "agent_id"}
    return bare | {"agent_id": known} if known else bare


def without_sessions(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as a plan has it: the agents' sessions are the runs' to fill in."""
    return {**metadata, **with_sessions(metadata, lambda *_: None)}
