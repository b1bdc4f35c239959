"""What a closed bead rests on: checks that ran, a reviewer's word, or a person's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Standing = Literal["proven", "reviewed", "accepted"]
"""proven: a verifier passed on the commit. reviewed: only agents judged it. accepted: a person says so."""

PROVEN: Final[Standing] = "proven"


def standing(metadata: Mapping[str, Any]) -> Standing | None:
    """Of a bead's metadata as JSON; None where no commit has passed its checks and nobody has accepted it.

    The key `proven` names the commit that passed. Whether that is a proof depends on the evidence."""
    commit = (metadata.get("proven") or {}).get("commit")
    if commit is None:
        return "accepted" if metadata.get("accepted") else None
    rows = (metadata.get("last_verdict") or {}).get("evidence") or ()
    return PROVEN if any(_is_verified(row, commit) for row in rows) else "reviewed"


def _is_verified(row: Mapping[str, Any], commit: str) -> bool:
    return (row.get("kind"), row.get("ruling"), row.get("commit")) == ("verifier", "pass", commit)


def standing_text(found: Standing, commit: str) -> str:
    """The standing of a commit, for people."""
    said = f"{found} on {commit[:12]}"
    return f"{said}, no verifier ran" if found == "reviewed" else said


def told_standing(metadata: Mapping[str, Any]) -> str:
    """The same of a bead's metadata; empty where it has none."""
    found = standing(metadata)
    if found == "accepted":
        word = metadata["accepted"]
        return f"accepted by {word.get('by') or 'somebody'}, not proven: {word.get('reason') or 'no reason'}"
    return standing_text(found, metadata["proven"]["commit"]) if found else ""
