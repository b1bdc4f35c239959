"""The wrappers of samples/agents, each with a program that prints what the real one prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.protocol import Reply, select
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit
from tests.agents.running import call, executable, spec, task

SAMPLES = Path(__file__).parents[2] / "samples" / "agents"
VERDICT = '```json\n{"status": "pass", "message": "fine"}\n```'
# Each writes down how it was called; `{said}` is what it prints, as the real one does.
QWEN = """\
#!/bin/sh
{{ echo "$@"; cat; }} > called
cat <<'END'
{said}
END
echo 'a warning' >&2
exit {code}
"""
AIDER = """\
#!/bin/sh
echo "$@" > called
touch .aider.tags.cache.v4
while [ $# -gt 0 ]; do
    case $1 in
    --analytics-log) cp {log} "$2" ;;
    --message-file) cat "$2" >> called ;;
    --chat-history-file) echo "said" >> "$2" ;;
    esac
    shift
done
cat <<'END'
Aider v0.86.2
{said}
END
"""
MINI = """\
#!/bin/sh
echo "$@" > called
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && cp {log} "$2"
    shift
done
exit {code}
"""


def asked(place: Path, name: str, session: str | None = None, **fields: Any) -> tuple[Exit, Reply, str]:
    """One call of the wrapper in a folder whose `bin` has the program; and how that was called."""
    program = SAMPLES / f"{name}-agent"
    own = {
        "PATH": f"{place / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "XDG_STATE_HOME": str(place / "state"),
    }
    agent = spec(executable=str(program), env=own, options=["--more"])
    question = task(place, agent, prompt="Judge it.", session_id=session, **{"model": "gpt-5", **fields})
    ended, reply = call(select(str(program)), question, place)
    file = place / "called"
    return ended, reply, file.read_text("utf-8") if file.exists() else ""


def program(place: Path, name: str, text: str) -> None:
    (place / "bin").mkdir(exist_ok=True)
    executable(place / "bin" / name, text)


def test_every_wrapper_is_a_program() -> None:
    assert sorted(path.name for path in SAMPLES.iterdir()) == ["aider-agent", "mini-agent", "qwen-agent"]
    assert all(path.stat().st_mode & 0o111 for path in SAMPLES.iterdir())


# --- qwen ---------------------------------------------------------------------------------------------


def qwen(**result: Any) -> str:
    events = [
        {"type": "system", "subtype": "init", "session_id": "s-1", "model": "mock-model"},
        {"type": "assistant", "session_id": "s-1", "message": {"content": []}},
        {"type": "result", "session_id": "s-1", "permission_denials": [], **result},
    ]
    return "\n".join(map(json.dumps, events))


def test_qwen_tells_session_tokens_of_the_session_and_verdict(tmp_path: Path) -> None:
    usage = {"input_tokens": 2700, "output_tokens": 41, "cache_read_input_tokens": 600}
    said = qwen(subtype="success", is_error=False, result=VERDICT, usage=usage)
    program(tmp_path, "qwen", QWEN.format(said=said, code=0))
    ended, reply, called = asked(tmp_path, "qwen", role="qa")
    assert (ended.code, reply.trouble, reply.session_id) == (0, "", "s-1")
    assert reply.result == {"status": "pass", "message": "fine"}
    assert (reply.usage, reply.session_usage) == (Usage(), Usage(2100, 41, 600))
    assert "--session-id" in called
    assert "--model gpt-5 --more\nJudge it." in called
    _, _, called = asked(tmp_path, "qwen", session="s-1")
    assert "--resume s-1" in called


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("[API Error: 401 Incorrect API key provided]", "auth"),
        ("[API Error: 429 Too many requests]", "limit"),
        ("[API Error: 503 overloaded]", "server"),
        ("No saved session found with ID s-1", "forgotten"),
        ("it did not like the task", ""),
    ],
)
def test_qwen_tells_trouble(tmp_path: Path, message: str, trouble: str) -> None:
    said = qwen(subtype="error_during_execution", is_error=True, error={"message": message})
    program(tmp_path, "qwen", QWEN.format(said=said, code=1))
    ended, reply, _ = asked(tmp_path, "qwen")
    assert (ended.code, reply.trouble) == (1, trouble)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ("[API Error: 401 scripted 401]", "auth"),
        ("[API Error: 400 This model's maximum context length is 128000 tokens.]", "too_long"),
        ("The file says [API Error: 401]", ""),
    ],
)
def test_qwen_calls_a_refused_call_a_success(tmp_path: Path, answer: str, trouble: str) -> None:
    said = qwen(subtype="success", is_error=False, result=answer, usage={"input_tokens": 0})
    program(tmp_path, "qwen", QWEN.format(said=said, code=0))
    ended, reply, _ = asked(tmp_path, "qwen")
    assert (ended.code, reply.trouble) == (int(bool(trouble)), trouble)


# --- aider --------------------------------------------------------------------------------------------


def aider(place: Path, said: str, *sent: dict[str, Any]) -> None:
    log = place / "log"
    events = [{"event": "launched", "properties": {}}]
    events += [{"event": "message_send", "properties": one} for one in sent]
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    program(place, "aider", AIDER.format(said=said, log=log))


def test_aider_tells_what_its_messages_used_and_keeps_its_session(tmp_path: Path) -> None:
    sent = {"prompt_tokens": 1000, "completion_tokens": 20, "cost": 0.01, "total_cost": 0.01}
    aider(tmp_path, VERDICT, sent, sent)
    ended, reply, called = asked(tmp_path, "aider", role="qa")
    assert (ended.code, reply.trouble) == (0, "")
    assert reply.result == {"status": "pass", "message": "fine"}
    assert reply.usage == Usage(2000, 40, None, 0.02)
    assert "--chat-mode ask" in called
    assert "--restore-chat-history" not in called
    assert called.endswith("Judge it.")
    assert not (tmp_path / ".aider.tags.cache.v4").exists()
    _, _, called = asked(tmp_path, "aider", session=reply.session_id)
    assert "--restore-chat-history" in called
    ended, reply, _ = asked(tmp_path, "aider", session="another")
    assert (ended.code, reply.trouble) == (1, "forgotten")


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("litellm.AuthenticationError: OpenAIException - Incorrect API key", "auth"),
        ("litellm.RateLimitError: RateLimitError: OpenAIException - slow down", "limit"),
        ("litellm.InternalServerError: OpenAIException - 500", "server"),
        ("The file says litellm.RateLimitError in the middle of a line", ""),
    ],
)
def test_aider_ends_with_0_and_its_trouble_is_told_all_the_same(
    tmp_path: Path, said: str, trouble: str
) -> None:
    aider(tmp_path, said)
    ended, reply, _ = asked(tmp_path, "aider")
    assert (ended.code != 0, reply.trouble) == (bool(trouble), trouble)


# --- mini-swe-agent -----------------------------------------------------------------------------------


def mini(place: Path, code: int = 0, **info: Any) -> None:
    log = place / "log"
    usage = {"prompt_tokens": 1234, "completion_tokens": 56}
    row = {"role": "assistant", "content": "", "extra": {"response": {"usage": usage}}}
    said = {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": info,
        "messages": [{"role": "system"}, row, row],
    }
    log.write_text(json.dumps(said), encoding="utf-8")
    program(place, "mini", MINI.format(log=log, code=code))


def test_mini_tells_its_submission_tokens_and_cost(tmp_path: Path) -> None:
    stats = {"instance_cost": 0.42, "api_calls": 7}
    mini(tmp_path, exit_status="Submitted", submission=VERDICT, model_stats=stats)
    ended, reply, called = asked(tmp_path, "mini")
    assert (ended.code, reply.trouble, reply.session_id) == (0, "", None)
    assert reply.result == {"status": "pass", "message": "fine"}
    assert reply.usage == Usage(2468, 112, None, 0.42)
    assert "-t Judge it." in called
    assert "-m gpt-5 --more" in called


@pytest.mark.parametrize(
    ("status", "trouble"),
    [("AuthenticationError", "auth"), ("RateLimitError", "limit"), ("LimitsExceeded", "")],
)
def test_mini_tells_trouble(tmp_path: Path, status: str, trouble: str) -> None:
    mini(tmp_path, 1, exit_status=status, submission="", model_stats={"instance_cost": 0.0})
    ended, reply, _ = asked(tmp_path, "mini")
    assert (ended.code, reply.trouble) == (1, trouble)
