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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-legs", "its type is convoy, and it has no legs"),
        ("around", "its type is aspect, which only says what other formulas do"),
        ("deep", "macros lie more than 5 deep in one another"),
        ("lost", "composed is not a macro: it has no template"),
    ],
)
def test_what_cannot_be_poured_says_why(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RalphError, match=said):
        rows(put(tmp_path), name)


def test_the_legs_of_a_convoy_are_steps_and_its_synthesis_waits_for_them(tmp_path: Path) -> None:
    assert rows(put(tmp_path), "legs") == [
        ("speed", "Speed of x", []),
        ("safety", "Safety", []),
        ("synthesis", "Make one of them", ["speed", "safety"]),
    ]


@pytest.mark.bd
def test_bd_writes_the_same_steps(bd_repo: Path, bd_path: Path) -> None:
    folders = put(bd_repo)
    for name in ("composed", "mapped", "woven"):
        done = subprocess.run(
            [bd_path, "cook", name, "--json"],
            cwd=bd_repo,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        steps = json.loads(done.stdout)["steps"]
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
