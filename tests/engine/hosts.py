"""Workers and runs of a project as processes beside the test, on a real server, with a bare git remote."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beads_ralph.process.process_tree import Family
from tests.cli.running import RALPH, environment
from tests.engine.servers import TemporalServer
from tests.loop.plans import Project, git, soon, sprint

PATIENCE = 180.0

Process = subprocess.Popen[bytes]


@dataclass
class Machines:
    """A project, its remote, and the hosts that work for it."""

    project: Project
    folder: Path
    server: TemporalServer
    started: list[Process] = field(default_factory=list)

    @classmethod
    def make(cls, repo: Path, server: TemporalServer, *sprints: str, **settings: Any) -> Machines:
        folder = repo.parent
        said = {"address": server.address, "heartbeat_timeout": "1m", **settings.pop("temporal", {})}
        project = Project.make(
            repo,
            *(sprints or (sprint("1.1", "One"),)),
            forge="local",
            engine="temporal",
            temporal=said,
            **settings,
        )
        remote = folder / "remote.git"
        git(repo, "clone", "--quiet", "--bare", str(repo), str(remote))
        git(repo, "remote", "add", "origin", str(remote))
        git(repo, "fetch", "--quiet")
        return cls(project, folder, server)

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    # --- agents that wait for a word ---

    @staticmethod
    def patient(folder: Path) -> dict[str, Any]:
        """A script whose developers note that they began, and work when they are told to."""
        waits = f'echo "$$" >> {folder}/begun; until [ -e {folder}/go ]; do sleep 0.1; done'
        writes = 'echo "$BEADS_RALPH_ATTEMPT" >> "$BEADS_RALPH_BEAD.txt"'
        return {"*": {"dev": [{"run": f"{waits}; {writes}"}, {"commit": "work"}]}}

    @property
    def begun(self) -> list[str]:
        """The agents that have begun."""
        path = self.folder / "begun"
        return path.read_text("utf-8").split() if path.exists() else []

    def go(self) -> None:
        (self.folder / "go").touch()

    # --- processes ---

    def worker(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> Process:
        home = self.folder / f"host-{name}"
        return self._start(f"worker-{name}", "worker", "--name", name, "--home", str(home), *words, env=env)

    def run(self, *words: str) -> Process:
        return self._start("run", "run", "plan.md", "--json", *words)

    def _start(self, log: str, *words: str, env: Mapping[str, str] | None = None) -> Process:
        with (self.folder / f"{log}.log").open("ab") as file:
            process = subprocess.Popen(
                [*RALPH, *words],
                cwd=self.project.root,
                env=environment(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def ended(self, process: Process) -> int:
        try:
            return process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            logs = [path.read_text("utf-8", "replace") for path in sorted(self.folder.glob("*.log"))]
            raise AssertionError("\n".join(logs)) from None

    def sessions(self) -> list[int]:
        """Every process that works for an order of this test."""
        homes = [f"{self.folder}/host-"]
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if "session_worker" in words and any(home in words for home in homes):
                found.append(int(entry.name))
        return sorted(found)

    def assert_tidy(self) -> None:
        self.project.assert_tidy()
        soon(lambda: self.sessions() == [])
        assert "refs/beads-ralph" not in git(self.remote, "for-each-ref")

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for home in self.folder.glob("host-*/orders/*"):
            for one in Family(f"BEADS_RALPH_ORDER={home.name}").find():
                os.kill(one.pid, signal.SIGKILL)


@contextmanager
def machines(repo: Path, server: TemporalServer, *sprints: str, **settings: Any) -> Iterator[Machines]:
    made = Machines.make(repo, server, *sprints, **settings)
    try:
        yield made
    finally:
        made.end()
