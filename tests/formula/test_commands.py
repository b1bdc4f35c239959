"""formula list, show and check: the real commands, in a repository of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import ralph
from tests.formula.recipes import FIXTURES, project, step, write

FEATURE = {
    "formula": "feature",
    "description": "One feature.\nMore of it.",
    "vars": {
        "name": {"required": True, "description": "what it is called", "pattern": "^[a-z-]+$"},
        "model": {"default": "sonnet", "enum": ["haiku", "sonnet"]},
        "branch": {"derive": "slug(name)"},
    },
    "steps": [
        step("build", title="Build {{name}}", notes="{{branch}}", type="beads-ralph-work"),
        step("look", "build", title="Look at it", condition="{{model}} == sonnet"),
        step("out", "look", title="Ship it", gate={"type": "human"}),
        step("after", "out", children=[step("tell"), step("rest")]),
    ],
}


@pytest.fixture
def shop(repo: Path) -> Path:
    write(project(repo), "feature.formula.json", FEATURE)
    for file in FIXTURES.iterdir():
        write(project(repo), file.name, file.read_text(encoding="utf-8"))
    return repo


# --- list -------------------------------------------------------------------------------------------


def test_list_names_each_with_where_it_comes_from(shop: Path, isolated: Path) -> None:
    write(project(isolated), "feature.formula.toml", 'formula="feature"\nsteps=[{id="a", title="A"}]')
    said = ralph("formula", "list", cwd=shop)
    assert (said.code, said.err) == (0, "")
    begun = [line.split() for line in said.out.splitlines() if not line.startswith(" ")]  # the rest is folded
    rows = [row for row in begun if row[1] != "shipped"]
    assert rows[0] == ["formula", "from", "steps", "variables", "description"]
    assert [row[:3] for row in rows[1:]] == [
        ["feature", "project", "5"],
        ["sprint-work-pattern", "project", "1"],
        ["work-sprint", "project", "1"],
        ["feature", "user", "1"],
    ]
    assert "One feature." in said.out
    assert "shadowed" in said.out.splitlines()[4]


def test_list_shows_a_broken_one_and_goes_on(shop: Path) -> None:
    write(project(shop), "bad.formula.json", '{"formula": "bad", "steps": [{"id": "a"}, {"title": "b"}]}')
    said = ralph("formula", "list", cwd=shop)
    assert said.code == 0
    assert "bad is broken: steps[0].title: is required (and 1 more" in said.err
    assert [line.split()[-1] for line in said.out.splitlines() if line.startswith("bad")] == ["broken"]
    listed = ralph("formula", "list", "--json", cwd=shop).data["formulas"]
    rows = {row["name"]: row for row in listed if row["place"] == "project"}
    assert (rows["bad"]["valid"], len(rows["bad"]["faults"])) == (False, 2)
    assert rows["feature"]["variables"] == ["name", "model", "branch"]


def test_list_where_there_is_no_repository(tmp_path: Path) -> None:
    said = ralph("formula", "list", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")


def test_faulty_settings_do_not_hinder_looking_at_formulas(shop: Path) -> None:
    write(shop, "beads-ralph.yaml", "stroe: bd\n")
    assert ralph("formula", "check", "feature", cwd=shop).code == 0


# --- show -------------------------------------------------------------------------------------------

SHOWN = """\
feature  One feature.
  file     .beads/formulas/feature.formula.json (project)
  pour     beads-ralph pours it itself: vars.branch follows from another variable,
           which bd does not know

variable
name      required        matches ^[a-z-]+$     what it is called
model     default sonnet  one of haiku, sonnet
branch    follows: slug(name)

wave 1   ┬─ ★ build     Build {{name}}                       starts at once
         └─   gate-out  Gate: human                          starts at once
wave 2   ── ★ look      ? {{model}} == sonnet: Look at it    ← build
wave 3   ── ★ out       Ship it                              ← look, gate-out
wave 4   ┬─ ★ tell      Tell                                 ← out
         └─   rest      Rest                                 ← out

5 steps and 1 gate, 4 waves, up to 2 in parallel; critical path ★ build → look → out → tell
pouring it makes a molecule with 1 bead for agents, 4 tasks for people, 1 epic, 1 gate
? is there only where its condition holds
"""


def words(text: str) -> list[str]:
    """Whatever the spaces between."""
    return text.split()


def test_show_tells_variables_steps_and_what_comes_of_it(shop: Path) -> None:
    said = ralph("formula", "show", "feature", cwd=shop)
    assert (said.code, said.err) == (0, "")
    assert words(said.out) == words(SHOWN)


def test_show_as_json_gives_the_formula_with_what_it_extends(shop: Path) -> None:
    child = {"formula": "child", "extends": ["feature"], "steps": [step("party", "after")]}
    write(project(shop), "child.formula.json", child)
    data = ralph("formula", "show", "child", "--json", cwd=shop).data
    assert [one["id"] for one in data["formula"]["steps"]] == ["build", "look", "out", "after", "party"]
    assert data["makes"] == {"beads": 1, "tasks": 5, "epics": 1, "gates": 1}
    found = {one["key"]: one for one in data["steps"]}
    assert found["party"]["needs"] == ["tell", "rest"]
    assert found["look"]["condition"] == "{{model}} == sonnet"
    assert found["out"]["gate"] == {"type": "human"}
    assert found["tell"]["parent"] == "after"
    assert [var["name"] for var in data["variables"] if var["required"]] == ["name"]


def test_show_of_what_only_bd_can_pour(shop: Path) -> None:
    write(project(shop), "m.formula.json", {"formula": "m", "steps": [step("a", expand="macro")]})
    said = ralph("formula", "show", "m", cwd=shop)
    assert said.code == 0
    assert "steps[0].expand: is only for bd" in said.out


def test_show_of_a_name_that_is_not_there(shop: Path) -> None:
    said = ralph("formula", "show", "featrue", cwd=shop)
    assert said.code == 1
    assert "did you mean feature?" in said.err
    assert "[FORMULA.NOT_FOUND]" in said.err


def test_a_title_cannot_bring_markup_into_the_text(shop: Path) -> None:
    odd = step("a", title="[red]x[/red] :boom: \x1b[31m")
    write(project(shop), "odd.formula.json", {"formula": "odd", "description": "[b]d[/b]", "steps": [odd]})
    said = ralph("formula", "show", "odd", cwd=shop).out
    assert "[red]x[/red] :boom:" in said
    assert "[b]d[/b]" in said
    assert "\x1b" not in said


# --- check ------------------------------------------------------------------------------------------


def test_check_says_who_pours_it_and_why(shop: Path) -> None:
    said = ralph("formula", "check", "work-sprint", "sprint-work-pattern", cwd=shop)
    assert said.code == 0
    plain, other = said.out.splitlines()
    assert plain == "✓ work-sprint (project): 1 step, 3 variables; on the bd store bd itself pours it"
    assert other.endswith("steps[0].labels[0] has a placeholder, which bd does not fill in there")
    assert "vars.worktree: is not used by any step" in said.err


def test_check_says_what_only_bd_can_pour_and_what_nobody_can(shop: Path) -> None:
    write(project(shop), "m.formula.json", {"formula": "m", "steps": [step("a", expand="macro")]})
    said = ralph("formula", "check", "m", cwd=shop)
    assert said.code == 0
    assert "on the bd store bd itself pours it, and nobody on the embedded one: steps[0].expand" in said.out
    dead = {"formula": "m", "steps": [step("a", expand="macro", bead_id="bd-x")]}
    write(project(shop), "m.formula.json", dead)
    said = ralph("formula", "check", "m", "--json", cwd=shop)
    assert (said.code, said.error["code"]) == (1, "FORMULA.UNSUPPORTED")
    assert "steps[0].bead_id is not known to bd" in said.error["message"]


def test_check_without_a_name_checks_them_all(shop: Path) -> None:
    write(project(shop), "bad.formula.toml", 'formula = "bad"\nsteps = [\n')
    said = ralph("formula", "check", cwd=shop)
    assert said.code == 1
    assert "✓ feature (project)" in said.err
    assert "✗ bad: 1 fault" in said.err
    assert "bad.formula.toml:3: not valid TOML" in said.err


def test_check_of_files_anywhere(shop: Path) -> None:
    bad = write(shop / "elsewhere", "bad.formula.json", {"formula": "bad", "steps": [step("a", "b")]})
    good = write(shop / "elsewhere", "good.formula.json", {"formula": "good", "steps": [step("a")]})
    assert ralph("formula", "check", good, cwd=shop).code == 0
    said = ralph("formula", "check", "good", bad, good, "elsewhere/x.yaml", "--json", cwd=shop)
    assert said.code == 1
    found = [(fault["code"], fault.get("field")) for fault in said.error["details"]["faults"]]
    assert found == [
        ("FORMULA.NOT_FOUND", None),
        ("FORMULA.INVALID", "steps[0].needs[0]"),
        ("FORMULA.INVALID", None),
    ]


def test_check_of_a_file_that_is_not_there(shop: Path) -> None:
    said = ralph("formula", "check", "./gone.formula.json", "--json", cwd=shop)
    assert (said.code, said.error["code"]) == (1, "IO.FILE_NOT_FOUND")
