"""A plan with formula sprints in the store: one step, one answer, edited plans, and nothing half."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.plan import parse
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes, Store, Stored
from beads_ralph.store.query import ItemQuery, Query
from tests.cli.running import MASON, RALPH, environment, mason, ralph, ralph_alone, run, tree, write
from tests.cli.stand_in import wrapped_bd
from tests.compile.formulas import Raw, person, poured, raw, work, written
from tests.compile.plans import plan, sprint

PAIR = raw("pair", work("code"), work("review", needs=["code"]))
AGREED = raw("agreed", work("code"), person("agree", needs=["code"]), work("ship", needs=["agree"]))
MIXED = plan(sprint("1.1", "Start"), poured("1.2", "API", "agreed"), sprint("1.3", "End"))
MEMBERS = ["bd-1-2-api-code", "bd-1-2-api-agree", "bd-1-2-api-ship"]

both_stores = pytest.mark.parametrize("kind", ["embedded", pytest.param("bd", marks=pytest.mark.bd)])


@pytest.fixture
def root(kind: str, request: pytest.FixtureRequest) -> Path:
    root: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    written(root, PAIR, AGREED)
    return root


@pytest.fixture
def here(repo: Path) -> Path:
    """The embedded store alone."""
    written(repo, PAIR, AGREED)
    return repo


def store_of(root: Path) -> Store:
    return BdStore(root) if (root / ".beads" / "config.yaml").exists() else EmbeddedStore(root)


def beads(root: Path) -> dict[str, Bead]:
    return {bead.id: bead for bead in store_of(root).find(Query()).beads}


def items(root: Path) -> dict[str, Item]:
    return {item.id: item for item in store_of(root).items.find(ItemQuery())}


def put(root: Path, text: str) -> Path:
    return write(root / "plan.md", text)


def compiled(root: Path, text: str = MIXED, *words: str) -> dict[str, Any]:
    return mason(put(root, text), *words, cwd=root).data


def updated(root: Path, text: str) -> dict[str, Any]:
    return compiled(root, text, "--update")


def pattern(root: Path, given: Raw) -> None:
    """The formula, edited."""
    written(root, given)


# --- one step, one answer -----------------------------------------------------------------------------


@both_stores
def test_s1_ov2_s1_fr10_3_a_mixed_plan_goes_in_as_one(root: Path, kind: str) -> None:
    data = compiled(root)
    assert data == {
        "mode": "mixed",
        "formulas_created": 0,
        "formulas_poured": 1,
        "molecules_created": ["bd-1-2-api"],
        "beads_created": 5,
        "bead_ids": ["bd-1-1-start", *MEMBERS, "bd-1-3-end"],
        "sprints_processed": ["1.1", "1.2", "1.3"],
        "database_status": "inserted",
        "plan_annotated": False,
        "plan_file_updated": False,
        "beads_skipped": [],
        "store": kind,
        "warnings": [],
    }
    held, around = beads(root), items(root)
    assert sorted(held) == sorted(["bd-1-1-start", "bd-1-2-api-code", "bd-1-2-api-ship", "bd-1-3-end"])
    assert {name: around[name].issue_type for name in around} == {
        "bd-1-2-api": "molecule",
        "bd-1-2-api-agree": "task",
    }
    everyone: list[Stored] = [*held.values(), *around.values()]
    assert {each.parent for each in everyone} == {None, "bd-1-2-api"}
    waits = {each.id: set(each.dependencies) for each in everyone}
    assert waits["bd-1-2-api-code"] == {"bd-1-1-start"}
    assert waits["bd-1-2-api-agree"] == {"bd-1-2-api-code"}
    assert waits["bd-1-2-api-ship"] == {"bd-1-2-api-agree", "bd-1-2-api-code"}
    assert waits["bd-1-3-end"] == {"bd-1-2-api-ship"}
    assert [bead.id for bead in store_of(root).ready().beads] == ["bd-1-1-start"]


@both_stores
def test_twice_is_refused_and_skipped_whole_where_asked_for(root: Path, kind: str) -> None:
    compiled(root)
    before = (beads(root), items(root))
    assert mason("plan.md", cwd=root).error["code"] == "DEPENDENCY.DUPLICATE_ID"
    again = mason("plan.md", "--check-existing", cwd=root).data
    assert (again["beads_created"], again["molecules_created"], again["formulas_poured"]) == (0, [], 0)
    assert (again["mode"], again["database_status"]) == ("mixed", "unchanged")
    assert again["beads_skipped"] == ["bd-1-1-start", *MEMBERS, "bd-1-3-end"]
    assert again["store"] == kind
    assert (beads(root), items(root)) == before


def test_the_answer_of_a_plan_of_formulas_alone(here: Path) -> None:
    data = compiled(here, plan(poured("1.1", "A", "pair"), poured("1.2", "B", "pair")))
    assert (data["mode"], data["database_status"], data["formulas_poured"]) == ("formula", "poured", 2)
    assert data["molecules_created"] == ["bd-1-1-a", "bd-1-2-b"]
    assert data["beads_created"] == 4


def test_the_mode_is_that_of_the_chosen_sprints(here: Path) -> None:
    path = put(here, MIXED)
    first = mason(path, "--sprint-filter", "1.1", cwd=here).data
    assert first["mode"] == "direct"
    assert "formulas_poured" not in first
    second = mason(path, "--sprint-filter", "1.2", cwd=here).data
    assert (second["mode"], second["bead_ids"]) == ("formula", MEMBERS)
    assert mason(path, "--check-existing", cwd=here).data["bead_ids"] == ["bd-1-3-end"]


def test_beads_mason_answers_the_same_in_a_fence(here: Path) -> None:
    put(here, MIXED)
    ran = run(MASON, "--plan-file", "plan.md", cwd=here)
    fenced = re.fullmatch(r"```json\n(.*)\n```\n", ran.out, re.DOTALL)
    assert fenced is not None
    assert json.loads(fenced[1])["data"]["molecules_created"] == ["bd-1-2-api"]


def test_a_dry_run_shows_beads_and_items_and_makes_nothing(here: Path) -> None:
    path = put(here, MIXED)
    before = tree(here)
    data = mason(path, "--dry-run", cwd=here).data
    assert tree(here) == before
    assert (data["mode"], data["dry_run"], data["database_status"]) == ("mixed", True, "dry_run")
    assert (data["beads_created"], data["formulas_poured"], data["molecules_created"]) == (0, 0, [])
    assert data["bead_ids"] == ["bd-1-1-start", *MEMBERS, "bd-1-3-end"]
    assert [bead["id"] for bead in data["beads"]] == ["bd-1-1-start", MEMBERS[0], MEMBERS[2], "bd-1-3-end"]
    assert [item["id"] for item in data["items"]] == ["bd-1-2-api", "bd-1-2-api-agree"]


def test_an_id_suffix_pours_a_second_time(here: Path) -> None:
    compiled(here)
    again = mason("plan.md", "--id-suffix", "two", cwd=here).data
    assert again["molecules_created"] == ["bd-1-2-api-two"]
    assert "bd-1-2-api-two-ship" in again["bead_ids"]
    assert beads(here)["bd-1-3-end-two"].dependencies == ["bd-1-2-api-two-ship"]
    assert mason("plan.md", "--update", cwd=here).data["database_status"] == "unchanged"


def test_the_legacy_schema_is_refused(here: Path) -> None:
    path = put(here, MIXED)
    before = tree(here)
    ran = mason(path, "--schema", "legacy", cwd=here)
    assert (ran.code, ran.error["code"]) == (1, "VALIDATION.CONSTRAINT")
    assert tree(here) == before
    only = mason(path, "--schema", "legacy", "--sprint-filter", "1.1", cwd=here)
    assert only.code == 0


def test_a_users_formula_is_found_as_well(here: Path, isolated: Path) -> None:
    written(isolated, raw("mine", work("code")))
    assert compiled(here, plan(poured("1.1", "A", "mine")))["formulas_poured"] == 1


def test_a_formula_that_nobody_has_is_told_with_a_near_name(here: Path) -> None:
    ran = mason(put(here, plan(poured("1.1", "A", "piar"))), cwd=here)
    assert ran.error["code"] == "FORMULA.NOT_FOUND"
    (fault,) = ran.error["details"]["faults"]
    assert (fault["file"], fault["line"]) == (str(here / "plan.md"), 13)
    assert "pair" in fault["message"]


def test_sprints_that_name_the_formula_made_of_them_give_the_same_beads(here: Path) -> None:
    """The alchemist's way into a plan: each sprint names the formula and gives the one name that varies."""
    names = ("Users", "Orders", "Items")
    told = [
        sprint(f"2.{at}", f"{name} API", verify=f"`make {name}`", tasks=[f"Write {name}", f"Test {name}"])
        for at, name in enumerate(names, 1)
    ]
    path = put(here, plan(*told))
    words = ["make", "api", "--from", str(path), "--sprints", "2.1,2.2,2.3", "--json"]
    assert ralph("formula", *words, cwd=here).code == 0
    direct = mason(path, "--dry-run", cwd=here).data["beads"]
    lines = [f"API\n\n**Formula**: api\n**Pour**: resource={name}\n" for name in names]
    put(here, plan(*(one.replace("API\n", line, 1) for one, line in zip(told, lines, strict=True))))
    data = mason(path, "--dry-run", cwd=here).data
    assert data["mode"] == "formula"
    assert [bead["id"] for bead in data["beads"]] == [f"{bead['id']}-work" for bead in direct]
    assert [_without_pour(bead) for bead in data["beads"]] == [_without_pour(bead) for bead in direct]


def _without_pour(bead: dict[str, Any]) -> dict[str, Any]:
    """Without what says that it was poured, and when."""
    own = {"id", "parent", "dependencies", "created_at", "updated_at", "metadata"}
    metadata = {
        key: value for key, value in bead["metadata"].items() if key not in ("formula", "molecule", "step")
    }
    return {key: value for key, value in bead.items() if key not in own} | {"metadata": metadata}


def test_what_ships_is_poured_by_a_plan_that_gives_what_it_must(here: Path) -> None:
    """The sprint's own text, tasks and check are values already."""
    checked = "\n\n**Verify**: `make test`\n"
    text = plan(
        "### Sprint 1.1: Pay\n\nPeople pay.\n\n**Formula**: feature" + checked,
        "### Sprint 1.2: Crash\n\nIt crashes.\n\n**Formula**: bug-fix" + checked
        + "\n**Pour**: test_file=tests/x.py, reproduction=`pytest tests/x.py`\n",
        "### Sprint 1.3: Look\n\n**Formula**: security-review" + checked + "\n**Pour**: scope=src\n",
        "### Sprint 1.4: Out\n\n**Formula**: release" + checked
        + "\n**Pour**: version=1.0.0, version_file=VERSION\n",
        sprint("1.5", "After"),
    )  # fmt: skip
    data = compiled(here, text)
    assert (data["mode"], data["formulas_poured"]) == ("mixed", 4)
    assert {bead.metadata.plan_file for bead in beads(here).values()} == {"plan.md"}


# --- annotated ----------------------------------------------------------------------------------------


def test_the_root_is_annotated_and_a_new_title_keeps_everything(here: Path) -> None:
    assert compiled(here, MIXED, "--annotate")["plan_file_updated"] is True
    text = (here / "plan.md").read_text("utf-8")
    noted = {one.id.text: one.annotation.value for one in parse(text).sprints if one.annotation}
    assert noted == {"1.1": "bd-1-1-start", "1.2": "bd-1-2-api", "1.3": "bd-1-3-end"}
    assert mason("plan.md", "--check-existing", "--annotate", cwd=here).data["plan_file_updated"] is False
    before = beads(here)
    renamed = updated(here, text.replace("Sprint 1.2: API", "Sprint 1.2: Another name"))
    assert (renamed["beads_created"], renamed["molecules_created"], renamed["beads_orphaned"]) == (0, [], [])
    after = beads(here)
    assert sorted(after) == sorted(before)
    for name, bead in before.items():
        kept = ("branch", "worktree_path", "team_name")
        assert [getattr(after[name].metadata, key) for key in kept] == [
            getattr(bead.metadata, key) for key in kept
        ]


# --- nothing half -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("embedded", "bd-1-2-api"),
        ("embedded", "bd-1-2-api-agree"),
        ("embedded", "bd-1-2-api-ship"),
        ("embedded", "bd-1-3-end"),
        pytest.param("bd", "bd-1-2-api-agree", marks=pytest.mark.bd),
    ],
)
def test_an_id_that_is_taken_refuses_everything(root: Path, kind: str, name: str) -> None:
    store = store_of(root)
    store.check()
    store.create([Item(id=name, title="Somebody's", issue_type="task")])
    before = items(root)
    put(root, MIXED)
    for words in ([], ["--check-existing"]):
        assert mason("plan.md", *words, cwd=root).error["code"] == "DEPENDENCY.DUPLICATE_ID"
    assert (beads(root), items(root)) == ({}, before)
    assert store.kind == kind


@both_stores
def test_a_dependency_that_is_nowhere_refuses_everything(root: Path, kind: str) -> None:
    lost = plan(sprint("1.1", "Start"), poured("1.2", "API", "agreed", depends_on="bd-nowhere"))
    ran = mason(put(root, lost), cwd=root)
    assert ran.error["code"] == "DEPENDENCY.UNRESOLVED"
    assert (beads(root), items(root)) == ({}, {})
    assert store_of(root).kind == kind


@pytest.mark.sampled(1)
@pytest.mark.bd
@pytest.mark.parametrize("done", [False, True])
def test_killed_at_the_insert_there_is_all_or_nothing_in_bd(
    bd_repo: Path, bd_path: Path, tmp_path: Path, *, done: bool
) -> None:
    written(bd_repo, AGREED)
    put(bd_repo, MIXED)
    act = f'"{bd_path}" "$@"' if done else ":"
    deadly = f'case "$*" in *create*--graph*) {act}; kill -9 $PPID; exit;; esac'
    env = {"PATH": wrapped_bd(tmp_path / "bin", bd_path, deadly)}
    assert ralph_alone("mason", "plan.md", cwd=bd_repo, env=env).code == -9
    there = sorted([*beads(bd_repo), *items(bd_repo)])
    assert there == (sorted(["bd-1-1-start", "bd-1-2-api", *MEMBERS, "bd-1-3-end"]) if done else [])
    again = mason("plan.md", "--check-existing", cwd=bd_repo).data
    assert again["beads_created"] == (0 if done else 5)
    assert len({*beads(bd_repo), *items(bd_repo)}) == 6


def test_killed_at_any_moment_there_is_all_or_nothing(here: Path) -> None:
    many = plan(*(poured(f"{at}.1", f"P{at}", "agreed") for at in range(1, 40)))
    put(here, many)
    whole = 39 * 4
    for hundredths in range(20, 120, 12):
        process = subprocess.Popen(
            [*RALPH, "mason", "plan.md", "--check-existing", "--json"],
            cwd=here,
            env=environment({}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=hundredths / 100)
        except subprocess.TimeoutExpired:
            process.kill()
        finally:
            process.wait()
        assert len(beads(here)) + len(items(here)) in (0, whole)
    assert mason("plan.md", "--check-existing", cwd=here).code == 0
    assert len(beads(here)) + len(items(here)) == whole


def test_a_molecule_that_is_half_there_is_told_and_the_update_completes_it(here: Path) -> None:
    compiled(here)
    pattern(here, raw("agreed", *AGREED["steps"], work("late", needs=["ship"]), person("cheer")))
    ran = mason("plan.md", "--check-existing", cwd=here)
    assert ran.error["code"] == "DATABASE.CONFLICT"
    assert "without bd-1-2-api-late, bd-1-2-api-cheer" in ran.error["message"]
    assert "--update" in ran.error["suggested_action"]
    data = mason("plan.md", "--update", cwd=here).data
    assert (data["bead_ids"], data["molecules_created"]) == (["bd-1-2-api-cheer", "bd-1-2-api-late"], [])
    last = beads(here)["bd-1-3-end"].dependencies
    assert last == ["bd-1-2-api-late", "bd-1-2-api-cheer", "bd-1-1-start"]  # what the person waits for, too
    assert mason("plan.md", "--check-existing", cwd=here).data["database_status"] == "unchanged"


# --- edited plans and formulas ------------------------------------------------------------------------


@both_stores
def test_what_was_just_poured_differs_in_nothing(root: Path, kind: str) -> None:
    compiled(root)
    found = ralph("plan", "diff", "plan.md", "--json", cwd=root).data
    assert (found["added"], found["changed"], found["orphaned"]) == ([], [], [])
    assert found["items"] == {"added": [], "changed": [], "gone": []}
    assert mason("plan.md", "--update", cwd=root).data["database_status"] == "unchanged"
    assert found["store"] == kind


@both_stores
def test_an_update_adds_changes_and_orphans_steps_as_it_does_sprints(root: Path, kind: str) -> None:
    compiled(root)
    steps = [work("code", title="Code it well"), work("tests", needs=["code"]), work("ship", needs=["tests"])]
    pattern(root, raw("agreed", *steps))
    data = mason("plan.md", "--update", cwd=root).data
    assert data["bead_ids"] == ["bd-1-2-api-tests"]
    assert sorted(data["beads_updated"]) == ["bd-1-2-api-code", "bd-1-2-api-ship"]
    assert [row["message"] for row in data["warnings"]] == [
        "bd-1-2-api-agree (Decide agree) is no longer in the plan, and stays open"
    ]
    held = beads(root)
    assert held["bd-1-2-api-code"].title == "Code it well"
    assert held["bd-1-2-api-ship"].dependencies == ["bd-1-2-api-tests"]
    assert held["bd-1-2-api-tests"].parent == "bd-1-2-api"
    assert items(root)["bd-1-2-api-agree"].status == "open"

    pattern(root, raw("agreed", work("code", title="Code it well"), work("ship", needs=["code"])))
    gone = mason("plan.md", "--update", cwd=root).data
    assert gone["beads_orphaned"] == ["bd-1-2-api-tests"]
    assert beads(root)["bd-1-2-api-tests"].status == "blocked"
    assert gone["store"] == kind


def test_what_is_started_is_left_alone(here: Path) -> None:
    compiled(here)
    store = store_of(here)
    store.update("bd-1-2-api-code", Changes(dependencies=[]))
    assert store.claim("bd-1-2-api-code", "w").won
    pattern(here, raw("agreed", *(step | {"title": "New words"} for step in AGREED["steps"])))
    data = mason("plan.md", "--update", cwd=here).data
    assert data["beads_left_alone"] == ["bd-1-2-api-code"]
    assert data["beads_updated"] == ["bd-1-2-api-ship"]
    assert (
        "keeps what it says: title is 'Decide agree', planned 'New words'" in data["warnings"][0]["message"]
    )
    assert beads(here)["bd-1-2-api-code"].title == "Do code"


def test_a_sprint_that_left_the_plan_orphans_its_beads_and_leaves_its_items(here: Path) -> None:
    compiled(here)
    data = updated(here, plan(sprint("1.1", "Start"), sprint("1.3", "End")))
    assert sorted(data["beads_orphaned"]) == ["bd-1-2-api-code", "bd-1-2-api-ship"]
    assert [row["suggested_action"] for row in data["warnings"]] == [
        "Where nothing is left to do: beads-ralph close bd-1-2-api-agree"
    ]
    assert beads(here)["bd-1-3-end"].dependencies == ["bd-1-1-start"]
    assert {item.status for item in items(here).values()} == {"open"}
    back = updated(here, MIXED)
    assert sorted(back["beads_updated"]) == ["bd-1-2-api-code", "bd-1-2-api-ship", "bd-1-3-end"]
    assert {bead.status for bead in beads(here).values()} == {"open"}
    assert mason("plan.md", "--update", cwd=here).data["database_status"] == "unchanged"


def test_a_new_formula_sprint_is_poured_by_an_update(here: Path) -> None:
    compiled(here, plan(sprint("1.1", "Start"), sprint("1.3", "End")))
    data = updated(here, MIXED)
    assert (data["mode"], data["molecules_created"], data["bead_ids"]) == (
        "mixed", ["bd-1-2-api"], ["bd-1-2-api-agree", "bd-1-2-api-code", "bd-1-2-api-ship"]
    )  # fmt: skip
    assert data["beads_updated"] == ["bd-1-3-end"]
    assert beads(here)["bd-1-3-end"].dependencies == ["bd-1-2-api-ship"]


@pytest.mark.parametrize("forth", [True, False])
def test_a_sprint_that_changes_its_kind_needs_another_name(here: Path, *, forth: bool) -> None:
    direct, molecule = plan(sprint("1.1", "A")), plan(poured("1.1", "A", "pair"))
    first, second = (direct, molecule) if forth else (molecule, direct)
    compiled(here, first)
    before = (beads(here), items(here))
    ran = mason(put(here, second), "--update", cwd=here)
    assert ran.error["code"] == "DEPENDENCY.DUPLICATE_ID"
    assert "**Bead Name**" in ran.error["suggested_action"]
    assert mason("plan.md", "--check-existing", cwd=here).error["code"] == "DEPENDENCY.DUPLICATE_ID"
    assert (beads(here), items(here)) == before
    data = updated(here, second.replace("Sprint 1.1: A\n", "Sprint 1.1: A\n\n**Bead Name**: b\n"))
    assert sorted(data["beads_orphaned"]) == sorted(before[0])
    assert data["beads_created"] == (2 if forth else 1)


def test_values_of_a_pour_that_changed_reach_the_beads(here: Path) -> None:
    written(
        here, raw("named", work("code", description="Write {{name}}"), variables={"name": {"required": True}})
    )
    compiled(here, plan(poured("1.1", "A", "named", pour="name=one")))
    data = updated(here, plan(poured("1.1", "A", "named", pour="name=two")))
    assert data["beads_updated"] == ["bd-1-1-a-code"]
    assert beads(here)["bd-1-1-a-code"].metadata.dev_prompts == ["Write two"]


# --- seen by other commands ---------------------------------------------------------------------------


def test_a_drawing_has_one_box_with_its_steps_counted(here: Path) -> None:
    put(here, MIXED)
    rows = ralph("plan", "graph", "plan.md", "--json", cwd=here).data["sprints"]
    assert "formula" not in rows[0]
    assert (rows[1]["formula"], rows[1]["bead_id"]) == ("agreed", "bd-1-2-api")
    assert [step["id"] for step in rows[1]["steps"]] == MEMBERS
    assert rows[1]["steps"][1]["depends_on"] == ["bd-1-2-api-code"]
    assert [row["wave"] for row in rows] == [1, 2, 3]
    for form in ("text", "mermaid", "dot"):
        assert "API (agreed: 3 steps)" in ralph("plan", "graph", "plan.md", "--format", form, cwd=here).out


def test_a_forecast_counts_the_steps_that_agents_work_on(here: Path) -> None:
    put(here, MIXED)
    data = ralph("forecast", "plan.md", "--json", cwd=here).data
    assert data["sprints"] == 4
    assert "1.2 code" in json.dumps(data)
