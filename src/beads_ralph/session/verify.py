"""Verifiers → evidence, on a clean checkout of the commit that would be proposed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.model import Expectation, Verifier
from beads_ralph.bead.redaction import redact
from beads_ralph.bead.words import plural, several, shortened
from beads_ralph.files import scratch
from beads_ralph.git import git_files
from beads_ralph.journal.events import VerifierEnded
from beads_ralph.journal.journal import EventSink
from beads_ralph.journal.runs import RunFolder, Shelf, evidence_folder
from beads_ralph.process import executors
from beads_ralph.process.calls import in_thread
from beads_ralph.process.jobs import Executor, Exit, Job, Transcript
from beads_ralph.session import before_and_after, runner_reports
from beads_ralph.session.runner_reports import Before

SHELL: Final = ("/bin/sh", "-c")
TAIL_LENGTH: Final = 4000
SEARCHED: Final = 64 * 1024 * 1024  # how much of an output is searched for an expected text
CHUNK: Final = 1024 * 1024


@dataclass(frozen=True)
class Bench:
    """What checks are run with."""

    executor: Executor
    folder: RunFolder
    events: EventSink
    environment: Mapping[str, str]
    wrap: Callable[[Job], Job] = lambda job: job
    """Puts a job where it is to run."""


@dataclass(frozen=True)
class Subject:
    """What is checked: a commit in a clean checkout, for a bead's attempt."""

    bead_id: str
    attempt: int
    checkout: Path
    commit: str
    label: str = "verify"
    team: str | None = None
    memory_limit_mb: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    """What its worktree has and others have not, such as ports."""
    asks_reports: bool = False
    """Every pytest is asked for a report of its own."""
    base: str = ""
    """The commit that the work began with."""


async def run_verifiers(
    verifiers: Sequence[Verifier],
    subject: Subject,
    bench: Bench,
    before: Mapping[str, Before] | None = None,
    rewritten: Callable[[], Sequence[str]] = tuple,
) -> list[Evidence]:
    """Each in order, on the same checkout; a failure ends the list unless its verifier says continue. What
    one of them rewrote is put back (`rewritten`), and it has not passed on the commit then. `before` tells by
    command how they ended on the base; None where it is the base that they run on."""
    found: list[Evidence] = []
    for number, verifier in enumerate(verifiers, 1):
        known = (before or {}).get(verifier.command)
        row = await _run(verifier, number, subject, bench)
        if before is not None and verifier.expect.exit_code == 0:
            row = _with_its_tests(row, known, subject)
        if files := await in_thread(rewritten):
            row = _on_other_files(row, files)
        if known is not None:
            row = _compared(row, was_red=not known.passed)
        found.append(replace(row, output_tail="") if row.ruling == "pass" else row)
        bench.events.emit(_told(row, subject))
        if row.ruling != "pass" and verifier.on_failure == "stop":
            break
    return found


def _with_its_tests(row: Evidence, before: Before | None, subject: Subject) -> Evidence:
    """It has passed only if its tests came to their end."""
    now = runner_reports.of_json(row.details.get("tests") or {})
    problem = runner_reports.problem(row.command, now, before, asked=subject.asks_reports)
    return replace(row, ruling="fail", message=problem) if problem and row.ruling == "pass" else row


def _on_other_files(row: Evidence, files: Sequence[str]) -> Evidence:
    text = f"it changed {several(files)} while it ran, so it says nothing about the commit"
    if row.ruling != "pass":
        return row
    return replace(row, ruling="fail", message=f"{text}: commit what it makes, or let it leave that alone")


def _told(row: Evidence, subject: Subject) -> VerifierEnded:
    return VerifierEnded(
        bead=subject.bead_id,
        team=subject.team,
        attempt=subject.attempt,
        name=row.name,
        ruling=row.ruling,
        exit_code=row.exit_code,
        seconds=round(row.seconds, 3),
        commit=row.commit,
        stage=subject.label,
    )


async def _run(verifier: Verifier, number: int, subject: Subject, bench: Bench) -> Evidence:
    name = f"a{subject.attempt}-{subject.label}-{number}"
    transcript = bench.folder.transcript(subject.bead_id, name)
    env = {**bench.environment, **subject.env, **before_and_after.told(verifier.command, subject.base)}
    with _report_folder(wanted=subject.asks_reports) as reports:
        job = Job(
            (*SHELL, verifier.command),
            subject.checkout,
            env={**env, **runner_reports.asking(env, reports)} if reports else env,
            timeout=float(verifier.timeout_seconds),
            name=f"{subject.label}-{subject.bead_id}-{number}",
            transcript=transcript,
            memory_limit_mb=subject.memory_limit_mb,
            writes=(
                *git_files.folders_of(subject.checkout)[1:],
                *evidence_folder(subject.env),
                *((reports,) if reports else ()),
            ),
        )
        ended = await executors.run_through(bench.executor, bench.wrap(job))
        tests = await in_thread(runner_reports.read, reports, transcript)
    problem = failure(verifier.expect, ended, transcript, verifier.timeout_seconds)
    counted = {"tests": runner_reports.to_json(tests)} if tests else {}
    return Evidence(
        name=verifier.name,
        kind="verifier",
        command=verifier.command,
        commit=subject.commit,
        ruling="fail" if problem else "pass",
        message=problem or "passed",
        exit_code=ended.code,
        seconds=ended.seconds,
        output_sha256=hash_of(transcript),
        output_tail=_tail(ended),
        details={**counted, **({"reason": "verifier-timeout"} if ended.timed_out else {})},
    )


@contextmanager
def _report_folder(*, wanted: bool) -> Iterator[Path | None]:
    """A folder for reports of runners, which nobody can guess; gone afterwards."""
    folder = scratch.make() if wanted else None
    try:
        yield folder
    finally:
        if folder is not None:
            scratch.discard(folder)


def failure(expect: Expectation, ended: Exit, transcript: Transcript, limit: int) -> str:
    """Why a verifier failed, empty where it passed: exit code first, then stdout, then stderr."""
    if ended.timed_out:
        return f"timed out after {limit} s"
    if ended.flooded:
        return "printed more than is kept"
    if ended.over_memory:
        return ended.cut_short
    if ended.code != expect.exit_code:
        return f"exit code {ended.code} (expected {expect.exit_code})"
    for name, wanted, path in (
        ("stdout", expect.stdout_contains, transcript.out),
        ("stderr", expect.stderr_contains, transcript.err),
    ):
        if wanted is not None and not _contains(path, wanted):
            return f"{name} does not contain {wanted!r}"
    return ""


def _compared(row: Evidence, *, was_red: bool) -> Evidence:
    """A failure that was there before the work began is said to be so; it is a failure all the same."""
    if row.ruling == "pass" or not was_red:
        return replace(row, red_before=was_red)
    return replace(row, red_before=True, message=f"{row.message}; it failed before the work began, too")


def _contains(path: Path, wanted: str) -> bool:
    needle = wanted.encode("utf-8", "surrogatepass")
    kept = b""
    if not needle:  # which every output contains, an empty one too
        return True
    if not path.is_file():  # the command removed it, and with it the proof
        return False
    with path.open("rb") as file:
        for _ in range(SEARCHED // CHUNK):
            chunk = file.read(CHUNK)
            if not chunk:
                return False
            kept = kept[-len(needle) :] + chunk
            if needle in kept:
                return True
    return False


def hash_of(transcript: Transcript | None) -> str:
    """SHA-256 of all that was printed, stdout first; empty where the files are gone."""
    digest = hashlib.sha256()
    try:
        for path in (transcript.out, transcript.err) if transcript else ():
            with path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest() if transcript else ""


def _tail(ended: Exit) -> str:
    parts = [redact(part.strip())[-TAIL_LENGTH:] for part in (ended.stdout, ended.stderr) if part.strip()]
    return "\n".join(parts)


# --- the verdict ------------------------------------------------------------------------------------


def attachments(shelf: Shelf, commit: str) -> Evidence:
    """Whether somebody has put there what people are to be shown."""
    names = [shelf.shown(path) for path in shelf.attached()]
    if names:
        text = f"there: {several(names)}"
        return Evidence("evidence", "verifier", "", commit, "pass", text, details={"files": names})
    text = f"no evidence: nobody has put a file into {shelf.evidence}/ since the work began"
    missing = {"reason": "evidence-missing"}
    return Evidence("evidence", "verifier", "", commit, "fail", text, details=missing)


def verdict(evidence: Sequence[Evidence], flags: Sequence[str] = ()) -> Verdict:
    """All must pass; a single stop outweighs every failure."""
    stopped = [row for row in evidence if row.ruling == "stop"]
    failed = [row for row in evidence if row.ruling == "fail"]
    if stopped:
        return Verdict("stop", f"{stopped[0].name} says stop: {stopped[0].message}", evidence, flags)
    if failed:
        said = "; ".join(f"{row.name}: {shortened(row.message)}" for row in failed)
        of_all = plural(len(evidence), "check")
        return Verdict("fail", f"{len(failed)} of {of_all} failed: {said}", evidence, flags)
    return Verdict("pass", f"{plural(len(evidence), 'check')} passed", evidence, flags)
