"""Gates: while one is red no feature starts; green, it closes; red again, it is open again."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import RALPH, Ran, environment, ralph
from tests.dod.beads import bead, check, put, read
from tests.loop.plans import Project, git, soon, sprint, work

SMOKE = "test -f ok.txt"


def gate(root: Path, *checks: Any, name: str = "smoke", **more: Any) -> Path:
    raw = {**bead(*(checks or (check(SMOKE, "Starts"),)), **more), "id": name, "type": "gate"}
    return put(root / ".ralph" / "gates" / f"{name}.json", raw)


def checked(root: Path, *words: str) -> Ran:
    return ralph("gate", "check", *words, "--json", cwd=root)


def colour(ran: Ran) -> str:
    (found,) = ran.data["gates"]
    return str(found["colour"])


# --- by hand --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_git", [True, False])
def test_a_gate_file_turns_green_and_red_again(tmp_path: Path, repo: Path, in_git: bool) -> None:
    root = repo if in_git else tmp_path / "plain"
    root.mkdir(exist_ok=True)
    path = gate(root)
    assert (colour(ralph("gate", "list", "--json", cwd=root)), read(path).get("status")) == ("red", None)
    red = checked(root)
    assert (red.code, colour(red)) == (1, "red")
    assert red.data["gates"][0]["reason"] == "Starts: exit code 1 (expected 0)"
    assert red.data["features_may_start"] is False
    (root / "ok.txt").touch()
    assert (checked(root).code, read(path)["status"]) == (0, "completed")
    status = ralph("gate", "status", "--json", cwd=root)
    assert (status.code, colour(status), status.data["features_may_start"]) == (0, "green", True)
    (root / "ok.txt").unlink()
    assert (checked(root).code, read(path)["status"]) == (1, "pending")
    assert ralph("gate", "status", cwd=root).code == 1


@pytest.mark.parametrize("store", ["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def test_a_gate_in_the_store_closes_when_green_and_reopens_when_red(
    store: str, request: pytest.FixtureRequest
) -> None:
    root: Path = request.getfixturevalue("bd_repo" if store == "bd" else "repo")
    path = put(root.parent / "smoke.json", {**bead(check(SMOKE, "Starts")), "type": "gate", "priority": 0})
    assert ralph("import", path, "--store", store, cwd=root).code == 0
    assert checked(root, "--store", store).code == 1
    (root / "ok.txt").touch()
    assert checked(root, "--store", store).code == 0
    assert shown(root, store)["status"] == "closed"
    assert shown(root, store)["close_reason"] == "green: 1 check passed"
    (root / "ok.txt").unlink()
    assert checked(root, "--store", store).code == 1
    again = shown(root, store)
    assert again["status"] == "open"
    assert "Red again: Starts: exit code 1 (expected 0)" in json.dumps(again["comments"])


def shown(root: Path, store: str = "embedded") -> dict[str, Any]:
    (found,) = ralph("show", "gt-one", "--store", store, "--json", cwd=root).data["beads"]
    return dict(found)


def test_an_override_is_recorded_and_lasts_until_it_is_green(repo: Path) -> None:
    path = gate(repo)
    forced = checked(repo, "--force")
    assert (forced.code, colour(forced), forced.data["features_may_start"]) == (0, "red", True)
    assert ralph("gate", "status", cwd=repo).code == 0
    (note,) = read(path)["ralph_meta"]["overrides"]
    assert note["by"] == "gate check --force"
    (repo / "ok.txt").touch()
    checked(repo)
    (repo / "ok.txt").unlink()
    assert checked(repo).code == 1, "an override of yesterday is none"
    assert len(read(path)["ralph_meta"]["overrides"]) == 1, "but it is not forgotten"


def test_a_gate_that_cannot_be_read_is_red(repo: Path) -> None:
    path = gate(repo)
    path.write_text("{", encoding="utf-8")
    ran = checked(repo)
    assert (ran.code, colour(ran)) == (1, "red")
    assert "cannot be read" in ran.data["gates"][0]["reason"]


def test_without_gates_features_may_start(repo: Path) -> None:
    ran = checked(repo)
    assert (ran.code, ran.data) == (0, {"gates": [], "red": [], "features_may_start": True})


def test_on_a_clean_checkout_only_what_is_committed_counts(repo: Path) -> None:
    (repo / "beads-ralph.yaml").write_text(
        "gate_checkout: true\nplan: {source_branch: main}\n", encoding="utf-8"
    )
    gate(repo)
    (repo / "ok.txt").touch()
    assert checked(repo).code == 1
    git(repo, "add", "ok.txt")
    git(repo, "commit", "--quiet", "--message", "ok")
    assert checked(repo).code == 0
    assert git(repo, "worktree", "list").count("\n") <= 1


# --- in a run -------------------------------------------------------------------------------------------


def labelled(number: str, title: str, label: str) -> str:
    return sprint(number, title).rstrip() + f"\n**Labels**: {label}\n"


def test_while_a_gate_is_red_no_feature_starts_and_others_do(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1a", "Shop"), labelled("1.1b", "Fix", "type:bugfix"))
    gate(repo)
    ran = project.run()
    assert ran.code == 1
    assert ran.data["closed"] == ["bd-1-1b-fix"]
    assert ran.data["ended"] == "blocked"
    assert ran.data["blocked"] == [{"id": "smoke", "reason": "gate is red: Starts: exit code 1 (expected 0)"}]
    assert "gate smoke is red" in ran.data["reason"]
    assert project.events("bead_claimed")[0]["bead"] == "bd-1-1b-fix"


def test_a_green_gate_lets_them_start_and_nobody_works_on_the_gate_itself(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Shop"))
    path = put(repo.parent / "smoke.json", {**bead(check("true", "Starts")), "type": "gate"})
    ralph("import", path, cwd=repo)
    ran = project.run()
    assert (ran.code, ran.data["closed"], ran.data["ended"]) == (0, ["bd-1-1-shop"], "done")
    assert shown(repo)["status"] == "closed"
    (row, *_) = project.events("gate_checked")
    assert (row["bead"], row["ruling"]) == ("gt-one", "pass")


def test_forced_they_start_and_it_is_recorded(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Shop"))
    path = put(repo.parent / "smoke.json", {**bead("false"), "type": "gate"})
    ralph("import", path, cwd=repo)
    gate(repo)
    ran = project.run("--force-gates")
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "gates_red", ["bd-1-1-shop"])
    (row, *_) = project.events("gates_overridden")
    assert (sorted(row["gates"]), row["by"]) == (["gt-one", "smoke"], "run --force-gates")
    assert "Overridden by run --force-gates" in json.dumps(shown(repo)["comments"])
    again = project.run()
    assert again.data["ended"] == "gates_red"
    assert {row["overridden_by"] for row in again.data["red_gates"]} == {None}, "it was for one run"


def test_a_gate_that_turns_green_meanwhile_lets_features_start(repo: Path) -> None:
    """The bug fix mends what the gate looks at; the gate is checked again when it was closed."""
    mend = [{"run": f"touch {repo}/ok.txt"}, {"write": {"fix.txt": "1"}}, {"commit": "mend"}]
    project = Project.make(
        repo,
        sprint("1.1a", "Shop"),
        labelled("1.1b", "Fix", "type:bugfix"),
        script={"1.1b": {"dev": mend}, "*": {"dev": work()}},
    )
    gate(repo)
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1b-fix", "bd-1-1a-shop"])


def test_a_gate_that_turns_red_meanwhile_is_told_at_the_end(repo: Path) -> None:
    spoil = [{"run": f"rm {repo}/ok.txt"}, {"write": {"x.txt": "1"}}, {"commit": "spoil"}]
    project = Project.make(repo, sprint("1.1", "Shop"), sprint("1.2", "Basket"), script={"*": {"dev": spoil}})
    path = gate(repo)
    (repo / "ok.txt").touch()
    ran = project.run("--max-parallel", "1")
    assert ran.code == 1
    assert ran.data["blocked"][0]["id"] == "smoke"
    assert read(path)["status"] == "pending"


def test_a_gate_that_waits_for_beads_holds_nobody_up_before(repo: Path) -> None:
    from beads_ralph.store.embedded.embedded_store import EmbeddedStore
    from beads_ralph.store.protocol import Changes

    project = Project.make(repo, sprint("1.1", "Shop"))
    ralph("mason", "plan.md", cwd=repo)
    path = put(repo.parent / "smoke.json", {**bead("false"), "type": "gate"})
    ralph("import", path, cwd=repo)
    EmbeddedStore(repo).update("gt-one", Changes(dependencies=["bd-1-1-shop"]))
    assert colour(ralph("gate", "list", "--json", cwd=repo)) == "waiting"
    ran = project.run()
    assert ran.data["closed"] == ["bd-1-1-shop"]
    assert ran.data["blocked"][0]["id"] == "gt-one", "its turn has come, and it is red"


SLOW = (
    "mkdir at-work || touch twice; echo x >> begun; "
    "while [ ! -e go ]; do sleep 0.05; done; rmdir at-work; test ! -e twice"
)
"""A verifier that notices another one of its kind, and waits to be let on."""


def test_a_run_waits_for_a_check_by_hand(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Shop"))
    path = gate(repo, check(SLOW, "Starts"))
    with beside(repo, "gate", "check", "--json") as by_hand:
        soon((repo / "begun").exists)
        with project.running() as run:
            soon(
                lambda: any("are being checked" in row["message"] for row in project.events("warning_given"))
            )
            (warned,) = project.events("warning_given")
            assert f"process {by_hand.pid}" in warned["message"]
            (repo / "go").touch()
            assert project.finished(run).data["closed"] == ["bd-1-1-shop"]
        assert by_hand.wait(timeout=60) == 0
    assert not (repo / "twice").exists()
    assert read(path)["status"] == "completed"


def test_a_check_by_hand_beside_a_check_of_a_run_is_refused_and_says_who(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Shop"))
    gate(repo, check(SLOW, "Starts"))
    with project.running() as run:
        soon((repo / "begun").exists)
        refused = checked(repo)
        assert (refused.code, refused.error["code"]) == (1, "DATABASE.CONFLICT")
        assert f"the gates are being checked already (process {run.pid}, run " in refused.error["message"]
        (repo / "go").touch()
        assert project.finished(run).code == 0
    assert not (repo / "twice").exists()
    assert checked(repo).code == 0, "afterwards it may"


def test_a_run_that_waits_for_a_check_can_be_ended(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Shop"))
    gate(repo, check(SLOW, "Starts"))
    with beside(repo, "gate", "check", "--json") as by_hand:
        soon((repo / "begun").exists)
        with project.running() as run:
            soon(lambda: project.events("warning_given"))
            run.send_signal(signal.SIGTERM)
            assert project.finished(run).code == 130
        (repo / "go").touch()
        assert by_hand.wait(timeout=60) == 0
    assert len((repo / "begun").read_text("utf-8").splitlines()) == 1


@contextmanager
def beside(root: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command as a process beside the test; whatever happens, it is gone at the end."""
    process = subprocess.Popen(
        [*RALPH, *words], cwd=root, env=environment({}), stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        (root / "go").touch()
        process.kill()
        process.wait()


def test_a_dry_run_checks_no_gate(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Shop"))
    gate(repo, "touch ran")
    ran = project.run("--dry-run")
    assert ran.data["waves"] == [["bd-1-1-shop"]]
    assert [row["id"] for row in ran.data["waiting"]] == ["smoke"]
    assert not (repo / "ran").exists()
