"""The pull requests of the local forge as files: a record and a page to read, in `.ralph/pulls`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from beads_ralph.bead.field_types import Positive, Timestamp
from beads_ralph.bead.frozen_model import FrozenModel
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, ralph_dir, text_files

TURN_SECONDS: Final = 30.0


class PullRecord(FrozenModel):
    """One pull request; `commit` is what was last proposed, the ref tells what is there."""

    number: Positive
    beads: list[str]
    title: str
    body: str
    branch: str
    target: str
    commit: str
    state: Literal["open", "merged", "closed"]
    created_at: Timestamp
    updated_at: Timestamp

    @property
    def ref(self) -> str:
        return f"refs/pull/{self.number}/head"

    def page(self) -> str:
        """What a reviewer opens."""
        rows = (
            f"# {self.number}: {self.title}\n",
            f"- from `{self.branch}` into `{self.target}`, {self.state}",
            f"- commit `{self.commit}`",
            f"- beads: {', '.join(self.beads)}",
            f"- opened {self.created_at}, updated {self.updated_at}\n",
            "Review it, and take it where it is good:\n",
            f"    git log {self.target}..{self.ref}",
            f"    git diff {self.target}...{self.ref}",
            f"    git switch {self.target} && git merge --no-ff {self.ref}\n",
            f"{self.body}\n",
        )
        return "\n".join(rows)


class PullDirectory:
    """All the records of one repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ralph_dir.NAME / "pulls"

    def make(self) -> None:
        try:
            ralph_dir.ralph_dir(self.root)
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            code = Code.PERMISSION_DENIED if isinstance(problem, PermissionError) else Code.WRITE_FAILED
            raise RalphError(code, f"cannot make {self.path}: {problem.strerror}") from problem

    @contextmanager
    def turn(self, wait: float = TURN_SECONDS) -> Iterator[None]:
        """One process and thread at a time; a process that dies gives its turn back."""
        path = self.path / "lock"
        message = f"another process has held {path} for {wait:g} s"
        with lock.held(path, wait, lambda: RalphError(Code.FORGE_FAILED, message)):
            yield

    def all(self) -> list[PullRecord]:
        numbers = sorted(int(path.stem) for path in self.path.glob("*.json") if path.stem.isdecimal())
        return [self._read(number) for number in numbers]

    def open_one(self, branch: str) -> PullRecord | None:
        return next((pull for pull in self.all() if pull.branch == branch and pull.state == "open"), None)

    def write(self, pull: PullRecord) -> None:
        """The record goes last: with it the pull request is there and has its number."""
        text_files.write_text(self.page_path(pull), pull.page())
        text = json.dumps(pull.to_json(), indent=2, ensure_ascii=False)
        text_files.write_text(self._record_path(pull.number), f"{text}\n")

    def page_path(self, pull: PullRecord) -> Path:
        return self.path / f"{pull.number}.md"

    def _record_path(self, number: int) -> Path:
        return self.path / f"{number}.json"

    def _read(self, number: int) -> PullRecord:
        path = self._record_path(number)
        try:
            return PullRecord.model_validate_json(text_files.read_text(path))
        except ValidationError as problem:
            wrong = problem.errors()[0]
            raise RalphError(
                Code.FORGE_FAILED,
                f"{path} is not a pull request's record",
                details=f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}".removeprefix(": "),
                suggested_action=f"Mend the file, or move it away: {path}",
            ) from None
