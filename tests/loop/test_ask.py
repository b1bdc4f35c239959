"""sessions and ask: an agent's session is taken up again where it ended, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.running import executable
from tests.loop.plans import Project, git, sprint

BEAD = "bd-1-1-one"
AGENT = """\
#!/bin/sh
prompt=$(cat)
echo "BEADS_RALPH_SESSION $BEADS_RALPH_SESSION" >&2
case $prompt in
*"A person asks you"*)
    echo "I am $BEADS_RALPH_ROLE in $BEADS_RALPH_SESSION, at $PWD, on $(git rev-parse HEAD)."
    case $prompt in *MEDDLE*) echo changed > "$BEADS_RALPH_BEAD.txt";; esac
    case $prompt in *FAIL*) exit 3;; esac
    ;;
*)
    case $BEADS_RALPH_ROLE in
    qa) printf '```json\\n{"status": "pass", "message": "fine"}\\n```\\n' ;;
    *) echo done > "$BEADS_RALPH_BEAD.txt" && git add --all && git commit --quiet --message work ;;
    esac ;;
esac
"""


@pytest.fixture
def project(repo: Path, tmp_path: Path) -> Project:
    program = executable(tmp_path / "agent", AGENT)
    agent = {"agent": "claude", "executable": str(program)}
    made = Project.make(
        repo, sprint("1.1", "One"), plan_settings={"dev_agents": [agent], "qa_agents": [agent]}
    )
    assert made.run().data["closed"] == [BEAD]
    return made


def session(project: Project, side: str) -> str:
    return str(project.metadata(BEAD)[f"{side}_agent_executions"][-1]["session_id"])


def test_s0_ba5_every_call_is_listed_with_its_session(project: Project) -> None:
    rows = project.ralph("sessions", BEAD, "--json").data["sessions"]
    told = [(row["role"], row["agent"], row["status"], row["session_id"]) for row in rows]
    assert told == [
        ("dev", "claude", "completed", session(project, "dev")),
        ("qa", "claude", "pass", session(project, "qa")),
    ]
    text = project.ralph("sessions", BEAD).out
    assert session(project, "dev") in text
    assert f"beads-ralph ask {BEAD}" in text


def test_s0_ba5_the_developer_answers_in_its_own_session_and_worktree(project: Project) -> None:
    ran = project.ralph("ask", BEAD, "Why so?")
    tree = Path(project.bead(BEAD).metadata.worktree_path)
    head = git(tree, "rev-parse", "HEAD")
    assert ran.out == f"I am dev in {session(project, 'dev')}, at {tree}, on {head}.\n"
    assert (ran.code, ran.err) == (0, "")


def test_a_reviewer_is_asked_at_the_commit_that_it_judged_and_its_checkout_is_gone_again(
    project: Project,
) -> None:
    row = project.metadata(BEAD)["qa_agent_executions"][-1]
    data = project.ralph("ask", BEAD, "Are you sure?", "--role", "qa", "--json").data
    assert data["answer"] == f"I am qa in {row['session_id']}, at {row['cwd']}, on {row['commit']}."
    assert (data["role"], data["session_id"]) == ("qa", row["session_id"])
    assert not Path(row["cwd"]).exists()
    project.assert_tidy()


def test_a_session_can_be_named(project: Project) -> None:
    data = project.ralph("ask", BEAD, "And?", "--session", session(project, "qa"), "--json").data
    assert data["role"] == "qa"


def test_a_worktree_that_is_gone_is_there_again_for_the_question(project: Project) -> None:
    place = project.bead(BEAD).metadata
    git(project.root, "worktree", "remove", "--force", place.worktree_path)
    assert f"at {place.worktree_path}, on" in project.ralph("ask", BEAD, "Why?").out
    assert not Path(place.worktree_path).exists()


def test_an_agent_that_meddles_is_told_on(project: Project) -> None:
    ran = project.ralph("ask", BEAD, "MEDDLE please")
    assert ran.code == 0
    assert "changed something" in ran.err


def test_an_agent_that_fails_is_an_error_that_names_its_output(project: Project) -> None:
    ran = project.ralph("ask", BEAD, "FAIL please", "--json")
    assert (ran.code, ran.error["code"]) == (1, "EXECUTION.AGENT_FAILED")
    output = Path(ran.error["suggested_action"].removeprefix("See its output: "))
    assert "I am dev" in output.read_text("utf-8")


def test_the_question_must_not_be_empty(project: Project) -> None:
    ran = project.ralph("ask", BEAD, "  ", "--json")
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")


def test_who_has_no_session_cannot_be_asked(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    project.ralph("mason", "plan.md")
    assert "no agent has worked" in project.ralph("sessions", BEAD).out
    ran = project.ralph("ask", BEAD, "Why?", "--json")
    assert (ran.code, ran.error["code"]) == (1, "IO.FILE_NOT_FOUND")


def test_while_agents_work_nobody_is_asked(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    project.ralph("mason", "plan.md")
    project.store.claim(BEAD, "somebody")
    ran = project.ralph("ask", BEAD, "Why?", "--json")
    assert (ran.code, ran.error["code"]) == (1, "DATABASE.CONFLICT")


def test_an_answer_is_no_run(project: Project) -> None:
    """status and logs are about the last run of the loop."""
    before = project.run_ids()
    project.ralph("ask", BEAD, "Why?")
    assert project.run_ids() == before
