"""config show and config explain, and the schema of the settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph.cli.config import duration
from beads_ralph.config.model import KEYS
from tests.cli.running import ralph, write

TEXT = "timeouts:\n  dev_agent: 1h30m\nrig: shop\nplan:\n  dev_agents: [dev (opus)]\n"


def test_show_names_every_setting_with_its_source(repo: Path) -> None:
    file = write(repo / "beads-ralph.yaml", TEXT)
    data = ralph("config", "show", "--json", cwd=repo).data
    rows = {row["key"]: row for row in data["settings"]}
    assert list(rows) == list(KEYS)
    assert (data["file"], data["named_by"]) == (str(file), None)
    told = {"key": "dev_agent_timeout", "value": 5400.0, "source": "file", "file": str(file), "line": 2}
    assert rows["dev_agent_timeout"] == told
    assert rows["plan.dev_agents"]["value"][0]["model"] == "opus"
    assert {row["source"] for key, row in rows.items() if not row["file"]} == {"built-in"}


def test_show_tells_a_person_the_line_and_the_defaults(repo: Path) -> None:
    write(repo / "beads-ralph.yaml", TEXT)
    shown = ralph("config", "show", cwd=repo).out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in shown}
    assert rows["dev_agent_timeout"] == ["beads-ralph.yaml:2", "1h30m"]
    assert rows["plan.rig"] == ["beads-ralph.yaml:3", "shop"]
    assert rows["qa_agent_timeout"] == ["built-in", "10m"]
    assert rows["plan.team"] == ["built-in", "not", "set"]


def test_show_says_which_file_and_who_named_it(repo: Path) -> None:
    assert "no beads-ralph.yaml here" in ralph("config", "show", cwd=repo).out
    other = write(repo / "other.yaml", "store: embedded\n")
    by_variable = ralph("config", "show", "--json", cwd=repo, env={"BEADS_RALPH_CONFIG": str(other)}).data
    assert (by_variable["file"], by_variable["named_by"]) == (str(other), "BEADS_RALPH_CONFIG")
    by_option = ralph("config", "show", "--json", "--config", "other.yaml", cwd=repo).data
    assert (by_option["file"], by_option["named_by"]) == ("other.yaml", "--config")


def test_show_names_the_faults_of_the_file_all_at_once(repo: Path) -> None:
    write(repo / "beads-ralph.yaml", "stor: bd\nbd_timeout: soon\n")
    ran = ralph("config", "show", cwd=repo)
    assert ran.code == 1
    assert "beads-ralph.yaml:1: unknown key 'stor'; did you mean 'store'?" in ran.err
    assert "beads-ralph.yaml:2: key bd_timeout" in ran.err


@pytest.mark.parametrize(
    ("written", "key", "kind", "default"),
    [
        ("store", "store", "one of auto, embedded, bd", "auto"),
        ("timeouts.dev_agent", "dev_agent_timeout", "duration", 1800.0),
        ("rig", "plan.rig", "text, or nothing", None),
        ("plan.priority", "plan.priority", "whole number from 0 to 4, or nothing", None),
        (
            "plan.max_retry_attempts",
            "plan.max_retry_attempts",
            "whole number of at least 1, or nothing",
            None,
        ),
        ("retry.max_attempts", "max_retry_attempts", "whole number of at least 1", 3),
        ("verify", "plan.verify", "list of commands, or nothing", None),
        ("claude.model", "agent_defaults.default_model", "text, or nothing", None),
        ("budget_usd", "budget_usd", "number above 0, or nothing", None),
        ("role_models", "agent_defaults.role_models", "mapping", {}),
        ("cleanup_on_complete", "cleanup_on_complete", "true or false", False),
    ],
)
def test_explain_takes_every_spelling(
    tmp_path: Path, written: str, key: str, kind: str, default: object
) -> None:
    data = ralph("config", "explain", written, "--json", cwd=tmp_path).data
    assert (data["key"], data["type"], data["default"]) == (key, kind, default)
    assert data["description"].endswith(".")
    assert written == key or written in data["also"]


def test_explain_for_a_person(tmp_path: Path) -> None:
    assert ralph("config", "explain", "network_timeout", cwd=tmp_path).out.splitlines() == [
        "network_timeout",
        "How long to wait for an answer from the network.",
        "",
        "type     duration",
        "default  30s",
        "example  network_timeout: 1m",
        "also     timeouts.network, network.timeout",
    ]


@pytest.mark.parametrize("word", ["prioriy", "nosuch.rig", ""])
def test_explain_refuses_what_is_no_key(tmp_path: Path, word: str) -> None:
    ran = ralph("config", "explain", word, "--json", cwd=tmp_path)
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")
    assert f"there is no setting '{word}'" in ran.error["message"]


def test_explain_suggests_the_key_that_was_meant(tmp_path: Path) -> None:
    ran = ralph("config", "explain", "dev_agent_timout", cwd=tmp_path)
    assert "did you mean 'dev_agent_timeout'?" in ran.err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (30.0, "30s"),
        (0.5, "500ms"),
        (5400.0, "1h30m"),
        (0.3, "300ms"),
        (61.25, "1m1s250ms"),
        (1e-5, "1e-05s"),
    ],
)
def test_durations_as_people_write_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_schema_of_the_settings_is_printed(tmp_path: Path) -> None:
    printed = json.loads(ralph("schema", "Config", cwd=tmp_path).out)
    assert printed["title"] == "beads-ralph.yaml"
    assert ralph("schema", "Config", "--json", cwd=tmp_path).data == {"name": "Config", "schema": printed}
    assert ralph("schema", "Konfig", "--json", cwd=tmp_path).error["suggested_action"].endswith(", Config")
