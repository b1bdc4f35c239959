"""Are records as they should be? And what can be done for older ones, without losing anything."""

from __future__ import annotations

import glob
import hashlib
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.bead import schema
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.journal.records import ARCHIVED, RESULTS, RUNS, SUFFIX, load
from beads_ralph.journal.records.agreement import contradictions, result_against_run
from beads_ralph.journal.records.folder import KEPT, text_of
from beads_ralph.journal.records.model import MODELS, PROMPT_LENGTH, REASON, SUMMARY_LENGTH, Kind, StateRecord
from beads_ralph.journal.runs import free_name

FOLDER_OF: Final[Mapping[Kind, str]] = {"run": RUNS, "result": RESULTS}
BOM: Final = "\ufeff"
OF_A_RESULT: Final = ("will_retry", "reason")
NULLABLE: Final[Mapping[Kind, tuple[str, ...]]] = {
    kind: tuple(
        name
        for name, field in model.model_fields.items()
        if field.is_required() and type(None) in getattr(field.annotation, "__args__", ())
    )
    for kind, model in MODELS.items()
}
"""The fields that must be there and may be null."""
MEND: Final = "Run: beads-ralph state fix FILE, or fix it by hand; beads-ralph help records has every field"

LOOK: Final = "Nobody but you can tell which is true: look at beads-ralph events, then edit or move the file"


@dataclass(frozen=True)
class RepairReport:
    """What was found in one file, and what was done about it."""

    path: Path
    kind: Kind
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    mended: tuple[str, ...] = ()
    """What was changed, in words; empty where nothing was."""
    backup: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "kind": self.kind,
            "valid": not self.faults,
            "mended": list(self.mended),
            "backup": str(self.backup) if self.backup else None,
            "faults": [fault.to_json() for fault in self.faults],
            "warnings": [warning.to_json() for warning in self.warnings],
        }


def find(state: Path, kinds: Sequence[Kind]) -> Iterator[tuple[Path, Kind]]:
    """Every record of these kinds in a state folder, and whatever has the name of one."""
    for kind in kinds:
        folder = state / FOLDER_OF[kind]
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ():
            if not path.name.startswith("."):
                yield path, kind


def kind_of(path: Path) -> Kind:
    """By its folder, else by what it says: only a result has a reason."""
    for kind, name in FOLDER_OF.items():
        if path.absolute().parent.name == name:
            return kind
    raw = load(path) or {}
    return "result" if any(name in raw for name in OF_A_RESULT) else "run"


# --- validating -------------------------------------------------------------------------------------


def check(path: Path, kind: Kind) -> RepairReport:
    """One file; nothing that it holds is fatal."""
    return _checked(path, kind)[0]


def check_all(files: Iterable[tuple[Path, Kind]]) -> Iterator[RepairReport]:
    """Each file, and no attempt in two of them."""
    seen: dict[tuple[Any, ...], Path] = {}
    for path, kind in files:
        report, raw = _checked(path, kind)
        if raw is not None and kind == "run":
            first = seen.setdefault((raw["bead"], raw["attempt"], raw["started_at"]), path)
            if first != path:
                text = f"attempt {raw['attempt']} of {raw['bead']} is in {first.name}, too"
                report = replace(report, faults=(*report.faults, _untrue(path, "attempt", text)))
        yield report


def _checked(path: Path, kind: Kind) -> tuple[RepairReport, Mapping[str, Any] | None]:
    """The report, and what the file holds where that is a record."""
    try:
        raw = _parsed(_read(path), path)
    except RalphError as error:
        return RepairReport(path, kind, _of_file(error, path)), None
    faults = _faults(raw, kind, path)
    if faults:
        return RepairReport(path, kind, tuple(faults)), None
    odd, wrong = _beside(raw, kind, path)
    own = [_untrue(path, name, text) for name, text in contradictions(raw, kind)]
    return RepairReport(path, kind, (*own, *wrong), tuple(odd)), raw


def _untrue(path: Path, name: str, text: str) -> Fault:
    return Fault(Code.CONSTRAINT, text, file=str(path), field=name, suggested_action=LOOK)


def _read(path: Path) -> str:
    try:
        said = path.stat()
    except OSError:
        return text_files.read_text(path)  # which says what is wrong
    if not stat.S_ISREG(said.st_mode) and path.parent.name in FOLDER_OF.values():
        raise RalphError(Code.NOT_TEXT, f"{path} is not a regular file", suggested_action="Move it elsewhere")
    return text_files.read_text(path)


def _parsed(text: str, path: Path) -> Any:
    if text.startswith(BOM):
        raise gathered([_fault(path, "begins with a byte order mark, which is not JSON")], str(path))
    return schema.load_json(text, str(path))


def _fault(path: Path, message: str, name: str | None = None, code: Code = Code.BEAD_SCHEMA) -> Fault:
    return Fault(code, message, file=str(path), field=name, suggested_action=MEND)


def _of_file(error: RalphError, path: Path) -> tuple[Fault, ...]:
    """The faults of an error, each with its file and what to do."""
    known = error.faults or (Fault(error.code, error.message.removeprefix(f"{path}: "), file=str(path)),)
    action = error.suggested_action if not error.faults else "Fix the file, or move it elsewhere"
    return tuple(
        replace(one, file=str(path), suggested_action=one.suggested_action or action) for one in known
    )


def _faults(raw: Any, kind: Kind, path: Path) -> list[Fault]:
    if not isinstance(raw, dict):
        return [_fault(path, f"a {kind} record must be a JSON object")]
    try:
        MODELS[kind].model_validate(raw)
    except ValidationError as problem:
        return [
            replace(one, line=None, suggested_action=MEND) for one in schema.faults_of(problem, str(path))
        ]
    return []


def _beside(raw: Mapping[str, Any], kind: Kind, path: Path) -> tuple[list[Fault], list[Fault]]:
    """What a record says, against the files that it lies among: what is odd, and what is wrong."""
    bead = str(raw["bead"])
    odd: list[Fault] = []
    stem = ARCHIVED.sub("", path.name.removesuffix(SUFFIX))
    in_place = path.absolute().parent.name == FOLDER_OF[kind]
    if in_place and stem.removesuffix("_") != bead.removesuffix("_"):
        odd.append(_fault(path, f"is a record of {bead}, by its name of {stem}", "bead"))
    if kind == "run" or not in_place:
        return odd, []
    runs = path.absolute().parent.parent / RUNS
    files = (runs / path.name, *runs.glob(f"{glob.escape(stem)}.attempt-*{SUFFIX}"))
    known = [one for file in files if (one := load(file)) is not None and one["bead"] == bead]
    attempts = {one.get("attempt") for one in known}
    if not attempts:
        return [*odd, _fault(path, f"there is no run record of {bead}", "bead")], []
    if raw["attempt"] not in attempts:
        text = f"field attempt matches no run record of {bead} (found {raw['attempt']})"
        return odd, [_fault(path, text, "attempt", Code.CONSTRAINT)]
    said = (result_against_run(raw, run) for run in known)
    return odd, [_untrue(path, "status", text) for text in said if text]


# --- mending ----------------------------------------------------------------------------------------


def fix(path: Path, kind: Kind) -> RepairReport:
    """Bring an older record up to date where that can be done; a copy of it is kept. What is valid, and
    what would not become so, stays as it is."""
    before = check(path, kind)
    if not before.faults:
        return before
    try:
        text = _read(path)
        raw = schema.load_json(text.removeprefix(BOM), str(path))
    except RalphError:
        return before
    if not isinstance(raw, dict):
        return before
    mending = Mending(dict(raw), kind, ["byte order mark removed"] if text.startswith(BOM) else [])
    mended = mending.mended()
    if not mending.done or _faults(mended, kind, path):
        return before
    backup = free_name(path.parent, path.name, KEPT)
    text_files.write_text(backup, text)
    text_files.write_text(path, text_of(mended))
    after = check(path, kind)
    return RepairReport(path, kind, after.faults, after.warnings, tuple(mending.done), backup)


@dataclass
class Mending:
    """A record while it is brought up to date; what has no place any more goes into `extra`."""

    raw: dict[str, Any]
    kind: Kind
    done: list[str] = field(default_factory=list)

    def mended(self) -> dict[str, Any]:
        steps: list[Callable[[], None]] = [self._add_missing, self._cut_summary, self._move_unknown]
        if self.kind == "run":
            steps = [self._complete_prompt, *steps, self._name_reason]
        for step in steps:
            step()
        return self.raw

    def _add_missing(self) -> None:
        for name in NULLABLE[self.kind]:
            if name not in self.raw:
                self.raw[name] = None
                self.done.append(f"{name} added")

    def _complete_prompt(self) -> None:
        prompt = self.raw.get("prompt")
        if not isinstance(prompt, str):
            return
        if self.raw.get("prompt_full") is None:
            self.raw["prompt_full"] = prompt
            self.done.append("prompt_full added")
        whole = self.raw["prompt_full"]
        if len(prompt) > PROMPT_LENGTH and isinstance(whole, str) and whole.startswith(prompt):
            self.raw["prompt"] = prompt[:PROMPT_LENGTH]
            self.done.append("prompt cut")
        if "prompt_hash" not in self.raw and isinstance(whole, str):
            self.raw["prompt_hash"] = hashlib.sha256(whole.encode()).hexdigest()
            self.done.append("prompt_hash added")

    def _cut_summary(self) -> None:
        summary = self.raw.get("output_summary")
        if isinstance(summary, str) and len(summary) > SUMMARY_LENGTH and self._put("output_full", summary):
            self.raw["output_summary"] = summary[-SUMMARY_LENGTH:]
            self.done.append("output_summary cut")

    def _name_reason(self) -> None:
        reason = self.raw.get("failure_reason")
        known = not isinstance(reason, str) or re.fullmatch(REASON, reason)
        if not known and self._put("failure_detail", reason):
            self.raw["failure_reason"] = "other"
            self.done.append("failure_reason named")

    def _move_unknown(self) -> None:
        model: type[StateRecord] = MODELS[self.kind]
        for name in [name for name in self.raw if name not in model.model_fields]:
            if self._put(f"x_{name}", self.raw[name]):
                del self.raw[name]
                self.done.append(f"{name} moved to extra.x_{name}")

    def _put(self, name: str, value: Any) -> bool:
        """Into `extra`, unless something else is there."""
        extra = self.raw.get("extra")
        extra = {} if extra is None else extra
        if not isinstance(extra, dict) or extra.get(name) is not None:
            return False
        self.raw["extra"] = {**extra, name: value}
        return True
