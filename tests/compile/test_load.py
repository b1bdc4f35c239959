"""Beads into the store: everything or nothing, and a second time nothing."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

import pytest

from beads_ralph.compile import load
from beads_ralph.errors import Code, RalphError
from beads_ralph.plan import parse
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from tests.cli.running import RALPH, Ran, dump, environment, mason, ralph, ralph_alone, tree, write
from tests.compile.plans import compiled, plan, sprint

FOUR = (
    sprint("1.1", "Start"),
    sprint("1.2a", "Left"),
    sprint("1.2b", "Right"),
    sprint("1.3", "Merge all"),
)
IDS = ["bd-1-1-start", "bd-1-2a-left", "bd-1-2b-right", "bd-1-3-merge-all"]


@pytest.fixture
def plan_file(repo: Path) -> Path:
    return write(repo / "plans" / "shop.md", plan(*FOUR))


def stored(repo: Path) -> list[str]:
    return [bead.id for bead in EmbeddedStore(repo).find(Query()).beads]


# --- inserting --------------------------------------------------------------------------------------


def test_s1_fr10_2_s1_ch1_what_mason_reports(repo: Path, plan_file: Path) -> None:
    data = mason(plan_file, cwd=repo).data
    assert data == {
        "mode": "direct",
        "beads_created": 4,
        "bead_ids": IDS,
        "sprints_processed": ["1.1", "1.2a", "1.2b", "1.3"],
        "database_status": "inserted",
        "plan_annotated": False,
        "plan_file_updated": False,
        "beads_skipped": [],
        "store": "embedded",
        "warnings": [],
    }
    assert stored(repo) == IDS


def test_s1_ch1_s1_fr5_10_no_bead_is_ever_written_as_a_file(repo: Path, plan_file: Path) -> None:
    before = set(tree(repo))
    assert mason(plan_file, cwd=repo).code == 0
    assert not (repo / "beads").exists()
    assert set(tree(repo)) - before <= {".ralph", ".ralph/.gitignore"}


def test_s1_fr5_10_s1_n3_1_s1_fr5_4_nothing_is_inserted_unless_all_is_valid(repo: Path) -> None:
    """The last of many sprints is bad: the store is not even made."""
    bad = sprint("2.1", "Bad", branch="`no spaces allowed`")
    path = write(repo / "plan.md", plan(*FOUR, bad))
    before = tree(repo)
    ran = mason(path, cwd=repo)
    assert (ran.code, ran.error["code"]) == (1, "VALIDATION.INVALID_PATTERN")
    assert tree(repo) == before


def test_all_faults_of_a_plan_are_told_at_once(repo: Path) -> None:
    path = write(
        repo / "plan.md",
        plan(
            sprint("1.1", "A", branch="`a b`"),
            "### Sprint 1.2: B\n",
            sprint("1.3", "C", depends_on="9.9"),
            "### Sprint x: D\n",
        ),
    )
    ran = mason(path, cwd=repo)
    codes = [fault["code"] for fault in ran.error["details"]["faults"]]
    missing = "PARSE.MISSING_SECTION"
    assert codes == ["VALIDATION.INVALID_PATTERN", missing, "DEPENDENCY.UNRESOLVED", "PARSE.MARKDOWN"]
    lines = [fault["line"] for fault in ran.error["details"]["faults"]]
    assert lines == sorted(lines)


def test_s1_fr5_7_beads_that_exist_are_an_error_and_nothing_changes(repo: Path, plan_file: Path) -> None:
    mason(plan_file, "--sprint-filter", "1.1", cwd=repo)
    before = tree(repo)
    ran = mason(plan_file, cwd=repo)
    assert (ran.code, ran.error["code"], ran.error["recoverable"]) == (1, "DEPENDENCY.DUPLICATE_ID", True)
    assert "--check-existing" in ran.error["suggested_action"]
    assert tree(repo) == before


# --- filter -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "chosen"),
    [("1.1", ["1.1"]), (" 1.2b , 1.1 ", ["1.1", "1.2b"]), ("1.3,1.3,", ["1.3"]), (None, None)],
)
def test_the_filter_takes_a_list_and_keeps_the_order_of_the_plan(
    words: str | None, chosen: list[str] | None
) -> None:
    parsed = parse(plan(*FOUR), "plan.md")
    found = load.choose(parsed, None if words is None else words.split(","))
    assert found == (chosen or ["1.1", "1.2a", "1.2b", "1.3"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("1.9", Code.UNRESOLVED),
        ("1.1,9.9", Code.UNRESOLVED),
        ("one", Code.PLAN_PATTERN),
        ("", Code.USAGE),
        (",", Code.USAGE),
    ],
)
def test_a_filter_that_names_nothing_of_the_plan_is_an_error(words: str, code: Code) -> None:
    with pytest.raises(RalphError) as caught:
        load.choose(parse(plan(*FOUR), "plan.md"), words.split(","))
    assert caught.value.code is code


def test_the_filter_compiles_the_whole_plan_first(repo: Path, plan_file: Path) -> None:
    """1.3 knows what it waits for although that is not inserted with it, and must exist in the store."""
    before = tree(repo)
    ran = mason(plan_file, "--sprint-filter", "1.3", cwd=repo)
    assert ran.error["code"] == "DEPENDENCY.UNRESOLVED"
    assert "bd-1-2a-left" in ran.out
    assert set(tree(repo)) - set(before) <= {".ralph", ".ralph/.gitignore"}
    assert stored(repo) == []

    for words in ("1.1", "1.2a,1.2b", "1.3"):
        assert mason(plan_file, "--sprint-filter", words, cwd=repo).code == 0
    assert EmbeddedStore(repo).show("bd-1-3-merge-all").dependencies == ["bd-1-2a-left", "bd-1-2b-right"]


def test_faults_of_sprints_outside_the_filter_do_not_hinder(repo: Path) -> None:
    path = write(repo / "plan.md", plan(*FOUR, sprint("2.1", "Bad", branch="`a b`")))
    assert mason(path, "--sprint-filter", "1.1", cwd=repo).data["bead_ids"] == ["bd-1-1-start"]


# --- again ------------------------------------------------------------------------------------------


def test_s1_n4_2_a_second_run_with_check_existing_changes_nothing(repo: Path, plan_file: Path) -> None:
    mason(plan_file, "--annotate", cwd=repo)
    before = tree(repo)
    data = mason(plan_file, "--check-existing", "--annotate", cwd=repo).data
    assert (data["beads_created"], data["bead_ids"], data["beads_skipped"]) == (0, [], IDS)
    assert data["database_status"] == "unchanged"
    assert (data["plan_annotated"], data["plan_file_updated"]) == (True, False)
    assert tree(repo) == before


def test_s1_n4_2_check_existing_adds_only_what_is_missing(repo: Path, plan_file: Path) -> None:
    mason(plan_file, "--sprint-filter", "1.1,1.2a", cwd=repo)
    old = {bead.id: bead for bead in EmbeddedStore(repo).find(Query()).beads}
    data = mason(plan_file, "--check-existing", cwd=repo).data
    assert (data["bead_ids"], data["beads_skipped"]) == (IDS[2:], IDS[:2])
    new = {bead.id: bead for bead in EmbeddedStore(repo).find(Query()).beads}
    assert {name: new[name] for name in old} == old


def test_s1_n4_2_an_edited_title_is_still_the_same_bead(repo: Path, plan_file: Path) -> None:
    mason(plan_file, cwd=repo)
    before = dump(repo)
    write(plan_file, plan(*FOUR).replace("Sprint 1.1: Start", "Sprint 1.1: Begin"))
    assert mason(plan_file, "--check-existing", cwd=repo).data["beads_skipped"] == IDS
    assert dump(repo) == before


def test_s1_n2_2_a_suffix_inserts_beside_what_exists(repo: Path, plan_file: Path) -> None:
    mason(plan_file, cwd=repo)
    again = mason(plan_file, "--id-suffix", "run2", cwd=repo).data
    assert again["bead_ids"] == [f"{bead_id}-run2" for bead_id in IDS]
    first, second = (mason(plan_file, "--id-suffix", "auto", cwd=repo).data["bead_ids"] for _ in range(2))
    assert not set(first) & set(second)
    assert all(re.fullmatch(r"bd-1-1-start-[0-9a-f]{6}", ids[0]) for ids in (first, second))
    assert len(stored(repo)) == 16


@pytest.mark.parametrize("suffix", ["a b", "../x", "-x", "x" * 41, "é"])
def test_a_suffix_that_makes_no_id_is_a_usage_error(repo: Path, plan_file: Path, suffix: str) -> None:
    before = tree(repo)
    ran = mason(plan_file, f"--id-suffix={suffix}", cwd=repo)
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")
    assert tree(repo) == before


def test_dry_run_shows_the_beads_and_opens_no_store(repo: Path, plan_file: Path) -> None:
    before = tree(repo)
    data = mason(plan_file, "--dry-run", "--annotate", cwd=repo).data
    assert (data["dry_run"], data["beads_created"], data["database_status"]) == (True, 0, "dry_run")
    assert data["bead_ids"] == IDS
    assert [bead["id"] for bead in data["beads"]] == IDS
    assert (data["plan_annotated"], data["plan_file_updated"]) == (False, False)
    assert tree(repo) == before


# --- annotating -------------------------------------------------------------------------------------


def test_annotate_writes_the_ids_of_the_processed_sprints_only(repo: Path, plan_file: Path) -> None:
    old = plan_file.read_text(encoding="utf-8")
    data = mason(plan_file, "--annotate", "--sprint-filter", "1.1", cwd=repo).data
    assert (data["plan_annotated"], data["plan_file_updated"]) == (True, True)
    new = plan_file.read_text(encoding="utf-8")
    heading = "### Sprint 1.1: Start\n"
    assert new == old.replace(heading, f"{heading}<!-- beads-ralph: bd-1-1-start -->\n")


def test_annotate_goes_through_a_link_and_leaves_it_a_link(repo: Path, plan_file: Path) -> None:
    plan_file.unlink()
    outside = repo.parent / "elsewhere"
    write(outside / "shop.md", plan(*FOUR))
    plan_file.symlink_to(outside / "shop.md")
    data = mason(plan_file, "--annotate", cwd=repo).data
    assert data["plan_file_updated"] is True
    assert plan_file.is_symlink()
    assert "beads-ralph: bd-1-1-start" in (outside / "shop.md").read_text(encoding="utf-8")


# --- many masons ------------------------------------------------------------------------------------


def at_once(repo: Path, *commands: list[str]) -> list[Ran]:
    """Start them all, then wait for them all."""
    started = [
        subprocess.Popen(
            [*RALPH, *words, "--json"],
            cwd=repo,
            env=environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    ended = []
    for process in started:
        out, err = process.communicate(timeout=240)
        ended.append(Ran(process.returncode, out, err))
    return ended


def test_s1_n2_1_masons_on_different_plans_all_insert_everything(repo: Path) -> None:
    """They even make the store at the same time."""
    wanted = []
    for name in ("north", "south", "west"):
        write(repo / f"{name}.md", plan(*(sprint(f"1.{n}", f"{name} {n}") for n in range(1, 9))))
        wanted += [f"bd-1-{n}-{name}-{n}" for n in range(1, 9)]
    ended = at_once(repo, *(["mason", f"{name}.md"] for name in ("north", "south", "west")))
    assert [ran.code for ran in ended] == [0, 0, 0], [ran.out for ran in ended]
    assert sorted(stored(repo)) == sorted(wanted)


@pytest.mark.parametrize("words", [[], ["--check-existing"]])
def test_s1_n2_1_masons_on_one_plan_insert_it_once(repo: Path, plan_file: Path, words: list[str]) -> None:
    ended = at_once(repo, *(["mason", str(plan_file), *words] for _ in range(3)))
    made = [ran for ran in ended if ran.code == 0 and ran.data["beads_created"]]
    assert len(made) == 1
    assert made[0].data["bead_ids"] == IDS
    for ran in ended:
        if ran.code:
            assert ran.error["code"] == "DEPENDENCY.DUPLICATE_ID"
        elif ran is not made[0]:
            assert words
            assert ran.data["beads_skipped"] == IDS
    assert stored(repo) == IDS


def test_s1_n2_1_mason_inserts_while_a_loop_claims_and_closes(repo: Path, plan_file: Path) -> None:
    mason(plan_file, cwd=repo)
    store = EmbeddedStore(repo)
    ended: list[Ran] = []
    other = write(repo / "other.md", plan(*(sprint(f"2.{n}", f"more {n}") for n in range(1, 9))))
    second = threading.Thread(target=lambda: ended.append(ralph_alone("mason", other, "--json", cwd=repo)))
    second.start()
    for _ in range(4):
        bead = store.ready(1).beads[0]
        assert store.claim(bead.id, "worker").won
        store.close(bead.id, "worker", "done")
    second.join(timeout=240)
    assert ended[0].data["beads_created"] == 8
    states = [bead.status for bead in store.find(Query()).beads]
    assert (states.count("closed"), states.count("open")) == (4, 8)


def test_s1_fr5_10_no_fault_gets_past_the_last_door() -> None:
    """`require_valid` gives beads or raises, never some of them."""
    built = compiled(plan(*FOUR, sprint("2.1", "Bad", branch="`a b`")))
    with pytest.raises(RalphError):
        load.require_valid(built, ["1.1", "2.1"])
    assert [bead.id for bead in load.require_valid(built, ["1.1", "1.3"]).beads] == [IDS[0], IDS[3]]


def test_a_person_is_told_which_store_and_why(repo: Path, plan_file: Path) -> None:
    ran = ralph("mason", plan_file, cwd=repo)
    assert ran.code == 0
    assert "embedded store (no bd database here)" in ran.out
    assert "4 beads inserted" in ran.out
