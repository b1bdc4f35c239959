"""Pouring a formula by bd itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.process.jobs import Exit
from beads_ralph.store.bd import queries
from beads_ralph.store.bd.cli import Bd, error_text
from beads_ralph.store.protocol import Poured

LIMIT: Final = 4  # time limits of one call that a pour may take: it may make a hundred steps
NOT_FOUND: Final = ("not found as formula", "proto not found", "is not a proto", "loading proto")
"""What bd says of a formula that is there but has a fault, as well as of one that is not there."""


def pour(bd: Bd, formula: str, values: Mapping[str, str], *, wisp: bool, assignee: str | None) -> Poured:
    """All the steps, or nothing. The caller holds the writer queue."""
    words = ("mol", "wisp" if wisp else "pour", formula, *(f"--var={k}={v}" for k, v in values.items()))
    assigned = (f"--assignee={assignee}",) if assignee and not wisp else ()
    done = bd.run((*words, *assigned, "--json"), timeout=LIMIT * bd.timeout)
    if done.timed_out:
        raise _unknown(bd, words, done)
    if not done.ok:
        raise _refused(bd, formula, words, done)
    poured = _poured(bd.parsed(words, done))
    if wisp and assignee:  # `bd mol wisp` has no word for it
        _assign(bd, poured.root, assignee)
    return poured


def _poured(answer: Any) -> Poured:
    root = str(answer["new_epic_id"])
    ids: Mapping[str, str] = answer["id_mapping"]
    name = next(key for key, made in ids.items() if made == root)
    return Poured(root, {key.removeprefix(f"{name}."): made for key, made in ids.items() if made != root})


def _assign(bd: Bd, root: str, assignee: str) -> None:
    bd.must_change(
        ("update", root, f"--assignee={assignee}"),
        lambda: bool(queries.by_ids(bd, [root])[root].get("assignee") == assignee),
    )


def _refused(bd: Bd, formula: str, words: Sequence[str], done: Exit) -> RalphError:
    said = _said(done)
    if any(phrase in said for phrase in NOT_FOUND):  # only `bd cook` says what is wrong with it
        cooked = bd.run(("cook", formula, "--dry-run"), reading=True)
        said = said if cooked.ok else _said(cooked)
    return RalphError(
        Code.POUR_FAILED,
        f"bd does not pour {formula}, and nothing was made: {said}",
        details=bd.account(words, done),
        suggested_action=f"Mend the formula or its variables: beads-ralph formula check {formula}",
    )


def _said(done: Exit) -> str:
    """bd's own words: of several faults it marks only the first line as an error."""
    plain = "" if done.stdout.strip() else done.stderr.strip()
    return plain.removeprefix("Error: ") if plain.startswith("Error: ") else error_text(done)


def _unknown(bd: Bd, words: Sequence[str], done: Exit) -> RalphError:
    return RalphError(
        Code.DATABASE_TIMEOUT,
        f"bd did not end within {done.seconds:.0f} s; it may have poured {words[2]}, or nothing",
        details=bd.account(words, done),
        suggested_action="See whether it is there: bd query type=molecule",
    )
