"""A repository with a plan and a script, the real commands on it, and what they left.

project = Project.make(repo, sprint("1.1", "One"), script={"1.1": {"dev": work("one.txt")}})
ran = project.run()
assert ran.data["closed"] == ["bd-1-1-one"]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from beads_ralph import forge
from beads_ralph.agents import protocol
from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead.model import Bead
from beads_ralph.config import workspace
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.journal import runs
from beads_ralph.journal.journal import Journal
from beads_ralph.loop import Loop, Scope, Settings
from beads_ralph.process import executors
from beads_ralph.process.calls import Retry
from beads_ralph.process.process_tree import Family
from beads_ralph.session import Tools, in_process
from beads_ralph.session.order import SERVER_RETRY
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query
from tests.cli.running import RALPH, Ran, environment, ralph
from tests.compile.plans import plan, sprint
from tests.git.repos import git

__all__ = ["Project", "fails", "git", "loop_of", "names", "passes", "soon", "sprint", "work"]

PATIENCE = 60.0
Steps = list[dict[str, Any]]


# --- scripts ----------------------------------------------------------------------------------------


def work(name: str = "", text: str = "done\n") -> Steps:
    """A developer who writes a file (one of the bead's own, unless named) and commits it."""
    if name:
        return [{"write": {name: text}}, {"commit": f"write {name}"}]
    return [{"run": 'echo "$BEADS_RALPH_ATTEMPT" >> "$BEADS_RALPH_BEAD.txt"'}, {"commit": "work"}]


def passes(message: str = "fine") -> Steps:
    return [{"json": {"status": "pass", "message": message}}]


def fails(message: str = "not yet", status: str = "fail") -> Steps:
    return [{"json": {"status": status, "message": message}}]


def checkouts_of(root: Path) -> list[Path]:
    """The clean checkouts of a repository's commits that are there now, wherever that is."""
    found = Path(tempfile.gettempdir()).glob(f"tmp*/{root.name}/.git/objects")
    return [path.parents[1] for path in found if any(_leads_to(root, one) for one in path.glob("*/*"))]


def _leads_to(root: Path, link: Path) -> bool:
    return link.is_symlink() and link.readlink().is_relative_to(root)


# --- the project ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Project:
    """A repository, made ready for a run."""

    root: Path
    store_kind: str = "embedded"

    @classmethod
    def make(
        cls,
        root: Path,
        *sprints: str,
        script: Mapping[str, Any] | None = None,
        store: str = "embedded",
        plan_settings: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Project:
        """`script` is the part below `beads`; without one every bead gets a file. `settings` are those of
        beads-ralph.yaml, `plan_settings` those of its section `plan`."""
        project = cls(root, store)
        project.write_script(script or {"*": {"dev": work()}})
        agent = {
            "agent": "claude",
            "executable": "scripted",
            "env": {"BEADS_RALPH_SCRIPT": str(project.script)},
        }
        said = {
            "store": store,
            "check_before_start": False,
            "sandbox": "none",  # tests of their own have the default
            "push": "yes",  # the same
            "plan": {
                "source_branch": "main",
                "dev_agents": [agent],
                "qa_agents": [agent],
                **(plan_settings or {}),
            },
            **settings,
        }
        (root / "beads-ralph.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
        (root / "plan.md").write_text(plan(*sprints, front_matter=""), encoding="utf-8")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "plan")
        return project

    @property
    def script(self) -> Path:
        return self.root.parent / "script.yaml"

    def write_script(self, beads: Mapping[str, Any]) -> None:
        self.script.write_text(json.dumps({"beads": dict(beads)}), encoding="utf-8")

    # --- commands ---

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        """`beads-ralph run plan.md … --json`"""
        return self.ralph("run", "plan.md", *words, "--json", env=env)

    def ralph(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        return ralph(*words, cwd=self.root, env=env)

    def running(self, *words: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """The same as a process beside the test; whatever happens, it is gone at the end."""
        return self.running_all("plan.md", *words)

    @contextmanager
    def running_all(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """The same for `beads-ralph run …`, without the plan."""
        process = subprocess.Popen(
            [*RALPH, "run", *words, "--json"],
            cwd=self.root,
            env=environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()
            self.end_strays()

    def finished(self, process: subprocess.Popen[str]) -> Ran:
        out, err = process.communicate(timeout=PATIENCE)
        return Ran(process.returncode, out, err)

    # --- what is there ---

    @property
    def store(self) -> Store:
        return BdStore(self.root) if self.store_kind == "bd" else EmbeddedStore(self.root)

    def bead(self, bead_id: str) -> Bead:
        return self.store.show(bead_id)

    def metadata(self, bead_id: str) -> dict[str, Any]:
        return self.bead(bead_id).metadata.to_json()

    def statuses(self) -> dict[str, str]:
        return {bead.id: bead.status for bead in self.store.find(Query()).beads}

    def run_ids(self) -> list[str]:
        folder = self.root / ".ralph" / "runs"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def events(self, *kinds: str, bead: str | None = None) -> list[dict[str, Any]]:
        """What the journals of all runs tell, oldest first."""
        rows: list[dict[str, Any]] = []
        for run_id in self.run_ids():
            path = self.root / ".ralph" / "runs" / run_id / "events.jsonl"
            lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
            rows += [json.loads(line) for line in lines if line.endswith("\n")]
        return [
            row for row in rows if (not kinds or row["kind"] in kinds) and bead in (None, row.get("bead"))
        ]

    def feedback(self, bead_id: str) -> list[Any]:
        """What each dev execution was told of the attempt before it."""
        return [row["feedback_from_qa"] for row in self.metadata(bead_id)["dev_agent_executions"]]

    def pulls(self) -> dict[str, str]:
        """Branch → commit of the open pull requests."""
        records = sorted((self.root / ".ralph" / "pulls").glob("*.json"))
        said = [json.loads(path.read_text("utf-8")) for path in records]
        assert len({row["branch"] for row in said}) == len(said), "a second pull request for one branch"
        return {row["branch"]: git(self.root, "rev-parse", f"refs/pull/{row['number']}/head") for row in said}

    def worktree(self, branch: str) -> Path:
        return self.root.parent / f"{self.root.name}-worktrees" / branch

    # --- what must not be there ---

    def strays(self) -> list[int]:
        found = (Family(f"BEADS_RALPH_RUN_ID={run_id}").find() for run_id in self.run_ids())
        return sorted(process.pid for family in found for process in family)

    def end_strays(self) -> None:
        for pid in self.strays():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_tidy(self) -> None:
        """No process, no bead in hand, no checkout of a check, no lock."""
        assert self.strays() == []
        assert "in_progress" not in self.statuses().values()
        assert checkouts_of(self.root) == []
        listed = git(self.root, "worktree", "list", "--porcelain")
        assert "locked" not in listed
        assert list((self.root / ".git").rglob("*.lock")) == []


# --- the loop without its command -------------------------------------------------------------------


@contextmanager
def loop_of(
    project: Project,
    store: Store | None = None,
    select: Callable[[str], AgentCLI] = protocol.select,
    server_retry: Retry = SERVER_RETRY,
    scope: str | None = None,
    **settings: Any,
) -> Iterator[Loop]:
    """A loop on the beads of a compiled plan, as `run` makes it, but with a store or agents of the test's.
    `scope` names the plan that it is about; otherwise all are."""
    assert project.ralph("mason", "plan.md", "--check-existing", "--json").code == 0
    space = workspace.find(project.root)
    home = ralph_dir(project.root)
    run_id = runs.new_run_id()
    folder = runs.RunFolder(home, run_id)
    environment = {"PATH": os.environ["PATH"], "BEADS_RALPH_RUN_ID": run_id}
    journal = Journal(folder.journal, run_id)
    place = (executors.choose("local"), folder, environment)
    tools = Tools(
        space.root,
        space.config,
        *place,
        select,
        forge.choose("local", space.root),
        server_retry=server_retry,
    )
    how = Settings(run_id, runs.actor_name(space.root, run_id), **settings)
    try:
        yield Loop(store or project.store, tools, journal, how, Scope(plan_file=scope), in_process(tools))
    finally:
        journal.close()


def soon(claim: Callable[[], Any], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


def names(rows: Sequence[Mapping[str, Any]], key: str = "bead") -> list[Any]:
    return [row[key] for row in rows]
