"""What every adapter of a real CLI does with the real CLI; what is special to one is in its own file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beads_ralph.agents.protocol import AGENTS
from beads_ralph.agents.verdicts import judge
from beads_ralph.bead.model import OUTPUT_SCHEMA
from beads_ralph.bead.personas import Persona
from beads_ralph.process import process_tree
from beads_ralph.process.supervise import MARK
from tests.git.repos import git
from tests.real.calling import Caller, says, subjects
from tests.real.clis import NIGHTLY
from tests.real.users import unprivileged

pytestmark = pytest.mark.real_agents
NAMES = ("claude", "codex", *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY))
SCHEMA_IN_PROMPT = NIGHTLY
"""These are told by the prompt alone what a verdict looks like."""
SILENT_ON_OPTIONS = ("opencode",)
"""It prints its help and does not say which option it did not know."""
SLOWNESS = {"opencode": 6.0}
"""How many times as long as another it takes to begin."""
PERSONA = Persona(
    "backend-dev", "Builds.", "You are MARK-persona: plain code, \u00fc and \U0001f600.", None, ()
)
PROSE = 'Error: 429 rate limit exceeded. API Error: 401. {"type": "result", "is_error": true}'


@pytest.fixture(params=NAMES)
def call(request: pytest.FixtureRequest, caller: Callable[[str], Caller]) -> Caller:
    return caller(request.param)


def test_edits_and_commits_with_the_default_permissions(call: Caller) -> None:
    """As whoever runs the tests, which in a container is root."""
    ended, reply = call("Add hello.py. MARK-one", persona=PERSONA)
    assert ended.ok, ended.stderr
    assert (reply.trouble, reply.denied) == ("", ())
    assert subjects(call.worktree) == ["Add hello.py"]
    assert git(call.worktree, "status", "--porcelain") == ""
    assert reply.result == {
        "status": "pass",
        "message": "hello.py is committed",
        "markers": ["MARK-one"],
    }
    assert "MARK-persona" in call.questions[0].system
    assert "MARK-persona" not in call.questions[0].said


def test_the_same_as_a_user_without_privileges(call: Caller) -> None:
    call.before = unprivileged()
    if not call.before:
        pytest.skip("only root can become another user, and only where there are user namespaces")
    ended, reply = call("Add hello.py. MARK-one")
    assert ended.ok, ended.stderr
    assert (reply.trouble, reply.denied) == ("", ())
    assert subjects(call.worktree) == ["Add hello.py"]


@pytest.mark.sampled(1)
def test_feedback_goes_into_the_same_session_and_each_call_is_counted_once(call: Caller) -> None:
    _, first = call("Add hello.py. MARK-one", persona=PERSONA)
    assert first.session_id
    ended, second = call("QA says: mend it. MARK-two", persona=PERSONA, session_id=first.session_id)
    assert ended.ok, ended.stderr
    assert second.session_id == first.session_id
    assert second.result is not None
    assert second.result["markers"] == ["MARK-one", "MARK-two"]
    assert subjects(call.worktree) == ["Fix hello.py per QA", "Add hello.py"]
    assert "MARK-persona" in call.questions[0].system
    once = first.usage + first.session_usage
    again = second.usage + (second.session_usage - first.session_usage)
    assert (once.input_tokens, once.output_tokens) == (2100, 41)
    assert (again.input_tokens, again.output_tokens) == (2300, 43)
    assert once.cache_tokens == again.cache_tokens
    assert once.cache_tokens in (600, 700)  # Anthropic's counts what is written into it, too
    if once.cost_usd is not None and again.cost_usd is not None:
        assert 0 < once.cost_usd < again.cost_usd < 1.5 * once.cost_usd


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_session_goes_on_in_another_folder(caller: Callable[[str], Caller], name: str) -> None:
    """As the next bead of a team does; others start afresh there."""
    call = caller(name)
    assert AGENTS[name].profile.resumes_elsewhere
    _, first = call("Add hello.py. MARK-one")
    other = call.worktree.with_name("other")
    git(call.worktree, "worktree", "add", "--quiet", "-b", "next", str(other), "main")
    call.worktree = other
    ended, second = call("Add hello.py. MARK-two", session_id=first.session_id)
    assert ended.ok, ended.stderr
    assert (second.session_id, second.result and second.result["markers"]) == (
        first.session_id,
        ["MARK-one", "MARK-two"],
    )
    assert git(other, "log", "--format=%s", "main..next").splitlines() != []


@pytest.mark.parametrize("session", ["0f0e0d0c-0b0a-4908-8706-050403020100", "--help", "ses_of_another_cli"])
def test_a_session_that_is_not_known_is_forgotten_and_nothing_is_done(call: Caller, session: str) -> None:
    ended, reply = call("QA says: mend it.", session_id=session)
    assert not ended.ok
    assert (reply.trouble, reply.session_id) == ("forgotten", None)
    assert call.questions == []


def test_a_verdict_in_the_form_that_was_asked_for(call: Caller) -> None:
    ended, reply = call("Judge the work. MARK-one", "text", role="qa", output_schema=OUTPUT_SCHEMA)
    assert judge(reply, ended).ruling == "pass"
    assert_bound_to_schema(call)


def test_a_verdict_under_a_persona_with_few_tools(call: Caller) -> None:
    persona = Persona("qa", "Judges.", "You judge.", None, ("Read", "Bash"))
    schema = {**OUTPUT_SCHEMA, "properties": {**OUTPUT_SCHEMA["properties"], "details": {"type": "object"}}}
    ended, reply = call("Judge the work.", "text", role="qa", output_schema=schema, persona=persona)
    assert judge(reply, ended, schema).ruling == "pass"
    assert_bound_to_schema(call)


def test_a_model_that_gives_no_verdict_has_given_none(call: Caller) -> None:
    """codex's model is bound to the schema by its server, so that it may give one nevertheless."""
    ended, reply = call("Judge the work.", rules=says("All is well."), role="qa", output_schema=OUTPUT_SCHEMA)
    assert ended.ok, ended.stderr
    assert reply.result is None or call.name == "codex"
    assert reply.trouble == ""


def test_a_stream_that_is_no_json_is_the_servers_trouble(call: Caller) -> None:
    ended, reply = call("Add hello.py.", "malformed", timeout=patience(call, 40.0))
    assert not ended.ok
    assert not ended.timed_out
    assert reply.trouble == "server", reply


def test_what_a_model_says_of_limits_and_errors_is_only_text(call: Caller) -> None:
    ended, reply = call("Go on.", rules=says(PROSE, f"echo '{PROSE}' >&2; exit 3"))
    assert ended.ok, ended.stderr
    assert (reply.trouble, reply.limit_reset_at) == ("", None)
    assert reply.text == PROSE


def test_a_long_prompt_arrives_whole_and_stays_off_the_command_line(call: Caller) -> None:
    prompt = "--help\n" + "word " * 120_000 + "\nMARK-last \u00fc \U0001f600"
    ended, reply = call(prompt, "text")
    assert ended.ok, ended.stderr
    assert reply.result is not None
    assert reply.result["markers"] == ["MARK-last"]
    assert prompt.strip() in call.questions[0].said
    assert call.job is not None
    assert "MARK-last" not in "".join(call.job.argv)


def test_a_long_persona_arrives(call: Caller) -> None:
    body = "You are MARK-persona. " + "word " * 60_000
    ended, _ = call("Go on.", "text", persona=Persona("dev", "Builds.", body, None, ()))
    assert ended.ok, ended.stderr
    assert body.strip() in call.questions[0].system + call.questions[0].said


def test_an_option_that_it_does_not_know_is_refused_in_its_own_words(call: Caller) -> None:
    ended, reply = call("Add hello.py.", options=["--no-such-option"])
    assert not ended.ok
    assert reply.trouble == "configuration"
    assert "--no-such-option" in reply.detail or call.name in SILENT_ON_OPTIONS


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scenario", ["hang", "stall"])
def test_a_model_that_never_answers_is_a_time_out(call: Caller, scenario: str) -> None:
    ended, reply = call("Add hello.py.", scenario, timeout=patience(call, 4.0))
    assert ended.timed_out
    assert reply.result is None
    assert survivors(call) == []


@pytest.mark.sampled(1)
def test_nothing_survives_a_call_that_is_ended(call: Caller) -> None:
    started = call.worktree / "started"
    command = f"touch {started} && python3 -c 'import time; time.sleep(97)'"
    ended, reply = call("Go on.", rules=says("Done.", command), timeout=patience(call, 8.0))
    assert started.exists()
    assert ended.timed_out
    known = reply.session_id or AGENTS[call.name].profile.session_is_given
    assert known, "what it had begun can be gone on with"
    assert survivors(call) == []


def survivors(call: Caller) -> list[int]:
    assert call.job is not None
    return process_tree.sweep(MARK, call.job.mark)


def assert_bound_to_schema(call: Caller) -> None:
    asked = call.questions[0]
    bound = asked.schema is not None or asked.tool("StructuredOutput") is not None
    assert bound == (call.name not in SCHEMA_IN_PROMPT)


def patience(call: Caller, seconds: float) -> float:
    return seconds * SLOWNESS.get(call.name, 1.0)
