"""Running the real commands, and looking at what they left on disk."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beads_ralph.compile import base, load
from beads_ralph.compile.build import build, plan_setting
from beads_ralph.config import workspace
from beads_ralph.plan import parse
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from tests.cli import inside

PROJECT = Path(__file__).parent.parent.parent
RALPH = (sys.executable, "-m", "beads_ralph")
MASON = (str(Path(sysconfig.get_path("scripts")) / "beads-mason"),)
VALIDATE = (sys.executable, str(PROJECT / "scripts" / "validate-bead-schema.py"))
TIMEOUT = 240


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """stdout as the one JSON document that it must be."""
        answer = json.loads(self.out)
        assert set(answer) == {"success", "data", "error"}, answer
        return dict(answer)

    @property
    def data(self) -> dict[str, Any]:
        assert self.envelope["success"] is True, self.out
        assert self.envelope["error"] is None
        return dict(self.envelope["data"])

    @property
    def error(self) -> dict[str, Any]:
        assert self.envelope["success"] is False, self.out
        assert self.envelope["data"] is None
        return dict(self.envelope["error"])


def run(
    command: Sequence[str],
    *words: str | Path,
    cwd: Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> Ran:
    done = subprocess.run(
        [*command, *map(str, words)],
        cwd=cwd,
        input=stdin,
        env=environment(env or {}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def ralph(
    *words: str | Path, cwd: Path, stdin: str | bytes = "", env: Mapping[str, str] | None = None
) -> Ran:
    """`beads-ralph …`, inside this process."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    return Ran(*inside.call("beads-ralph", [*map(str, words)], cwd, given, environment(env or {})))


def ralph_alone(*words: str | Path, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
    """The same in a process of its own, where that matters: signals, start-up, threads beside it."""
    return run(RALPH, *words, cwd=cwd, stdin=stdin, env=env)


def mason(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Ran:
    """`beads-ralph mason … --json`"""
    return ralph("mason", *words, "--json", cwd=cwd, env=env)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The test's environment; unbuffered output would hide what happens when a buffer is written late."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**kept, **extra}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def compiled_here(root: Path, text: str, name: str = "plan.md") -> Path:
    """Write a plan and put its beads into the embedded store as mason does, without starting a process."""
    path = write(root / name, text)
    plan = parse(text, str(path))
    built = build(plan, plan_setting(workspace.find(root), plan))
    load.load(EmbeddedStore(root), load.require_valid(built, list(built.beads), base.readings(text, plan)))
    return path


# --- what is on disk --------------------------------------------------------------------------------


def dump(root: Path) -> list[str]:
    """Every row of the embedded store, as SQL; nothing where there is no store."""
    path = root / ".ralph" / "beads.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, with its mode and bytes; of the embedded store its rows instead of its pages."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.startswith(".ralph/beads.db"):
            continue
        if path.is_symlink():
            found[name] = (0, os.fsencode(path.readlink()))
        elif path.is_file():
            found[name] = (path.stat().st_mode, path.read_bytes())
        else:
            found[name] = (path.stat().st_mode, b"")
    return {**found, "rows of .ralph/beads.db": (0, "\n".join(dump(root)).encode())}
