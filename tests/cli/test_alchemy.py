"""formula find and formula make: what they say, what they write, what they refuse."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query
from tests.cli.running import Ran, ralph, tree, write
from tests.compile.plans import plan, sprint
from tests.formula.plans import endpoint
from tests.formula.test_make import PHASES

PLAN = plan(
    endpoint("2.1", "users"),
    endpoint("2.2", "orders"),
    endpoint("3.1", "bills"),
    sprint("3.2", "Release it", verify="`make release`"),
    "### ~~Sprint 3.3: Given up~~\n",
)
FORMULA = ".beads/formulas/endpoint.formula.toml"


def find(root: Path, text: str = PLAN, name: str = "plan.md") -> Ran:
    write(root / name, text)
    return ralph("formula", "find", name, "--json", cwd=root)


def make(root: Path, *words: str | Path, text: str = PLAN, sprints: str = "2.1,2.2,3.1") -> Ran:
    write(root / "plan.md", text)
    arguments = ("formula", "make", "endpoint", "--from", "plan.md", "--sprints", sprints)
    return ralph(*arguments, *words, "--json", cwd=root)


# --- find -------------------------------------------------------------------------------------------


def test_find_reports_the_pattern_and_the_line_to_type(repo: Path) -> None:
    before = tree(repo)
    data = find(repo).data
    (pattern,) = data["patterns"]
    assert (data["plan"], data["sprints"]) == ("plan.md", 4)
    assert pattern["sprints"] == [["2.1"], ["2.2"], ["3.1"]]
    assert (pattern["repeats"], pattern["beads"], pattern["bulk"]) == (3, 3, False)
    assert pattern["constant"]["issue_type"] == "beads-ralph-work"
    assert pattern["varying"]["title"] == ["Users endpoint", "Orders endpoint", "Bills endpoint"]
    assert pattern["vars"]["resource"]["required"] is True
    assert pattern["score"] > 0.3
    line = "beads-ralph formula make endpoint --from plan.md --sprints 2.1,2.2,3.1"
    assert pattern["command"] == line
    (repo / "plan.md").unlink()
    assert tree(repo) == before, "finding writes nothing"


def test_s1_ov2_the_line_that_find_gives_is_the_line_that_makes(repo: Path) -> None:
    command = find(repo, name="my plan.md").data["patterns"][0]["command"]
    assert command.startswith("beads-ralph formula make endpoint --from 'my plan.md'")
    made = ralph(*shlex.split(command)[1:], "--json", cwd=repo)
    assert made.data["formula_name"] == "endpoint"


def test_find_tells_a_person_what_varies(repo: Path) -> None:
    write(repo / "plan.md", PHASES)
    told = ralph("formula", "find", "plan.md", cwd=repo)
    assert told.code == 0
    assert "1. phase-of-2: 2 repeats, replaces 4 beads" in told.out
    assert "variable  subject: users, bills" in told.out
    assert "→ beads-ralph formula make phase-of-2 --from plan.md --sprints 2.1+2.2,3.1+3.2" in told.out


def test_s1_fr6_5_nothing_found_is_said_plainly_and_leaves_it_to_mason(repo: Path) -> None:
    write(repo / "plan.md", plan(sprint("1.1", "A"), sprint("1.2", "B", verify="`x`")))
    told = ralph("formula", "find", "plan.md", cwd=repo)
    assert (told.code, told.out) == (
        0,
        "nothing here is worth a formula (2 sprints of plan.md): mason is the way for them\n",
    )
    assert ralph("formula", "find", "plan.md", "--json", cwd=repo).data["patterns"] == []


def test_looking_needs_no_agents(repo: Path) -> None:
    things = (("1.1", "users"), ("1.2", "bills"))
    text = plan(*(endpoint(number, thing, dev_agents="nobody-here (opus)") for number, thing in things))
    write(repo / "plan.md", text)
    assert len(ralph("formula", "find", "plan.md", "--json", cwd=repo).data["patterns"]) == 1


def test_a_faulty_plan_is_refused_with_its_faults(repo: Path) -> None:
    faulty = plan(endpoint("2.1", "users"), endpoint("2.2", "x", priority="9"), endpoint("2.3", "y"))
    assert find(repo, faulty).error["details"]["faults"][0]["file"] == "plan.md"
    assert make(repo, text=faulty, sprints="2.1,2.3").code == 1
    assert not (repo / FORMULA).exists()


# --- make -------------------------------------------------------------------------------------------


def test_s1_fr6_1_s1_fr6_2_make_writes_the_formula_and_the_rows_and_pours_nothing(repo: Path) -> None:
    data = make(repo, "--rows", "rows.csv").data
    assert data["formula_name"] == "endpoint"
    assert data["formula_path"] == str(repo / FORMULA)
    title = "{{resource_sentence_case}} endpoint"
    assert data["steps"] == [{"id": "work", "title": title, "type": "beads-ralph-work", "needs": []}]
    assert data["sprints"] == [["2.1"], ["2.2"], ["3.1"]]
    assert (data["beads"], data["format"], data["rows_path"]) == (3, "toml", "rows.csv")
    assert data["pour_command"] == "beads-ralph pour endpoint --vars-file rows.csv"
    said = tomllib.loads((repo / FORMULA).read_text(encoding="utf-8"))
    assert said["vars"] == data["vars"]
    assert (said["formula"], said["version"], said["type"], said["phase"]) == (
        "endpoint",
        1,
        "workflow",
        "liquid",
    )
    rows = (repo / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "sprint_id,resource,after,plan_file"
    assert rows[1] == "2.1,users,,plan.md"
    assert not (repo / ".ralph" / "beads.db").exists()


def test_s1_fr6_3_s1_fr6_4_variables_and_steps_have_the_seeds_keys(repo: Path) -> None:
    text = plan(
        *(
            endpoint(f"2.{n}", f"x{n}", dev_agents=f"claude ({'opus' if n == 1 else 'sonnet'})")
            for n in (1, 2, 3)
        )
    )
    make(repo, text=text, sprints="2.1,2.2,2.3")
    said = tomllib.loads((repo / FORMULA).read_text(encoding="utf-8"))
    assert said["vars"]["sprint_id"] == {
        "description": "The sprint's number, such as 2.1 or 3a.2b",
        "required": True,
        "pattern": r"^\d+[a-z]*\.\d+[a-z]*$",
    }
    assert said["vars"]["dev_model"] == {
        "description": "The developer: the model",
        "default": "sonnet",
        "enum": ["haiku", "sonnet", "opus"],
    }
    (step,) = said["steps"]
    assert {"id", "title", "description", "type", "priority", "labels", "assignee"} <= set(step)
    assert (step["title"], step["assignee"]) == ("{{title}}", "beads-ralph-scrum-master")
    assert step["labels"][1] == "sprint-{{sprint_slug}}"


def test_make_in_json_with_rows_in_json(repo: Path) -> None:
    data = make(repo, "--format", "json", "--rows", "rows.json").data
    said = json.loads(Path(data["formula_path"]).read_text(encoding="utf-8"))
    assert Path(data["formula_path"]).name == "endpoint.formula.json"
    assert said["vars"]["plan_file"]["default"] == ".beads/formulas/endpoint.formula.json"
    assert json.loads((repo / "rows.json").read_text(encoding="utf-8")) == data["rows"]


def test_a_formula_holds_no_path_of_the_machine(repo: Path) -> None:
    make(
        repo,
        text=plan(endpoint("2.1", "users"), endpoint("2.2", "x", worktree="../there/x")),
        sprints="2.1,2.2",
    )
    assert str(repo.parent) not in (repo / FORMULA).read_text(encoding="utf-8")


def test_what_a_null_needs_is_json(repo: Path) -> None:
    write(repo / "beads-ralph.yaml", "plan:\n  scrum_master: {role: polecat, agent: claude, model: null}\n")
    assert make(repo).data["format"] == "json"
    refused = make(repo, "--format", "toml", sprints="2.1,2.2").error
    assert refused["code"] == "VALIDATION.CONSTRAINT", "the JSON file of that name is there"
    (repo / ".beads/formulas/endpoint.formula.json").unlink()
    refused = make(repo, "--format", "toml").error
    assert refused["code"] == "FORMULA.INVALID"
    assert refused["suggested_action"] == "Write it with --format json"


def test_what_is_there_stays_unless_forced(repo: Path) -> None:
    make(repo, "--rows", "rows.csv")
    before = tree(repo)
    assert (
        make(repo, sprints="2.1,2.2").error["suggested_action"]
        == "Use --force to replace it, or another name"
    )
    assert make(repo, "--rows", "rows.csv", sprints="2.1,2.2").code == 1
    other = make(repo, "--format", "json", "--force", sprints="2.1,2.2").error
    assert other["suggested_action"].startswith("Remove ")
    assert tree(repo) == before
    assert make(repo, "--force", "--rows", "rows.csv", sprints="2.1,2.2").data["beads"] == 2
    assert (repo / "rows.csv").read_text(encoding="utf-8").count("\n") == 3


def test_sprints_that_do_not_go_together_are_told_where_they_part(repo: Path) -> None:
    error = make(repo, sprints="2.1,3.2,3.1").error
    assert error["code"] == "FORMULA.INVALID"
    assert "2.1 and 3.2 part at metadata.dod (2.1: has none; 3.2: has it)" in error["message"]
    assert error["details"]["fitting"] == ["2.1,3.1", "3.2"]
    assert error["suggested_action"] == "Take those that fit: --sprints 2.1,3.1"
    assert not (repo / ".beads").exists()


@pytest.mark.parametrize(
    ("sprints", "code", "said"),
    [
        ("2.1,9.9", "DEPENDENCY.UNRESOLVED", "sprint 9.9 is not in the plan"),
        ("2.1,3.3", "DEPENDENCY.UNRESOLVED", "sprint 3.3 is struck out"),
        ("2.1,two", "PARSE.INVALID_PATTERN", "'two', which is not a sprint id"),
        ("2.1,2.1", "USAGE.INVALID", "names 2.1 more than once"),
        ("2.1+2.2,2.2", "USAGE.INVALID", "names 2.2 more than once"),
        ("", "USAGE.INVALID", "does not name sprints"),
        ("2.1+,2.2", "USAGE.INVALID", "does not name sprints"),
    ],
)
def test_sprints_that_are_not_there(repo: Path, sprints: str, code: str, said: str) -> None:
    error = make(repo, sprints=sprints).error
    assert (error["code"], said in error["message"]) == (code, True), error
    assert not (repo / ".beads").exists()


def test_a_sprint_that_a_formula_gives_already_is_left_out(repo: Path) -> None:
    make(repo)
    poured = sprint("3.4", "Parts", tasks=["x", "y"], formula="endpoint", pour="resource=parts")
    data = find(repo, PLAN + poured).data
    assert data["patterns"][0]["sprints"] == [["2.1"], ["2.2"], ["3.1"]]
    error = make(repo, "--force", text=PLAN + poured, sprints="2.1,3.4").error
    assert "sprint 3.4 is poured from a formula already" in error["message"]


@pytest.mark.parametrize("name", ["a/b", "..", "-x", "", "x.formula", ".hidden", "x.toml"])
def test_a_name_must_be_good_for_a_file(repo: Path, name: str) -> None:
    write(repo / "plan.md", PLAN)
    refused = ralph(
        "formula", "make", "--from", "plan.md", "--sprints", "2.1", "--json", "--", name, cwd=repo
    )
    assert refused.code == 2
    assert not (repo / ".beads").exists()


def test_rows_go_into_csv_or_json_only(repo: Path) -> None:
    assert make(repo, "--rows", "rows.txt").code == 2
    assert make(repo, "--rows", "no/such/folder/rows.csv").code == 1
    assert not (repo / FORMULA).exists(), "rows that cannot be written leave no formula behind"


def test_one_sprint_alone_is_made_with_a_warning(repo: Path) -> None:
    data = make(repo, sprints="2.1").data
    assert "one sprint alone" in data["warnings"][0]["message"]
    assert data["pour_command"].startswith(
        "beads-ralph pour endpoint --var sprint_id=VALUE --var title=VALUE"
    )


def test_a_priority_that_varies_is_warned_of_since_bd_cannot_read_it(repo: Path) -> None:
    text = plan(endpoint("2.1", "users"), endpoint("2.2", "x", priority="0"))
    assert "priority" in make(repo, text=text, sprints="2.1,2.2").data["warnings"][0]["message"]


def test_in_a_worktree_the_formula_is_the_main_repositorys(repo: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "worktree", "add", "--quiet", tmp_path / "side"], cwd=repo, check=True, timeout=60)
    make(tmp_path / "side")
    assert (repo / FORMULA).is_file()


# --- poured back ------------------------------------------------------------------------------------

NASTY = plan(
    sprint("1.1", 'Say "hi" \\\\ twice', tasks=["Print {{x}} 100%", "\\# no comment"], labels="a, b"),
    sprint("1.2", "Größe — 数え方", tasks=["[one], 'two'", "three", "four"]),
    sprint("2.1", "Last {{title}}", tasks=["= five"], labels="c"),
)


def told(bead: dict[str, Any]) -> dict[str, Any]:
    """All that a bead says, but for the moment, the pour, and the order of its labels and dependencies."""
    core = ("id", "title", "description", "issue_type", "priority", "status", "assignee", "metadata")
    sets = {key: sorted(bead[key]) for key in ("labels", "dependencies")}
    return {key: bead[key] for key in core} | sets


def stored(store: Store) -> dict[str, Any]:
    return {bead.id: told(bead.to_json()) for bead in store.find(Query()).beads}


def planned(root: Path) -> dict[str, Any]:
    beads = ralph("mason", "plan.md", "--dry-run", "--json", cwd=root).data["beads"]
    return {bead["id"]: told(bead) for bead in beads}


@pytest.mark.parametrize(
    ("text", "sprints"),
    [(NASTY, "1.1,1.2,2.1"), (PHASES, "2.1+2.2,3.1+3.2")],
    ids=["sprints", "phases"],
)
@pytest.mark.parametrize("rows", ["rows.csv", "rows.json"])
def test_pouring_the_rows_puts_the_plans_own_beads_into_the_store(
    repo: Path, text: str, sprints: str, rows: str
) -> None:
    command = make(repo, "--rows", rows, text=text, sprints=sprints).data["pour_command"]
    poured = ralph(*shlex.split(command)[1:], "--json", cwd=repo).data
    assert poured["beads_created"] == len(planned(repo))
    assert stored(EmbeddedStore(repo)) == planned(repo)
    diff = ralph("plan", "diff", "plan.md", "--json", cwd=repo).data
    assert (diff["added"], diff["changed"], diff["orphaned"]) == ([], [], [])


@pytest.mark.full
@pytest.mark.bd
def test_pouring_the_rows_puts_the_plans_own_beads_into_bd(bd_repo: Path) -> None:
    command = make(bd_repo, "--rows", "rows.csv", text=NASTY, sprints="1.1,1.2,2.1").data["pour_command"]
    poured = ralph(*shlex.split(command)[1:], "--store", "bd", "--json", cwd=bd_repo).data
    assert poured["beads_created"] == 3
    assert stored(BdStore(bd_repo)) == planned(bd_repo)


@pytest.mark.full
@pytest.mark.bd
def test_s1_fr6_5_a_bulk_of_sprints_becomes_one_formula_and_its_beads_in_bd(bd_repo: Path) -> None:
    words = ["users", "orders", "items", "carts", "taxes", "labels", "notes", "files", "tags", "teams"]
    text = plan(*(sprint(f"1.{at}", f"Serve {word}", tasks=[word]) for at, word in enumerate(words, 1)))
    (found,) = find(bd_repo, text).data["patterns"]
    assert (found["beads"], found["bulk"]) == (len(words), True)
    sprints = ",".join(one for (one,) in found["sprints"])
    made = make(bd_repo, "--rows", "rows.csv", text=text, sprints=sprints).data
    ralph(*shlex.split(made["pour_command"])[1:], "--store", "bd", "--json", cwd=bd_repo)
    assert stored(BdStore(bd_repo)) == planned(bd_repo)


def test_a_new_sprint_needs_its_number_its_title_and_its_tasks(repo: Path) -> None:
    make(repo, text=NASTY, sprints="1.1,1.2,2.1")
    words = ["--var", "sprint_id=7.1", "--var", "title=New one", "--var", "tasks=Do it"]
    assert ralph("pour", "endpoint", *words, "--json", cwd=repo).data["beads_created"] == 1
    (bead,) = EmbeddedStore(repo).find(Query()).beads
    assert bead.id == "bd-7-1-new-one"
    assert bead.labels[:2] == ["phase-07", "sprint-7-1"]
    assert (bead.description, bead.metadata.dev_prompts) == ("Do it.", ["Do it"])
    assert (bead.metadata.phase, bead.metadata.sprint) == ("7", "7.1")
    assert bead.metadata.plan_file == FORMULA
    assert bead.metadata.branch.endswith("/7-1-new-one")
    assert bead.metadata.worktree_path.endswith(bead.metadata.branch)


# --- the real bd ------------------------------------------------------------------------------------


def bd(root: Path, program: Path, *words: str) -> str:
    done = subprocess.run(
        [program, *words], cwd=root, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.bd
@pytest.mark.parametrize("form", ["toml", "json"])
def test_s1_fr6_1_s1_fr6_2_s1_fr6_3_s1_fr6_4_bd_reads_what_is_written(
    bd_repo: Path, bd_path: Path, form: str
) -> None:
    nasty = plan(
        sprint(
            "1.1", 'Say "hi" \\ twice', tasks=["Print {{x}} 100%", "# no comment"], verify="`a 'b' \"c\"`"
        ),
        sprint("1.2", "Größe — 数え方", tasks=["One\n  two", "three"], verify="`x`"),
    )
    data = make(bd_repo, "--format", form, text=nasty, sprints="1.1,1.2").data
    (listed,) = json.loads(bd(bd_repo, bd_path, "formula", "list", "--json"))
    assert (listed["name"], listed["steps"], listed["vars"]) == ("endpoint", 1, len(data["vars"]))
    assert listed["source"] == data["formula_path"]
    assert "work: {{title}} (beads-ralph-work)" in bd(bd_repo, bd_path, "cook", "endpoint", "--dry-run")
    cooked: dict[str, Any] = json.loads(bd(bd_repo, bd_path, "cook", "endpoint", "--json"))
    said = Path(data["formula_path"]).read_text(encoding="utf-8")
    own = tomllib.loads(said) if form == "toml" else json.loads(said)
    assert cooked["steps"][0]["metadata"] == own["steps"][0]["metadata"]
    assert cooked["vars"].keys() == own["vars"].keys()
