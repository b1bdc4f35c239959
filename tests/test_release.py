"""What is released works: wheel and sdist are complete, and the wheel runs in an empty environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from beads_ralph import __version__

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src"
# pip is asked as the user asks it, with their index and their cache.
GIVEN = dict(os.environ)
LEFT_BY_TOOLS = re.compile(
    r"__pycache__|\.py[co]$|\.(mypy|ruff|pytest)_cache|\.hypothesis|\.coverage|\.venv|\.ralph"
)


class Release(NamedTuple):
    """The two files of a release."""

    sdist: Path
    wheel: Path

    def in_sdist(self) -> set[str]:
        """The files of the sdist, without the folder that they all lie in."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}

    def in_wheel(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())


def build(tree: Path, folder: Path) -> Release:
    run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=tree)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Release(sdist, wheel)


def run(command: list[str | Path], cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build(PROJECT, tmp_path_factory.mktemp("dist"))


def shipped() -> set[str]:
    """Every file of the package: modules, and the data that they read."""
    files = (path for path in SOURCE.rglob("*") if path.is_file())
    names = {path.relative_to(SOURCE).as_posix() for path in files}
    return {name for name in names if not LEFT_BY_TOOLS.search(name)}


def pages() -> set[str]:
    """The documents for users, which `beads-ralph help` shows."""
    docs = PROJECT / "docs"
    names = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    return {name for name in names if not name.startswith("internals/")}


@pytest.mark.parametrize(
    "kind",
    [
        r"/agents/.*\.md$",
        r"/templates/.*\.md$",
        r"/dev\.md$",
        r"\.formula\.toml$",
        r"/todo-app\.md$",
        "/py.typed$",
    ],
)
def test_there_is_data_of_every_kind(kind: str) -> None:
    assert [name for name in shipped() if re.search(kind, name)]


def test_both_hold_the_whole_package_and_nothing_that_tools_left_behind(release: Release) -> None:
    in_package = {name for name in release.in_wheel() if name.startswith("beads_ralph/")}
    assert in_package == shipped() | {f"beads_ralph/pages/{name}" for name in pages()}
    assert {f"src/{name}" for name in shipped()} <= release.in_sdist()
    assert [name for name in release.in_wheel() | release.in_sdist() if LEFT_BY_TOOLS.search(name)] == []


def test_the_version_is_the_package_s_own(release: Release) -> None:
    assert release.sdist.name == f"beads_ralph-{__version__}.tar.gz"
    assert release.wheel.name == f"beads_ralph-{__version__}-py3-none-any.whl"
    assert f"\n## {__version__}" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_sdist_is_enough_to_build_the_same_wheel(release: Release, tmp_path: Path) -> None:
    with tarfile.open(release.sdist) as archive:
        archive.extractall(tmp_path)  # noqa: S202 - made by us a moment ago
    again = build(tmp_path / f"beads_ralph-{__version__}", tmp_path / "again")
    assert again.wheel.read_bytes() == release.wheel.read_bytes()
    assert again.in_sdist() == release.in_sdist()


@pytest.mark.full
def test_the_wheel_works_in_an_empty_environment(release: Release, repo: Path, tmp_path: Path) -> None:
    programs = installed(release.wheel, tmp_path / "venv")
    empty = tmp_path / "nobody"
    empty.mkdir()
    env = {"HOME": str(empty), "PATH": f"{programs}{os.pathsep}/usr/bin:/bin", "LANG": "C.UTF-8"}
    ralph = programs / "beads-ralph"
    assert run([ralph, "--version"], repo, env) == f"beads-ralph {__version__}\n"
    assert "✓ ready" in run([ralph, "init"], repo, env)
    assert run([ralph, "help", "overnight"], repo, env).startswith("# ")
    sample = next((programs.parent / "lib").rglob("todo-app.md"))
    assert "8 sprints, no faults" in run([ralph, "plan", "check", sample], repo, env)
    assert run([programs / "beads-mason", "--help"], repo, env)


def installed(wheel: Path, place: Path) -> Path:
    """The wheel with the locked dependencies, and nothing else, in an environment of its own."""
    run([sys.executable, "-m", "venv", place], PROJECT)
    pip: list[str | Path] = [place / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--require-hashes", "--requirement", PROJECT / "requirements.lock"], PROJECT, GIVEN)
    run([*pip, "install", "--no-deps", wheel], PROJECT, GIVEN)
    run([*pip, "check"], PROJECT, GIVEN)
    return place / "bin"
