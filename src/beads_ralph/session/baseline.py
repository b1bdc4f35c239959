"""What the verifiers did before the work began, and what an attempt's evidence is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beads_ralph.bead.evidence import Evidence
from beads_ralph.process.opened_files import OpenedFiles
from beads_ralph.session import check_data, runner_reports
from beads_ralph.session.runner_reports import Before, Tests
from beads_ralph.session.state import BeadSession


def keep(case: BeadSession, evidence: Sequence[Evidence], opened: OpenedFiles) -> None:
    """Remember how the verifiers ended on the base, and which files that they opened are theirs."""
    case.record.read_by_checks = check_data.found(
        case.worktree, case.base, frozenset(opened.files), case.verifiers
    )
    case.record.red_before = {row.command: row.ruling != "pass" for row in evidence}
    case.record.tests_before = {
        row.command: row.details["tests"] for row in evidence if row.details.get("tests")
    }


def known(case: BeadSession) -> dict[str, Before]:
    """By command. A sprint that declares that it changes what verifiers obey may change how they tell of
    their tests, too."""
    told = {} if case.metadata.may_change else _tests(case)
    return {
        command: Before(not red, told.get(command, {}))
        for command, red in (case.record.red_before or {}).items()
    }


def fewer_tests(case: BeadSession, evidence: Sequence[Evidence]) -> list[str]:
    """For whoever judges: verifiers that ran fewer tests than before."""
    told = _tests(case)
    rows = [row for row in evidence if row.kind == "verifier" and row.command in told]
    return [text for row in rows for text in runner_reports.fewer(row.name, _told(row), told[row.command])]


def without_tests(case: BeadSession, row: Evidence) -> Evidence:
    """Of a verifier with the gate files of the base: where that has no test at all, those of the change are
    the first, and there is nothing to compare them with."""
    before, now = _tests(case).get(row.command), _told(row)
    if row.ruling == "pass" or not before or not now:
        return row
    if any(run.ran for run in (*before.values(), *now.values())):
        return row
    return replace(row, ruling="pass", message="there was no test before those of the change")


def _tests(case: BeadSession) -> dict[str, Tests]:
    told = case.record.tests_before or {}
    return {command: runner_reports.of_json(row) for command, row in told.items()}


def _told(row: Evidence) -> Tests:
    return runner_reports.of_json(row.details.get("tests") or {})
