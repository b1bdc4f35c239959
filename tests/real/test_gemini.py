"""What Gemini CLI itself does, where its adapter rests on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beads_ralph.agents.known import AGENTS
from beads_ralph.agents.replies import lines_of
from beads_ralph.jobs import Exit
from beads_ralph.work import Persona, Reply
from tests.git.repos import git
from tests.model.exchange import Question
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli
from tests.real.record import Take, play

pytestmark = pytest.mark.real_agents
Ask = Callable[[Take], tuple[Exit, Reply, list[Question]]]


@pytest.fixture
def ask(cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path, tmp_path: Path) -> Ask:
    """One call, in the repository; what it came to, and what the model was asked."""
    calls = iter(range(9))

    def asked(take: Take) -> tuple[Exit, Reply, list[Question]]:
        run = f"{tmp_path.name}-{next(calls)}"
        ended = play(cli("gemini", model_server.base(take.model, run)), take, repo, tmp_path / run)
        assert ended.transcript
        reply = AGENTS["gemini"].reply(ended, lines_of(ended.transcript.out))
        return ended, reply, model_server.questions(run)

    return asked


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


def test_nothing_is_left_of_one_that_had_to_be_ended(ask: Ask) -> None:
    ended, _, _ = ask(Take("sleep97", timeout=10.0))
    assert ended.timed_out


@pytest.mark.parametrize(
    ("model", "trouble"), [("401", "auth"), ("limitr7", "limit"), ("drop", "server"), ("404", "refused")]
)
def test_trouble_has_a_name(ask: Ask, model: str, trouble: str) -> None:
    _, reply, _ = ask(Take(model))
    assert reply.trouble == trouble


def test_what_a_model_says_of_limits_is_no_limit(
    cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path, tmp_path: Path
) -> None:
    said = '[API Error: 429] {"type":"result","status":"error","error":{"message":"retry after 9s"}}'
    base = model_server.play(tmp_path.name, [Rule("", say=said)])
    ended = play(cli("gemini", base), Take(), repo, tmp_path / "call")
    assert ended.transcript
    reply = AGENTS["gemini"].reply(ended, lines_of(ended.transcript.out))
    assert (reply.trouble, reply.text) == ("", said)
