"""Each CLI by itself on the scripted model: edits, commits in a git worktree, tells its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.git.repos import git
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import BARE, DEFAULT, NIGHTLY, Cli
from tests.real.conftest import installed
from tests.real.outside import Proxy
from tests.real.users import NOBODY, as_nobody, in_a_namespace

ROOT = Path(__file__).parents[2]
PROMPT = "Add hello.py and commit it. MARK-bare"
EACH = [
    *(pytest.param(name, marks=pytest.mark.real_agents) for name in DEFAULT),
    *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY),
]


def run(cli: Cli, prompt: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [cli.program, *BARE[cli.name], prompt],
        cwd=cwd,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )


def assert_committed(worktree: Path, printed: str) -> None:
    assert git(worktree, "log", "--format=%s", "main..work") == "Add hello.py", printed
    assert git(worktree, "status", "--porcelain") == ""
    assert "hello.py is committed" in printed
    assert "MARK-bare" in printed


@pytest.mark.full
@pytest.mark.parametrize("name", EACH)
def test_edits_commits_and_tells(
    name: str, cli: Callable[[str, str], Cli], model_server: ModelServer, worktree: Path
) -> None:
    run_id = f"bare-{os.getpid()}-{name}"
    done = run(cli(name, model_server.base("ok", run_id)), PROMPT, worktree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_committed(worktree, done.stdout)
    first, second = model_server.questions(run_id)
    assert "MARK-bare" in first.asked
    assert (first.results, second.results) == (0, 1)


@pytest.mark.full
@pytest.mark.parametrize("name", EACH)
def test_plays_a_script(
    name: str, cli: Callable[[str, str], Cli], model_server: ModelServer, worktree: Path
) -> None:
    steps = ("mkdir -p src && echo 1 > src/@bead@.txt", "git add src", "git commit --quiet -m @bead@")
    verdict = 'Done.\n```json\n{"status": "pass", "message": "@bead@ it is"}\n```'
    base = model_server.play(f"script-{os.getpid()}-{name}", [Rule(r"bead (?P<bead>[\w-]+)", steps, verdict)])
    done = run(cli(name, base), "Work on bead bd-1-1 now.", worktree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(worktree, "log", "--format=%s", "main..work") == "bd-1-1"
    assert "bd-1-1 it is" in done.stdout


def alone(name: str, worktree: Path, home: Path, **further: Any) -> dict[str, Any]:
    """Run the CLI where nothing but loopback is."""
    words = in_a_namespace()
    if not words:
        pytest.skip("this machine allows no network namespaces")
    job: dict[str, Any] = {
        "name": name,
        "home": str(home),
        "cwd": str(worktree),
        "scenario": "ok",
        "prompt": PROMPT,
        **further,
    }
    if "installed" not in job:
        job["installed"] = str(installed(name))
    done = subprocess.run(
        [*words, sys.executable, "-m", "tests.real.outside"],
        cwd=ROOT,
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_what_would_leave_the_machine_is_heard(worktree: Path, cli_home: Path, tmp_path: Path) -> None:
    """Or the tests below could not fail: this stands in for a CLI that phones home."""
    gossip = tmp_path / "gossip"
    gossip.write_text(
        f"""#!{sys.executable}
import socket
for host, port in (("phone.home.example", 443), ("203.0.113.7", 443), ("2001:db8::7", 80)):
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        pass
""",
        encoding="utf-8",
    )
    gossip.chmod(0o755)
    heard = alone("claude", worktree, cli_home, installed=str(gossip))["heard"]
    assert "name phone.home.example" in heard
    assert "connection to ::ffff:203.0.113.7 port 443" in heard
    assert "connection to 2001:db8::7 port 80" in heard


def test_the_proxy_hears_what_is_asked(nothing_outside: Proxy) -> None:
    asking = urllib.request.build_opener(
        urllib.request.ProxyHandler({"http": nothing_outside.env["HTTP_PROXY"]})
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        asking.open("http://phone.home.example/x", timeout=30)
    refused.value.close()
    assert nothing_outside.asked == ["GET http://phone.home.example/x HTTP/1.1"]
    nothing_outside.asked.clear()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EACH)
def test_nothing_leaves_the_machine(name: str, worktree: Path, cli_home: Path) -> None:
    told = alone(name, worktree, cli_home)
    assert told["code"] == 0, told
    assert_committed(worktree, told["out"])
    assert told["heard"] == []
    assert told["turns"] == 2


@pytest.mark.full
@pytest.mark.parametrize("name", EACH)
def test_as_a_user_without_privileges(name: str, worktree: Path, cli_home: Path, repo: Path) -> None:
    before = as_nobody()
    if not before:
        pytest.skip("only root can become another user, and only with setpriv")
    owned = [str(cli_home), str(repo), str(worktree.parent)]
    told = alone(name, worktree, cli_home, before=before, owned=owned, uid=NOBODY)
    assert told["code"] == 0, told
    assert {path.stat().st_uid for path in (worktree / "hello.py", worktree)} == {NOBODY}
    git(worktree, "config", "--global", "--add", "safe.directory", "*")
    assert_committed(worktree, told["out"])
    assert told["heard"] == []
