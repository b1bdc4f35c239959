"""A budget binds: one that cannot be kept is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.protocol import Changes
from tests.agents.running import executable
from tests.loop.plans import Project, sprint, work

ONE, TWO = sprint("1.1", "One"), sprint("1.2", "Two")
BEAD = "bd-1-1-one"
# As the real one tells it: 2,700 tokens of input, of which 600 came from a cache.
CODEX = """\
#!/bin/sh
[ "$1" = --version ] && echo codex-cli 0.163.0 && exit
cat > /dev/null
echo work >> "$BEADS_RALPH_BEAD.txt" && git add --all && git commit --quiet --message work
cat <<END
{"type":"thread.started","thread_id":"01a1b2c3-0000-7000-8000-000000000000"}
{"type":"item.completed","item":{"type":"agent_message","text":"done"}}
{"type":"turn.completed","usage":{"input_tokens":2700,"cached_input_tokens":600,"output_tokens":41}}
END
"""
SILENT = """\
#!/bin/sh
cat > /dev/null
echo work >> "$BEADS_RALPH_BEAD.txt" && git add --all && git commit --quiet --message work
"""
COST = (2100 * 2 + 41 * 10 + 600 * 0.2) / 1e6  # of gpt-6-sol


def played(repo: Path, program: Path, *sprints: str, **settings: Any) -> Project:
    model = settings.pop("model", None)
    agent = {"agent": "claude", "executable": str(program), **({"model": model} if model else {})}
    return Project.make(
        repo,
        *(sprints or (ONE, TWO)),
        script={"*": {"dev": work()}},
        plan_settings={"dev_agents": [agent]},
        **settings,
    )


def refused(project: Project, *said: str, action: str) -> None:
    """By doctor, a rehearsal and a run alike, before anything was started."""
    project.ralph("mason", "plan.md", "--check-existing", "--json")
    seen = project.ralph("doctor", "--json")
    (row,) = [row for row in seen.data["checks"] if row["name"] == "budget"]
    assert (seen.code, row["status"], row["required"]) == (1, "missing", True)
    told = [project.run("--dry-run").error, project.run().error]
    for text in said:
        assert text in row["detail"]
        assert all(text in error["message"] for error in told), told
    assert all(action in one for one in (row["action"], *(error["suggested_action"] for error in told)))
    assert project.events() == []


@pytest.mark.parametrize(
    ("model", "said", "action"),
    [
        (None, "nothing says which model it takes", ":MODEL, or use budget_tokens"),
        ("my-own", "that of my-own is not known", "Name the price of my-own under prices"),
    ],
)
def test_a_budget_that_nothing_can_keep_is_refused(
    repo: Path, tmp_path: Path, model: str | None, said: str, action: str
) -> None:
    codex = executable(tmp_path / "codex", CODEX)
    project = played(repo, codex, budget_usd=0.001, model=model)
    refused(project, "budget_usd of 0.001 cannot be kept: Codex reports no price", said, action=action)


def test_a_price_makes_it_bind_and_the_run_tells_what_each_program_cost(repo: Path, tmp_path: Path) -> None:
    codex = executable(tmp_path / "codex", CODEX)
    project = played(repo, codex, budget_usd=0.001, model="gpt-6-sol")
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "stopped", [BEAD]), ran.out
    assert "the cost budget (USD) of 0.001 is used up" in ran.data["reason"]
    (one, other) = ran.data["programs"]
    assert (one["program"], one["model"], one["calls"]) == (str(codex), "gpt-6-sol", 1)
    assert (one["usage"]["cost_usd"], one["cost_computed"]) == (pytest.approx(COST), True)
    assert (one["usage"]["input_tokens"], one["usage"]["cache_tokens"]) == (2100, 600)
    assert (other["program"], other["cost_computed"]) == ("scripted", False)
    (ended,) = [row for row in project.events("agent_ended") if row["role"] == "dev"]
    assert (ended["cost_computed"], ended["usage"]["cost_usd"]) == (True, pytest.approx(COST))
    (kept,) = project.metadata(BEAD)["dev_agent_executions"]
    assert (kept["cost_computed"], kept["cost_usd"]) == (True, pytest.approx(COST))
    words = project.ralph("run", "plan.md").out
    assert f"{codex} (gpt-6-sol): 1 call, about $0.00, 2,141 tokens" in words


def test_the_settings_name_a_price_that_nobody_else_knows(repo: Path, tmp_path: Path) -> None:
    codex = executable(tmp_path / "codex", CODEX)
    own = {"my-*": {"input": 1000, "output": 0}}
    ran = played(repo, codex, ONE, budget_usd=100, model="my-own", prices=own).run()
    assert ran.data["programs"][0]["usage"]["cost_usd"] == pytest.approx(2.7)


def test_a_program_that_stands_in_must_tell_its_price_too(repo: Path, tmp_path: Path) -> None:
    codex = executable(tmp_path / "codex", CODEX)
    project = played(
        repo, codex, bead_budget_usd=1, model="gpt-6-sol", agent_defaults={"fallback": [f"{codex}:my-own"]}
    )
    refused(project, "bead_budget_usd of 1 cannot be kept", "my-own", action="bead_budget_tokens")


def test_a_budget_of_one_bead_blocks_that_bead_alone(repo: Path, tmp_path: Path) -> None:
    codex = executable(tmp_path / "codex", CODEX)
    project = played(repo, codex, sprint("1.1a", "One"), sprint("1.1b", "Two"))
    project.ralph("mason", "plan.md", "--json")
    project.store.update("bd-1-1a-one", Changes(metadata={"budget_usd": 1.0}))
    ran = project.run()
    assert ran.data["closed"] == ["bd-1-1b-two"]
    (row,) = ran.data["blocked"]
    assert (row["id"], "budget_usd of 1 cannot be kept" in row["reason"]) == ("bd-1-1a-one", True)


@pytest.mark.parametrize("key", ["budget_tokens", "budget_usd"])
def test_a_program_without_an_adapter_is_believed_until_it_is_silent(
    repo: Path, tmp_path: Path, key: str
) -> None:
    silent = executable(tmp_path / "my-agent", SILENT)
    project = played(repo, silent, **{key: 1000})
    refused(project, f"{key} of 1000 cannot be kept: {silent} is not known to report", action="tells_usage")
    said = (repo / "beads-ralph.yaml").read_text("utf-8")
    trusted = f"{said}agent_defaults:\n  tells_usage: [{silent}]\n"
    (repo / "beads-ralph.yaml").write_text(trusted, encoding="utf-8")
    ran = project.run()
    assert (ran.data["ended"], ran.data["closed"]) == ("stopped", [BEAD]), ran.out
    assert f"cannot be kept: {silent} reported no" in ran.data["reason"]


# --- while a call runs --------------------------------------------------------------------------------

SPENDS = """\
#!/bin/sh
cat > /dev/null
[ "$BEADS_RALPH_ROLE" = qa ] && echo '{"status": "pass", "message": "fine"}' && exit
echo 'BEADS_RALPH_USAGE {"input_tokens": 900, "output_tokens": 200, "cost_usd": 0.5}' >&2
exec sleep 600
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("budget", "ended", "said"),
    [
        ({"budget_tokens": 1000}, "stopped", "the token budget of 1000 is used up"),
        ({"bead_budget_usd": 0.4}, "blocked", "the bead's cost budget (USD) of 0.4 is used up"),
    ],
)
def test_a_call_is_ended_when_the_budget_is_used_up_and_spends_no_attempt(
    repo: Path, tmp_path: Path, budget: dict[str, float], ended: str, said: str
) -> None:
    """It tells its usage while it runs, and would go on for ten minutes."""
    program = executable(tmp_path / "spender", SPENDS)
    known = {"agent_defaults": {"tells_usage": [str(program)]}}
    project = played(repo, program, ONE, **budget, **known)
    ran = project.run()
    assert (ran.data["ended"], ran.data["closed"]) == (ended, []), ran.out
    (call,) = [row for row in project.events("agent_ended") if row["role"] == "dev"]
    assert (call["cut_short"], call["usage"]["input_tokens"]) == ("budget", 900)
    assert said in f"{ran.data.get('reason')} {ran.data}"
    assert project.events("verdict_given") == []
    assert not project.metadata(BEAD).get("attempts")


def test_calls_side_by_side_spend_from_one_budget(repo: Path, tmp_path: Path) -> None:
    """Each of them alone would leave something of it."""
    program = executable(tmp_path / "spender", SPENDS)
    known = {"agent_defaults": {"tells_usage": [str(program)]}}
    beside = (sprint("1.1a", "One"), sprint("1.1b", "Two"))
    project = played(repo, program, *beside, budget_tokens=2000, **known)
    ran = project.run("--max-parallel", "2")
    assert (ran.data["ended"], ran.data["closed"]) == ("stopped", []), ran.out
    calls = [row for row in project.events("agent_ended") if row["role"] == "dev"]
    assert [call["cut_short"] for call in calls] == ["budget", "budget"]
    assert "the token budget of 2000 is used up" in ran.data["reason"]
    assert project.events("verdict_given") == []
