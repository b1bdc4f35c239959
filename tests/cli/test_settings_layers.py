"""Settings come from several places, and `config show` tells which; they can be set, and looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from beads_ralph.config import edit
from beads_ralph.config.read import parse
from tests.cli.running import ralph, write

VARIABLE = "BEADS_RALPH_SET_AGENT_DEFAULTS__DEFAULT_MODEL"
OURS = """\
# The shop's settings.
store: embedded   # no server

plan:
  # Whose it is.
  rig: shop
  verify:         # all of them
    - make test
    - make lint
  # the end of the plan

max_parallel_sessions: 2
"""


def rows(repo: Path, **env: str) -> dict[str, dict[str, Any]]:
    ran = ralph("config", "show", "--json", cwd=repo, env=env)
    return {row["key"]: row for row in ran.data["settings"]}


def test_a_variable_goes_before_the_repository_and_that_before_the_user(repo: Path, tmp_path: Path) -> None:
    own = write(
        tmp_path / "xdg/beads-ralph/config.yaml",
        "max_parallel_sessions: 7\nagent_defaults: {default_model: haiku}\n",
    )
    file = write(repo / "beads-ralph.yaml", OURS)
    found = rows(repo, XDG_CONFIG_HOME=str(tmp_path / "xdg"), **{VARIABLE: "opus"})
    told = {key: (row["value"], row["source"], row["file"]) for key, row in found.items()}
    assert told["max_parallel_sessions"] == (2, "file", str(file))
    assert told["agent_defaults.default_model"] == ("opus", "variable", VARIABLE)
    file.unlink()
    found = rows(repo, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    told = {key: (row["value"], row["source"], row["file"]) for key, row in found.items()}
    assert told["max_parallel_sessions"] == (7, "user", str(own))
    assert told["agent_defaults.default_model"] == ("haiku", "user", str(own))
    assert told["store"] == ("auto", "built-in", None)


def test_commands_that_only_look_heed_every_place(repo: Path, tmp_path: Path) -> None:
    write(repo / "beads-ralph.yaml", "store: auto\n")
    ran = ralph("list", "--json", cwd=repo, env={"BEADS_RALPH_SET_STORE": "embedded"})
    assert ran.data["store"] == "embedded"
    bad = ralph("list", "--json", cwd=repo, env={"BEADS_RALPH_SET_STORE": "papyrus"})
    assert (bad.code, bad.error["code"]) == (1, "CONFIG.INVALID")
    assert "BEADS_RALPH_SET_STORE" in str(bad.error)
    write(tmp_path / "xdg/beads-ralph/config.yaml", "stor: bd\n")
    slip = ralph("list", "--json", cwd=repo, env={"XDG_CONFIG_HOME": str(tmp_path / "xdg")})
    assert "did you mean 'store'?" in slip.error["message"]


def test_setting_a_key_keeps_comments_and_everything_else(repo: Path) -> None:
    file = write(repo / "beads-ralph.yaml", OURS)
    assert ralph("config", "set", "store", "auto", cwd=repo).code == 0
    assert file.read_text("utf-8") == OURS.replace("store: embedded ", "store: auto ")
    assert ralph("config", "set", "plan.verify", "[make all]", cwd=repo).code == 0
    text = file.read_text("utf-8")
    assert "  verify: [make all]\n  # the end of the plan\n" in text
    refused = ralph("config", "set", "store", "papyrus", "--json", cwd=repo)
    assert (refused.code, file.read_text("utf-8")) == (1, text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("store", "bd"), ("min_free_gb", 1.5), ("plan.rig", "x: y"), ("plan.labels", ["a", "b"])),
        *(("agent_defaults.default_model", "opus"), ("logging.level", "debug"), ("budget_usd", None)),
    ],
)
@pytest.mark.parametrize(
    "text", ["", OURS, "plan: {rig: shop}\n", "plan:\nlogging:\n  format: json", "# no\n"]
)
def test_a_set_key_is_set_and_no_other_is(text: str, key: str, value: object) -> None:
    after = edit.with_setting(text, key, value)
    before, found = parse(text)[0].model_dump(), parse(after)[0].model_dump()
    part, _, name = key.rpartition(".")
    (before[part] if part else before)[name] = (found[part] if part else found)[name]
    assert found == before
    said = yaml.safe_load(after)
    assert (said[part] if part else said)[name] == value
    remarks = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    assert [remark for remark in remarks if remark not in after] == []


def test_explain_looks_for_a_word(repo: Path) -> None:
    found = ralph("config", "explain", "timeout", "--json", cwd=repo).data["found"]
    assert {"dev_agent_timeout", "network_timeout"} <= {row["key"] for row in found}
    assert ralph("config", "explain", "pull request", cwd=repo).out.count("\n") >= 2
    assert ralph("config", "explain", "plan.priorit", "--json", cwd=repo).data["key"] == "plan.priority"
    for word in ("plan", "timeouts"):
        assert len(ralph("config", "explain", word, "--json", cwd=repo).data["found"]) > 2
    assert ralph("config", "explain", "xyzzy", cwd=repo).code == 2


def test_the_settings_that_init_writes_name_their_schema(repo: Path, with_claude: None) -> None:
    assert ralph("init", "--no-checks", cwd=repo).code == 0
    first = (repo / "beads-ralph.yaml").read_text("utf-8").splitlines()[0]
    assert (repo / first.partition("$schema=")[2]).is_file()
    assert "docs/" not in (repo / "beads-ralph.yaml").read_text("utf-8")
