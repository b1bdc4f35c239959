"""A call's output for people: the same lines whichever program printed it, bounded, and safe to show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph.agents import transcript
from beads_ralph.agents.bead_outputs import OutputReader
from beads_ralph.agents.protocol import AGENTS, ShownCLI
from beads_ralph.agents.transcript import (
    Cost,
    LineJoiner,
    Note,
    Said,
    ShellCommand,
    Thought,
    ToolResult,
    ToolUse,
    TranscriptLine,
    as_text,
)
from beads_ralph.bead.words import visible
from tests.agents import cassettes

RECORDED = sorted(path.name.rpartition("-")[0] for path in cassettes.FOLDER.iterdir())
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202eslip"


def recorded(name: str, scenario: str) -> list[TranscriptLine]:
    folder = cassettes.of(name)
    return list(OutputReader(folder / f"{scenario}.out", folder / f"{scenario}.err", name).end())


def fed(name: str, *lines: object) -> list[TranscriptLine]:
    """What is shown of these lines of a program's stdout."""
    cli, joiner = AGENTS[name], LineJoiner()
    assert isinstance(cli, ShownCLI)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    found = [shown for text in texts for shown in joiner.take(cli.shown(text))]
    return [*found, *joiner.end()]


def test_every_program_can_be_shown() -> None:
    assert [name for name, cli in AGENTS.items() if not isinstance(cli, ShownCLI)] == []


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_call_reads_as_command_result_words_and_cost(name: str) -> None:
    lines = recorded(name, "ok")
    (command,) = (line for line in lines if isinstance(line, ShellCommand))
    assert command.command.startswith("printf 'print(\"hello\")\\n' > hello.py && git add hello.py")
    assert isinstance(lines[lines.index(command) + 1], ToolResult)
    text = "\n".join(as_text(line) for line in lines)
    assert text.count("Work finished.") == 1
    assert '"type"' not in text, "no JSON of the program itself"
    if name != "copilot":  # which counts in a file of its own
        assert any(isinstance(line, Cost) and line.usage.output_tokens for line in lines)


@pytest.mark.parametrize("name", RECORDED)
def test_whatever_a_program_met_is_shown_without_a_trace_of_its_json(name: str) -> None:
    for scenario in sorted(cassettes.scenarios(name)):
        lines = recorded(name, scenario)
        assert all(transcript.to_json(line)["kind"] == line.kind for line in lines)
        for line in lines:
            text = as_text(line)
            assert text == visible(text), scenario
            assert "session_id" not in text, scenario


@pytest.mark.parametrize("name", RECORDED)
def test_trouble_with_the_server_is_seen_to_be_trouble(name: str) -> None:
    for scenario in ("401", "429", "500"):
        assert any(isinstance(line, Note) and line.trouble for line in recorded(name, scenario)), scenario


@pytest.mark.parametrize("name", [*RECORDED, "command"])
def test_it_reads_the_same_while_it_grows(tmp_path: Path, name: str) -> None:
    data = cassettes.of("claude" if name == "command" else name).joinpath("ok.out").read_bytes()
    out, err = tmp_path / "a.out", tmp_path / "a.err"
    err.touch()
    out.touch()
    growing, seen = OutputReader(out, err, name), list[TranscriptLine]()
    for start in range(0, len(data), 997):
        with out.open("ab") as file:
            file.write(data[start : start + 997])
        seen += growing.more()
    seen += growing.end()
    assert seen == list(OutputReader(out, err, name).end())
    assert seen


@pytest.mark.parametrize(("name", "kind"), [("claude", Note), ("command", Said)])
def test_a_line_of_ten_megabytes_is_cut_and_told(tmp_path: Path, name: str, kind: type) -> None:
    out = tmp_path / "a.out"
    out.write_bytes(b'{"type": "' + b"x" * 10_000_000 + b'"}\n{"type": "unknown"}\n')
    lines = list(OutputReader(out, tmp_path / "none.err", name).end())
    assert isinstance(lines[0], kind)
    assert "a line of 10.0 MB" in as_text(lines[0])
    assert sum(len(as_text(line)) for line in lines) < 5_000


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    words = "first " + "x" * 1_000_000 + " last"
    (said,) = fed("claude", {"type": "assistant", "message": {"content": [{"type": "text", "text": words}]}})
    text = as_text(said)
    assert (text[:6], text[-5:], len(text) < 2 * transcript.LONGEST_TEXT) == ("first ", " last", True)
    assert "characters left out" in text


def test_nothing_that_an_agent_says_is_obeyed() -> None:
    contents = [
        {"type": "text", "text": HOSTILE},
        {"type": "thinking", "thinking": HOSTILE},
        {"type": "tool_use", "id": "1", "name": HOSTILE, "input": {"file_path": HOSTILE}},
        {"type": "tool_use", "id": "2", "name": "Bash", "input": {"command": HOSTILE}},
    ]
    results = [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": HOSTILE}]}]
    lines = fed(
        "claude",
        {"type": "assistant", "message": {"content": contents}},
        {"type": "user", "message": {"content": results}},
        {"type": "result", "is_error": True, "result": HOSTILE},
        HOSTILE,
    )
    assert [type(line) for line in lines] == [
        *(Said, Thought, ToolUse, ShellCommand, ToolResult, Note, Cost, Note)
    ]
    for line in lines:
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*as_text(line)}
        assert not {"\x1b", "\x07"} & {*json.dumps(transcript.to_json(line), ensure_ascii=False)}


def test_pieces_of_a_message_are_joined_line_by_line() -> None:
    pieces = ("One ", "line\nand ano", "ther", "\n", "last")
    lines = fed(
        "gemini",
        *({"type": "message", "role": "assistant", "content": piece, "delta": True} for piece in pieces),
        {"type": "tool_use", "tool_name": "read_file", "tool_id": "1", "parameters": {"path": "a.py"}},
    )
    assert [as_text(line) for line in lines] == ["One line", "and another", "last", "→ read_file a.py"]


def test_a_result_that_comes_late_names_its_call() -> None:
    def item(kind: str, number: str, **facts: object) -> dict[str, object]:
        told = {"id": number, "type": "command_execution", "command": f"/bin/bash -lc 'make {number}'"}
        return {"type": f"item.{kind}", "item": {**told, **facts}}

    lines = fed(
        "codex",
        item("started", "a"),
        item("started", "b"),
        item("completed", "a", aggregated_output="two\nwords\n", exit_code=2),
        item("completed", "b", aggregated_output="", exit_code=0),
    )
    shown = ["$ make a", "$ make b", "  of $ make a\n  two\n  words\n  ✗ exit 2", "  ✓"]
    assert [as_text(line) for line in lines] == shown


def test_of_a_long_output_a_person_sees_both_ends() -> None:
    text = as_text(ToolResult("\n".join(map(str, range(100)))))
    assert text.splitlines()[0].strip() == "0"
    assert text.splitlines()[-1].strip() == "99"
    assert "… 88 more lines" in text


def test_a_progress_bar_is_shown_as_it_ended() -> None:
    (line,) = fed("command", "\x1b[32m 10 %\r 99 %\r100 %\x1b[0m")
    assert as_text(line) == "100 %"
