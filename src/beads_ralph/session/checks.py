"""The verifiers of a bead on clean checkouts: before the work, after it, with the gate files of before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.words import several
from beads_ralph.files import scratch
from beads_ralph.git.checkout import Checkout
from beads_ralph.journal.events import BaselineTaken, WarningGiven
from beads_ralph.process import opened_files
from beads_ralph.process.calls import in_thread
from beads_ralph.process.opened_files import OpenedFiles
from beads_ralph.session import (
    baseline,
    check_data,
    confinement,
    gate_files,
    reruns,
    runner_reports,
    verify,
    worktree_setup,
)
from beads_ralph.session.gate_files import GateChanges
from beads_ralph.session.shared_baselines import Baseline
from beads_ralph.session.state import BeadSession
from beads_ralph.session.verifier_world import CheckPlace, CheckSetting
from beads_ralph.session.verify import Subject


async def take_baseline(case: BeadSession) -> None:
    """Which verifiers fail before anything was done, so that a failure can be told from an old one."""
    if not case.verifiers or case.record.red_before is not None or not case.base:
        return
    found = await case.tools.baselines.of(_asked(case), lambda: _baseline(case))
    await in_thread(baseline.keep, case, found.evidence, found.opened)
    case.tell(
        BaselineTaken(
            red=tuple(row.name for row in found.evidence if row.ruling != "pass"),
            opened=len(found.opened.files),
            read=tuple(case.record.read_by_checks or ()),
            unwatched=found.opened.problem or None,
            taken_for=found.bead if found.bead != case.bead.id else None,
        )
    )


def _asked(case: BeadSession) -> tuple[str, ...]:
    """What the outcome hangs on: the commit, the checks in their order, and their limits. Where they run, and
    what a worktree has for itself (its ports, its evidence), differs from bead to bead, and says nothing."""
    limit = confinement.memory_limit_mb(case.bead, case.tools.config)
    return (case.base, str(limit), *(one.model_dump_json() for one in case.verifiers))


async def _baseline(case: BeadSession) -> Baseline:
    opened = OpenedFiles()
    evidence = await run(case, case.base, 0, "baseline", opened=opened)
    return Baseline(case.bead.id, tuple(evidence), opened)


async def run(
    case: BeadSession,
    commit: str,
    attempt: int,
    stage: str,
    gates: GateChanges | None = None,
    opened: OpenedFiles | None = None,
) -> list[Evidence]:
    """Run the verifiers on a clean checkout, and again where they are red; with `gates`, those files of it
    are as the base has them. What they open of it goes into `opened`."""
    if not case.verifiers:
        return []
    again = case.tools.config.rerun_red_checks and stage != "baseline"
    return await reruns.settled(
        lambda label: _run(case, commit, attempt, f"{stage}{label}", gates, opened), again=again
    )


async def _run(
    case: BeadSession,
    commit: str,
    attempt: int,
    stage: str,
    gates: GateChanges | None,
    opened: OpenedFiles | None,
) -> list[Evidence]:
    verifiers = case.verifiers
    if stage == "baseline":  # each of them is asked, whatever the others say
        verifiers = [one.model_copy(update={"on_failure": "continue"}) for one in verifiers]
    async with case.clean_checkout(commit) as clean, _around(case, clean) as look:
        if gates is not None:
            await in_thread(clean.lay_over, case.base, gates.restored, gates.removed)
        setup = (case, clean.path, commit, f"a{attempt}-{stage}-setup")
        around = await in_thread(look)
        if unready := await worktree_setup.furnish_checkout(*setup, around):
            return unready
        if case.tools.config.worktree_setup:  # what it has made takes the place of what was borrowed
            around = await in_thread(look)
        if unfit := _unfit(case, around, commit, attempt):
            return unfit
        limit = confinement.memory_limit_mb(case.bead, case.tools.config)
        asks = await in_thread(runner_reports.may_ask, case.worktree, case.base)
        team = case.metadata.team_name
        subject = Subject(
            case.bead.id, attempt, clean.path, commit, stage, team, limit, case.env, asks, case.base
        )
        known = None if stage == "baseline" else baseline.known(case)
        bench = around.bench(case.bench, case.tools.config) if around else case.bench
        furnished = case.tools.config.worktree_setup or case.tools.config.worktree_files
        before = await in_thread(clean.untracked) if furnished else set()
        opened = OpenedFiles() if opened is None else opened
        rewritten = partial(_rewritten, clean, before, opened)
        folders = await in_thread(check_data.folders, case.worktree, commit)
        with opened_files.watched(clean.path, folders, opened):
            return await verify.run_verifiers(verifiers, subject, bench, known, rewritten)


def _rewritten(clean: Checkout, before: set[str], opened: OpenedFiles) -> list[str]:
    """What a verifier changed that the next one would go by. Our own look at the files is not the check's."""
    with opened.unseen():
        return _put_back(clean, before)


def _put_back(clean: Checkout, before: set[str]) -> list[str]:
    """Files of the commit that were changed are put back; new settings of test programs, or modules in their
    way, are taken out."""
    files, new = clean.put_back()
    made = sorted(name for name in new - before if gate_files.misleads(clean.path, name))
    for name in made:
        scratch.remove(clean.path / name)
    return [*files, *made]


@asynccontextmanager
async def _around(case: BeadSession, clean: Checkout) -> AsyncIterator[Callable[[], CheckSetting | None]]:
    """How the check finds the machine; as it is, where nobody has looked at it when the run began."""
    world = case.tools.world
    if world is None:
        yield lambda: None
        return
    commands = [one.command for one in case.verifiers]
    commands += [case.tools.config.worktree_setup] if case.tools.config.worktree_setup else []
    objects = case.proofs.path / "objects"
    place = world.around(CheckPlace(clean.path, case.worktree, case.metadata.branch, commands, objects))
    try:
        yield await in_thread(place.__enter__)
    finally:
        await in_thread(place.__exit__, None, None, None)


def _unfit(case: BeadSession, around: CheckSetting | None, commit: str, attempt: int) -> list[Evidence]:
    """What a check does not see is told; empty where nothing keeps it from being made."""
    for text in around.notes if around else ():
        case.tell(WarningGiven(attempt=attempt, message=text))
    return around.unfit(commit) if around else []


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
    rows = [baseline.without_tests(case, row) for row in rows]
    why = f"; it passes only with a change of {several(gates.files)}: {declare}"
    return [
        replace(
            row,
            name=f"{row.name} (gate files as before)",
            message=row.message if row.ruling == "pass" else row.message + why,
        )
        for row in rows
    ]
