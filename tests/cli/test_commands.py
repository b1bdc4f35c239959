"""init, doctor, list, show, ready, demo: what each does, says and leaves alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from beads_ralph.agents.protocol import AGENTS as KNOWN_AGENTS
from beads_ralph.loop.preflight import CHECKS
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from tests.agents.running import executable
from tests.cli.running import Ran, compiled_here, mason, ralph, tree, write
from tests.cli.stand_in import bd_script, path_without_bd, wrapped_bd
from tests.compile.plans import plan, sprint
from tests.items import make_item

FOUR = plan(
    sprint("1.1", "Start"),
    sprint("1.2a", "Left", priority="2"),
    sprint("1.2b", "Right", labels="backend"),
    sprint("1.3", "Merge [b]all[/b]"),
)
IDS = ["bd-1-1-start", "bd-1-2a-left", "bd-1-2b-right", "bd-1-3-merge-ballb"]
SCHEMA = ".beads/schemas/ralph-bead.schema.json"
MADE = ["beads-ralph.yaml", ".ralph", "state"]
AGENTS = [
    f".claude/agents/{name}.md"
    for name in (
        "backend-dev",
        "doc-writer",
        "frontend-dev",
        "merge-specialist",
        "qa-code-review",
        "qa-integration-tests",
        "qa-lint",
        "qa-security-scan",
        "qa-unit-tests",
        "scrum-master",
    )
]


def git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=root, check=True, timeout=60, capture_output=True, encoding="utf-8"
    )
    return done.stdout


# --- init -------------------------------------------------------------------------------------------


def test_init_makes_settings_and_a_store_and_leaves_git_clean(repo: Path) -> None:
    data = ralph("init", "--json", cwd=repo).data
    assert data == {"store": "embedded", "created": [*MADE, *AGENTS, SCHEMA], "kept": [], "checks": []}
    assert git(repo, "status", "--porcelain") == "?? .beads/\n?? .claude/\n?? beads-ralph.yaml\n"
    said = yaml.safe_load((repo / "beads-ralph.yaml").read_text(encoding="utf-8"))
    assert (said["store"], said["plan"]["rig"], said["plan"]["source_branch"]) == ("auto", "app", "main")
    checked = ralph("doctor", "--json", cwd=repo).data["checks"]
    (settings,) = [check for check in checks(checked) if check["name"] == "settings"]
    assert settings["detail"] == "beads-ralph.yaml"  # not one unknown key


def checks(rows: object) -> list[dict[str, str]]:
    assert isinstance(rows, list)
    return rows


def test_init_twice_keeps_everything(repo: Path) -> None:
    ralph("init", cwd=repo)
    write(repo / "beads-ralph.yaml", "store: embedded\n")
    before = tree(repo)
    data = ralph("init", "--json", cwd=repo).data
    assert data == {"store": "embedded", "created": [], "kept": [*MADE, *AGENTS, SCHEMA], "checks": []}
    assert tree(repo) == before
    assert "was there already" in ralph("init", cwd=repo).out


def test_init_leaves_the_users_agent_files_alone(repo: Path) -> None:
    own = repo / ".claude" / "agents" / "backend-dev.md"
    own.parent.mkdir(parents=True)
    write(own, "Mine.\n")
    dangling = own.with_name("qa-lint.md")
    dangling.symlink_to("nowhere.md")
    data = ralph("init", "--json", cwd=repo).data
    assert {".claude/agents/backend-dev.md", ".claude/agents/qa-lint.md"} <= set(data["kept"])
    assert own.read_text(encoding="utf-8") == "Mine.\n"
    assert dangling.is_symlink()
    assert not dangling.exists()
    assert ".claude/agents/qa-code-review.md" in data["created"]


def test_init_without_agents_writes_none_and_names_none(repo: Path) -> None:
    assert ralph("init", "--no-agents", cwd=repo).code == 0
    assert not (repo / ".claude").exists()
    assert "qa-code-review" not in (repo / "beads-ralph.yaml").read_text(encoding="utf-8")


def test_a_plan_without_agents_of_its_own_is_good_right_after_init(repo: Path) -> None:
    ralph("init", cwd=repo)
    write(repo / "plan.md", "## Phase 1: A\n\n### Sprint 1.1: B\n\n**Tasks**:\n- Do it\n")
    ran = ralph("plan", "check", "plan.md", "--strict", cwd=repo)
    assert (ran.code, ran.err) == (0, "")


def test_init_outside_of_git_makes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "plain"
    place.mkdir()
    ran = ralph("init", "--json", cwd=place)
    assert (ran.code, ran.error["code"]) == (1, "GIT.NOT_REPO")
    assert "git init" in ran.error["suggested_action"]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("name", ["we: ird", "123", "true", "2026-99-99", "a'b", 'a"b', "[x]", "ünïcode🚀"])
def test_init_writes_valid_settings_whatever_the_repository_is_called(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "--quiet", name)
    assert ralph("init", cwd=tmp_path / name).code == 0
    said = yaml.safe_load((tmp_path / name / "beads-ralph.yaml").read_text(encoding="utf-8"))
    assert said["plan"]["rig"] == name
    path = write(tmp_path / name / "plan.md", "### Sprint 1.1: Start\n\n**Tasks**:\n- Do it\n")
    assert mason(path, cwd=tmp_path / name).data["bead_ids"] == ["bd-1-1-start"]


def test_in_a_worktree_the_store_is_the_main_repositorys(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    deep = tmp_path / "side" / "a" / "b"
    deep.mkdir(parents=True)
    assert ralph("init", "--json", cwd=deep).data["store"] == "embedded"
    path = write(tmp_path / "side" / "plan.md", FOUR)
    assert mason(path, cwd=deep).data["beads_created"] == 4
    assert not (tmp_path / "side" / ".ralph").exists()
    assert len(EmbeddedStore(repo).find(Query()).beads) == 4
    listed = ralph("list", "--json", cwd=repo).data["beads"]
    assert sorted(bead["id"] for bead in listed) == IDS
    place = next(bead for bead in listed if bead["id"] == IDS[0])["metadata"]
    assert place["worktree_path"] == str(tmp_path / "app-worktrees" / place["branch"])


def test_the_same_plan_in_main_and_in_a_worktree_is_one_plan(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    compiled_here(repo, FOUR)
    path = write(tmp_path / "side" / "plan.md", FOUR)
    data = mason(path, "--check-existing", cwd=tmp_path / "side").data
    assert (data["beads_created"], data["beads_skipped"]) == (0, IDS)
    assert mason(path, "--update", cwd=tmp_path / "side").data["database_status"] == "unchanged"


@pytest.mark.full
@pytest.mark.bd
def test_init_with_bd_commits_nothing_and_sets_no_hooks(
    repo: Path, bd_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bd_path.parent), prepend=os.pathsep)
    head, hooks = git(repo, "rev-parse", "HEAD"), sorted((repo / ".git" / "hooks").iterdir())
    data = ralph("init", "--store", "bd", "--json", cwd=repo).data
    made = [*MADE, ".beads", *AGENTS, SCHEMA]
    assert data == {"store": "bd", "created": made, "kept": [], "checks": []}
    assert git(repo, "rev-parse", "HEAD") == head
    assert sorted((repo / ".git" / "hooks").iterdir()) == hooks
    assert "hookspath" not in git(repo, "config", "--list", "--name-only").lower()
    assert git(repo, "status", "--porcelain") == "?? .claude/\n?? beads-ralph.yaml\n"
    again = ralph("init", "--store", "bd", "--json", cwd=repo).data
    assert (again["created"], again["kept"]) == ([], [*MADE, ".beads", *AGENTS, SCHEMA])
    assert BdStore(repo).check().version.startswith("1.")


def test_init_with_bd_but_without_a_bd_makes_nothing(repo: Path, tmp_path: Path) -> None:
    before = tree(repo)
    ran = ralph("init", "--store", "bd", "--json", cwd=repo, env={"PATH": path_without_bd(tmp_path / "bin")})
    assert (ran.code, ran.error["code"]) == (1, "DATABASE.CLI_NOT_FOUND")
    assert tree(repo) == before


# --- which store ------------------------------------------------------------------------------------


def test_without_a_bd_database_the_store_is_embedded(repo: Path) -> None:
    assert "embedded store (no bd database here)" in ralph("list", cwd=repo).out


def test_a_bd_database_without_bd_means_embedded_and_says_so(repo: Path, tmp_path: Path) -> None:
    write(repo / ".beads" / "metadata.json", "{}")
    ran = ralph("list", cwd=repo, env={"PATH": path_without_bd(tmp_path / "bin")})
    assert ran.code == 0
    assert "bd is not on PATH" in ran.out


def test_the_settings_choose_and_the_option_overrules_them(repo: Path, tmp_path: Path) -> None:
    write(repo / "beads-ralph.yaml", "store: bd\n")
    env = {"PATH": path_without_bd(tmp_path / "bin")}
    assert ralph("list", "--json", cwd=repo, env=env).error["code"] == "DATABASE.CLI_NOT_FOUND"
    assert ralph("list", "--store", "embedded", "--json", cwd=repo, env=env).data["store"] == "embedded"


@pytest.mark.bd
def test_where_bd_is_initialised_the_store_is_bd_and_says_so(bd_repo: Path) -> None:
    ran = ralph("list", cwd=bd_repo)
    assert ran.code == 0, ran.err
    assert "bd store (.beads/ is initialised here)" in ran.out
    assert ralph("list", "--store", "embedded", "--json", cwd=bd_repo).data["store"] == "embedded"


# --- doctor -----------------------------------------------------------------------------------------


def by_name(ran: Ran) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in ran.data["checks"]}


def test_doctor_looks_at_everything_and_changes_nothing(repo: Path, tmp_path: Path) -> None:
    env = {"PATH": path_without_bd(tmp_path / "bin")}
    executable(tmp_path / "bin" / "claude", "#!/bin/sh\necho 2.1.325\n")
    before = tree(repo)
    ran = ralph("doctor", "--json", cwd=repo, env=env)
    assert ran.code == 0
    assert ran.data["healthy"] is True
    found = by_name(ran)
    assert set(found) == {
        *("python", "sqlite", "git", "bd", "tmux", "gh"),
        *(cli.profile.executable for cli in KNOWN_AGENTS.values() if cli.profile.executable),
        *("sandbox", "repository", "settings", "store", "disk"),
        *(name for name in CHECKS if name != "disk"),
    }
    for row in found.values():
        assert set(row) == {"name", "status", "version", "detail", "action", "required"}
        assert row["status"] in ("found", "missing", "unknown")
        assert row["detail"]
        assert row["status"] == "found" or row["action"], row
    assert {name for name, row in found.items() if row["required"]} == {"python", "sqlite", "git"}
    assert (found["git"]["status"], found["bd"]["status"]) == ("found", "missing")
    assert (found["store"]["status"], found["settings"]["status"]) == ("missing", "missing")
    assert tree(repo) == before


def test_doctor_knows_an_old_bd_from_one_that_says_nothing(repo: Path, tmp_path: Path) -> None:
    old = bd_script(tmp_path / "old", "echo 'bd version 0.49.6'")
    row = by_name(ralph("doctor", "--json", cwd=repo, env={"PATH": old}))["bd"]
    assert (row["status"], row["version"]) == ("missing", "0.49.6")
    assert "too old" in str(row["detail"])
    mute = bd_script(tmp_path / "mute", "exit 3")
    assert by_name(ralph("doctor", "--json", cwd=repo, env={"PATH": mute}))["bd"]["status"] == "unknown"


def test_doctor_finds_the_store_that_init_made(repo: Path) -> None:
    ralph("init", cwd=repo)
    row = by_name(ralph("doctor", "--json", cwd=repo))["store"]
    assert row["status"] == "found"
    assert "embedded" in str(row["detail"])


def test_doctor_exits_with_1_where_something_needed_is_broken(repo: Path) -> None:
    write(repo / "beads-ralph.yaml", "store: paper\n")
    ran = ralph("doctor", "--json", cwd=repo)
    assert (ran.code, ran.data["healthy"]) == (1, False)
    assert by_name(ran)["settings"]["status"] == "missing"
    write(repo / "beads-ralph.yaml", "")
    write(repo / ".ralph" / "beads.db", "rubbish " * 1000)
    ran = ralph("doctor", "--json", cwd=repo)
    assert (ran.code, ran.data["healthy"]) == (1, False)
    text = ralph("doctor", cwd=repo)
    assert text.code == 1
    assert "(needed)" in text.out


def test_doctor_outside_of_git(tmp_path: Path) -> None:
    place = tmp_path / "plain"
    place.mkdir()
    ran = ralph("doctor", "--json", cwd=place)
    assert ran.code == 0
    assert by_name(ran)["repository"]["status"] == "missing"
    assert list(place.iterdir()) == []


def test_doctor_names_a_key_that_no_setting_has(repo: Path) -> None:
    write(repo / "beads-ralph.yaml", "\nstor: embedded\n")
    ran = ralph("doctor", "--json", cwd=repo)
    settings = by_name(ran)["settings"]
    assert (ran.code, settings["status"]) == (1, "missing")
    assert "beads-ralph.yaml:2: unknown key 'stor'; did you mean 'store'?" in str(settings["detail"])


# --- list, ready, show ------------------------------------------------------------------------------


def listed(ran: Ran) -> list[str]:
    return [bead["id"] for bead in ran.data["beads"]]


def test_list_orders_by_priority_and_filters(repo: Path) -> None:
    compiled_here(repo, FOUR)
    compiled_here(repo, plan(sprint("5.1", "Elsewhere")), "other.md")
    store = EmbeddedStore(repo)
    assert store.claim(IDS[0], "worker").won
    elsewhere = "bd-5-1-elsewhere"
    for words, wanted in [
        ([], [IDS[0], IDS[2], IDS[3], elsewhere, IDS[1]]),
        (["--status", "in_progress"], [IDS[0]]),
        (["--status", "in_progress", "--status", "open", "--label", "backend"], [IDS[2]]),
        (["--label", "phase-01", "--label", "sprint-1-2a"], [IDS[1]]),
        (["--plan", "other.md"], [elsewhere]),
        (["--plan", "./plans/../other.md"], [elsewhere]),
        (["--label", "nope"], []),
        (["--plan", "nope.md"], []),
    ]:
        assert listed(ralph("list", *words, "--json", cwd=repo)) == wanted, words


def test_ready_lists_what_can_start_and_nothing_else(repo: Path) -> None:
    compiled_here(repo, FOUR)
    store = EmbeddedStore(repo)
    rounds = []
    for _ in range(4):
        ready = listed(ralph("ready", "--json", cwd=repo))
        rounds.append(ready)
        for name in ready:
            assert store.claim(name, "worker").won
            store.close(name, "worker", "done")
    assert rounds == [[IDS[0]], [IDS[2], IDS[1]], [IDS[3]], []]
    assert "nothing is ready" in ralph("ready", cwd=repo).out


def test_ready_takes_a_limit(repo: Path) -> None:
    compiled_here(repo, plan(*(sprint(f"1.1{letter}", letter * 3) for letter in "abc")))
    assert listed(ralph("ready", "--limit", "2", "--json", cwd=repo)) == ["bd-1-1a-aaa", "bd-1-1b-bbb"]


def test_list_and_show_for_people(repo: Path) -> None:
    compiled_here(repo, FOUR)
    table = ralph("list", cwd=repo).out
    for bead_id in IDS:
        assert bead_id in table
    assert "Merge [b]all[/b]" in table  # as written, not as markup
    assert re.search(r"○ +bd-1-1-start +1\.1 +1 +Start", table)
    shown = ralph("show", IDS[3], IDS[0], cwd=repo).out
    assert shown.index(IDS[3]) < shown.index("Start  open")
    assert "Merge [b]all[/b]" in shown
    assert "waits for    bd-1-2a-left, bd-1-2b-right" in shown
    assert "• Do the work" in shown
    assert "no bead fits --plan nope.md" in ralph("list", "--plan", "nope.md", cwd=repo).out


def test_show_gives_the_bead_as_it_was_stored(repo: Path) -> None:
    compiled_here(repo, FOUR)
    EmbeddedStore(repo).comment(IDS[0], "someone", "[/dim] said")
    (shown,) = ralph("show", IDS[0], "--json", cwd=repo).data["beads"]
    assert shown == EmbeddedStore(repo).show(IDS[0]).to_json()
    assert shown["comments"][0]["text"] == "[/dim] said"
    assert "[/dim] said" in ralph("show", IDS[0], cwd=repo).out


def test_items_are_shown_by_their_ids_and_never_listed(repo: Path) -> None:
    compiled_here(repo, FOUR)
    store = EmbeddedStore(repo)
    assert store.claim(IDS[0], "worker").won
    store.close(IDS[0], "worker", "done")
    rule = {"type": "timer", "timeout": "2h"}
    wisp = make_item("bd-wisp", "task", ephemeral=True, notes="Look at [b]this[/b]", assignee="ann")
    gate = make_item("bd-gate", "gate", parent="bd-all", metadata={"gate": rule})
    store.create([make_item("bd-all", "convoy", tracks=[IDS[0]], labels=["x"]), gate, wisp])

    assert sorted(listed(ralph("list", "--json", cwd=repo))) == sorted(IDS)
    assert ralph("list", "--json", cwd=repo).data["unreadable"] == []
    assert listed(ralph("ready", "--json", cwd=repo)) == [IDS[2], IDS[1]]
    data = ralph("show", "bd-all", IDS[0], "bd-gate", "--json", cwd=repo).data
    assert [bead["id"] for bead in data["beads"]] == [IDS[0]]
    convoy, shown = data["items"]
    assert convoy["members"] == {IDS[0]: "closed", "bd-gate": "open"}
    assert (shown["members"], shown["metadata"], shown["parent"]) == ({}, {"gate": rule}, "bd-all")

    said = ralph("show", "bd-all", "bd-gate", "bd-wisp", cwd=repo).out
    for words in ("closed       1 of 2", f"✓ {IDS[0]}", "lets pass    timer 2h", "part of      bd-all"):
        assert words in said
    for words in ("type         task, a wisp", "Look at [b]this[/b]", "for          ann"):
        assert words in said
    assert (
        ralph("show", "bd-nothing", "--json", cwd=repo).envelope["error"]["code"] == "DATABASE.BEAD_NOT_FOUND"
    )


# --- demo -------------------------------------------------------------------------------------------


def test_demo_shows_the_main_job_in_a_place_of_its_own(repo: Path, tmp_path: Path) -> None:
    before = tree(repo)
    ran = ralph("demo", "--dir", tmp_path / "shown", "--plan-only", "--json", cwd=repo)
    data = ran.data
    root = Path(data["root"])
    assert root == tmp_path / "shown"
    assert len(data["bead_ids"]) == 8
    assert data["ready"] == ["bd-1-1-data-model"]
    assert listed(ralph("ready", "--json", cwd=root)) == data["ready"]
    assert "beads-ralph: bd-1-1-data-model" in Path(data["plan"]).read_text(encoding="utf-8")
    assert ralph("plan", "diff", data["plan"], "--json", cwd=root).data["unchanged"] == data["bead_ids"]
    assert tree(repo) == before


def test_demo_never_writes_over_something(repo: Path) -> None:
    before = tree(repo)
    ran = ralph("demo", "--dir", ".", cwd=repo)
    assert ran.code == 2
    assert "is not empty" in ran.err
    assert tree(repo) == before


def test_demo_for_people_says_where_to_look(repo: Path, tmp_path: Path) -> None:
    place = tmp_path / "a[" / "b]c"
    ran = ralph("demo", "--dir", place, "--plan-only", cwd=repo)
    assert ran.code == 0, ran.err
    assert f"cd {place}" in ran.out
    assert "wave 1" in ran.out
    assert ralph("demo", "--plan-only", cwd=repo, env={"TMPDIR": str(tmp_path)}).code == 0


def test_demo_builds_in_an_empty_folder_that_exists(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert ralph("demo", "--dir", tmp_path / "empty", "--plan-only", "--json", cwd=tmp_path).code == 0


# --- bd under load ----------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.bd
def test_s1_n2_3_a_locked_database_is_tried_again(bd_repo: Path, bd_path: Path, tmp_path: Path) -> None:
    """bd is in somebody's way twice; the third time it works, and the beads go in once."""
    write(bd_repo / "plan.md", plan(sprint("1.1", "Start")))
    notes = tmp_path / "creates"
    locked = (
        f'if [ "$1" = create ]; then echo x >>"{notes}"; '
        f'if [ "$(wc -l <"{notes}")" -lt 3 ]; then '
        """echo '{"error": "database is locked"}'; exit 1; fi; fi"""
    )
    ran = mason("plan.md", cwd=bd_repo, env={"PATH": wrapped_bd(tmp_path / "bin", bd_path, locked)})
    assert ran.data["bead_ids"] == ["bd-1-1-start"], ran.out
    assert notes.read_text(encoding="utf-8").count("x") == 3


@pytest.mark.full
@pytest.mark.bd
def test_s1_n2_4_forty_bds_at_once_do_not_hinder_mason(bd_repo: Path, bd_path: Path) -> None:
    write(bd_repo / "plan.md", FOUR)
    crowd = [
        subprocess.Popen(
            [bd_path, "list", "--json"],
            cwd=bd_repo,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(40)
    ]
    write(bd_repo / "beads-ralph.yaml", "bd_timeout: 200s\n")
    ran = mason("plan.md", cwd=bd_repo)
    answers = [process.communicate(timeout=240)[0] for process in crowd]
    assert ran.data["bead_ids"] == IDS, ran.out
    assert [process.returncode for process in crowd] == [0] * 40
    assert all(isinstance(json.loads(answer), list) for answer in answers)
