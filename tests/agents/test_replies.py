"""Stdout and stderr of a program → its reply."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.agents import reply_reader, script
from beads_ralph.agents.protocol import Reply
from beads_ralph.agents.reply_reader import MAX_BLOCK, lines_of, read
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit

PASS = {"status": "pass", "message": "ok"}
BLOCK = '```json\n{"status": "pass", "message": "ok"}\n```\n'
OTHER = '```json\n{"status": "fail", "message": "no"}\n```\n'


def reply(stdout: str = "", stderr: str = "") -> Reply:
    return read(Exit(0, stderr=stderr), stdout.splitlines(keepends=True))


# --- the result ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stdout",
    [
        BLOCK,
        BLOCK.rstrip("\n"),
        BLOCK.replace("\n", "\r\n"),
        BLOCK.replace("```", "~~~"),
        BLOCK.replace("```", "`````"),
        BLOCK.replace("json", "JSON"),
        BLOCK.replace("json", " json"),
        BLOCK.replace("json", "json title=verdict"),
        f"I looked.\n\n{BLOCK}\nThat was all.\n",
        f"Here is my verdict: {BLOCK}",
        "   " + BLOCK.replace("\n", "\n   "),
        '```json\n{\n  "status": "pass",\n  "message": "ok"\n}\n```',
        '```json {"status": "pass", "message": "ok"}```',
        '```json{"status": "pass",\n"message": "ok"} ```',
        f"```python\nprint(1)\n```\n{BLOCK}",
        f"```\nnever closed\n{BLOCK}",
        f"```json\n{{never closed\n{BLOCK}",
        f"{BLOCK}```python\nnever closed",
        f"````markdown\n{OTHER}````\n{BLOCK}",
        f"{BLOCK}````markdown\n{OTHER}````\n",
        f"~~~\n{OTHER}~~~\n{BLOCK}",
        f"The ```json block follows below.\n{BLOCK}",
        json.dumps(PASS),
        json.dumps(PASS, indent=2) + "\n\n",
    ],
)
def test_the_result_is_the_last_json_block_or_the_whole_output(stdout: str) -> None:
    found = reply(stdout)
    assert found.result == PASS
    assert (found.trouble, found.detail) == ("", "")


@pytest.mark.parametrize(
    "stdout",
    [
        OTHER + BLOCK,
        BLOCK + BLOCK,
        f"It says:\n{OTHER}and I agree with:\n{BLOCK}",
        f'{{"status": "fail", "message": "no"}}\n\n{BLOCK}',
        f"~~~json\n{json.dumps(PASS)}\n~~~\n{OTHER}",
    ],
)
def test_two_verdicts_in_one_answer_are_none(stdout: str) -> None:
    found = reply(stdout)
    assert (found.result, found.trouble) == (None, "unreadable")
    assert "2 verdicts in one answer" in found.detail


def test_a_report_may_quote_verdicts_before_it() -> None:
    report = {"success": True, "bead_id": "bd-1"}
    assert reply(f"{BLOCK}{OTHER}```json\n{json.dumps(report)}\n```").result == report


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "\n\n",
        "All tests pass.",
        'The status is {"status": "pass", "message": "ok"}',
        '```\n{"status": "pass", "message": "ok"}\n```',
        "```jsonc\n{}\n```",
        "[1, 2]",
        "{not json}",
    ],
)
def test_without_a_json_block_there_is_no_result_and_no_complaint(stdout: str) -> None:
    assert (reply(stdout).result, reply(stdout).trouble) == (None, "")


@pytest.mark.parametrize(
    ("stdout", "complaint"),
    [
        (BLOCK + "```json\n{", "unclosed JSON"),
        (BLOCK.rstrip("`\n"), "unclosed JSON"),
        ("```json\n{'status': 'pass'}\n```", "bad JSON"),
        ("```json\n```", "bad JSON"),
        ("```json\n[1]\n```", "not an object"),
        ('```json\n"pass"\n```', "not an object"),
        ('```json\n{"status": "fail", "status": "pass"}\n```', "given twice"),
        ('```json\n{"coverage": NaN}\n```', "NaN"),
        ('```json\n{"coverage": 1e999}\n```', "bad JSON"),
        (f"```json\n{'[' * 200_000}\n```", "nested too deeply"),
        (f'```json\n{{"n": {"9" * 10_000}}}\n```', "bad JSON"),
    ],
)
def test_an_unreadable_result_says_why(stdout: str, complaint: str) -> None:
    found = reply(stdout)
    assert (found.result, found.trouble) == (None, "unreadable")
    assert complaint in found.detail


def test_a_message_may_hold_fences_of_its_own() -> None:
    for message in ("see ```json {x}``` there", "```", "~~~json"):
        text = f"```json\n{json.dumps({'status': 'fail', 'message': message}, indent=2)}\n```"
        assert reply(text).result == {"status": "fail", "message": message}


def test_half_a_surrogate_pair_does_not_reach_the_records() -> None:
    result = reply('```json\n{"message": "cut \\ud83d"}\n```').result
    assert result == {"message": "cut ?"}


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()))
)
def test_whatever_is_written_as_a_block_is_read_back(value: dict[str, object]) -> None:
    text = f"Some words.\n```json\n{json.dumps(value, indent=1)}\n```\nMore words."
    found = read(Exit(0), text.split("\n"))
    assert found.result == json.loads(json.dumps(value).encode("utf-8", "replace"))


@given(st.text(alphabet='`~json{}" :\n\r'), st.text(max_size=50))
def test_no_output_is_a_fault_of_ours(stdout: str, stderr: str) -> None:
    found = read(Exit(0, stderr=f"BEADS_RALPH_USAGE {stderr}"), stdout.split("\n"))
    assert found.result is None or isinstance(found.result, dict)


# --- sizes --------------------------------------------------------------------------------------------


def test_a_block_over_a_mebibyte_is_refused() -> None:
    fits = json.dumps({"message": "x" * (MAX_BLOCK - 100)})
    assert reply(f"```json\n{fits}\n```").result is not None
    found = reply(f"```json\n{json.dumps({'message': 'x' * MAX_BLOCK})}\n```")
    assert (found.result, found.trouble) == (None, "unreadable")
    assert "larger than 1024 KiB" in found.detail


def test_a_later_small_block_counts_after_one_that_is_too_large() -> None:
    assert reply(f"```json\n{'x' * (MAX_BLOCK + 1)}\n```\n{BLOCK}").result == PASS


def flood(size: int) -> Iterator[str]:
    line = "x" * 9_999 + "\n"
    yield from (line for _ in range(size // len(line)))
    yield from BLOCK.splitlines(keepends=True)


def test_a_hundred_megabytes_are_read_in_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read(Exit(0), flood(100_000_000))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert found.result == PASS
    assert len(found.text) <= reply_reader.MAX_TEXT
    assert grown < 30_000, f"{grown} KiB more"


def test_the_text_is_the_end_of_what_was_said() -> None:
    found = reply("first\n" + "y" * (2 * reply_reader.MAX_TEXT) + "\nlast words\n\n")
    assert found.text == "last words"
    assert reply("one\ntwo\n").text == "one\ntwo"


def test_of_an_endless_line_only_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"short\r\n" + b"x" * 5_000_000 + b"```json\n" + b"\xff\n" + b"last")
    lines = list(lines_of(path))
    assert [len(line) for line in lines] == [5, MAX_BLOCK + 1, 1, 4]
    assert lines[0] == "short"


def test_lines_end_only_where_a_file_ends_them(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text('```json\n{"message": "a\u2028b\u0085c"}\n```\n', encoding="utf-8")
    assert read(Exit(0), lines_of(path)).result == {"message": "a\u2028b\u0085c"}


# --- notices on stderr --------------------------------------------------------------------------------


def test_a_limit_is_read_from_stderr_as_utc() -> None:
    found = reply(stderr='warming up\nBEADS_RALPH_LIMIT {"reset_at": "2026-03-01T15:30:00+01:00"}\n')
    assert (found.trouble, found.limit_reset_at) == ("limit", "2026-03-01T14:30:00Z")


def test_a_limit_is_never_over_too_early() -> None:
    found = reply(stderr='BEADS_RALPH_LIMIT {"reset_at": "2026-03-01T14:30:00.001Z"}')
    assert found.limit_reset_at == "2026-03-01T14:30:01Z"


def test_a_limit_without_a_time_is_a_limit() -> None:
    for text in ('{"reset_at": null}', "{}"):
        found = reply(stderr=f"BEADS_RALPH_LIMIT {text}")
        assert (found.trouble, found.limit_reset_at) == ("limit", None)


@pytest.mark.parametrize("kind", reply_reader.TROUBLES)
def test_a_program_says_what_its_trouble_is(kind: str) -> None:
    found = reply("all done", f'BEADS_RALPH_TROUBLE {{"kind": "{kind}", "detail": "because"}}')
    assert (found.trouble, found.detail) == (kind, "because")
    assert reply(stderr=f'BEADS_RALPH_TROUBLE {{"kind": "{kind}"}}').trouble == kind


def test_a_limit_goes_before_other_trouble_and_that_before_an_unreadable_result() -> None:
    server = 'BEADS_RALPH_TROUBLE {"kind": "server"}'
    assert reply("```json\n", server).trouble == "server"
    assert reply("", f"BEADS_RALPH_LIMIT {{}}\n{server}").trouble == "limit"


def test_denied_tools_are_named() -> None:
    found = reply(stderr='BEADS_RALPH_DENIED {"tools": ["Bash", "Edit"]}')
    assert (found.denied, found.trouble) == (("Bash", "Edit"), "")


def test_the_script_knows_the_same_troubles() -> None:
    assert script.TROUBLES == reply_reader.TROUBLES


def test_a_limit_goes_before_an_unreadable_result() -> None:
    assert reply("```json\n", 'BEADS_RALPH_LIMIT {"reset_at": null}').trouble == "limit"


@pytest.mark.parametrize(
    "stdout",
    [
        'BEADS_RALPH_LIMIT {"reset_at": "2026-03-01T14:30:00Z"}',
        "429 Too Many Requests: rate limit reached, try again at 14:30",
        'BEADS_RALPH_USAGE {"input_tokens": 5}\nBEADS_RALPH_SESSION abc',
    ],
)
def test_what_stands_on_stdout_is_no_notice(stdout: str) -> None:
    found = reply(stdout)
    assert (found.trouble, found.usage, found.session_id) == ("", Usage(), None)


def test_prose_on_stderr_is_no_notice() -> None:
    found = reply(stderr="error: rate limit\nsee BEADS_RALPH_LIMIT {}\n BEADS_RALPH_LIMIT {}\n")
    assert (found.trouble, found.detail) == ("", "")


def test_of_several_notices_the_last_one_counts() -> None:
    found = reply(
        stderr='BEADS_RALPH_USAGE {"input_tokens": 1}\r\n'
        'BEADS_RALPH_USAGE {"input_tokens": 10, "output_tokens": 2, "cache_tokens": 3, "cost_usd": 1}\r\n'
        "BEADS_RALPH_SESSION first\nBEADS_RALPH_SESSION 0b8e:second.2\n"
    )
    assert found.usage == Usage(10, 2, 3, 1.0)
    assert found.session_id == "0b8e:second.2"


def test_what_a_session_used_in_all_is_told_apart_from_the_call() -> None:
    found = reply(stderr='BEADS_RALPH_USAGE {"input_tokens": 10, "cost_usd": 0.5, "of_session": true}')
    assert (found.usage, found.session_usage) == (Usage(), Usage(input_tokens=10, cost_usd=0.5))


@pytest.mark.parametrize(
    "notice",
    [
        'BEADS_RALPH_LIMIT {"reset_at": "soon"}',
        'BEADS_RALPH_LIMIT {"reset_at": "2026-03-01T14:30:00"}',
        'BEADS_RALPH_LIMIT {"reset_at": "9999-12-31T23:59:59.5Z"}',
        'BEADS_RALPH_LIMIT {"reset_at": 5}',
        "BEADS_RALPH_LIMIT soon",
        "BEADS_RALPH_USAGE 12",
        'BEADS_RALPH_USAGE {"input_tokens": -1}',
        'BEADS_RALPH_USAGE {"input_tokens": 1, "of_session": "yes"}',
        'BEADS_RALPH_USAGE {"input_tokens": true}',
        'BEADS_RALPH_USAGE {"input_tokens": 1.5}',
        'BEADS_RALPH_USAGE {"cost_usd": "1"}',
        "BEADS_RALPH_SESSION --resume",
        "BEADS_RALPH_SESSION two words",
        'BEADS_RALPH_TROUBLE {"kind": "limit"}',
        'BEADS_RALPH_TROUBLE {"kind": "unreadable"}',
        'BEADS_RALPH_TROUBLE {"kind": ["server"]}',
        'BEADS_RALPH_TROUBLE {"kind": "server", "detail": 502}',
        "BEADS_RALPH_TROUBLE server",
        'BEADS_RALPH_DENIED {"tools": "Bash"}',
        'BEADS_RALPH_DENIED {"tools": [""]}',
        'BEADS_RALPH_DENIED ["Bash"]',
    ],
)
def test_a_malformed_notice_is_passed_over_and_named(notice: str) -> None:
    found = reply(BLOCK, stderr=f"{notice}\n")
    assert found == Reply(text=BLOCK.strip(), result=PASS, detail=f"unreadable notice: {notice}")


def test_many_malformed_notices_are_counted() -> None:
    assert reply(stderr="BEADS_RALPH_USAGE x\n" * 10).detail.endswith("; and 7 more")
