"""Known values and the shapes of tokens are redacted; everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beads_ralph.bead import redaction
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.redaction import redact, redacted
from beads_ralph.bead.run_state import LastVerdict, RunState

ROOT = Path("/home/somebody/myproject")
LETTERS = "abcdefghijKLMNOPQRSTuvwxyz0123456789"
TOKENS = [
    f"ghp_{LETTERS}",
    f"gho_{LETTERS}",
    f"github_pat_11ABCDEFG0_{LETTERS}",
    f"sk-{LETTERS}",
    f"sk-ant-api03-{LETTERS}",
    f"sk-proj-{LETTERS}",
    "AKIAIOSFODNN7EXAMPLE",
    f"xoxb-123456789012-{LETTERS}",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    f"npm_{LETTERS}",
    f"pypi-AgEIcHlwaS5vcmc{LETTERS}{LETTERS}",
    "glpat-abcdefghij0123456789",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{LETTERS}",
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nMIIEow==\n-----END RSA PRIVATE KEY-----",
]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    redaction.know({}, (), ROOT)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("around", ["{}", "key={}", "see '{}', please", '{{"x": "{}"}}', "a\n{}\nb"])
def test_the_shapes_of_tokens_are_redacted(token: str, around: str) -> None:
    assert redact(around.format(token)) == around.format("[redacted]")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Authorization: Bearer {LETTERS}", "Authorization: Bearer [redacted]"),
        (f"authorization: basic {LETTERS}", "authorization: basic [redacted]"),
        ("git clone https://me:hunter2@example.org/x", "git clone https://[redacted]@example.org/x"),
        (
            'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
            'aws_secret_access_key = "[redacted]"',
        ),
    ],
)
def test_what_stands_beside_a_secret_stays(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "proven on 0123456789abcdef0123456789abcdef01234567",
        "task-and-risk-assessment-of-the-disk-2024",
        "the sk-learn-pipeline-without-any-number",
        "see https://example.org/a:b/c@d and mail me@example.org",
        "the bearer of bad news; npm_config_cache; pypi-server; -----BEGIN PUBLIC KEY-----",
        "bd-1-1-one  20261116T045135123Z-ab12  550e8400-e29b-41d4-a716-446655440000",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_values_of_named_variables_and_of_those_called_secret_are_known() -> None:
    given = {
        "DEPLOY": "correct horse",
        "MY_TOKEN": 'quo"ted-value',
        "UNNAMED": "stays-here",
        "LONGER": "correct horse battery",
    }
    redaction.know(given, ["DEPLOY", "LONGER", "MISSING"], ROOT)
    assert redact("a correct horse b, correct horse battery") == "a [redacted] b, [redacted]"
    assert redact('quo"ted-value, quo\\"ted-value, stays-here') == "[redacted], [redacted], stays-here"


@pytest.mark.parametrize(
    "value", ["", "1", "true", "dev", "12345", "production", "Production", "/usr", "myproject"]
)
def test_a_value_that_hides_nothing_is_left_alone(value: str) -> None:
    redaction.know({"X": value}, ["X"], ROOT)
    text = f"1 true dev 12345 production Production /usr/bin {ROOT}/x"
    assert redact(text) == text


def test_all_of_a_verdict_is_redacted_but_what_we_find_things_by() -> None:
    redaction.know({"X": "s3cret-value"}, ["X"], ROOT)
    details = {"status": "s3cret-value", "s3cret-value": ["s3cret-value", 7, None], "reason": "x"}
    row = Evidence(
        "s3cret-value", "qa", "echo s3cret-value", "c" * 40, "fail", "no s3cret-value", details=details
    )
    clean = redacted(Verdict("fail", "s3cret-value", [row], ["s3cret-value"]))
    assert "s3cret" not in repr(clean)
    assert clean.evidence[0].details["[redacted]"] == ["[redacted]", 7, None]
    assert (clean.evidence[0].commit, clean.ruling) == (row.commit, "fail")
    kept = RunState(last_verdict=LastVerdict.made(**Verdict("fail", "s3cret-value", [row]).to_json()))
    assert "s3cret" not in repr(kept.to_metadata())


def test_a_bead_named_like_a_value_keeps_its_name() -> None:
    redaction.know({"X": "proj-x"}, ["X"], ROOT)
    told = redacted({"bead": "proj-x-1", "branch": "proj-x/1", "message": "proj-x-1 is done"})
    assert told == {"bead": "proj-x-1", "branch": "proj-x/1", "message": "[redacted]-1 is done"}


@pytest.mark.parametrize(
    "text", ["-----BEGIN PRIVATE KEY-----\n", "eyJ", "://a:", "sk-a", "xoxb-", "bearer ", "aws_secret_key="]
)
def test_no_text_takes_long(text: str) -> None:
    assert len(redact(text * 20_000)) > 0  # in steps of the length, not of its square: that would never end
