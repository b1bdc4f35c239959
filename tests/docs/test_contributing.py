"""The worked examples of CONTRIBUTING.md work: each is put where the page says, as a stranger would.

The program is copied, the files of the page are put into it, and nothing else is changed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from tests.agents.running import executable
from tests.cli.running import PROJECT, RALPH, run
from tests.git.repos import git
from tests.loop.plans import Project, sprint

PAGE = PROJECT / "CONTRIBUTING.md"
FILES = {
    "agent": "agents/adapters/example.py",
    "executor": "process/executors/nice.py",
    "forge": "forge/adapters/patches.py",
}
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


def example(name: str) -> str:
    """The module that the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{FILES[name]}`" in text
    (code,) = [
        token.content for token in MarkdownIt("commonmark").parse(text) if token.info == f"python {name}"
    ]
    return code


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a program that has the page's files."""
    program = tmp_path / "program" / "beads_ralph"
    shutil.copytree(PROJECT / "src" / "beads_ralph", program, ignore=shutil.ignore_patterns("__pycache__"))
    for name, path in FILES.items():
        (program / path).write_text(example(name), encoding="utf-8")
    return {"PYTHONPATH": str(program.parent)}


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
