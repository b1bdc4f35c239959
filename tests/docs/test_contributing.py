"""The worked examples of CONTRIBUTING.md work: each is put where the page says, as a stranger would.

The program is copied, the files and the changes of the page are put into it, and nothing else is changed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from tests.agents.running import executable
from tests.cli.running import PROJECT, RALPH, run
from tests.compile.plans import plan
from tests.git.repos import git
from tests.loop.plans import Project, sprint

PAGE = PROJECT / "CONTRIBUTING.md"
FILES = {
    "agent": "agents/adapters/example.py",
    "executor": "process/executors/nice.py",
    "forge": "forge/adapters/patches.py",
    "store": "store/shared.py",
}
PLUGINS = ("agent", "executor", "forge")
VERDICT = '```json\n{"status": "pass", "message": "read it", "nonce": "NONCE"}\n```\n'
SAID = "\n".join(json.dumps(event) for event in ({"type": "text", "text": VERDICT}, {"type": "done"}))
PROGRAM = f"""#!/bin/sh
cat >"$0-$BEADS_RALPH_ROLE.prompt"
nice >"$0.nice"
[ "$BEADS_RALPH_ROLE" = qa ] || {{ echo done >one.txt && git add one.txt && git commit --quiet -m one; }}
nonce=$(sed -n 's/.*nonce of this call.* is `\\([[:alnum:]]*\\)`.*/\\1/p' "$0-$BEADS_RALPH_ROLE.prompt")
sed "s/NONCE/$nonce/" <<'END'
{SAID}
END
"""


def blocks(info: str) -> list[str]:
    """What the page shows in its blocks of this kind."""
    text = PAGE.read_text(encoding="utf-8")
    return [token.content for token in MarkdownIt("commonmark").parse(text) if token.info == info]


def example(name: str) -> str:
    """The module that the page shows."""
    assert f"`{FILES[name]}`" in PAGE.read_text(encoding="utf-8")
    (code,) = blocks(f"python {name}")
    return code


def changes(name: str) -> Iterator[tuple[str, str, str]]:
    """The changes that the page shows: the file, and lines of it before and after."""
    for block in blocks(f"diff {name}"):
        for part in block.split("+++ ")[1:]:
            path, _, hunks = part.partition("\n")
            for hunk in hunks.split("@@\n"):
                lines = hunk.splitlines(keepends=True)
                old = "".join(line[1:] for line in lines if line[0] in " -")
                yield path, old, "".join(line[1:] for line in lines if line[0] in " +")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The source, as a stranger would clone it."""
    tree = tmp_path / "copy"
    passed_over = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "src" / "beads_ralph", tree / "src" / "beads_ralph", ignore=passed_over)
    return tree


def change(tree: Path, name: str) -> set[str]:
    """Make the changes of the page; the files that were changed."""
    found = list(changes(name))
    for path, old, new in found:
        text = (tree / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"the page is out of date: {path} has no such lines\n{old}"
        (tree / path).write_text(text.replace(old, new), encoding="utf-8")
    return {path for path, _, _ in found}


@pytest.fixture
def env(copy: Path) -> dict[str, str]:
    """The environment of a program that has the page's files."""
    for name in PLUGINS:
        (copy / "src" / "beads_ralph" / FILES[name]).write_text(example(name), encoding="utf-8")
    return {"PYTHONPATH": str(copy / "src")}


def test_a_plan_is_run_with_all_three(repo: Path, tmp_path: Path, env: dict[str, str]) -> None:
    agent = {"agent": "claude", "executable": str(executable(tmp_path / "example", PROGRAM))}
    agents: dict[str, Any] = {"dev_agents": [agent], "qa_agents": [agent]}
    project = Project.make(repo, sprint("1.1", "One"), plan_settings=agents, executor="nice", forge="patches")
    ran = run(RALPH, "run", "plan.md", "--json", cwd=repo, env=env)
    assert ran.data["closed"] == ["bd-1-1-one"]
    assert "One" in (tmp_path / "example-dev.prompt").read_text(encoding="utf-8")
    assert (tmp_path / "example-qa.prompt").is_file(), "its verdict was read, or the bead would not be closed"
    assert int((tmp_path / "example.nice").read_text(encoding="utf-8")) >= 10
    branch = project.bead("bd-1-1-one").metadata.branch
    patch = repo / ".ralph" / "patches" / f"{branch.replace('/', '-')}.patch"
    assert "+done" in patch.read_text(encoding="utf-8")
    assert git(repo, "show", f"{branch}:one.txt") == "done"


def test_their_names_are_known_wherever_names_are_listed(repo: Path, env: dict[str, str]) -> None:
    shown = run(RALPH, "run", "--help", cwd=repo, env={**env, "COLUMNS": "200"}).out
    assert "nice" in shown
    assert "patches" in shown
    keys = json.loads(run(RALPH, "schema", "Config", cwd=repo, env=env).out)["$defs"]["Keys"]["properties"]
    assert keys["executor"]["enum"] == ["local", "nice", "tmux"]
    assert keys["forge"]["enum"] == ["auto", "github", "local", "none", "patches"]
    assert "Example CLI" in run(RALPH, "agents", cwd=repo, env=env).out


@pytest.mark.parametrize(("key", "known"), [("executor", "nice"), ("forge", "patches")])
def test_a_name_that_no_file_has_is_refused_with_those_that_there_are(
    repo: Path, env: dict[str, str], key: str, known: str
) -> None:
    (repo / "beads-ralph.yaml").write_text(yaml.safe_dump({key: "smoke"}), encoding="utf-8")
    ran = run(RALPH, "list", "--json", cwd=repo, env=env)
    assert ran.error["code"] == "CONFIG.INVALID"
    assert known in ran.out


def worked_through(repo: Path, env: dict[str, str]) -> dict[str, Any]:
    """The event `worktree_prepared` of a run."""
    assert run(RALPH, "run", "plan.md", "--json", cwd=repo, env=env).data["ended"] == "done"
    return told(repo, env)


def told(repo: Path, env: dict[str, str]) -> dict[str, Any]:
    events = run(RALPH, "events", "--json", cwd=repo, env=env).data["events"]
    (event,) = [event for event in events if event["kind"] == "worktree_prepared"]
    return dict(event)


def test_a_field_of_an_event_is_a_change_in_two_files(repo: Path, copy: Path) -> None:
    env = {"PYTHONPATH": str(copy / "src")}
    Project.make(repo, sprint("1.1", "One"))
    assert "new_branch" not in worked_through(repo, env)
    assert len(change(copy, "event")) == 2
    assert told(repo, env)["new_branch"] is False, "an older version did not write it"
    longer = plan(sprint("1.1", "One"), sprint("1.2", "Two"), front_matter="")
    (repo / "plan.md").write_text(longer, encoding="utf-8")
    assert worked_through(repo, env)["new_branch"] is True


CONTRACT = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
LAWS = ("tests/contract/test_store.py", "-k", "shared", "-m", "core")


@pytest.fixture
def with_store(copy: Path) -> dict[str, str]:
    """The environment of a program that has the page's store, and of its tests."""
    shutil.copytree(PROJECT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", copy)
    (copy / "src" / "beads_ralph" / FILES["store"]).write_text(example("store"), encoding="utf-8")
    change(copy, "store")
    return {"PYTHONPATH": str(copy / "src")}


def test_a_store_keeps_the_laws_that_every_store_keeps(copy: Path, with_store: dict[str, str]) -> None:
    kept = run(CONTRACT, *LAWS, "--basetemp", copy.parent / "laws", cwd=copy, env=with_store)
    assert kept.code == 0, kept.out


def test_a_store_is_asked_for_by_its_name(repo: Path, with_store: dict[str, str]) -> None:
    Project.make(repo, sprint("1.1", "One"))
    git(repo, "clone", "--quiet", ".", "../other")
    made = run(RALPH, "mason", "plan.md", "--store", "shared", "--json", cwd=repo, env=with_store)
    assert made.data["store"] == "shared"
    other = repo.parent / "other"
    listed = run(RALPH, "list", "--store", "shared", "--json", cwd=other, env=with_store)
    assert [bead["id"] for bead in listed.data["beads"]] == ["bd-1-1-one"]
