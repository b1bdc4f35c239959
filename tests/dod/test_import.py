"""Ralph beads in a store: what each word becomes, and a run that works on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from beads_ralph.dod import files
from tests.beads import make_bead
from tests.cli.running import ralph
from tests.dod.beads import EXAMPLE_NAMES, EXAMPLES, SEED_SCHEMA, bead, check, example, put
from tests.git.repos import git


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def project(request: pytest.FixtureRequest) -> tuple[Path, str]:
    root: Path = request.getfixturevalue("bd_repo" if request.param == "bd" else "repo")
    script = root.parent / "script.yaml"
    steps = {"dev": [{"write": {"done.txt": "yes\n"}}, {"commit": "work"}]}
    script.write_text(yaml.safe_dump({"beads": {"*": steps}}), encoding="utf-8")
    agent = {"agent": "claude", "executable": "scripted", "env": {"BEADS_RALPH_SCRIPT": str(script)}}
    said: dict[str, Any] = {
        "store": request.param,
        "check_before_start": False,
        "plan": {"source_branch": "main", "dev_agents": [agent], "qa_agents": [agent]},
    }
    (root / "beads-ralph.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    (root / ".gitignore").write_text(".beads/\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "settings")
    return root, str(request.param)


def shown(root: Path, bead_id: str) -> dict[str, Any]:
    (found,) = ralph("show", bead_id, "--json", cwd=root).data["beads"]
    return dict(found)


def test_s3_l1_an_imported_bead_is_run_by_the_loop_with_its_verifiers(project: tuple[Path, str]) -> None:
    root, kind = project
    raw = bead(
        check("cat done.txt", "Says yes", expect={"stdout_contains": "yes"}),
        type="task",
        priority=5,
        constraints={"max_iterations": 4, "time_budget_minutes": 30},
    )
    path = put(root.parent / "one.json", raw)
    made = ralph("import", path, "--json", cwd=root)
    assert made.data == {"bead_ids": ["gt-one"], "store": kind}
    found = shown(root, "gt-one")
    assert (found["status"], found["priority"]) == ("open", 4)
    metadata = found["metadata"]
    assert metadata["dev_prompts"] == ["Make it so"]
    assert metadata["dod"]["verifiers"][0]["name"] == "Says yes"
    assert (metadata["max_retry_attempts"], metadata["timeout_minutes"]) == (4, 30)
    ran = ralph("run", "--json", cwd=root)
    assert (ran.code, ran.data["closed"]) == (0, ["gt-one"])
    exported = ralph("export", "gt-one", "--json", cwd=root)
    (back,) = exported.data["beads"]
    assert {key: back[key] for key in raw} == raw, "priority 5 included"
    assert back["status"] == "completed"
    assert back["ralph_meta"]["attempt_count"] == 1
    (result,) = back["ralph_meta"]["verifier_results"]
    assert (result["name"], result["ruling"], result["exit_code"]) == ("Says yes", "pass", 0)
    assert result["commit"] == shown(root, "gt-one")["metadata"]["proven"]["commit"]
    assert Draft7Validator(SEED_SCHEMA).is_valid(back)


def test_a_verifier_that_stays_red_keeps_an_imported_bead_open(project: tuple[Path, str]) -> None:
    root, _ = project
    path = put(root.parent / "one.json", bead("test -f other.txt", constraints={"max_iterations": 1}))
    ralph("import", path, cwd=root)
    ran = ralph("run", "--json", cwd=root)
    assert (ran.code, ran.data["closed"]) == (1, [])
    (back,) = ralph("export", "gt-one", "--json", cwd=root).data["beads"]
    assert back["status"] == "blocked"


def test_an_id_without_a_dash_is_imported_and_comes_back(project: tuple[Path, str]) -> None:
    root, kind = project
    path = put(root.parent / "hello.json", {**bead("true"), "id": "hello", "status": "completed"})
    made = ralph("import", path, "--json", cwd=root)
    name = "bd-hello" if kind == "bd" else "hello"
    assert made.data == {
        "bead_ids": [name],
        "store": kind,
        **({"renamed": {name: "hello"}} if kind == "bd" else {}),
    }
    assert shown(root, name)["status"] == "closed"
    (back,) = ralph("export", name, "--json", cwd=root).data["beads"]
    assert back["id"] == "hello"


STATUSES = [
    ("pending", "open", "pending"),
    ("in_progress", "open", "pending"),
    ("completed", "closed", "completed"),
    ("failed", "blocked", "blocked"),
    ("blocked", "blocked", "blocked"),
]


def test_every_status_becomes_what_the_store_has_for_it(project: tuple[Path, str]) -> None:
    root, _ = project
    paths = []
    for status, _, _ in STATUSES:
        raw = {**bead("true"), "id": f"gt-{status}", "status": status}
        paths.append(put(root.parent / f"{status}.json", raw))
    assert ralph("import", *paths, cwd=root).code == 0
    for status, stored, back in STATUSES:
        bead_id = f"gt-{status}"
        assert shown(root, bead_id)["status"] == stored
        (exported,) = ralph("export", bead_id, "--json", cwd=root).data["beads"]
        assert exported["status"] == back


def test_s3_f3_s3_f5_type_and_lane_are_labels_and_a_gate_is_marked(repo: Path) -> None:
    assert ralph("import", *(EXAMPLES / f"{name}.json" for name in EXAMPLE_NAMES), cwd=repo).code == 0
    labels = {name: shown(repo, name)["labels"] for name in EXAMPLE_NAMES}
    assert {"type:feature", "lane:feature"} <= set(labels["gt-feature-login-001"])
    assert {"type:gate", "gate"} <= set(labels["gt-gate-smoke-001"])
    assert "type:task" in labels["gt-refactor-auth-001"]
    assert shown(repo, "gt-gate-smoke-001")["metadata"]["gate"] is True


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_an_example_comes_back_as_it_was(repo: Path, name: str) -> None:
    ralph("import", EXAMPLES / f"{name}.json", cwd=repo)
    assert ralph("export", name, "--dir", "out", cwd=repo).code == 0
    raw = files.parse((repo / "out" / f"{name}.json").read_bytes(), name)
    assert {key: raw[key] for key in example(name)} == example(name)


def test_importing_is_all_or_nothing(repo: Path) -> None:
    good, wrong = put(repo.parent / "a.json", bead("true")), put(repo.parent / "b.json", {"intent": "x"})
    assert ralph("import", good, wrong, "--json", cwd=repo).error["message"].endswith("Missing verifiers")
    assert ralph("list", "--json", cwd=repo).data["beads"] == []
    assert ralph("import", good, cwd=repo).code == 0
    assert ralph("import", good, "--json", cwd=repo).error["code"] == "DEPENDENCY.DUPLICATE_ID"


def test_a_bead_without_verifiers_is_no_ralph_bead(repo: Path) -> None:
    from beads_ralph.store.embedded.embedded_store import EmbeddedStore

    EmbeddedStore(repo).create([make_bead("bd-a")])
    assert ralph("export", "bd-a", "--json", cwd=repo).error["code"] == "VALIDATION.CONSTRAINT"
