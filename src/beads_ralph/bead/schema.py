"""Raw JSON → beads, with every fault named by its field path; JSON Schema; migration."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from beads_ralph.bead import legacy
from beads_ralph.bead.field_types import SHOWN_LENGTH, require_storable
from beads_ralph.bead.legacy import LegacyBead, LegacyMetadata, QAAgent
from beads_ralph.bead.model import (
    AgentSpec,
    Bead,
    Dod,
    Metadata,
    QAOutput,
    Verifier,
)
from beads_ralph.bead.names import slug
from beads_ralph.bead.run_state import DevExecution, QAExecution, QAResult, ScrumResult
from beads_ralph.errors import Code, Fault, RalphError

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
class SchemaCheck:
    """The outcome of validating one raw bead: the bead or its faults, and warnings either way."""

    bead: Bead | LegacyBead | None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()


def json_schema(name: str, others: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a model, by name; `BeadRalphBead` is the seed's word for Bead.

    `others` are the names that the caller knows besides, for whoever asks for one that nobody knows.
    """
    model = MODELS.get({"BeadRalphBead": "Bead"}.get(name, name))
    if model is None:
        choice = f"Choose one of: {', '.join((*MODELS, *others))}"
        raise RalphError(Code.USAGE, f"there is no schema named {name!r}", suggested_action=choice)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def load_json(text: str, file: str | None = None) -> Any:
    """Parse JSON that can be written back: no NaN, no infinity, no half characters, no endless nesting,
    no key twice in one object."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
        require_storable(value)
    except (ValueError, RecursionError) as problem:
        line = problem.lineno if isinstance(problem, json.JSONDecodeError) else None
        place = f"{file}: " if file else ""
        raise RalphError(
            Code.BEAD_SCHEMA,
            f"{place}not valid JSON: {problem}",
            faults=[Fault(Code.BEAD_SCHEMA, f"not valid JSON: {problem}", file=file, line=line)],
            suggested_action="Fix the JSON; a bead is one JSON object",
        ) from None
    return value


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return found


def check(raw: Any, schema: SchemaName = "auto", file: str | None = None) -> SchemaCheck:
    """Validate one raw bead against the schema asked for, gathering every fault."""
    if not isinstance(raw, dict):
        return SchemaCheck(
            None, (Fault(Code.BEAD_SCHEMA, "a bead must be a JSON object", file=file, field=""),)
        )
    old = schema == "legacy" or (schema == "auto" and legacy.looks_legacy(raw))
    model: type[Bead | LegacyBead] = LegacyBead if old else Bead
    warnings = (_legacy_warning(file),) if old and schema == "auto" else ()
    try:
        bead = model.model_validate(raw)
    except ValidationError as problem:
        return SchemaCheck(None, tuple(faults_of(problem, file)), warnings)
    return SchemaCheck(bead, (), warnings + tuple(_unknown_keys(bead, file)))


def read(raw: dict[str, Any], root: Path) -> SchemaCheck:
    """A stored bead as schema 4.1a, migrating an old one in memory."""
    if not legacy.looks_legacy(raw):
        return check(raw, "4.1a")
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
    if kind == "extra_forbidden":
        return Fault(Code.BEAD_SCHEMA, f"field {path} is not part of the schema", file=file, field=path)
    subject = f"field {path} " if path else ""
    found = "" if kind in ("constraint", "storable") else f" (found {_shown(error['input'])})"
    code = {"pattern": Code.FIELD_PATTERN, "constraint": Code.CONSTRAINT}.get(kind, Code.BEAD_SCHEMA)
    message = error["msg"] if kind in ("pattern", "constraint", "storable") else _sentence(error["msg"])
    action = None
    if kind == "pattern":  # the seed fixes this text up to the pattern, so what was found is told elsewhere
        found, action = "", _pattern_remedy(path, error["input"], error["ctx"]["pattern"])
    return Fault(code, f"{subject}{message}{found}", file=file, field=path, suggested_action=action)


def _pattern_remedy(path: str, value: str, pattern: str) -> str:
    """The value to write where its beginning tells, as in a phase that is a sprint's id."""
    begin = re.match(pattern.removesuffix("$"), value, re.ASCII)
    if begin and path.endswith("phase"):
        return f"Change {path}: it should be '{begin[0]}', not '{value}'"
    return f"Change {path}: {_shown(value)} does not match {pattern}"


def _sentence(message: str) -> str:
    """`Input should be …` reads as `should be …` behind a field name."""
    return re.sub(r"^(Input |List |String |Value error, )", "", message)


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
