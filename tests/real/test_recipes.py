"""The recipes of docs/reference/agents.md for another server and key, followed to the letter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import PROJECT, environment
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import DEFAULT, NIGHTLY, Cli
from tests.real.outside import Proxy

READY = '```json\n{"status": "pass", "message": "ready"}\n```'
ADDRESS, KEY = "https://models.example.com", "YOUR-KEY"
ASKS = re.compile(r"^beads-ralph agents --smoke (\w+)$", re.MULTILINE)
KEYS = ("authorization", "x-api-key", "x-goog-api-key")
# What is the machine's and not the recipe's: nothing may leave it, and nothing is to be asked twice.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    **{f"OPENCODE_DISABLE_{what}": "1" for what in ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS")},
}


def recipes() -> list[tuple[str, str]]:
    """Each with the program that it asks."""
    text = (PROJECT / "docs" / "reference" / "agents.md").read_text("utf-8")
    section = text.split("## Another server, another key\n")[1].split("\n## ")[0]
    return [(ASKS.findall(block)[-1], block) for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


def marked(name: str, recipe: str) -> object:
    mark = pytest.mark.nightly if name in NIGHTLY else pytest.mark.real_agents
    return pytest.param(name, recipe, marks=mark, id=name)


def test_every_program_has_a_recipe() -> None:
    assert {name for name, _ in recipes()} == {*DEFAULT, *NIGHTLY}
    assert all(ADDRESS in recipe and KEY in recipe for _, recipe in recipes())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "recipe"), [marked(*one) for one in recipes()])
def test_a_recipe_reaches_the_server_with_the_key(
    name: str,
    recipe: str,
    cli: Callable[[str, str], Cli],
    model_server: ModelServer,
    repo: Path,
    tmp_path: Path,
) -> None:
    program = cli(name, model_server.root).program
    run = f"recipe-{name}-{tmp_path.name}"
    base = model_server.play(run, [Rule("whether you can be reached", say=READY)])
    home, bin_folder = tmp_path / "fresh home", tmp_path / "bin"
    home.mkdir()
    bin_folder.mkdir()
    (bin_folder / "beads-ralph").write_text(f'#!/bin/sh\nexec {sys.executable} -m beads_ralph "$@"\n')
    (bin_folder / "beads-ralph").chmod(0o755)
    path = os.pathsep.join((str(bin_folder), str(program.parent), os.environ["PATH"]))
    own = {"PATH": path, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    with Proxy() as outside:
        said = subprocess.run(
            ["sh", "-eu", "-c", recipe.replace(ADDRESS, base).replace(KEY, "key-of-the-recipe")],
            cwd=repo,
            env=environment({**own, **QUIET, **outside.env}),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert said.returncode == 0, said.stdout + said.stderr
    asked = [request for request in model_server.requests(run) if request.question]
    assert asked
    assert all(any("key-of-the-recipe" in one.headers.get(key, "") for key in KEYS) for one in asked)
