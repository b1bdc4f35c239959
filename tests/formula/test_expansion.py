"""Macros and aspects: written out as bd writes them out, and what makes nothing says why."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.errors import RalphError
from beads_ralph.formula.bd_compatible import why_not_plain
from beads_ralph.formula.expansion import expanded
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.render import render
from beads_ralph.formula.variables import values
from tests.cli.running import ralph
from tests.formula.recipes import project, write

NAME = {"name": {"default": "x"}}
CHAIN: list[dict[str, Any]] = [
    {"id": "design", "title": "Design"},
    {"id": "build", "title": "Build", "description": "it", "needs": ["design"]},
    {"id": "ship", "title": "Ship", "needs": ["build"]},
]
FORMULAS: dict[str, dict[str, Any]] = {
    "twice": {
        "type": "expansion",
        "vars": {"who": {"default": "me"}, **NAME},
        "template": [
            {
                "id": "{target}.draft",
                "title": "Draft {target.title} for {who}",
                "description": "{target.description}",
            },
            {"id": "{target}.refine", "title": "Refine {{name}}", "needs": ["{target}.draft"]},
        ],
    },
    "around": {
        "type": "aspect",
        "advice": [
            {
                "target": "b*",
                "before": {"id": "pre-{step.id}", "title": "Before {step.title}"},
                "after": {"id": "post-{step.id}", "title": "After {step.title}"},
            }
        ],
    },
    "composed": {
        "vars": NAME,
        "steps": CHAIN,
        "compose": {"expand": [{"target": "build", "with": "twice", "vars": {"who": "you"}}]},
    },
    "mapped": {"vars": NAME, "steps": CHAIN, "compose": {"map": [{"select": "b*", "with": "twice"}]}},
    "inline": {"vars": NAME, "steps": [CHAIN[0], {**CHAIN[1], "expand": "twice"}, CHAIN[2]]},
    "woven": {"steps": CHAIN, "compose": {"aspects": ["around"]}},
    "inside": {
        "vars": NAME,
        "steps": [
            CHAIN[0],
            {"id": "round", "title": "Round", "children": [{**CHAIN[1], "needs": []}, CHAIN[2]]},
            {"id": "tell", "title": "Tell", "needs": ["build"]},
        ],
    },
    "inside-composed": {
        "extends": ["inside"],
        "compose": {"expand": [{"target": "build", "with": "twice"}]},
    },
    "inside-mapped": {"extends": ["inside"], "compose": {"map": [{"select": "b*", "with": "twice"}]}},
    "inside-woven": {"extends": ["inside"], "compose": {"aspects": ["around"]}},
    "in-a-row": {
        "type": "aspect",
        "advice": [
            {
                "target": "build",
                "around": {
                    "before": [{"id": "look", "title": "Look"}, {"id": "ask", "title": "Ask"}],
                    "after": [{"id": "test", "title": "Test"}, {"id": "note", "title": "Note"}],
                },
            }
        ],
    },
    "woven-in-a-row": {"steps": CHAIN, "compose": {"aspects": ["in-a-row"]}},
    "fork": {
        "type": "expansion",
        "template": [{"id": "{target}.a", "title": "A"}, {"id": "{target}.b", "title": "B"}],
    },
    "forked": {"steps": CHAIN, "compose": {"expand": [{"target": "build", "with": "fork"}]}},
    "forked-last": {"steps": CHAIN, "compose": {"expand": [{"target": "ship", "with": "fork"}]}},
    "choosy": {
        "type": "expansion",
        "template": [
            {"id": "{target}.a", "title": "A", "metadata": {"who": "{target}"}},
            {"id": "{target}", "title": "B", "needs": ["{target}.a"], "condition": "{{name}} != x"},
        ],
    },
    "chosen": {"vars": NAME, "steps": CHAIN, "compose": {"expand": [{"target": "build", "with": "choosy"}]}},
    "both-inline": {
        "vars": NAME,
        "steps": [{**CHAIN[0], "expand": "twice"}, {**CHAIN[1], "expand": "twice"}, CHAIN[2]],
    },
    "nowhere": {"steps": CHAIN, "compose": {"expand": [{"target": "built", "with": "fork"}]}},
    "no-legs": {"type": "convoy", "description": "Legs"},
    "legs": {
        "type": "convoy",
        "vars": NAME,
        "legs": [
            {"id": "speed", "title": "Speed of {{name}}", "focus": "Is it fast?"},
            {"id": "safety", "title": "Safety", "description": "Look for holes."},
        ],
        "synthesis": {"title": "Make one of them", "description": "Sum up."},
    },
    "deep": {"steps": [{**CHAIN[0], "expand": "endless"}]},
    "endless": {
        "type": "expansion",
        "template": [{"id": "{target}.x", "title": "X", "expand": "endless"}],
    },
    "lost": {"steps": [{**CHAIN[0], "expand": "composed"}]},
}


def put(root: Path) -> Folders:
    folder = root / ".beads" / "formulas"
    folder.mkdir(parents=True, exist_ok=True)
    for name, said in FORMULAS.items():
        (folder / f"{name}.formula.json").write_text(
            json.dumps({"formula": name, "version": 1, **said}), "utf-8"
        )
    return Folders.of(root, None)


def rows(folders: Folders, name: str) -> list[tuple[str, str, list[str]]]:
    formula = expanded(folders.load(name), folders.load)
    return [(step.key, step.title, list(step.needs)) for step in render(formula, values(formula, {})).steps]


def test_a_macro_stands_in_the_place_of_its_step(tmp_path: Path) -> None:
    folders = put(tmp_path)
    assert rows(folders, "composed") == [
        ("design", "Design", []),
        ("build.draft", "Draft Build for you", ["design"]),
        ("build.refine", "Refine x", ["build.draft"]),
        ("ship", "Ship", ["build.refine"]),
    ]
    for name in ("mapped", "inline"):
        assert [(key, needs) for key, _, needs in rows(folders, name)] == [
            (key, needs) for key, _, needs in rows(folders, "composed")
        ]
    inline = why_not_plain(expanded(folders.load("inline"), folders.load))
    assert inline == "another step needs one that is a macro (expand), which bd forgets"
    assert why_not_plain(expanded(folders.load("composed"), folders.load)) is None
    assert [key for key, _, _ in rows(folders, "twice")] == ["main.draft", "main.refine"]


def test_an_aspect_comes_before_and_after(tmp_path: Path) -> None:
    assert rows(put(tmp_path), "woven") == [
        ("design", "Design", []),
        ("pre-build", "Before Build", []),
        ("build", "Build", ["design", "pre-build"]),
        ("post-build", "After Build", ["build"]),
        ("ship", "Ship", ["build"]),
    ]


def test_steps_inside_of_others_are_replaced_and_woven_too(tmp_path: Path) -> None:
    folders = put(tmp_path)
    for name in ("inside-composed", "inside-mapped"):
        assert rows(folders, name) == [
            ("design", "Design", []),
            ("round", "Round", []),
            ("build.draft", "Draft Build for me", []),
            ("build.refine", "Refine x", ["build.draft"]),
            ("ship", "Ship", ["build.refine"]),
            ("tell", "Tell", ["build.refine"]),
        ]
    assert [(key, needs) for key, _, needs in rows(folders, "inside-woven")] == [
        ("design", []),
        ("round", []),
        ("pre-build", []),
        ("build", ["pre-build"]),
        ("post-build", ["build"]),
        ("ship", ["build"]),
        ("tell", ["build"]),
    ]


def test_what_an_aspect_puts_on_one_side_comes_one_after_the_other(tmp_path: Path) -> None:
    found = {key: needs for key, _, needs in rows(put(tmp_path), "woven-in-a-row")}
    assert found["ask"] == ["look"]
    assert found["build"] == ["design", "ask"]
    assert (found["test"], found["note"]) == (["build"], ["test"])


def test_a_macro_that_waits_for_a_macro_waits_for_its_last_step(tmp_path: Path) -> None:
    found = {key: needs for key, _, needs in rows(put(tmp_path), "both-inline")}
    assert found["build.draft"] == ["design.refine"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("forked", "a macro ends with several steps, and bd lets others wait for the very last one only"),
        ("forked-last", None),
        ("chosen", "a step of a macro has condition, which bd forgets"),
        ("around", "bd makes an empty molecule of an aspect"),
    ],
)
def test_what_bd_forgets_of_a_macro_is_a_reason_to_render_it_here(
    name: str, reason: str | None, tmp_path: Path
) -> None:
    folders = put(tmp_path)
    assert why_not_plain(expanded(folders.load(name), folders.load)) == reason


def test_a_step_of_a_macro_keeps_its_condition_and_its_metadata(tmp_path: Path) -> None:
    folders = put(tmp_path)
    formula = expanded(folders.load("chosen"), folders.load)
    for value, wanted in (
        ("x", ["design", "build.a", "ship"]),
        ("y", ["design", "build.a", "build", "ship"]),
    ):
        steps = render(formula, values(formula, {"name": value})).steps
        assert [step.key for step in steps] == wanted
        assert steps[1].metadata == {"who": "build"}
        assert steps[-1].needs == (wanted[-2],)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-legs", "its type is convoy, and it has no legs"),
        ("around", "its type is aspect, which only says what other formulas do"),
        ("deep", "macros lie more than 5 deep in one another"),
        ("lost", "composed is not a macro: it has no template"),
        ("nowhere", r"compose.expand\[0\].target: there is no step 'built'"),
    ],
)
def test_what_cannot_be_poured_says_why(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RalphError, match=said):
        rows(put(tmp_path), name)


def test_check_finds_what_a_pour_would_refuse(repo: Path) -> None:
    put(repo)
    said = ralph("formula", "check", "nowhere", "--json", cwd=repo).error["details"]["faults"]
    assert ["there is no step 'built'" in fault["message"] for fault in said] == [True]


def test_the_legs_of_a_convoy_are_steps_and_its_synthesis_waits_for_them(tmp_path: Path) -> None:
    assert rows(put(tmp_path), "legs") == [
        ("speed", "Speed of x", []),
        ("safety", "Safety", []),
        ("synthesis", "Make one of them", ["speed", "safety"]),
    ]


SAME = (
    "composed",
    "mapped",
    "woven",
    "inside-composed",
    "inside-mapped",
    "inside-woven",
    "woven-in-a-row",
    "forked-last",
)


def flat(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for step in steps for one in (step, *flat(step.get("children", [])))]


@pytest.mark.bd
def test_bd_writes_the_same_steps(bd_repo: Path, bd_path: Path) -> None:
    folders = put(bd_repo)
    for name in SAME:
        done = subprocess.run(
            [bd_path, "cook", name, "--json"],
            cwd=bd_repo,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        steps = flat(json.loads(done.stdout)["steps"])
        assert [(step["id"], step.get("needs", [])) for step in steps] == [
            (key, needs) for key, _, needs in rows(folders, name)
        ]


REVIEW = """\
formula = "review"
type = "convoy"

[inputs.problem]
description = "What to look into"
type = "string"
required = true

[inputs.depth]
default = "all of it"

[inputs.pr]
type = "number"
required = true
required_unless = ["problem"]

[[legs]]
id = "speed"
title = "Speed of {{.problem}}"
focus = "{{.depth}}{{.pr}}"

[synthesis]
title = "Sum up"
"""


@pytest.mark.parametrize("kind", ["embedded", pytest.param("bd", marks=[pytest.mark.bd])])
def test_the_inputs_of_a_convoy_are_its_variables(kind: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    write(project(root), "review.formula.toml", REVIEW)
    assert ralph("init", "--store", kind, cwd=root).code == 0
    said = ralph("formula", "check", "review", "--json", cwd=root).data["formulas"][0]
    assert (said["valid"], said["warnings"]) == (True, [])
    missing = ralph("pour", "review", "--json", cwd=root).error
    assert "problem" in missing["message"]
    assert "What to look into" in json.dumps(missing)
    poured = ralph("pour", "review", "--var", "problem=the import", "--json", cwd=root).data
    (ident,) = poured["molecules_created"]
    names = [f"{ident}-speed", f"{ident}-synthesis"]
    speed, synthesis = ralph("show", *names, "--json", cwd=root).data["items"]
    assert (speed["title"], speed["description"]) == ("Speed of the import", "all of it")
    assert synthesis["description"].endswith("problem: the import")
