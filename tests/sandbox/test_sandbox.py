"""The real bubblewrap: what a job can read, write and reach in there, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from beads_ralph.process.executors import choose
from beads_ralph.process.jobs import Executor, Job
from beads_ralph.process.sandbox import Sandbox
from beads_ralph.session import confinement
from tests.cli.running import RALPH, environment
from tests.executors.running import having, is_running, offspring, run, shell, soon
from tests.git.repos import git
from tests.sandbox.conftest import PROGRAM, Place


def may_write(place: Place, path: Path | str, role: str = "dev") -> bool:
    """Whether a job can make or change it; whatever it says, the outside decides. Only the `.git` that it
    sees is its own, and may let it believe so."""
    ended = place.run(f'echo "by the agent" >> "{path}" && echo written', role)  # type: ignore[arg-type]
    outside = Path(path)
    there = outside.is_file() and "by the agent" in outside.read_text("utf-8")
    assert there == (ended.stdout == "written\n") or ".git" in outside.parts, ended.stderr
    return there


# --- what can be written ----------------------------------------------------------------------------


PYTHON = Path(sys.executable).resolve()
"""Not that of a virtual environment, which may lie below /tmp: there a sandbox has a folder of its own."""


@pytest.mark.parametrize(
    ("path", "writable"),
    [
        ("{place.tree}/new.txt", True),
        ("{place.tree}/README.md", True),
        ("{place.home}/.agent/session", True),
        ("{place.home}/.agent.json", True),
        ("{place.root}/new.txt", False),
        ("{place.root}/README.md", False),
        ("{place.home}/new.txt", False),
        ("{place.home}/.gitconfig", False),
        ("{place.root}/.git/config", False),
        ("{place.root}/.git/hooks/post-commit", False),
        ("{place.root}/.git/worktrees/tree/commondir", False),
        ("{place.root}/.git/worktrees/tree/gitdir", False),
        ("{place.root}/.git/worktrees/tree/config.worktree", False),
        ("{place.tree}/.git", False),
        ("/etc/beads-ralph-test", False),
        ("/usr/bin/beads-ralph-test", False),
    ],
)
def test_the_worktree_and_the_programs_own_state_can_be_written_and_nothing_else(
    place: Place, path: str, writable: bool
) -> None:
    assert may_write(place, path.format(place=place)) == writable


def test_downloads_have_a_cache_of_their_own_that_stays(place: Place) -> None:
    """npm and others fail where they cannot write to their cache, and the user's is not theirs to fill."""
    (place.home / ".npm").mkdir()
    ended = place.run('echo kept > "$npm_config_cache/package"; printenv npm_config_cache GOCACHE')
    own = place.home / ".cache" / "beads-ralph" / "sandbox"
    assert ended.stdout.split() == [str(own / ".npm"), str(own / ".cache" / "go-build")]
    assert place.run('cat "$npm_config_cache/package"').stdout == "kept\n"
    assert list((place.home / ".npm").iterdir()) == []


@pytest.mark.parametrize(("network", "writes"), [(False, []), (True, [".npm"])])
def test_the_users_caches_serve_where_they_are_worth_more(
    place: Place, network: bool, writes: list[str]
) -> None:
    sandbox = Sandbox(place.root, network=network, writes=tuple(place.home / name for name in writes))
    env = sandbox.wrap(Job(("true",), place.tree, env={"HOME": str(place.home)})).env or {}
    assert "npm_config_cache" not in env
    assert ("GOCACHE" in env) == network


def test_the_link_to_the_repository_cannot_be_replaced(place: Place) -> None:
    """A folder in its place would bring settings that name programs, for the next git outside to run."""
    ended = place.run("rm -f .git; mv .git x; mkdir .git; git config core.fsmonitor evil; ls -d .git/*; true")
    assert ended.stdout == ""
    assert (place.tree / ".git").is_file()
    assert git(place.tree, "config", "--default", "", "core.fsmonitor") == ""


def test_the_temporary_folders_are_its_own(
    place: Place, tmp_path_factory: pytest.TempPathFactory, mark: str
) -> None:
    secret = tmp_path_factory.mktemp("other") / "secret"
    secret.write_text("hush", "utf-8")
    script = (
        f'cat {secret}; echo mine > /tmp/{mark}; cat /tmp/{mark}; echo "$TMPDIR"; ls /run | grep -v resolv'
    )
    ended = place.run(script)
    assert (ended.stdout, "No such file" in ended.stderr) == ("mine\n/tmp\n", True)
    assert not Path(f"/tmp/{mark}").exists()


SECRET_FILES = (
    *(".config/gh/hosts.yml", ".ssh/id_ed25519", ".netrc", ".git-credentials", ".aws/credentials"),
    *(".azure/token", ".config/gcloud/credentials.db", ".npmrc", ".pypirc", ".docker/config.json"),
    *(".kube/config", ".gnupg/key", ".config/hub", ".terraform.d/credentials.tfrc.json", ".vault-token"),
    *(".mozilla/firefox/logins.json", ".config/google-chrome/Default/Cookies", ".cargo/credentials.toml"),
)


def with_secrets(place: Place) -> None:
    for name in SECRET_FILES:
        path = place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"hush {name}\n", "utf-8")


def test_secrets_are_not_there(place: Place) -> None:
    with_secrets(place)
    ended = place.run("cd; grep -rs hush . ; cat " + " ".join(SECRET_FILES) + "; true")
    assert ended.stdout == ""
    assert (place.home / ".ssh/id_ed25519").read_text("utf-8").startswith("hush")


def test_what_the_user_allows_and_what_the_program_signs_in_with_is_there(place: Place) -> None:
    with_secrets(place)
    allowed = Sandbox(place.root, reads=(place.home / ".aws", place.home / ".npmrc"))
    given = (place.home / ".config/gcloud/credentials.db",)
    script = "cd; cat .aws/credentials .npmrc .config/gcloud/credentials.db; cat .netrc .azure/token; true"
    ended, _ = place.seen(script, executor=choose("local", allowed), reads=given)
    assert ended.stdout.splitlines() == [
        *("hush .aws/credentials", "hush .npmrc", "hush .config/gcloud/credentials.db")
    ]
    ended, _ = place.seen("echo x >> ~/.npmrc", executor=choose("local", allowed))
    assert ended.code != 0


def test_a_place_that_a_variable_names_is_hidden_unless_the_job_has_the_variable(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = place.folder.parent / f"{place.folder.name}-key.json"
    key.write_text("hush", "utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    shown = Sandbox(place.root)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place.home), "ROOM": str(key.parent)}
    assert place.seen(f"cat {key}", executor=choose("local", shown), env=env)[0].stdout == ""
    env["GOOGLE_APPLICATION_CREDENTIALS"] = str(key)
    assert place.seen(f"cat {key}", executor=choose("local", shown), env=env)[0].stdout == "hush"


@pytest.mark.parametrize("folder", [".ralph", ".beads"])
def test_the_store_and_the_records_of_runs_cannot_be_reached(place: Place, folder: str) -> None:
    (place.root / folder).mkdir()
    (place.root / folder / "beads.db").write_text("hush", "utf-8")
    ended = place.run(
        f"cat {place.root}/{folder}/*; ls -A {place.root}/{folder}; rm -rf {place.root}/{folder}"
    )
    assert ended.stdout == ""
    assert (place.root / folder / "beads.db").read_text("utf-8") == "hush"


def test_of_the_records_it_sees_what_it_was_given(place: Place) -> None:
    jobs = place.root / ".ralph" / "jobs"
    (jobs / "evidence").mkdir(parents=True)
    (jobs / "other").write_text("hush", "utf-8")
    evidence = jobs / "evidence"
    script = f"cat {jobs}/given {jobs}/other; echo x > {evidence}/shot; ls {jobs}"
    writes = (*confinement.state_of(PROGRAM, {"HOME": str(place.home)}), evidence)
    ended = place.run(script, files={jobs / "given": "for you\n"}, writes=writes)
    assert ended.stdout == "for you\nevidence\ngiven\n"
    assert (evidence / "shot").read_text("utf-8") == "x\n"


# --- what its program obeys -------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", ["settings.json", "RULES.md", "hooks/start.sh"])
def test_settings_of_the_program_stay_as_they_are(place: Place, name: str, there: bool) -> None:
    path = place.home / ".agent" / name
    if there:
        path.parent.mkdir(parents=True)
        path.write_text("mine", "utf-8")
    before = path.read_bytes() if there else None
    script = f"echo x > {path}; mv {path} {path}.old; rm -rf {path.parent}; ln -sf /x {path}; true"
    place.run(script)
    after = path.read_bytes() if path.is_file() and path.stat().st_size > 3 else None
    assert after == before
    assert not path.is_symlink()


def test_a_program_that_settings_may_name_stays_as_it_is(place: Place) -> None:
    hook = place.home / ".agent" / "status.sh"
    hook.parent.mkdir()
    hook.write_text("echo mine", "utf-8")
    place.run(f"echo evil > {hook}; rm {hook}; true")
    assert hook.read_text("utf-8") == "echo mine"


def test_what_it_adds_to_an_overlaid_folder_is_gone_with_it(place: Place) -> None:
    folder = place.home / ".config" / "agent"
    folder.mkdir(parents=True)
    (folder / "config").write_text("mine", "utf-8")
    ended = place.run(
        f"cat {folder}/config; echo x > {folder}/plugin.js && ls {folder}; echo y > {folder}/config"
    )
    assert ended.stdout == "mineconfig\nplugin.js\n"
    assert [path.name for path in folder.iterdir()] == ["config"]
    assert (folder / "config").read_text("utf-8") == "mine"


def test_notes_are_a_copy(place: Place) -> None:
    notes = place.home / ".notes.json"
    notes.write_text('{"servers": []}', "utf-8")
    ended = place.run(f"cat {notes}; echo evil > {notes}; cat {notes}")
    assert ended.stdout == '{"servers": []}evil\n'
    assert notes.read_text("utf-8") == '{"servers": []}'


def test_the_environment_of_the_harness_cannot_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "hush-hush")
    ended = place.run("cat /proc/$PPID/environ /proc/1/environ /proc/[0-9]*/environ | tr '\\0' '\\n'")
    assert f"HOME={place.home}" in ended.stdout.splitlines()
    assert "hush" not in ended.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root could")
def test_root_cannot_mount_its_way_out(place: Place) -> None:
    ended = place.run(
        "mount -o remount,rw /; echo x > /etc/beads-ralph-test; chown 1:1 README.md && echo own"
    )
    assert ended.stdout == "own\n"
    assert not Path("/etc/beads-ralph-test").exists()


# --- git --------------------------------------------------------------------------------------------


def test_a_developer_commits_branches_and_stashes(place: Place) -> None:
    git(place.root, "pack-refs", "--all")
    script = (
        "echo one > a && git add a && git commit -qm one && git tag t && git branch side && git stash list "
        "&& echo two > a && git stash -q && git stash pop -q && git commit -qam two && git log --format=%s -2"
    )
    ended = place.run(script)
    assert (ended.code, ended.stdout) == (0, "two\none\n"), ended.stderr
    assert git(place.root, "log", "--format=%s", "-1", "work") == "two"


def test_a_qa_agent_looks_and_cannot_commit(place: Place) -> None:
    before = git(place.root, "for-each-ref")
    ended = place.run("git status --short; git log --format=%s -1; touch x", "qa")
    assert (ended.code, ended.stdout) == (0, "first\n"), ended.stderr
    ended = place.run("git add x && git commit -qm mine; git branch -f work HEAD~0; git tag mine", "qa")
    assert ended.code != 0
    assert git(place.root, "for-each-ref") == before


# --- network and processes --------------------------------------------------------------------------


@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_on_or_off(place: Place, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"{PYTHON} -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        assert (place.run(reach, network=network).code == 0) == network


def test_it_has_a_loopback_of_its_own_without_a_network(place: Place) -> None:
    program = (
        'import socket; s = socket.create_server(("127.0.0.1", 0));'
        'socket.create_connection(s.getsockname(), 5); print("ok")'
    )
    assert place.run(f"{PYTHON} -c '{program}'", network=False).stdout == "ok\n"


def test_it_sees_and_signals_no_process_but_its_own(place: Place) -> None:
    ended = place.run(f"kill -0 {os.getpid()} || echo unseen; [ -d /proc/{os.getpid()} ] || echo unseen")
    assert ended.stdout == "unseen\nunseen\n"


@pytest.mark.parametrize("code", [0, 1, 77])
def test_the_exit_code_is_the_programs(executor: Executor, tmp_path: Path, code: int) -> None:
    ended = run(executor, shell(tmp_path, f"echo out; echo err >&2; exit {code}"))
    assert (ended.code, ended.stdout, ended.stderr) == (code, "out\n", "err\n")


def test_a_prompt_arrives_on_stdin(executor: Executor, tmp_path: Path) -> None:
    assert run(executor, shell(tmp_path, "wc -c", stdin="x" * 600_000)).stdout.strip() == "600000"


@pytest.mark.parametrize("kind", ["group", "session", "stubborn", "daemon"])
def test_what_it_leaves_in_the_background_ends_with_it(
    executor: Executor, tmp_path: Path, mark: str, kind: str
) -> None:
    assert run(executor, offspring(tmp_path, kind, "go", mark=mark)).code == 0
    assert having("BEADS_RALPH_JOB", mark) == []


@pytest.mark.parametrize("kind", ["group", "session", "stubborn", "daemon"])
def test_cancelling_ends_everything(executor: Executor, tmp_path: Path, mark: str, kind: str) -> None:
    async def story() -> None:
        running = asyncio.create_task(executor.run(offspring(tmp_path, kind, "stay", mark=mark)))
        await soon((tmp_path / "born").exists)
        assert having("BEADS_RALPH_JOB", mark) != []
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(story())
    assert having("BEADS_RALPH_JOB", mark) == []


def test_the_time_limit_lets_a_program_clean_up(executor: Executor, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 3' TERM; sleep 300 & wait"
    ended = run(executor, shell(tmp_path, script, timeout=2.0, grace=30.0))
    assert (ended.timed_out, ended.code, ended.stdout) == (True, 3, "bye\n")


def test_the_time_limit_ends_what_ignores_term(executor: Executor, tmp_path: Path, mark: str) -> None:
    script = "trap '' TERM; sleep 300 & wait; sleep 300"
    ended = run(executor, shell(tmp_path, script, timeout=2.0, mark=mark))
    assert (ended.timed_out, ended.ok) == (True, False)
    assert having("BEADS_RALPH_JOB", mark) == []


def test_memory_is_bounded_in_there_too(executor: Executor, tmp_path: Path, mark: str) -> None:
    grow = f"{PYTHON} -c 'import time; held = bytearray(200 << 20); time.sleep(60)'"
    ended = run(executor, shell(tmp_path, grow, memory_limit_mb=120, mark=mark))
    assert ended.over_memory == 120
    assert having("BEADS_RALPH_JOB", mark) == []


def test_it_ends_when_whoever_started_it_is_killed(tmp_path: Path, mark: str) -> None:
    """Even before the next run has swept up."""
    inside = Sandbox(tmp_path).wrap(Job(("sleep", "300"), tmp_path, env={**os.environ, "MARK": mark}))
    start = f"import subprocess, os; subprocess.Popen({inside.argv!r}); print(flush=True); os.read(0, 1)"
    with subprocess.Popen(
        [sys.executable, "-c", start],
        env=dict(inside.env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        asyncio.run(soon(lambda: len(having("MARK", mark)) > 3))
        parent.send_signal(signal.SIGKILL)
    asyncio.run(soon(lambda: having("MARK", mark) == []))


# --- as somebody who is not root --------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="is not root anyway")
def test_a_user_without_powers_can_have_one(tmp_path: Path) -> None:
    """Through the whole of it: wrapped, watched, ended, and nothing left."""
    folder = Path("/tmp") / f"beads-ralph-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        os.chown(folder, 65534, 65534)
        child = Path(__file__).with_name("child.py")
        done = subprocess.run(
            [sys.executable, str(child), "65534", str(folder)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "written 65534\nread-only\nends: True 7\nleft: []\n", done.stderr
    finally:
        shutil.rmtree(folder)


# --- refused where it cannot be had -----------------------------------------------------------------


FORBIDDEN = """\
for kind in user mnt pid; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done
exec "$@"
"""


def examined(*before: str, path: str | None = None) -> dict[str, object]:
    """What `doctor` says of the sandbox."""
    env = environment({"PATH": path} if path else {})
    done = subprocess.run(
        [*before, *RALPH, "doctor", "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (found,) = [row for row in json.loads(done.stdout)["data"]["checks"] if row["name"] == "sandbox"]
    return dict(found)


def test_doctor_says_whether_it_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (examined()["status"], examined()["required"]) == ("found", False)
    without = examined(path=str(tmp_path))
    assert (without["status"], "not on PATH" in str(without["detail"])) == ("missing", True)
    assert without["required"] is False
    assert "read your keys" in str(without["detail"])
    assert "apt-get install bubblewrap" in str(without["action"])


def test_where_namespaces_are_forbidden_it_is_refused_with_what_to_do(repo: Path) -> None:
    """For real: in a namespace whose own limit is none."""
    (repo / "beads-ralph.yaml").write_text("sandbox: bwrap\n", "utf-8")
    inside = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN, "sh"]
    done = subprocess.run(
        [*inside, *RALPH, "run", "--json"],
        cwd=repo,
        env=environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"]) == (1, "EXECUTION.NO_SANDBOX")
    assert "bubblewrap cannot make one here" in error["message"]
    assert "sandbox: none" in error["suggested_action"]
    assert not list((repo / ".ralph" / "runs").glob("*"))


def test_places_that_lie_in_one_another_hide_nothing(tmp_path: Path) -> None:
    """The order of the mounts decides; here as a table."""
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    job = Job(("sh",), tree, env={"HOME": str(tmp_path)}, writes=(tree / "deep",))
    words = list(Sandbox(tmp_path, network=False, program="bwrap").wrap(job).argv)
    assert "--unshare-net" in words
    assert words.index("--tmpfs") < words.index(str(tmp_path)) < words.index(str(tree))
    assert words.index(str(tree)) < words.index(str(tree / "deep")) < words.index("--")
    assert words[words.index("--") :] == ["--", "sh"]
    assert "--unshare-net" not in Sandbox(tmp_path).wrap(job).argv


def test_a_job_that_is_closed_in_is_otherwise_the_same(tmp_path: Path) -> None:
    job = shell(tmp_path, "true", stdin="x", memory_limit_mb=5, mark="m")
    inside = Sandbox(tmp_path).wrap(job)
    assert (inside.stdin, inside.memory_limit_mb, inside.mark, inside.cwd) == ("x", 5, "m", tmp_path)
    assert (inside.transcript, inside.timeout, inside.keeper) == (job.transcript, job.timeout, "bwrap")
    assert run(choose("local", Sandbox(tmp_path)), job).code == 0
    assert is_running(os.getpid())
