"""The body of a pull request: one section for each bead on the branch, and whatever people added."""

from __future__ import annotations

import re
from typing import Final

MARK: Final = re.compile(r"<!--(?=\s*/?bead )")


def with_section(body: str, bead_id: str, text: str) -> str:
    """The body with the bead's section new or renewed; everything else in it stays as it is. The text
    cannot hold a mark, which would end its section or begin that of another bead."""
    start, end = f"<!-- bead {bead_id} -->", f"<!-- /bead {bead_id} -->"
    section = f"{start}\n{MARK.sub('< !--', text)}\n{end}"
    before, found, rest = body.partition(start)
    if not found:
        return f"{body.rstrip()}\n\n{section}".lstrip()
    return before + section + rest.partition(end)[2]


def fitting_section(body: str, bead_id: str, text: str, limit: int) -> str:
    """The same within a forge's limit: the bead's own text is cut, and says so."""
    whole = with_section(body, bead_id, text)
    if len(whole) <= limit:
        return whole
    note = "\n\n(cut here: the forge allows no longer text)"
    room = limit - len(with_section(body, bead_id, note))
    return with_section(body, bead_id, text[:room] + note) if room > 0 else body[:limit]
