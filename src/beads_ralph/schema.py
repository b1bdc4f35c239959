"""Raw JSON → beads, with every fault named by its field path; JSON Schema; migration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from beads_ralph import legacy
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.legacy import LegacyBead, LegacyMetadata, QAAgent
from beads_ralph.models import (
    AgentSpec,
    Bead,
    DevExecution,
    Dod,
    Metadata,
    QAExecution,
    QAOutput,
    QAResult,
    ScrumResult,
    Verifier,
)
from beads_ralph.slugs import slug

SHOWN_LENGTH: Final = 60
SchemaName = Literal["auto", "4.1a", "legacy"]

MODELS: Final[dict[str, type[BaseModel]]] = {
    "Bead": Bead,
    "Metadata": Metadata,
    "AgentSpec": AgentSpec,
    "DevExecution": DevExecution,
    "QAExecution": QAExecution,
    "QAOutput": QAOutput,
    "QAResult": QAResult,
    "ScrumResult": ScrumResult,
    "Dod": Dod,
    "Verifier": Verifier,
    "LegacyBead": LegacyBead,
    "LegacyMetadata": LegacyMetadata,
    "QAAgent": QAAgent,
}


@dataclass(frozen=True)
class Checked:
    """The outcome of validating one raw bead: the bead or its faults, and warnings either way."""

    bead: Bead | LegacyBead | None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a model, by name; `BeadRalphBead` is the seed's word for Bead."""
    model = MODELS.get({"BeadRalphBead": "Bead"}.get(name, name))
    if model is None:
        choice = f"Choose one of: {', '.join(MODELS)}"
        raise RalphError(Code.USAGE, f"there is no schema named {name!r}", suggested_action=choice)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def load_json(text: str, file: str | None = None) -> Any:
    """Parse JSON; NaN and Infinity are not JSON, and no store keeps them."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as problem:
        line = problem.lineno if isinstance(problem, json.JSONDecodeError) else None
        place = f"{file}: " if file else ""
        raise RalphError(
            Code.BEAD_SCHEMA,
            f"{place}not valid JSON: {problem}",
            faults=[Fault(Code.BEAD_SCHEMA, f"not valid JSON: {problem}", file=file, line=line)],
            suggested_action="Mend the JSON; a bead is one JSON object",
        ) from None


def check(raw: Any, schema: SchemaName = "auto", file: str | None = None) -> Checked:
    """Validate one raw bead against the schema asked for, gathering every fault."""
    if not isinstance(raw, dict):
        return Checked(None, (Fault(Code.BEAD_SCHEMA, "a bead must be a JSON object", file=file, field=""),))
    old = schema == "legacy" or (schema == "auto" and legacy.looks_legacy(raw))
    model: type[Bead | LegacyBead] = LegacyBead if old else Bead
    warnings = (_legacy_warning(file),) if old and schema == "auto" else ()
    try:
        bead = model.model_validate(raw)
    except ValidationError as problem:
        return Checked(None, tuple(faults_of(problem, file)), warnings)
    return Checked(bead, (), warnings + tuple(_unknown_keys(bead, file)))


def read(raw: dict[str, Any], root: Path) -> Checked:
    """A stored bead as schema 4.1a, migrating an old one in memory."""
    title = raw.get("title")
    return check(legacy.migrate(raw, root, slug(title if isinstance(title, str) else "")), "4.1a")


def faults_of(problem: ValidationError, file: str | None = None) -> list[Fault]:
    """pydantic's errors in our words: a code, the field path, what the field must be."""
    return [_fault(error, file) for error in problem.errors(include_url=False)]


def _fault(error: ErrorDetails, file: str | None) -> Fault:
    extra = str(error.get("ctx", {}).get("field") or "")
    path = ".".join([*map(str, error["loc"]), *([extra] if extra else [])])
    kind = error["type"]
    if kind == "missing":
        return Fault(Code.MISSING_FIELD, f"field {path} is required", file=file, field=path)
    subject = f"field {path} " if path else ""
    found = "" if kind == "constraint" else f" (found {_shown(error['input'])})"
    code = {"pattern": Code.FIELD_PATTERN, "constraint": Code.CONSTRAINT}.get(kind, Code.BEAD_SCHEMA)
    message = error["msg"] if kind in ("pattern", "constraint") else _sentence(error["msg"])
    if kind == "pattern":  # the seed fixes this text up to the pattern
        found = ""
    return Fault(code, f"{subject}{message}{found}", file=file, field=path)


def _sentence(message: str) -> str:
    """`Input should be …` reads as `should be …` behind a field name."""
    return message.removeprefix("Input ").removeprefix("Value error, ")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"


def _legacy_warning(file: str | None) -> Fault:
    return Fault(
        Code.BEAD_SCHEMA,
        "pre-4.1a bead; its agent fields are deprecated",
        file=file,
        field="metadata",
        suggested_action="Run: beads-ralph migrate FILE",
    )


def _unknown_keys(bead: Bead | LegacyBead, file: str | None) -> list[Fault]:
    """Unknown core keys are kept, but named: most are slips of the pen."""
    return [
        Fault(Code.BEAD_SCHEMA, f"field {key} is not part of the schema", file=file, field=key)
        for key in (bead.model_extra or {})
        if key not in STORE_KEYS
    ]


STORE_KEYS: Final = frozenset({"claimed_by", "lease_expires_at", "store_status", "close_reason"})
"""Core keys that the stores add to what they print."""
