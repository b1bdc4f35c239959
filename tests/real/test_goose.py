"""What goose itself does, where its adapter rests on it."""

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
        ended = play(cli("goose", model_server.base(take.model, run)), take, repo, tmp_path / run)
        assert ended.transcript
        reply = AGENTS["goose"].reply(ended, lines_of(ended.transcript.out))
        return ended, reply, model_server.questions(run)

    return asked


def test_a_long_prompt_arrives_whole_and_the_persona_is_in_the_system_prompt(ask: Ask) -> None:
    prompt = "/clear @README.md --help\n" + "word " * 120_000 + "MARK-last"
    persona = Persona("dev", body="--MARK-persona: you are careful.")
    _, reply, questions = ask(Take("text", prompt, persona=persona))
    assert reply.trouble == "", reply.detail
    assert reply.result is not None
    assert reply.result["markers"][-1] == "MARK-last"
    assert prompt in questions[-1].said
    assert persona.body in questions[-1].system
    assert "goose" in questions[-1].system, "its own instructions are still there"


def test_a_persona_too_long_for_an_argument_arrives_too(ask: Ask) -> None:
    persona = Persona("dev", body="MARK-persona " + "word " * 40_000)
    _, reply, questions = ask(Take("text", persona=persona))
    assert reply.result is not None
    assert persona.body in questions[-1].said


def test_feedback_goes_to_the_same_session_and_an_unknown_one_is_forgotten(ask: Ask, repo: Path) -> None:
    name = "22222222-2222-4333-8444-555555555555"
    _, first, _ = ask(Take("ok", options=(f"--name={name}",)))
    _, second, _ = ask(Take("ok", "QA says: mend it. MARK-two", session=name))
    assert second.result is not None
    assert second.result["markers"] == ["MARK-one", "MARK-two"]
    assert (second.session_usage - first.session_usage).output_tokens == 43
    assert git(repo, "log", "-1", "--format=%s") == "Mend hello.py per QA"
    _, third, questions = ask(Take("ok", session="99999999-2222-4333-8444-555555555555"))
    assert (third.trouble, questions) == ("forgotten", [])


def test_nothing_is_left_of_one_that_had_to_be_ended(ask: Ask) -> None:
    ended, _, _ = ask(Take("sleep97", timeout=5.0))
    assert ended.timed_out


def test_other_providers_are_marked_alike(ask: Ask, model_server: ModelServer) -> None:
    """What tells goose's words from a model's must not depend on who serves the model."""
    for model, trouble in (("ok", ""), ("429r1", "limit")):
        env = {
            "GOOSE_PROVIDER": "anthropic",
            "GOOSE_MODEL": "claude-sonnet-4-5",
            "ANTHROPIC_API_KEY": "dummy",
            "ANTHROPIC_HOST": model_server.base(model, f"anthropic-{model}"),
        }
        _, reply, _ = ask(Take(model, env=tuple(env.items())))
        assert reply.trouble == trouble
        assert bool(reply.result) == (not trouble)


@pytest.mark.parametrize(
    ("model", "trouble"), [("401", "auth"), ("limitr7", "limit"), ("500", "server"), ("400", "refused")]
)
def test_trouble_has_a_name(ask: Ask, model: str, trouble: str) -> None:
    _, reply, _ = ask(Take(model))
    assert reply.trouble == trouble


def test_what_a_model_says_of_limits_is_no_limit(
    cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path, tmp_path: Path
) -> None:
    said = "Ran into this error: Rate limit exceeded: 429."
    base = model_server.play(tmp_path.name, [Rule("", say=said)])
    ended = play(cli("goose", base), Take(), repo, tmp_path / "call")
    assert ended.transcript
    reply = AGENTS["goose"].reply(ended, lines_of(ended.transcript.out))
    assert (reply.trouble, reply.text) == ("", said)
