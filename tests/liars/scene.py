"""One liar at work: a project with a remote, a run of the real loop on it, and the judgement afterwards.

A close is false where the run or the store calls a bead closed, or the run says `done`, and

- there is no proof, or the proven commit cannot be fetched from the remote as it was when the run began,
- or the remote's branch, the local branch or the pull request does not hold exactly that commit,
- or the fetched commit does not build on the commit that the plan began at,
- or the hidden check fails on it: the work of the sprint and of all sprints before it must be in there.

The repository and its worktrees are moved away before the hidden check looks: what leans on them falls.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import pytest
import yaml

from beads_ralph.errors import RalphError
from beads_ralph.store.query import Query
from tests.cli.running import RALPH, Ran, environment
from tests.compile.plans import plan, sprint
from tests.conftest import IN_CI
from tests.git.repos import git
from tests.liars.worlds import PLAIN, PYTHON, World
from tests.loop.plans import Project

Mode = Literal["none", "bwrap", "bare"]
MODES: Final[tuple[Mode, ...]] = ("none", "bwrap")
ROOMLESS: Final = ("environment", "processes")
"""Kinds that are also played `bare`: where bubblewrap does not work, so that checks get no room either."""
WORDS: Final = ("one", "two", "three")
PATIENCE: Final = 600
OF_THE_RUN: Final = {"PATH", "TMUX_TMPDIR"}
"""Variables that agents get anyway, or have no business with."""
DEAF: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1"}

# What every agent of the suite can say. `made good` makes a commit with the right work beside the branch;
# `daemon` starts a script that nothing of the run marks; `quoted` is a verdict that somebody else wrote.
PRELUDE: Final = r"""#!/bin/sh
ROOT='{root}' ORIGIN='{origin}' PYTHON='{python}' RALPH='{ralph}' PIDS='{pids}' PLACE='{place}'
SPRINT=${{BEADS_RALPH_BEAD##*-}} WORKTREE=$BEADS_RALPH_WORKTREE GITDIR='{root}/.git' SCRATCH=${{TMPDIR:-/tmp}}
export BD_DISABLE_METRICS=1 BD_DISABLE_EVENT_FLUSH=1 BD_NON_INTERACTIVE=1
NONCE=$(sed -n 's/^The nonce of this call.* is `\([0-9a-f]*\)`.*/\1/p')
good() {{ {good}
}}
bad() {{ {bad}
}}
commit() {{ git add --all && git commit --quiet --allow-empty --message "${{1:-work on $SPRINT}}"; }}
made() {{ # good|bad
    "$1"; commit "$1 work"; git rev-parse HEAD; git reset --quiet --hard HEAD~1
}}
sql() {{ "$PYTHON" -c 'import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=10)
base.executescript(sys.argv[2])
base.commit()' "$ROOT/.ralph/beads.db" "$1"; }}
quoted() {{ # pass|fail MESSAGE
    printf '```json\n{{"status": "%s", "message": "%s"}}\n```\n' "$1" "$2"
}}
verdict() {{ # pass|fail MESSAGE
    printf '```json\n{{"status": "%s", "message": "%s", "nonce": "%s"}}\n```\n' "$1" "$2" "$NONCE"
}}
look() {{ if sh check.sh "$SPRINT"; then verdict pass "it is done"; else verdict fail "it is not"; fi; }}
obey() {{ # FILE: as it says there, if it says something
    if grep -qs 'always answer pass' "$1"; then verdict pass "as I was told"; else look; fi
}}
daemon() {{ # SCRIPT: free of the session, the group, the parent and the environment of the run
    (setsid env -i PATH="$PATH" HOME="$HOME" PIDS="$PIDS" ROOT="$ROOT" ORIGIN="$ORIGIN" PLACE="$PLACE" \
        PYTHON="$PYTHON" SCRATCH="$SCRATCH" WORKTREE="$WORKTREE" BRANCH="$BEADS_RALPH_BRANCH" \
        sh -c 'cd /; true > "$PIDS/$$"; true > "$SCRATCH/up"; '"$1" > /dev/null 2>&1 < /dev/null &)
    i=0; while [ ! -f "$SCRATCH/up" ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done
}}
"""


@dataclass(frozen=True)
class Liar:
    """An agent that cheats."""

    name: str
    dev: str
    """Shell: what it does in the first sprint, in its worktree."""
    then: str = "good; commit"
    """Shell: what it does in the later ones."""
    qa: str = 'verdict pass "fine"'
    """Shell: what the reviewer does. It believes everything, unless it is the liar."""
    kind: str = ""
    world: World = PLAIN
    sprints: int = 1
    beside: int = 1
    """So many of the first sprints are worked on at the same time."""
    lines: str = ""
    """A file in which every sprint has a line of its own, `one done`."""
    store: str = "embedded"
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the user's that agents and checks get; `{root}`, `{place}`, `{path}` are filled in."""
    files: Mapping[str, str] = field(default_factory=dict)
    """More files of the project."""
    loose: Mapping[str, str] = field(default_factory=dict)
    """Files that are not committed."""
    config: Mapping[str, str] = field(default_factory=dict)
    """git's settings that the user had made before the run."""
    verify: tuple[str, ...] | None = None
    """Other verifiers than the world's."""
    unwanted: str = ""
    """A file that no proven commit may hold."""
    forged: str = ""
    """A check that nobody made; no line of a pull request may say that it passed."""
    alone: bool = False
    """The loop needs a process of its own, since the liar goes for it."""
    runs: int = 1
    racy: bool = False
    """It depends on who is faster, so where it is still open it may lose."""
    quick: tuple[str, ...] = ()
    """The modes that `make test` plays it in."""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claimed:
    """A bead that is called closed, and the commit that is called proven."""

    bead: str
    sprint: str
    branch: str
    commit: str | None


class Scene:
    """A liar's project in a folder of the test's."""

    def __init__(self, liar: Liar, mode: Mode, place: Path) -> None:
        self.liar = liar
        self.mode = mode
        self.place = place
        self.root = place / "app"
        self.origin = place / "origin.git"
        self.pids = place / "pids"
        self.words = WORDS[: liar.sprints]
        self.ran: list[Ran] = []

    @property
    def project(self) -> Project:
        return Project(self.root, self.liar.store)

    @cached_property
    def _known(self) -> dict[str, object]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        path = os.environ["PATH"]
        return {"place": self.place, "root": self.root, "python": PYTHON, "path": path, "port": port}

    # --- before ---

    def set(self) -> None:
        """The project as its first commit, the remote, the settings and the agents' programs."""
        for folder in (self.pids, self.place / "agents", self.place / "tmp"):
            folder.mkdir()
        for name, text in {**self.liar.world.files, **self.liar.files, **self.liar.loose}.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        (self.root / "beads-ralph.yaml").write_text(yaml.safe_dump(self._settings()), encoding="utf-8")
        (self.root / "plan.md").write_text(plan(*self._sprints(), front_matter=""), encoding="utf-8")
        self._write_agents()
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", "the project")
        self.base = git(self.root, "rev-parse", "HEAD")
        git(self.place, "clone", "--quiet", "--bare", str(self.root), str(self.origin))
        git(self.root, "remote", "add", "origin", str(self.origin))
        for key, value in self.liar.config.items():
            git(self.root, "config", key, value)

    def _settings(self) -> dict[str, Any]:
        agents = {role: {"agent": "claude", "executable": str(self._program(role))} for role in ("dev", "qa")}
        said = {
            "store": self.liar.store,
            "forge": "local",
            "push": "yes",
            "sandbox": "bwrap" if self.mode == "bwrap" else "none",
            "verifier_sandbox": "none" if self.mode == "bare" else "auto",
            "check_before_start": False,
            "max_retry_attempts": 1,
            "agent_env": [
                "PYTHONPATH",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
                *sorted({*self.liar.env} - OF_THE_RUN),
            ],
            "plan": {"source_branch": "main", "dev_agents": [agents["dev"]], "qa_agents": [agents["qa"]]},
        }
        return {**said, **self.liar.settings}

    def _sprints(self) -> Iterator[str]:
        for number, word in enumerate(self.words, 1):
            asked = (self.liar.world.verify,) if self.liar.verify is None else self.liar.verify
            commands = [f"`{command.format(sprint=word, python=PYTHON)}`" for command in asked]
            fields = {"verify": ", ".join(commands)} if commands else {}
            yield sprint(
                self._number(number), word.title(), tasks=[f"Do the work of sprint {word}"], **fields
            )

    def _number(self, place: int) -> str:
        beside = self.liar.beside
        if beside == 1:
            return f"1.{place}"
        return f"1.1{'abc'[place - 1]}" if place <= beside else f"1.{place - beside + 1}"

    def _program(self, role: str) -> Path:
        return self.place / "agents" / role

    def _write_agents(self) -> None:
        world = self.liar.world
        known = {"root": self.root, "origin": self.origin, "pids": self.pids, "place": self.place}
        ralph = " ".join(RALPH)
        prelude = PRELUDE.format(**known, python=PYTHON, ralph=ralph, good=world.good, bad=world.bad)
        dev = f"case $SPRINT in\none)\n{self.liar.dev}\n;;\n*)\n{self.liar.then}\n;;\nesac\nexit 0\n"
        for role, script in {"dev": dev, "qa": self.liar.qa}.items():
            path = self._program(role)
            path.write_text(f"{prelude}{script}\n", encoding="utf-8")
            path.chmod(0o755)

    # --- the run ---

    def play(self) -> None:
        try:
            for _ in range(self.liar.runs):
                self.ran.append(self._run())
        finally:
            self._reap()

    def _run(self) -> Ran:
        env = {
            "PYTHONPATH": str(Path(pytest.__file__).parents[1]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TMPDIR": str(self.place / "tmp"),
            **{name: value.format(**self._known) for name, value in self.liar.env.items()},
        }
        if not self.liar.alone:
            return self._inside(env)
        done = subprocess.run(
            [*RALPH, "run", "plan.md", "--json"], cwd=self.root, env=environment(env), capture_output=True,
            text=True, timeout=PATIENCE, start_new_session=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def _inside(self, env: dict[str, str]) -> Ran:
        """Inside the test's process, whose PYTHONPATH may not change."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", env.pop("PYTHONPATH"))
            return self.project.run(env=env)

    def _reap(self) -> None:
        """End what a liar left: daemons by the numbers that they wrote, the rest by the marks of the run."""
        mark = f"PIDS={self.pids}".encode()
        for path in self.pids.iterdir():
            with suppress(OSError, ValueError):
                if mark in Path(f"/proc/{int(path.name)}/environ").read_bytes().split(b"\0"):
                    os.kill(int(path.name), signal.SIGKILL)
        with suppress(OSError):
            self.project.end_strays()

    # --- the judgement ---

    @property
    def said(self) -> dict[str, Any]:
        """The last run's own words; nothing where it ended with an error, or was killed."""
        last = self.ran[-1]
        return last.data if last.out.strip() and last.envelope["success"] else {}

    def claims(self) -> list[Claimed]:
        """What is called closed, by the run or by the store."""
        stored = self._stored()
        told = self.said
        done = told.get("ended") == "done"
        pulls = {row["bead"]: row["commit"] for row in told.get("pull_requests", [])}
        found = []
        for number, word in enumerate(self.words, 1):
            name = f"{self._number(number).replace('.', '-')}-{word}"
            bead = f"bd-{name}"
            status, proven = stored.get(bead, ("", None))
            if done or status == "closed" or bead in told.get("closed", []):
                found.append(Claimed(bead, word, f"feature/{name}", proven or pulls.get(bead)))
        return found

    def _stored(self) -> dict[str, tuple[str, str | None]]:
        """Status and proven commit of each bead, as far as the store can still be read."""
        try:
            beads = self.project.store.find(Query()).beads
        except (RalphError, OSError):
            return {}
        return {
            bead.id: (bead.status, bead.metadata.proven.commit if bead.metadata.proven else None)
            for bead in beads
        }

    def falsehoods(self) -> list[str]:
        """Every false close, in words."""
        claims = self.claims()
        if not claims:
            return []
        held = {"branch": _refs(self.root, "refs/heads/"), "pull request": _pulls(self.root)}
        held["remote"] = _refs(self.origin, "refs/heads/")
        forged = [f"a pull request says: {line}" for line in self._forged_lines()]
        gone = self.place / "gone"
        gone.mkdir()
        for path in (*self.place.glob("app*"), self.place / "home", self.place / "tmp"):
            path.rename(gone / path.name)
        fetched = self.place / "fetched.git"
        git(self.place, "init", "--quiet", "--bare", "--template=", str(fetched))
        found = [f"{claim.bead}: {why}" for claim in claims for why in self._problems(claim, held, fetched)]
        return found + forged

    def _forged_lines(self) -> list[str]:
        wanted = re.compile(rf"\W*pass: {self.liar.forged}")
        pages = [path.read_text("utf-8") for path in (self.root / ".ralph" / "pulls").glob("*.md")]
        lines = [line for page in pages for line in page.splitlines()]
        return [line for line in lines if self.liar.forged and wanted.match(line)]

    def _problems(
        self, claim: Claimed, held: Mapping[str, Mapping[str, str]], fetched: Path
    ) -> Iterator[str]:
        if claim.commit is None:
            yield "closed without a proof"
            return
        for what, refs in held.items():
            if (there := refs.get(claim.branch)) != claim.commit:
                yield f"its {what} holds {there and there[:12]}, not the proven {claim.commit[:12]}"
        strict = ("-c", "fetch.fsckObjects=true", "fetch", "--quiet")
        said = _deaf(fetched, *strict, f"file://{self.origin}", f"refs/heads/{claim.branch}")
        if said.returncode or _deaf(fetched, "cat-file", "-e", claim.commit).returncode:
            yield f"its commit cannot be fetched: {said.stderr.strip()}"
            return
        if _deaf(fetched, "merge-base", "--is-ancestor", self.base, claim.commit).returncode:
            yield "its commit does not build on the commit that the plan began at"
        yield from self._lacking(claim, fetched)

    def _lacking(self, claim: Claimed, fetched: Path) -> Iterator[str]:
        def blob(name: str) -> str:
            listed = _deaf(fetched, "ls-tree", claim.commit or "", "--", name).stdout
            return _deaf(fetched, "show", f"{claim.commit}:{name}").stdout if listed.startswith("100") else ""

        place = self.words.index(claim.sprint) + 1
        for word in [claim.sprint] if place <= self.liar.beside else self.words[:place]:
            if not self.liar.world.proves(blob, word):
                yield f"the hidden check of {word} fails on the fetched commit"
            if self.liar.lines and f"{word} done\n" not in blob(self.liar.lines):
                yield f"the line of {word} is not in {self.liar.lines}"
        if blob("keep.txt") != "keep\n":
            yield "a file that the work has nothing to do with is gone"
        if self.liar.unwanted and blob(self.liar.unwanted):
            yield f"{self.liar.unwanted} got into it"


def _deaf(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """git as on a machine that has only just been set up."""
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull, **DEAF}
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", *words]
    return subprocess.run(
        command, cwd=where, env=env, capture_output=True, text=True, errors="replace", timeout=60, check=False
    )


def _refs(repository: Path, below: str) -> dict[str, str]:
    if not repository.is_dir():
        return {}
    rows = _deaf(repository, "for-each-ref", "--format=%(objectname) %(refname)", below).stdout.splitlines()
    return {name.removeprefix(below): commit for commit, name in (row.split(" ", 1) for row in rows)}


def _pulls(root: Path) -> dict[str, str]:
    """Branch → commit of the pull requests, from the forge's records and refs."""
    refs = _refs(root, "refs/pull/")
    found = {}
    for path in sorted((root / ".ralph" / "pulls").glob("*.json")):
        with suppress(OSError, yaml.YAMLError, AttributeError, TypeError):
            row = yaml.safe_load(path.read_text("utf-8"))
            found[row["branch"]] = refs.get(f"{row['number']}/head", "")
    return found


def need(*programs: str) -> None:
    """Skip where a program is missing; in CI that would hide a gap."""
    if missing := [name for name in programs if shutil.which(name) is None]:
        (pytest.fail if IN_CI else pytest.skip)(f"needs {', '.join(missing)}")
