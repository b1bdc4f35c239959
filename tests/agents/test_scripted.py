"""The scripted agent: every step, done by the real program in a real repository."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from beads_ralph.agents import script
from beads_ralph.agents.adapters.scripted import Scripted
from beads_ralph.agents.protocol import AGENTS, Reply
from beads_ralph.agents.script import ScriptCall, ScriptStep
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit
from tests.agents import running
from tests.agents.running import end_group, git, spec, task, transcript, until

SCRIPTED = AGENTS["scripted"]
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "scripted-agent.md"


def written(folder: Path, beads: Any) -> Path:
    path = folder / "script.yaml"
    path.write_text(yaml.safe_dump({"beads": beads}, sort_keys=False), encoding="utf-8")
    return path


def play(repo: Path, *steps: dict[str, Any], role: str = "dev", **fields: Any) -> tuple[Exit, Reply]:
    """A call of an agent whose script is these steps."""
    return follow(repo, written(repo.parent, {"*": {role: list(steps)}}), role=role, **fields)


def follow(repo: Path, path: Path, **fields: Any) -> tuple[Exit, Reply]:
    asked = task(repo, spec(options=["--script", str(path)]), **fields)
    return running.call(SCRIPTED, asked, repo.parent)


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- where the script comes from ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"env": {"BEADS_RALPH_SCRIPT": "a.yaml"}}, "a.yaml"),
        ({"options": ["--script", "a.yaml"]}, "a.yaml"),
        ({"options": ["--dangerously-skip-permissions", "--script=a.yaml"]}, "a.yaml"),
        ({"options": ["--script", "b.yaml"], "env": {"BEADS_RALPH_SCRIPT": "a.yaml"}}, "b.yaml"),
        ({"options": ["--script"]}, None),
        ({}, None),
    ],
)
def test_a_script_is_named_by_options_or_env(
    tmp_path: Path, fields: dict[str, Any], named: str | None
) -> None:
    job = SCRIPTED.command(task(tmp_path, spec(**fields)), transcript(tmp_path))
    assert running.environment(job).get("BEADS_RALPH_SCRIPT") == named
    assert "a.yaml" not in job.argv


@pytest.mark.parametrize(
    ("fields", "named"), [({}, "run.yaml"), ({"options": ["--script", "a.yaml"]}, "a.yaml")]
)
def test_agents_that_name_no_script_follow_that_of_the_run(
    tmp_path: Path, fields: dict[str, Any], named: str
) -> None:
    scripted = Scripted({"BEADS_RALPH_SCRIPT": "run.yaml"})
    job = scripted.command(task(tmp_path, spec(**fields)), transcript(tmp_path))
    assert running.environment(job)["BEADS_RALPH_SCRIPT"] == named


def test_a_worktree_cannot_stand_in_for_our_libraries(repo: Path) -> None:
    for name in ("yaml.py", "json.py", "beads_ralph.py"):
        (repo / name).write_text("raise SystemExit('caught')\n", encoding="utf-8")
    ended, _ = play(repo, {"say": "unmoved"})
    assert (ended.code, ended.stdout) == (0, "unmoved\n")


def test_the_player_starts_without_the_heavy_modules() -> None:
    """Plans are rehearsed with hundreds of calls; loading the models takes longer than all the rest."""
    code = "import sys, beads_ralph.agents.script_player; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"False\n"


# --- which steps --------------------------------------------------------------------------------------

BEADS = {
    "bd-1-1-setup": {"dev": [{"say": "exact"}], "qa:security": [{"say": "security"}]},
    "3a.*": {"dev": [{"say": "sprint"}]},
    "bd-2-*": {"dev": [[{"say": "one"}], [], [{"say": "three"}, {"crash": 1}]]},
    "*": {"dev": [{"say": "any"}], "qa": [{"say": "other qa"}], "merge": []},
}


@pytest.mark.parametrize(
    ("bead", "role", "agent", "attempt", "said"),
    [
        ("bd-1-1-setup", "dev", "", 1, ["exact"]),
        ("bd-1-1-setup", "qa", "security", 1, ["security"]),
        ("bd-1-1-setup", "qa", "unit", 1, ["other qa"]),
        ("bd-3a-2b-api", "dev", "", 4, ["sprint"]),
        ("my-app-3a-1", "dev", "", 1, ["sprint"]),
        ("bd-2-1-x", "dev", "", 1, ["one"]),
        ("bd-2-1-x", "dev", "", 2, []),
        ("bd-2-1-x", "dev", "", 3, ["three", 1]),
        ("bd-2-1-x", "dev", "", 9, ["three", 1]),
        ("other", "dev", "", 1, ["any"]),
        ("other", "merge", "", 1, []),
    ],
)
def test_the_first_entry_that_matches_counts(
    tmp_path: Path, bead: str, role: str, agent: str, attempt: int, said: list[str | int]
) -> None:
    beads = script.load(written(tmp_path, BEADS))
    steps = script.steps_for(beads, ScriptCall(bead, role, agent, attempt))
    assert [step.value for step in steps] == said


def test_a_qa_agent_without_an_entry_passes(repo: Path) -> None:
    _, reply = play(repo, {"say": "dev"}, bead_id="bd-1-1-a")
    assert reply.result is None
    _, reply = follow(repo, repo.parent / "script.yaml", role="qa")
    assert (reply.result or {})["status"] == "pass"


def test_another_role_without_an_entry_is_a_fault_of_the_script(repo: Path) -> None:
    ended, _ = follow(repo, written(repo.parent, {"1.1": {"qa": []}}))
    assert ended.code == 2
    assert "the script has no dev entry for bd-1-1-setup" in ended.stderr


# --- bad scripts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "must be a mapping with the key 'beads'"),
        ("[1]", "must be a mapping with the key 'beads'"),
        ("beads: {}", "must be a mapping with the key 'beads'"),
        ("beads: {a: {dev: []}}\nbaeds: 1", "unknown key 'baeds'"),
        ("beads: {a: [1]}", "beads.a: must be a mapping of roles"),
        ("beads: {a: {dve: []}}", "beads.a: unknown role 'dve'; did you mean 'dev'?"),
        ("beads: {a: {dev: 1}}", "beads.a.dev: must be a list"),
        ("beads: {a: {dev: [1]}}", "beads.a.dev[0]: a step is one 'kind: value'"),
        ("beads: {a: {dev: [{say: a, err: b}]}}", "beads.a.dev[0]: a step is one"),
        (
            "beads: {a: {dev: [[{wirte: {}}]]}}",
            "beads.a.dev[0][0]: unknown step 'wirte'; did you mean 'write'?",
        ),
        ("beads: {a: {dev: [{say: x}, [{say: y}]]}}", "beads.a.dev[1]: a step is one"),
        ("beads: {a: {dev: [{once: {say: x}}]}}", "beads.a.dev[0].once: must be a list of steps"),
        ("beads: {a: {dev: [{once: [{says: x}]}]}}", "beads.a.dev[0].once[0]: unknown step 'says'"),
        ("beads: {a: {dev: [{zzz: 1}]}}", "known: write, append"),
        ("beads: {a: {dev: [{write: text}]}}", "write takes {path: text}, not 'text'"),
        ("beads: {a: {dev: [{delete: []}]}}", "delete takes"),
        ("beads: {a: {dev: [{crash: SIGNOPE}]}}", "crash takes"),
        ("beads: {a: {dev: [{crash: true}]}}", "crash takes"),
        ("beads: {a: {dev: [{sleep: -1}]}}", "sleep takes"),
        ("beads: {a: {dev: [{flood: {to: out}}]}}", "flood takes"),
        ("beads: {a: {dev: [{spawn: {cuont: 1}}]}}", "spawn takes"),
        ("beads: {a: {dev: [{hang: false}]}}", "hang takes"),
        ("beads: {a: {dev: [{lie: 1}]}}", "lie takes"),
        ("beads: {a: {dev: [{limit: {reset_in: soon}}]}}", "limit takes"),
        ("beads: {a: {dev: [{trouble: {kind: limit}}]}}", "trouble takes"),
        ("beads: {a: {dev: [{trouble: {detail: x}}]}}", "trouble takes"),
        ("beads: {a: {dev: [{denied: 1}]}}", "denied takes"),
        ("beads: {a: [", "not valid YAML"),
        ("beads: {a: 2026-99-99}", "a"),
    ],
)
def test_a_bad_script_is_a_clear_error(repo: Path, content: str, complaint: str) -> None:
    path = repo.parent / "script.yaml"
    path.write_text(content, encoding="utf-8")
    ended, _ = follow(repo, path)
    assert ended.code == 2
    assert f"scripted agent: {path}" in ended.stderr
    assert complaint in ended.stderr
    assert "Traceback" not in ended.stderr


def test_all_faults_of_a_script_are_named_before_any_step_is_taken(repo: Path) -> None:
    ended, _ = play(repo, {"write": {"early": "x"}}, {"nope": 1}, {"sleep": "long"})
    assert ended.code == 2
    assert len(ended.stderr.strip().split("\n")) == 2
    assert not (repo / "early").exists()


def test_a_missing_script_is_a_clear_error(repo: Path) -> None:
    ended, _ = follow(repo, repo.parent / "nowhere.yaml")
    assert (ended.code, "nowhere.yaml does not exist" in ended.stderr) == (2, True)


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({}, "BEADS_RALPH_ATTEMPT is not set"),
        ({"BEADS_RALPH_ATTEMPT": "0"}, "must be 1 or more"),
        ({"BEADS_RALPH_ATTEMPT": "1"}, "BEADS_RALPH_BEAD is not set"),
        (
            {"BEADS_RALPH_ATTEMPT": "1", "BEADS_RALPH_BEAD": "b", "BEADS_RALPH_ROLE": "dev"},
            "BEADS_RALPH_SCRIPT is not set",
        ),
    ],
)
def test_a_call_by_hand_says_what_is_missing(tmp_path: Path, env: dict[str, str], complaint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beads_ralph.agents.script_player"],
        env={**os.environ, **env},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, complaint in done.stderr) == (2, True)


# --- work ---------------------------------------------------------------------------------------------


def test_it_really_edits_and_commits(repo: Path) -> None:
    (repo / "old.txt").write_text("old", encoding="utf-8")
    ended, reply = play(
        repo,
        {"write": {"src/app.py": "print('ü')\n", "crlf.txt": "a\r\nb"}},
        {"append": {"README.md": "more\n", "new.txt": "made\n"}},
        {"delete": ["old.txt", "never-there"]},
        {"commit": "--amend is not a flag here"},
        {"say": "Done."},
        session_id="s-3",
    )
    assert ended.ok, ended.stderr
    assert git("log", "--format=%s %an", cwd=repo).split("\n") == [
        "--amend is not a flag here Test Author",
        "first Test Author",
    ]
    assert git("status", "--porcelain", cwd=repo) == ""
    assert text(repo / "src" / "app.py") == "print('ü')\n"
    assert (repo / "crlf.txt").read_bytes() == b"a\r\nb"
    assert text(repo / "README.md") == "# app\nmore\n"
    assert not (repo / "old.txt").exists()
    assert (reply.text, reply.session_id) == ("Done.", "s-3")


def test_a_call_can_be_repeated(repo: Path) -> None:
    steps: tuple[dict[str, Any], ...] = ({"write": {"a": "1"}}, {"commit": "a"})
    assert [play(repo, *steps)[0].code for _ in range(2)] == [0, 0]
    assert git("rev-list", "--count", "HEAD", cwd=repo) == "2"


def test_fail_twice_then_pass(repo: Path) -> None:
    path = written(
        repo.parent,
        {
            "1.1": {
                "qa": [
                    [{"json": {"status": "fail", "message": "one"}}],
                    [{"json": {"status": "fail", "message": "two"}}],
                    [{"json": {"status": "pass", "message": "three"}}],
                ]
            }
        },
    )
    results = [follow(repo, path, role="qa", attempt=n)[1].result for n in (1, 2, 3, 4)]
    assert [(result or {})["message"] for result in results] == ["one", "two", "three", "three"]


def test_once_is_taken_once_in_all_worktrees_of_a_repository(repo: Path) -> None:
    steps: list[dict[str, Any]] = [{"once": [{"limit": {"reset_in": 5}}]}, {"say": "went on"}]
    assert play(repo, *steps)[1].trouble == "limit"
    git("worktree", "add", "--quiet", "../other", cwd=repo)
    _, reply = follow(repo.parent / "other", repo.parent / "script.yaml")
    assert (reply.trouble, reply.text) == ("", "went on")
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_command_is_run_in_the_worktree_and_its_failure_ends_the_call(repo: Path) -> None:
    ended, _ = play(repo, {"run": "echo out; echo err >&2; pwd > where"}, {"run": "exit 3"}, {"say": "no"})
    assert ended.code == 1
    assert ended.stdout == "out\n"
    assert "err\n" in ended.stderr
    assert "'exit 3' exited with 3" in ended.stderr
    assert text(repo / "where").strip() == str(repo)


def test_it_can_check_and_keep_its_prompt(repo: Path) -> None:
    steps: tuple[dict[str, Any], ...] = ({"prompt": "told.txt"}, {"expect": "2 tests failed"})
    assert play(repo, *steps, prompt="Note:\r\n2 tests failed")[0].ok
    assert (repo / "told.txt").read_bytes() == b"Note:\r\n2 tests failed"
    ended, _ = play(repo, *steps, prompt="Build it.")
    assert (ended.code, "does not say '2 tests failed'" in ended.stderr) == (1, True)


def test_it_can_work_outside_its_worktree_as_a_careless_agent_would(repo: Path) -> None:
    assert play(repo, {"write": {"../stray.txt": "x"}})[0].ok
    assert text(repo.parent / "stray.txt") == "x"


def test_failures_of_the_world_are_told_without_a_traceback(repo: Path) -> None:
    (repo / "file").write_text("", encoding="utf-8")
    ended, _ = play(repo, {"write": {"file/below": "x"}})
    assert (ended.code, "cannot write file/below" in ended.stderr) == (1, True)
    (repo / ".git" / "index.lock").touch()
    ended, _ = play(repo, {"commit": "x"})
    assert (ended.code, "index.lock" in ended.stderr) == (1, True)
    assert "Traceback" not in ended.stderr


def test_a_commit_that_a_hook_refuses_is_told(repo: Path) -> None:
    running.executable(repo / ".git" / "hooks" / "pre-commit", "#!/bin/sh\necho not today >&2\nexit 1\n")
    ended, _ = play(repo, {"write": {"a": "1"}}, {"commit": "x"})
    assert (ended.code, "not today" in ended.stderr) == (1, True)


# --- words --------------------------------------------------------------------------------------------


def test_usage_and_errors_go_to_stderr(repo: Path) -> None:
    ended, reply = play(repo, {"err": "hm"}, {"usage": {"input_tokens": 5, "cost_usd": 0.25}})
    assert "hm\n" in ended.stderr
    assert reply.usage == Usage(input_tokens=5, cost_usd=0.25)
    assert ended.stdout == ""


def test_a_limit_ends_the_call_with_its_reset_time(repo: Path) -> None:
    before = datetime.now(UTC)
    ended, reply = play(repo, {"limit": {"reset_in": 90}}, {"say": "too late"})
    assert (ended.code, ended.stdout, reply.trouble) == (1, "", "limit")
    reset = datetime.fromisoformat(reply.limit_reset_at or "")
    assert reset >= before + timedelta(seconds=90)


def test_a_limit_may_have_no_time(repo: Path) -> None:
    _, reply = play(repo, {"limit": {"reset_in": None}})
    assert (reply.trouble, reply.limit_reset_at) == ("limit", None)


def test_trouble_ends_the_call_by_its_name(repo: Path) -> None:
    ended, reply = play(repo, {"trouble": {"kind": "server", "detail": "502"}}, {"say": "too late"})
    assert (ended.code, ended.stdout, reply.trouble, reply.detail) == (1, "", "server", "502")


@pytest.mark.parametrize("tools", ["Bash", ["Bash", "Edit"]])
def test_denied_tools_are_told(repo: Path, tools: str | list[str]) -> None:
    ended, reply = play(repo, {"denied": tools}, {"say": "and on"})
    assert (ended.code, ended.stdout) == (0, "and on\n")
    assert list(reply.denied) == ([tools] if isinstance(tools, str) else tools)


@pytest.mark.parametrize("role", ["dev", "qa", "scrum-master"])
def test_a_lie_claims_success_and_does_nothing(repo: Path, role: str) -> None:
    ended, reply = play(repo, {"lie": True}, role=role)
    assert ended.ok
    assert "all pass" in reply.text
    assert (reply.result or {}).get("success" if role == "scrum-master" else "status") in (True, "pass")
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_lie_in_words_of_ones_own(repo: Path) -> None:
    assert play(repo, {"lie": "Trust me."})[1].text.startswith("Trust me.")


@pytest.mark.parametrize("name", ["check.sh", "test_app.py"])
def test_an_edited_gate_checks_nothing(repo: Path, name: str) -> None:
    running.executable(repo / name, "exit 1\n" if name.endswith("sh") else "raise SystemExit(1)\n")
    assert play(repo, {"edit_gate": name})[0].ok
    runner = "sh" if name.endswith("sh") else sys.executable
    assert subprocess.run([runner, name], cwd=repo, timeout=60, check=False).returncode == 0
    assert os.access(repo / name, os.X_OK)


def test_a_gate_can_be_edited_to_a_text(repo: Path) -> None:
    assert play(repo, {"edit_gate": {"gate.txt": "open"}})[0].ok
    assert text(repo / "gate.txt") == "open"


# --- misbehaviour -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code"), [(7, 7), (0, 0), ("SIGKILL", -9), ("SEGV", -11), ("SIGTERM", -15), ("SIGPIPE", -13)]
)
def test_a_crash_ends_it_at_once(repo: Path, how: int | str, code: int) -> None:
    ended, _ = play(repo, {"say": "before"}, {"crash": how}, {"say": "after"})
    assert (ended.code, ended.stdout) == (code, "before\n")
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_signal_that_ends_nobody_is_a_crash_all_the_same(repo: Path) -> None:
    assert play(repo, {"crash": "SIGCHLD"})[0].code == 1


def test_a_flood_has_the_size_asked_for(repo: Path) -> None:
    ended, _ = play(repo, {"flood": 1_000_003}, {"flood": {"bytes": 150, "to": "err"}}, {"sleep": 0.01})
    assert ended.ok
    assert (repo.parent / "call.out").stat().st_size == 1_000_003
    assert "x" * 99 in (repo.parent / "call.err").read_text(encoding="utf-8")


def started(repo: Path, *steps: dict[str, Any]) -> subprocess.Popen[bytes]:
    path = written(repo.parent, {"*": {"dev": list(steps)}})
    asked = task(repo, spec(options=["--script", str(path)]))
    job = SCRIPTED.command(asked, transcript(repo.parent))
    out = (repo.parent / "call.out").open("wb")
    with out:
        return subprocess.Popen(
            job.argv, cwd=repo, env=job.env, stdin=subprocess.DEVNULL, stdout=out, start_new_session=True
        )


def hanging(repo: Path) -> bool:
    return "hanging" in text(repo.parent / "call.out")


def test_a_hang_ends_on_request(repo: Path) -> None:
    process = started(repo, {"hang": True})
    try:
        until(lambda: hanging(repo))
        process.terminate()
        assert process.wait(timeout=20) == -signal.SIGTERM
    finally:
        end_group(process.pid)


def test_a_stubborn_hang_ends_only_by_force(repo: Path) -> None:
    process = started(repo, {"hang": {"ignore_term": True}})
    try:
        until(lambda: hanging(repo))
        ignored = int(
            next(
                row
                for row in text(Path(f"/proc/{process.pid}/status")).split("\n")
                if row.startswith("SigIgn")
            ).split()[1],
            16,
        )
        assert ignored & 1 << signal.SIGTERM - 1
        process.kill()
        assert process.wait(timeout=20) == -signal.SIGKILL
    finally:
        end_group(process.pid)


def sleepers(mark: str) -> dict[int, int]:
    """Running `sleep` processes with that argument → their process group."""
    found: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes() == f"sleep\0{mark}\0".encode():
                found[int(entry.name)] = os.getpgid(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("detached", [False, True])
def test_grandchildren_stay_in_the_group_or_leave_it(repo: Path, detached: bool) -> None:
    seconds = 600 + os.getpid() % 10_000 / 10_000 + (0.5 if detached else 0)
    process = started(repo, {"spawn": {"count": 3, "seconds": seconds, "detached": detached}}, {"hang": True})
    try:
        until(lambda: hanging(repo))
        found = sleepers(str(seconds))
        assert len(found) == 3
        assert {group == process.pid for group in found.values()} == {not detached}
    finally:
        end_group(process.pid)
        process.wait()
        for pid in sleepers(str(seconds)):
            os.kill(pid, signal.SIGKILL)


# --- the document -------------------------------------------------------------------------------------


def test_every_step_is_documented() -> None:
    page = text(DOCUMENT)
    assert [kind for kind in (*script.KINDS, "once") if f"| `{kind}` |" not in page] == []


def test_every_kind_of_step_can_be_played() -> None:
    from beads_ralph.agents import script_player

    assert [
        kind for kind in (*script.KINDS, "once") if not callable(getattr(script_player._Player, kind, None))
    ] == []


def test_the_example_in_the_document_is_a_sound_script(tmp_path: Path) -> None:
    example = text(DOCUMENT).split("```yaml\n")[1].split("```")[0]
    path = tmp_path / "script.yaml"
    path.write_text(example, encoding="utf-8")
    beads = script.load(path)
    assert script.steps_for(beads, ScriptCall("bd-1-1-setup", "dev", "dev", 1))[0] == ScriptStep(
        "write", {"src/app.py": "print('hello')\n"}
    )
