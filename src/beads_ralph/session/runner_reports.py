"""How many tests a verifier ran: by pytest's own report, else by the summary that a known runner prints.

Code under test can end its interpreter with exit code 0 before anything is judged. Where a runner told of its
tests before the work began, it must do so afterwards, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.words import plural
from beads_ralph.git import objects
from beads_ralph.git.objects import ObjectReader
from beads_ralph.process.jobs import Transcript

OPTIONS: Final = "PYTEST_ADDOPTS"
REPORT: Final = "pytest.xml"
READ: Final = 1024 * 1024
"""So much of the end of an output is searched for summaries."""
HEAD: Final = 4096
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
SUITE: Final = re.compile(r"<testsuite [^>]*>")
COUNT: Final = re.compile(r'\b(tests|failures|errors|skipped|skips)="(\d+)"')
OWN_REPORT: Final = re.compile(rb"junit-?xml|no:junit")
"""Who makes such a report already gets no other."""
PLACES: Final = (
    "*.ini",
    "*.cfg",
    "*.toml",
    "*.mk",
    "*akefile",
    "*ustfile",
    "*.sh",
    "noxfile.py",
    "package.json",
)
PLAIN_PYTEST: Final = re.compile(
    r"(?:cd [\w./-]+ && )?(?:\w+=[\w./:$-]* )*(?:(?:uv|poetry|pdm|hatch) run )?"
    r"(?:\S*python[\d.]* -m )?(?:\S*/)?pytest(?: [^|;&<>`$]*)?"
)
OTHER_USES: Final = re.compile(
    r"--(?:collect|co\b|version|help|fixtures|markers|setup-plan|cache-show)|(?:^| )-h\b|PYTEST_ADDOPTS|junit"
)


@dataclass(frozen=True)
class TestsRun:
    """What a runner says of a run of its tests."""

    __test__ = False
    ran: int
    """Those that were neither skipped nor left out; for go, packages."""
    failed: int = 0
    skipped: int = 0
    reported: bool = False
    """Told by a report that only we asked for, and not by what was printed."""


Tests = Mapping[str, TestsRun]
"""By the name of the runner."""


def to_json(tests: Tests) -> dict[str, Any]:
    return {runner: asdict(run) for runner, run in tests.items()}


def of_json(said: Any) -> dict[str, TestsRun]:
    """What a bead remembers; what cannot be read of it is left out."""
    rows = said.items() if isinstance(said, Mapping) else ()
    return {runner: TestsRun(**row) for runner, row in rows if _is_readable(row)}


def _is_readable(row: Any) -> bool:
    kinds = {"ran": int, "failed": int, "skipped": int, "reported": bool}
    if not isinstance(row, Mapping) or "ran" not in row:
        return False
    return all(name in kinds and isinstance(value, kinds[name]) for name, value in row.items())


# --- asking and reading -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def may_ask(repo: Path, base: str) -> bool:
    """Whether pytest can be asked for a report: not where the project asks it for one of its own."""
    with objects.of(repo) as reader:
        files = reader.files(base).items()
        asked = {entry.id for name, entry in files if any(fnmatchcase(name, place) for place in PLACES)}
        return not any(_asks(reader, id_) for id_ in sorted(asked))


def _asks(reader: ObjectReader, file: str) -> bool:
    said = reader.content(file)
    return OWN_REPORT.search(said) is not None and not objects.is_binary(said)


def asking(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The variable that lets every pytest below write its report into the folder."""
    told = f"-o junit_family=xunit1 --junitxml={shlex.quote(str(folder / REPORT))}"
    return {OPTIONS: f"{env.get(OPTIONS, '')} {told}".strip()}


def read(folder: Path | None, transcript: Transcript) -> Tests:
    """What was printed at the end, and the report in the folder."""
    found = printed("\n".join(_end_of(path) for path in (transcript.out, transcript.err)))
    report = _report(folder / REPORT) if folder else None
    return {**found, "pytest": report} if report else found


def _report(path: Path) -> TestsRun | None:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD).decode("utf-8", "replace")
    except OSError:
        return None
    suite = SUITE.search(head)
    said = {name: int(number) for name, number in COUNT.findall(suite.group())} if suite else {}
    if "tests" not in said:
        return None
    skipped = said.get("skipped", said.get("skips", 0))
    failed = said.get("failures", 0) + said.get("errors", 0)
    return TestsRun(max(said["tests"] - skipped, 0), failed, skipped, reported=True)


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ))
            return COLOURS.sub("", file.read().decode("utf-8", "replace"))
    except OSError:
        return ""


# --- what runners print -------------------------------------------------------------------------------

SUMMARIES: Final[Mapping[str, str]] = {
    "pytest": r"^=*\s*(?P<words>(?:\d+ [a-z]+(?: passed)?(?:, )?)+|no tests ran) in \d[\d.:, ()]*s\b.*$",
    "unittest": (
        r"^Ran (?P<total>\d+) tests? in [\d.]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \((?P<words>.*)\))?$"
    ),
    "cargo": r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored",
    "nextest": r"^\s*Summary \[.*\] +[\d/]+ tests? run:(?P<words>.*)$",
    "go": (
        r"^(?:ok|(?P<lost>FAIL))[ \t]+\S+[ \t]+(?!.*\[no tests to run\])"
        r"(?:[\d.]+s|\(cached\)|\[build failed\])"
    ),
    "jest": r"^Tests: +(?P<words>.*?)(?P<total>\d+) total$",
    "vitest": r"^ *Tests  +(?P<words>.*?)\((?P<total>\d+)\)",
    "mocha": r"^ +(?P<passed>\d+) passing \(.*\)(?:\n +\d+ pending)?(?:\n +(?P<failed>\d+) failing)?",
    "node": r"^[#\u2139] tests (?P<total>\d+)\n(?P<words>(?:[#\u2139] \w+ [\d.]+\n)*)",
    "rspec": r"^(?P<total>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) pending)?",
    "minitest": r"^(?P<total>\d+) (?:runs|tests), \d+ assertions, (?P<words>.*)$",
    "exunit": r"^(?P<total>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) skipped)?$",
    "phpunit": r"^(?:OK \((?P<good>\d+) tests?,.*|Tests: (?P<total>\d+), Assertions: \d+(?P<words>.*))$",
    "surefire": (
        r"^(?:\[\w+\] +)?Tests run: (?P<total>\d+), (?P<words>Failures: \d+, Errors: \d+, Skipped: \d+)\s*$"
    ),
    "dotnet": (
        r"^\s*(?:Passed|Failed)! +- (?P<words>Failed: +\d+, Passed: +\d+, Skipped: +\d+), "
        r"Total: +(?P<total>\d+)"
    ),
    "ctest": r"^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<total>\d+)",
}
"""By runner, the lines that close a run of its tests."""
PATTERNS: Final = {name: re.compile(text, re.MULTILINE) for name, text in SUMMARIES.items()}
FAILURE: Final = re.compile(
    r"(?:fail\w*|errors?)[=: ]+(\d+)|(\d+) (?:failed|failures?|errors?)\b", re.IGNORECASE
)
SKIP: Final = re.compile(
    r"(?:skip\w*|todo|pending)[=: ]+(\d+)|(\d+) (?:skipped|skips|todo|pending|ignored)\b", re.IGNORECASE
)
PASS: Final = re.compile(r"(\d+) (?:passed|xpassed|xfailed)\b")


def printed(text: str) -> dict[str, TestsRun]:
    """What the summaries of each runner say together."""
    found = {}
    for runner, pattern in PATTERNS.items():
        if rows := [_counted(match.groupdict()) for match in pattern.finditer(text)]:
            ran, failed, skipped = (sum(numbers) for numbers in zip(*rows, strict=True))
            found[runner] = TestsRun(ran, failed, skipped)
    return found


def _counted(said: Mapping[str, str | None]) -> tuple[int, int, int]:
    """How many ran, failed and were skipped, of one summary."""
    words = said.get("words") or ""
    failed = int(said.get("failed") or 0) + _sum(FAILURE, words) + (said.get("lost") is not None)
    skipped = int(said.get("skipped") or 0) + _sum(SKIP, words)
    if (total := said.get("total") or said.get("good")) is not None:
        return max(int(total) - skipped, 0), failed, skipped
    if "passed" in said:
        return int(said["passed"] or 0) + failed, failed, skipped
    if "words" in said:
        return _sum(PASS, words) + failed, failed, skipped
    return 1, failed, 0  # a line of its own for each package


def _sum(pattern: re.Pattern[str], words: str) -> int:
    return sum(int(number) for match in pattern.finditer(words) for number in match.groups() if number)


# --- whether that will do -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Before:
    """How a verifier ended before the work began, and the tests that it told of."""

    passed: bool
    tests: Tests


def problem(command: str, now: Tests, before: Before | None, *, asked: bool) -> str:
    """Why a command that ended well has shown nothing; empty where it has. `asked`: pytest was asked for its
    report."""
    known = before.tests if before else {}
    for runner, run in known.items():
        if runner not in now or (run.reported and not now[runner].reported):
            said = "wrote no report" if run.reported else "printed no summary"
            ended = f"{runner} did not come to its end: it {said}, as it did before the work began"
            return f"{ended}{_instead(now, known)}"
    if "pytest" not in known and asked and is_plain(command) and not (before and before.passed):
        if "pytest" not in now or not now["pytest"].reported:
            return "pytest did not come to its end: it wrote no report"
        known = {**known, "pytest": TestsRun(0)}
    for runner, run in known.items():
        if before and before.passed and (run.failed or not run.ran):
            continue  # it ends well whatever its tests say
        if why := _unproven(runner, now[runner], command):
            return why
    return ""


def _instead(now: Tests, known: Tests) -> str:
    """The way out where the work is to bring another runner."""
    others = sorted(now.keys() - known.keys())
    ran = f"; {' and '.join(others)} ran instead" if others else ""
    return (
        f"{ran}. A sprint that changes the runner declares the files that name it in the plan: **May Change**"
    )


def _unproven(runner: str, now: TestsRun, command: str) -> str:
    if now.failed and "|" not in command:
        return f"{_plural(runner, now.failed)} of {runner} failed, although the exit code says otherwise"
    if now.ran == 0:
        return f"{runner} ran nothing" + (f": {_plural(runner, now.skipped)} skipped" if now.skipped else "")
    return ""


def is_plain(command: str) -> bool:
    """Whether the command runs pytest and nothing else, so that its report must come."""
    return PLAIN_PYTEST.fullmatch(command.strip()) is not None and not OTHER_USES.search(command)


def fewer(name: str, now: Tests, before: Tests) -> list[str]:
    """Fewer tests than there were, in words."""
    runners = [runner for runner in before if runner in now and now[runner].ran < before[runner].ran]
    return [
        f"{name}: {_plural(runner, now[runner].ran)} ran, {before[runner].ran} before the work began"
        for runner in runners
    ]


def _plural(runner: str, number: int) -> str:
    return plural(number, "package" if runner == "go" else "test")
