"""Beads as they were before schema 4.1a, and the way from there to here."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from beads_ralph.bead.field_types import Filled, FrozenModel, is_absolute, one_of
from beads_ralph.bead.model import Core, OutputSchema, WorkPlace
from beads_ralph.bead.names import AGENTS_DIR, persona_path
from beads_ralph.bead.run_state import RunState, ScrumResult

SCRUM_MASTER: Final = f"{AGENTS_DIR}beads-ralph-scrum-master.md"
LegacyModel = Literal["haiku", "sonnet", "opus"]
OldResult = Annotated[ScrumResult | str, one_of("a result object or a text")] | None


class QAAgent(FrozenModel):
    agent_path: Filled
    model: LegacyModel
    prompt: str | None = None
    output_schema: OutputSchema | None = None
    agent_type: str | None = None


class LegacyMetadata(RunState, WorkPlace):
    rig: Literal["beads-ralph"]
    worktree_path: Filled
    dev_agent_path: Filled
    dev_model: LegacyModel
    qa_agents: Annotated[list[QAAgent], Field(min_length=1)]
    agent_type: str | None = None
    team_name: Filled | None = None
    scrum_result: OldResult = None  # type: ignore[assignment]  # wider than today's


class LegacyBead(Core):
    """A bead of the first mason: one dev agent by path and model, QA agents by path."""

    metadata: LegacyMetadata


def looks_legacy(raw: dict[str, Any]) -> bool:
    """Schema 4.1a is known by its scrum-master; without one, the old agent fields tell."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict) or "scrum_master_agent" in metadata:
        return False
    return "dev_agents" not in metadata


def default_team(sprint: str, slug: str) -> str:
    return "-".join(part for part in ("sprint", sprint.replace(".", "-"), slug) if part)


def migrate(raw: dict[str, Any], root: Path, team_slug: str) -> dict[str, Any]:
    """The same bead in schema 4.1a; what is 4.1a already comes back unchanged."""
    if not looks_legacy(raw):
        return copy.deepcopy(raw)
    bead = copy.deepcopy(raw)
    metadata = bead["metadata"]
    _move_agents(metadata)
    metadata["worktree_path"] = _absolute_worktree(metadata.get("worktree_path"), root)
    if not metadata.get("team_name"):
        metadata["team_name"] = default_team(str(metadata.get("sprint", "")), team_slug)
    if isinstance(metadata.get("scrum_result"), str):
        metadata["scrum_result_text"] = metadata.pop("scrum_result")
        metadata["scrum_result"] = None
    return bead


def _move_agents(metadata: dict[str, Any]) -> None:
    dev: dict[str, Any] = {"role": "polecat"}
    if "dev_agent_path" in metadata:
        dev["agent"] = _persona(metadata.pop("dev_agent_path"))
    if "dev_model" in metadata:
        dev["model"] = metadata.pop("dev_model")
    metadata.pop("agent_type", None)  # always a worker: the role says so now
    metadata["scrum_master_agent"] = {"role": "polecat", "agent": SCRUM_MASTER, "model": "sonnet"}
    metadata["dev_agents"] = [dev]
    qa_agents = metadata.get("qa_agents")
    if isinstance(qa_agents, list):
        metadata["qa_agents"] = [_qa_spec(agent) if isinstance(agent, dict) else agent for agent in qa_agents]


def _qa_spec(old: dict[str, Any]) -> dict[str, Any]:
    renamed = {"agent_path": "agent", "prompt": "context"}
    spec: dict[str, Any] = {"role": "polecat"}
    for key, value in old.items():
        if key == "agent_path":
            spec["agent"] = _persona(value)
        elif key != "agent_type":
            spec[renamed.get(key, key)] = value
    return spec


def _persona(path: Any) -> Any:
    """What is no text stays as it is, for the validation to name."""
    return persona_path(path) if isinstance(path, str) and path.strip() else path


def _absolute_worktree(path: Any, root: Path) -> Any:
    if not isinstance(path, str) or not path.strip() or is_absolute(path):
        return path
    return os.path.normpath(root / path)
