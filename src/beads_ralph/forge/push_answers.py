"""What a person answered to `push: ask`, kept so that each remote is asked about once."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from beads_ralph.errors import RalphError
from beads_ralph.files import text_files

NAME: Final = "push.json"


@dataclass(frozen=True)
class PushAnswers:
    """By address. A file that cannot be read has no answers: then a person is asked again."""

    home: Path

    def read(self, url: str) -> Literal["yes", "no"] | None:
        said = self._all().get(url)
        return said if said in ("yes", "no") else None

    def write(self, url: str, said: Literal["yes", "no"]) -> None:
        text_files.ralph_dir(self.home.parent)
        text = json.dumps({**self._all(), url: said}, indent=2, ensure_ascii=False)
        text_files.write_text(self.home / NAME, f"{text}\n")

    def _all(self) -> dict[str, Literal["yes", "no"]]:
        with suppress(RalphError, OSError, ValueError):
            found = json.loads(text_files.read_text(self.home / NAME))
            return found if isinstance(found, dict) else {}
        return {}
