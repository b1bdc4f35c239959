"""Calls of the bd program: environment, time limit, retry, the shapes of its answers and errors."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.process import jobs
from beads_ralph.process.calls import Retry
from beads_ralph.process.jobs import Exit, Job

OURSELVES: Final = "beads-ralph"  # who bd's history names for what no worker did
DROPPED: Final = ("BD_", "BEADS_", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")

SERVER: Final = "BEADS_DOLT_"  # how to reach a Dolt server; those stay

RETRY: Final = Retry(tries=5, first=0.1, longest=5.0)
BUSY: Final = (
    "error 1213",
    "serialization failure",
    "database is locked",
    "workspace gate busy",
    "try restarting transaction",
)
GUARD_MISMATCH: Final = 13  # somebody else changed the issue since we looked
SHOWN_COMMAND: Final = 400


@dataclass(frozen=True)
class Bd:
    """The bd program on one repository's database."""

    program: str
    root: Path
    timeout: float
    place: Path | None = None
    """Where to run it, if not in the root: bd finds the formulas of the checkout that it stands in."""

    def run(
        self,
        words: Sequence[str],
        *,
        actor: str = OURSELVES,
        stdin: str | None = None,
        timeout: float | None = None,
        reading: bool = False,
    ) -> Exit:
        """Run it, again where another bd was in the way. A write that timed out is never run again here."""
        argv = (self.program, *words, f"--actor={actor}")
        _check_text(argv)
        # Half a surrogate pair, which no process can be given, becomes its escape.
        given = None if stdin is None else stdin.encode("utf-8", "backslashreplace").decode()
        limit = self.timeout if timeout is None else timeout
        job = Job(argv, self.place or self.root, self._environment(), given, limit)
        for pause in RETRY.pauses():
            done = _started(job)
            if not is_busy(done) or (done.timed_out and not reading):
                return done
            time.sleep(pause)
        return _started(job)

    def read(self, *words: str, timeout: float | None = None) -> Any:
        """The JSON that a reading command prints."""
        done = self.run((*words, "--json"), timeout=timeout, reading=True)
        if not done.ok:
            raise self.failure(words, done)
        return self.parsed(words, done)

    def change(
        self,
        words: Sequence[str],
        took_effect: Callable[[], bool],
        *,
        actor: str = OURSELVES,
        stdin: str | None = None,
        timeout: float | None = None,
    ) -> Exit:
        """Run a writing command; after a time-out the database decides whether it was done.

        What bd said before it was stopped is then not worth reading: there is no stdout.
        """
        done = self.run((*words, "--json"), actor=actor, stdin=stdin, timeout=timeout)
        if not done.timed_out:
            return done
        if took_effect():
            return replace(done, code=0, timed_out=False, stdout="")
        raise self.failure(words, done)

    def must_change(
        self,
        words: Sequence[str],
        took_effect: Callable[[], bool],
        *,
        actor: str = OURSELVES,
        stdin: str | None = None,
    ) -> None:
        """The same for a command that has no expected refusals."""
        done = self.change(words, took_effect, actor=actor, stdin=stdin)
        if not done.ok:
            raise self.failure(words, done)

    def parsed(self, words: Sequence[str], done: Exit) -> Any:
        try:
            return json.loads(done.stdout)
        except (ValueError, RecursionError) as problem:
            raise RalphError(
                Code.COMMAND_FAILED,
                f"bd {words[0]} printed something that is not JSON: {problem}",
                details=self.account(words, done),
            ) from None

    def failure(self, words: Sequence[str], done: Exit) -> RalphError:
        """A failed call as an error of ours."""
        if done.timed_out:
            held = "; another bd holds the database" if is_busy(done) else ""
            message = f"bd {words[0]} did not end within {done.seconds:.0f} s{held}"
            return RalphError(Code.DATABASE_TIMEOUT, message, details=self.account(words, done))
        said = error_text(done)
        if "no beads database found" in said:
            return RalphError(Code.NOT_INITIALIZED, f"{self.root} has no bd database", details=said)
        code = Code.CONFLICT if done.code == GUARD_MISMATCH else Code.COMMAND_FAILED
        return RalphError(code, f"bd {words[0]} failed: {said}", details=self.account(words, done))

    def account(self, words: Sequence[str], done: Exit) -> str:
        """The command, its exit code and what bd said, for the details of an error."""
        command = shlex.join((Path(self.program).name, *words))
        if len(command) > SHOWN_COMMAND:
            command = command[:SHOWN_COMMAND] + "…"
        return f"command: {command}\nexit code: {done.code}\n{error_text(done)}"

    def _environment(self) -> dict[str, str]:
        wanted = {
            "BD_DISABLE_METRICS": "1",
            "BD_DISABLE_EVENT_FLUSH": "1",
            "BD_NON_INTERACTIVE": "1",
            "NO_COLOR": "1",
            "BEADS_DIR": str(self.root / ".beads"),
            "HOME": self._home(),
        }
        server = {name: value for name, value in os.environ.items() if name.startswith(SERVER)}
        return jobs.environment({**server, **wanted}, DROPPED)

    def _home(self) -> str:
        """bd cannot open its database where HOME is no directory."""
        home = os.environ.get("HOME", "")
        if home and Path(home).is_dir():
            return home
        ours = ralph_dir(self.root) / "home"
        ours.mkdir(exist_ok=True)
        return str(ours)


def error_text(done: Exit) -> str:
    """bd's own error message: JSON on stdout, or a JSON object on stderr, or stderr's plain text."""
    said = _json_error(done.stdout) or _json_error(_from_first_brace(done.stderr))
    return said or _plain_error(done.stderr) or f"exit code {done.code} without a word"


def is_busy(done: Exit) -> bool:
    """True where another bd was in the way: nothing was done, and it may work in a moment."""
    if done.ok:
        return False
    said = f"{error_text(done)}\n{done.stderr}".lower()
    return any(phrase in said for phrase in BUSY)


def _started(job: Job) -> Exit:
    try:
        return jobs.run(job)
    except OSError as problem:
        raise RalphError(Code.CLI_NOT_FOUND, f"cannot run {job.argv[0]}: {problem}") from problem


def _check_text(argv: Sequence[str]) -> None:
    """Arguments that no process can be given: better refused here than met as a crash."""
    for word in argv:
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            raise RalphError(Code.CONSTRAINT, f"bd cannot store this text: {word[:80]!a}")


def _json_error(text: str) -> str:
    try:
        answer, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    single = [row.get("error") for row in answer.get("failed") or [] if isinstance(row, dict)]
    return "; ".join(str(said) for said in single if said) or str(answer.get("error") or "")


def _from_first_brace(text: str) -> str:
    """From the first line that begins a JSON object; bd prints text lines before and after it."""
    lines = text.splitlines(keepends=True)
    start = next((number for number, line in enumerate(lines) if line.startswith("{")), len(lines))
    return "".join(lines[start:])


def _plain_error(text: str) -> str:
    """The lines that bd marks as errors, without its warnings and hints; everything where none is marked."""
    marked = [line.removeprefix("Error: ") for line in text.splitlines() if line.startswith("Error")]
    return "\n".join(marked) or text.strip()
