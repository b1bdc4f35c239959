"""Codex's command line, and what its events mean; with the real one: tests/real/test_codex.py."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.agents.adapters.codex import Codex, strict
from beads_ralph.agents.verdicts import flaws_in
from beads_ralph.bead.model import OUTPUT_SCHEMA
from beads_ralph.bead.personas import Persona
from beads_ralph.process.jobs import Exit, Job
from tests.agents import cassettes
from tests.agents.running import environment, spec, task, transcript

CODEX = Codex({}, now=lambda: datetime(2026, 3, 1, 12, 0))  # noqa: DTZ001 - as the CLI tells it
LIMIT = "You\u2019ve hit your usage limit. Upgrade, or try again at "


def command(folder: Path, options: list[str] | None = None, **fields: Any) -> Job:
    return CODEX.command(
        task(folder, spec(executable="codex", options=options), **fields), transcript(folder)
    )


def settings(job: Job) -> dict[str, Any]:
    """What `-c` says, the later before the earlier."""
    found: dict[str, Any] = {}
    for flag, word in zip(job.argv, job.argv[1:], strict=False):
        if flag == "-c":
            found |= tomllib.loads(word)
    return found


def test_the_session_comes_after_all_options_as_the_cli_wants_it(tmp_path: Path) -> None:
    old = "0f0e0d0c-0b0a-4908-8706-050403020100"
    argv = command(tmp_path, ["-i", "picture.png"], session_id=old).argv
    assert argv[-7:] == ("-i", "picture.png", "--skip-git-repo-check", "--json", "resume", old, "-")
    assert command(tmp_path).argv[-1] == "-"


def test_a_flag_is_not_given_twice(tmp_path: Path) -> None:
    argv = command(tmp_path, ["--json", "--skip-git-repo-check", "--output-schema=mine.json"]).argv
    assert [argv.count(flag) for flag in ("--json", "--skip-git-repo-check")] == [1, 1]
    shaped = command(tmp_path, ["--output-schema", "mine.json"], role="qa", output_schema=OUTPUT_SCHEMA)
    assert shaped.files == {}
    assert len([word for word in shaped.argv if word.startswith("--output-schema")]) == 1


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_who_to_be_is_said_to_the_letter(text: str) -> None:
    asked = task(Path("/w"), persona=Persona("dev", "", "You: " + text))
    job = CODEX.command(asked, transcript(Path("/t")))
    assert settings(job)["developer_instructions"] == "You: " + text


def test_git_may_write_commits_and_nothing_else_of_the_repository(tmp_path: Path) -> None:
    common, own = tmp_path / ".git", tmp_path / ".git" / "worktrees" / "w"
    for name in ("objects", "refs", "hooks"):
        (common / name).mkdir(parents=True)
    argv = command(tmp_path, git_folders=(common, own)).argv
    added = [word.partition("=")[2] for word in argv if word.startswith("--add-dir=")]
    assert added == [str(common / "objects"), str(common / "refs"), str(own)]


@pytest.mark.parametrize(
    ("env", "tmp"),
    [
        ({"HOME": "/home/me"}, None),
        ({"HOME": "/tmp/x"}, "/var/tmp"),
        ({"HOME": "/home/me", "CODEX_HOME": "/tmp/x"}, "/var/tmp"),
        ({"HOME": "/tmp/x", "TMPDIR": "/run/tmp"}, "/run/tmp"),
        ({"HOME": "/run/tmp/x", "TMPDIR": "/run/tmp"}, "/var/tmp"),
    ],
)
def test_the_temporary_folder_does_not_hold_its_home(
    tmp_path: Path, env: Mapping[str, str], tmp: str | None
) -> None:
    """Or its sandbox would not start."""
    job = Codex(env).command(task(tmp_path, env={}), transcript(tmp_path))
    assert environment(job).get("TMPDIR") == tmp


# --- what it answers ----------------------------------------------------------------------------------


def said(*events: dict[str, Any]) -> list[str]:
    return [json.dumps({"type": "thread.started", "thread_id": "t"}), *map(json.dumps, events)]


def message(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}


def ran(output: str, code: int) -> dict[str, Any]:
    item = {"type": "command_execution", "aggregated_output": output, "exit_code": code}
    return {"type": "item.completed", "item": item}


DONE = {
    "type": "turn.completed",
    "usage": {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 3},
}


@pytest.mark.parametrize(
    ("sentence", "trouble"),
    [
        ("unexpected status 401 Unauthorized: x", "auth"),
        ("unexpected status 503 Service Unavailable: x", "server"),
        ("unexpected status 404 Not Found: said unexpected status 500", "configuration"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "limit"),
        (LIMIT + "1:20 PM.", "limit"),
        ("Quota exceeded. Check your plan and billing details.", "credit"),
        ("We\u2019re currently experiencing high demand, which may cause temporary errors.", "server"),
        ("stream disconnected before completion: x", "server"),
        ('{"error": {"message": "unexpected status 429"}}', "refused"),
        ("something new", "unfinished"),
        ("", "unfinished"),
    ],
)
def test_what_a_failed_turn_means(sentence: str, trouble: str) -> None:
    event = {"type": "turn.failed", "error": {"message": sentence}}
    reply = CODEX.reply(Exit(1), said(event))
    assert reply.trouble == trouble
    assert sentence in reply.detail
    assert reply.session_id == "t"


@pytest.mark.parametrize(
    ("when", "reset"),
    [("1:20 PM.", (2026, 3, 1, 13, 21)), ("Mar 2nd, 2026 12:05 AM.", (2026, 3, 2, 0, 6)), ("noon.", None)],
)
def test_when_a_limit_ends(when: str, reset: tuple[int, ...] | None) -> None:
    """In our own time zone, like the CLI's."""
    event = {"type": "turn.failed", "error": {"message": LIMIT + when}}
    at = CODEX.reply(Exit(1), said(event)).limit_reset_at
    local = datetime.fromisoformat(at).astimezone() if at else None
    assert (local.timetuple()[:5] if local else None) == reset


def test_what_it_waited_for_when_its_time_was_up() -> None:
    waits = {"type": "error", "message": "Reconnecting... waiting for network (Connection failed: x)"}
    assert CODEX.reply(Exit(-15, timed_out=True), said(waits)).trouble == "server"
    assert CODEX.reply(Exit(-15, timed_out=True), said(waits, message("Back."))).trouble == ""
    assert CODEX.reply(Exit(-9), said(waits)).trouble == ""


def test_words_about_errors_are_only_words() -> None:
    prose = '{"type": "turn.failed"} unexpected status 429; no rollout found'
    lines = said(ran(prose, 1), message(prose), DONE)
    assert CODEX.reply(Exit(0, stderr=prose), lines).trouble == ""


def test_a_sandbox_that_does_not_start_is_told_from_a_command_that_fails() -> None:
    broken = ran("bwrap: Creating new namespace failed: x\n", 1)
    assert CODEX.reply(Exit(0), said(broken, broken, message("Done."), DONE)).trouble == "configuration"
    assert CODEX.reply(Exit(0), said(broken, ran("", 0), message("Done."), DONE)).trouble == ""
    own = ran("running bwrap\nbwrap: no\n", 1)
    assert CODEX.reply(Exit(0), said(own, message("Done."), DONE)).trouble == ""


def test_tokens_are_those_of_the_session_and_cached_ones_apart() -> None:
    reply = CODEX.reply(Exit(0), said(message("First."), message("Last."), DONE))
    counted = reply.session_usage
    assert (counted.input_tokens, counted.cache_tokens, counted.output_tokens) == (20, 10, 3)
    assert (reply.usage.input_tokens, reply.text) == (None, "Last.")


# --- the strict form of a schema ----------------------------------------------------------------------


def test_a_strict_schema_requires_everything_and_allows_nothing_else() -> None:
    details = {"type": "object", "properties": {"files": {"type": "array", "items": {}}, "note": {}}}
    schema = {**OUTPUT_SCHEMA, "properties": {**OUTPUT_SCHEMA["properties"], "details": details}}
    form = strict(schema)
    assert form is not None
    assert form["required"] == ["status", "message", "details"]
    assert form["properties"]["status"]["type"] == "string"
    inner = form["properties"]["details"]
    assert (inner["required"], inner["additionalProperties"]) == (["files", "note"], False)
    assert inner["properties"]["files"] == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"$ref": "#/x", "properties": {}},
        {"properties": {"a": {"oneOf": [{"type": "string"}]}}},
        {"properties": {"a": {"enum": [{"x": 1}]}}},
        {"properties": {"a": {"type": "objekt"}}},
        {"properties": {"a": True}},
        {"properties": [], "required": []},
    ],
)
def test_what_cannot_be_said_strictly_is_not_sent(schema: dict[str, Any], tmp_path: Path) -> None:
    assert strict(schema) is None
    assert command(tmp_path, role="qa", output_schema=schema).files == {}


scalars: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"enum": ["a", None]},
        {"const": 3},
        {"type": ["string", "null"]},
        {},
    ]
)
schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(
    scalars,
    lambda inner: (
        st.builds(
            lambda properties, required: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if name in required],
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
    ),
    max_leaves=6,
).filter(lambda schema: schema.get("type") == "object")


def smallest(form: Mapping[str, Any]) -> Any:
    if "enum" in form:
        return form["enum"][0]
    kind = form["type"] if isinstance(form["type"], str) else form["type"][0]
    if kind == "object":
        return {name: smallest(inner) for name, inner in form["properties"].items()}
    return {"array": [], "string": "x", "integer": 1}[kind]


@given(schema=schemas)
def test_what_fits_the_strict_form_fits_the_schema_as_it_was_written(schema: dict[str, Any]) -> None:
    form = strict(schema)
    assert form is not None
    assert list(flaws_in(smallest(form), schema)) == []


# --- recorded runs ------------------------------------------------------------------------------------

TROUBLES = {
    "402": "credit",
    "credit": "credit",
    "toolong": "too_long",
    "unreachable": "server",
    **dict.fromkeys(("ok", "prose", "killed"), ""),
    "400": "refused",
    **dict.fromkeys(("404", "unknown-option"), "configuration"),
    "413": "too_long",
    **dict.fromkeys(("401", "403", "no-key"), "auth"),
    **dict.fromkeys(("500", "529", "drop", "malformed"), "server"),
    **dict.fromkeys(("429", "quota"), "limit"),
    "unknown-session": "forgotten",
}


def test_every_recorded_run_is_looked_at() -> None:
    assert cassettes.scenarios("codex") == set(TROUBLES)


@pytest.mark.parametrize(("scenario", "trouble"), TROUBLES.items())
def test_what_a_recorded_run_comes_to(scenario: str, trouble: str) -> None:
    reply = cassettes.reply("codex", scenario)
    assert reply.trouble == trouble
    assert bool(reply.detail) == bool(trouble)


def test_inside_of_our_sandbox_it_makes_none_of_its_own(tmp_path: Path) -> None:
    words = {
        closed_in: " ".join(Codex({}).command(task(tmp_path, closed_in=closed_in), transcript(tmp_path)).argv)
        for closed_in in (False, True)
    }
    assert 'sandbox_mode="workspace-write"' in words[False]
    assert 'sandbox_mode="danger-full-access"' in words[True]
    assert "workspace-write" not in words[True]
