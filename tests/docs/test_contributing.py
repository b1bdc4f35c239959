"""The worked examples of CONTRIBUTING.md work: each is taken from the page, registered, and tried."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from markdown_it import MarkdownIt

from beads_ralph import forge
from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.agents.registry import AGENTS, select
from beads_ralph.forge.protocol import Forge, Proposal
from beads_ralph.process import executors
from beads_ralph.process.protocol import Executor
from tests.agents.running import call, executable, git, spec, task
from tests.executors.running import printed, shell

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that the page shows."""
    fences = MarkdownIt("commonmark").parse(PAGE.read_text(encoding="utf-8"))
    (code,) = [token.content for token in fences if token.info == f"python {name}"]
    module = ModuleType(f"example_{name}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, f"{PAGE.name}: {name}", "exec"), module.__dict__)  # noqa: S102 - our own page
    return module


def test_the_agent_cli_is_selected_by_its_name_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = example("agent", monkeypatch).Example()
    assert isinstance(agent, AgentCLI)
    monkeypatch.setitem(AGENTS, agent.name, agent)
    verdict = '```json\n{"status": "pass", "message": "read it"}\n```\n'
    events = [{"type": "text", "text": verdict}, {"type": "done"}]
    said = "\n".join(json.dumps(event) for event in events)
    program = executable(tmp_path / "example", f"#!/bin/sh\ncat >prompt.txt\ncat <<'END'\n{said}\nEND\n")
    wanted = task(tmp_path, spec(executable=str(program)), prompt="Review it.")
    _, reply = call(select(str(program)), wanted, tmp_path)
    assert (reply.trouble, reply.result) == ("", {"status": "pass", "message": "read it"})
    assert (tmp_path / "prompt.txt").read_text(encoding="utf-8").endswith("Review it.")


def test_the_executor_is_chosen_by_its_name_and_runs_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = example("executor", monkeypatch).NiceExecutor
    monkeypatch.setitem(executors.EXECUTORS, kind.kind, kind)
    executor = executors.choose("nice")
    assert isinstance(executor, Executor)
    wanted = shell(tmp_path, "nice")
    assert asyncio.run(executor.run(wanted)).ok
    assert int(printed(wanted)) == min(os.nice(0) + 10, 19)


def test_the_forge_is_chosen_by_its_name_and_says_what_it_holds(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = example("forge", monkeypatch).PatchForge
    monkeypatch.setitem(forge.FORGES, kind.kind, kind)
    chosen = forge.choose("patches", repo)
    assert isinstance(chosen, Forge)
    git("switch", "--quiet", "--create", "one", cwd=repo)
    git("commit", "--quiet", "--allow-empty", "--message", "Work", cwd=repo)
    commit = git("rev-parse", "HEAD", cwd=repo)
    pull = chosen.propose(Proposal("bd-1-1-one", "One", "What it is", "one", "main", commit))
    assert (pull.commit, chosen.find("one")) == (commit, None)
    assert (repo / ".ralph" / "patches" / "one.patch").is_file()
