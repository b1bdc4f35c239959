"""Blocks of docs/architecture.md that commands write: each stands between two markers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = PROJECT / "docs" / "architecture.md"


def block(name: str) -> str:
    """Read the block of that name."""
    return _found(name, PAGE.read_text(encoding="utf-8"))[2].strip("\n")


def put(name: str, text: str) -> None:
    """Replace the block of that name."""
    page = PAGE.read_text(encoding="utf-8")
    found = _found(name, page)
    PAGE.write_text(f"{page[: found.start(2)]}\n{text}\n{page[found.end(2) :]}", encoding="utf-8")


def _found(name: str, page: str) -> re.Match[str]:
    found = re.search(rf"(<!-- {name} -->\n)(.*?)(<!-- end of {name} -->)", page, re.DOTALL)
    if found is None:
        raise ValueError(f"{PAGE.name} has no markers for '{name}'")
    return found
