"""beads-ralph.yaml → Config: nested or flat keys, every fault at once, defaults for all the rest."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from beads_ralph import files, personas
from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.legacy import persona_path
from beads_ralph.models import AgentSpec, Verifier
from beads_ralph.schema import faults_of
from beads_ralph.values import Filled, Positive, SourceBranch

CONFIG_NAME: Final = "beads-ralph.yaml"
DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(value: Any) -> Any:
    """`30s`, `15m`, `1h30m` or a number of seconds."""
    if isinstance(value, str):
        parts = DURATION.findall(value)
        if parts and DURATION.sub("", value).strip() == "":
            return sum(float(number) * SECONDS[unit] for number, unit in parts)
    return value


def _agent(value: Any) -> Any:
    """An agent as in a plan's bullet, or spelled out as a mapping."""
    if isinstance(value, str):
        return personas.parse_agent(value)
    if isinstance(value, dict):
        spec = {"role": "polecat", **value}
        if isinstance(spec.get("agent"), str):
            spec["agent"] = persona_path(spec["agent"])
        return AgentSpec.model_validate(spec)
    return value


def _verifier(value: Any) -> Any:
    return Verifier(name=value, command=value) if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_duration), Field(gt=0, allow_inf_nan=False)]
Agent = Annotated[AgentSpec, BeforeValidator(_agent)]
Command = Annotated[Verifier, BeforeValidator(_verifier)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class PlanDefaults(Section):
    """What a sprint need not say itself. The plan's front matter has the same keys and goes first."""

    rig: Filled | None = None
    source_branch: SourceBranch | None = None
    branch_template: Filled | None = None
    worktree_root: Filled | None = None
    scrum_master: Agent | None = None
    dev_agents: list[Agent] | None = None
    qa_agents: list[Agent] | None = None
    team: Filled | None = None
    labels: list[Filled] | None = None
    priority: Annotated[int, Field(ge=0, le=4)] | None = None
    max_retry_attempts: Positive | None = None
    verify: list[Command] | None = None

    def over(self, weaker: PlanDefaults) -> PlanDefaults:
        """These defaults, with the weaker ones where these are silent."""
        return weaker.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class AgentDefaults(Section):
    default_model: Filled | None = None
    default_executable: Filled = "claude"
    default_options: list[str] = Field(default_factory=lambda: ["--dangerously-skip-permissions"])
    role_models: dict[str, str] = Field(default_factory=dict)


class Config(Section):
    """Every setting, flat, with its default."""

    store: Literal["auto", "embedded", "bd"] = "auto"
    bd_timeout: Seconds = 30.0
    plan: PlanDefaults = PlanDefaults()
    agent_defaults: AgentDefaults = AgentDefaults()
    max_parallel_sessions: Positive = 4
    poll_interval: Seconds = 30.0
    scrum_master_timeout: Seconds | None = None
    dev_agent_timeout: Seconds = 1800.0
    qa_agent_timeout: Seconds = 600.0
    max_retry_attempts: Positive = 3
    pr_creation_retries: Annotated[int, Field(ge=0)] = 3
    cleanup_on_complete: bool = False
    min_free_gb: Annotated[float, Field(ge=0)] = 5.0
    check_before_start: bool = True
    max_network_retries: Annotated[int, Field(ge=0)] = 3
    retry_backoff: Literal["exponential", "linear", "constant"] = "exponential"
    network_timeout: Seconds = 30.0
    logging: dict[str, Any] = Field(default_factory=dict)


SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "ralph": {},
    "disk": {},
    "timeouts": {
        "scrum_master": "scrum_master_timeout",
        "dev_agent": "dev_agent_timeout",
        "qa_agent": "qa_agent_timeout",
        "network": "network_timeout",
    },
    "retry": {
        "max_attempts": "max_retry_attempts",
        "pr_creation": "pr_creation_retries",
        "backoff": "retry_backoff",
    },
    "worktrees": {"root": "plan.worktree_root", "base": "plan.worktree_root"},
    "network": {
        "max_retries": "max_network_retries",
        "timeout": "network_timeout",
        "backoff": "retry_backoff",
    },
    "claude": {
        "model": "agent_defaults.default_model",
        "executable": "agent_defaults.default_executable",
        "options": "agent_defaults.default_options",
    },
}
"""Sections of the nested layout; inside one, a key means the flat key of the same name unless listed."""

SHORTCUTS: Final[Mapping[str, str]] = {
    **{name: f"plan.{name}" for name in PlanDefaults.model_fields if name not in Config.model_fields},
    **{name: f"agent_defaults.{name}" for name in AgentDefaults.model_fields},
    "repo_name": "plan.rig",
    "model": "agent_defaults.default_model",
}


def load(root: Path, explicit: Path | None = None) -> tuple[Config, list[Fault]]:
    """The configuration of a repository, and warnings about keys it does not know."""
    given = os.environ.get("BEADS_RALPH_CONFIG")
    named = explicit or (Path(given) if given else None)
    path = named or root / CONFIG_NAME
    if named is None and not path.exists():
        return Config(), []
    return parse(files.read_text(path), str(path))


def parse(text: str, file: str = CONFIG_NAME) -> tuple[Config, list[Fault]]:
    try:
        said = yaml.safe_load(text.removeprefix("\ufeff"))
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # ValueError: the 99th of a month
        said = str(getattr(problem, "problem", None) or problem).split("\n", maxsplit=1)[0]
        fault = Fault(Code.CONFIG_INVALID, f"not valid YAML: {said}", file=file, line=_line_of(problem, text))
        raise gathered([fault], file) from None
    if said is None:
        return Config(), []
    if not isinstance(said, dict):
        raise gathered([Fault(Code.CONFIG_INVALID, "must be a YAML mapping (key: value)", file=file)], file)
    try:
        config = Config.model_validate(_flat(said))
    except ValidationError as problem:
        raise gathered(_config_faults(problem, file), file) from None
    return config, _unknown(config, file)


def _line_of(problem: Exception, text: str) -> int | None:
    mark = getattr(problem, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    if isinstance(problem, yaml.reader.ReaderError):
        return text.count("\n", 0, problem.position) + 1
    return None


def plan_defaults(
    said: Mapping[str, Any], file: str, lines: Mapping[str, int]
) -> tuple[PlanDefaults, list[Fault], list[Fault]]:
    """Defaults out of a plan's front matter: what it sets, its faults, its warnings."""
    nested = said.get("beads-ralph")
    source = {**said, **nested} if isinstance(nested, dict) else dict(said)
    known = {key: value for key, value in source.items() if key in PlanDefaults.model_fields}
    try:
        defaults = PlanDefaults.model_validate(known)
    except ValidationError as problem:
        faults = _config_faults(problem, file, Code.PLAN_PATTERN)
        wrong = {(fault.field or "").split(".")[0] for fault in faults}
        rest = {key: value for key, value in known.items() if key not in wrong}
        return PlanDefaults.model_validate(rest), _at_lines(faults, lines), []
    return defaults, [], [_slip(key, file, lines.get(key)) for key in map(str, source) if _is_slip(key)]


def _flat(said: Mapping[Any, Any]) -> dict[str, Any]:
    """Both layouts in one: sections opened, shortcuts put where they belong."""
    flat: dict[str, Any] = {}
    for key, value in said.items():
        name = str(key)
        if value is None and name in (*SECTIONS, "plan", "agent_defaults"):
            continue  # a section whose keys are all commented out
        if name in SECTIONS and isinstance(value, dict):
            for inner, setting in value.items():
                _set(flat, SECTIONS[name].get(str(inner), str(inner)), setting)
        else:
            _set(flat, name, value)
    return flat


def _set(flat: dict[str, Any], name: str, value: Any) -> None:
    section, _, key = SHORTCUTS.get(name, name).rpartition(".")
    if not section:
        if isinstance(value, dict) and isinstance(flat.get(key), dict):
            value = {**flat[key], **value}
        flat[key] = value
        return
    inner = flat.setdefault(section, {})
    if isinstance(inner, dict):
        inner.setdefault(key, value)


def _config_faults(problem: ValidationError, file: str, code: Code = Code.CONFIG_INVALID) -> list[Fault]:
    return [
        Fault(code, fault.message.replace("field ", "key ", 1), file=file, field=fault.field)
        for fault in faults_of(problem, file)
    ]


def _at_lines(faults: list[Fault], lines: Mapping[str, int]) -> list[Fault]:
    return [
        Fault(
            fault.code,
            f"front matter: {fault.message}",
            fault.file,
            lines.get((fault.field or "").split(".")[0]),
        )
        for fault in faults
    ]


def _unknown(config: Config, file: str) -> list[Fault]:
    sections: list[Section] = [config, config.plan, config.agent_defaults]
    return [
        Fault(Code.CONFIG_INVALID, f"unknown key '{key}'{_hint(key)}", file=file, field=key)
        for section in sections
        for key in (section.model_extra or {})
    ]


def _known_keys() -> list[str]:
    return [*Config.model_fields, *PlanDefaults.model_fields, *AgentDefaults.model_fields]


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, _known_keys(), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _is_slip(key: str) -> bool:
    known = list(PlanDefaults.model_fields)
    return key not in known and bool(difflib.get_close_matches(key, known, n=1, cutoff=0.8))


def _slip(key: str, file: str, line: int | None) -> Fault:
    return Fault(Code.PLAN_PATTERN, f"front matter: unknown key '{key}'{_hint(key)}", file=file, line=line)
