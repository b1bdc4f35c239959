"""Every error code that a user can meet, through the real command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.errors import ADVICE, Code
from tests.cli.running import Ran, environment, mason, ralph, run, tree, write
from tests.cli.stand_in import bd_script, path_without_bd, willing_bd
from tests.compile.plans import SEED_BEAD, only, plan, sprint

NOBODY = 65534


def bead_file(repo: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    raw = only(plan(sprint("1.2a", "Schema"))).to_json()
    change(raw)
    return write(repo / "bead.json", json.dumps(raw))


def in_metadata(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda raw: raw["metadata"].update(values)


@dataclass(frozen=True)
class Case:
    """How to produce a code, and what must be said then."""

    code: str
    recoverable: bool
    make: Callable[[Path], Ran]
    place: str = ""
    """A regular expression for what the error must name: file and line, field, command."""
    action: str = "."


def compiling(text: str) -> Callable[[Path], Ran]:
    return lambda repo: mason(write(repo / "plan.md", text), cwd=repo)


def validating(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], Ran]:
    return lambda repo: ralph("validate", bead_file(repo, change), "--json", cwd=repo)


def with_bd(*words: str, **answers: str) -> Callable[[Path], Ran]:
    """A command on the bd store whose bd behaves as told."""

    def made(repo: Path) -> Ran:
        (repo / ".beads").mkdir()
        write(repo / "plan.md", plan(sprint("1.2a", "Work")))
        if any("sleep" in answer for answer in answers.values()):
            write(repo / "beads-ralph.yaml", "bd_timeout: 3s\n")
        path = bd_script(repo.parent / "bin", willing_bd(repo, **answers))
        return ralph(*words, "--store", "bd", "--json", cwd=repo, env={"PATH": path})

    return made


def bd_absent(repo: Path) -> Ran:
    path = path_without_bd(repo.parent / "bin")
    return ralph("ready", "--store", "bd", "--json", cwd=repo, env={"PATH": path})


def bd_too_old(repo: Path) -> Ran:
    (repo / ".beads").mkdir()
    path = bd_script(repo.parent / "bin", "echo 'bd version 0.49.6 (Homebrew)'")
    return ralph("ready", "--store", "bd", "--json", cwd=repo, env={"PATH": path})


def no_bd_database(repo: Path) -> Ran:
    path = bd_script(repo.parent / "bin", willing_bd(repo))
    return ralph("ready", "--store", "bd", "--json", cwd=repo, env={"PATH": path})


def damaged_store(repo: Path) -> Ran:
    write(repo / ".ralph" / "beads.db", "not a database, but long enough to be taken for one" * 50)
    return ralph("list", "--json", cwd=repo)


def twice_inserted(repo: Path) -> Ran:
    path = write(repo / "plan.md", plan(sprint("1.1", "Schema")))
    assert mason(path, cwd=repo).code == 0
    return mason(path, cwd=repo)


def missing_persona(repo: Path) -> Ran:
    write(repo / ".claude" / "agents" / "other.md", "# other\n")
    text = plan(sprint("1.1", "Schema", dev_agents="`python-dev` (sonnet)"))
    return mason(write(repo / "plan.md", text), cwd=repo)


def missing_title(raw: dict[str, Any]) -> None:
    del raw["title"]


PLAN_LINE = r"plan\.md:\d+"

CASES = [
    Case("DATABASE.CLI_NOT_FOUND", False, bd_absent, "bd is not on PATH", "--store embedded"),
    Case("DATABASE.CLI_NOT_FOUND", False, bd_too_old, r"0\.49\.6; 1\.3\.0 or newer", "Install bd"),
    Case("DATABASE.NOT_INITIALIZED", False, no_bd_database, r"no \.beads directory", "beads-ralph init"),
    Case("DATABASE.NOT_INITIALIZED", False, damaged_store, r"beads\.db", "Move"),
    Case(
        "DATABASE.INSERT_FAILED",
        True,
        with_bd("mason", "plan.md", create="""echo '{"error": "constraint failed"}'; exit 1"""),
        r"command: bd create[^\"]*exit code: 1[^\"]*constraint failed",
        r"bd show bd-1-2a-work --json",
    ),
    Case("DATABASE.TIMEOUT", True, with_bd("list", query="sleep 60"), "command: bd query", "again"),
    Case(
        "DATABASE.TIMEOUT",
        True,
        with_bd("mason", "plan.md", export="sleep 60"),
        "command: bd export",
        "again",
    ),
    Case(
        "DATABASE.COMMAND_FAILED",
        True,
        with_bd("list", query="echo broken; exit 4"),
        "command: bd query",
        "hand",
    ),
    Case(
        "DATABASE.BEAD_NOT_FOUND",
        True,
        lambda repo: ralph("show", "bd-nope", "--json", cwd=repo),
        "bd-nope",
        "beads-ralph list",
    ),
    Case(
        "VALIDATION.BEAD_SCHEMA",
        True,
        validating(lambda raw: raw.update(priority="high")),
        r'"field": "priority"',
    ),
    Case(
        "VALIDATION.BEAD_SCHEMA",
        True,
        lambda repo: ralph("validate", write(repo / "b.json", "{\n  oops"), "--json", cwd=repo),
        r'"line": 2',
    ),
    Case("VALIDATION.MISSING_FIELD", True, validating(missing_title), r'"field": "title"', "title|missing"),
    Case(
        "VALIDATION.INVALID_PATTERN",
        True,
        validating(in_metadata(phase="1.2")),
        r'"field": "metadata.phase"',
        r"it should be '1', not '1\.2'",
    ),
    Case(
        "VALIDATION.INVALID_PATTERN",
        True,
        compiling(plan(sprint("1.1", "Schema", branch="`feature/1.1`"))),
        PLAN_LINE + r".*sprint 1\.1.*metadata\.branch",
        r"metadata\.branch",
    ),
    Case("VALIDATION.CONSTRAINT", True, missing_persona, PLAN_LINE, r"\.claude/agents/python-dev\.md"),
    Case(
        "VALIDATION.CONSTRAINT",
        True,
        validating(lambda raw: raw.update(title="  ")),
        r'"field": "title"',
    ),
    Case(
        "DEPENDENCY.UNRESOLVED",
        True,
        compiling(plan(sprint("1.1", "Schema", depends_on="9.9"))),
        PLAN_LINE + ".*9\\.9",
    ),
    Case(
        "DEPENDENCY.UNRESOLVED",
        True,
        compiling(plan(sprint("1.1", "Schema", depends_on="bd-elsewhere"))),
        r"bd-elsewhere.*\"field\": \"dependencies\"",
    ),
    Case(
        "DEPENDENCY.CYCLE_DETECTED",
        True,
        compiling(plan(sprint("1.1", "A", depends_on="1.2"), sprint("1.2", "B"))),
        PLAN_LINE + r".*1\.1.*→.*1\.2.*→.*1\.1",
        "Depends On",
    ),
    Case(
        "DEPENDENCY.DUPLICATE_ID",
        True,
        compiling(plan(sprint("1.1", "A"), sprint("1.1", "B"))),
        PLAN_LINE,
    ),
    Case("DEPENDENCY.DUPLICATE_ID", True, twice_inserted, "bd-1-1-schema", "--check-existing"),
    Case(
        "DEPENDENCY.SELF_DEP",
        True,
        compiling(plan(sprint("1.1", "A", depends_on="1.1"))),
        PLAN_LINE,
        "Depends On",
    ),
    Case("PARSE.MARKDOWN", True, compiling("### Sprint: no number\n"), PLAN_LINE, "### Sprint"),
    Case("PARSE.MARKDOWN", True, compiling("# Nothing here\n"), PLAN_LINE, "### Sprint"),
    Case(
        "PARSE.MISSING_SECTION",
        True,
        compiling("### Sprint 1.1: Bare\n"),
        PLAN_LINE + ".*Source Branch",
        "Add ",
    ),
    Case("PARSE.INVALID_PATTERN", True, compiling("### Sprint 1.1.1: Deep\n"), PLAN_LINE, r"1\.2a"),
    Case(
        "PARSE.INVALID_PATTERN",
        True,
        compiling(plan(sprint("1.1", "A", priority="soon"))),
        PLAN_LINE + ".*soon",
    ),
    Case("IO.FILE_NOT_FOUND", False, lambda repo: mason("nope.md", cwd=repo), r"nope\.md", "path"),
    Case("IO.FILE_NOT_FOUND", False, lambda repo: mason(repo, cwd=repo), "is a directory", "path"),
    Case(
        "IO.NOT_TEXT",
        True,
        lambda repo: mason(write(repo / "plan.md", "# Plan\n\udc80"), cwd=repo),
        r"plan\.md:2",
        "UTF-8",
    ),
    Case(
        "CONFIG.INVALID",
        True,
        lambda repo: (write(repo / "beads-ralph.yaml", "store: paper\n"), ralph("list", "--json", cwd=repo))[
            1
        ],
        r"beads-ralph\.yaml.*\"field\": \"store\"",
        "beads-ralph.yaml",
    ),
    Case(
        "GIT.NOT_REPO",
        True,
        lambda repo: ralph("init", "--json", cwd=repo.parent),
        "not a git repository",
        "git init",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{at}-{case.code}" for at, case in enumerate(CASES)])
def test_s1_n5_1_s1_n5_2_s1_fr10_4_every_code_says_where_and_what_to_do(repo: Path, case: Case) -> None:
    ran = case.make(repo)
    assert ran.code == 1
    error = ran.error
    assert error["code"] == case.code
    assert error["recoverable"] is case.recoverable
    assert set(error) == {"code", "message", "details", "recoverable", "suggested_action"}
    assert error["message"]
    said = json.dumps(error, ensure_ascii=False).replace("\\n", " ")
    assert re.search(case.place, said), said
    actions = [error["suggested_action"]]
    if isinstance(error["details"], dict):
        actions += [row.get("suggested_action", "") for row in error["details"].get("faults", [])]
    assert all(isinstance(action, str) for action in actions)
    assert error["suggested_action"].strip()
    assert any(re.search(case.action, action) for action in actions), actions


def test_s1_n5_1_the_table_covers_every_family_but_formulas() -> None:
    families = ("DATABASE.", "VALIDATION.", "DEPENDENCY.", "PARSE.", "IO.")
    elsewhere = {
        Code.DAEMON_NOT_RUNNING,  # a warning: see below
        Code.PERMISSION_DENIED,  # needs another user: see below
        Code.CONFLICT,  # needs a race: see the stores' own tests
        Code.TOO_LARGE,  # see the tests of bad input
        Code.WRITE_FAILED,
        Code.DISK_FULL,  # see the tests of full disks
    }
    wanted = {str(code) for code in Code if code.startswith(families) and code not in elsewhere}
    assert wanted <= {case.code for case in CASES}


@pytest.mark.parametrize(
    ("family", "recoverable"),
    [("VALIDATION", True), ("DEPENDENCY", True), ("PARSE", True), ("FORMULA", True)],
)
def test_s1_n5_1_whole_families_can_be_mended(family: str, recoverable: bool) -> None:
    flags = {ADVICE[code].recoverable for code in Code if code.startswith(f"{family}.")}
    assert flags == {recoverable}


def test_s1_n5_1_fatal_are_missing_things_and_not_passing_troubles() -> None:
    fatal = {str(code) for code in Code if not ADVICE[code].recoverable}
    assert fatal == {
        "DATABASE.CLI_NOT_FOUND",
        "DATABASE.NOT_INITIALIZED",
        "DATABASE.DAEMON_NOT_RUNNING",
        "IO.FILE_NOT_FOUND",
        "IO.PERMISSION_DENIED",
        "EXECUTION.UNAVAILABLE",
        "INTERNAL.BUG",
    }


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_next_step(code: Code) -> None:
    assert len(ADVICE[code].next_step) > 5


# --- special cases ----------------------------------------------------------------------------------


def test_s1_fr5_3_a_missing_daemon_is_a_warning_and_the_work_goes_on(repo: Path) -> None:
    info = f"""echo '{{"database_path": "{repo}/.beads/db", "daemon_running": false}}'"""
    (repo / ".beads").mkdir()
    path = bd_script(repo.parent / "bin", willing_bd(repo, info=info))
    ran = ralph("list", "--store", "bd", cwd=repo, env={"PATH": path})
    assert ran.code == 0
    assert "daemon is not running" in ran.err


def test_s1_n5_3_a_wrong_phase_is_told_with_field_value_and_remedy(repo: Path) -> None:
    ran = validating(in_metadata(phase="1.2"))(repo)
    (fault,) = ran.error["details"]["faults"]
    assert fault["code"] == "VALIDATION.INVALID_PATTERN"
    assert fault["field"] == "metadata.phase"
    assert fault["message"] == r"field metadata.phase must match pattern ^\d+[a-z]*$"
    assert ran.error["suggested_action"] == "Change metadata.phase: it should be '1', not '1.2'"


def test_s1_n5_4_a_refused_insert_names_the_bead_and_bds_own_words(repo: Path) -> None:
    refusing = """echo '{"error": "duplicate key constraint"}'; exit 1"""
    error = with_bd("mason", "plan.md", create=refusing)(repo).error
    assert error["code"] in ("DATABASE.INSERT_FAILED", "DEPENDENCY.DUPLICATE_ID")
    assert "exit code: 1" in error["details"]
    assert "duplicate key constraint" in error["details"]
    assert "bd show bd-1-2a-work --json" in error["suggested_action"]
    assert error["recoverable"] is True


def test_s1_fr5_9_a_bd_that_hangs_leaves_no_process_behind(repo: Path) -> None:
    """conftest looks for the sleeper."""
    ran = with_bd("mason", "plan.md", create="cat >/dev/null; sleep 300")(repo)
    assert ran.error["code"] == "DATABASE.TIMEOUT"
    assert not list((repo / ".ralph").glob("*.json"))


def test_text_for_people_has_the_code_the_place_and_the_step(repo: Path) -> None:
    path = write(repo / "plan.md", plan(sprint("1.1", "A", depends_on="9.9"), "### Sprint 1.2: B\n"))
    ran = ralph("mason", path, cwd=repo)
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert [line.rpartition("[")[2] for line in lines if line.startswith("error:")] == [
        "DEPENDENCY.UNRESOLVED]",
        "PARSE.MISSING_SECTION]",
    ]
    assert any(line.startswith("  → ") for line in lines)


# --- another user -----------------------------------------------------------------------------------


@pytest.fixture
def shared_repo() -> Iterator[Path]:
    """A repository that another user owns, in a place that he can reach."""
    with tempfile.TemporaryDirectory(prefix="beads-ralph-test-") as name:
        root = Path(name).resolve()
        subprocess.run(["git", "init", "--quiet", "app"], cwd=root, check=True, timeout=60)
        write(root / "app" / "plan.md", plan(sprint("1.1", "Schema")))
        (root / "home").mkdir()
        give_away(root)
        yield root / "app"
        for path in root.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)


def give_away(root: Path) -> None:
    if os.getuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def as_nobody(*words: str, cwd: Path) -> Ran:
    home = str(cwd.parent / "home")
    extra = {"HOME": home, "GIT_CONFIG_GLOBAL": os.devnull, "TMPDIR": home}
    env = {name: value for name, value in environment(extra).items() if not name.startswith("COV")}
    script = str(Path(__file__).parent / "unprivileged.py")
    done = subprocess.run(
        [sys.executable, script, str(NOBODY), *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_another_user_can_do_the_main_job(shared_repo: Path) -> None:
    """Otherwise the refusals below would prove nothing."""
    assert as_nobody("mason", "plan.md", "--annotate", "--json", cwd=shared_repo).data["beads_created"] == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("shut", "mode", "words"),
    [
        ("plan.md", 0o000, ["mason", "plan.md"]),
        ("plan.md", 0o444, ["mason", "plan.md", "--annotate"]),
        (".", 0o555, ["mason", "plan.md"]),
        (".", 0o555, ["mason", "plan.md", "--annotate"]),
        (".", 0o555, ["init"]),
        ("plan.md", 0o000, ["plan", "check", "plan.md"]),
        ("plan.md", 0o000, ["validate", "plan.md"]),
    ],
)
def test_s1_n5_1_permission_denied_is_fatal_and_changes_nothing(
    shared_repo: Path, shut: str, mode: int, words: list[str]
) -> None:
    (shared_repo / shut).chmod(mode)
    before = tree(shared_repo)
    ran = as_nobody(*words, "--json", cwd=shared_repo)
    assert (ran.code, ran.error["code"]) == (1, "IO.PERMISSION_DENIED")
    assert ran.error["recoverable"] is False
    assert str(shared_repo / shut) in ran.error["message"] or shut in ran.error["message"]
    assert tree(shared_repo) == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("shut", "words"),
    [(".beads/formulas", ["list"]), (".beads/formulas/x.formula.toml", ["check", "x"])],
)
def test_a_formula_that_must_not_be_read_is_told(shared_repo: Path, shut: str, words: list[str]) -> None:
    file = shared_repo / ".beads" / "formulas" / "x.formula.toml"
    file.parent.mkdir(parents=True)
    write(file, 'formula = "x"\nsteps = [{id = "a", title = "A"}]\n')
    give_away(shared_repo)
    assert as_nobody("formula", *words, "--json", cwd=shared_repo).code == 0
    (shared_repo / shut).chmod(0)
    ran = as_nobody("formula", *words, "--json", cwd=shared_repo)
    assert (ran.code, ran.error["code"]) == (1, "IO.PERMISSION_DENIED")
    assert shut in ran.error["message"]


def test_a_store_that_must_not_be_written_is_told_and_kept(shared_repo: Path) -> None:
    ran = as_nobody("init", "--json", cwd=shared_repo)
    assert ran.code == 0, ran.out
    (shared_repo / ".ralph" / "beads.db").chmod(0o444)
    (shared_repo / ".ralph").chmod(0o555)
    before = tree(shared_repo)
    ran = as_nobody("mason", "plan.md", "--json", cwd=shared_repo)
    assert (ran.code, ran.error["code"]) == (1, "IO.PERMISSION_DENIED")
    assert tree(shared_repo) == before


def test_demo_in_a_place_that_must_not_be_written(shared_repo: Path) -> None:
    shared_repo.chmod(0o555)
    ran = as_nobody("demo", "--dir", "sub/demo", "--json", cwd=shared_repo)
    assert (ran.code, ran.error["code"]) == (1, "IO.PERMISSION_DENIED")


# --- the validator ----------------------------------------------------------------------------------


def test_s1_t9_a_bead_without_a_title(repo: Path) -> None:
    assert validating(missing_title)(repo).error["code"] == "VALIDATION.MISSING_FIELD"


def test_s1_t10_a_phase_that_is_a_sprint(repo: Path) -> None:
    assert validating(in_metadata(phase="1.2"))(repo).error["code"] == "VALIDATION.INVALID_PATTERN"


def test_s1_fr8_1_faults_on_stderr_each_on_its_line_and_exit_1(repo: Path) -> None:
    def spoil(raw: dict[str, Any]) -> None:
        raw["metadata"].update(phase="1.2", branch="a b")
        del raw["title"]

    path = bead_file(repo, spoil)
    ran = ralph("validate", "-", cwd=repo, stdin=path.read_text(encoding="utf-8"))
    assert (ran.code, ran.out) == (1, "")
    head, *lines = ran.err.splitlines()
    assert head == "Validation errors:"
    assert sorted(lines) == [
        " - field metadata.branch must match pattern ^[a-zA-Z0-9/_-]+$",
        r" - field metadata.phase must match pattern ^\d+[a-z]*$",
        " - field title is required",
    ]
    good = bead_file(repo, lambda raw: None)
    ran = ralph("validate", "-", cwd=repo, stdin=good.read_text(encoding="utf-8"))
    assert (ran.code, ran.out, ran.err) == (0, "✓ Valid bead\n", "")


@pytest.mark.parametrize(
    ("field_name", "good", "bad"),
    [
        ("phase", ["1", "3a", "10"], ["1.2", "a", "3-a"]),
        ("sprint", ["1.1", "1.2a", "3a.2b"], ["1", "1-2", "a.b"]),
    ],
)
def test_s1_fr8_2_phase_and_sprint_patterns(
    repo: Path, field_name: str, good: list[str], bad: list[str]
) -> None:
    def files(values: list[str]) -> list[Path]:
        made = []
        for at, value in enumerate(values):
            phase = value if field_name == "phase" else value.split(".")[0]
            whole = f"{value}.1" if field_name == "phase" else value
            path = bead_file(repo, in_metadata(phase=phase, sprint=whole))
            made.append(path.rename(repo / f"{field_name}-{at}.json"))
        return made

    assert ralph("validate", *files(good), "--json", cwd=repo).code == 0
    error = ralph("validate", *files(bad), "--json", cwd=repo).error
    faults = [row for row in error["details"]["faults"] if row["field"] == f"metadata.{field_name}"]
    assert [row["code"] for row in faults] == ["VALIDATION.INVALID_PATTERN"] * 3


OLD_ONLY = "--schema=legacy"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda raw: raw.update(title=" "), "VALIDATION.CONSTRAINT"),
        (lambda raw: raw.update(status="done"), "VALIDATION.BEAD_SCHEMA"),
        (lambda raw: raw.update(priority=5), "VALIDATION.BEAD_SCHEMA"),
        (lambda raw: raw.update(priority=-1), "VALIDATION.BEAD_SCHEMA"),
        (lambda raw: raw.update(issue_type="task"), "VALIDATION.BEAD_SCHEMA"),
        (lambda raw: raw.update(assignee="me"), "VALIDATION.BEAD_SCHEMA"),
        (in_metadata(rig="other"), "VALIDATION.BEAD_SCHEMA"),
        (in_metadata(dev_model="gpt"), "VALIDATION.BEAD_SCHEMA"),
        (in_metadata(qa_agents=[]), "VALIDATION.BEAD_SCHEMA"),
        (
            lambda raw: raw["metadata"]["qa_agents"][0].update(output_schema={"type": "object"}),
            "VALIDATION.CONSTRAINT",
        ),
    ],
)
def test_s1_fr8_3_s1_fr8_4_the_rules_of_the_first_schema(
    repo: Path, change: Callable[[dict[str, Any]], object], code: str
) -> None:
    raw = json.loads(json.dumps(SEED_BEAD))
    assert ralph("validate", "-", OLD_ONLY, "--json", cwd=repo, stdin=json.dumps(raw)).code == 0
    change(raw)
    ran = ralph("validate", "-", OLD_ONLY, "--json", cwd=repo, stdin=json.dumps(raw))
    assert (ran.code, ran.error["code"]) == (1, code)


def test_a_bug_of_ours_leaves_a_crash_file_and_exit_3(repo: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from beads_ralph.cli.answer import guarded; sys.exit(guarded(lambda: 1 / 0, 'json'))"
    )
    ran = run([sys.executable, "-c", script], cwd=repo, env={"TMPDIR": str(tmp_path)})
    assert (ran.code, ran.error["code"]) == (3, "INTERNAL.BUG")
    crash = Path(str(ran.error["details"]).removeprefix("crash file: "))
    assert crash.parent == tmp_path
    assert "ZeroDivisionError" in crash.read_text(encoding="utf-8")
