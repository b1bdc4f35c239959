"""Verifiers → evidence, on a clean checkout of the commit that would be proposed."""

from __future__ import annotations

import fnmatch
import hashlib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.model import Expectation, Verifier
from beads_ralph.bead.redaction import redact
from beads_ralph.bead.words import plural, several
from beads_ralph.git import git_files
from beads_ralph.journal.events import VerifierEnded
from beads_ralph.journal.journal import EventSink
from beads_ralph.journal.runs import RunFolder, Shelf, evidence_folder
from beads_ralph.process.jobs import Executor, Exit, Job, Transcript

SHELL: Final = ("/bin/sh", "-c")
TAIL_LENGTH: Final = 4000
SEARCHED: Final = 64 * 1024 * 1024  # how much of an output is searched for an expected text
CHUNK: Final = 1024 * 1024

GATES: Final = (
    ".github/*",
    ".gitlab-ci.yml",
    ".circleci/*",
    ".claude/agents/*",
    ".pre-commit-config.yaml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "beads-ralph.yaml",
)
"""Files that decide what passes; a change to one is flagged for the reviewer."""


READ_BY: Final[Mapping[str, Sequence[str]]] = {
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "just": ("justfile", "Justfile", ".justfile"),
    "pytest": ("test_*.py", "*_test.py", "conftest.py", "pytest.ini"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "npm": ("package.json", "*.test.*", "*.spec.*"),
    "yarn": ("package.json", "*.test.*", "*.spec.*"),
    "pnpm": ("package.json", "*.test.*", "*.spec.*"),
    "go": ("*_test.go",),
    "rspec": ("*_spec.rb", ".rspec"),
}
"""What well-known programs read without being told: the tests behind a verifier that names none."""


@dataclass(frozen=True)
class Bench:
    """What checks are run with."""

    executor: Executor
    folder: RunFolder
    events: EventSink
    environment: Mapping[str, str]


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


async def run_verifiers(
    verifiers: Sequence[Verifier],
    subject: Subject,
    bench: Bench,
    red_before: Mapping[str, bool] | None = None,
) -> list[Evidence]:
    """Each in order, on the same checkout; a failure ends the list unless its verifier says continue."""
    found: list[Evidence] = []
    for number, verifier in enumerate(verifiers, 1):
        row = await _run(verifier, number, subject, bench)
        if red_before is not None and verifier.command in red_before:
            row = _compared(row, was_red=red_before[verifier.command])
        found.append(row)
        bench.events.emit(_told(row, subject))
        if row.ruling != "pass" and verifier.on_failure == "stop":
            break
    return found


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
    job = Job(
        (*SHELL, verifier.command),
        subject.checkout,
        env={**bench.environment, **subject.env},
        timeout=float(verifier.timeout_seconds),
        name=f"{subject.label}-{subject.bead_id}-{number}",
        transcript=transcript,
        memory_limit_mb=subject.memory_limit_mb,
        writes=(*git_files.folders_of(subject.checkout)[1:], *evidence_folder(subject.env)),
    )
    ended = await bench.executor.run(job)
    problem = failure(verifier.expect, ended, transcript, verifier.timeout_seconds)
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
        output_tail=_tail(ended) if problem else "",
        details={"reason": "verifier-timeout"} if ended.timed_out else {},
    )


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
        names = ", ".join(row.name for row in failed)
        of_all = plural(len(evidence), "check")
        return Verdict("fail", f"{len(failed)} of {of_all} failed: {names}", evidence, flags)
    return Verdict("pass", f"{plural(len(evidence), 'check')} passed", evidence, flags)


def gate_flags(
    changed: Iterable[str], verifiers: Sequence[Verifier], added: Collection[str] = ()
) -> list[str]:
    """What the change touched that decides whether it passes: CI's own files, new ones too, and what a
    verifier names, unless it is new: then the tasks asked for it."""
    named = {word for verifier in verifiers for word in _words(verifier.command)}
    read = {pattern for word in named for pattern in READ_BY.get(PurePosixPath(word).name, ())}
    flags = []
    for file in changed:
        if any(fnmatch.fnmatch(file, gate) for gate in GATES):
            flags.append(f"{file} decides what passes, and was {'added' if file in added else 'changed'}")
        elif file not in added and any(_is_meant(file, word) for word in named):
            flags.append(f"{file} is named by a verifier, and was changed")
        elif file not in added and any(fnmatch.fnmatch(PurePosixPath(file).name, one) for one in read):
            flags.append(f"{file} is read by a verifier, and was changed")
    return flags


def _is_meant(file: str, word: str) -> bool:
    """By its path, by a folder above it, or by a pattern; `cd sub && sh check.sh` means sub/check.sh."""
    path, meant = PurePosixPath(file), PurePosixPath(word)
    below = "/" not in word and "." in word and path.name == word
    return path == meant or meant in path.parents or below or fnmatch.fnmatch(file, word)


def _words(command: str) -> set[str]:
    """The words of a command that may be paths, those within quotes too; `tests/test_x.py::test_y` names
    the file before `::`, and `--config=ci/lint.ini` the one behind `=`."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        words = command.split()
    inner = {part for word in words if len(word.split()) > 1 for part in _words(word)}
    bare = {word.rpartition("=")[2].partition("::")[0].removeprefix("./") for word in words}
    return inner | {word for word in bare if word.strip("./*") and not word.startswith("-")}
