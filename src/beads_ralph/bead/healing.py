"""A run state that somebody has spoiled, without what cannot be read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from beads_ralph.bead.run_state import KEYS_IN_ORDER, RunState


@dataclass(frozen=True)
class Healed:
    """What is left of a state that somebody spoiled."""

    state: RunState
    change: RunState
    """What to write, so that it can be read again."""
    dropped: tuple[str, ...]
    """The fields that the change drops: whole keys, or single entries of a list."""


def healed(metadata: Mapping[str, Any]) -> Healed:
    """Keep everything that can be read, and nothing else."""
    change: dict[str, Any] = {}
    dropped: list[str] = []
    given = {key: metadata[key] for key in KEYS_IN_ORDER if key in metadata}
    for key, value in given.items():
        if (spoiled := _spoiled(key, value)) is not None:
            change[key] = [row for at, row in enumerate(value) if at not in spoiled] if spoiled else None
            dropped += [f"metadata.{key}.{at}" for at in spoiled] or [f"metadata.{key}"]
    if "attempt_count" in change:  # the attempts to come need numbers of their own
        calls = RunState.model_validate({**given, **change, "attempt_count": 0}).calls
        change["attempt_count"] = max((call.attempt for call in calls), default=0)
    return Healed(
        RunState.model_validate({**given, **change}), RunState.model_validate(change), tuple(dropped)
    )


def _spoiled(key: str, value: Any) -> list[int] | None:
    """None for a sound value; else the entries of the list that are spoiled, or nothing where it all is."""
    try:
        RunState.model_validate({key: value})
    except ValidationError as problem:
        places = [error["loc"][1:2] for error in problem.errors(include_url=False, include_input=False)]
        whole = not isinstance(value, list) or () in places
        return [] if whole else sorted({at for place in places for at in place if isinstance(at, int)})
    return None
