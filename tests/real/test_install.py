"""What holds for the installation of agent CLIs, whatever the registries say."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.executors.running import wait_until

TOOLS = Path(__file__).parents[2] / "tools" / "agents"
GOOSE = "node_modules/@aaif/goose-binary-linux-x64/bin"
NEEDED = "bash env dirname uname sed head cat cut cksum mkdir rm mv ln cp chmod flock sleep find true"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A copy of the installer, far from the project's own Python."""
    return shutil.copytree(TOOLS, tmp_path / "checkout" / "tools" / "agents")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with nothing but the plainest commands, and a uname that says x86_64."""
    folder = tmp_path / "path"
    folder.mkdir()
    for name in NEEDED.split():
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    program(folder, "uname", "[ $1 = -s ] && echo Linux || echo x86_64")
    return folder


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def npm(path: Path, before: str = "") -> None:
    """In npm's place: no registry, only a file where npm would put one."""
    made = f"mkdir -p {GOOSE} && echo 'echo goose here' > {GOOSE}/goose"
    program(path, "npm", f"echo called >> {path}/calls\n{before}\n{made}")


def start(tools: Path, path: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    kept = {
        "HOME": os.environ["HOME"],
        "PATH": str(path),
        "BEADS_RALPH_TEST_ID": os.environ["BEADS_RALPH_TEST_ID"],
    }
    return subprocess.Popen(
        [tools / "install", *words],
        env={**kept, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def install(tools: Path, path: Path, *words: str, **env: str) -> tuple[int, str, str]:
    with start(tools, path, *words, **env) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out.strip(), err


def cache() -> Path:
    return Path(os.environ["HOME"]) / ".cache" / "beads-ralph" / "agents"


def test_one_is_installed_once_and_its_path_printed(tools: Path, path: Path) -> None:
    npm(path)
    code, out, err = install(tools, path, "goose")
    assert code == 0, err
    assert Path(out) == cache() / "goose" / "1.52.0" / "bin" / "goose"
    assert os.access(out, os.X_OK)
    assert install(tools, path, "goose") == (0, out, "")
    assert (path / "calls").read_text(encoding="utf-8") == "called\n"


def test_at_the_same_time_it_is_installed_once(tools: Path, path: Path) -> None:
    npm(path, "sleep 1")
    running = [start(tools, path, "goose") for _ in range(4)]
    ended = [process.communicate(timeout=120)[0] for process in running]
    assert len(set(ended)) == 1
    assert [process.returncode for process in running] == [0] * 4
    assert (path / "calls").read_text(encoding="utf-8") == "called\n"


def test_a_killed_installation_leaves_nothing_that_is_taken_for_whole(tools: Path, path: Path) -> None:
    npm(path, f"mkdir -p {GOOSE}; touch {GOOSE}/goose; sleep 300")
    process = start(tools, path, "goose")
    wait_until((path / "calls").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (cache() / "goose" / "1.52.0").exists()
    npm(path)
    code, out, err = install(tools, path, "goose")
    assert code == 0, err
    assert sorted(entry.name for entry in (cache() / "goose").iterdir()) == ["1.52.0", "lock"]
    done = subprocess.run(["bash", out], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "goose here\n"


def test_a_failed_installation_leaves_nothing(tools: Path, path: Path) -> None:
    npm(path, "exit 7")
    code, out, err = install(tools, path, "goose")
    assert (code, out) == (1, "")
    assert "npm could not fetch goose 1.52.0" in err
    assert [entry.name for entry in (cache() / "goose").iterdir()] == ["lock"]


def test_what_is_missing_is_named(tools: Path, path: Path) -> None:
    assert "npm is missing" in install(tools, path, "goose")[2]
    assert "gemini needs Node.js 20 or newer; none is on PATH" in install(tools, path, "gemini")[2]
    program(path, "node", "echo v18.19.0")
    assert "18.19.0 is on PATH" in install(tools, path, "gemini")[2]
    assert "no Python with pip" in install(tools, path, "claude")[2]
    code, _, err = install(tools, path, "nonsense")
    assert code == 2
    assert "claude codex goose gemini opencode copilot" in err


def test_a_platform_without_a_package_is_told(tools: Path, path: Path) -> None:
    program(path, "uname", "[ $1 = -s ] && echo Darwin || echo arm64")
    code, out, err = install(tools, path, "goose")
    assert (code, out) == (1, "")
    assert "no package of goose for Darwin-arm64, only for Linux-x86_64" in err


def test_a_set_with_gaps_fails_only_in_ci(tools: Path, path: Path) -> None:
    npm(path)
    code, out, err = install(tools, path)
    assert code == 0
    assert [entry.name for entry in (Path(out) / "bin").iterdir()] == ["goose"]
    for name in ("claude", "codex", "gemini"):
        assert f"{name} is not there; its tests will be skipped" in err
    assert install(tools, path, CI="1")[:2] == (1, "")


def test_other_pins_are_another_set(tools: Path, path: Path) -> None:
    npm(path)
    _, before, _ = install(tools, path)
    lock = tools / "copilot" / "package-lock.json"
    lock.write_text(lock.read_text(encoding="utf-8").replace("1.0.102", "1.0.103"), encoding="utf-8")
    assert install(tools, path)[1] not in {before, ""}


def wheel(folder: Path) -> Path:
    """A package of the right name and version, and not the one that is pinned."""
    folder.mkdir()
    made = folder / "claude_agent_sdk-0.2.182-py3-none-any.whl"
    info = "claude_agent_sdk-0.2.182.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("claude_agent_sdk/_bundled/claude", "#!/bin/sh\necho forged\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: claude-agent-sdk\nVersion: 0.2.182\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return made


def test_a_package_with_another_hash_is_refused(tools: Path, path: Path, tmp_path: Path) -> None:
    forged = wheel(tmp_path / "wheels")
    env = {"PYTHON": sys.executable, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(forged.parent)}
    code, out, err = install(tools, path, "claude", **env)
    assert (code, out) == (1, "")
    assert "do not match" in err.lower()
    # With its own hash it is taken, so that it was the hash that spoke against it.
    pin = f"claude-agent-sdk==0.2.182 --hash=sha256:{hashlib.sha256(forged.read_bytes()).hexdigest()}\n"
    (tools / "claude" / "requirements.txt").write_text(pin, encoding="utf-8")
    code, out, err = install(tools, path, "claude", **env)
    assert code == 0, err
    folder = Path(out).parents[1]
    assert sorted(entry.name for entry in folder.iterdir()) == ["bin", "claude"]


def test_the_pins_name_no_address() -> None:
    files = [entry for entry in TOOLS.rglob("*") if entry.is_file()]
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "://" not in text, file
        assert '"resolved"' not in text, file
