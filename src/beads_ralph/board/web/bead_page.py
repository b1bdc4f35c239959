"""One bead in full: its tasks, every attempt at it, what it rests on, what its agents did, its work."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from beads_ralph.agents import bead_outputs
from beads_ralph.agents.bead_outputs import BeadOutput
from beads_ralph.agents.transcript import Cost, TranscriptLine, cost_words, to_json
from beads_ralph.board.web import diffs
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.config.workspace import RalphPlace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import AgentEnded, Event, PullRequestOpened, VerdictGiven, VerifierEnded
from beads_ralph.store import registry
from beads_ralph.store.views import BeadView

SHOWN_LINES: Final = 400
EXCERPT_LINES: Final = 40
END_BYTES: Final = 1 << 20
"""So much of the end of an output is read."""


def told(place: RalphPlace, name: str, store: StoreChoice | None = None) -> dict[str, Any]:
    """Everything about a bead; BEAD_NOT_FOUND where there is none of that id."""
    view = registry.open_views(place, store).views.show(name)
    events = list(events_of(place.home, name))
    pull = _pull_request(view, events)
    data = view.metadata
    return {
        "bead": {key: value for key, value in view.told().items() if key != "metadata"},
        "sprint": data.get("sprint"),
        "plan_file": data.get("plan_file"),
        "branch": data.get("branch"),
        "source_branch": data.get("source_branch"),
        "tasks": list(data.get("dev_prompts") or ()),
        "waits_for": list(view.dependencies),
        "standing": view.told_standing,
        "attempts": attempts(events),
        "verdict": _verdict(data.get("last_verdict")),
        "findings": [dict(one) for one in view.findings],
        "pull_request": pull,
        "diff": _diff(place, view, pull),
        "transcript": transcript(place.home, name, None, EXCERPT_LINES),
    }


def events_of(home: Path, name: str) -> Iterator[Event]:
    """What every run has told of the bead, oldest first; other lines are not even parsed."""
    wanted = json.dumps(name, ensure_ascii=False).encode("utf-8", "backslashreplace")
    for folder in runs.folders(home):
        try:
            with folder.journal.open("rb") as file:
                for line in file:
                    event = journal.parsed(line.decode("utf-8", "replace")) if wanted in line else None
                    if event is not None and event.bead == name:
                        yield event
        except OSError:
            continue


# --- attempts -----------------------------------------------------------------------------------------


def attempts(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Each attempt with its calls, its checks and its verdict, the latest first."""
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        if not event.attempt or not isinstance(event, AgentEnded | VerifierEnded | VerdictGiven):
            continue
        row = found.setdefault(
            event.attempt,
            {"attempt": event.attempt, "ruling": None, "message": "", "at": event.at}
            | {"flags": [], "calls": [], "checks": [], "judged": []},
        )
        _take(row, event)
    return [found[number] for number in sorted(found, reverse=True)]


def _take(row: dict[str, Any], event: AgentEnded | VerifierEnded | VerdictGiven) -> None:
    match event:
        case VerdictGiven():
            row |= {"ruling": event.ruling, "message": event.message, "at": event.at}
            row["flags"] = list(event.flags)
            row["judged"] = [one.summary() for one in event.checks]
        case VerifierEnded(stage=stage) if stage != "baseline":
            facts = {"name": event.name, "ruling": event.ruling, "exit_code": event.exit_code}
            row["checks"].append(facts | {"seconds": event.seconds, "commit": event.commit})
        case AgentEnded(call=call):
            row["calls"].append(
                {
                    "role": call.role,
                    "agent": PurePosixPath(call.agent).stem,
                    "program": call.program,
                    "model": call.model,
                    "seconds": call.seconds,
                    "problem": call.problem,
                    "tokens": call.usage.output_tokens,
                    "cost_usd": call.usage.cost_usd,
                    "cost": cost_words(call.usage),
                }
            )


def _verdict(said: Any) -> dict[str, Any] | None:
    """The last one with all its evidence, as the bead keeps it."""
    return dict(said) if isinstance(said, Mapping) and said.get("ruling") else None


# --- its work -----------------------------------------------------------------------------------------


def _pull_request(view: BeadView, events: Sequence[Event]) -> dict[str, Any] | None:
    for event in reversed(events):
        if isinstance(event, PullRequestOpened):
            facts = {"url": event.url, "number": event.number, "branch": event.branch}
            return facts | {"target": event.target, "commit": event.commit}
    if view.pull_request:
        return {"url": view.pull_request, "number": view.metadata.get("pr_number"), "branch": None} | {
            "target": None,
            "commit": None,
        }
    return None


def _diff(place: RalphPlace, view: BeadView, pull: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Of the commit that was proven or proposed, else of the branch as it is now."""
    from beads_ralph.git import commands

    if place.repository is None:
        return None
    proven = view.metadata.get("proven") or {}
    branch = f"refs/heads/{view.metadata.get('branch')}"
    named = (proven.get("commit"), (pull or {}).get("commit"), branch)
    commit = next((one for ref in named if ref and (one := commands.commit_of(str(ref), place.root))), None)
    if commit is None:
        return None
    return diffs.of_commit(place.root, commit, [f"refs/heads/{view.metadata.get('source_branch')}"])


# --- what its agents did ------------------------------------------------------------------------------


def transcript(home: Path, name: str, call: int | None, most: int = SHOWN_LINES) -> dict[str, Any]:
    """The end of what one call of an agent or a check has printed, the last without a number."""
    every = [one for folder in runs.folders(home) for one in bead_outputs.outputs(folder, name)]
    found = [one for one in every if one.role != bead_outputs.CHECK] or every
    at = len(found) - 1 if call is None else call
    if call is not None and not 0 <= call < len(found):
        raise RalphError(Code.FILE_NOT_FOUND, f"{name} has no such call")
    told = {"call": at if found else None, "calls": [_call(one) for one in found]}
    lines = list(found[at].reader(END_BYTES).end()) if found else []
    shown = [_line(one) for one in lines[-most:]]
    return {**told, "lines": shown, "left_out": len(lines) - len(shown), "size": len(lines)}


def _call(output: BeadOutput) -> dict[str, Any]:
    who = " ".join(filter(None, (output.role, output.program)))
    told = {"attempt": output.attempt, "role": output.role, "program": output.program, "model": output.model}
    return {"name": f"{output.attempt} {who}" if output.attempt else output.name, **told}


def _line(line: TranscriptLine) -> dict[str, Any]:
    words = {"words": cost_words(line.usage)} if isinstance(line, Cost) else {}
    return {**to_json(line), **words}
