"""The real bd beside us: of a plain formula both make the same, and of the others bd makes something else."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.names import GATE
from beads_ralph.errors import RalphError
from beads_ralph.formula.bd_compatible import why_not_plain
from beads_ralph.formula.check import check
from beads_ralph.formula.file_format import parse
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.formula.render import Ready, render
from beads_ralph.formula.variables import values
from tests.formula.recipes import FIXTURES, project, step, write

pytestmark = pytest.mark.bd
Raw = dict[str, Any]
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bd(bd_repo: Path, bd_path: Path) -> Call:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(bd_path), *words]
        return subprocess.run(command, cwd=bd_repo, capture_output=True, text=True, timeout=120, check=False)

    return call


# --- what both make, in one shape -------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """One thing below the root, by its path there."""

    title: str
    description: str
    notes: str
    kind: str
    priority: int
    assignee: str
    labels: tuple[str, ...]
    metadata: str
    parent: str


@dataclass(frozen=True)
class Poured:
    """A whole pour: the root's texts, the parts, and for each leaf and gate all that comes before it."""

    root: tuple[str, str]
    parts: Mapping[str, Made]
    before: Mapping[str, frozenset[str]]
    ready: frozenset[str]


def closed(edges: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Everything before each node, however far back."""
    found: dict[str, frozenset[str]] = {}

    def visit(node: str) -> frozenset[str]:
        if node not in found:
            found[node] = frozenset()
            nearest = edges.get(node, set())
            found[node] = frozenset(nearest).union(*(visit(other) for other in nearest))
        return found[node]

    return {node: visit(node) for node in edges}


def ours(formula: Formula, given: Mapping[str, str]) -> Poured:
    rendered = render(formula, values(formula, given))
    steps = {ready.key: ready for ready in rendered.steps}

    def path(key: str) -> str:
        parent = steps[key].parent
        return f"{path(parent)}.{key}" if parent else key

    parts, edges = {}, {}
    for key, ready in steps.items():
        where = path(key)
        parts[where] = _made(ready, path(ready.parent) if ready.parent else "")
        if ready.is_epic:
            continue
        edges[where] = {path(other) for other in ready.needs}
        if ready.gate is not None:
            gate = f"{where.removesuffix(key)}gate-{key}"
            shown = " ".join(filter(None, (ready.gate.type, ready.gate.await_id)))
            metadata = json.dumps({"repo": ready.gate.repo} if ready.gate.repo else {})
            said = f"Async gate for step {key}"
            parts[gate] = Made(f"Gate: {shown}", said, "", GATE, 2, "", (), metadata, parts[where].parent)
            edges[where] |= {gate}
            edges[gate] = set()
    before = closed(edges)
    start = frozenset(where for where, others in before.items() if not others and parts[where].kind != GATE)
    return Poured((rendered.title, rendered.description), parts, before, start)


def _made(ready: Ready, parent: str) -> Made:
    return Made(
        ready.title,
        ready.description,
        ready.notes,
        ready.issue_type,
        2 if ready.priority is None else ready.priority,
        ready.assignee,
        tuple(sorted(ready.labels)),
        json.dumps(ready.metadata, sort_keys=True),
        parent,
    )


def theirs(mapping: Mapping[str, str], rows: Mapping[str, Raw], name: str, ready: set[str]) -> Poured:
    """What bd says that it made; who waits for a container waits for what is in it, and what is in one
    waits with it."""
    paths = {identity: path.removeprefix(name).removeprefix(".") for path, identity in mapping.items()}
    parts, waits, parents = {}, dict[str, set[str]](), dict[str, str]()
    for identity, path in paths.items():
        row = rows[identity]
        links = row.get("dependencies", [])
        parents[path] = next((paths[d["depends_on_id"]] for d in links if d["type"] == "parent-child"), "")
        waits[path] = {paths[d["depends_on_id"]] for d in links if d["type"] in ("blocks", "waits-for")}
        if path:
            parts[path] = _bd_made(row, parents[path])
    containers = set(parents.values())
    leaves = [path for path in parts if path not in containers]
    inside = {
        one: {leaf for leaf in leaves if leaf == one or leaf.startswith(f"{one}.")}
        if one in containers
        else {one}
        for one in paths.values()
    }
    edges = {}
    for leaf in leaves:
        chain = [leaf]
        while parents[chain[-1]]:
            chain.append(parents[chain[-1]])
        edges[leaf] = {end for one in chain for other in waits[one] for end in inside[other]}
    root = rows[mapping[name]]
    start = frozenset(paths[identity] for identity in ready if identity in paths)
    return Poured(
        (root["title"], root.get("description", "")), parts, closed(edges), start & frozenset(leaves)
    )


def _bd_made(row: Raw, parent: str) -> Made:
    labels = [label for label in row.get("labels", []) if re.match(r"gate:[^{]", label) is None]
    return Made(
        row["title"],
        row.get("description", ""),
        row.get("notes", ""),
        row["issue_type"],
        row["priority"],
        row.get("assignee", ""),
        tuple(sorted(labels)),
        json.dumps(row.get("metadata", {}), sort_keys=True),
        parent,
    )


def poured_by_bd(bd: Call, name: str, given: Mapping[str, str]) -> dict[str, str]:
    words = [word for key, value in given.items() for word in ("--var", f"{key}={value}")]
    done = bd("mol", "pour", name, *words, "--json")
    assert done.returncode == 0, (name, done.stderr)
    mapping: dict[str, str] = json.loads(done.stdout)["id_mapping"]
    return mapping


def exported(bd: Call) -> dict[str, Raw]:
    rows = [json.loads(line) for line in bd("export").stdout.splitlines() if line.startswith("{")]
    return {row["id"]: row for row in rows}


def ready_ids(bd: Call) -> set[str]:
    return {row["id"] for row in json.loads(bd("ready", "--json", "--limit", "0").stdout)}


# --- plain formulas ---------------------------------------------------------------------------------

EPIC = step("e", "a", children=[step("b"), step("c", "b"), step("f", children=[step("g")], type="feature")])
BODY = [step("w", title="W {i}", description="no {i}", labels=["l"]), step("v", "w", priority=0)]
UNTIL = [step("w"), step("v", "w")]
PLAIN: dict[str, tuple[Raw, dict[str, str]]] = {
    "flat": ({"steps": [step("a"), step("b", "a"), step("c", "a", depends_on=["b"]), step("d")]}, {}),
    "fields": (
        {
            "description": "of {{v}}",
            "vars": {"v": {"required": True}, "w": {"default": "W"}},
            "steps": [
                step("a", title="{{v}} {{w}} {{x}}", description="d {{v}}", notes="n {{w}}", type="feat"),
                step("b", priority=0, labels=["two", "one"], assignee="me", metadata={"k": [1, {"l": None}]}),
            ],
        },
        {"v": "{{w}} $&"},
    ),
    "titled": ({"vars": {"title": {}, "desc": {"default": "D"}}, "steps": [step("a")]}, {"title": "T"}),
    "undeclared": ({"steps": [step("a", title="{{x}}")]}, {"x": "X"}),
    "conditions": (
        {
            "vars": {"v": {"default": "x"}, "off": {"default": "no"}},
            "steps": [
                step("a", condition="{{v}}"),
                step("b", "a", condition="{{v}} == 'x'"),
                step("c", condition="!{{v}}"),
                step("d", "c", condition="{{v}} != x"),
                step("e", children=[step("f", condition="{{off}}"), step("g")]),
                step("h", condition="{{off}}", children=[step("i")]),
            ],
        },
        {},
    ),
    "children": ({"steps": [step("a"), EPIC, step("d", "e"), step("h", "c")]}, {}),
    "waits": (
        {
            "steps": [
                step("e", children=[step("b"), step("c")]),
                step("p", "e", waits_for="all-children"),
                step("q", waits_for="children-of(e)"),
            ]
        },
        {},
    ),
    "gates": (
        {
            "vars": {"pr": {}},
            "steps": [
                step("a", gate={"type": "gh:pr", "await_id": "{{pr}}", "repo": "o/{{pr}}"}),
                step("b", "a", gate={"type": "timer", "timeout": "1h"}),
                step("e", children=[step("c", gate={"type": "human"})]),
            ],
        },
        {"pr": "7"},
    ),
    "unheeded": (
        {
            "steps": [
                step("a", on_complete={"for_each": "output.x", "bond": "y"}),
                step("b", "a", gate={"type": "mail", "id": "bob"}),
                step("c", "a", gate={"type": "approval"}, labels=["l"]),
            ],
            "compose": {
                "hooks": [{"trigger": "label:l", "attach": "count"}],
                "gate": [{"before": "c", "condition": "a.status == 'complete'"}],
            },
        },
        {},
    ),
    "until": ({"steps": [step("l", loop={"until": "w.status == 'complete'", "max": 2, "body": UNTIL})]}, {}),
    "any": ({"steps": [step("a"), step("b", "a", waits_for="any-children")]}, {}),
    "count": ({"steps": [step("l", loop={"count": 3, "body": [step("w"), step("v", "w")]})]}, {}),
    "range": ({"steps": [step("a"), step("l", loop={"range": "2..2^2", "var": "i", "body": BODY})]}, {}),
    "outside": ({"steps": [step("a"), step("l", loop={"count": 2, "body": [step("w", "a")]})]}, {}),
    "branch": (
        {
            "steps": [step("a"), step("b"), step("c"), step("d")],
            "compose": {"branch": [{"from": "a", "steps": ["b", "c"], "join": "d"}]},
        },
        {},
    ),
    "child": (
        {
            "extends": ["flat", "titled2"],
            "vars": {"v": {"default": "mine"}},
            "steps": [step("b", "a", title="{{v}} {{u}}"), step("z", "d", "y")],
        },
        {},
    ),
    "titled2": (
        {"vars": {"v": {"default": "x"}, "u": {"default": "U"}}, "steps": [step("y", title="{{v}}")]},
        {},
    ),
}


@pytest.mark.full
def test_of_a_plain_formula_bd_makes_what_we_make(bd_repo: Path, bd: Call) -> None:
    for name, (raw, _) in PLAIN.items():
        write(project(bd_repo), f"{name}.formula.json", {"formula": name, **raw})
    write(
        project(bd_repo),
        "work-sprint.formula.json",
        (FIXTURES / "work-sprint.formula.json").read_text("utf-8"),
    )
    given = {name: said for name, (_, said) in PLAIN.items()}
    given["work-sprint"] = {"sprint_id": "2.1", "title": "Backend API Layer", "worktree": "../w"}
    folders = Folders.of(bd_repo)
    mappings = {name: poured_by_bd(bd, name, said) for name, said in given.items()}
    rows, ready = exported(bd), ready_ids(bd)
    for name, said in given.items():
        formula = folders.load(name)
        assert why_not_plain(formula) is None, name
        assert ours(formula, said) == theirs(mappings[name], rows, name, ready), name


# --- formulas that are not plain --------------------------------------------------------------------

LOOP = {"count": 2, "body": [step("w")]}
ROUND = {"range": "1..2", "var": "i"}
OTHER: dict[str, tuple[Raw, dict[str, str]]] = {
    "label": ({"vars": {"v": {}}, "steps": [step("a", labels=["{{v}}"])]}, {"v": "x"}),
    "assignee": ({"vars": {"v": {}}, "steps": [step("a", assignee="{{v}}")]}, {"v": "x"}),
    "metadata": ({"vars": {"v": {}}, "steps": [step("a", metadata={"k": ["{{v}}"]})]}, {"v": "x"}),
    "kind": ({"vars": {"v": {}}, "steps": [step("a", type="{{v}}")]}, {"v": "bug"}),
    "list": ({"vars": {"v": {"type": "list"}}, "steps": [step("a", title="{{v}}")]}, {"v": "[1, 2]"}),
    "loop-needs": ({"steps": [step("a"), step("l", "a", loop=LOOP)]}, {}),
    "loop-needed": ({"steps": [step("l", loop=LOOP), step("z", "l")]}, {}),
    "loop-condition": (
        {"vars": {"v": {"default": "no"}}, "steps": [step("a"), step("l", loop=LOOP, condition="{{v}}")]},
        {},
    ),
    "loop-gate": ({"steps": [step("l", loop=LOOP, gate={"type": "human"})]}, {}),
    "loop-wait": (
        {"steps": [step("e", children=[step("b")]), step("l", loop=LOOP, waits_for="children-of(e)")]},
        {},
    ),
    "body-metadata": ({"steps": [step("l", loop={"count": 1, "body": [step("w", metadata={"k": 1})]})]}, {}),
    "body-notes": ({"steps": [step("l", loop={"count": 1, "body": [step("w", notes="n")]})]}, {}),
    "body-label": ({"steps": [step("l", loop={**ROUND, "body": [step("w", labels=["{i}"])]})]}, {}),
    "body-child": (
        {"steps": [step("l", loop={**ROUND, "body": [step("w", children=[step("c", title="{i}")])]})]},
        {},
    ),
    "body-parallel": ({"steps": [step("l", loop={"count": 2, "body": [step("p"), step("q")]})]}, {}),
    "bridge": (
        {
            "vars": {"v": {"default": "no"}},
            "steps": [step("a"), step("b", "a", condition="{{v}}"), step("c", "b")],
        },
        {},
    ),
    "emptied": (
        {
            "vars": {"v": {"default": "no"}},
            "steps": [step("a"), step("e", children=[step("b", condition="{{v}}")])],
        },
        {},
    ),
    "grandchild": (
        {
            "extends": ["forked"],
            "compose": {"branch": [{"from": "c", "steps": ["d"], "join": "e"}]},
            "steps": [step("d"), step("e")],
        },
        {},
    ),
    "forked": (
        {
            "steps": [step("a"), step("b"), step("c"), step("x", bead_id="bd-x")],
            "compose": {"branch": [{"from": "a", "steps": ["b"], "join": "c"}]},
        },
        {},
    ),
}
UNREADABLE: dict[str, tuple[Raw, dict[str, str]]] = {
    "bare": ({"vars": {"v": "x"}, "steps": [step("a", title="{{v}}")]}, {}),
    "no-title": ({"vars": {"title": {"default": ""}}, "steps": [step("a")]}, {}),
    "number": ({"vars": {"v": {"default": 3}}, "steps": [step("a", title="{{v}}")]}, {}),
    "priority": ({"vars": {"v": {"type": "int"}}, "steps": [step("a", priority="{{v}}")]}, {"v": "1"}),
    "variable-range": (
        {"vars": {"n": {}}, "steps": [step("l", loop={"range": "1..{n}", "body": [step("w")]})]},
        {"n": "2"},
    ),
}


@pytest.mark.full
def test_of_the_others_bd_makes_something_else_or_nothing(bd_repo: Path, bd: Call) -> None:
    """What makes a formula not plain is a reason: where bd learns to do it, this test says so."""
    for name, (raw, _) in (OTHER | UNREADABLE).items():
        write(project(bd_repo), f"{name}.formula.json", {"formula": name, **raw})
    folders = Folders.of(bd_repo)
    mappings = {name: poured_by_bd(bd, name, said) for name, (_, said) in OTHER.items()}
    rows, ready = exported(bd), ready_ids(bd)
    for name, (_, said) in OTHER.items():
        formula = folders.load(name)
        assert why_not_plain(formula), name
        if name != "forked":  # its id is what bd would not give it
            assert ours(formula, said) != theirs(mappings[name], rows, name, ready), name
    for name, (_, said) in UNREADABLE.items():
        formula = folders.load(name)
        assert why_not_plain(formula), name
        assert ours(formula, said).parts
        assert bd("mol", "pour", name, *(f"--var={k}={v}" for k, v in said.items())).returncode != 0, name


# --- what is refused --------------------------------------------------------------------------------

BROKEN: dict[str, Raw] = {
    "twice": {"steps": [step("a"), step("a")]},
    "twice-below": {"steps": [step("a", children=[step("b")]), step("b")]},
    "unknown": {"steps": [step("a", "zz")]},
    "unknown-below": {"steps": [step("a", children=[step("b", depends_on=["zz"])])]},
    "untitled": {"steps": [step("a", title="")]},
    "nameless": {"steps": [step("", title="x")]},
    "priority": {"steps": [step("a", priority=5)]},
    "type": {"type": "flow", "steps": [step("a")]},
    "version": {"version": -1, "steps": [step("a")]},
    "both": {"vars": {"v": {"required": True, "default": "x"}}, "steps": [step("a", title="{{v}}")]},
    "waits": {"steps": [step("a", waits_for="some")]},
    "waits-nobody": {"steps": [step("a", waits_for="children-of()")]},
    "body": {"steps": [step("l", loop={"count": 1, "body": []})]},
    "ways": {"steps": [step("l", loop={"body": [step("w")]})]},
    "two-ways": {"steps": [step("l", loop={"count": 1, "range": "1..2", "body": [step("w")]})]},
    "range": {"steps": [step("l", loop={"range": "1-2", "body": [step("w")]})]},
    "backwards": {"steps": [step("l", loop={"range": "3..1", "body": [step("w")]})]},
    "until": {"steps": [step("l", loop={"until": "a.status == 'x'", "body": [step("w")]})]},
    "on-complete": {"steps": [step("a", on_complete={"for_each": "output.x"})]},
    "gate": {"steps": [step("a")], "compose": {"gate": [{"before": "q", "condition": "a.status == 'x'"}]}},
    "gate-bare": {"steps": [step("a")], "compose": {"gate": [{"before": "a"}]}},
    "hook": {"steps": [step("a")], "compose": {"hooks": [{"trigger": "x"}]}},
    "branch": {"steps": [step("a")], "compose": {"branch": [{"from": "a", "steps": ["q"], "join": "a"}]}},
    "self": {"extends": ["self"], "steps": [step("a")]},
    "orphan": {"extends": ["nobody"], "steps": [step("a")]},
    "kind": {"steps": [step("a", needs="b")]},
}


def test_what_bd_refuses_is_refused_here(bd_repo: Path, bd: Call) -> None:
    for name, raw in BROKEN.items():
        write(project(bd_repo), f"{name}.formula.json", {"formula": name, **raw})
    folders = Folders.of(bd_repo)
    for name in BROKEN:
        assert bd("cook", name, "--dry-run").returncode != 0, name
        with pytest.raises(RalphError):
            folders.load(name)


def test_a_circle_and_a_bad_condition_are_found_before_bd_finds_them(bd_repo: Path, bd: Call) -> None:
    found_late: dict[str, Raw] = {
        "circle": {"steps": [step("a", "b"), step("b", "a")]},
        "condition": {"vars": {"v": {"default": "x"}}, "steps": [step("a", condition="{{v}} > 1")]},
    }
    for name, raw in found_late.items():
        write(project(bd_repo), f"{name}.formula.json", {"formula": name, **raw})
        assert bd("cook", name, "--dry-run").returncode == 0, name
        assert bd("mol", "pour", name).returncode != 0, name
        read = parse({"formula": name, **raw}, project(bd_repo) / f"{name}.formula.json")
        assert read.formula is not None
        assert check(read.formula).faults, name


RULES: Raw = {
    "word": {"pattern": "^[a-z]+$"},
    "part": {"pattern": r"\d"},
    "line": {"pattern": "^a$"},
    "size": {"enum": ["s", "l"], "default": "s"},
    "free": {},
}


GOOD = {"word": "abc", "part": "x1", "line": "a", "free": "f"}
GIVEN: list[tuple[dict[str, str], bool]] = [
    (GOOD, True),
    (GOOD | {"size": "l"}, True),
    (GOOD | {"word": "abC"}, False),
    (GOOD | {"part": "x"}, False),
    (GOOD | {"line": "a\n"}, False),
    (GOOD | {"free": ""}, False),
    ({name: value for name, value in GOOD.items() if name != "free"}, False),
    (GOOD | {"size": "m"}, False),
    (GOOD | {"size": ""}, False),
]


def test_values_are_taken_where_bd_takes_them(bd_repo: Path, bd: Call) -> None:
    titled = " ".join(f"{{{{{name}}}}}" for name in RULES)
    raw = {"formula": "r", "vars": RULES, "steps": [step("a", title=titled)]}
    write(project(bd_repo), "r.formula.json", raw)
    formula = Folders.of(bd_repo).load("r")
    for given, taken in GIVEN:
        words = [f"--var={name}={value}" for name, value in given.items()]
        assert (bd("mol", "pour", "r", *words, "--dry-run").returncode == 0) is taken, given
        assert is_taken(formula, given) is taken, given


def is_taken(formula: Formula, given: Mapping[str, str]) -> bool:
    try:
        values(formula, given)
    except RalphError:
        return False
    return True


def test_the_search_is_bds(bd_repo: Path, bd: Call, isolated: Path) -> None:
    """TOML before JSON, the project before the home, and the name of the file."""
    for base, suffix in ((bd_repo, "toml"), (bd_repo, "json"), (isolated, "toml")):
        place = f"{base.name}-{suffix}"
        toml = f'formula = "x"\n[[steps]]\nid = "a"\ntitle = "{place}"\n'
        raw = {"formula": "x", "steps": [step("a", title=place)]}
        write(project(base), f"x.formula.{suffix}", toml if suffix == "toml" else raw)
    write(project(isolated), "home.formula.json", {"formula": "other", "steps": [step("a", title="home")]})
    for name in ("x", "home"):
        (theirs_,) = json.loads(bd("cook", name, "--json").stdout)["steps"]
        assert Folders.of(bd_repo).load(name).steps[0].title == theirs_["title"]
