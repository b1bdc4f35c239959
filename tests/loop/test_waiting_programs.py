"""Programs that wait, stall or fail before their first answer, in whole runs: no attempt is spent on them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agents.running import executable
from tests.loop.plans import Project, sprint
from tests.loop.test_faults import agent, calls, ran_through, stand_in

BEAD = "bd-1-1-one"
INIT = json.dumps({"type": "init", "session_id": "11111111-2222-4333-8444-555555555555"})
FAILED = json.dumps({"type": "result", "status": "error", "error": {"message": "[API Error: x]"}})
SAID = json.dumps({"type": "message", "role": "assistant", "content": "Done."})
DONE = json.dumps({"type": "result", "status": "success", "stats": {}})
GEMINI = f"""#!/bin/sh
cat > /dev/null
echo '{INIT}'
case "$*" in
*--resume*) echo "Error resuming session: No previous sessions found for this project." >&2; exit 42 ;;
esac
if [ ! -e "$0.asked" ]; then
    touch "$0.asked"
    echo '{FAILED}'
    exit 244
fi
echo 1 > one.txt && git add one.txt && git commit --quiet --message One
echo '{SAID}'
echo '{DONE}'
"""


def project_of(repo: Path, program: str, **settings: Any) -> Project:
    developer = {"agent": "claude", "executable": program, "fallback": [stand_in(repo)]}
    reviewer = agent(repo, stand_in(repo))
    return Project.make(
        repo,
        sprint("1.1", "One"),
        plan_settings={"dev_agents": [developer], "qa_agents": [reviewer]},
        **settings,
    )


def test_a_session_without_an_answer_is_not_taken_for_a_forgotten_one(repo: Path, tmp_path: Path) -> None:
    project = project_of(repo, str(executable(tmp_path / "gemini", GEMINI)))
    ended = ran_through(project)
    assert (ended.closed, ended.attempts) == ((BEAD,), 1)
    troubles = [row["trouble"] for row in project.events("agent_ended") if row["role"] == "dev"]
    assert troubles == ["server", ""]


@pytest.mark.parametrize("how", ["waits", "stalls"])
def test_another_program_stands_in_for_one_that_waits_or_stalls(repo: Path, tmp_path: Path, how: str) -> None:
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    told = f"echo 'BEADS_RALPH_LIMIT {json.dumps({'reset_at': until})}' >&2" if how == "waits" else ":"
    program = executable(tmp_path / "waits.sh", f"#!/bin/sh\ncat > /dev/null\n{told}\nsleep 600\n")
    project = project_of(repo, str(program), stall_limit=600 if how == "waits" else 3)
    ended = ran_through(project)
    assert (ended.closed, ended.attempts) == ((BEAD,), 1)
    rows = [row for row in project.events("agent_ended") if row["program"] == str(program)]
    expected = ("limit", "trouble") if how == "waits" else ("stalled", "stalled")
    assert {(row["trouble"], row["cut_short"]) for row in rows} == {expected}
    assert ("dev", "other.sh") in calls(project)
    assert project.strays() == []
