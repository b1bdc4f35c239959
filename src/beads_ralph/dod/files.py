"""Ralph beads as files: an intent, a Definition of Done, how far it is; checked, read and written whole."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from beads_ralph.bead import schema
from beads_ralph.bead.field_types import FrozenModel, constraint_fault
from beads_ralph.bead.model import Expectation, Verifier
from beads_ralph.bead.words import moment_of
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.journal.runs import free_name, stamp

BeadType = Literal["task", "feature", "bugfix", "gate"]
Status = Literal["pending", "in_progress", "completed", "failed", "blocked"]
SCHEMA_FILE: Final = "ralph-bead.schema.json"
MAX_ITERATIONS: Final = 10
PRIORITY: Final = 2
"""Of a bead that names none, as bd has it."""
LONGEST_SECONDS: Final = 10**7
"""So many that nobody waits for their end; a float can hold them."""
SCHEMA: Final = f".beads/schemas/{SCHEMA_FILE}"
ACTIVE: Final = (".beads", "active")
COMPLETED: Final = "completed"
SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def schema_text() -> str:
    """The JSON Schema (draft-07) of a bead file."""
    return resources.files(__package__ or "").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def _whole(value: Any) -> Any:
    """2.0 is an integer to JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class BeadPart(FrozenModel):
    """Keys that it does not know pass; a key that it knows is absent or has its value, and never null."""

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, raw: Any) -> Any:
        for name in cls.model_fields if isinstance(raw, dict) else ():
            if name in raw and raw[name] is None:
                raise constraint_fault("must not be null", name)
        return raw


class Expected(BeadPart):
    exit_code: Whole = 0
    stdout_contains: str | None = None
    stderr_contains: str | None = None


class VerifierEntry(BeadPart):
    """A verifier as a bead file has it."""

    name: str
    command: str
    expect: Expected = Expected()
    timeout_seconds: Annotated[Whole, Field(ge=1)] = 300
    on_failure: Literal["stop", "continue"] = "stop"

    def verifier(self) -> Verifier:
        expect = self.expect
        return Verifier(
            name=self.name if self.name.strip() else self.command,
            command=self.command,
            expect=Expectation(
                exit_code=expect.exit_code,
                stdout_contains=expect.stdout_contains,
                stderr_contains=expect.stderr_contains,
            ),
            timeout_seconds=min(self.timeout_seconds, LONGEST_SECONDS),
            on_failure=self.on_failure,
        )


class DefinitionOfDone(BeadPart):
    verifiers: list[VerifierEntry]
    evidence_required: bool = False


class Constraints(BeadPart):
    max_iterations: Annotated[Whole, Field(ge=1)] = MAX_ITERATIONS
    time_budget_minutes: Whole | None = None
    deadline: str | None = None


class RalphMeta(BeadPart):
    """What the executor keeps; keys of ours beside those of the schema."""

    attempt_count: Whole = 0
    executor_version: str = ""
    retry_backoff_seconds: Whole = 0
    last_attempt: str | None = None
    verifier_results: list[Any] = Field(default_factory=list)


class RalphBead(BeadPart):
    """The seed's Ralph bead: exactly the documents that its JSON Schema accepts."""

    id: str = ""
    title: str = ""
    intent: str
    type: BeadType = "task"
    priority: Annotated[Whole, Field(ge=0, le=5)] = PRIORITY
    lane: Literal["fast", "feature", "maintenance", "experimental"] | None = None
    dod: DefinitionOfDone
    constraints: Constraints = Constraints()
    ralph_meta: RalphMeta = RalphMeta()
    status: Status = "pending"

    @property
    def name(self) -> str:
        """For people: the title, else the first line of what it is about."""
        return self.title.strip() or self.intent.strip().splitlines()[0]

    def verifiers(self) -> list[Verifier]:
        return [check.verifier() for check in self.dod.verifiers]

    def deadline(self) -> datetime | None:
        said = self.constraints.deadline
        return None if said is None else moment_of(said)

    def budget_seconds(self) -> float | None:
        minutes = self.constraints.time_budget_minutes
        return None if minutes is None else float(min(60 * minutes, LONGEST_SECONDS))


# --- checking ---------------------------------------------------------------------------------------


def check(raw: Any, file: str | None = None) -> RalphBead:
    """The bead, or every fault at once: what is missing, what the schema forbids, what cannot be done."""
    faults = faults_of(raw, file)
    if faults:
        raise gathered(faults, file or "the bead")
    return RalphBead.model_validate(raw)


def faults_of(raw: Any, file: str | None = None) -> list[Fault]:
    if not isinstance(raw, dict):
        return [Fault(Code.BEAD_SCHEMA, "a bead must be a JSON object", file=file, field="")]
    missing = _missing(raw, file)
    known = {fault.field or "" for fault in missing} | ({"dod"} if missing else set())
    try:
        bead = RalphBead.model_validate(raw)
    except ValidationError as problem:
        found = [fault for fault in schema.faults_of(problem, file) if fault.field not in known]
        return missing + [replace(fault, suggested_action=_cure(fault)) for fault in found]
    return missing or _undoable(bead, file)


def _cure(fault: Fault) -> str:
    return f"Fix {fault.field}; {SCHEMA} says what a Ralph bead may hold"


def _missing(raw: dict[str, Any], file: str | None) -> list[Fault]:
    """In the words of the seed. An empty text and an empty list count as missing."""
    intent, dod = raw.get("intent"), raw.get("dod")
    verifiers = dod.get("verifiers") if isinstance(dod, dict) else None
    found = []
    if not intent or (isinstance(intent, str) and not intent.strip()):
        action = "Say in `intent` what is to be accomplished"
        found.append(("intent", "Missing intent", action))
    if not verifiers:
        action = "Give `dod.verifiers` at least one command that proves it"
        found.append(("dod.verifiers", "Missing verifiers", action))
    return [
        Fault(Code.MISSING_FIELD, text, file=file, field=field, suggested_action=action)
        for field, text, action in found
    ]


def _undoable(bead: RalphBead, file: str | None) -> list[Fault]:
    """What the schema allows and nobody can do: a proof that proves nothing, a time that is none."""
    faults = []
    for at, one in enumerate(bead.dod.verifiers):
        if not one.command.strip() or "\0" in one.command:
            field = f"dod.verifiers.{at}.command"
            action = f"Write a command into {field}, or remove that verifier"
            faults.append(
                Fault(Code.CONSTRAINT, f"field {field} must not be empty", file, None, field, action)
            )
    try:
        bead.deadline()
    except ValueError:
        field = "constraints.deadline"
        text = f"field {field} must be an ISO 8601 time such as 2026-02-07T10:00:00Z"
        faults.append(Fault(Code.CONSTRAINT, text, file=file, field=field))
    return faults


def parse(data: bytes, file: str) -> dict[str, Any]:
    """The JSON of a bead file, its keys in order; a byte order mark is passed over."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        byte = data[problem.start]
        raise RalphError(Code.NOT_TEXT, f"{file}: not UTF-8 text (byte 0x{byte:02x})") from None
    raw = schema.load_json(text, file)
    check(raw, file)
    found: dict[str, Any] = raw
    return found


# --- on disk ----------------------------------------------------------------------------------------


def install_schema(root: Path) -> bool:
    """Write the schema where the seed has it; False where there is one already, which stays as it is."""
    path = root / SCHEMA
    if path.exists():
        return False
    text_files.make_folder(path.parent)
    text_files.write_text(path, schema_text())
    return True


def key_of(name: str) -> str:
    """A name that can be a folder's: the bead's own where it is harmless."""
    if SAFE.fullmatch(name) and ".." not in name:
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60]
    return f"{plain or 'bead'}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


@dataclass
class BeadFile:
    """A bead and the file that it lives in. Only `status` and `ralph_meta` are ever changed."""

    path: Path
    raw: dict[str, Any]
    bead: RalphBead
    written: bytes = b""
    """What the file held when we last read or wrote it."""
    warnings: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return key_of(self.bead.id.strip() or self.path.stem)

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self.raw.get("ralph_meta") or {})

    def save(self, changed: Path, **said: Any) -> None:
        """Put `status` and what else is said into the file, in one step. Somebody else's edit is kept in
        the folder `changed`: a Definition of Done is not rewritten while it is worked on."""
        status = said.pop("status", None)
        if status is not None:
            self.raw["status"] = status
        self.raw["ralph_meta"] = {**self.meta, **said}
        text = json.dumps(self.raw, indent=2, ensure_ascii=False) + "\n"
        self._keep_foreign(changed)
        text_files.write_text(self.path, text)
        self.written = text.encode()

    def _keep_foreign(self, changed: Path) -> None:
        try:
            found = self.path.read_bytes()
        except OSError:
            return
        if found != self.written:
            text_files.make_folder(changed)
            kept = free_name(changed, f"changed-{stamp()}", ".json")
            kept.touch(text_files.PRIVATE)
            kept.write_bytes(found)
            self.warnings.append(f"{self.path} was changed meanwhile; that version is kept as {kept}")

    def move_completed(self) -> Path:
        """From `.beads/active/` to `.beads/completed/`; a file anywhere else stays where it is."""
        if self.path.absolute().parent.parts[-2:] != ACTIVE:
            return self.path
        folder = self.path.absolute().parent.parent / COMPLETED
        text_files.make_folder(folder)
        target = free_name(folder, self.path.stem, self.path.suffix)
        try:
            self.path.rename(target)
        except OSError as problem:
            text = f"cannot move {self.path} to {target}: {problem.strerror or problem}"
            raise RalphError(Code.WRITE_FAILED, text) from None
        self.path = target
        return target


def read(path: Path) -> BeadFile:
    data = text_files.read_bytes(path)
    raw = parse(data, str(path))
    return BeadFile(path, raw, RalphBead.model_validate(raw), data)


def read_all(paths: Sequence[Path]) -> list[BeadFile]:
    """Every bead, the most urgent first, then by file name; all the faults of all the files at once."""
    found: list[BeadFile] = []
    faults: list[Fault] = []
    for path in dict.fromkeys(paths):
        try:
            found.append(read(path))
        except RalphError as error:
            faults += error.faults or [_fault(error, path)]
    faults += _doubles(found)
    if faults:
        raise gathered(faults, f"{len(paths)} files" if len(paths) > 1 else str(paths[0]))
    return sorted(found, key=lambda one: (one.bead.priority, one.path.name, str(one.path)))


def _fault(error: RalphError, path: Path) -> Fault:
    return Fault(error.code, error.message, file=str(path), suggested_action=error.suggested_action)


def _doubles(found: Iterable[BeadFile]) -> Iterator[Fault]:
    seen: dict[str, Path] = {}
    for one in found:
        first = seen.setdefault(one.key, one.path)
        if first is not one.path:
            text = f"the id {one.key} is that of {first}, too"
            action = "Give one of the two another id, or leave one of the files out"
            yield Fault(Code.DUPLICATE_ID, text, str(one.path), None, "id", action)


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
