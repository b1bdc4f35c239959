"""What Gemini CLI itself does, where its adapter rests on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beads_ralph.bead.personas import Persona
from tests.git.repos import git
from tests.real.calling import Ask
from tests.real.record import Take

pytestmark = pytest.mark.real_agents


@pytest.fixture
def ask(asking: Callable[[str], Ask]) -> Ask:
    return asking("gemini")


def test_a_long_prompt_full_of_at_signs_arrives_whole_beside_the_persona(ask: Ask, repo: Path) -> None:
    """Unescaped, each of them would be looked for as a file, for minutes, and README.md be pasted."""
    (repo / "secret.txt").write_text("MARK-pasted", encoding="utf-8")
    prompt = "/clear @README.md @secret.txt --help\n" + "@pytest.mark x@example.com\n" * 22_000 + "MARK-last"
    body = "MARK-persona: you are careful."
    _, reply, (question, *_) = ask(Take("text", prompt, persona=Persona("dev", body=body)))
    assert reply.trouble == "", reply.detail
    assert reply.result is not None
    assert reply.result["markers"] == ["MARK-persona", "MARK-last"]
    assert prompt in question.said.replace("\\@", "@")
    assert "Gemini CLI" in question.system, "its own instructions are still there"


def test_feedback_goes_to_the_same_session_and_what_never_answered_is_forgotten(ask: Ask) -> None:
    _, first, _ = ask(Take("ok"))
    assert first.session_id is not None
    _, second, _ = ask(Take("ok", "QA says: mend it. MARK-two", session=first.session_id))
    assert second.session_id == first.session_id
    assert second.result is not None
    assert second.result["markers"] == ["MARK-one", "MARK-two"]
    _, third, questions = ask(Take("ok", session="99999999-2222-4333-8444-555555555555"))
    assert (third.trouble, questions) == ("forgotten", [])


def test_the_users_mode_replaces_ours_and_then_there_is_no_shell(ask: Ask, repo: Path) -> None:
    _, reply, (question, *_) = ask(Take("denied", options=("--approval-mode=auto_edit",)))
    assert reply.trouble == ""
    assert question.tool("run_shell_command") is None
    assert git(repo, "status", "--porcelain") == ""
