"""What contributors lean on calls what is there: hooks before a commit, hosted CI, the targets of make."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1]


def read(name: str) -> Any:
    return yaml.safe_load((PROJECT / name).read_text(encoding="utf-8"))


def test_hooks_are_local_and_call_locked_tools() -> None:
    found = read(".pre-commit-config.yaml")["repos"]
    assert {repository["repo"] for repository in found} == {"local"}
    locked = (PROJECT / "requirements-dev.lock").read_text(encoding="utf-8")
    packages = {"lint-imports": "import-linter"}
    for hook in (hook for repository in found for hook in repository["hooks"]):
        folder, _, tool = hook["entry"].split()[0].rpartition("/")
        assert folder == ".venv/bin"
        assert f"\n{packages.get(tool, tool)}==" in locked


def test_hosted_ci_runs_what_anybody_can_run_on_the_oldest_and_the_newest_python() -> None:
    job = read(".github/workflows/ci.yml")["jobs"]["test"]
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    versions = re.findall(r":: (3\.\d+)", "\n".join(settings["project"]["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]


def test_every_target_of_make_that_a_page_names_exists() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    named = {
        (page.name, target)
        for page in pages
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {(page, target) for page, target in named if target not in targets} == set()
