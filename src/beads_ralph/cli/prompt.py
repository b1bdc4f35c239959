"""prompt: what an agent of a bead would be told now."""

from __future__ import annotations

from typing import Annotated

import typer

from beads_ralph.bead.names import persona_name
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.session.preview import PromptRole
from beads_ralph.store import registry


def prompt(
    bead: options.BeadId,
    role: Annotated[PromptRole, typer.Option("--role", help="Whose prompt.")] = "dev",
    number: Annotated[int, typer.Option("--number", help="Which of the agents of that role.")] = 1,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Print the prompt that an agent of a bead would get now; nothing is started."""
    from beads_ralph import app

    space = workspace.find()
    opened = registry.open_store(space, store)
    found = app.preview(space, opened.store, bead, role, number)
    data = {
        "bead": bead,
        "role": role,
        "agent": persona_name(found.agent.agent),
        "name": found.name,
        "file": found.file,
        "prompt": found.text,
    }
    return Answer(data, lines(found.text.rstrip("\n")), opened.warnings)
