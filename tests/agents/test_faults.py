"""Faults of programs: one table for the code, the docs and whoever speaks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

import pytest

from beads_ralph.agents import faults, reply_reader
from beads_ralph.agents.faults import FAULTS, Alone, First, Kind
from beads_ralph.agents.protocol import Reply
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.process.jobs import Exit

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "agents.md"
THE_WORKS: Final = ("", "unfinished", "unreadable")
FIRST: Final[dict[First, str]] = {
    "nothing": "is not asked again",
    "again": "is asked again, three times in all",
    "fresh": "is asked once more, in a fresh session that is told what was done",
}
ALONE: Final[dict[Alone, str]] = {
    "park": "beads wait until it lifts",
    "wait": "beads wait up to `outage_patience`, then the run ends",
    "end": "the run ends at once",
    "block": "this bead is blocked, the others go on",
}


def table() -> str:
    """As docs/reference/agents.md has it."""
    head = "| fault | meaning | the same program | nobody stands in | what to do |\n|---|---|---|---|---|\n"
    rows = (
        f"| `{kind}` | {one.meaning} | {FIRST[one.first]} | {ALONE[one.alone]} | {one.todo} |\n"
        for kind, one in FAULTS.items()
    )
    return head + "".join(rows)


def test_the_docs_have_the_table_of_the_code() -> None:
    said = PAGE.read_text("utf-8").partition("<!-- faults -->\n")[2].partition("<!-- end of faults -->")[0]
    assert said == table()


def test_every_trouble_is_the_works_or_has_an_answer() -> None:
    assert {*get_args(Trouble)} == {*THE_WORKS, *FAULTS} - {"missing"}
    assert {*get_args(Kind)} == {*FAULTS}
    assert {*reply_reader.TROUBLES, "limit", "missing"} == {*FAULTS}, "a program may report any of them"


@pytest.mark.parametrize("trouble", get_args(Trouble))
@pytest.mark.parametrize("ended", [Exit(0), Exit(1), Exit(-15, timed_out=True)])
def test_a_call_that_we_ended_has_met_what_its_program_waited_for(trouble: Trouble, ended: Exit) -> None:
    assert faults.kind_of(Reply(trouble=trouble), ended) == (None if trouble in THE_WORKS else trouble)


@pytest.mark.parametrize("ended", [Exit(-9, flooded=True), Exit(-9, over_memory=100)])
def test_what_an_agent_does_to_the_machine_is_no_fault_of_its_program(ended: Exit) -> None:
    assert faults.kind_of(Reply(trouble="server"), ended) is None


@pytest.mark.parametrize("kind", FAULTS)
def test_words_name_the_program_that_really_plays(kind: Kind) -> None:
    assert "codex" in faults.told(kind, "codex", "402")
    assert faults.told(kind, "codex", "402").endswith(": 402")
    assert faults.remedy(kind)[0].isupper()


def test_an_empty_account_does_not_read_as_a_missing_sign_in() -> None:
    said = f"{faults.told('credit', 'claude', '402')} {faults.remedy('credit')}".lower()
    assert "sign" not in said
    assert "credit" in said
