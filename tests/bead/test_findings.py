"""Findings last: over any sequence of attempts, none is forgotten before its own check or reviewer passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.findings import BRANCH, CALLER, Finding, open_after, still_asked
from beads_ralph.bead.run_state import RunState
from beads_ralph.session.history import BeadHistory
from tests.beads import make_bead

Ruling = Literal["pass", "fail"]
VERIFIERS = ("lint", "tests")
REVIEWERS = ("careful", "quick", "careful")
"""Two of them play the same persona."""
RULING = st.sampled_from(["pass", "fail"])


@dataclass(frozen=True)
class Attempt:
    """How far it comes: its agent crashes, the branch holds nothing, or the checks run in their order and the
    reviewers after them."""

    end: Literal["crashed", "nothing", "checked"]
    verifiers: tuple[Ruling, ...] = ()
    reviewers: tuple[Ruling, ...] = ()

    def verdict(self, number: int) -> Verdict:
        if self.end != "checked":
            by = CALLER if self.end == "crashed" else BRANCH
            row = Evidence(by, "git", "", "c", "fail", f"{self.end} in {number}")
            return Verdict("fail", row.message, [row])
        rows = []
        for name, ruling in zip(VERIFIERS, self.verifiers, strict=True):
            rows.append(Evidence(name, "verifier", name, f"c{number}", ruling, f"{name} in {number}"))
            if ruling == "fail":
                break
        if all(row.ruling == "pass" for row in rows):
            rows += [
                Evidence(name, "qa", "claude", f"c{number}", ruling, f"{name} {seat} in {number}")
                for seat, (name, ruling) in enumerate(zip(REVIEWERS, self.reviewers, strict=True))
            ]
        passed = all(row.ruling == "pass" for row in rows)
        return Verdict("pass" if passed else "fail", f"judged in {number}", rows)


CHECKED = st.builds(
    Attempt,
    st.just("checked"),
    st.tuples(*[RULING] * len(VERIFIERS)),
    st.tuples(*[RULING] * len(REVIEWERS)),
)
LOST = st.builds(Attempt, st.sampled_from(["crashed", "nothing"]))
ATTEMPTS = st.lists(st.one_of(CHECKED, LOST), max_size=7)


@dataclass
class Told:
    """By hand, what must still be told: who said it, and in which words."""

    open: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def after(self, verdict: Verdict) -> None:
        seats: dict[str, int] = {}
        for row in verdict.evidence:
            if row.kind == "git":
                continue
            seats[row.name] = seats.get(row.name, 0) + 1
            source = (row.name, seats[row.name])
            if row.ruling == "pass":
                self.open.pop(source, None)
            elif row.kind == "qa":
                self.open.setdefault(source, []).append(row.message)
            else:
                self.open[source] = [row.message]

    @property
    def words(self) -> list[str]:
        return [words for said in self.open.values() for words in said]


@given(ATTEMPTS)
def test_no_open_finding_is_missing_from_what_the_next_developer_is_told(attempts: list[Attempt]) -> None:
    """In one run, and where each attempt is that of a new run, which knows only what the bead keeps."""
    bead, told = make_bead("bd-1-1-one"), Told()
    for number, attempt in enumerate(attempts, 1):
        verdict = attempt.verdict(number)
        record = BeadHistory.of(bead, "s")
        record.judge(number, verdict)
        told.after(verdict)
        kept = RunState.model_validate(record.state().to_metadata())
        bead = bead.model_copy(update={"metadata": bead.metadata.changed(kept)})
        again = BeadHistory.of(bead, "s")
        assert again.findings == record.findings, "what is kept is what is known"
        if verdict.ruling == "pass":
            assert (record.findings, record.feedback) == ([], None)
            told.open.clear()
        missing = [words for words in told.words if words not in (again.feedback or "")]
        assert missing == []
        checks = [one.words for one in record.findings if one.kind != "git"]
        assert sorted(checks) == sorted(told.words), "and nothing that was settled"


def test_a_crash_does_not_make_anybody_forget_what_the_reviewer_said() -> None:
    found = open_after([], Attempt("checked", ("pass", "pass"), ("fail", "pass", "pass")).verdict(1), 1)
    found = open_after(found, Attempt("crashed").verdict(2), 2)
    assert [one.words for one in found] == ["careful 0 in 1", "crashed in 2"]
    found = open_after(found, Attempt("nothing").verdict(3), 3)
    assert [one.words for one in found] == ["careful 0 in 1", "nothing in 3"]


def test_the_same_words_are_kept_once_and_the_latest_time() -> None:
    row = Evidence("careful", "qa", "claude", "c", "fail", "src/app.py:12: off by one")
    found: list[Finding] = []
    for attempt in (1, 2):
        found = open_after(found, Verdict("fail", "m", [row]), attempt)
    (one,) = found
    assert (one.attempt, one.file, one.line) == (2, "src/app.py", 12)


def test_the_place_is_what_the_answer_says_before_what_its_words_name() -> None:
    row = Evidence("q", "qa", "", "c", "fail", "see a.py:1", details={"file": "b.py", "line": 7})
    bare = Evidence("q", "qa", "", "c", "fail", "it took 12:30 and https://x.org:80 was asked")
    one, other = open_after([], Verdict("fail", "m", [row, bare]), 1)
    assert [(one.file, one.line), (other.file, other.line)] == [("b.py", 7), ("", None)]


def test_findings_of_checks_and_reviewers_that_the_bead_has_no_more_are_dropped() -> None:
    checked = Attempt("checked", ("fail", "pass")).verdict(1)
    reviewed = Attempt("checked", ("pass", "pass"), ("fail", "fail", "fail")).verdict(2)
    found = [*open_after([], checked, 1), *open_after([], reviewed, 2)]
    assert still_asked(found, ["lint"], REVIEWERS) == found
    kept = still_asked(found, ["true"], ["careful", "new"])
    assert [(one.by, one.number) for one in kept] == [("careful", 1)]
