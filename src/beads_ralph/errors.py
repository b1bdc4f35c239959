"""Error codes, what each one means for the user, and the {success, data, error} envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """Every error code that a user or a script can meet."""

    CLI_NOT_FOUND = "DATABASE.CLI_NOT_FOUND"
    NOT_INITIALIZED = "DATABASE.NOT_INITIALIZED"
    DAEMON_NOT_RUNNING = "DATABASE.DAEMON_NOT_RUNNING"
    INSERT_FAILED = "DATABASE.INSERT_FAILED"
    DATABASE_TIMEOUT = "DATABASE.TIMEOUT"
    COMMAND_FAILED = "DATABASE.COMMAND_FAILED"
    BEAD_NOT_FOUND = "DATABASE.BEAD_NOT_FOUND"
    CONFLICT = "DATABASE.CONFLICT"

    BEAD_SCHEMA = "VALIDATION.BEAD_SCHEMA"
    MISSING_FIELD = "VALIDATION.MISSING_FIELD"
    FIELD_PATTERN = "VALIDATION.INVALID_PATTERN"
    CONSTRAINT = "VALIDATION.CONSTRAINT"

    UNRESOLVED = "DEPENDENCY.UNRESOLVED"
    CYCLE_DETECTED = "DEPENDENCY.CYCLE_DETECTED"
    DUPLICATE_ID = "DEPENDENCY.DUPLICATE_ID"
    SELF_DEP = "DEPENDENCY.SELF_DEP"

    MARKDOWN = "PARSE.MARKDOWN"
    MISSING_SECTION = "PARSE.MISSING_SECTION"
    PLAN_PATTERN = "PARSE.INVALID_PATTERN"

    FORMULA_NOT_FOUND = "FORMULA.NOT_FOUND"
    MISSING_VAR = "FORMULA.MISSING_VAR"
    INVALID_VAR = "FORMULA.INVALID_VAR"
    POUR_FAILED = "FORMULA.POUR_FAILED"
    FORMULA_INVALID = "FORMULA.INVALID"
    FORMULA_UNSUPPORTED = "FORMULA.UNSUPPORTED"

    FILE_NOT_FOUND = "IO.FILE_NOT_FOUND"
    PERMISSION_DENIED = "IO.PERMISSION_DENIED"
    NOT_TEXT = "IO.NOT_TEXT"
    TOO_LARGE = "IO.TOO_LARGE"
    WRITE_FAILED = "IO.WRITE_FAILED"
    DISK_FULL = "IO.DISK_FULL"

    CONFIG_INVALID = "CONFIG.INVALID"
    GIT_NOT_REPO = "GIT.NOT_REPO"
    GIT_ERROR = "GIT.ERROR"
    FORGE_FAILED = "FORGE.FAILED"
    FORGE_DIVERGED = "FORGE.DIVERGED"
    USAGE = "USAGE.INVALID"
    NO_SANDBOX = "EXECUTION.NO_SANDBOX"
    NOT_FOR_AGENTS = "EXECUTION.NOT_FOR_AGENTS"
    INTERRUPTED = "EXECUTION.INTERRUPTED"
    UNAVAILABLE = "EXECUTION.UNAVAILABLE"
    AGENT_FAILED = "EXECUTION.AGENT_FAILED"
    TOKEN_NEEDED = "ACCESS.TOKEN_NEEDED"  # noqa: S105 - a code
    ACCESS_REFUSED = "ACCESS.REFUSED"
    BUG = "INTERNAL.BUG"


@dataclass(frozen=True)
class Remedy:
    """Tells whether the user can fix it, and what to do next when the raiser knows nothing better."""

    recoverable: bool
    next_step: str


ADVICE: Mapping[Code, Remedy] = {
    Code.CLI_NOT_FOUND: Remedy(
        recoverable=False,
        next_step="Install bd 1.3 or newer and put it on PATH, or use --store embedded",
    ),
    Code.NOT_INITIALIZED: Remedy(
        recoverable=False, next_step="Run: beads-ralph init --store bd (or use --store embedded)"
    ),
    Code.DAEMON_NOT_RUNNING: Remedy(
        recoverable=False,
        next_step="Nothing to do for bd 1.3 or newer, which has no daemon; otherwise update bd",
    ),
    Code.INSERT_FAILED: Remedy(
        recoverable=True, next_step="Look at what is in the store with: beads-ralph list"
    ),
    Code.DATABASE_TIMEOUT: Remedy(
        recoverable=True, next_step="See whether another bd holds the database, then run the command again"
    ),
    Code.COMMAND_FAILED: Remedy(
        recoverable=True, next_step="Run the failed command by hand to see its full output"
    ),
    Code.BEAD_NOT_FOUND: Remedy(recoverable=True, next_step="List the beads with: beads-ralph list"),
    Code.CONFLICT: Remedy(recoverable=True, next_step="Read the bead again: beads-ralph show ID"),
    Code.BEAD_SCHEMA: Remedy(
        recoverable=True, next_step="Fix the fields named above; beads-ralph schema prints the schema"
    ),
    Code.MISSING_FIELD: Remedy(recoverable=True, next_step="Add the missing field"),
    Code.FIELD_PATTERN: Remedy(recoverable=True, next_step="Change the value so that it matches the pattern"),
    Code.CONSTRAINT: Remedy(recoverable=True, next_step="Change the value named above"),
    Code.UNRESOLVED: Remedy(
        recoverable=True, next_step="Check the sprint ids in the plan, or compile the missing sprint first"
    ),
    Code.CYCLE_DETECTED: Remedy(
        recoverable=True, next_step="Remove one of the **Depends On** entries along the cycle"
    ),
    Code.DUPLICATE_ID: Remedy(
        recoverable=True,
        next_step="Rename one of them (**Bead Name**), or run again with --check-existing or --update",
    ),
    Code.SELF_DEP: Remedy(recoverable=True, next_step="Remove the sprint's own id from its **Depends On**"),
    Code.MARKDOWN: Remedy(
        recoverable=True, next_step="Write sprint headings as: ### Sprint <phase>.<number>: <title>"
    ),
    Code.MISSING_SECTION: Remedy(
        recoverable=True,
        next_step="Add the section to the sprint, or a default for it to the plan's front matter "
        "or to beads-ralph.yaml",
    ),
    Code.PLAN_PATTERN: Remedy(
        recoverable=True, next_step="Use ids such as 1.1, 1.2a or 3a.2b, and values of the documented form"
    ),
    Code.FORMULA_NOT_FOUND: Remedy(recoverable=True, next_step="List them with: beads-ralph formula list"),
    Code.MISSING_VAR: Remedy(recoverable=True, next_step="Give the variable with --var name=value"),
    Code.INVALID_VAR: Remedy(recoverable=True, next_step="Give a value that the variable's rule allows"),
    Code.POUR_FAILED: Remedy(recoverable=True, next_step="Fix what the store refused, then pour again"),
    Code.FORMULA_INVALID: Remedy(
        recoverable=True, next_step="Fix the formula, then: beads-ralph formula check NAME"
    ),
    Code.FORMULA_UNSUPPORTED: Remedy(
        recoverable=True,
        next_step="Leave the field out; beads-ralph help formula-reference lists them all",
    ),
    Code.FILE_NOT_FOUND: Remedy(recoverable=False, next_step="Check the path"),
    Code.PERMISSION_DENIED: Remedy(recoverable=False, next_step="Check the file's permissions"),
    Code.NOT_TEXT: Remedy(recoverable=True, next_step="Save the file as UTF-8 text"),
    Code.TOO_LARGE: Remedy(recoverable=True, next_step="Split the file into several"),
    Code.WRITE_FAILED: Remedy(recoverable=True, next_step="Free some disk space or choose another place"),
    Code.DISK_FULL: Remedy(
        recoverable=True, next_step="Free some space on that disk, then run again: no attempt was counted"
    ),
    Code.CONFIG_INVALID: Remedy(recoverable=True, next_step="Fix the keys named above in beads-ralph.yaml"),
    Code.GIT_NOT_REPO: Remedy(recoverable=True, next_step="Run it inside a git repository (git init)"),
    Code.GIT_ERROR: Remedy(recoverable=True, next_step="Run the git command by hand to see its full output"),
    Code.FORGE_FAILED: Remedy(
        recoverable=True, next_step="Fix what the details name, then run it again: the work is on its branch"
    ),
    Code.FORGE_DIVERGED: Remedy(
        recoverable=True, next_step="Bring both sides together on the branch, then: beads-ralph retry BEAD"
    ),
    Code.USAGE: Remedy(recoverable=True, next_step="See: beads-ralph --help"),
    Code.NO_SANDBOX: Remedy(
        recoverable=True, next_step="Install bubblewrap, or set sandbox: none in beads-ralph.yaml"
    ),
    Code.NOT_FOR_AGENTS: Remedy(
        recoverable=True, next_step="Commit the work and end: the run checks it and closes the bead"
    ),
    Code.INTERRUPTED: Remedy(recoverable=True, next_step="Run the same command again"),
    Code.UNAVAILABLE: Remedy(
        recoverable=False, next_step="Install what is missing, or use the local executor"
    ),
    Code.AGENT_FAILED: Remedy(recoverable=True, next_step="Look at what it printed, and try again"),
    Code.TOKEN_NEEDED: Remedy(
        recoverable=True, next_step="Open the address with the token that beads-ralph serve printed"
    ),
    Code.ACCESS_REFUSED: Remedy(
        recoverable=True, next_step="Open the address that beads-ralph serve printed"
    ),
    Code.BUG: Remedy(recoverable=False, next_step="Report it, with the crash file"),
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, at one place: a line of a file, or a field of a record."""

    code: Code
    message: str
    file: str | None = None
    line: int | None = None
    field: str | None = None
    suggested_action: str | None = None

    @property
    def place(self) -> str:
        """`plan.md:12`, `plan.md`, or empty where the fault has no file."""
        if self.file is None:
            return ""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def remedy(self) -> str:
        return self.suggested_action or ADVICE[self.code].next_step

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "code": str(self.code),
            "message": self.message,
            "file": self.file,
            "line": self.line,
        }
        if self.field is not None:
            row["field"] = self.field
        if self.suggested_action is not None:
            row["suggested_action"] = self.suggested_action
        return row


class RalphError(Exception):
    """A mistake of the user's or a failure of the world's, with what to do next."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        details: str = "",
        suggested_action: str | None = None,
        faults: Sequence[Fault] = (),
        warnings: Sequence[Fault] = (),
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.text = details
        self.faults = tuple(faults)
        self.warnings = tuple(warnings)
        self.data = dict(data or {})
        self.recoverable = ADVICE[code].recoverable
        self.suggested_action = suggested_action or ADVICE[code].next_step

    @property
    def details(self) -> str | dict[str, Any]:
        """Text as in the seed's envelope, or an object where several facts were gathered."""
        if not (self.faults or self.data):
            return self.text
        facts: dict[str, Any] = dict(self.data)
        if self.faults:
            facts["faults"] = [fault.to_json() for fault in self.faults]
            facts["warnings"] = [warning.to_json() for warning in self.warnings]
        if self.text:
            facts["text"] = self.text
        return facts

    def to_json(self) -> dict[str, Any]:
        return {
            "code": str(self.code),
            "message": self.message,
            "details": self.details,
            "recoverable": self.recoverable,
            "suggested_action": self.suggested_action,
        }


class BeadRefused(RalphError):  # noqa: N818 - which error it is, its code says
    """An error of one bead, such as a branch that it cannot have; the others need not wait for it."""


def gathered(faults: Sequence[Fault], subject: str, warnings: Sequence[Fault] = ()) -> RalphError:
    """All the faults of one subject as one error; its code is that of the first fault."""
    first = faults[0]
    count = len(faults)
    message = str(first) if count == 1 else f"{count} faults in {subject}; the first: {first}"
    return RalphError(
        first.code, message, faults=faults, warnings=warnings, suggested_action=first.suggested_action
    )


@dataclass(frozen=True)
class Envelope:
    """The one shape in which every command answers a script."""

    success: bool
    data: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        return {"success": self.success, "data": self.data, "error": self.error}


def succeeded(data: Mapping[str, Any]) -> Envelope:
    return Envelope(success=True, data=data)


def failed(error: RalphError) -> Envelope:
    return Envelope(success=False, error=error.to_json())
