"""The verifiers of a bead on clean checkouts: before the work, after it, with the gate files of before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.words import several
from beads_ralph.journal.events import BaselineTaken
from beads_ralph.process.calls import in_thread
from beads_ralph.session import confinement, verify, worktree_setup
from beads_ralph.session.gate_files import GateChanges
from beads_ralph.session.state import BeadSession
from beads_ralph.session.verify import Subject


async def take_baseline(case: BeadSession) -> None:
    """Which verifiers fail before anything was done, so that a failure can be told from an old one."""
    if not case.verifiers or case.record.red_before is not None or not case.base:
        return
    evidence = await run(case, case.base, 0, "baseline")
    case.record.red_before = {row.command: row.ruling != "pass" for row in evidence}
    case.tell(BaselineTaken(red=tuple(row.name for row in evidence if row.ruling != "pass")))


async def run(
    case: BeadSession, commit: str, attempt: int, stage: str, gates: GateChanges | None = None
) -> list[Evidence]:
    """Run the verifiers on a clean checkout; with `gates`, those files of it are as the base has them."""
    verifiers = case.verifiers
    if not verifiers:
        return []
    baseline = stage == "baseline"
    if baseline:  # each of them is asked, whatever the others say
        verifiers = [one.model_copy(update={"on_failure": "continue"}) for one in verifiers]
    async with case.clean_checkout(commit) as clean:
        checkout = clean.path
        if gates is not None:
            await in_thread(clean.lay_over, case.base, gates.restored, gates.removed)
        limit = confinement.memory_limit_mb(case.bead, case.tools.config)
        if unready := await worktree_setup.furnish_checkout(
            case, checkout, commit, f"a{attempt}-{stage}-setup"
        ):
            return unready
        subject = Subject(
            case.bead.id, attempt, checkout, commit, stage, case.metadata.team_name, limit, case.env
        )
        red = case.record.red_before if stage == "verify" else None
        return await verify.run_verifiers(verifiers, subject, case.bench, red, clean.rewritten)


async def with_gates_of_base(
    case: BeadSession, commit: str, attempt: int, gates: GateChanges, evidence: Sequence[Evidence]
) -> list[Evidence]:
    """A change that touches what decides whether it passes must pass with what decided before, too."""
    rule = case.tools.config.gate_changes
    passed = all(row.ruling == "pass" for row in evidence)
    if not passed or not gates.files or rule == "flag":
        return []
    declare = f"undo that, or declare it in the plan: **May Change**: {several(gates.files)}"
    if rule == "fail":
        text = f"{several(gates.files)} decides what passes: {declare}"
        return [Evidence("gate files", "git", "", commit, "fail", text)]
    rows = await run(case, commit, attempt, "verify-base", gates)
    why = f"; it passes only with a change of {several(gates.files)}: {declare}"
    return [
        replace(
            row,
            name=f"{row.name} (gate files as before)",
            message=row.message if row.ruling == "pass" else row.message + why,
        )
        for row in rows
    ]
