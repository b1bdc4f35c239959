"""Where formulas are looked for, what their files may be, and how one extends another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.formula.bd_compatible import why_not_plain
from beads_ralph.formula.folders import Folders
from tests.formula.recipes import FIXTURES, faults, loaded, project, step, write


def raw(name: str = "x", *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"formula": name, "steps": list(steps) or [step("a")], **more}


def refused(root: Path, name: str = "x") -> RalphError:
    with pytest.raises(RalphError) as caught:
        loaded(root, name)
    return caught.value


# --- the search -------------------------------------------------------------------------------------


def test_s1_fr6_1_the_order_of_the_search(
    tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, checkout, town = tmp_path / "root", tmp_path / "checkout", tmp_path / "town"
    monkeypatch.setenv("GT_ROOT", str(town))
    folders = Folders.of(root, checkout)
    for base, place in ((town, "gt_root"), (isolated, "user"), (checkout, "checkout"), (root, "project")):
        write(project(base), "x.formula.json", raw(description=place))
        found = folders.load("x")
        assert (found.description, found.place, found.name) == (place, place, "x")
    write(
        project(root), "x.formula.toml", 'formula = "x"\ndescription = "toml"\nsteps = [{id="a", title="A"}]'
    )
    assert folders.load("x").description == "toml"
    assert [(entry.place, entry.shadowed) for entry in folders.listing() if entry.name == "x"] == [
        ("project", False),
        ("project", True),
        ("checkout", True),
        ("user", True),
        ("gt_root", True),
    ]


def test_the_main_checkout_is_searched_once(tmp_path: Path) -> None:
    write(project(tmp_path), "x.formula.json", raw())
    (entry,) = [entry for entry in Folders.of(tmp_path, tmp_path).listing() if entry.place != "shipped"]
    assert (entry.place, entry.shadowed) == ("project", False)


def test_the_name_of_the_file_counts(tmp_path: Path) -> None:
    write(project(tmp_path), "x.formula.json", raw("other"))
    assert loaded(tmp_path, "x").name == "x"
    assert refused(tmp_path, "other").code is Code.FORMULA_NOT_FOUND


def test_only_formula_files_are_taken(tmp_path: Path) -> None:
    for name in ("x.json", "x.toml", "x.formula.yaml", "formula.json", "x.formula.json.bak", ".formula.json"):
        write(project(tmp_path), name, raw())
    (project(tmp_path) / ".#x.formula.json").symlink_to("me@host.123:456")  # an editor's lock
    assert refused(tmp_path).code is Code.FORMULA_NOT_FOUND
    assert [entry for entry in Folders.of(tmp_path).listing() if entry.place != "shipped"] == []


def test_a_file_whose_name_no_id_can_have_is_refused(tmp_path: Path) -> None:
    write(project(tmp_path), "a b.formula.json", raw("a b"))
    assert "cannot become part of a bead's id" in refused(tmp_path, "a b").message


def test_without_any_home_the_rest_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    write(project(tmp_path), "x.formula.json", raw())
    assert loaded(tmp_path, "x").place == "project"


@pytest.mark.parametrize("name", ["../x", "x/", "/etc/passwd", "", ".", "x.formula.json", "x\0"])
def test_a_name_never_leads_out_of_the_folders(tmp_path: Path, name: str) -> None:
    write(project(tmp_path), "x.formula.json", raw())
    write(tmp_path / ".beads", "x.formula.json", raw())
    assert refused(tmp_path, name).code is Code.FORMULA_NOT_FOUND


def test_a_near_name_is_offered_with_where_was_looked(tmp_path: Path) -> None:
    write(project(tmp_path), "bug-sweep.formula.json", raw("bug-sweep"))
    error = refused(tmp_path, "bug-swep")
    assert "did you mean bug-sweep" in error.message
    assert str(project(tmp_path)) in str(error.details)


def test_a_folder_that_is_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / ".beads").mkdir()
    (tmp_path / ".beads" / "formulas").write_text("x", encoding="utf-8")
    assert refused(tmp_path).code is Code.FORMULA_NOT_FOUND


# --- files ------------------------------------------------------------------------------------------

TOML = """\
formula = "x"
description = "of dates"

[vars]
bare = "plain"
[vars.full]
default = "f"

[[steps]]
id = "a"
title = "{{bare}} {{full}}"
[steps.metadata]
day = 2026-02-07
at = 2026-02-07T10:00:00Z
[steps.gate]
type = "timer"
timeout = "1h"
"""


def test_toml_says_the_same_as_json(tmp_path: Path) -> None:
    write(project(tmp_path), "x.formula.toml", TOML)
    found = loaded(tmp_path, "x")
    assert found.vars["bare"].default == "plain"
    assert found.steps[0].metadata == {"day": "2026-02-07", "at": "2026-02-07T10:00:00+00:00"}
    write(project(tmp_path), "y.formula.json", {**found.to_json(), "formula": "y"})
    again = loaded(tmp_path, "y")
    assert (again.steps, again.vars) == (found.steps, found.vars)


@pytest.mark.parametrize("change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
@pytest.mark.parametrize("name", ["x.formula.json", "x.formula.toml"])
def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(tmp_path: Path, name: str, change: Any) -> None:
    text = TOML if name.endswith("toml") else '{\n"formula": "x",\n"steps": [{"id": "a", "title": "A"}]\n}\n'
    project(tmp_path).mkdir(parents=True)
    (project(tmp_path) / name).write_bytes(change(text).encode())
    assert loaded(tmp_path, "x").formula == "x"


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("x.formula.json", b'{\n"formula": "x",\n"steps": [,]\n}', 3),
        ("x.formula.json", b"", 1),
        ("x.formula.json", b"\xef\xbb\xbf \n", 2),
        ("x.formula.json", b'{"formula": "x", "formula": "y"}', None),
        ("x.formula.json", b'{"formula": "x", "version": NaN}', None),
        ("x.formula.json", b"[" * 5000, None),
        ("x.formula.json", b"[]", None),
        ("x.formula.toml", b'formula = "x"\n[[steps]\n', 2),
        ("x.formula.toml", b'formula = "x"\nformula = "y"\n', 2),
        ("x.formula.toml", b'formula = "x"\nsteps = [', 2),
        ("x.formula.toml", b'formula = "x"\n[a]\nx = inf\n', None),
        ("x.formula.toml", b"x = " + b"[" * 5000, 1),
    ],
)
def test_broken_syntax_is_told_with_its_line(
    tmp_path: Path, name: str, content: bytes, line: int | None
) -> None:
    project(tmp_path).mkdir(parents=True)
    file = project(tmp_path) / name
    file.write_bytes(content)
    error = refused(tmp_path)
    assert error.code is Code.FORMULA_INVALID
    assert [(fault.file, fault.line) for fault in error.faults] == [(str(file), line)]


def test_files_that_cannot_be_read_are_told_as_such(tmp_path: Path) -> None:
    folder = project(tmp_path)
    folder.mkdir(parents=True)
    (folder / "directory.formula.json").mkdir()
    (folder / "itself.formula.json").symlink_to(folder / "itself.formula.json")
    (folder / "nowhere.formula.json").symlink_to(folder / "gone")
    (folder / "binary.formula.json").write_bytes(b"\0\1\2")
    (folder / "latin.formula.toml").write_bytes(b'formula = "\xe4"')
    (folder / "huge.formula.json").write_bytes(b" " * (10 * 1024 * 1024))
    expected = {
        "directory": Code.FILE_NOT_FOUND,
        "itself": Code.FILE_NOT_FOUND,
        "nowhere": Code.FILE_NOT_FOUND,
        "binary": Code.NOT_TEXT,
        "latin": Code.NOT_TEXT,
        "huge": Code.TOO_LARGE,
    }
    found = {e.name: e for e in Folders.of(tmp_path).listing() if e.place == "project"}
    assert {name: entry.faults[0].code for name, entry in found.items()} == expected
    for name, code in expected.items():
        error = refused(tmp_path, name)
        assert (error.code, name in error.message) == (code, True)


def test_a_key_without_a_value_is_one_that_is_not_there(tmp_path: Path) -> None:
    said = raw("x", step("a", priority=None, labels=None, metadata={"kept": None}), vars=None)
    write(project(tmp_path), "x.formula.json", said)
    (found,) = loaded(tmp_path, "x").steps
    assert (found.priority, found.labels, found.metadata) == (None, [], {"kept": None})


def test_a_variable_that_is_null_is_one_without_anything(tmp_path: Path) -> None:
    write(project(tmp_path), "x.formula.json", raw("x", step("a", title="{{v}}"), vars={"v": None}))
    found = loaded(tmp_path, "x")
    assert found.vars["v"].default is None
    assert why_not_plain(found) == "vars.v is null, on which bd stops"


@pytest.mark.parametrize("name", ["sprint-work-pattern", "work-sprint"])
def test_s1_fr6_2_s1_fr6_3_s1_fr6_4_the_formulas_of_the_seed_are_sound(tmp_path: Path, name: str) -> None:
    text = (FIXTURES / f"{name}.formula.json").read_text(encoding="utf-8")
    write(project(tmp_path), f"{name}.formula.json", text)
    (entry,) = [entry for entry in Folders.of(tmp_path).listing() if entry.place == "project"]
    assert (entry.faults, entry.formula is not None) == ((), True)


# --- extends ----------------------------------------------------------------------------------------


def test_a_child_replaces_in_place_and_adds_behind(tmp_path: Path) -> None:
    folder = project(tmp_path)
    write(
        folder,
        "one.formula.json",
        raw("one", step("a"), step("b", "a"), vars={"v": "1", "w": "1"}, description="1"),
    )
    write(folder, "two.formula.json", raw("two", step("c"), vars={"v": "2", "u": "2"}))
    child = raw("x", step("d", "b"), step("a", title="mine"), extends=["one", "two"], vars={"u": "3"})
    write(folder, "x.formula.json", child)
    found = loaded(tmp_path, "x")
    assert [(one.id, one.title) for one in found.steps] == [("a", "mine"), ("b", "B"), ("c", "C"), ("d", "D")]
    assert {name: var.default for name, var in found.vars.items()} == {"u": "3", "v": "1", "w": "1"}
    assert found.description == ""


def test_formulas_extend_over_several_generations(tmp_path: Path) -> None:
    write(project(tmp_path), "a.formula.toml", 'formula = "a"\nsteps = [{id="a", title="A"}]')
    write(project(tmp_path), "b.formula.json", raw("b", step("b", "a"), extends=["a"]))
    write(project(tmp_path), "x.formula.json", raw("x", step("c", "b"), extends=["b"]))
    assert [one.id for one in loaded(tmp_path, "x").steps] == ["a", "b", "c"]


def test_branches_of_parent_and_child_both_count(tmp_path: Path) -> None:
    fork = {"branch": [{"from": "a", "steps": ["b"], "join": "c"}]}
    write(project(tmp_path), "p.formula.json", raw("p", step("a"), step("b"), step("c"), compose=fork))
    more = {"branch": [{"from": "c", "steps": ["d"], "join": "e"}]}
    write(project(tmp_path), "x.formula.json", raw("x", step("d"), step("e"), extends=["p"], compose=more))
    compose = loaded(tmp_path, "x").compose
    assert compose is not None
    assert [branch.from_ for branch in compose.branch] == ["a", "c"]


@pytest.mark.parametrize(
    ("others", "extends", "field", "words"),
    [
        ({}, ["nope"], "extends[0]", "there is no formula 'nope'"),
        ({}, ["x"], "extends[0]", "x → x"),
        ({"y": raw("y", extends=["x"])}, ["y"], "extends[0]", "x → y → x"),
        ({"y": raw("y", step("b", "zz"))}, ["y"], "steps[0].needs[0]", "no step 'zz'"),
        ({"y": raw("y"), "z": raw("z")}, ["y", "z"], "steps[0].id", "is the id of"),
    ],
)
def test_extending_what_is_not_sound(
    tmp_path: Path, others: dict[str, Any], extends: list[str], field: str, words: str
) -> None:
    for name, said in others.items():
        write(project(tmp_path), f"{name}.formula.json", said)
    write(project(tmp_path), "x.formula.json", raw("x", step("q"), extends=extends))
    error = refused(tmp_path)
    assert error.code is Code.FORMULA_INVALID
    assert [(where, words in message) for where, message in faults(error)] == [(field, True)]


def test_a_fault_names_the_file_that_it_stands_in(tmp_path: Path) -> None:
    write(project(tmp_path), "p.formula.json", raw("p", step("a"), step("b", "a"), vars={"v": "1"}))
    child = raw("x", step("c", "b", condition="{{w}}"), step("a", "b"), extends=["p"])
    file = write(project(tmp_path), "x.formula.json", child)
    error = refused(tmp_path)
    assert {(fault.file, fault.field) for fault in error.faults} == {
        (str(file), "steps[0].condition"),
        (str(file), "steps[1].needs"),
    }


def test_a_formula_file_anywhere_finds_its_parents(tmp_path: Path) -> None:
    write(project(tmp_path), "p.formula.json", raw("p"))
    file = write(tmp_path / "elsewhere", "q.formula.json", raw("q", step("b", "a"), extends=["p"]))
    found = Folders.of(tmp_path).entry_of(file).sound()
    assert [one.id for one in found.steps] == ["a", "b"]
    assert (found.name, found.place) == ("q", None)
