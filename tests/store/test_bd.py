"""The bd store on the real bd. What every store must do stands in the contract suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import ASSIGNEE, MERGE, WORK
from beads_ralph.errors import Code, RalphError
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.process.jobs import Exit
from beads_ralph.store.bd.bd_store import BdStore, initialise
from beads_ralph.store.bd.cli import error_text, is_busy
from beads_ralph.store.bd.setup import missing_settings, only_writer
from beads_ralph.store.bd.shape import dumped, graph, seed
from beads_ralph.store.protocol import Changes, Findings, Store
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.store.conftest import Call, calling, git_in


@pytest.fixture
def store(bd_repo: Path) -> BdStore:
    return BdStore(bd_repo)


def script(path: Path, text: str) -> str:
    """A program that stands before the real bd."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def refused(code: Code, act: Callable[[], object]) -> RalphError:
    with pytest.raises(RalphError) as caught:
        act()
    assert caught.value.code == code, caught.value
    return caught.value


def ids(beads: tuple[Bead, ...]) -> list[str]:
    return [bead.id for bead in beads]


# --- preflight --------------------------------------------------------------------------------------


def test_without_bd_the_user_is_told_to_install_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    problem = refused(Code.CLI_NOT_FOUND, BdStore(repo).check)
    assert "Install bd" in problem.suggested_action
    refused(Code.CLI_NOT_FOUND, BdStore(repo, bd="/nowhere/bd").check)
    refused(Code.CLI_NOT_FOUND, lambda: initialise(repo))


def test_an_old_bd_is_refused_by_its_version(repo: Path, tmp_path: Path) -> None:
    old = script(tmp_path / "bd", 'echo "bd version 0.49.0"; echo \'{"daemon_running": false}\'')
    assert "0.49.0" in refused(Code.CLI_NOT_FOUND, BdStore(repo, bd=old).check).message
    mute = script(tmp_path / "mute", "exit 3")
    refused(Code.CLI_NOT_FOUND, BdStore(repo, bd=mute).check)


def test_a_daemon_that_does_not_run_is_only_a_warning(repo: Path, tmp_path: Path) -> None:
    (repo / ".beads").mkdir()
    info = json.dumps({"daemon_running": False, "database_path": str(repo / ".beads" / "beads.db")})
    talker = script(tmp_path / "bd", f"[ $1 = --version ] && echo bd version 1.4.2 && exit\necho '{info}'")
    found = BdStore(repo, bd=talker).check()
    assert found.version == "1.4.2"
    assert [warning.code for warning in found.warnings] == [Code.DAEMON_NOT_RUNNING]


@pytest.mark.bd
def test_a_directory_without_a_database_is_not_initialised(
    bd_repo: Path, bd: Call, tmp_path: Path, store: Store
) -> None:
    assert isinstance(store, Store)
    info = store.check()
    assert (info.kind, info.version, info.warnings) == ("bd", "1.3.0", ())
    assert Path(info.location).is_relative_to(bd_repo / ".beads")
    assert not (bd_repo / ".ralph").exists()  # looking writes nothing

    refused(Code.NOT_INITIALIZED, BdStore(tmp_path / "nowhere").check)
    # bd itself would walk up and take the database above.
    below = bd_repo / "below"
    below.mkdir()
    problem = refused(Code.NOT_INITIALIZED, BdStore(below).check)
    assert "beads-ralph init" in problem.suggested_action
    (below / ".beads").mkdir()
    refused(Code.NOT_INITIALIZED, lambda: BdStore(below).create([make_bead("bd-a")]))
    assert bd("list", "--all", "--json") == []


@pytest.mark.bd
def test_initialise_makes_a_quiet_database_once(
    repo: Path, bd_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as change:
        change.setenv("BEADS_DIR", str(repo / "elsewhere" / ".beads"))
        change.setenv("HOME", "/nonexistent")
        initialise(repo, str(bd_path))
    config = calling(repo, bd_path)("config", "list", "--json")
    assert config["types.custom"] == f"{WORK},{MERGE}"
    assert config["claim.pools"] == ASSIGNEE
    assert "allowed_prefixes" not in config
    initialise(repo, str(bd_path))
    assert git_in(repo, "status", "--porcelain") == ""
    assert git_in(repo, "rev-list", "--count", "HEAD") == "1"
    assert "hookspath" not in git_in(repo, "config", "--list", "--local")


# --- a user's own database --------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.bd
def test_a_users_database_keeps_its_prefix_its_settings_and_its_issues(
    repo: Path, bd_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bd_path.parent), prepend=os.pathsep)
    bd = calling(repo, bd_path)
    bd("init", "--non-interactive", "--prefix=myapp", "--stealth", "--skip-hooks", "--skip-agents", "--quiet")
    bd("config", "set", "types.custom", '["mine"]')
    bd("config", "set", "claim.pools", "crew")
    bd("create", "plain", "--id=myapp-1-task", "--json")
    _claim_long_ago(bd, "myapp-1-task", "user")

    initialise(repo)  # a prefix of its own is no reason to refuse
    store = BdStore(repo)
    far = make_bead("bd-1-1-a", dependencies=["myapp-1-task"])
    store.create([far, make_bead("other-2"), make_bead("other-3", dependencies=["bd-1-1-a"])])
    config = bd("config", "list", "--json")
    assert config["issue_prefix"] == "myapp"
    assert config["types.custom"] == f"mine,{WORK},{MERGE}"
    assert config["claim.pools"] == f"crew,{ASSIGNEE}"
    assert config["allowed_prefixes"] == "bd,other"

    foreign = bd("list", "--id=myapp-1-task", "--json")
    assert ids(store.find(Query()).beads) == ["bd-1-1-a", "other-2", "other-3"]
    assert ids(store.find(Query(ids=["myapp-1-task", "other-2"])).beads) == ["other-2"]
    # bd neither waits for a dependency of another prefix nor sees a cycle through one.
    assert ids(store.ready().beads) == ["other-2"]
    circle = Changes(dependencies=["myapp-1-task", "other-3"])
    refused(Code.CYCLE_DETECTED, lambda: store.update("bd-1-1-a", circle))
    assert store.claim("bd-1-1-a", "w1").refusal == "blocked by myapp-1-task"
    bd("update", "bd-1-1-a", "--claim", "--actor=w1", "--json")  # bd does not mind
    assert "myapp-1-task" in refused(Code.CONFLICT, lambda: store.close("bd-1-1-a", "w1", "x")).message
    store.release("bd-1-1-a", "w1")
    assert store.reclaim(timedelta(0)) == []
    assert store.heartbeat("myapp-1-task", "user") is False
    for act in (
        lambda: store.show("myapp-1-task"),
        lambda: store.update("myapp-1-task", Changes(title="x")),
        lambda: store.claim("myapp-1-task", "user"),
        lambda: store.close("myapp-1-task", "user", "x"),
    ):
        refused(Code.BEAD_NOT_FOUND, act)
    foreign[0]["dependent_count"] = bd("list", "--id=myapp-1-task", "--json")[0]["dependent_count"]
    assert bd("list", "--id=myapp-1-task", "--json") == foreign


def test_settings_are_written_only_where_something_is_missing() -> None:
    complete = {"types.custom": f"x, {MERGE},{WORK}", "claim.pools": f"{ASSIGNEE}", "issue_prefix": "bd"}
    assert missing_settings(complete, ["bd-1", "bd-2"]) == {}
    assert missing_settings(complete, ["nodash"]) == {}  # bd refuses it whatever is allowed
    assert missing_settings(complete, ["my-app-1"]) == {"allowed_prefixes": "my"}
    assert missing_settings({**complete, "issue_prefix": "my-app-"}, ["my-app-1"]) == {
        "allowed_prefixes": "bd"
    }


def _claim_long_ago(bd: Call, bead_id: str, worker: str) -> None:
    """A claim whose lease ran out long ago; bd's import takes the lease with the issue."""
    rows = map(json.loads, bd("export").splitlines())
    row = next(row for row in rows if row["id"] == bead_id)
    past = {"lease_expires_at": "2026-01-01T00:00:00Z", "heartbeat_at": "2026-01-01T00:00:00Z"}
    claim = {"status": "in_progress", "assignee": worker}
    bd("import", "-", "--allow-stale", stdin=json.dumps(row | past | claim) + "\n")


# --- ids mean themselves ----------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.bd
def test_an_id_that_is_part_of_another_is_not_found(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-1-2a-x"), make_bead("bd-7")])
    assert store.claim("bd-1-2a-x", "w1").won
    before = bd("export")
    for act in (
        lambda: store.show("bd-1"),
        lambda: store.claim("bd-1", "w1"),
        lambda: store.release("bd-1", "w1"),
        lambda: store.close("bd-1", "w1", "x"),
        lambda: store.update("bd-1", Changes(title="x")),
        lambda: store.comment("bd-1", "w1", "x"),
        lambda: store.show("bd-7,bd-1-2a-x"),
        lambda: store.show(""),
    ):
        refused(Code.BEAD_NOT_FOUND, act)
    assert store.heartbeat("bd-1", "w1") is False
    assert store.find(Query(ids=["bd-1", ""])).beads == ()
    refused(Code.UNRESOLVED, lambda: store.update("bd-7", Changes(dependencies=["bd-1"])))
    assert bd("export") == before


# --- create -----------------------------------------------------------------------------------------


@pytest.mark.bd
def test_a_bad_batch_is_refused_with_every_id_and_inserts_nothing(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-a")])
    problem = refused(
        Code.DUPLICATE_ID,
        lambda: store.create(
            [
                make_bead("bd-a"),
                make_bead("bd-b", dependencies=["bd-no", "bd-never"]),
                make_bead("bd-c"),
                make_bead("bd-c"),
            ]
        ),
    )
    named = " ".join(fault.message for fault in problem.faults)
    assert [fault.code for fault in problem.faults].count(Code.UNRESOLVED) == 2
    assert all(name in named for name in ("bd-a", "bd-c", "bd-no", "bd-never"))
    circle = [make_bead("bd-x", dependencies=["bd-y"]), make_bead("bd-y", dependencies=["bd-x"])]
    assert "bd-x → bd-y" in refused(Code.CYCLE_DETECTED, lambda: store.create(circle)).message
    refused(Code.CONSTRAINT, lambda: store.create([make_bead("bd-a,b")]))
    problem = refused(Code.INSERT_FAILED, lambda: store.create([make_bead("nodash")]))
    assert "invalid ID format" in problem.message
    assert "exit code: 1" in problem.text
    assert "bd show nodash --json" in problem.suggested_action
    assert [row["id"] for row in bd("list", "--all", "--json")] == ["bd-a"]


@pytest.mark.bd
def test_every_field_arrives_in_bd_and_comes_back(store: BdStore, bd: Call) -> None:
    odd = {
        "deep": {"a": [{"b": [[], {}, None, True, -1, 1.5]}]},
        "words": "žluťoučký 日本語 🐴 \u2028 \"'\\ \t\n",
        "bulk": "x" * 300_000,
        "acceptance_criteria": ["it works", "it is tested"],
    }
    said: list[str] = []
    bead = make_bead(
        "bd-m",
        issue_type=MERGE,
        priority=0,
        description="--flag\n\nünï" + "y" * 200_000,
        owner="me@example.com",
        labels=["a b", "a,b", "z"],
        comments=[{"author": "ann", "text": "-from before\n"}],
        dependencies=["bd-w"],
        metadata=odd | {"branches_to_merge": ["feature/1-1-schema"]},
    )
    assert store.create([bead, make_bead("bd-w")], said.append) == ["bd-m", "bd-w"]
    assert said[0].startswith("inserting 2 beads with bd, about ")
    read = store.show("bd-m")
    whole, wanted = read.to_json(), bead.to_json()
    assert whole.pop("comments")[0].items() >= {"author": "ann", "text": "-from before\n"}.items()
    times = ("created_at", "updated_at", "comments")
    assert {key: whole[key] for key in wanted if key not in times} == {
        key: value for key, value in wanted.items() if key not in times
    }
    row = bd("show", "bd-m", "--json")[0]
    assert row["acceptance_criteria"] == "- it works\n- it is tested"
    assert row["assignee"] == ASSIGNEE


def test_nobody_holds_a_new_bead() -> None:
    node = json.loads(graph([make_bead("bd-a", status="in_progress")]))["nodes"][0]
    assert node["status"] == "open"
    problem = refused(Code.BEAD_SCHEMA, lambda: dumped({"x": float("nan")}))
    assert "JSON" in problem.suggested_action


# --- time-outs and retries --------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.bd
def test_after_a_time_out_the_database_decides(bd_repo: Path, bd_path: Path, tmp_path: Path) -> None:
    slow = script(
        tmp_path / "slow",
        f'"{bd_path}" "$@"; code=$?\ncase "$*" in *--graph*|*--claim*) sleep 60;; esac\nexit $code',
    )
    store = BdStore(bd_repo, bd=slow, timeout=3.5)
    assert store.create([make_bead("bd-a")]) == ["bd-a"]  # it was done, bd only did not say so
    assert store.claim("bd-a", "w1").won

    stuck = script(tmp_path / "stuck", f'case "$*" in *--graph*) sleep 60;; esac\nexec "{bd_path}" "$@"')
    store = BdStore(bd_repo, bd=stuck, timeout=3.5)
    started = time.monotonic()
    problem = refused(Code.DATABASE_TIMEOUT, lambda: store.create([make_bead("bd-b")]))
    assert time.monotonic() - started < 30
    assert "bd create" in problem.message
    assert ids(store.find(Query()).beads) == ["bd-a"]


@pytest.mark.bd
def test_half_an_insert_is_told_as_it_is(bd_repo: Path, bd_path: Path, tmp_path: Path) -> None:
    """bd promises all or none; a wrapper breaks the promise by inserting the first bead alone."""
    half = script(
        tmp_path / "half",
        f"""case "$*" in *--graph*)
    "{sys.executable}" -c 'import json, sys; p = json.load(sys.stdin)
del p["nodes"][1:]; print(json.dumps(p))' \\
        | "{bd_path}" "$@" > /dev/null; sleep 60;;
esac
exec "{bd_path}" "$@" """,
    )
    store = BdStore(bd_repo, bd=half, timeout=3.5)
    problem = refused(Code.INSERT_FAILED, lambda: store.create([make_bead("bd-a"), make_bead("bd-b")]))
    assert problem.data == {"inserted": ["bd-a"], "missing": ["bd-b"]}


@pytest.mark.bd
def test_a_serialization_failure_is_tried_again(bd_repo: Path, bd_path: Path, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    text = "Error 1213 (40001): serialization failure: this transaction conflicts, try restarting transaction"
    flaky = script(
        tmp_path / "flaky",
        f"""case "$*" in *--graph*)
    echo . >> "{tries}"
    [ $(wc -l < "{tries}") -le 2 ] && echo '{{"error": "{text}"}}' && exit 1;;
*priority*)
    echo . >> "{tries}"; echo "Error: no such thing" >&2; exit 1;;
esac
exec "{bd_path}" "$@" """,
    )
    store = BdStore(bd_repo, bd=flaky)
    assert store.create([make_bead("bd-a")]) == ["bd-a"]
    assert len(tries.read_text().splitlines()) == 3
    tries.unlink()
    problem = refused(Code.COMMAND_FAILED, lambda: store.update("bd-a", Changes(priority=3)))
    assert "no such thing" in problem.message
    assert len(tries.read_text().splitlines()) == 1  # anything else is not tried again


TWO_LINES = """Error updating bd-k: issue already claimed by w1
{"error":"1 of 1 issues failed to update","failed":[{"id":"bd-k","error":"issue already claimed by w1"}]}
"""


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        ('{\n  "error": "no",\n  "schema_version": 1\n}\n', "warning: role\n", "no"),
        ("", TWO_LINES, "issue already claimed by w1"),
        ("", '{\n "code": "batch_error",\n "error": "line 2"\n}\nrolled back\n', "line 2"),
        (
            "",
            "warning: beads.role not configured\nError: no beads database found\n",
            "no beads database found",
        ),
        ("", "cannot close bd-k: assignee is w1\n", "cannot close bd-k: assignee is w1"),
        ("[]", "", "exit code 1 without a word"),
    ],
)
def test_each_shape_of_an_error_is_understood(stdout: str, stderr: str, said: str) -> None:
    assert error_text(Exit(1, stdout, stderr)) == said
    assert not is_busy(Exit(1, stdout, stderr))


def test_a_locked_database_is_busy() -> None:
    locked = Exit(1, "", "Error: failed to open: the database is locked by another dolt process\n")
    assert is_busy(locked)
    assert not is_busy(Exit(0, "database is locked", ""))


# --- one writer at a time ---------------------------------------------------------------------------


def test_writers_take_turns_and_do_not_wait_for_ever(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    inside: list[int] = []

    def write(number: int) -> None:
        with only_writer(lock, 10):
            inside.append(number)
            time.sleep(0.05)
            assert inside[-1] == number

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    holder = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{holder}; time.sleep(60)", lock], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        problem = refused(Code.DATABASE_TIMEOUT, lambda: only_writer(lock, 0.2).__enter__())
        assert str(lock) in problem.message
        process.kill()
    held = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with only_writer(lock, 5):
            held.set()
            leave.wait(5)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        held.wait(5)
        refused(Code.DATABASE_TIMEOUT, lambda: only_writer(lock, 0.1).__enter__())
        leave.set()


def test_our_directory_is_hidden_fromgit_in(repo: Path) -> None:
    (ralph_dir(repo) / "x").touch()
    ralph_dir(repo)
    assert git_in(repo, "status", "--porcelain") == ""
    (repo / "file").touch()
    refused(Code.WRITE_FAILED, lambda: ralph_dir(repo / "file"))


# --- snapshots --------------------------------------------------------------------------------------


@pytest.mark.bd
def test_a_snapshot_precedes_the_first_write(bd_repo: Path, store: BdStore, bd: Call, tmp_path: Path) -> None:
    snapshots = bd_repo / ".ralph" / "snapshots"
    store.create([make_bead("bd-a")])
    assert not snapshots.exists()  # there was nothing to keep
    snapshots.mkdir()
    for number in range(12):
        (snapshots / f"bd-20200101T0000{number:02}.000000Z.jsonl").touch()
    store.comment("bd-a", "w1", "x")
    assert len(list(snapshots.iterdir())) == 12  # once for each store object
    bd("create", "plain", "--id=bd-task", "--json")
    before = bd("export")
    BdStore(bd_repo).comment("bd-a", "w1", "y")
    kept = sorted(snapshots.iterdir())
    assert len(kept) == 10
    assert sorted(kept[-1].read_text().splitlines()) == sorted(before.splitlines())

    target = tmp_path / "all.jsonl"
    assert store.snapshot(target) == 2
    assert {json.loads(line)["id"] for line in target.read_text().splitlines()} == {"bd-a", "bd-task"}
    refused(Code.WRITE_FAILED, lambda: store.snapshot(tmp_path / "no" / "where"))


# --- claims -----------------------------------------------------------------------------------------

CLAIM = """import sys; from pathlib import Path; from beads_ralph.store.bd.bd_store import BdStore
print(BdStore(Path(sys.argv[1])).claim("bd-a", sys.argv[2]).won)"""


@pytest.mark.full
@pytest.mark.bd
def test_one_of_six_racing_workers_wins(bd_repo: Path, store: BdStore) -> None:
    store.create([make_bead("bd-a")])

    def as_thread(name: str) -> str:
        return str(BdStore(bd_repo).claim("bd-a", name).won)

    def as_process(name: str) -> str:
        words = [sys.executable, "-c", CLAIM, str(bd_repo), name]
        return subprocess.run(words, capture_output=True, text=True, timeout=100, check=True).stdout.strip()

    with ThreadPoolExecutor(6) as pool:
        racers = [pool.submit((as_thread, as_process)[n % 2], f"w{n}") for n in range(6)]
        won = [racer.result() for racer in racers]
    assert sorted(won) == ["False"] * 5 + ["True"]
    assert store.show("bd-a").to_json()["claimed_by"] == f"w{won.index('True')}"


@pytest.mark.bd
def test_claims_respect_dependencies_and_their_holder(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b"), make_bead("bd-c", dependencies=["bd-b", "bd-a"])])
    assert store.claim("bd-c", "w1").refusal == "blocked by bd-a, bd-b"
    won = store.claim("bd-a", "w-1")
    assert won.bead is not None
    assert won.bead.assignee == ASSIGNEE
    extra = won.bead.to_json()
    assert (extra["status"], extra["claimed_by"]) == ("in_progress", "w-1")
    assert extra["lease_expires_at"] == won.lease_expires_at
    assert store.claim("bd-a", "w-1").won  # again by the same worker
    twin = store.claim("bd-a", "w_1")  # bd takes the two for one worker
    assert (twin.won, twin.held_by, twin.refusal) == (False, "w-1", "already claimed by w-1")
    assert store.heartbeat("bd-a", "w-1")
    assert not store.heartbeat("bd-a", "w_1")

    bd("update", "bd-b", "--assignee=bob", "--json")
    assert store.claim("bd-b", "w1").refusal == "assigned to bob"
    assert ids(store.ready().beads) == []
    bd("update", "bd-b", f"--assignee={ASSIGNEE}", "--status=deferred", "--json")
    shown = store.show("bd-b").to_json()
    assert (shown["status"], shown["store_status"]) == ("blocked", "deferred")
    assert store.claim("bd-b", "w1").refusal == "status deferred"
    for actor in ("", ASSIGNEE):
        refused(Code.CONSTRAINT, lambda name=actor: store.claim("bd-b", name))  # type: ignore[misc]


@pytest.mark.full
@pytest.mark.bd
def test_no_more_commands_are_sent_than_are_needed(bd_repo: Path, bd_path: Path, tmp_path: Path) -> None:
    """A listing and a claim start a bead; a write ends it. Every command takes bd half a second."""
    log = tmp_path / "log"
    store = BdStore(bd_repo, bd=script(tmp_path / "bd", f'echo "$1" >> "{log}"\nexec "{bd_path}" "$@"'))
    store.create([make_bead("bd-a"), make_bead("bd-b", dependencies=["bd-a"]), make_bead("bd-c")])
    assert store.claim("bd-a", "w1").won

    def sent(act: Callable[[], object]) -> list[str]:
        log.unlink()
        act()
        return log.read_text().split()

    proof = Findings({"proven": {"commit": "c0ffee"}}, "https://forge.test/pull/1")
    assert sent(lambda: store.update("bd-a", Changes(metadata={"attempt_count": 1}))) == ["update"]
    assert sent(lambda: store.close("bd-a", "w1", "proven", proof)) == ["update"]
    assert sent(store.ready) == ["ready"]
    assert sent(lambda: store.claim("bd-b", "w1")) == ["update"]
    assert sent(lambda: store.claim("bd-c", "w1")) == ["update"]
    assert store.show("bd-b").to_json()["claimed_by"] == store.show("bd-c").to_json()["claimed_by"] == "w1"
    assert sent(lambda: store.release("bd-b", "w1", found=proof)) == ["update"]
    assert sent(lambda: store.release("bd-c", "w1", reason="red")) == ["comments", "update"]


@pytest.mark.full
@pytest.mark.bd
def test_a_deleted_bead_is_not_claimed_as_the_one_whose_id_begins_alike(store: BdStore, bd: Call) -> None:
    """bd takes `bd-1` for `bd-1-2a` as soon as there is no `bd-1` any more."""
    store.create([make_bead("bd-1"), make_bead("bd-1-2a"), make_bead("bd-2")])
    bd("create", "of the user", "--id=bd-2-mine", "--json")
    assert ids(store.ready().beads) == ["bd-1", "bd-1-2a", "bd-2"]
    bd("delete", "bd-1", "bd-2", "--force")
    for name in ("bd-1", "bd-2"):
        refused(Code.BEAD_NOT_FOUND, lambda name=name: store.claim(name, "w1"))  # type: ignore[misc]
    rows = {row["id"]: row for row in bd("list", "--json")}
    assert (rows["bd-1-2a"]["status"], rows["bd-1-2a"]["assignee"]) == ("open", ASSIGNEE)
    assert (rows["bd-2-mine"]["status"], rows["bd-2-mine"].get("assignee")) == ("open", None)
    assert ids(store.ready().beads) == ["bd-1-2a"]
    bd("delete", "bd-1-2a", "--force")
    refused(Code.BEAD_NOT_FOUND, lambda: store.claim("bd-1-2a", "w1"))  # and nothing begins alike


CLOSE = """import sys; from pathlib import Path; from beads_ralph.store.protocol import Findings
from beads_ralph.store.bd.bd_store import BdStore
BdStore(Path(sys.argv[1]), bd=sys.argv[2]).close("bd-a", "w1", "proven", Findings({"proof": 1}, "pull/1"))"""


@pytest.mark.sampled(1)
@pytest.mark.bd
@pytest.mark.parametrize("done", [False, True])
def test_killed_at_the_close_it_is_closed_with_its_proof_or_not_at_all(
    bd_repo: Path, bd_path: Path, tmp_path: Path, store: BdStore, *, done: bool
) -> None:
    store.create([make_bead("bd-a")])
    assert store.claim("bd-a", "w1").won
    before = store.show("bd-a")
    act = f'"{bd_path}" "$@"' if done else ":"
    deadly = f'case "$*" in *--status=closed*) {act}; kill -9 $PPID; exit;; esac\nexec "{bd_path}" "$@"'
    words = [sys.executable, "-c", CLOSE, str(bd_repo), script(tmp_path / "deadly", deadly)]
    assert subprocess.run(words, capture_output=True, timeout=100, check=False).returncode == -9

    after = store.show("bd-a").to_json()
    if not done:
        assert after == before.to_json()
        return
    assert (after["status"], after["close_reason"], after["external_ref"]) == ("closed", "proven", "pull/1")
    assert after["metadata"]["proof"] == 1
    assert store.close("bd-a", "w1", "again").to_json() == after


@pytest.mark.bd
def test_released_and_closed_beads_belong_to_the_pool(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-a")])
    store.claim("bd-a", "w1")
    assert "w1" in refused(Code.CONFLICT, lambda: store.release("bd-a", "w2", reason="x")).message
    store.release("bd-a", "w1", reason="-no disk\n")
    row = bd("list", "--id=bd-a", "--json")[0]
    assert (row["status"], row["assignee"], row["comment_count"]) == ("open", ASSIGNEE, 1)

    store.claim("bd-a", "w2")
    closed = store.close("bd-a", "w2", "merged\nin full").to_json()
    assert (closed["status"], closed["close_reason"]) == ("closed", "merged\nin full")
    assert bd("list", "--id=bd-a", "--all", "--json")[0]["assignee"] == ASSIGNEE
    assert store.close("bd-a", "w9", "again").to_json() == closed

    # Somebody who closes it with bd itself leaves the worker's name.
    bd("update", "bd-a", "--assignee=w2", "--json")
    assert "claimed_by" not in store.show("bd-a").to_json()
    store.update("bd-a", Changes(status="open"))
    assert ids(store.ready().beads) == ["bd-a"]


@pytest.mark.full
@pytest.mark.bd
def test_reclaimed_beads_return_to_the_pool(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b"), make_bead("bd-c")])
    _claim_long_ago(bd, "bd-a", "w1")
    assert store.reclaim(timedelta(days=3650)) == []
    assert store.reclaim(timedelta(minutes=10)) == ["bd-a"]
    assert not store.heartbeat("bd-a", "w1")
    assert ids(store.ready().beads) == ["bd-a", "bd-b", "bd-c"]

    # A crash after bd's reclaim leaves a bead that nobody is assigned to.
    _claim_long_ago(bd, "bd-b", "w1")
    bd("reclaim", "--older-than=0s", "--json")
    assert not bd("list", "--id=bd-b", "--json")[0].get("assignee")
    assert ids(store.ready(limit=2).beads) == ["bd-a", "bd-b"]
    assert bd("list", "--id=bd-b", "--json")[0]["assignee"] == ASSIGNEE


# --- update -----------------------------------------------------------------------------------------


@pytest.mark.bd
def test_an_update_changes_what_it_names_and_keeps_the_rest(store: BdStore, bd: Call) -> None:
    others = [make_bead(name) for name in ("bd-a", "bd-b")]
    store.create([*others, make_bead("bd-c", dependencies=["bd-a"], metadata={"pr_url": "old"})])
    changed = store.update(
        "bd-c",
        Changes(
            title="-t",
            description="z" * 200_000,
            priority=4,
            labels=["x,y", "plain"],
            dependencies=["bd-b"],
            metadata={"pr_url": None, "acceptance_criteria": ["ok"], "new": {"ü": [1]}},
        ),
    )
    assert (changed.title, changed.description, changed.priority) == ("-t", "z" * 200_000, 4)
    assert (sorted(changed.labels), changed.dependencies) == (["plain", "x,y"], ["bd-b"])
    metadata = changed.to_json()["metadata"]
    assert metadata == make_bead("bd-c").to_json()["metadata"] | {
        "pr_url": None,
        "acceptance_criteria": ["ok"],
        "new": {"ü": [1]},
    }
    emptied = store.update("bd-c", Changes(labels=[], description="", external_ref="", dependencies=[]))
    assert (emptied.labels, emptied.description, emptied.external_ref) == ([], "", None)
    assert emptied.dependencies == []

    store.update("bd-b", Changes(dependencies=["bd-a"]))
    before = bd("export")
    refused(Code.CYCLE_DETECTED, lambda: store.update("bd-a", Changes(dependencies=["bd-b"], title="x")))
    refused(Code.SELF_DEP, lambda: store.update("bd-a", Changes(dependencies=["bd-a"])))
    refused(Code.CONSTRAINT, lambda: store.update("bd-a", Changes(title="no\0no")))
    refused(Code.BEAD_SCHEMA, lambda: store.update("bd-a", Changes(metadata={"dev_agents": 7})))
    refused(Code.CONFLICT, lambda: store.update("bd-a", Changes(status="closed")))
    assert bd("export") == before


def test_a_row_without_the_optional_keys_is_read() -> None:
    raw = seed({"id": "bd-a", "title": "t", "status": "open", "priority": 1, "issue_type": WORK})
    assert (raw["description"], raw["labels"], raw["dependencies"], raw["metadata"]) == ("", [], [], {})
    assert raw["assignee"] == ASSIGNEE


@pytest.mark.bd
def test_what_does_not_validate_is_listed_apart_and_never_claimed(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-a")])
    bd("create", "by hand", "--id=bd-hand", f"--type={WORK}", f"--assignee={ASSIGNEE}", "--json")
    found = store.ready()
    assert ids(found.beads) == ["bd-a"]
    assert [bead.id for bead in found.unreadable] == ["bd-hand"]
    refused(Code.MISSING_FIELD, lambda: store.claim("bd-hand", "w1"))
    assert bd("list", "--id=bd-hand", "--json")[0]["status"] == "open"
    assert ids(store.find(Query(labels=["phase-1", "beads-ralph"], plan_file="plans/shop.md")).beads) == [
        "bd-a"
    ]
    assert store.find(Query(labels=["phase-1", "other"])).beads == ()
    assert store.find(Query(statuses=["closed"])) == store.find(Query(plan_file="other.md"))
