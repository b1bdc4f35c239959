"""Recorded runs of real CLIs; `python -m tests.real.record NAME` makes them anew."""

from __future__ import annotations

import json
from pathlib import Path

from beads_ralph.agents.protocol import AGENTS, Reply
from beads_ralph.agents.reply_reader import lines_of
from beads_ralph.process.jobs import Exit

FOLDER = Path(__file__).parent / "cassettes"


def of(name: str) -> Path:
    """The folder of the version that the adapter was tried with."""
    return FOLDER / f"{name}-{AGENTS[name].profile.tested}"


def scenarios(name: str) -> set[str]:
    return {path.stem for path in of(name).glob("*.json")}


def ended(name: str, scenario: str) -> Exit:
    how = json.loads(of(name).joinpath(f"{scenario}.json").read_text("utf-8"))
    stderr = of(name).joinpath(f"{scenario}.err").read_text("utf-8")
    return Exit(how["code"], stderr=stderr, timed_out=how["timed_out"], gave_up=how.get("gave_up", False))


def lines(name: str, scenario: str) -> list[str]:
    return list(lines_of(of(name) / f"{scenario}.out"))


def report(name: str, scenario: str) -> list[str]:
    """What the CLI noted in a file of its own."""
    path = of(name) / f"{scenario}.report"
    return list(lines_of(path)) if path.exists() else []


def reply(name: str, scenario: str) -> Reply:
    return AGENTS[name].reply(ended(name, scenario), [*lines(name, scenario), *report(name, scenario)])
