"""What goose itself does, where its adapter rests on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beads_ralph.bead.personas import Persona
from tests.git.repos import git
from tests.model.server import ModelServer
from tests.real.calling import Ask
from tests.real.record import Take

pytestmark = pytest.mark.real_agents


@pytest.fixture
def ask(asking: Callable[[str], Ask]) -> Ask:
    return asking("goose")


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
    assert git(repo, "log", "-1", "--format=%s") == "Fix hello.py per QA"
    _, third, questions = ask(Take("ok", session="99999999-2222-4333-8444-555555555555"))
    assert (third.trouble, questions) == ("forgotten", [])


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
