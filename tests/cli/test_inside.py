"""A command inside the test's process answers as one in a process of its own, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from beads_ralph.cli.answer import Answer, guarded
from tests.cli import inside
from tests.cli.running import Ran, compiled_here, dump, ralph, ralph_alone, run, tree, write
from tests.compile.plans import plan, sprint
from tests.loop.plans import Project, names

PLAN = plan(sprint("1.1", "Start"), sprint("1.2", "Größe → 日本 🚀", verify="`true`"))
TELLING: list[list[str]] = [
    ["--help"],
    ["nonsense"],
    ["list", "--json"],
    ["show", "bd-none"],
    ["plan", "graph", "plan.md"],
    ["mason", "more.md", "--annotate"],
    ["validate", "bytes.json", "--json"],
    ["run", "plan.md", "--dry-run"],
]
MORE: list[list[str]] = [
    [],
    ["run", "--help"],
    ["--version"],
    ["list", "--nonsense", "--json"],
    ["list"],
    ["show", "bd-1-1-start", "--json"],
    ["ready"],
    ["status", "--json"],
    ["plan", "check", "plan.md"],
    ["plan", "check", "nope.md", "--json"],
    ["mason", "more.md", "--json"],
    ["mason", "bad.md"],
    ["validate", "-", "--json"],
    ["migrate", "bytes.json"],
    ["schema", "QAOutput"],
    ["config", "show"],
    ["formula", "list", "--json"],
    ["init"],
    ["close", "bd-1-1-start", "--json"],
    ["retry", "bd-none", "--json"],
    ["run", "more.md", "--store", "nonsense", "--json"],
    ["exec", "nope.json", "--json"],
]
COMMANDS = [*TELLING, *(pytest.param(words, marks=pytest.mark.full) for words in MORE)]


def filled(root: Path, repo: Path) -> Path:
    """A copy of the repository under the same name, in a folder of its own."""
    shutil.copytree(repo, root / repo.name, symlinks=True)
    return root / repo.name


@pytest.fixture
def shop(repo: Path) -> Path:
    compiled_here(repo, PLAN)
    write(repo / "more.md", plan(sprint("2.1", "More")))
    write(repo / "bad.md", plan(sprint("2.1", "A", branch="`--force`")))
    (repo / "bytes.json").write_bytes(b"\xff")
    return repo


def plain(text: str, root: Path) -> str:
    """Without what differs between any two calls."""
    text = text.replace(str(root), "ROOT")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "MOMENT", text)
    text = re.sub(r"'[0-9a-f]{32,64}'", "SEAL", text)  # of a row with moments in it
    return re.sub(r"\d{8}T\d{9}Z-[0-9a-f]+", "RUN", text)


def told(ran: Ran, root: Path) -> tuple[int, str, str]:
    return ran.code, plain(ran.out, root), plain(ran.err, root)


def left(root: Path) -> tuple[set[str], list[str]]:
    names = {plain(name, root) for name in tree(root) if not name.startswith(".git/")}
    return names, [plain(row, root) for row in dump(root)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_both_ways_say_and_leave_the_same(shop: Path, tmp_path: Path, words: list[str]) -> None:
    here, there = filled(tmp_path / "here", shop), filled(tmp_path / "there", shop)
    ran = ralph(*words, cwd=here, stdin="{}")
    alone = ralph_alone(*words, cwd=there, stdin="{}")
    assert told(ran, here) == told(alone, there)
    assert left(here) == left(there)


def test_both_ways_run_the_loop(repo: Path, tmp_path: Path) -> None:
    shop = Project.make(repo, sprint("1.1", "One"), sprint("1.2", "Two"), forge="none").root
    here, there = (Project(filled(tmp_path / name, shop)) for name in ("here", "there"))
    ran = here.run()
    alone = ralph_alone("run", "plan.md", "--json", cwd=there.root)
    assert (ran.code, ran.err) == (alone.code, alone.err)
    assert ran.data.keys() == alone.data.keys()
    assert ran.data["closed"] == alone.data["closed"]
    assert here.statuses() == there.statuses()
    assert names(here.events(), "kind") == names(there.events(), "kind")
    here.assert_tidy()


def test_a_bug_leaves_the_same_crash_file(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Answer:
        raise ZeroDivisionError

    script = "guarded(lambda: 1 / 0, 'json')"
    monkeypatch.setitem(inside.MAINS, "beads-ralph", lambda: guarded(fails, "json"))
    env = {"TMPDIR": str(tmp_path)}
    start = f"import sys; from beads_ralph.cli.answer import guarded; sys.exit({script})"
    both = [ralph(cwd=repo, env=env), run([sys.executable, "-c", start], cwd=repo, env=env)]
    for ran in both:
        crash = Path(str(ran.error["details"]).removeprefix("crash file: "))
        assert (ran.code, ran.error["code"], crash.parent) == (3, "INTERNAL.BUG", tmp_path)
        assert "ZeroDivisionError" in crash.read_text(encoding="utf-8")


def test_what_nobody_catches_is_told_and_ends_with_1(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise LookupError("nobody catches this")

    monkeypatch.setitem(inside.MAINS, "beads-ralph", fails)
    ran = ralph(cwd=repo)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("LookupError: nobody catches this\n")


def test_what_a_command_changes_of_the_process_is_put_back(shop: Path) -> None:
    def state() -> list[object]:
        log = logging.getLogger("beads_ralph")
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        streams = [(sys.stdin, sys.stdout, sys.stderr), [os.fstat(number).st_ino for number in range(3)]]
        return [
            Path.cwd(),
            dict(os.environ),
            sys.argv,
            tempfile.gettempdir(),
            streams,
            handlers,
            log.handlers[:],
            log.level,
        ]

    before = state()
    ralph("run", "plan.md", "--json", cwd=shop, env={"TMPDIR": str(shop), "TZ": "Asia/Tokyo", "NEW": "x"})
    ralph("nonsense", cwd=shop)
    assert state() == before


@pytest.mark.parametrize("name", ["PYTHONIOENCODING", "LC_ALL", "LANG"])
def test_what_only_a_start_can_change_is_refused(repo: Path, name: str) -> None:
    with pytest.raises(AssertionError, match="needs a process"):
        ralph("list", cwd=repo, env={name: "C"})
