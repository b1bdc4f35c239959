"""One step of a formula → the JSON of its bead, completed as mason completes a sprint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from beads_ralph.bead import run_state, schema
from beads_ralph.bead.model import AgentSpec, Metadata
from beads_ralph.bead.names import MERGE, SprintId
from beads_ralph.compile.setting import Place, Setting, id_word
from beads_ralph.compile.sprints import bead_json, tracking
from beads_ralph.config.kinds import Agent
from beads_ralph.config.model import PlanDefaults
from beads_ralph.errors import Code, Fault
from beads_ralph.formula.render import Ready
from beads_ralph.plan import At, Sprint

COMPLETED: Final = frozenset({"worktree_path"})
"""Fields that even a complete step may leave out, since they belong to the machine."""
REQUIRED: Final = frozenset(
    name for name, field in Metadata.model_fields.items() if field.is_required() and name not in COMPLETED
)
PLACE: Final = ("phase", "sprint", "plan_file", "plan_section", "plan_sprint_id")
"""Where in a plan a bead stands."""
AGENT_KEYS: Final = ("dev_agents", "qa_agents")
AGENT_FIELDS: Final = (*AGENT_KEYS, "scrum_master_agent")


@dataclass(frozen=True)
class Slot:
    """The molecule's decisions about a bead."""

    id: str
    sprint: SprintId
    waits: Sequence[str]
    branches: Mapping[str, str]
    """Id → branch, its own included."""
    alone: bool
    """True for the only bead of its molecule."""


def is_complete(step: Ready) -> bool:
    """True where its metadata has all required fields: then it is taken as it stands."""
    return step.metadata.keys() >= REQUIRED and not any(
        isinstance(agent, str) for key in AGENT_KEYS for agent in _listed(step.metadata[key])
    )


def branch_of(step: Ready, setting: Setting, place: Place, word: str, *, alone: bool) -> str:
    """The branch a step names, or the one it has, or one made of its sprint's or of its title."""
    given = _text(step.metadata, "branch")
    if given:
        return given
    named = place.sprint is not None and place.sprint.branch is not None
    known = place.known[step.key].metadata.branch if step.key in place.known else None
    if known is not None and not named and not setting.is_impossible(known):
        return known
    if place.branch is not None:
        return place.branch if alone else f"{place.branch}-{id_word(step.key)}"
    defaults = _defaults(setting, place)
    own = place.sprint.source_branch.value if place.sprint and place.sprint.source_branch else ""
    source = _text(step.metadata, "source_branch") or own or defaults.source_branch or ""
    return setting.branch(source, word, step.title, defaults)


def raw_bead(
    step: Ready, slot: Slot, setting: Setting, place: Place
) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The bead as JSON; None where something that a bead needs is nowhere said, or cannot be read."""
    shaped, faults = _shaped(step.metadata)
    defaults = _defaults(setting, place)
    for master in shaped.get("scrum_master_agent", ()):
        defaults = defaults.model_copy(update={"scrum_master": master})
    sprint = _sprint(step, shaped, slot, place)
    faults += _missing(sprint, defaults) if not is_complete(step) else []
    faults += _of_runs(step)
    if faults:
        return None, faults
    known = {slot.sprint.text: place.known[step.key]} if step.key in place.known else {}
    own = replace(setting, plan_file=place.file, known=known)
    branches = {**slot.branches, slot.sprint.text: slot.branches[slot.id]}
    raw = bead_json(sprint, own, defaults, {slot.sprint.text: slot.id}, slot.waits, branches)
    if step.assignee:
        raw["assignee"] = step.assignee
    made = {"formula": step.formula, "molecule": place.root_id, "step": step.key}
    if place.sprint is not None:  # however it is written, it must be found again as the plan's own
        made |= {key: raw["metadata"][key] for key in PLACE}
    if is_complete(step):
        whole = _as_it_stands(raw, step, tracking(own, defaults))
        whole["metadata"] |= made if place.sprint is not None else {}
        return whole, []
    raw["metadata"] |= {**dict(_own(step)), **made}
    return raw, []


def _as_it_stands(raw: dict[str, Any], step: Ready, counters: Mapping[str, Any]) -> dict[str, Any]:
    """Description, labels and metadata are the step's; only what belongs to the machine is filled in."""
    place = {key: raw["metadata"][key] for key in COMPLETED}
    metadata = {"branches_to_merge": None, **counters, **step.metadata, **place}
    return {**raw, "description": step.description, "labels": list(step.labels), "metadata": metadata}


def _own(step: Ready) -> Iterator[tuple[str, Any]]:
    """The step's own words take precedence over what was filled in; agents and paths are in shape already."""
    for key, value in step.metadata.items():
        if key == "dod":
            yield key, _with_commands(value)
        elif key not in AGENT_FIELDS and not (key in COMPLETED and isinstance(value, str)):
            yield key, value


def _with_commands(dod: Any) -> Any:
    """A check may be just its command, as in the settings."""
    if not isinstance(dod, dict) or not isinstance(dod.get("verifiers"), list):
        return dod
    checks = [{"name": one, "command": one} if isinstance(one, str) else one for one in dod["verifiers"]]
    return {**dod, "verifiers": checks}


# --- the step as a sprint ---------------------------------------------------------------------------


def _sprint(step: Ready, shaped: Mapping[str, Any], slot: Slot, place: Place) -> Sprint:
    """A sprint that says what the step says, over what the plan's own sprint says."""
    said = step.metadata
    base = place.sprint or Sprint(slot.sprint, step.title, f"{step.formula}: {step.key}", place.line or 0)
    tasks = _texts(said.get("dev_prompts")) or [*_told(step), *(task.value for task in base.tasks)]
    given: dict[str, Any] = {
        "worktree": _at(_text(said, "worktree_path") or _worktree(step, slot, base)),
        "source_branch": _at(_text(said, "source_branch")),
        "team": _at(_text(said, "team_name")),
        "dev_agents": _ats(shaped.get("dev_agents", ())),
        "qa_agents": _ats(shaped.get("qa_agents", ())),
        "criteria": _ats(_texts(said.get("acceptance_criteria"))),
        "branches_to_merge": _ats(_texts(said.get("branches_to_merge"))),
        "priority": _at(step.priority),
        "template": _at(said.get("template")),
    }
    return replace(
        base,
        id=slot.sprint,
        title=step.title,
        description=step.description.strip(),
        notes=tuple(note for note in (step.notes.strip(), base.description, *base.notes) if note),
        tasks=_ats(tasks),
        type=At(step.issue_type, 0),
        labels=_ats(dict.fromkeys([*step.labels, *(label.value for label in base.labels)])),
        depends_on=(),
        formula=None,
        **{name: value for name, value in given.items() if value not in (None, ())},
    )


def _told(step: Ready) -> list[str]:
    """The step's own words as a task. The title of a merge is none: git merges."""
    told = step.description.strip() or ("" if step.issue_type == MERGE else step.title)
    return [told] if told else []


def _worktree(step: Ready, slot: Slot, base: Sprint) -> str:
    """The folder that the plan's sprint names; each of several beads needs its own."""
    if base.worktree is None or slot.alone:
        return base.worktree.value if base.worktree else ""
    return f"{base.worktree.value}-{id_word(step.key)}"


def _missing(sprint: Sprint, defaults: PlanDefaults) -> list[Fault]:
    wanted = {
        "source_branch": sprint.source_branch or defaults.source_branch,
        "dev_agents": sprint.dev_agents or defaults.dev_agents,
        "qa_agents": sprint.qa_agents or defaults.qa_agents or sprint.verify or defaults.verify,
    }
    faults = []
    for key in (key for key, value in wanted.items() if not value):
        message = f"there is no {key}: neither the step nor the settings name one"
        action = f"Add {key} to the step's metadata, or to plan: in beads-ralph.yaml"
        faults.append(Fault(Code.MISSING_FIELD, message, None, None, f"metadata.{key}", action))
    return faults


def _of_runs(step: Ready) -> list[Fault]:
    faults = []
    for key in (key for key, value in step.metadata.items() if run_state.is_said(key, value)):
        message = f"field metadata.{key} {run_state.RESERVED}"
        action = f"Take {key} out of the step's metadata"
        faults.append(Fault(Code.CONSTRAINT, message, None, None, f"metadata.{key}", action))
    return faults


def _defaults(setting: Setting, place: Place) -> PlanDefaults:
    return place.defaults or setting.config.plan


# --- shapes -----------------------------------------------------------------------------------------

AGENT: Final[TypeAdapter[AgentSpec]] = TypeAdapter(Agent)


def _shaped(said: Mapping[str, Any]) -> tuple[dict[str, list[AgentSpec]], list[Fault]]:
    """Agents in the short form of a plan, or spelled out, as they are; and why others cannot be read."""
    shaped: dict[str, list[AgentSpec]] = {}
    faults: list[Fault] = []
    for key in (key for key in AGENT_FIELDS if key in said):
        entries = _listed(said[key]) if key in AGENT_KEYS else [said[key]]
        shaped[key] = []
        for at, entry in enumerate(entries):
            try:
                shaped[key].append(AGENT.validate_python(entry))
            except ValidationError as problem:
                faults += [_below(fault, f"metadata.{key}.{at}") for fault in schema.faults_of(problem)]
    return shaped, faults


def _below(fault: Fault, field: str) -> Fault:
    inner = f"{field}.{fault.field}" if fault.field else field
    message = fault.message.replace(f"field {fault.field}", f"field {inner}")
    return replace(fault, field=inner, message=message)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _texts(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def _at(value: Any) -> At[Any] | None:
    return None if value is None or value == "" else At(value, 0)


def _ats(values: Any) -> tuple[At[Any], ...]:
    return tuple(At(value, 0) for value in values)
