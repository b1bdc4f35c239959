"""Do records agree with themselves, with one another, and with the store?

They are written after the store, so a kill may come in between; the next run puts that right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import moment_of
from beads_ralph.journal.records.folder import StateFolder, is_result_of
from beads_ralph.journal.records.model import Kind, ResultRecord, RunRecord

FRACTION: Final = timedelta(seconds=1)
"""Moments that come from a store may be whole seconds."""

# --- one record -------------------------------------------------------------------------------------


def contradictions(raw: Mapping[str, Any], kind: Kind) -> Iterator[tuple[str, str]]:
    """Where a valid record contradicts itself: the field, and what is wrong."""
    begun, over = raw["started_at"], raw["finished_at"]
    if over is not None and moment_of(over) + FRACTION <= moment_of(begun):
        yield "finished_at", f"it ended at {over}, before it began at {begun}"
    if kind == "result":
        if raw["status"] == "done" and raw["will_retry"]:
            yield "will_retry", "it is done, and is to be tried again"
        return
    if raw["status"] == "failed" and raw["failure_reason"] is None:
        yield "failure_reason", "it failed, and does not say why"
    if raw["status"] == "done" and raw["failure_reason"] is not None:
        yield "failure_reason", f"it is done, and says why it failed: {raw['failure_reason']}"
    if raw["prompt_hash"] not in _hashes(raw["prompt_full"]):
        yield "prompt_hash", "it is not the SHA-256 of prompt_full"


def _hashes(prompt: str) -> set[str]:
    """Of a prompt, and of one that a shell has put a line end behind."""
    return {hashlib.sha256(text.encode()).hexdigest() for text in (prompt, f"{prompt}\n")}


def result_against_run(result: Mapping[str, Any], run: Mapping[str, Any]) -> str | None:
    """What a result and the run record of the same attempt say differently; other programs leave theirs at
    `running`."""
    same = (result["attempt"], result["started_at"]) == (run.get("attempt"), run.get("started_at"))
    if not same or "running" in (result["status"], run["status"]) or result["status"] == run["status"]:
        return None
    return f"it says {result['status']}, the run record of attempt {result['attempt']} {run['status']}"


# --- records and the store --------------------------------------------------------------------------


def disagreements(folder: StateFolder, bead: Bead) -> Iterator[str]:
    """Where the records of a bead and the store contradict each other. While a run holds the bead, its
    records have no end yet; and what people do to a bead by hand is not in them."""
    run = folder.last_run(bead.id)
    if bead.status == "in_progress":
        return
    judged = bead.metadata.attempt_count
    if run is None:
        if judged:
            yield f"the store knows of attempt {judged}, and there is no run record"
        return
    if run.extra is None:  # of another program
        return
    if run.status == "running":
        yield f"the run record says running, the store says {bead.status}"
    if run.attempt < judged:
        yield f"the store knows of attempt {judged}, the last run record is of attempt {run.attempt}"
    last = folder.last_result(bead.id)
    result = last if last is not None and is_result_of(last, run) else None
    if run.attempt == judged:
        yield from _verdicts(bead, run)
        yield from _ends(bead, run, result)


def _verdicts(bead: Bead, run: RunRecord) -> Iterator[str]:
    verdict = bead.metadata.verdict
    if verdict is not None and run.ours.ruling != verdict.ruling:
        said = run.ours.ruling or "no verdict"
        yield f"the store says {verdict.ruling} on attempt {run.attempt}, the run record {said}"


def _ends(bead: Bead, run: RunRecord, result: ResultRecord | None) -> Iterator[str]:
    proof, ended = bead.metadata.proven, bead.metadata.scrum_result
    if bead.status == "closed" and proof is not None and proof.commit:
        if run.status != "done":
            yield f"the store says closed, the run record {run.status}{_why(run)}"
        if run.ours.commit != proof.commit:
            yield f"{proof.commit[:12]} was proven, the run record names {(run.ours.commit or 'none')[:12]}"
        if result is None or result.status != "done":
            yield "the store says closed, and no result record says done"
    if bead.status == "blocked" and ended is not None and not ended.success:
        if result is None:
            yield "the store says blocked, and there is no result record"
        elif result.will_retry:
            yield "the store says blocked, the result record that it will be tried again"


def _why(run: RunRecord) -> str:
    return f" ({run.failure_reason})" if run.failure_reason else ""
