"""The commands by which a project checks itself: which there are, and whether they pass.

They are tried on the last commit, in a clone that is thrown away. So nothing is left behind, and what only
works beside files that git does not know is found out here and not at night.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import RalphError
from beads_ralph.git import commands
from beads_ralph.process import jobs, process_tree
from beads_ralph.process.calls import ends_as_ctrl_c
from beads_ralph.process.jobs import Exit, Job
from beads_ralph.process.supervise import MARK

SECONDS: Final = 60.0
"""How long a command may take when it is tried."""
LARGEST: Final = 1024 * 1024
SAID: Final = 100
CHECK: Final = "BEADS_RALPH_CHECK"
"""In the environment of a command that is tried: so all its processes can be found and ended."""
OFFLINE: Final = {
    "CARGO_NET_OFFLINE": "true",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "MAVEN_ARGS": "--offline",
    "npm_config_offline": "true",
    "CI": "true",  # nothing watches files or asks anybody
}
"""Nothing is fetched to try a command."""
TO_FILE: Final = ("/bin/sh", "-c", 'exec >"$1" 2>&1; eval "$2"', "sh")
"""Into a file, and no pipe: what a command leaves running could hold that open."""
NAMES: Final = ("test", "check")
"""Targets and recipes that are checks by their name."""
NO_TEST: Final = re.compile(r"^(Ran 0 tests\b|no tests ran\b)", re.MULTILINE)
"""What passes and has checked nothing."""


@dataclass(frozen=True)
class ProjectCheck:
    """A command, the file that tells of it, and how it ended."""

    command: str
    file: str
    passed: bool | None = None
    """None where it was not tried."""
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        problem = self.problem or None
        return {"command": self.command, "file": self.file, "passed": self.passed, "problem": problem}


def is_agents() -> bool:
    """Whether an agent asks: what it wrote is run as it was told, never because it asks us to."""
    return MARK in os.environ


# --- which there are ----------------------------------------------------------------------------------


def find(folder: Path) -> list[ProjectCheck]:
    """In the order in which people would try them: the project's own entry points first."""
    found = (ProjectCheck(*row) for look in LOOKS for row in look(folder))
    return [*{check.command: check for check in found}.values()]


Row = tuple[str, str]


def _make(folder: Path) -> Iterator[Row]:
    for name in _there(folder, "GNUmakefile", "makefile", "Makefile")[:1]:
        rules = re.findall(r"^([^\t#:=\n][^#:=\n]*):(?!=)", _text(folder / name), re.MULTILINE)
        targets = {target for rule in rules for target in rule.split()}
        yield from ((f"make {target}", name) for target in NAMES if target in targets)


def _just(folder: Path) -> Iterator[Row]:
    for name in _there(folder, "justfile", "Justfile", ".justfile")[:1]:
        recipes = re.findall(r"^@?([\w-]+)[^:=\n]*:(?!=)", _text(folder / name), re.MULTILINE)
        yield from ((f"just {recipe}", name) for recipe in NAMES if recipe in recipes)


def _tox(folder: Path) -> Iterator[Row]:
    marks = {"tox.ini": "[tox]", "setup.cfg": "[tox:tox]", "pyproject.toml": "[tool.tox"}
    yield from (("tox", name) for name in _saying(folder, marks)[:1])
    yield from (("nox", name) for name in _there(folder, "noxfile.py"))


def _python(folder: Path) -> Iterator[Row]:
    """pytest where something speaks of it; else unittest, which every Python has."""
    marks = {"pytest.ini": "", "conftest.py": "", "tests/conftest.py": "", "test/conftest.py": ""}
    marks |= {"pyproject.toml": "[tool.pytest", "setup.cfg": "[tool:pytest]", "tox.ini": "[pytest]"}
    tests = [path for place in ("tests", "test", ".") for path in sorted((folder / place).glob("test*.py"))]
    files = [path.relative_to(folder).as_posix() for path in tests if path.is_file()]
    of_pytest = _saying(folder, marks) or _saying(folder, dict.fromkeys(files, "pytest"))
    if of_pytest:
        yield "python3 -m pytest -q", of_pytest[0]
    elif files:
        inside, _, _ = files[0].rpartition("/")
        yield f"python3 -m unittest discover{f' -s {inside}' if inside else ''}", files[0]


def _node(folder: Path) -> Iterator[Row]:
    for name in _there(folder, "package.json"):
        try:
            script = json.loads(_text(folder / name))["scripts"]["test"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if isinstance(script, str) and script.strip() and "no test specified" not in script:
            locks = {"pnpm-lock.yaml": "pnpm test", "yarn.lock": "yarn test"}
            yield next((locks[lock] for lock in _there(folder, *locks)), "npm test"), name


def _compiled(folder: Path) -> Iterator[Row]:
    yield from (("cargo test", name) for name in _there(folder, "Cargo.toml"))
    yield from (("go test ./...", name) for name in _there(folder, "go.mod"))
    maven = "./mvnw" if _there(folder, "mvnw") else "mvn"
    yield from ((f"{maven} -q test", name) for name in _there(folder, "pom.xml"))
    gradle = "./gradlew" if _there(folder, "gradlew") else "gradle"
    yield from ((f"{gradle} test", name) for name in _there(folder, "build.gradle", "build.gradle.kts")[:1])


LOOKS: Final[Sequence[Callable[[Path], Iterable[Row]]]] = (_make, _just, _node, _compiled, _python, _tox)


def _there(folder: Path, *names: str) -> list[str]:
    return [name for name in names if (folder / name).is_file()]


def _saying(folder: Path, marks: dict[str, str]) -> list[str]:
    """The files that are there and hold their mark."""
    return [name for name in _there(folder, *marks) if marks[name] in _text(folder / name)]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


# --- whether they pass --------------------------------------------------------------------------------


def find_and_try(root: Path, say: Callable[[str], None], seconds: float = SECONDS) -> list[ProjectCheck]:
    """The checks of the last commit, each tried for so long; untried where there is no commit yet."""
    if commands.commit_of("HEAD", root) is None:
        return find(root)
    with tempfile.TemporaryDirectory(prefix="beads-ralph-", ignore_cleanup_errors=True) as place:
        clone = Path(place) / root.name
        try:
            commands.output("clone", "--quiet", "--shared", str(root), str(clone), cwd=root)
            commands.output("remote", "remove", "origin", cwd=clone)  # nothing leads back from it
        except RalphError as problem:
            why = f"HEAD could not be checked out: {one_line(problem.message)}"
            return [replace(check, problem=why) for check in find(root)]
        return [_tried(check, clone, say, seconds) for check in find(clone)]


def _tried(check: ProjectCheck, folder: Path, say: Callable[[str], None], seconds: float) -> ProjectCheck:
    say(f"trying {check.command} (from {check.file}), for {seconds:g} s at most")
    mark, printed = secrets.token_hex(8), folder.with_name(f"{folder.name}.out")
    env = jobs.environment({**OFFLINE, CHECK: mark}, ("GIT_",))
    words = (*TO_FILE, str(printed), check.command)
    try:
        with ends_as_ctrl_c():
            ended = jobs.run(Job(words, folder, env=env, timeout=seconds))
    finally:
        process_tree.sweep(CHECK, mark)
    problem = _problem(ended, _end_of(printed), seconds)
    return replace(check, passed=not problem, problem=problem)


def _end_of(printed: Path) -> str:
    with printed.open("rb") as file:
        file.seek(max(0, printed.stat().st_size - LARGEST))
        return file.read().decode("utf-8", "replace")


def _problem(ended: Exit, printed: str, seconds: float) -> str:
    if ended.timed_out:
        return f"not done after {seconds:g} s"
    said = [line for line in printed.splitlines() if line.strip()]
    if ended.code != 0:
        return f"exit code {ended.code}" + (f": {one_line(said[-1])}" if said else "")
    return "no test ran" if NO_TEST.search("\n".join(said)) else ""


def one_line(text: str) -> str:
    """One line that a comment can hold and a terminal can show."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.split())[:SAID]


# --- how the settings say it ---------------------------------------------------------------------------


WHY: Final = "Commands that must succeed before a bead is closed; without any, it is closed on review alone."


def settings_text(checks: Sequence[ProjectCheck]) -> str:
    """`verify:` below `plan:`; only what passes counts, the rest is there to be looked at."""
    bare = "" if any(check.passed for check in checks) else "# "
    rows = [_row(check, bare) for check in checks] or ["  #   - make test"]
    return "\n".join([f"  # {WHY}", f"  {bare}verify:", *rows]) + "\n"


def _row(check: ProjectCheck, bare: str) -> str:
    if check.passed:
        return f"    - {check.command}"
    how = "failed when init tried it" if check.passed is False else "not tried"
    why = f": {check.problem}" if check.problem else ""
    return f"  {bare}  {'' if bare else '# '}- {check.command}  # {how}{why}"
