"""What a run would refuse is found before the first agent starts, by every command that looks ahead."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph import app
from beads_ralph.forge.protocol import PushTarget
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, git, sprint, work

BEAD = "bd-1-1-one"
ONE = sprint("1.1", "One", verify="`grep -q done one.txt`")
SCRIPT = {"*": {"dev": work("one.txt")}}
AGENT_SH = r"""#!/bin/sh
if [ "$BEADS_RALPH_ROLE" = qa ]; then
    printf '```json\n{"status": "pass", "message": "ok"}\n```\n'
    exit 0
fi
echo done > one.txt && git add --all && git commit --quiet --message work
"""


def fault(project: Project, check: str) -> dict[str, Any]:
    """What `doctor` says; it is something that a run needs."""
    ran = project.ralph("doctor", "--json")
    (row,) = [row for row in ran.data["checks"] if row["name"] == check]
    assert (ran.code, ran.data["healthy"], row["required"]) == (1, False, True), row
    return dict(row)


def refused(project: Project, check: str, *said: str) -> None:
    """Seen by doctor, a rehearsal and a run alike; nothing was claimed, and no attempt was made."""
    before = project.statuses()
    row = fault(project, check)
    told = [project.run("--dry-run").error, project.run().error]
    for text in said:
        assert text in row["detail"], row
        assert all(text in error["message"] for error in told), told
    assert {row["action"], *(error["suggested_action"] for error in told)} == {row["action"]}
    assert (project.statuses(), project.events()) == (before, [])
    (seen,) = project.ralph("plan", "check", "plan.md", "--json").data["refused_here"]
    assert all(text in seen["message"] for text in said)


def test_a_run_without_a_committer_is_refused(repo: Path, isolated: Path) -> None:
    project = Project.make(repo, ONE, script=SCRIPT)
    (isolated / ".gitconfig").write_text("")
    refused(project, "identity", "user.name and user.email")
    git(repo, "config", "user.name", "Ada")
    git(repo, "config", "user.email", "ada@example.org")
    assert project.run().data["closed"] == [BEAD]


def test_a_run_whose_agents_have_no_program_is_refused(repo: Path) -> None:
    project = Project.make(repo, ONE, plan_settings={"qa_agents": [{"agent": "qa", "executable": "no-such"}]})
    project.ralph("mason", "plan.md", "--json")
    refused(project, "agents", "agent qa cannot run: there is no program no-such on PATH")


def test_a_program_is_looked_for_from_the_repository(repo: Path) -> None:
    agent = {"agent": "claude", "executable": "./agent.sh"}
    project = Project.make(repo, ONE, plan_settings={"dev_agents": [agent], "qa_agents": [agent]})
    project.ralph("mason", "plan.md", "--json")
    refused(project, "agents", "there is no program ./agent.sh, seen from the repository")
    (repo / "agent.sh").write_text(AGENT_SH)
    refused(project, "agents", "./agent.sh is not executable")
    (repo / "agent.sh").chmod(0o755)
    ran = project.run()
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (0, [BEAD], 1), ran.out


def test_a_program_that_stands_in_is_enough(repo: Path) -> None:
    project = Project.make(repo, ONE, script=SCRIPT, agent_defaults={"fallback": ["scripted"]})
    settings = repo / "beads-ralph.yaml"
    settings.write_text(settings.read_text().replace("executable: scripted", "executable: no-such"))
    (remark,) = [text for text in project.run("--dry-run").data["remarks"] if "no-such" in text]
    assert "stands in" in remark
    assert project.run().data["closed"] == [BEAD]


def reviewed_by(**said: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda metadata: {"qa_agents": [{**metadata["qa_agents"][0], **said}]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("check", "spoiled", "said"),
    [
        ("agents", reviewed_by(executable="no-such"), "there is no program no-such on PATH"),
        ("agent files", reviewed_by(agent="nobody"), "Agent path 'nobody' does not exist in .claude/agents/"),
        ("branches", lambda _: {"branch": "main/below"}, "git cannot have branch main/below beside main"),
        ("source branches", lambda _: {"source_branch": "gone"}, "the source branch gone exists neither"),
    ],
)
def test_a_fault_of_one_bead_blocks_that_bead_and_costs_it_no_attempt(
    repo: Path, check: str, spoiled: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    other = "bd-1-1b-other"
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Other"), sprint("1.2", "After"))
    (repo / ".claude" / "agents").mkdir(parents=True)
    project.ralph("mason", "plan.md", "--json")
    metadata = project.metadata(other)
    changed = spoiled(metadata)
    spoil(project, other, changed)
    dry = project.ralph("run", "--dry-run", "--json").data
    assert (dry["waves"], [row["id"] for row in dry["waiting"]]) == (
        [["bd-1-1a-one"]],
        [other, "bd-1-2-after"],
    )
    assert said in dry["waiting"][0]["reason"]
    assert said in fault(project, check)["detail"]
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (1, ["bd-1-1a-one"], 1)
    assert ran.data["next"] == [f"beads-ralph show {other}", f"beads-ralph retry {other}"]
    (row,) = [row for row in project.ralph("status", "--json").data["blocked"] if row["id"] == other]
    assert said in row["reason"]
    assert (project.metadata(other)["attempt_count"], project.events("agent_started", bead=other)) == (0, [])
    spoil(project, other, {name: metadata[name] for name in changed})
    project.ralph("retry", other)
    assert sorted(project.ralph("run", "--json").data["closed"]) == [other, "bd-1-2-after"]


def test_a_plan_that_names_a_missing_agent_file_or_source_runs_the_rest(repo: Path) -> None:
    agents = repo / ".claude" / "agents"
    agents.mkdir(parents=True)
    project = Project.make(
        repo,
        sprint("1.1a", "One"),
        sprint("1.1b", "Other", dev_agents="nobody (scripted:any)"),
        sprint("1.1c", "Third", source_branch="gone"),
    )
    beads = ["bd-1-1b-other", "bd-1-1c-third"]
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (1, "blocked", ["bd-1-1a-one"]), ran.out
    assert sorted(row["id"] for row in ran.data["blocked"]) == beads
    assert ran.data["attempts"] == 1
    (agents / "nobody.md").write_text("Nobody.\n")
    git(repo, "branch", "gone")
    for bead in beads:
        assert project.ralph("retry", bead).code == 0
    ran = project.run(env={"BEADS_RALPH_SCRIPT": str(project.script)})
    assert sorted(ran.data["closed"]) == beads, ran.out


def test_a_run_in_which_no_bead_can_start_says_so_at_once(repo: Path) -> None:
    project = Project.make(repo, ONE, sprint("1.2", "Two"), plan_settings={"source_branch": "gone"})
    project.ralph("mason", "plan.md", "--json")
    refused(project, "source branches", "the source branch gone exists neither here nor on origin")
    assert f"({BEAD}, bd-1-2-two)" in project.run().error["message"]


def spoil(project: Project, bead: str, metadata: dict[str, Any]) -> None:
    project.store.update(bead, Changes(metadata=metadata))


def test_files_that_agents_do_not_see_are_named(repo: Path) -> None:
    project = Project.make(repo, ONE, script=SCRIPT)
    assert project.run("--dry-run").data["remarks"] == []
    (repo / "notes.txt").write_text("new\n")
    (repo / "plan.md").write_text((repo / "plan.md").read_text() + "\n")
    (remark,) = project.run("--dry-run").data["remarks"]
    assert "agents do not see it: notes.txt" in remark
    assert "agents do not see it: notes.txt" in project.ralph("run", "plan.md").err


# --- pushing ------------------------------------------------------------------------------------------


def cloned(repo: Path) -> Path:
    """The repository becomes a clone; the value is its origin."""
    origin = repo.parent / "origin.git"
    git(repo.parent, "clone", "--quiet", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", str(origin))
    return origin


def heads(origin: Path) -> list[str]:
    return git(origin, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_nothing_is_pushed_to_a_clones_origin_unless_somebody_says_so(repo: Path) -> None:
    origin = cloned(repo)
    project = Project.make(repo, ONE, script=SCRIPT, push="ask", forge="local")
    hint = f"pushes nothing; push: yes in beads-ralph.yaml would push to origin ({origin})"
    assert hint in project.ralph("run", "plan.md", "--dry-run").out
    ran = project.ralph("run", "plan.md")
    assert (ran.code, hint in ran.err) == (0, True), ran.err
    assert heads(origin) == ["main"]
    (started,) = project.events("run_started")
    assert "pushes_to" not in started
    assert project.ralph("run", "--json").data["push"] is None
    assert project.bead(BEAD).status == "closed"


def test_a_push_is_announced_before_the_first_one(repo: Path) -> None:
    origin = cloned(repo)
    project = Project.make(repo, ONE, script=SCRIPT, push=True, forge="local")  # as YAML reads a bare yes
    target = {"remote": "origin", "url": str(origin)}
    assert project.run("--dry-run").data["push"] == target
    assert heads(origin) == ["main"], "a rehearsal pushes nothing"
    ran = project.ralph("run", "plan.md")
    assert f"pushes bead branches to origin ({origin})" in ran.err.split("▶")[0]
    (started,) = project.events("run_started")
    assert started["pushes_to"] == f"origin ({origin})"
    assert heads(origin) == ["feature/1-1-one", "main"]
    (row,) = [row for row in project.ralph("doctor", "--json").data["checks"] if row["name"] == "push"]
    assert str(origin) in row["detail"]


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked_once_whether_to_push(repo: Path, answer: bool) -> None:
    cloned(repo)
    Project.make(repo, ONE, push="ask", forge="local")
    asked: list[str] = []

    def ask(target: PushTarget) -> bool:
        asked.append(target.remote)
        return answer

    for _ in range(2):
        planned = app.plan_run(app.RunRequest(repo / "plan.md"), repo, ask_push=ask)
        assert bool(planned.push_target) is answer
    assert asked == ["origin"]


def test_a_remote_that_cannot_be_pushed_to_is_said_before_the_work(repo: Path) -> None:
    origin = cloned(repo)
    project = Project.make(repo, ONE, script=SCRIPT, max_network_retries=0)
    project.ralph("mason", "plan.md", "--json")
    origin.rename(repo.parent / "moved.git")
    assert f"origin ({origin}) cannot be pushed to" in fault(project, "push")["detail"]
    ran = project.run()
    assert (ran.code, ran.error["code"], project.events()) == (1, "GIT.ERROR", [])
    assert "cannot be pushed to" in ran.error["message"]


def test_a_forge_that_needs_the_push_is_refused_without_it(repo: Path) -> None:
    git(repo, "remote", "add", "origin", "https://github.com/acme/app.git")
    project = Project.make(repo, ONE, push="no", forge="github")
    ran = project.run()
    assert (ran.code, ran.error["code"], project.events()) == (1, "CONFIG.INVALID", [])
    assert "push: no" in ran.error["message"]


@pytest.mark.full
@pytest.mark.bd
def test_on_bd_a_run_refuses_and_pushes_just_as_much(bd_repo: Path) -> None:
    """A branch that git cannot have, a program that is not there, and a remote that nobody spoke of."""
    origin = cloned(bd_repo)
    names = {name: f"bd-1-1{name}" for name in ("a-one", "b-two", "c-three", "d-four")}
    sprints = [sprint(f"1.1{name[0]}", name[2:].title()) for name in names]
    project = Project.make(bd_repo, *sprints, store="bd", push="ask", forge="local")
    project.ralph("mason", "plan.md", "--json")
    spoil(project, names["b-two"], {"branch": "main/below"})
    qa = project.metadata(names["c-three"])["qa_agents"][0]
    spoil(project, names["c-three"], {"qa_agents": [{**qa, "executable": "no-such"}]})
    spoil(project, names["d-four"], {"worktree_path": str(bd_repo)})
    waiting = {
        row["id"]: row["reason"] for row in project.ralph("run", "--dry-run", "--json").data["waiting"]
    }
    assert "git cannot have branch main/below beside main" in waiting[names["b-two"]]
    assert "there is no program no-such on PATH" in waiting[names["c-three"]]
    assert "is the main checkout" in waiting[names["d-four"]]
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (1, [names["a-one"]], 1), ran.out
    assert {row["id"] for row in ran.data["blocked"]} == waiting.keys()
    assert (ran.data["push"], heads(origin)) == (None, ["main"])


# --- submodules ---------------------------------------------------------------------------------------


def with_submodule(repo: Path) -> Path:
    """A library, with one of its own inside, in the repository; git allows no submodule by its path."""
    inner, library = repo.parent / "inner", repo.parent / "library"
    allowed = ("-c", "protocol.file.allow=always")
    for place, name in ((inner, "inner.txt"), (library, "lib.txt")):
        git(repo.parent, "init", "--quiet", "--initial-branch=main", str(place))
        (place / name).write_text("library\n")
        git(place, "add", "--all")
        git(place, "commit", "--quiet", "--message", "library")
    git(library, *allowed, "submodule", "--quiet", "add", str(inner), "inner")
    git(library, "commit", "--quiet", "--message", "inner")
    git(repo, *allowed, "submodule", "--quiet", "add", str(library), "vendor/lib")
    git(repo, *allowed, "submodule", "--quiet", "update", "--init", "--recursive")
    return library


def test_submodules_are_there_for_agents_and_checks(repo: Path) -> None:
    library = with_submodule(repo)
    bump = (
        "cd vendor/lib && test -f inner/inner.txt && echo more > more.txt && git add --all && "
        "git commit --quiet --message more && git push --quiet origin HEAD:refs/heads/more"
    )
    project = Project.make(
        repo,
        sprint("1.1", "One", verify="`cat vendor/lib/lib.txt vendor/lib/inner/inner.txt`"),
        sprint("1.2", "Two", verify="`grep -q more vendor/lib/more.txt`"),
        script={"1.1": {"dev": work("one.txt")}, "1.2": {"dev": [{"run": bump}, *work("two.txt")]}},
    )
    before = (repo / ".git" / "config").read_text()
    ran = project.run()
    assert (ran.code, ran.data["attempts"], len(ran.data["closed"])) == (0, 2, 2), ran.out
    assert (repo / ".git" / "config").read_text() == before
    assert git(library, "show", "more:more.txt") == "more"
    assert git(repo, "ls-tree", "feature/1-2-two", "vendor/lib").split()[2] == git(
        library, "rev-parse", "more"
    )


def test_a_submodule_that_nobody_has_is_said_before_the_work(repo: Path) -> None:
    library = with_submodule(repo)
    project = Project.make(repo, ONE, script=SCRIPT)
    project.ralph("mason", "plan.md", "--json")
    library.rename(repo.parent / "moved")
    shutil.rmtree(repo / ".git" / "modules")
    assert "the submodule vendor/lib is neither here" in fault(project, "submodules")["detail"]
    for error in (project.run("--dry-run").error, project.run().error):
        assert "the submodule vendor/lib is neither here" in error["message"]
    assert (project.statuses(), project.events()) == ({BEAD: "open"}, [])


def test_submodules_of_another_source_branch_are_looked_at_too(repo: Path) -> None:
    git(repo, "switch", "--quiet", "--create", "next")
    library = with_submodule(repo)
    git(repo, "commit", "--quiet", "--message", "library")
    git(repo, "switch", "--quiet", "--force", "main")
    shutil.rmtree(repo / "vendor")
    project = Project.make(repo, sprint("1.1a", "One"), sprint("1.1b", "Other", source_branch="next"))
    project.ralph("mason", "plan.md", "--json")
    assert not (repo / ".gitmodules").exists()
    assert len(project.run("--dry-run").data["waves"][0]) == 2
    library.rename(repo.parent / "moved")
    shutil.rmtree(repo / ".git" / "modules")
    (row,) = project.run("--dry-run").data["waiting"]
    assert (row["id"], "the submodule vendor/lib is neither here" in row["reason"]) == ("bd-1-1b-other", True)
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == (["bd-1-1a-one"], 1)
    assert project.metadata("bd-1-1b-other")["attempt_count"] == 0


def test_large_files_that_nothing_fetches_are_named(repo: Path) -> None:
    project = Project.make(repo, ONE, sprint("1.2", "Two", source_branch="next"), script=SCRIPT)
    git(repo, "branch", "next")
    assert project.run("--dry-run").data["remarks"] == []
    git(repo, "switch", "--quiet", "next")
    (repo / "art").mkdir()
    (repo / "art" / ".gitattributes").write_text("*.png filter=lfs diff=lfs merge=lfs -text\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "art")
    git(repo, "switch", "--quiet", "main")
    (remark,) = project.run("--dry-run").data["remarks"]
    assert "git-lfs keeps files of this repository" in remark


def test_starting_over_where_a_repository_was_deleted_keeps_its_worktrees_aside(repo: Path) -> None:
    project = Project.make(repo, ONE, script=SCRIPT)
    assert project.run().code == 0
    worktree = project.worktree("feature/1-1-one")
    (worktree / "unsaved.txt").write_text("mine\n")
    shutil.rmtree(repo)
    git(repo.parent, "init", "--quiet", "--initial-branch=main", str(repo))
    again = Project.make(repo, ONE, script=SCRIPT)
    ran = again.run()
    assert (ran.code, ran.data["closed"], ran.data["attempts"]) == (0, [BEAD], 1), ran.out
    aside = worktree.with_name("1-1-one.aside-1")
    assert (aside / "unsaved.txt").read_text() == "mine\n"
    assert any(str(aside) in row["message"] for row in again.events("warning_given"))


def test_doctor_looks_at_what_became_of_proposed_work(repo: Path) -> None:
    origin = cloned(repo)
    project = Project.make(repo, ONE, script=SCRIPT, forge="local")
    assert project.run().code == 0

    def pulls() -> dict[str, Any]:
        checks = project.ralph("doctor", "--json").data["checks"]
        (row,) = [row for row in checks if row["name"] == "pull requests"]
        return dict(row)

    assert pulls()["status"] == "found"
    record = repo / ".ralph" / "pulls" / "1.json"
    record.write_text(record.read_text().replace('"open"', '"closed"'))
    assert f"{BEAD}: {record.with_suffix('.md')} was closed without a merge" in pulls()["detail"]
    (remark,) = project.ralph("run", "--json").data["remarks"]
    assert "its pull request was closed without being merged" in remark
    proven = project.metadata(BEAD)["proven"]["commit"]
    git(origin, "update-ref", "refs/heads/feature/1-1-one", "refs/heads/main")
    assert f"on the remote, not {proven[:12]}" in pulls()["detail"]
    git(origin, "update-ref", "refs/heads/main", proven)
    assert "on the remote" not in pulls()["detail"]
