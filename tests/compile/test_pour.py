"""Pouring into a store: what happens when it is not alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.compile.pour import Account, PreparedPour, pour, prepare
from beads_ralph.compile.rows import Recipe, ValueRow, orders
from beads_ralph.errors import Code, RalphError
from beads_ralph.formula.model import Formula
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import ItemQuery
from tests.compile.molecule_formulas import MERGE, WORK, formula, setting, step


def prepared(store: EmbeddedStore, source: Formula, *rows: dict[str, Any]) -> PreparedPour:
    recipe = Recipe(source, setting(), "p.json")
    numbered = [ValueRow(number, given, "rows") for number, given in enumerate(rows, 1)]
    return prepare(store, recipe, orders(recipe, numbered, {}))


def poured(store: EmbeddedStore, source: Formula, *rows: dict[str, Any]) -> Account:
    return pour(store, prepared(store, source, *rows), lambda _done, _rows: None)


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def test_numbers_that_another_took_meanwhile_are_not_ours(store: EmbeddedStore) -> None:
    source = formula(step("a"), name="row")
    ours = prepared(store, source, {}, {}, {})
    assert poured(store, source, {}, {}).roots == ["bd-row-001", "bd-row-002"]
    account = pour(store, ours, lambda _done, _rows: None)
    assert account.roots == ["bd-row-003", "bd-row-004", "bd-row-005"]
    assert account.members == [f"{root}-a" for root in account.roots]
    assert len(store.items.find(ItemQuery())) == 10


def test_a_row_that_another_poured_meanwhile_is_found_and_those_before_it_are_in(
    store: EmbeddedStore,
) -> None:
    source = formula(step("a", bead_id="bd-{{n}}"))
    ours = prepared(store, source, *({"n": n} for n in "wxyz"))
    poured(store, source, {"n": "y"})
    account = pour(store, ours, lambda _done, _rows: None)
    assert account.members == ["bd-w", "bd-x"]
    assert account.failed is not None
    assert (account.failed.code, account.failed_row) == (Code.DUPLICATE_ID, 3)
    assert account.to_json() | {"failed": None} == {"rows": 4, "poured": 2, "failed": None, "not_tried": 1}
    tasks = store.items.find(ItemQuery(types=("task",)))
    assert {item.id for item in tasks} == {"bd-w", "bd-x", "bd-y"}


def test_a_merge_merges_the_branches_of_what_it_waits_for_outside(store: EmbeddedStore) -> None:
    poured(
        store,
        formula(step("a", WORK, metadata={"branch": "work/{{n}}"}), name="work"),
        {"n": "x"},
        {"n": "y"},
    )
    beads = ["bd-work-001-a", "bd-work-002-a"]
    source = formula(step("m", MERGE, after=["{{beads}}"]), name="release", vars={"beads": {"type": "list"}})
    (identity,) = poured(store, source, {"beads": beads}).members
    made = store.show(identity)
    assert made.metadata.branches_to_merge == ["work/x", "work/y"]
    assert made.dependencies == beads


def test_what_cannot_be_rendered_is_told_for_every_row(store: EmbeddedStore) -> None:
    loop = {"id": "l", "title": "L", "loop": {"range": "1..{n}", "var": "i", "body": [step("b")]}}
    source = formula(loop, vars={"n": {"type": "int", "required": True}})
    with pytest.raises(RalphError) as caught:
        prepared(store, source, {"n": 0}, {"n": 1}, {"n": -1})
    assert caught.value.code is Code.INVALID_VAR
    assert [fault.message.partition(":")[0] for fault in caught.value.faults] == ["rows row 1", "rows row 3"]


def test_branches_that_git_would_refuse_together_are_refused(store: EmbeddedStore) -> None:
    source = formula(step("a", WORK, metadata={"branch": "{{b}}"}))
    with pytest.raises(RalphError) as caught:
        prepared(store, source, {"b": "work"}, {"b": "work/x"})
    assert caught.value.code is Code.POUR_FAILED
    (fault,) = caught.value.faults
    assert fault.message.startswith("rows row 2: ")
    assert (fault.code, fault.field) == (Code.CONSTRAINT, "metadata.branch")
