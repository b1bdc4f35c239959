"""Every class of trouble against every CLI: which scenarios show it, and how it shows itself.

`python -m tests.agents.classes` writes the table of `docs/reference/agents.md` anew, from the recorded runs.
"""

from __future__ import annotations

import re
from pathlib import Path

from beads_ralph.agents.protocol import AGENTS
from beads_ralph.bead.agent_call import Trouble
from tests.agents import cassettes

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agents.md"
CLIS = ("claude", "codex", "gemini", "goose", "opencode", "copilot")
SHOWN_BY: dict[Trouble, tuple[str, ...]] = {
    "limit": ("429", "quota"),
    "server": ("unreachable", "500", "529", "drop"),
    "auth": ("401", "403"),
    "credit": ("402", "credit"),
    "configuration": ("404", "unknown-option"),
    "too_long": ("toolong", "413"),
    "refused": ("400",),
    "forgotten": ("unknown-session",),
}
"""Scenarios by the class that they are for every CLI; the table shows the first of each."""
CASES = [(cli, name, trouble) for cli in CLIS for trouble, names in SHOWN_BY.items() for name in names]
MEANINGS: dict[Trouble, str] = {
    "limit": "a rate or usage limit",
    "server": "nobody there, as here, or a server's error",
    "auth": "not signed in",
    "credit": "no money left",
    "configuration": "an unknown model, as here, or option",
    "too_long": "the session no longer fits",
    "refused": "a bad request",
    "forgotten": "an unknown session",
}
BEGIN, END = "<!-- classes: from the recorded runs -->", "<!-- end of classes -->"
LONGEST = 50


def table() -> str:
    """The classes against the CLIs, with the exit code and the beginning of what is told."""
    head = ["class", *(AGENTS[cli].profile.title for cli in CLIS)]
    rows = [head, ["---"] * len(head)]
    rows += [
        [f"`{trouble}`: {MEANINGS[trouble]}", *(_cell(cli, trouble) for cli in CLIS)] for trouble in SHOWN_BY
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cli: str, trouble: Trouble) -> str:
    scenario = SHOWN_BY[trouble][0]
    ended, reply = cassettes.ended(cli, scenario), cassettes.reply(cli, scenario)
    how = "ended by us" if ended.limit else f"exit {ended.code}"
    said = re.sub(r"\s+", " ", reply.detail).replace("|", "/").replace("`", "'")
    cut = said if len(said) <= LONGEST else f"{said[:LONGEST].strip()} …"
    return f"{how}: `{cut}`"


def page() -> str:
    """The page with the table as it should be."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
