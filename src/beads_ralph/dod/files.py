"""Bead files and what belongs to them on disk: read whole, written whole, moved when they are done."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from beads_ralph.dod import model
from beads_ralph.dod.model import RalphBead
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.journal.runs import free_name, stamp

SCHEMA: Final = f".beads/schemas/{model.SCHEMA_FILE}"
ACTIVE: Final = (".beads", "active")
COMPLETED: Final = "completed"
SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def install_schema(root: Path) -> bool:
    """Write the schema where the seed has it; False where there is one already, which stays as it is."""
    path = root / SCHEMA
    if path.exists():
        return False
    text_files.make_folder(path.parent)
    text_files.write_text(path, model.schema_text())
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
    raw = model.read(data, str(path))
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
            yield Fault(Code.DUPLICATE_ID, text, file=str(one.path), field="id")


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
