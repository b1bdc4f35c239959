"""schema: the JSON Schema of a bead, of one of its parts, or of the settings."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from beads_ralph.bead import schema
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.config import published

CONFIG = "Config"


def print_schema(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join((*schema.MODELS, CONFIG))}.")] = "Bead",
    json_: options.Json = False,
) -> Answer:
    """Print the JSON Schema of a bead, of one of its parts, or of the settings."""
    found = published.json_schema() if name == CONFIG else schema.json_schema(name, (CONFIG,))
    return Answer({"name": name, "schema": found}, lambda _: out(json.dumps(found, indent=2)))
