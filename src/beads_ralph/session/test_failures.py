"""How a run of tests failed: by an assertion, as a reproduction must, or by an error such as a misspelt name.

pytest is asked for its report. Of other runners the words that they print are known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from beads_ralph.process.jobs import Exit
from beads_ralph.session import runner_reports

REPORT: Final = "run.xml"
TAIL: Final = 3000
SHOWN: Final = 200
ASSERTED: Final = re.compile(r"(?:[\w.]*\.)?\w*Assert\w*\b|assert\b|Failed: (?!Timeout)")
"""How pytest begins to tell of a failing assertion: also `pytest.fail`, and an error that was not raised."""
ASSERTIONS: Final = re.compile(
    r"AssertionError|AssertionFailed|\bassertion\b.*\bfailed|^FAIL: |^\s*--- FAIL: |expect\(.*\)\.|"
    r"Failure/Error: *(?:expect|assert)|^\s*Failures?: +[1-9]|failures=[1-9]|Failed asserting|"
    r"Assert\.\w+\(\) Failure|Expected .* to (?:be|equal|contain)|Assertion with .* failed",
    re.MULTILINE | re.IGNORECASE,
)
ERRORS: Final = re.compile(
    r"(?:Name|Import|ModuleNotFound|Syntax|Indentation|Tab|Reference|Load|NoMethod)Error\b|"
    r"^ERROR: |errors=[1-9]|\bErrors: +[1-9]|Cannot find module|Test suite failed to run|"
    r"\[(?:build|setup) failed\]|could not compile|error\[E\d+\]|error TS\d+|error CS\d+|COMPILATION ERROR|"
    r"^panic: |uninitialized constant|command not found|No such file or directory",
    re.MULTILINE,
)


@dataclass(frozen=True)
class TestRun:
    """How the tests ended."""

    __test__ = False
    exit_code: int
    asserted: bool
    """It failed, and by assertions alone."""
    trouble: str
    """What it failed by instead; the last words of its output where nothing else is known."""
    ran: int | None
    """None where the runner does not tell."""
    failed: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    is_reported: bool = False
    """Told by a report, test by test."""
    output: str = ""

    @property
    def tells(self) -> bool:
        """Its runner told of its tests."""
        return self.is_reported or self.ran is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "asserted": self.asserted,
            "ran": self.ran,
            "failed": sorted(self.failed),
        }


def asking(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The variable that lets pytest write its report there, in place of one that it was asked for before."""
    said = re.sub(r"--junit-?xml[= ]\S+", "", env.get(runner_reports.OPTIONS, ""))
    told = f"-o junit_family=xunit1 --junitxml={shlex.quote(str(folder / REPORT))}"
    return {runner_reports.OPTIONS: f"{said} {told}".strip()}


def read(ended: Exit, folder: Path, assertion: str = "") -> TestRun:
    """What the report says; else what was printed."""
    text = f"{ended.stdout}\n{ended.stderr}"
    cases = _cases(folder / REPORT)
    if cases and not assertion:
        return _reported(ended, cases, text)
    known = runner_reports.printed(text)
    ran = sum(run.ran for run in known.values()) if known else None
    if assertion:
        asserted, trouble = re.search(assertion, text) is not None, f"nothing matches {assertion!r}"
    else:
        error = ERRORS.search(text)
        asserted = ASSERTIONS.search(text) is not None and error is None
        trouble = _line_at(text, error) if error else _last(text)
    return TestRun(ended.code, ended.code != 0 and asserted, trouble, ran, output=text[-TAIL:])


def _cases(report: Path) -> list[ET.Element]:
    try:
        return list(ET.parse(report).iter("testcase"))  # noqa: S314 - pytest's own, of a run of ours
    except (OSError, ET.ParseError):
        return []


def _reported(ended: Exit, cases: list[ET.Element], text: str) -> TestRun:
    failed = {_name(case): case.find("failure") for case in cases if case.find("failure") is not None}
    errors = [_said(found) for case in cases if (found := case.find("error")) is not None]
    errors += [_said(row) for row in failed.values() if row is not None and not ASSERTED.match(_said(row))]
    skipped = {_name(case) for case in cases if case.find("skipped") is not None}
    broken = {_name(case) for case in cases if case.find("error") is not None}
    passed = {_name(case) for case in cases} - set(failed) - skipped - broken
    return TestRun(
        ended.code,
        ended.code != 0 and bool(failed) and not errors,
        errors[0][:SHOWN] if errors else _last(text),
        len(cases) - len(skipped),
        frozenset(failed),
        frozenset(passed),
        is_reported=True,
        output=text[-TAIL:],
    )


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")


def _said(row: ET.Element) -> str:
    """Its message; of a file that could not be collected, the line of the error."""
    message = (row.get("message") or "").strip()
    quoted = re.search(r"^E\s+(\S.*)$", row.text or "", re.MULTILINE)
    return quoted[1] if quoted and message in ("", "collection failure") else message


def _line_at(text: str, found: re.Match[str]) -> str:
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.start())
    return text[start : end if end >= 0 else None].strip()[:SHOWN]


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:SHOWN] if lines else "it printed nothing"
