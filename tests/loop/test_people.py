"""Gates, people's steps, wisps and convoys in a run, on both stores."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import Item
from beads_ralph.bead.words import moment_of
from beads_ralph.dod import gates
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from beads_ralph.store.query import ItemQuery, Query
from tests.cli.running import Ran
from tests.compile import formulas
from tests.compile.plans import plan
from tests.forge.github_server import GitHub, Pull, WorkflowRun
from tests.forge.places import on_github
from tests.loop.plans import Project, fails, git, loop_of, names, soon, sprint, work

ONE, TWO, THREE = sprint("1.1", "One"), sprint("1.2", "Two"), sprint("1.3", "Three")
FIRST, SECOND, THIRD = "bd-1-1-one", "bd-1-2-two", "bd-1-3-three"


Make = Callable[..., Project]


def maker(root: Path, kind: str) -> Make:
    def made(*sprints: str, **settings: Any) -> Project:
        project = Project.make(root, *sprints, store=kind, **settings)
        assert project.ralph("mason", "plan.md", "--json").code == 0
        return project

    return made


@pytest.fixture(params=["embedded", pytest.param("bd", marks=[pytest.mark.bd])])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a project with a compiled plan, on one store and then on the other."""
    kind: str = request.param
    return maker(request.getfixturevalue("bd_repo" if kind == "bd" else "repo"), kind)


@pytest.fixture
def here(repo: Path) -> Make:
    """The same on the embedded store, for what does not depend on the store."""
    return maker(repo, "embedded")


def gate(name: str, kind: str, **rule: Any) -> Item:
    said = {"type": kind, **rule}
    return Item(id=name, title=f"Before {name}", issue_type="gate", metadata={"gate": said})


def hold(project: Project, bead_id: str, *items: Item, needs: tuple[str, ...] = ()) -> None:
    """Put items into the store, and let a bead wait for them, too."""
    store = project.store
    store.create(items)
    before = store.show(bead_id).dependencies
    store.update(bead_id, Changes(dependencies=[*before, *(item.id for item in items), *needs]))


def item_of(project: Project, name: str) -> Item:
    (found,) = project.store.items.find(ItemQuery(ids=[name]))
    return found


def run_all(project: Project, *words: str) -> Ran:
    return project.ralph("run", *words, "--json")


# --- people -----------------------------------------------------------------------------------------


def test_a_run_ends_at_a_persons_gate_and_says_how_to_go_on(make: Make) -> None:
    """Work, a person's word, work: the run ends with the command that lets it pass, and then goes on."""
    project = make(ONE, TWO)
    hold(project, SECOND, gate("bd-ship-it", "human"))
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", [FIRST])
    assert ran.data["blocked"] == [], "nothing is wrong with any bead"
    (row,) = ran.data["waiting_for"]
    assert row == {
        "id": "bd-ship-it",
        "type": "gate",
        "gate": "human",
        "title": "Before bd-ship-it",
        "state": "person",
        "reason": "waits for a person",
        "beads": [SECOND],
        "command": "beads-ralph close bd-ship-it",
    }
    assert "bd-ship-it" in ran.data["reason"]
    shown = project.ralph("status", "--json").data
    assert shown["waiting_for"] == [row]
    assert "beads-ralph close bd-ship-it" in project.ralph("status").out
    git(project.root, "config", "user.name", "Anna")
    closed = project.ralph("close", "bd-ship-it", "--reason", "it looks good", "--json")
    assert (closed.code, closed.data["already_closed"], closed.data["by"]) == (0, False, "Anna")
    assert item_of(project, "bd-ship-it").status == "closed"
    assert item_of(project, "bd-ship-it").close_reason == "it looks good"
    again = project.run()
    assert (again.code, again.data["ended"], again.data["closed"]) == (0, "done", [SECOND])
    assert again.data["waiting_for"] == []


def test_a_persons_task_ends_the_run_the_same_way_and_what_is_behind_it_is_named_once(
    here: Make,
) -> None:
    project = here(ONE, TWO, THREE)
    hold(project, SECOND, Item(id="bd-sign", title="Sign it", issue_type="task"))
    ran = project.run()
    assert (ran.data["ended"], ran.data["closed"]) == ("blocked", [FIRST])
    (row,) = ran.data["waiting_for"]
    assert (row["id"], row["type"], row["beads"]) == ("bd-sign", "task", [SECOND])
    text = project.ralph("run", "plan.md").out
    assert "holds up bd-1-2-two" in text
    assert "→ beads-ralph close bd-sign" in text


def test_a_release_with_a_persons_step_and_a_gate_from_the_plan_to_its_end(make: Make) -> None:
    """Work, a signature, a gate, work: each run does what it can and names who is next."""
    project = make(ONE)
    steps = [
        formulas.work("build"),
        formulas.person("sign", needs=["build"]),
        formulas.work("publish", needs=["sign"], gate={"type": "human"}),
    ]
    formulas.written(project.root, formulas.raw("release", *steps))
    text = plan(ONE, formulas.poured("1.2", "Release", "release"), front_matter="")
    (project.root / "plan.md").write_text(text, encoding="utf-8")
    first = project.run()
    assert (first.code, first.data["ended"]) == (1, "blocked")
    assert len(first.data["closed"]) == 2
    told = {row["type"]: row for row in first.data["waiting_for"]}
    assert set(told) == {"task", "gate"}
    assert told["task"]["title"] == "Decide sign"
    assert told["task"]["beads"] == told["gate"]["beads"]
    (publish,) = told["task"]["beads"]
    for row in told.values():
        assert row["command"] == f"beads-ralph close {row['id']}"
        assert project.ralph("close", row["id"], "--json").code == 0
    second = project.run()
    assert (second.code, second.data["closed"]) == (0, [publish])
    assert [row["type"] for row in second.data["finished"]] == ["molecule"]
    files = git(project.root, "ls-tree", "--name-only", project.bead(publish).metadata.branch).splitlines()
    built = [name for name in first.data["closed"] if name != FIRST]
    assert f"{built[0]}.txt" in files, "it starts with the work before the person's step"


def test_what_a_person_lets_pass_during_the_run_is_gone_on_with(here: Make) -> None:
    script = {
        "1.1a": {"dev": [{"run": "while [ ! -e go ]; do sleep 0.05; done; rm go"}, *work()]},
        "*": {"dev": work()},
    }
    project = here(sprint("1.1a", "Busy"), sprint("1.1b", "Held"), script=script, poll_interval="200ms")
    hold(project, "bd-1-1b-held", gate("bd-ok", "human"))
    with project.running() as process:
        soon(lambda: project.events("agent_started"))
        assert project.ralph("close", "bd-ok", "--json").code == 0
        soon(lambda: names(project.events("bead_claimed")) == ["bd-1-1a-busy", "bd-1-1b-held"])
        (project.worktree("feature/1-1a-busy") / "go").touch()
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"]) == (0, "done")


def test_a_bead_is_never_closed_by_hand(make: Make) -> None:
    project = make(ONE)
    refused = project.ralph("close", FIRST, "--json")
    assert (refused.code, refused.error["code"]) == (1, "DATABASE.CONFLICT")
    assert "with its proof" in refused.error["message"]
    assert project.statuses() == {FIRST: "open"}
    unknown = project.ralph("close", "bd-nothing", "--json")
    assert (unknown.code, unknown.error["code"]) == (1, "DATABASE.BEAD_NOT_FOUND")


def test_what_waits_itself_cannot_be_closed_and_closing_twice_changes_nothing(
    here: Make,
) -> None:
    project = here(ONE)
    project.store.create(
        [
            gate("bd-early", "human"),
            Item(id="bd-late", title="Late", issue_type="task", dependencies=["bd-early"]),
        ]
    )
    refused = project.ralph("close", "bd-late", "--json")
    assert refused.error["code"] == "DATABASE.CONFLICT"
    assert "bd-early" in refused.error["message"]
    for already in (False, True):
        assert project.ralph("close", "bd-early", "--json").data["already_closed"] is already
    assert project.ralph("close", "bd-late", "--json").code == 0


@pytest.mark.full
@pytest.mark.bd
@pytest.mark.parametrize("command", ["close", "gate resolve"])
def test_bds_own_words_let_a_gate_pass_too(bd_repo: Path, bd_path: Path, command: str) -> None:
    project = Project.make(bd_repo, ONE, TWO, store="bd")
    assert project.ralph("mason", "plan.md", "--json").code == 0
    made = ["gate", "create", "--type=human", f"--blocks={SECOND}", "--json"]
    done = subprocess.run(
        [bd_path, *made], cwd=bd_repo, check=True, capture_output=True, text=True, timeout=60
    )
    ran = project.run()
    (row,) = ran.data["waiting_for"]
    assert (ran.data["ended"], row["gate"], row["beads"]) == ("blocked", "human", [SECOND])
    assert row["id"] in done.stdout
    words = [bd_path, *command.split(), row["id"]]
    subprocess.run(words, cwd=bd_repo, check=True, capture_output=True, timeout=60)
    assert project.run().data["closed"] == [SECOND]


# --- clocks and the world outside -------------------------------------------------------------------


def test_a_run_waits_for_a_timer_and_closes_its_gate_with_the_reason(make: Make) -> None:
    project = make(ONE, TWO, poll_interval="1h")
    hold(project, SECOND, gate("bd-cool-down", "timer", timeout="8s"))
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [FIRST, SECOND])
    (passed,) = project.events("gate_passed")
    found = item_of(project, "bd-cool-down")
    assert (passed["gate"], passed["beads"]) == ("bd-cool-down", [SECOND])
    assert passed["reason"].startswith("timer ran out at ")
    assert (found.status, found.close_reason) == ("closed", passed["reason"])
    assert found.created_at is not None
    waited = moment_of(passed["at"]) - moment_of(found.created_at)
    assert waited.total_seconds() >= 8, "never before its time"


def test_nobody_waits_for_a_timer_that_only_a_person_could_make_use_of(here: Make) -> None:
    project = here(ONE)
    hold(project, FIRST, gate("bd-clock", "timer", timeout="24h"), gate("bd-word", "human"))
    ran = project.run()
    assert ran.data["ended"] == "blocked"
    assert {row["id"]: row["state"] for row in ran.data["waiting_for"]} == {
        "bd-clock": "waits",
        "bd-word": "person",
    }


def test_a_run_that_waits_can_be_stopped_and_once_does_not_wait(here: Make) -> None:
    project = here(ONE)
    hold(project, FIRST, gate("bd-clock", "timer", timeout="24h"))
    once = project.run("--once")
    assert (once.code, once.data["ended"]) == (1, "stopped")
    assert "until" in once.data["reason"]
    with project.running() as process:
        soon(lambda: project.events("run_waiting"))
        (told,) = project.events("run_waiting")
        assert [row["id"] for row in told["gates"]] == ["bd-clock"]
        assert project.ralph("stop", "--json").code == 0
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"]) == (1, "stopped")
    assert names(ran.data["waiting_for"], "id") == ["bd-clock"]
    with project.running() as process:
        soon(lambda: len(project.events("run_waiting")) == 2)
        process.send_signal(signal.SIGINT)
        assert project.finished(process).code == 130
    project.assert_tidy()


def test_a_budget_ends_a_run_that_waits(repo: Path) -> None:
    project = Project.make(repo, ONE, budget_minutes=0.02)
    assert project.ralph("mason", "plan.md", "--json").code == 0
    hold(project, FIRST, gate("bd-clock", "timer", timeout="24h"))
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (1, "stopped")
    assert "budget" in ran.data["reason"] or "minutes" in ran.data["reason"]


def test_a_gate_for_another_bead_passes_when_that_is_closed(make: Make) -> None:
    project = make(sprint("1.1a", "Here"), sprint("1.1b", "There"))
    hold(project, "bd-1-1a-here", gate("bd-after", "bead", await_id="bd-1-1b-there"))
    ran = project.run()
    assert ran.data["closed"] == ["bd-1-1b-there", "bd-1-1a-here"]
    assert project.events("gate_passed")[0]["reason"] == "bd-1-1b-there is closed"


def test_a_gate_for_a_bead_that_is_blocked_ends_the_run(repo: Path) -> None:
    script = {"1.1b": {"dev": work(), "qa": fails("no")}, "*": {"dev": work()}}
    project = Project.make(
        repo, sprint("1.1a", "Here"), sprint("1.1b", "There"), script=script, max_retry_attempts=1
    )
    assert project.ralph("mason", "plan.md", "--json").code == 0
    hold(project, "bd-1-1a-here", gate("bd-after", "bead", await_id="bd-1-1b-there"))
    ran = project.run()
    assert (ran.data["ended"], names(ran.data["blocked"], "id")) == ("blocked", ["bd-1-1b-there"])
    (row,) = ran.data["waiting_for"]
    assert (row["state"], row["reason"]) == ("failed", "bd-1-1b-there is blocked")


def test_a_pull_request_and_a_workflow_run_let_beads_pass(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_github(repo, tmp_path, monkeypatch) as place:
        assert place.hub is not None
        _pulls_and_runs(repo, place.hub)


def _pulls_and_runs(repo: Path, github_hub: GitHub) -> None:
    project = Project.make(repo, ONE, TWO, forge="local", poll_interval="200ms")
    assert project.ralph("mason", "plan.md", "--json").code == 0
    hold(project, FIRST, gate("bd-pull", "gh:pr", await_id="1"))
    hold(project, SECOND, gate("bd-ci", "gh:run", await_id="42"))
    github_hub.pulls.append(Pull(1, "Before", "", "feature/before", "main"))
    github_hub.runs.append(WorkflowRun(42))
    with project.running("--forge", "local") as process:
        soon(lambda: github_hub.asked.count("rest") > 3)
        assert project.events("bead_claimed") == []
        github_hub.pulls[0].state = "MERGED"
        soon(lambda: names(project.events("bead_closed")) == [FIRST])
        github_hub.runs[0] = WorkflowRun(42, status="completed", conclusion="failure")
        ran = project.finished(process)
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", [FIRST])
    (row,) = ran.data["waiting_for"]
    assert (row["id"], row["state"]) == ("bd-ci", "failed")
    assert "ended with failure" in ran.data["reason"]
    github_hub.runs[0] = WorkflowRun(42, status="completed", conclusion="success")
    again = project.run("--forge", "local")
    assert (again.code, again.data["closed"]) == (0, [SECOND])
    assert [row["gate"] for row in project.events("gate_passed")] == ["bd-pull", "bd-ci"]


def test_a_dry_run_names_the_gates_and_forgets_those_that_have_passed(here: Make) -> None:
    project = here(ONE, TWO)
    hold(project, SECOND, gate("bd-ok", "human"))
    shown = project.run("--dry-run").data
    assert shown["waves"] == [[FIRST]]
    (row,) = shown["waiting"]
    assert row["id"] == SECOND
    assert "bd-ok" in row["reason"]
    assert "a person" in row["reason"]
    assert project.ralph("close", "bd-ok", "--json").code == 0
    assert project.run("--dry-run").data["waves"] == [[FIRST], [SECOND]]


def test_beads_that_come_during_the_run_and_wait_for_a_gate_are_waited_for(repo: Path) -> None:
    project = Project.make(
        repo,
        ONE,
        TWO,
        script={"*": {"dev": [{"run": "while [ ! -e go ]; do sleep 0.05; done; rm go"}, *work()]}},
    )
    (repo / "plan.md").write_text((repo / "plan.md").read_text("utf-8").split("### Sprint 1.2")[0], "utf-8")
    assert project.ralph("mason", "plan.md", "--json").code == 0
    bead = project.bead(FIRST)
    with project.running() as process:
        soon(lambda: project.events("agent_started"))
        place = {**bead.metadata.to_json(), "branch": "feature/late", "sprint": "1.2"}
        path = str(project.worktree("feature/late"))
        late = bead.model_validate(
            {
                **bead.to_json(),
                "id": "bd-late",
                "dependencies": ["bd-clock"],
                "metadata": {**place, "worktree_path": path},
            }
        )
        project.store.create([gate("bd-clock", "timer", timeout="1s"), late])
        (project.worktree("feature/1-1-one") / "go").touch()
        soon(lambda: project.events("agent_started", bead="bd-late"))  # before, nobody may write there
        (project.worktree("feature/late") / "go").touch()
        ran = project.finished(process)
    assert ran.data["closed"] == [FIRST, "bd-late"]


# --- what lies above a bead -------------------------------------------------------------------------


def test_a_molecule_closes_with_its_last_bead_and_what_waits_for_an_epic_goes_on(
    make: Make,
) -> None:
    project = make(ONE)
    store = project.store
    bead = project.bead(FIRST)
    place = bead.metadata.to_json()

    def poured(name: str, number: int, **core: Any) -> Any:
        branch = f"feature/{name}"
        where = {"branch": branch, "sprint": f"1.{number}", "worktree_path": str(project.worktree(branch))}
        raw = {**bead.to_json(), "id": name, "dependencies": [], "metadata": {**place, **where}, **core}
        return bead.model_validate(raw)

    store.create(
        [
            Item(id="bd-mol", title="A pour", issue_type="molecule"),
            Item(id="bd-epic", title="Its part", issue_type="epic", parent="bd-mol"),
            poured("bd-inner", 2, parent="bd-epic"),
            poured("bd-after", 3, parent="bd-mol", dependencies=["bd-epic"]),
        ]
    )
    ran = project.run()
    assert (ran.code, sorted(ran.data["closed"])) == (0, [FIRST, "bd-after", "bd-inner"])
    assert ran.data["closed"][-1] == "bd-after"
    assert names(ran.data["finished"], "id") == ["bd-mol"]
    settled = [row["id"] for event in project.events("items_settled") for row in event["closed"]]
    assert settled == ["bd-epic", "bd-mol"]
    assert [item_of(project, name).status for name in ("bd-mol", "bd-epic")] == ["closed", "closed"]


def test_what_holds_up_an_epic_holds_up_the_beads_below_it(make: Make) -> None:
    project = make(ONE)
    bead = project.bead(FIRST)
    branch = "feature/inner"
    where = {"branch": branch, "worktree_path": str(project.worktree(branch)), "sprint": "1.2"}
    inner = bead.model_validate(
        {
            **bead.to_json(),
            "id": "bd-inner",
            "parent": "bd-epic",
            "dependencies": [],
            "metadata": {**bead.metadata.to_json(), **where},
        }
    )
    epic = Item(id="bd-epic", title="Part", issue_type="epic", dependencies=["bd-ok"])
    project.store.create([gate("bd-ok", "human"), epic, inner])
    assert project.run("--dry-run").data["waves"] == [[FIRST]]
    ran = project.run()
    assert (ran.data["ended"], ran.data["closed"]) == ("blocked", [FIRST])
    (row,) = ran.data["waiting_for"]
    assert (row["id"], row["beads"]) == ("bd-ok", ["bd-inner"])
    assert project.ralph("close", "bd-ok", "--json").code == 0
    again = project.run()
    assert again.data["closed"] == ["bd-inner"]
    assert names(again.data["finished"], "id") == ["bd-epic"]


def test_a_check_of_the_repository_that_waits_for_a_person_counts_once_that_is_done(here: Make) -> None:
    """The other gates: beads with the label, which hold features up while they are red."""
    project = here(ONE)
    store = project.store
    store.create([Item(id="bd-sign", title="Sign", issue_type="task")])
    store.update(FIRST, Changes(labels=["gate"], dependencies=["bd-sign"]))
    assert [found.colour for found in gates.find(project.root, store)] == ["waiting"]
    store.items.close("bd-sign", "anna", "signed")
    assert [found.colour for found in gates.find(project.root, store)] == ["red"]


# --- wisps ------------------------------------------------------------------------------------------


def wisp_of(project: Project, name: str = "bd-wisp-1") -> str:
    """A wisp beside the plan's bead, on a branch of its own."""
    bead = project.bead(FIRST)
    branch = f"feature/{name}"
    where = {"branch": branch, "worktree_path": str(project.worktree(branch)), "plan_file": "formula:x"}
    raw = {**bead.to_json(), "id": name, "ephemeral": True, "metadata": {**bead.metadata.to_json(), **where}}
    project.store.create([bead.model_validate(raw)])
    return name


def wisp_status(project: Project, name: str) -> str:
    (found,) = project.store.find(Query(ids=[name])).beads
    return found.status


def test_wisps_are_worked_on_only_where_they_are_asked_for(make: Make) -> None:
    project = make(ONE)
    wisp, other = wisp_of(project), wisp_of(project, "bd-wisp-2")
    assert run_all(project).data["closed"] == [FIRST]
    assert [wisp_status(project, name) for name in (wisp, other)] == ["open", "open"]
    assert run_all(project, "--bead", other).data["closed"] == [other]
    ran = run_all(project, "--wisps")
    assert (ran.code, ran.data["closed"]) == (0, [wisp])
    proven = project.metadata(wisp)["proven"]["commit"]
    assert proven == project.pulls()[f"feature/{wisp}"], "closed with the same proof"
    places = project.ralph("clean", "--dry-run", "--json").data["worktrees"]
    assert sorted(names(places)) == sorted([FIRST, wisp, other])


def test_a_wisp_in_the_hand_of_a_killed_run_is_given_back_by_any_run(make: Make) -> None:
    script = {"*": {"dev": [{"run": "[ -e go ] || sleep 600"}, *work()]}}
    project = make(ONE, script=script)
    wisp = wisp_of(project)
    with project.running_all("--bead", wisp) as process:
        soon(lambda: project.events("agent_started"))
        process.kill()
        process.wait()
    assert wisp_status(project, wisp) == "in_progress"
    project.write_script({"*": {"dev": work()}})
    assert run_all(project).data["closed"] == [FIRST], "a run that is not about wisps"
    assert wisp_status(project, wisp) == "open"
    assert names(project.events("attempt_interrupted")) == [wisp]
    assert run_all(project, "--wisps").data["closed"] == [wisp]


# --- convoys ----------------------------------------------------------------------------------------


def test_a_run_tells_which_convoys_it_has_brought_to_their_end(make: Make) -> None:
    project = make(ONE, TWO)
    made = project.ralph("convoy", "create", "Launch day", FIRST, SECOND, "--json")
    assert made.data["convoy"]["total"] == 2
    first = project.run("--once")
    assert first.data["finished"] == []
    ran = project.run()
    assert ran.data["finished"] == [{"id": "bd-convoy-launch-day", "type": "convoy", "title": "Launch day"}]
    (event,) = project.events("items_settled")
    assert event["closed"] == ran.data["finished"]
    assert item_of(project, "bd-convoy-launch-day").status == "closed"


def test_the_end_of_a_run_says_so_to_people(repo: Path) -> None:
    project = Project.make(repo, ONE)
    assert project.ralph("mason", "plan.md").code == 0
    assert project.ralph("convoy", "create", "Launch", FIRST).code == 0
    ran = project.ralph("run", "plan.md")
    assert "✓ convoy Launch: all 1 closed" in ran.out


def test_a_convoy_as_the_scope_of_a_run(here: Make) -> None:
    project = here(sprint("1.1a", "In"), sprint("1.1b", "Out"))
    assert project.ralph("convoy", "create", "Some", "bd-1-1a-in", "--json").code == 0
    ran = run_all(project, "--convoy", "Some")
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1a-in"])
    assert project.ralph("convoy", "create", "None", "--json").code == 0
    refused = run_all(project, "--convoy", "None")
    assert (refused.code, refused.error["code"]) == (1, "DATABASE.CONFLICT")


# --- what it costs ----------------------------------------------------------------------------------


class Counting(EmbeddedStore):
    """Notes every question about items."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []
        own = self.items

        class Watched:
            def __getattr__(inner, name: str) -> Any:  # noqa: N805
                self.asked.append(name)
                return getattr(own, name)

        self.items = Watched()


def test_a_plan_of_beads_alone_asks_nothing_about_items(repo: Path) -> None:
    project = Project.make(repo, ONE, TWO)
    store = Counting(repo)
    with loop_of(project, store) as loop:
        ended = asyncio.run(loop.run())
    assert ended.complete
    assert store.asked == []
