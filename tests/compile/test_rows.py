"""Files of values."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.compile.rows import ValueRow, choose, read, spelled
from beads_ralph.errors import Code, RalphError

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


def test_a_csv_file_is_counted_as_a_spreadsheet_shows_it() -> None:
    text = '\ufeffname,what\r\nann,"one, ""two""\r\nthree"\r\n\r\n,\r\nbob,\r\ncid\r\n'
    assert read(text, "rows.csv") == [
        ValueRow(2, {"name": "ann", "what": 'one, "two"\r\nthree'}, "rows.csv"),
        ValueRow(5, {"name": "bob"}, "rows.csv"),
        ValueRow(6, {"name": "cid"}, "rows.csv"),
    ]


@given(st.lists(st.tuples(CELLS, CELLS).filter(any), min_size=1, max_size=8))
def test_what_csv_writes_is_what_is_read(rows: list[tuple[str, str]]) -> None:
    target = io.StringIO()
    csv.writer(target).writerows([("a", "b"), *rows])
    wanted = [{key: cell for key, cell in zip("ab", row, strict=True) if cell} for row in rows]
    assert [row.given for row in read(target.getvalue(), "x.csv")] == wanted


def test_json_has_numbers_booleans_and_lists() -> None:
    text = json.dumps([{"n": 3, "f": 1.5, "yes": True, "many": ["a", "b"], "none": None}, {}])
    first, second = read(text, "rows.json")
    assert first.given == {"n": 3, "f": "1.5", "yes": True, "many": ["a", "b"]}
    assert (first.number, second.number, second.label) == (1, 2, "rows.json row 2")


@pytest.mark.parametrize("text", ['[{"a": "1"}]', ' \n[{"a": "1"}]', "a\n1\n", "\ufeffa\n1\n"])
def test_stdin_is_what_it_looks_like(text: str) -> None:
    assert [row.given for row in read(text, "<stdin>")] == [{"a": "1"}]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("r.csv", "", "is empty"),
        ("r.csv", "\n\n", "is empty"),
        ("r.csv", "a,b\n", "has no rows"),
        ("r.csv", "a,b\n\n,\n", "has no rows"),
        ("r.csv", "a,b,a\n1,2,3\n", "has the column a twice"),
        ("r.csv", "a,b\n1,2,3\n", "row 2 has a cell without a heading: '3'"),
        ("r.csv", "a,\n1,2\n", "row 2 has a cell without a heading: '2'"),
        ("r.csv", 'a,b\n1,"2\n', "cannot be read near line 2"),
        ("r.csv", 'a,b\n1,"2"x\n', "cannot be read near line 2"),
        ("r.json", "", "not valid JSON"),
        ("r.json", "[]", "has no rows"),
        ("r.json", '{"a": 1}', "is not an array"),
        ("r.json", '[{"a": 1}, 2]', "row 2 is not an object"),
        ("r.json", '[{"a": {"b": 1}}]', "a is neither"),
        ("r.json", '[{"a": [["b"]]}]', "a is neither"),
        ("r.json", '[{"a": 1, "a": 2}]', "appears twice"),
    ],
)
def test_what_cannot_be_poured_is_refused(file: str, text: str, said: str) -> None:
    with pytest.raises(RalphError) as caught:
        read(text, file)
    assert caught.value.code is Code.INVALID_VAR
    assert said in caught.value.message


def test_columns_without_a_name_or_a_value_do_no_harm() -> None:
    assert [row.given for row in read("a,,\n1,,\n", "r.csv")] == [{"a": "1"}]


def test_a_cell_may_be_long() -> None:
    (row,) = read(f"a\n{'x' * 200_000}\n", "r.csv")
    assert len(str(row.given["a"])) == 200_000


# --- choosing ---------------------------------------------------------------------------------------

ROWS = [ValueRow(number, {}) for number in (2, 3, 5, 8)]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (None, [2, 3, 5, 8]),
        ("3-", [3, 5, 8]),
        ("-3", [2, 3]),
        ("3-5", [3, 5]),
        ("5", [5]),
        ("8,2-3", [2, 3, 8]),
    ],
)
def test_rows_are_chosen_by_number(asked: str | None, wanted: list[int]) -> None:
    assert [row.number for row in choose(ROWS, asked)] == wanted


@pytest.mark.parametrize("asked", ["", "-", "x", "3-4-5", "1,,2", "4", "9-", "3-2"])
def test_what_chooses_nothing_is_a_slip(asked: str) -> None:
    with pytest.raises(RalphError) as caught:
        choose(ROWS, asked)
    assert caught.value.code is Code.USAGE


@given(st.sets(st.integers(1, 30), min_size=1).map(sorted))
def test_rows_that_are_left_can_be_asked_for(numbers: list[int]) -> None:
    everything = [ValueRow(number, {}) for number in range(1, 31)]
    assert [row.number for row in choose(everything, spelled(numbers))] == numbers
