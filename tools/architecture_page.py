"""Blocks of pages that commands write: each stands between two markers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = PROJECT / "docs" / "internals" / "architecture.md"


def block(name: str, page: Path = PAGE) -> str:
    """Read the block of that name."""
    return _found(name, page)[1].strip("\n")


def put(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the block of that name."""
    found = _found(name, page)
    whole = found.string
    page.write_text(f"{whole[: found.start(1)]}{text}\n{whole[found.end(1) :]}", encoding="utf-8")


def _found(name: str, page: Path) -> re.Match[str]:
    wanted = re.compile(rf"<!-- {name} -->\n(.*?)<!-- end of {name} -->", re.DOTALL)
    found = wanted.search(page.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{page.name} has no markers for '{name}'")
    return found
