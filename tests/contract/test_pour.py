"""Pouring, over every store: the same formula makes the same beads, and a failure leaves nothing behind."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import GateRule, Item
from beads_ralph.bead.model import Bead
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import ItemQuery, Query
from tests.cli.running import Ran, ralph, ralph_alone, write
from tests.contract.places import Place

PATTERN = r"^\d+[a-z]*\.\d+[a-z]*$"
SETTINGS = """\
plan:
  rig: shop
  source_branch: main
  dev_agents: [claude (sonnet)]
  qa_agents: [claude (haiku) - read it]
"""

# The seed's formula of FR-6, word for word in what it says.
FR6: dict[str, Any] = {
    "formula": "sprint-work-pattern",
    "description": "Standard work sprint pattern with dev/QA loop",
    "version": 1,
    "type": "workflow",
    "phase": "liquid",
    "vars": {
        "sprint_id": {
            "description": "Sprint identifier (e.g., 1.2a)",
            "required": True,
            "pattern": PATTERN,
        },
        "sprint_title": {"description": "Sprint title", "required": True},
        "worktree_path": {"description": "Path to git worktree", "required": True},
        "branch": {"description": "Git branch name", "required": True},
        "dev_agent": {"description": "Dev agent name", "default": "python-backend-dev"},
        "dev_model": {
            "description": "Dev agent model",
            "default": "sonnet",
            "enum": ["haiku", "sonnet", "opus"],
        },
    },
    "steps": [
        {
            "id": "work",
            "title": "{{sprint_title}}",
            "description": "Sprint {{sprint_id}} work in worktree {{worktree_path}}",
            "type": "task",
            "priority": 1,
            "labels": ["sprint-{{sprint_id}}"],
            "assignee": "beads-ralph-scrum-master",
        }
    ],
}
FR7_VALUES = {
    "sprint_id": "1.2a",
    "sprint_title": "Example Work Bead",
    "worktree_path": "../beads-ralph-worktrees/feature/1-2a-work",
    "branch": "feature/1-2a-work",
}
# The formula of the third example, and what its five sprints are poured with.
EX3: dict[str, Any] = {
    "formula": "work-sprint",
    "description": "Standard work sprint with dev/QA loop",
    "version": 1,
    "type": "workflow",
    "phase": "liquid",
    "vars": {
        "sprint_id": {"description": "Sprint identifier", "required": True, "pattern": PATTERN},
        "title": {"description": "Sprint title", "required": True},
        "worktree": {"description": "Worktree path", "required": True},
    },
    "steps": [
        {
            "id": "work",
            "title": "{{title}}",
            "description": "Sprint {{sprint_id}} work",
            "type": "task",
            "priority": 1,
        }
    ],
}
EX3_ROWS = [
    {"sprint_id": f"2.{at}", "title": title, "worktree": f"../worktrees/feature/2-{at}-{word}"}
    for at, (title, word) in enumerate(
        [
            ("Backend API Layer", "api"),
            ("Frontend Components", "frontend"),
            ("Search", "search"),
            ("Basket", "basket"),
            ("Checkout", "checkout"),
        ],
        1,
    )
]


@dataclass(frozen=True)
class Shop:
    """A repository with settings, a store, and formulas."""

    root: Path
    kind: str

    @property
    def store(self) -> Store:
        return EmbeddedStore(self.root) if self.kind == "embedded" else BdStore(self.root)

    def formula(self, said: Mapping[str, Any]) -> str:
        name = str(said["formula"])
        write(self.root / ".beads" / "formulas" / f"{name}.formula.json", json.dumps(said))
        return name

    def pour(self, name: str, /, *words: str, **values: str) -> Ran:
        return self.run("pour", name, *words, **values)

    def run(self, *words: str, stdin: str = "", **values: str) -> Ran:
        given = [word for key, value in values.items() for word in ("--var", f"{key}={value}")]
        return ralph(*words, *given, "--json", cwd=self.root, stdin=stdin)

    def things(self) -> dict[str, dict[str, Any]]:
        """All that the store holds, in full."""
        store = self.store
        listing = store.find(Query(wisps=True))
        assert listing.unreadable == ()
        found: list[Bead | Item] = [*listing.beads, *store.items.find(ItemQuery())]
        return {thing.id: thing.to_json() for thing in found}


@pytest.fixture
def shop(place: Place, monkeypatch: pytest.MonkeyPatch) -> Shop:
    place.root.mkdir(exist_ok=True)
    if place.bd is not None:
        monkeypatch.setenv("PATH", str(Path(place.bd).parent), prepend=os.pathsep)
    write(place.root / "beads-ralph.yaml", f"store: {place.kind}\n{SETTINGS}")
    return Shop(place.root, place.kind)


def steps_of(data: Mapping[str, Any], things: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [things[identity] for identity in data["bead_ids"]]


SAME = ("title", "description", "issue_type", "priority", "status", "parent")

# --- the seeds --------------------------------------------------------------------------------------


@pytest.mark.core
def test_s1_fr7_1_s1_fr7_2_the_seeds_formula_is_poured_with_the_seeds_command(shop: Shop) -> None:
    ran = shop.pour(shop.formula(FR6), **FR7_VALUES)
    data = ran.data
    assert ran.code == 0
    # A label with a variable in it is more than bd fills in, so the ids are those of the seed.
    assert data["molecules_created"] == ["bd-sprint-work-pattern-001"]
    assert data["bead_ids"] == ["bd-sprint-work-pattern-001-work"]
    assert (data["poured_by"], data["database_status"]) == ("beads-ralph", "poured")
    things = shop.things()
    made = things["bd-sprint-work-pattern-001-work"]
    assert made["title"] == "Example Work Bead"
    assert made["description"] == f"Sprint 1.2a work in worktree {FR7_VALUES['worktree_path']}"
    assert (made["issue_type"], made["priority"], made["labels"]) == ("task", 1, ["sprint-1.2a"])
    assert (made["assignee"], made["parent"]) == ("beads-ralph-scrum-master", "bd-sprint-work-pattern-001")
    root = things["bd-sprint-work-pattern-001"]
    assert (root["issue_type"], root["status"]) == ("molecule", "open")
    assert root["description"] == FR6["description"]
    assert shop.pour("sprint-work-pattern", **FR7_VALUES).data["molecules_created"] == [
        "bd-sprint-work-pattern-002"
    ]


def test_s1_ex3_a_formula_is_poured_five_times(shop: Shop) -> None:
    name = shop.formula(EX3)
    answers = [shop.pour(name, **row).data for row in EX3_ROWS]
    things = shop.things()
    assert len(things) == 10
    for row, data in zip(EX3_ROWS, answers, strict=True):
        assert (data["mode"], data["formulas_poured"], data["beads_created"]) == ("formula", 1, 1)
        (made,) = steps_of(data, things)
        (root,) = data["molecules_created"]
        assert [made[key] for key in SAME] == [
            *(row["title"], f"Sprint {row['sprint_id']} work", "task", 1, "open", root)
        ]
        assert (things[root]["title"], things[root]["issue_type"]) == (row["title"], "molecule")
    # Nothing in it is beyond bd: there bd pours it itself, and gives ids of its own.
    by = {"embedded": "beads-ralph", "bd": "bd"}[shop.kind]
    assert {data["poured_by"] for data in answers} == {by}
    if shop.kind == "embedded":
        assert [data["molecules_created"] for data in answers] == [[f"bd-{name}-00{n}"] for n in range(1, 6)]


def test_s1_fr10_3_the_answer_has_the_seeds_keys(shop: Shop) -> None:
    said = FR6 | {
        "steps": [*FR6["steps"], {"id": "qa", "title": "QA", "needs": ["work"], "gate": {"type": "human"}}]
    }
    data = shop.pour(shop.formula(said), **FR7_VALUES).data
    root = "bd-sprint-work-pattern-001"
    assert {
        key: data[key] for key in ("mode", "formulas_created", "formulas_poured", "molecules_created")
    } == {
        "mode": "formula",
        "formulas_created": 0,
        "formulas_poured": 1,
        "molecules_created": [root],
    }
    assert data["beads_created"] == len(data["bead_ids"]) == 3
    assert sorted(data["bead_ids"]) == [f"{root}-gate-qa", f"{root}-qa", f"{root}-work"]
    assert data["database_status"] == "poured"
    assert data["account"] == {"rows": 1, "poured": 1, "failed": None, "not_tried": 0}
    assert data["store"] == shop.kind


# --- failures leave nothing behind ------------------------------------------------------------------


RULED = {
    "formula": "ruled",
    "vars": {
        "name": {"required": True, "pattern": "^[a-z]+$"},
        "size": {"default": "small", "enum": ["small", "large"]},
        "count": {"type": "int", "default": "1"},
    },
    "steps": [
        {"id": "a", "title": "Make {{name}}", "type": "beads-ralph-work", "labels": ["{{size}}"]},
        {"id": "b", "title": "Look at {{name}} {{count}} times", "needs": ["a"]},
    ],
}
FAILURES: list[tuple[str, dict[str, Any], dict[str, str], str, list[str]]] = [
    ("s1_fr7_4 missing", RULED, {}, "FORMULA.MISSING_VAR", ["vars.name"]),
    ("s1_fr7_4 empty", RULED, {"name": ""}, "FORMULA.MISSING_VAR", ["vars.name"]),
    ("s1_fr7_5 pattern", RULED, {"name": "X1"}, "FORMULA.INVALID_VAR", ["vars.name"]),
    ("s1_fr7_5 enum", RULED, {"name": "x", "size": "huge"}, "FORMULA.INVALID_VAR", ["vars.size"]),
    ("s1_fr7_5 type", RULED, {"name": "x", "count": "many"}, "FORMULA.INVALID_VAR", ["vars.count"]),
    ("s1_fr7_5 stranger", RULED, {"name": "x", "nmae": "y"}, "FORMULA.INVALID_VAR", ["vars.nmae"]),
    (
        "all at once",
        RULED,
        {"size": "huge", "count": "x", "other": "1"},
        "FORMULA.MISSING_VAR",
        ["vars.name", "vars.size", "vars.count", "vars.other"],
    ),
    (
        "s1_fr7_7 no such branch name",
        {
            "formula": "bad",
            "steps": [
                {"id": "good", "title": "Good"},
                {"id": "a", "title": "A", "type": "beads-ralph-work", "metadata": {"branch": "no good"}},
            ],
        },
        {},
        "FORMULA.POUR_FAILED",
        ["steps.a.metadata.branch"],
    ),
    (
        "s1_fr7_7 waits for nothing",
        {"formula": "bad", "steps": [{"id": "a", "title": "A", "after": ["bd-nowhere", "bd-1"]}]},
        {},
        "FORMULA.POUR_FAILED",
        ["after", "after"],
    ),
]


@pytest.mark.core
def test_s1_fr7_4_s1_fr7_5_s1_fr7_7_a_pour_that_fails_leaves_nothing_behind(shop: Shop) -> None:
    before = shop.things()
    for _, said, values, code, fields in FAILURES:
        ran = shop.pour(shop.formula(said), **values)
        assert (ran.code, ran.error["code"]) == (1, code), ran.out
        assert [fault["field"] for fault in ran.error["details"]["faults"]] == fields
    assert shop.things() == before == {}


def test_s1_fr7_6_a_formula_that_is_not_there_is_named_with_its_neighbour(shop: Shop) -> None:
    shop.formula(EX3)
    ran = shop.pour("work-spirnt", title="x")
    assert (ran.code, ran.error["code"]) == (1, "FORMULA.NOT_FOUND")
    assert "work-sprint" in json.dumps(ran.error)
    assert shop.things() == {}


def test_s1_fr7_7_an_id_that_is_taken_is_refused_before_anything_is_written(shop: Shop) -> None:
    said = {"formula": "named", "steps": [{"id": "a", "title": "A {{n}}", "bead_id": "bd-named-{{n}}"}]}
    name = shop.formula(said)
    assert shop.pour(name, n="one").data["bead_ids"] == ["bd-named-one"]
    before = shop.things()
    for rows in ("n\ntwo\none\n", "n\nthree\nthree\n"):
        ran = shop.run("pour", name, "--vars-file", "-", stdin=rows)
        assert (ran.code, ran.error["code"]) == (1, "FORMULA.POUR_FAILED"), ran.out
        (fault,) = ran.error["details"]["faults"]
        assert (fault["code"], "row 3" in fault["message"]) == ("DEPENDENCY.DUPLICATE_ID", True)
    assert shop.things() == before


# --- the language -----------------------------------------------------------------------------------


def test_the_same_formula_makes_the_same_beads_everywhere(shop: Shop) -> None:
    """Labels, metadata and ids with variables, lists, conditions, loops, children, gates, waits."""
    said = {
        "formula": "whole",
        "vars": {
            "module": {"required": True},
            "tasks": {"type": "list", "required": True},
            "tries": {"type": "int", "default": "5"},
            "docs": {"type": "bool", "default": "false"},
            "rounds": {"type": "int", "default": "2"},
        },
        "steps": [
            {
                "id": "impl",
                "title": "Implement {{module}}",
                "description": "Write {{module}}",
                "notes": "by hand",
                "type": "beads-ralph-work",
                "priority": 0,
                "labels": ["mod-{{module}}", "{{tasks}}"],
                "bead_id": "bd-{{module}}-impl",
                "metadata": {
                    "dev_prompts": ["First", "{{tasks}}"],
                    "max_retry_attempts": "{{tries}}",
                    "approval_required": "{{docs}}",
                    "dod": {"verifiers": ["make {{module}}"]},
                },
            },
            {"id": "docs", "title": "Document", "condition": "{{docs}}", "needs": ["impl"]},
            {
                "id": "rounds",
                "title": "Rounds",
                "needs": ["docs"],
                "loop": {"range": "1..{rounds}", "var": "i", "body": [{"id": "try", "title": "Try {i}"}]},
            },
            {
                "id": "check",
                "title": "Check",
                "needs": ["rounds"],
                "children": [
                    {"id": "unit", "title": "Unit"},
                    {"id": "slow", "title": "Slow", "gate": {"type": "timer", "timeout": "1h30m"}},
                ],
            },
            {
                "id": "ship",
                "title": "Ship",
                "type": "beads-ralph-merge",
                "needs": ["check"],
                "gate": {"type": "gh:pr", "await_id": "7", "repo": "a/b"},
            },
        ],
    }
    rows = [{"module": "shop", "tasks": ["one", "two"]}]
    ran = shop.run("pour", shop.formula(said), "--vars-file", "-", stdin=json.dumps(rows))
    assert ran.code == 0, ran.out
    things = shop.things()
    root = "bd-whole-001"
    ids = {identity.removeprefix(f"{root}-"): identity for identity in things}
    assert sorted(ids) == sorted(
        [
            *(root, "bd-shop-impl", "rounds-iter1-try", "rounds-iter2-try", "check", "unit", "slow"),
            *("gate-slow", "ship", "gate-ship"),
        ]
    )
    impl = things["bd-shop-impl"]
    assert (impl["title"], impl["priority"]) == ("Implement shop", 0)
    assert impl["description"] == "Write shop\n\nby hand"
    assert {"mod-shop", "one", "two", "phase-01", "sprint-1-1"} == set(impl["labels"])
    metadata = impl["metadata"]
    assert metadata["dev_prompts"] == ["First", "one", "two"]
    assert (metadata["max_retry_attempts"], metadata["approval_required"]) == (5, False)
    assert metadata["dod"] == {"verifiers": [{"name": "make shop", "command": "make shop"}]}
    assert (metadata["formula"], metadata["molecule"], metadata["step"]) == ("whole", root, "impl")
    waits = {name: set(things[identity]["dependencies"]) for name, identity in ids.items()}
    assert waits["rounds-iter1-try"] == {"bd-shop-impl"}
    assert waits["rounds-iter2-try"] == {ids["rounds-iter1-try"]}
    assert things[ids["rounds-iter2-try"]]["title"] == "Try 2"
    assert waits["unit"] == {ids["rounds-iter2-try"]}
    assert waits["slow"] == {ids["rounds-iter2-try"], ids["gate-slow"]}
    assert waits["ship"] == {ids["unit"], ids["slow"], ids["gate-ship"], "bd-shop-impl"}
    assert things[ids["ship"]]["metadata"]["branches_to_merge"] == [metadata["branch"]]
    assert things[ids["unit"]]["parent"] == ids["check"]
    assert things[ids["check"]]["issue_type"] == "epic"
    gates = {name: Item.model_validate(things[ids[name]]).gate for name in ("gate-slow", "gate-ship")}
    assert gates == {
        "gate-slow": GateRule(type="timer", timeout="1h30m"),
        "gate-ship": GateRule(type="gh:pr", await_id="7", repo="a/b"),
    }
    ready = shop.store.ready()
    assert [bead.id for bead in ready.beads] == ["bd-shop-impl"]


def test_a_plain_formula_makes_the_same_whether_bd_pours_it_or_we_do(shop: Shop) -> None:
    said = {
        "formula": "plain",
        "description": "All of {{what}}",
        "vars": {"what": {"required": True}, "large": {"default": "no"}},
        "steps": [
            {
                "id": "a",
                "title": "A {{what}}",
                "description": "{{what}}!",
                "notes": "{{what}}?",
                "priority": 0,
            },
            {"id": "b", "title": "B", "type": "bug", "labels": ["x"], "metadata": {"n": 3}, "needs": ["a"]},
            {"id": "c", "title": "C", "condition": "{{large}} == yes", "needs": ["a"]},
            {"id": "d", "title": "D", "gate": {"type": "human"}, "needs": ["b"], "assignee": "ann"},
        ],
    }
    data = shop.pour(shop.formula(said), "--assignee", "lead", what="it").data
    assert data["poured_by"] == {"embedded": "beads-ralph", "bd": "bd"}[shop.kind]
    things = shop.things()
    (root,) = data["molecules_created"]
    made = {thing["title"]: thing for thing in steps_of(data, things)}
    assert sorted(made) == ["A it", "B", "D", "Gate: human"]
    a, b, d, gate = (made[title] for title in sorted(made))
    assert (a["description"], a["notes"], a["priority"], a["issue_type"]) == ("it!", "it?", 0, "task")
    assert (b["issue_type"], b["labels"], b["metadata"], b["dependencies"]) == (
        "bug",
        ["x"],
        {"n": 3},
        [a["id"]],
    )
    assert b["priority"] == d["priority"] == gate["priority"] == 2
    assert (set(d["dependencies"]), d["assignee"]) == ({b["id"], gate["id"]}, "ann")
    assert Item.model_validate(gate).gate == GateRule(type="human")
    assert {thing["parent"] for thing in made.values()} == {root}
    assert (things[root]["description"], things[root]["assignee"]) == ("All of it", "lead")


def test_s1_fr7_3_an_attached_formula_follows_in_the_same_molecule(shop: Shop) -> None:
    needed = {"required": True}
    first = shop.formula(
        {
            "formula": "first",
            "vars": {"what": {"required": True}},
            "steps": [{"id": "a", "title": "A {{what}}"}],
        }
    )
    more = shop.formula(
        {
            "formula": "more",
            "vars": {"what": needed, "who": {"required": True, "enum": ["ann", "bob"]}},
            "steps": [{"id": "b", "title": "B {{what}} for {{who}}"}],
        }
    )
    refused = shop.pour(first, "--attach", more, what="x", who="cid")
    assert (refused.error["code"], shop.things()) == ("FORMULA.INVALID_VAR", {})
    assert shop.pour(first, "--attach", more, what="x").error["code"] == "FORMULA.MISSING_VAR"
    assert shop.pour(first, "--attach", "none", what="x").error["code"] == "FORMULA.NOT_FOUND"
    data = shop.pour(first, "--attach", more, what="x", who="ann").data
    assert data["bead_ids"] == ["bd-first-001-a", "bd-first-001-more-b"]
    assert data["formulas_poured"] == 2
    made = shop.things()["bd-first-001-more-b"]
    assert (made["title"], made["dependencies"]) == ("B x for ann", ["bd-first-001-a"])
    assert made["parent"] == "bd-first-001"


def test_s1_fr7_3_a_dry_run_shows_everything_and_writes_nothing(shop: Shop) -> None:
    name = shop.formula(FR6)
    data = shop.pour(name, "--dry-run", **FR7_VALUES).data
    assert (data["database_status"], data["beads_created"], data["molecules_created"]) == ("dry_run", 0, [])
    assert data["bead_ids"] == ["bd-sprint-work-pattern-001-work"]
    assert shop.things() == {}
    poured = shop.pour(name, **FR7_VALUES).data
    things = shop.things()
    shown = {bead["id"]: bead for bead in data["beads"]}
    assert set(shown) == set(things) == {*poured["bead_ids"], *poured["molecules_created"]}
    for identity, bead in shown.items():
        assert {key: things[identity].get(key) for key in bead} == bead
    again = shop.pour(name, "--dry-run", **FR7_VALUES).data
    assert again["bead_ids"] == ["bd-sprint-work-pattern-002-work"]


# --- many rows --------------------------------------------------------------------------------------


def test_many_rows_are_poured_with_common_values(shop: Shop) -> None:
    name = shop.formula(FR6)
    write(
        shop.root / "rows.csv",
        "\ufeffsprint_id,sprint_title,branch\n"
        '2.1,"One, and\nmore",work/one\n'
        "2.2,Two,\n"
        "2.3,Three,work/three\n",
    )
    values = {"worktree_path": "../x", "branch": "work/common"}
    ran = shop.pour(name, "--vars-file", "rows.csv", "--rows", "2-3", **values)
    data = ran.data
    assert data["account"] == {"rows": 2, "poured": 2, "failed": None, "not_tried": 0}
    assert data["molecules_created"] == [f"bd-sprint-work-pattern-00{n}" for n in (1, 2)]
    things = shop.things()
    assert [thing["labels"] for thing in steps_of(data, things)] == [["sprint-2.1"], ["sprint-2.2"]]
    faulty = shop.pour(name, "--vars-file", "rows.csv", "--rows", "4", branch="b")
    assert [fault["field"] for fault in faulty.error["details"]["faults"]] == ["vars.worktree_path"]
    assert faulty.error["details"]["faults"][0]["file"] == "rows.csv row 4"


def test_the_faults_of_all_rows_come_at_once(shop: Shop) -> None:
    name = shop.formula(RULED)
    rows = "name,size,colour\nX,small,\n,large,red\nok,huge,\n"
    error = shop.run("pour", name, "--vars-file", "-", stdin=rows).error
    found = [(fault["file"], fault["field"], fault["code"]) for fault in error["details"]["faults"]]
    assert found == [
        ("<stdin> row 2", "vars.name", "FORMULA.INVALID_VAR"),
        ("<stdin> row 3", "vars.name", "FORMULA.MISSING_VAR"),
        ("<stdin> row 4", "vars.size", "FORMULA.INVALID_VAR"),
        ("<stdin> row 3", "vars.colour", "FORMULA.INVALID_VAR"),
    ]
    assert shop.things() == {}


def test_rows_may_wait_for_one_another_in_any_order(shop: Shop) -> None:
    said = {
        "formula": "chain",
        "vars": {"n": {"required": True}, "waits": {"type": "list", "default": ""}},
        "steps": [{"id": "a", "title": "A", "bead_id": "bd-chain-{{n}}", "after": ["{{waits}}"]}],
    }
    rows = [
        {"n": "x", "waits": ["bd-chain-z", "bd-chain-y"]},
        {"n": "y"},
        {"n": "z", "waits": ["bd-chain-y"]},
    ]
    ran = shop.run("pour", shop.formula(said), "--vars-file", "-", stdin=json.dumps(rows))
    assert ran.code == 0, ran.out
    things = shop.things()
    waits = {name: things[f"bd-chain-{name}"]["dependencies"] for name in "xyz"}
    assert {name: set(found) for name, found in waits.items()} == {
        "x": {"bd-chain-y", "bd-chain-z"},
        "y": set(),
        "z": {"bd-chain-y"},
    }


def test_two_processes_get_different_numbers(shop: Shop) -> None:
    name = shop.formula({"formula": "race", "steps": [{"id": "a", "title": "A", "labels": ["{{n}}"]}]})
    rows = {word: "n\n" + "".join(f"{word}{n}\n" for n in range(3)) for word in ("x", "y", "z")}
    words = ("pour", name, "--vars-file", "-", "--json")
    with ThreadPoolExecutor() as pool:
        tries = [pool.submit(ralph_alone, *words, cwd=shop.root, stdin=text) for text in rows.values()]
        answers = [one.result().data for one in tries]
    numbers = sorted(root for data in answers for root in data["molecules_created"])
    assert len(set(numbers)) == 9
    labels = {(thing["labels"] or [""])[0] for thing in shop.things().values()}
    assert labels == {"", *(f"{word}{n}" for word in rows for n in range(3))}


# --- wisps ------------------------------------------------------------------------------------------

THROWAWAY = {
    "formula": "spike",
    "phase": "vapor",
    "steps": [
        {"id": "try", "title": "Try it", "type": "beads-ralph-work"},
        {"id": "look", "title": "Look", "needs": ["try"]},
    ],
}


def test_s1_fr7_8_wisps_are_poured_listed_and_removed_only_when_told(shop: Shop) -> None:
    name = shop.formula(THROWAWAY)
    kept = shop.pour(name)
    assert kept.data["warnings"][0]["suggested_action"] == f"Pour it with: beads-ralph wisp {name}"
    data = shop.run("wisp", name).data
    assert (data["wisp"], data["warnings"]) == (True, [])
    (root,) = data["molecules_created"]
    wisps = {root, *data["bead_ids"]}
    assert all(shop.things()[identity]["ephemeral"] for identity in wisps)
    listed = shop.run("wisp", "list").data
    assert {row["id"] for row in listed["wisps"]} == wisps
    assert (listed["count"], listed["molecules"], listed["old"]) == (3, 1, 0)
    assert {row["molecule"] for row in listed["wisps"]} == {root}
    beads = [bead.id for bead in shop.store.ready().beads]
    assert beads == ["bd-spike-001-try"]
    # Young ones stay; old ones go only by force where nobody can be asked.
    assert shop.run("wisp", "gc", "--force").data["removed"] == []
    asked = shop.run("wisp", "gc", "--age", "0")
    assert (asked.code, asked.error["code"]) == (2, "USAGE.INVALID")
    dry = shop.run("wisp", "gc", "--age", "0", "--dry-run").data
    assert (set(dry["removable"]), dry["removed"]) == (wisps, [])
    assert wisps <= set(shop.things())
    gone = shop.run("wisp", "gc", "--age", "0s", "--force").data
    assert set(gone["removed"]) == wisps
    left = shop.things()
    assert set(left) == {*kept.data["bead_ids"], *kept.data["molecules_created"]}


def test_s1_fr7_8_a_wisp_in_progress_is_never_collected(shop: Shop) -> None:
    name = shop.formula(THROWAWAY)
    first, second = (shop.run("wisp", name).data for _ in range(2))
    assert shop.store.claim(f"{first['molecules_created'][0]}-try", "worker").won
    done = shop.run("wisp", "gc", "--age", "0", "--force").data
    assert set(done["removed"]) == {*second["molecules_created"], *second["bead_ids"]}
    assert [row["id"] for row in done["kept"]] == first["molecules_created"]
    assert set(shop.things()) == {*first["molecules_created"], *first["bead_ids"]}


def test_s1_fr7_8_burning_takes_a_molecule_with_everything_below_it(shop: Shop) -> None:
    name = shop.formula(THROWAWAY)
    kept = shop.pour(name).data
    first, second = (shop.run("wisp", name).data for _ in range(2))
    (root,) = first["molecules_created"]
    refused = shop.run("wisp", "burn", root)
    assert (refused.code, refused.error["code"]) == (2, "USAGE.INVALID")
    gone = shop.run("wisp", "burn", root, "--force").data
    assert set(gone["removed"]) == {root, *first["bead_ids"]}
    lasting = shop.run("wisp", "burn", kept["molecules_created"][0], "--force")
    assert lasting.error["code"] == "DATABASE.BEAD_NOT_FOUND"
    assert shop.run("wisp", "burn", root, "--force").error["code"] == "DATABASE.BEAD_NOT_FOUND"
    left = {
        identity for data in (kept, second) for identity in (*data["molecules_created"], *data["bead_ids"])
    }
    assert set(shop.things()) == left


def test_a_plain_formula_becomes_whole_wisps(shop: Shop) -> None:
    name = shop.formula(EX3)
    data = shop.run("wisp", name, **EX3_ROWS[0]).data
    assert data["beads_created"] == 1
    assert {identity for identity, thing in shop.things().items() if thing.get("ephemeral")} == {
        *data["molecules_created"],
        *data["bead_ids"],
    }


@pytest.mark.parametrize("name", ["list", "gc", "burn", "pour"])
def test_a_formula_may_have_the_name_of_a_command(repo: Path, name: str) -> None:
    write(repo / "beads-ralph.yaml", f"store: embedded\n{SETTINGS}")
    shop = Shop(repo, "embedded")
    shop.formula(THROWAWAY | {"formula": name})
    assert shop.run("wisp", "pour", name).data["molecules_created"] == [f"bd-{name}-001"]
