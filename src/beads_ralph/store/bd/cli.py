"""The bd program: how it is called, what its answers and errors mean, and questions to its database."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.names import CONVOY, ISSUE_TYPES, MOLECULE
from beads_ralph.errors import Code, RalphError
from beads_ralph.files.text_files import make_folder, ralph_dir
from beads_ralph.process import jobs
from beads_ralph.process.calls import Retry
from beads_ralph.process.jobs import Exit, Job
from beads_ralph.store import rules
from beads_ralph.store.bd.shape import Row, blockers, far_blockers, is_ours, store_order, tracked
from beads_ralph.store.query import ItemQuery, no_bead, nothing_there

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
ANY: Final = ("",)
"""Every refusal is expected."""

IDS_PER_CALL: Final = 200  # an argument has room for some 128 kB, an id has at most 200 characters
EVERYTHING: Final = ("--all", "--limit=0", "--include-gates", "--include-infra", "--include-templates")
OURS: Final = " OR ".join(f"type={name}" for name in ISSUE_TYPES)
# The built-in types, which are never ours; `bd ready` takes a list of types to leave out, but none to show.
FOREIGN_TYPES: Final = "task,bug,feature,chore,epic,decision,spike,story,milestone,convoy"
ITEMS: Final = " AND ".join(f"type!={name}" for name in ISSUE_TYPES)
WISPS: Final = "ephemeral=true"
WORD: Final = re.compile(r"[A-Za-z0-9._-]+")  # what stands for itself in bd's query language
UNANSWERED: Final = ("dependencies", "comment_count", "parent")  # what `bd update` leaves out of its answer


@dataclass(frozen=True)
class Bd:
    """The bd program on one repository's database. Its questions are asked so that an id means exactly
    itself."""

    program: str
    root: Path
    timeout: float
    place: Path | None = None
    """Where to run it, if not in the root: bd finds the formulas of the checkout that it stands in."""

    # --- calls --------------------------------------------------------------------------------------

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

    def read(self, *words: str) -> Any:
        """The JSON that a reading command prints."""
        done = self.run((*words, "--json"), reading=True)
        if not done.ok:
            raise self.failure(words, done)
        return self.parsed(words, done)

    def change(
        self,
        words: Sequence[str],
        took_effect: Callable[[], bool],
        *,
        expected: Sequence[str] = (),
        actor: str = OURSELVES,
        stdin: str | None = None,
        timeout: float | None = None,
    ) -> Exit:
        """Run a writing command: it was done, or refused in one of the expected phrases; raises otherwise.

        After a time-out the database decides whether it was done. What bd said before it was stopped is then
        not worth reading: there is no stdout.
        """
        done = self.run((*words, "--json"), actor=actor, stdin=stdin, timeout=timeout)
        if done.timed_out and took_effect():
            return replace(done, code=0, timed_out=False, stdout="")
        if done.ok or (not done.timed_out and any(phrase in error_text(done) for phrase in expected)):
            return done
        raise self.failure(words, done)

    def parsed(self, words: Sequence[str], done: Exit) -> Any:
        try:
            return json.loads(done.stdout)
        except (ValueError, RecursionError) as problem:
            message = f"bd {words[0]} printed something that is not JSON: {problem}"
            raise self.error(Code.COMMAND_FAILED, message, words, done) from None

    def failure(self, words: Sequence[str], done: Exit) -> RalphError:
        """A failed call as an error of ours."""
        if done.timed_out:
            held = "; another bd holds the database" if is_busy(done) else ""
            message = f"bd {words[0]} did not end within {done.seconds:.0f} s{held}"
            return self.error(Code.DATABASE_TIMEOUT, message, words, done)
        said = error_text(done)
        if "no beads database found" in said:
            return RalphError(Code.NOT_INITIALIZED, f"{self.root} has no bd database", details=said)
        code = Code.CONFLICT if done.code == GUARD_MISMATCH else Code.COMMAND_FAILED
        return self.error(code, f"bd {words[0]} failed: {said}", words, done)

    def error(
        self, code: Code, message: str, words: Sequence[str], done: Exit, action: str | None = None
    ) -> RalphError:
        """An error whose details are the command, its exit code and what bd said."""
        command = shlex.join((Path(self.program).name, *words))
        if len(command) > SHOWN_COMMAND:
            command = command[:SHOWN_COMMAND] + "…"
        said = f"command: {command}\nexit code: {done.code}\n{error_text(done)}"
        return RalphError(code, message, details=said, suggested_action=action)

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
        make_folder(ours)
        return str(ours)

    # --- issues by their ids ------------------------------------------------------------------------

    def by_ids(self, ids: Collection[str]) -> dict[str, Row]:
        """The issues that exist, of whatever type. `bd list --id` alone among bd's commands never guesses."""
        # bd splits at commas, and an empty list of ids would mean every issue.
        possible = [name for name in dict.fromkeys(ids) if name and "," not in name]
        found: dict[str, Row] = {}
        for start in range(0, len(possible), IDS_PER_CALL):
            part = possible[start : start + IDS_PER_CALL]
            rows = self.read("list", f"--id={','.join(part)}", *EVERYTHING)
            found |= {row["id"]: row for row in rows if row["id"] in part}
        return found

    def one(self, bead_id: str) -> Row:
        """Exactly this bead of ours."""
        row = self._there(bead_id)
        if not is_ours(row):
            raise no_bead(bead_id, str(row.get("issue_type")))
        return row

    def one_item(self, item_id: str) -> Row:
        """Exactly this issue, which is no bead of ours."""
        row = self._there(item_id)
        if is_ours(row):
            raise rules.no_item(item_id)
        return row

    def _there(self, name: str) -> Row:
        row = self.by_ids([name]).get(name)
        if row is None:
            raise nothing_there(name)
        return row

    def not_closed(self, ids: Sequence[str]) -> list[str]:
        """Those of the ids that still hold up what depends on them; one that is gone does, too."""
        there = self.by_ids(ids)
        return [name for name in ids if name not in there or there[name]["status"] != "closed"]

    def answered(self, words: Sequence[str], done: Exit, known: Row) -> Row:
        """The issue after a `bd update`, from the update's own answer; what that leaves out, from before it.

        bd may have taken another issue where the one we know was deleted meanwhile: the id tells.
        """
        if not done.stdout:  # it was done, but bd did not come to say so
            return self.one(known["id"])
        (row,) = self.parsed(words, done)
        return {**row, **{key: known[key] for key in UNANSWERED if key in known}}

    def changed(self, words: Sequence[str], done: Exit, known: Row) -> Row:
        """The same where nothing else may have been changed."""
        row = self.answered(words, done, known)
        if row["id"] != known["id"]:
            message = f"bd changed {row['id']} instead of {known['id']}, which somebody has deleted just now"
            advice = f"See what changed, and change it back: bd history {row['id']}"
            raise RalphError(Code.CONFLICT, message, suggested_action=advice)
        return row

    def comments(self, row: Row) -> list[Any]:
        """The comments of an issue that was looked up exactly."""
        return list(self.read("comments", row["id"]) or []) if row.get("comment_count") else []

    # --- issues by what they are --------------------------------------------------------------------

    def everything(self) -> list[Row]:
        return list(self.read("list", *EVERYTHING) or ())

    def asked(self, expression: str) -> list[Row]:
        return list(self.read("query", expression, "--all", "--limit=0") or ())

    def ours(self) -> list[Row]:
        """All our beads, closed ones and wisps included."""
        return self.ours_and_beside()[0]

    def ours_and_beside(self) -> tuple[list[Row], frozenset[str]]:
        """The same, and what lies beside them: a convoy that is open, a molecule, something else (the empty
        name) that one of them waits for or lies in. To ask for all costs what asking for one does."""
        rows = self.asked(f"{OURS} OR type={CONVOY} OR type={MOLECULE}")
        beads, known = sorted_ours(rows), {row["id"] for row in rows}
        named = {name for row in beads for name in (*blockers(row), row.get("parent")) if name}
        beside = {str(row["issue_type"]) for row in rows if not is_ours(row)}
        if not any(row["issue_type"] == CONVOY and row["status"] != "closed" for row in rows):
            beside.discard(CONVOY)
        return beads, frozenset(beside | ({""} if named - known else set()))

    def unblocked(self, *, wisps: bool = False) -> list[Row]:
        """Our open beads that wait for nothing, whoever they are assigned to."""
        more = ("--include-ephemeral",) if wisps else ()
        rows = sorted_ours(self.read("ready", "--limit=0", f"--exclude-type={FOREIGN_TYPES}", *more))
        waiting = set(self.not_closed([name for row in rows for name in far_blockers(row)]))
        return [row for row in rows if waiting.isdisjoint(far_blockers(row))]

    def items(self, query: ItemQuery) -> list[Row]:
        """Items, in the order they were made; bd narrows it down where its language can say how."""
        if query.ids:
            rows = list(self.by_ids(query.ids).values())
        elif len(query.parents) == 1:
            rows = self.below(*query.parents)
        else:
            terms = [ITEMS, *_any("type", query.types), *([WISPS] if query.wisps_only else [])]
            rows = self.asked(" AND ".join(terms))
        found = [row for row in rows if not is_ours(row) and not row.get("is_template")]
        return sorted(found, key=lambda row: store_order(row)[1:])

    def below(self, parent: str) -> list[Row]:
        """The children of an issue. bd knows `parent` only where it stands alone in a query."""
        rows = self.asked(f"parent={parent}") if WORD.fullmatch(parent) else self.everything()
        return [row for row in rows if row.get("parent") == parent]

    def members(self, row: Row) -> dict[str, Row]:
        """The children of an issue, and what it tracks."""
        return {other["id"]: other for other in self.below(row["id"])} | self.by_ids(tracked(row))


def sorted_ours(rows: Collection[Row] | None) -> list[Row]:
    """The beads of ours among them, in the store's order."""
    return sorted(filter(is_ours, rows or ()), key=store_order)


def _any(field: str, values: Collection[str]) -> list[str]:
    """`(field=a OR field=b)`; nothing where one of them might mean more than itself, or for too many."""
    if not 0 < len(values) <= IDS_PER_CALL or not all(map(WORD.fullmatch, values)):
        return []
    return [f"({' OR '.join(f'{field}={value}' for value in values)})"]


# --- running it, and what it says ---------------------------------------------------------------------


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
