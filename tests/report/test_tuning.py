"""Settings from records: proposed with evidence, written without touching anything else, followed up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.config.edit import with_setting
from beads_ralph.config.model import Config
from beads_ralph.config.read import parse
from beads_ralph.errors import RalphError
from beads_ralph.journal.records import Attempt
from beads_ralph.report import tallied
from beads_ralph.report.advice import advice
from beads_ralph.report.tuning import Proposal, proposals
from tests.cli.running import ralph
from tests.journal import samples
from tests.report.made import attempt, failed, several

FILE = """\
# Ours.
max_retry_attempts: 3  # the boss says so
agent_defaults:
  default_model: haiku # cheap
"""


def proposed(*rows: Attempt) -> dict[str, Proposal]:
    tally = tallied(rows)
    return {one.key: one for one in proposals(tally, advice(tally), Config())}


def test_a_last_attempt_that_never_passes_is_left_out() -> None:
    rows = several(failed, 40, attempt=3)
    assert proposed(*rows)["max_retry_attempts"].proposed == 2
    rows = [*several(attempt, 20, "good", attempt=3), *several(failed, 4, "bad", attempt=3)]
    assert proposed(*rows)["max_retry_attempts"].proposed == 4
    assert "max_retry_attempts" not in proposed(*several(failed, 3, attempt=3))


def test_time_outs_that_are_far_above_what_work_takes_are_lowered() -> None:
    late = [failed("late", status="timeout", seconds=1800.0, failure_reason="agent-timeout")]
    assert proposed(*several(attempt, 30, seconds=100.0), *late)["dev_agent_timeout"].proposed == 300.0
    assert "dev_agent_timeout" not in proposed(*several(attempt, 30, seconds=100.0))
    assert "dev_agent_timeout" not in proposed(*several(attempt, 30, seconds=900.0), *late)


def test_without_reason_nothing_is_proposed() -> None:
    assert proposed(*several(attempt, 30)) == {}
    assert proposed() == {}


def test_a_setting_is_changed_where_it_stands_and_everything_else_stays() -> None:
    once = with_setting(FILE, "max_retry_attempts", 2)
    twice = with_setting(once, "agent_defaults.default_model", "opus")
    assert twice == FILE.replace("attempts: 3", "attempts: 2").replace("haiku #", "opus #")
    added = with_setting(twice, "max_parallel_sessions", 6)
    assert added == twice + "max_parallel_sessions: 6\n"
    assert (
        parse(with_setting("", "agent_defaults.default_model", "opus"))[0].agent_defaults.default_model
        == "opus"
    )


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("retry: {max_attempts: 3}\n", "retry: {max_attempts: 2}\n"),
        ("retry:\n  max_attempts: 3 # enough\n", "retry:\n  max_attempts: 2 # enough\n"),
        ("retry:\n  backoff: linear\n", "retry:\n  backoff: linear\nmax_retry_attempts: 2\n"),
    ],
)
def test_a_setting_is_found_in_every_layout(text: str, changed: str) -> None:
    assert with_setting(text, "max_retry_attempts", 2) == changed
    said = with_setting("model: haiku # cheap\n", "agent_defaults.default_model", "opus")
    assert said == "model: opus # cheap\n"
    assert with_setting("plan: {rig: a}\nrig: b\n", "plan.rig", "c") == "plan: {rig: c}\nrig: b\n"


def test_what_cannot_be_changed_where_it_stands_is_refused() -> None:
    text = "max_parallel_sessions: &few 3\nmax_retry_attempts: *few\n"
    with pytest.raises(RalphError, match="where it stands"):
        with_setting(text, "max_retry_attempts", 2)


def put(repo: Path, bead: str, model: str, **said: Any) -> None:
    folder = repo / "state" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    extra = {"kind": "work", "usage": {"cost_usd": 1.0}}
    raw = samples.run(bead=bead, model=model, template_name=None, extra=extra, **said)
    (folder / f"{bead}.json").write_text(json.dumps(raw), encoding="utf-8")


def test_tune_shows_a_diff_writes_it_when_asked_and_tells_what_became_of_it(repo: Path) -> None:
    (repo / "beads-ralph.yaml").write_text(FILE, encoding="utf-8")
    for number in range(12):
        put(repo, f"good-{number}", "opus")
        put(repo, f"bad-{number}", "haiku", status="failed", failure_reason="qa-failed", exit_code=1)
    found = ralph("tune", "--json", cwd=repo).data
    (one,) = found["proposals"]
    assert (one["key"], one["now"], one["proposed"]) == ("agent_defaults.default_model", "haiku", "opus")
    assert "-  default_model: haiku # cheap\n+  default_model: opus # cheap\n" in found["diff"]
    assert (repo / "beads-ralph.yaml").read_text(encoding="utf-8") == FILE
    assert ralph("tune", "--apply", "--json", cwd=repo).data["applied"] is True
    assert (repo / "beads-ralph.yaml").read_text(encoding="utf-8") == FILE.replace("haiku", "opus")
    put(repo, "later", "opus", started_at="2099-01-01T10:00:00Z", finished_at="2099-01-01T10:05:00Z")
    again = ralph("tune", "--json", cwd=repo).data
    assert again["proposals"] == []
    assert ralph("analyze", "--json", cwd=repo).data["outcomes"] == again["outcomes"] != []
    assert "advice that was applied" in ralph("analyze", cwd=repo).out
    (row,) = again["outcomes"]
    assert (row["key"], row["to"]) == ("agent_defaults.default_model", "opus")
    assert (row["before"]["first_passed"], row["before"]["first_attempts"]) == (12, 24)
    assert (row["after"]["first_passed"], row["after"]["first_attempts"]) == (1, 1)
