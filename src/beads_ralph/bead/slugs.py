"""Titles → the words that name beads, branches and teams."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ID_LENGTH: Final = 30


def slug(title: str, limit: int = ID_LENGTH) -> str:
    """Lower case, blanks to hyphens, no punctuation, no hyphen runs, cut at `limit`; may be empty.

    Accents are dropped; letters of other scripts stay, since a title made of them needs a name too.
    """
    folded = _without_accents(title.casefold())
    spaced = re.sub(r"\s+", "-", folded.strip())
    kept = "".join(char for char in spaced if char == "-" or char.isalnum())
    return re.sub(r"-+", "-", kept)[:limit].strip("-")


def branch_slug(title: str) -> str:
    """The same for branches, whose pattern knows ASCII only."""
    ascii_only = _without_accents(title.casefold()).encode("ascii", "ignore").decode()
    return slug(ascii_only, limit=len(ascii_only))


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)
