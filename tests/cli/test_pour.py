"""pour and wisp as people and scripts meet them: interruptions, full disks, questions, progress."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.compile.pour import BATCH
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import ItemQuery, Query
from tests.cli.running import RALPH, Ran, environment, ralph, write
from tests.cli.stand_in import wrapped_bd

FORMULA = {"formula": "row", "vars": {"n": {"required": True}}, "steps": [{"id": "a", "title": "Row {{n}}"}]}
A_BATCH = BATCH // 2
"""So many rows: each has a root and a step."""
MANY = 40 * A_BATCH
PATIENCE = 120.0


@pytest.fixture
def shop(repo: Path) -> Path:
    return prepared(repo)


def prepared(root: Path, store: str = "embedded", formula: dict[str, Any] | None = None) -> Path:
    said = formula or FORMULA
    write(root / "beads-ralph.yaml", f"store: {store}\n")
    write(root / ".beads" / "formulas" / f"{said['formula']}.formula.json", json.dumps(said))
    return root


def rows(root: Path, count: int) -> Path:
    return write(root / "rows.csv", "n\n" + "".join(f"{n}\n" for n in range(2, count + 2)))


def poured(root: Path) -> list[int]:
    """The numbers of the rows in the store; every root has its step, and every step its root."""
    items = EmbeddedStore(root).items.find(ItemQuery())
    roots = {item.id for item in items if item.issue_type == "molecule"}
    steps = [item for item in items if item.issue_type == "task"]
    assert {item.parent for item in steps} == roots
    assert len(steps) == len(roots)
    return sorted(int(item.title.removeprefix("Row ")) for item in steps)


def soon(claim: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < until
        time.sleep(0.02)


@contextmanager
def pouring(root: Path, *words: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    command = [*RALPH, "pour", "row", "--vars-file", "rows.csv", *words]
    with subprocess.Popen(
        command, cwd=root, env=environment({}), stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def is_writing(process: subprocess.Popen[str]) -> bool:
    """Whether it takes SIGTERM itself, which it does from the first row to the last."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    assert caught is not None
    return bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def interrupted(root: Path, *words: str, number: signal.Signals = signal.SIGINT) -> Ran:
    with pouring(root, *words, "--json") as process:
        soon(lambda: is_writing(process))
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    return Ran(process.returncode, out, err)


# --- interruptions ----------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_pour_ends_after_the_batch_in_hand_and_says_how_to_go_on(
    shop: Path, number: signal.Signals
) -> None:
    rows(shop, MANY)
    ended = interrupted(shop, number=number)
    assert (ended.code, ended.error["code"]) == (130, "EXECUTION.INTERRUPTED"), ended.out
    account = ended.error["details"]["account"]
    done = account["poured"]
    assert account == {"rows": MANY, "poured": done, "failed": None, "not_tried": MANY - done}
    assert done % A_BATCH == 0
    assert len(ended.error["details"]["molecules_created"]) == done
    assert poured(shop) == [*range(2, done + 2)]
    command = ended.error["suggested_action"].removeprefix("Go on with: ")
    assert command == f"beads-ralph pour row --vars-file rows.csv --rows {done + 2}-"
    assert ralph(*shlex.split(command)[1:], cwd=shop).code == 0
    assert poured(shop) == [*range(2, MANY + 2)]


def test_rows_that_were_chosen_stay_chosen_when_going_on(shop: Path) -> None:
    rows(shop, MANY + 10)
    ended = interrupted(shop, "--rows", f"2-{MANY},{MANY + 5}")
    start = ended.error["details"]["account"]["poured"] + 2
    assert ended.error["suggested_action"].endswith(f"--rows {start}-{MANY},{MANY + 5}")


def test_a_pour_that_is_killed_leaves_whole_rows(shop: Path) -> None:
    rows(shop, MANY)
    with pouring(shop) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("poured ")
        process.kill()
        process.wait()
    found = poured(shop)
    assert found == list(range(2, len(found) + 2))
    assert len(found) % A_BATCH == 0
    assert ralph("pour", "row", "--vars-file", "rows.csv", "--rows", f"{len(found) + 2}-", cwd=shop).code == 0
    assert len(poured(shop)) == MANY


def test_a_pour_goes_on_when_nobody_looks_any_more(shop: Path) -> None:
    """`beads-ralph pour … 2>&1 | head -1`"""
    rows(shop, 10 * A_BATCH)
    ours, theirs = os.pipe()
    with pouring(shop, stderr=theirs) as process:
        os.close(theirs)
        assert os.read(ours, 1)
        os.close(ours)
        process.communicate()
    assert process.returncode == 0
    assert len(poured(shop)) == 10 * A_BATCH


# --- failures of the world --------------------------------------------------------------------------


def test_s1_fr7_7_a_disk_that_fills_up_leaves_whole_rows_and_an_exact_account(shop: Path) -> None:
    wide = FORMULA | {"steps": [{"id": "a", "title": "Row {{n}}", "description": "x" * 5000}]}
    prepared(shop, formula=wide)
    rows(shop, 20 * A_BATCH)

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

    words = ("pour", "row", "--vars-file", "rows.csv", "--json")
    done = subprocess.run(
        [*RALPH, *words],
        cwd=shop,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=limited,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    assert (ran.code, ran.error["code"]) == (1, "FORMULA.POUR_FAILED"), ran.out
    account = ran.error["details"]["account"]
    found = poured(shop)
    assert 0 < account["poured"] == len(found) < 20 * A_BATCH
    assert account["failed"]["row"] == len(found) + 2
    assert account["failed"]["code"] == "IO.WRITE_FAILED"
    assert account["poured"] + 1 + account["not_tried"] == account["rows"]
    assert ran.error["suggested_action"].endswith(f"--rows {len(found) + 2}-")
    assert ralph(*words, "--rows", f"{len(found) + 2}-", cwd=shop).code == 0
    assert len(poured(shop)) == 20 * A_BATCH


@pytest.mark.bd
def test_s1_fr7_7_a_bd_that_dies_leaves_whole_rows_and_an_exact_account(
    bd_repo: Path, bd_path: Path, tmp_path: Path
) -> None:
    prepared(bd_repo, "bd")
    rows(bd_repo, 4)
    notes = tmp_path / "pours"
    dies = (
        f'if [ "$1 $2" = "mol pour" ]; then echo x >>"{notes}"; [ "$(wc -l <"{notes}")" -lt 3 ] || exit 7; fi'
    )
    ran = ralph(
        *("pour", "row", "--vars-file", "rows.csv", "--json"),
        cwd=bd_repo,
        env={"PATH": wrapped_bd(tmp_path / "bin", bd_path, dies)},
    )
    assert (ran.code, ran.error["code"]) == (1, "FORMULA.POUR_FAILED"), ran.out
    account = ran.error["details"]["account"]
    assert (account["rows"], account["poured"], account["not_tried"]) == (4, 2, 1)
    assert account["failed"]["row"] == 4
    assert ran.error["suggested_action"].endswith("--rows 4-")
    steps = BdStore(bd_repo).items.find(ItemQuery(types=("task",)))
    assert sorted(item.title for item in steps) == ["Row 2", "Row 3"]


@pytest.mark.bd
def test_an_interrupted_pour_of_bds_own_ends_after_the_row_in_hand(
    bd_repo: Path, bd_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(bd_repo, "bd")
    rows(bd_repo, 3)
    wait = (
        f'if [ "$1 $2" = "mol pour" ]; then touch "{tmp_path}/at-it"; '
        f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done; fi'
    )
    monkeypatch.setenv("PATH", wrapped_bd(tmp_path / "bin", bd_path, wait))
    with pouring(bd_repo, "--json") as process:
        soon((tmp_path / "at-it").exists)
        process.send_signal(signal.SIGINT)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=PATIENCE)
    ran = Ran(process.returncode, out, err)
    assert (ran.code, ran.error["details"]["account"]["poured"]) == (130, 1)
    assert ran.error["suggested_action"].endswith("--rows 3-")


# --- people -----------------------------------------------------------------------------------------


def at_a_terminal(root: Path, *words: str, say: str = "") -> tuple[int, str]:
    """What the command writes to a terminal, with somebody who types."""
    ours, theirs = os.openpty()
    settings = {"TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": ""}
    with subprocess.Popen(
        [*RALPH, *words], cwd=root, env=environment(settings), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, say.encode())
        seen = b""
        with suppress(OSError):  # how a terminal says that nobody writes to it any more
            while more := os.read(ours, 65536):
                seen += more
        os.close(ours)
    return process.returncode, seen.decode("utf-8", "replace")


def test_people_see_a_bar_at_a_terminal_and_lines_elsewhere(shop: Path) -> None:
    rows(shop, 2 * A_BATCH)
    code, seen = at_a_terminal(shop, "pour", "row", "--vars-file", "rows.csv")
    assert code == 0
    assert f"{2 * A_BATCH}/{2 * A_BATCH}" in seen
    assert f"{2 * A_BATCH} molecules poured: bd-row-001 … bd-row-060" in seen
    ran = ralph("pour", "row", "--vars-file", "rows.csv", cwd=shop)
    assert ran.err.splitlines() == [f"poured {n * A_BATCH} of {2 * A_BATCH} rows" for n in (1, 2)]
    assert "… and 40 more" in ran.out
    rows(shop, MANY)
    ran = ralph("pour", "row", "--vars-file", "rows.csv", cwd=shop)
    lines = ran.err.splitlines()
    assert lines[-1] == f"poured {MANY} of {MANY} rows"
    assert 10 <= len(lines) <= 21
    assert ralph("pour", "row", "--var", "n=1", cwd=shop).err == ""


def test_people_see_what_would_be_poured(shop: Path) -> None:
    ran = ralph("pour", "row", "--var", "n=[bold]", "--dry-run", cwd=shop)
    assert "bd-row-001-a  Row [bold]  task" in ran.out
    assert "1 molecule with 1 bead would be poured; nothing was" in ran.out


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("said", "left"), [("y\n", 0), ("n\n", 2), ("\n", 2)])
@pytest.mark.parametrize("words", [("gc", "--age", "0"), ("burn", "bd-row-001")])
def test_s1_fr7_8_people_are_shown_what_goes_and_asked(
    shop: Path, words: tuple[str, ...], said: str, left: int
) -> None:
    assert ralph("wisp", "row", "--var", "n=1", cwd=shop).code == 0
    code, seen = at_a_terminal(shop, "wisp", *words, say=said)
    assert code == 0
    assert "- bd-row-001-a" in seen
    assert "Remove 2 wisps for good?" in seen
    assert len(EmbeddedStore(shop).items.find(ItemQuery())) == left
    assert ("2 wisps removed" in seen) is (left == 0)


def test_s1_fr7_8_a_listing_marks_what_is_old(shop: Path) -> None:
    assert "no wisps" in ralph("wisp", "list", cwd=shop).out
    for n in (1, 2):
        ralph("wisp", "row", "--var", f"n={n}", cwd=shop)
    with closing(sqlite3.connect(shop / ".ralph" / "beads.db")) as database, database:
        old = "2020-01-01T00:00:00Z"
        database.execute(
            "UPDATE beads SET created_at = ?, updated_at = ? WHERE id LIKE 'bd-row-001%'", (old, old)
        )
    ran = ralph("wisp", "list", cwd=shop)
    assert "4 wisps in 2 molecules, 2 of them old" in ran.out
    assert "beads-ralph wisp gc" in ran.out
    data = ralph("wisp", "list", "--json", cwd=shop).data
    assert {row["id"] for row in data["wisps"] if row["old"]} == {"bd-row-001", "bd-row-001-a"}
    gone = ralph("wisp", "gc", "--force", cwd=shop)
    assert "✓ 2 wisps removed" in gone.out
    assert "= kept bd-row-002  it was touched lately" in gone.out


def test_s1_fr7_8_nothing_but_gc_and_burn_removes_a_wisp(shop: Path) -> None:
    ralph("wisp", "row", "--var", "n=1", cwd=shop)
    with closing(sqlite3.connect(shop / ".ralph" / "beads.db")) as database, database:
        database.execute("UPDATE beads SET created_at = '2020-01-01T00:00:00Z', updated_at = created_at")
    for words in (["wisp", "list"], ["pour", "row", "--var", "n=2"], ["list"], ["ready"], ["clean"]):
        assert ralph(*words, cwd=shop).code == 0
    assert {item.id for item in EmbeddedStore(shop).items.find(ItemQuery(wisps_only=True))} == {
        "bd-row-001",
        "bd-row-001-a",
    }


def test_s1_fr7_8_what_something_else_waits_for_stays_and_the_rest_goes(shop: Path) -> None:
    for n in (1, 2):
        ralph("wisp", "row", "--var", f"n={n}", cwd=shop)
    waiting = {"formula": "wait", "steps": [{"id": "a", "title": "Row 9", "after": ["bd-row-001-a"]}]}
    prepared(shop, formula=waiting)
    assert ralph("pour", "wait", cwd=shop).code == 0
    done = ralph("wisp", "gc", "--age", "0", "--force", "--json", cwd=shop).data
    assert set(done["removed"]) == {"bd-row-002", "bd-row-002-a"}
    (kept,) = done["kept"]
    assert kept["id"] == "bd-row-001"
    assert "bd-wait-001-a" in kept["why"]
    refused = ralph("wisp", "burn", "bd-row-001", "--force", "--json", cwd=shop)
    assert refused.error["code"] == "DATABASE.CONFLICT"
    assert len(EmbeddedStore(shop).items.find(ItemQuery(wisps_only=True))) == 2


# --- slips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pour", "row", "--var", "n"], "not NAME=VALUE"),
        (["pour", "row", "--var", "=1"], "not NAME=VALUE"),
        (["pour", "row", "--var", "n=1", "--var", "n=2"], "given twice"),
        (["pour", "row", "--var", "n=1", "--rows", "2-"], "--rows chooses rows of a file"),
        (["pour", "row", "--vars-file", "rows.csv", "--rows", "9-"], "leaves no row"),
        (["pour"], "NAME"),
        (["wisp", "gc", "--age", "soon"], "not a duration"),
        (["wisp", "gc", "--age", "-1h"], "not a duration"),
        (["wisp", "burn"], "ID"),
    ],
)
def test_slips_of_the_command_line_are_usage_errors(shop: Path, words: list[str], said: str) -> None:
    rows(shop, 2)
    ran = ralph(*words, "--json", cwd=shop)
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")
    assert said in ran.error["message"]
    assert not (shop / ".ralph" / "beads.db").exists() or poured(shop) == []


def test_a_file_that_is_not_there_is_named(shop: Path) -> None:
    ran = ralph("pour", "row", "--vars-file", "none.csv", "--json", cwd=shop)
    assert (ran.code, ran.error["code"]) == (1, "IO.FILE_NOT_FOUND")


def test_options_may_stand_before_the_name_of_a_wisp(shop: Path) -> None:
    assert ralph("wisp", "--var", "n=1", "row", "--json", cwd=shop).data["wisp"] is True
    assert "wisp NAME" in ralph("wisp", "--help", cwd=shop).out


def test_values_are_taken_literally(shop: Path) -> None:
    text = "a=b {{n}} {i} $HOME 'x' \"y\" \\n ☃"
    data = ralph("pour", "row", "--var", f"n={text}", "--json", cwd=shop).data
    (item,) = EmbeddedStore(shop).items.find(ItemQuery(ids=data["bead_ids"]))
    assert item.title == f"Row {text}"


def test_numbers_whose_branches_are_there_are_not_given_again(shop: Path) -> None:
    """A wisp is burnt; the work on its branch is not."""
    subprocess.run(["git", "branch", "feature/row-007-step"], cwd=shop, check=True, timeout=60)
    data = ralph("pour", "row", "--var", "n=1", "--json", cwd=shop).data
    assert data["molecules_created"] == ["bd-row-008"]


def test_a_poured_bead_is_a_bead_for_every_other_command(shop: Path) -> None:
    write(
        shop / "beads-ralph.yaml",
        "store: embedded\nplan: {source_branch: main, dev_agents: [claude], qa_agents: [claude]}\n",
    )
    said = {"formula": "bead", "steps": [{"id": "a", "title": "A", "type": "beads-ralph-work"}]}
    prepared_formula = shop / ".beads" / "formulas" / "bead.formula.json"
    write(prepared_formula, json.dumps(said))
    (identity,) = ralph("pour", "bead", "--json", cwd=shop).data["bead_ids"]
    (shown,) = ralph("show", identity, "--json", cwd=shop).data["beads"]
    write(shop / "bead.json", json.dumps(shown))
    assert ralph("validate", "bead.json", cwd=shop).code == 0
    assert [bead["id"] for bead in ralph("ready", "--json", cwd=shop).data["beads"]] == [identity]
    assert [bead.id for bead in EmbeddedStore(shop).find(Query()).beads] == [identity]
