"""validate and schema: the exact words, the streams, the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from beads_ralph.bead import schema
from tests.bead.samples import GONE, NEW, OLD, PROJECT, changed, sample, work
from tests.cli.running import RALPH, ralph

AS_NOBODY = (sys.executable, str(Path(__file__).parent.parent / "cli" / "unprivileged.py"), "65534")
MODULE = (*RALPH, "validate")
SCRIPT = (sys.executable, str(PROJECT / "scripts" / "validate-bead-schema.py"))
BOTH = pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
VALID = "✓ Bead schema is valid\n  ID: bd-a1b2c3\n  Sprint: 1.2\n  Phase: 1\n"
OLD_WARNING = "pre-4.1a bead; its agent fields are deprecated"
Ended = subprocess.CompletedProcess[str]


def run(
    command: tuple[str, ...],
    *words: str,
    given: str | bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Ended:
    data = given.encode() if isinstance(given, str) else given
    if command[:3] == RALPH and env is None:
        ran = ralph(*command[3:], *words, stdin=data, cwd=cwd or Path.cwd())
        return Ended(words, ran.code, ran.out, ran.err)
    done = subprocess.run(
        [*command, *words], input=data, capture_output=True, timeout=60, check=False, cwd=cwd, env=env
    )
    return Ended(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def parts(done: Ended) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def write(path: Path, bead: Any) -> str:
    path.write_text(json.dumps(bead), encoding="utf-8")
    return str(path)


# --- one file, as the seed has it -------------------------------------------------------------------


@BOTH
def test_s0_vc1_s0_vc2_a_valid_file(command: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "bead.json", sample("work"))
    assert parts(run(command, path)) == (0, VALID, "")


@BOTH
def test_s0_vc3_an_invalid_file(command: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "bead.json", work("metadata.phase", "1A"))
    text = "✗ Validation errors:\n - field metadata.phase must match pattern ^\\d+[a-z]*$\n"
    assert parts(run(command, path)) == (1, "", text)


@BOTH
def test_s0_vc4_no_argument_on_a_terminal(command: tuple[str, ...]) -> None:
    main, terminal = os.openpty()
    try:
        done = subprocess.run(
            command, stdin=terminal, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
        )
    finally:
        os.close(main)
        os.close(terminal)
    assert parts(done) == (1, "Usage: validate-bead-schema.py <bead.json>\n", "")


def test_s0_vc4_a_script_on_a_terminal_gets_an_envelope_that_says_failure() -> None:
    main, terminal = os.openpty()
    try:
        done = subprocess.run(
            [*MODULE, "--json"], stdin=terminal, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        os.close(main)
        os.close(terminal)
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert (answer["success"], answer["error"]["code"]) == (False, "USAGE.INVALID")


def test_s0_vc1_the_script_starts_by_itself_from_anywhere(tmp_path: Path) -> None:
    path = write(tmp_path / "bead.json", sample("work"))
    assert os.access(SCRIPT[1], os.X_OK)
    assert parts(run(SCRIPT, path, cwd=tmp_path)) == (0, VALID, "")


# --- stdin, as the mason has it ---------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("words", [(), ("-",)])
def test_s0_vc2_a_valid_bead_on_stdin(command: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert parts(run(command, *words, given=json.dumps(sample("work")))) == (0, "✓ Valid bead\n", "")


@pytest.mark.parametrize("words", [(), ("-",)])
def test_s0_vc3_an_invalid_bead_on_stdin(words: tuple[str, ...]) -> None:
    done = run(MODULE, *words, given=json.dumps(work("metadata.sprint", "1")))
    text = "Validation errors:\n - field metadata.sprint must match pattern ^\\d+[a-z]*\\.\\d+[a-z]*$\n"
    assert parts(done) == (1, "", text)


def test_stdin_is_utf_8_whatever_the_locale_says() -> None:
    raw = work("status", "größe")
    done = subprocess.run(
        MODULE,
        input=json.dumps(raw, ensure_ascii=False).encode(),
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 1
    assert "größe" in done.stderr.decode("latin-1")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not valid JSON: Expecting value"),
        (b"\xff\xfe", "<stdin>:1: not UTF-8 text (byte 0xff)"),
        (b'{"a":\n"\xe4"}', "<stdin>:2: not UTF-8 text (byte 0xe4)"),
        (b"{}\0", "<stdin>:1: not a text file"),
        (b"null", "a bead must be a JSON object"),
    ],
)
def test_what_is_no_bead_on_stdin_is_a_fault_not_a_crash(data: bytes, said: str) -> None:
    done = run(MODULE, given=data)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Validation errors:\n - {said}")


def test_a_closed_stdin_is_an_empty_one(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *MODULE],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert b"not valid JSON" in done.stderr


# --- files that cannot be read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON: Expecting value"),
        (b'{"a": ,}', "not valid JSON: Expecting value: line 1"),
        (b'{"a": NaN}', "not valid JSON: NaN is not JSON"),
        (b'{"a": 1e400}', "not valid JSON: a number is too large"),
        (b'{"a": "\\ud800"}', "not valid JSON: half of a surrogate pair"),
        (b"[" * 100_000, "not valid JSON: maximum recursion depth"),
        (b"[" * 400 + b"]" * 400, "not valid JSON: nested more than 100 levels deep"),
        (b"[]", "a bead must be a JSON object"),
        (b"{}", "field id is required"),
        (b"\xe4", "{path}:1: not UTF-8 text (byte 0xe4)"),
        (b"{\n\0}", "{path}:2: not a text file (it holds NUL bytes)"),
    ],
)
def test_s0_vc3_a_file_that_is_no_bead(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bead.json"
    path.write_bytes(content)
    done = run(MODULE, str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"✗ Validation errors:\n - {said.format(path=path)}")


def test_s0_vc3_missing_files_and_directories(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json")
    assert parts(run(MODULE, missing)) == (1, "", f"✗ Validation errors:\n - {missing} does not exist\n")
    text = f"✗ Validation errors:\n - {tmp_path} is a directory, not a file\n"
    assert parts(run(MODULE, str(tmp_path))) == (1, "", text)


def test_s0_vc3_a_file_without_permission() -> None:
    with tempfile.TemporaryDirectory() as folder:  # one that another user may enter
        Path(folder).chmod(0o755)
        path = Path(folder) / "bead.json"
        path.write_text("{}", encoding="utf-8")
        path.chmod(0)
        text = f"✗ Validation errors:\n - cannot read {path}: permission denied\n"
        # Coverage could not write its figures as another user, and would say so.
        env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
        done = run((*AS_NOBODY, "validate"), str(path), cwd=Path(folder), env={**env, "HOME": folder})
        assert parts(done) == (1, "", text)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that fails when read")
def test_s0_vc3_a_file_that_fails_when_read() -> None:
    done = run(MODULE, "/proc/self/mem")
    assert done.returncode == 1
    assert done.stderr.startswith("✗ Validation errors:\n - cannot read /proc/self/mem: ")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "bead.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(sample("work")).encode())
    assert parts(run(MODULE, str(path))) == (0, VALID, "")
    assert run(MODULE, given=path.read_bytes()).stdout == "✓ Valid bead\n"


# --- several faults, several files ------------------------------------------------------------------


def test_s0_vc3_every_fault_at_once_each_with_its_path(tmp_path: Path) -> None:
    raw = work("title", GONE)
    raw = changed({**raw, "status": "done"}, "metadata.branch", "main/1.2")
    raw = changed(raw, "metadata.qa_agents.1.role", "dev")
    done = run(MODULE, write(tmp_path / "bead.json", raw))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "✗ Validation errors:"
    assert [line.split()[2] for line in lines[1:]] == [
        "title",
        "status",
        "metadata.branch",
        "metadata.qa_agents.1.role",
    ]


def test_s0_vc2_several_valid_files_each_below_its_name(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.json", sample("work")), write(tmp_path / "2.json", sample("completed"))
    assert parts(run(MODULE, one, two)) == (0, f"{one}:\n{VALID}{two}:\n{VALID}", "")


def test_s0_vc3_one_bad_file_among_good_ones_fails_and_all_are_told(tmp_path: Path) -> None:
    names = [
        write(tmp_path / "1.json", sample("work")),
        write(tmp_path / "2.json", work("status", "done")),
        str(tmp_path / "none.json"),
        write(tmp_path / "3.json", sample("merge")),
    ]
    done = run(MODULE, *names)
    assert done.returncode == 1
    assert (
        done.stdout
        == f"{names[0]}:\n{VALID}{names[3]}:\n{VALID.replace('bd-a1b2c3', 'bd-m1m2m3').replace('1.2', '1.3')}"
    )
    told = [line[:-1] for line in done.stderr.splitlines() if line.startswith(str(tmp_path))]
    assert told == names[1:3]
    assert "✓" not in done.stderr
    assert done.stderr.count("✗ Validation errors:") == 2


# --- --schema ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OLD)
def test_auto_takes_old_beads_with_a_warning_legacy_without_and_4_1a_not_at_all(
    name: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "bead.json", sample(name))
    auto = run(MODULE, path)
    assert (auto.returncode, auto.stderr) == (0, f"warning: {path}: {OLD_WARNING}\n")
    old = run(MODULE, "--schema", "legacy", path)
    assert parts(old) == (0, auto.stdout, "")
    new = run(MODULE, "--schema", "4.1a", path)
    assert new.returncode == 1
    assert " - field metadata.scrum_master_agent is required\n" in new.stderr


@pytest.mark.parametrize("name", NEW)
def test_auto_is_4_1a_for_new_beads(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bead.json", sample(name))
    assert parts(run(MODULE, path)) == parts(run(MODULE, "--schema", "4.1a", path))
    assert run(MODULE, "--schema", "legacy", path).returncode == 1


def test_who_fails_as_a_legacy_bead_is_told_that_it_was_taken_for_one(tmp_path: Path) -> None:
    path = write(tmp_path / "bead.json", changed(sample("legacy"), "metadata.dev_model", "gpt"))
    done = run(MODULE, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == f"warning: {path}: {OLD_WARNING}"


def test_an_unknown_schema_is_a_mistake_of_usage() -> None:
    done = run(MODULE, "--schema", "5", given="{}")
    assert (done.returncode, done.stdout) == (2, "")


# --- agent files ------------------------------------------------------------------------------------


def agents_folder(root: Path, *names: str) -> None:
    folder = root / ".claude" / "agents"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.md").write_text("You are one.\n", encoding="utf-8")


@BOTH
def test_s0_vc5_s0_as13_s0_as15_s0_as16_agent_files_must_exist(command: tuple[str, ...], repo: Path) -> None:
    agents_folder(repo, "qa-unit-tests", "qa-security-scan")
    path = write(repo / "bead.json", sample("work"))
    text = (
        "✗ Validation errors:\n"
        " - Agent path '.claude/agents/backend-dev.md' does not exist in .claude/agents/\n"
    )
    assert parts(run(command, path, cwd=repo)) == (1, "", text)
    assert parts(run(command, path, "--no-agent-check", cwd=repo)) == (0, VALID, "")
    (repo / ".claude" / "agents" / "backend-dev.md").write_text("x", encoding="utf-8")
    assert parts(run(command, path, cwd=repo)) == (0, VALID, "")


def test_s0_vc5_the_folder_is_the_repositorys_also_from_below(repo: Path) -> None:
    agents_folder(repo)
    (repo / "deep" / "er").mkdir(parents=True)
    done = run(MODULE, given=json.dumps(sample("work")), cwd=repo / "deep" / "er")
    assert done.returncode == 1
    assert done.stderr.count("does not exist in .claude/agents/") == 3


def test_s0_vc5_nothing_is_checked_where_there_is_no_folder_of_agents(repo: Path) -> None:
    assert run(MODULE, given=json.dumps(sample("work")), cwd=repo).returncode == 0


@pytest.mark.parametrize("agent", ["../../x", "a\0b", "x" * 300, "~"])
def test_s0_as15_a_path_that_leads_nowhere_or_outside_is_a_fault_not_a_crash(agent: str, repo: Path) -> None:
    agents_folder(repo, "qa-unit-tests", "qa-security-scan")
    (repo.parent / "x.md").write_text("outside", encoding="utf-8")
    done = run(MODULE, given=json.dumps(work("metadata.dev_agents.0.agent", agent)), cwd=repo)
    shown = agent.replace("\0", "␀")
    assert parts(done) == (
        1,
        "",
        f"Validation errors:\n - Agent path '{shown}' does not exist in .claude/agents/\n",
    )


def test_a_bead_can_be_validated_beside_broken_settings(repo: Path) -> None:
    (repo / "beads-ralph.yaml").write_text("a: [", encoding="utf-8")
    assert run(MODULE, given=json.dumps(sample("work")), cwd=repo).returncode == 0


# --- --json -----------------------------------------------------------------------------------------


def test_the_envelope_of_success(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.json", sample("work")), write(tmp_path / "2.json", sample("legacy"))
    done = run(MODULE, "--json", one, two)
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert list(answer) == ["success", "data", "error"]
    assert (answer["success"], answer["error"]) == (True, None)
    new, old = answer["data"]["files"]
    assert new == {"file": one, "valid": True, "id": "bd-a1b2c3", "warnings": []}
    assert (old["file"], old["valid"], old["id"]) == (two, True, "bd-1-1-schema")
    assert [warning["message"] for warning in old["warnings"]] == [OLD_WARNING]


def test_the_envelope_of_failure_has_every_fault_of_every_file(tmp_path: Path) -> None:
    one = write(tmp_path / "1.json", changed(work("title", GONE), "metadata.phase", "1A"))
    two = write(tmp_path / "2.json", work("metadata.worktree_path", "x"))
    done = run(MODULE, one, two, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    answer = json.loads(done.stdout)
    assert (answer["success"], answer["data"]) == (False, None)
    error = answer["error"]
    assert list(error) == ["code", "message", "details", "recoverable", "suggested_action"]
    assert (error["code"], error["recoverable"]) == ("VALIDATION.MISSING_FIELD", True)
    found = [(fault["code"], fault["file"], fault["field"]) for fault in error["details"]["faults"]]
    assert found == [
        ("VALIDATION.MISSING_FIELD", one, "title"),
        ("VALIDATION.INVALID_PATTERN", one, "metadata.phase"),
        ("VALIDATION.CONSTRAINT", two, "metadata.worktree_path"),
    ]


# --- the schema command -----------------------------------------------------------------------------


def test_s0_ov2_the_schema_command_prints_the_bead_by_default() -> None:
    words = (*RALPH, "schema")
    plain, named = run(words), run(words, "BeadRalphBead")
    assert plain.stdout == named.stdout
    assert json.loads(plain.stdout) == schema.json_schema("Bead")


@pytest.mark.parametrize("name", ["AgentSpec", "LegacyBead", "QAOutput"])
def test_s0_ov2_the_schema_command_prints_any_model(name: str) -> None:
    done = run((*RALPH, "schema"), name)
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed == schema.json_schema(name)


def test_s0_ov2_the_schema_command_refuses_other_names_and_lists_those_there_are() -> None:
    done = run((*RALPH, "schema"), "Beed")
    assert (done.returncode, done.stdout) == (2, "")
    assert all(name in done.stderr for name in schema.MODELS)
