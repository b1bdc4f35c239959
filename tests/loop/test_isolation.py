"""Agents and checks in a whole run: what they are given, and what ends them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from beads_ralph.config.model import Config
from beads_ralph.session import confinement
from beads_ralph.store.protocol import Changes
from tests.conftest import need_bwrap
from tests.loop.plans import Project, git, passes, soon, sprint, work

ONE = sprint("1.1", "One")
BEAD = "bd-1-1-one"
PYTHON = Path(sys.executable).resolve()
"""Not that of a virtual environment, which may lie below /tmp: a check has a folder of its own there."""
GROW = f"{PYTHON} -c 'import time; held = bytearray(300 << 20); time.sleep(600)'"
STAY = f"{PYTHON} -c 'import time; held = bytearray(300 << 20); time.sleep(2)'"


def findings(project: Project) -> list[str]:
    return [row["message"] for row in project.events("verdict_given", bead=BEAD)]


def evidence(project: Project) -> dict[str, str]:
    return {row["name"]: row["message"] for row in project.metadata(BEAD)["last_verdict"]["evidence"]}


# --- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["local", pytest.param("tmux", marks=pytest.mark.tmux)])
def test_a_developer_that_takes_too_much_memory_is_ended_and_told(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    script = {"*": {"dev": [[{"run": GROW}], work()]}}
    project = Project.make(repo, ONE, script=script, agent_memory_mb=200, executor=executor)
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2), ran.out
    assert "memory: used more than 200 MB" in findings(project)[0]
    assert "memory: used more than 200 MB" in project.feedback(BEAD)[1]
    project.assert_tidy()


def test_qa_and_verifiers_have_the_same_limit(repo: Path) -> None:
    script = {"*": {"dev": work(), "qa": [{"run": GROW}]}}
    project = Project.make(repo, ONE, script=script, agent_memory_mb=200)
    assert project.run().code == 1
    (first,) = project.metadata(BEAD)["qa_agent_executions"]
    assert (first["status"], first["details"]["outcome"]) == ("fail", "memory")
    assert "used more than 200 MB" in first["message"]


def test_a_verifier_that_takes_too_much_memory_fails(repo: Path) -> None:
    settings = {"verify": [GROW], "max_retry_attempts": 1}
    project = Project.make(repo, ONE, plan_settings=settings, agent_memory_mb=200)
    assert project.run().code == 1
    assert evidence(project)[GROW].startswith("memory: used more than 200 MB")


def test_the_limit_of_a_bead_goes_before_the_configured_one(repo: Path) -> None:
    script = {"*": {"dev": [{"run": STAY}, *work()]}}
    project = Project.make(repo, ONE, script=script, agent_memory_mb=200)
    assert project.ralph("mason", "plan.md", "--json").code == 0
    project.store.update(BEAD, Changes(metadata={"resource_limits": {"memory_mb": 2000}}))
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1), ran.out


def test_how_much_an_agent_may_print_can_be_set(repo: Path) -> None:
    script = {"*": {"dev": [[{"flood": 3_000_000}, *work()], work()]}}
    project = Project.make(repo, ONE, script=script, agent_output_mb=2)
    assert project.run().data["attempts"] == 2
    assert "printed more than is allowed" in findings(project)[0]


# --- environment ------------------------------------------------------------------------------------


def test_agents_and_checks_have_what_the_user_names_and_nothing_else(repo: Path, tmp_path: Path) -> None:
    seen = {role: tmp_path / role for role in ("dev", "qa", "check")}
    script = {
        "*": {
            "dev": [{"run": f"env > {seen['dev']}"}, *work()],
            "qa": [{"run": f"env > {seen['qa']}"}, *passes()],
        }
    }
    (tmp_path / "agents").mkdir()
    project = Project.make(
        repo,
        ONE,
        script=script,
        plan_settings={"verify": [f"env > {seen['check']}"]},
        agent_env=["JAVA_HOME"],
        agent_home=str(tmp_path / "agents"),
    )
    given = {"JAVA_HOME": "/opt/java", "NPM_TOKEN": "hush", "GH_TOKEN": "hush", "CLAUDECODE": "hush"}
    assert project.run(env=given).code == 0
    for role, path in seen.items():
        said = path.read_text("utf-8").splitlines()
        assert "JAVA_HOME=/opt/java" in said
        assert [line for line in said if "hush" in line] == []
        assert (f"HOME={tmp_path / 'agents'}" in said) == (role != "check")


@pytest.mark.parametrize("settings", [{"agent_env": ["GH_TOKEN"]}, {"agent_home": "nowhere"}])
def test_what_cannot_be_had_is_said_before_anything_starts(repo: Path, settings: dict[str, Any]) -> None:
    ran = Project.make(repo, ONE, **settings).run()
    assert (ran.code, ran.error["code"]) == (1, "CONFIG.INVALID")
    assert next(iter(settings)) in ran.error["message"]


# --- the sandbox ------------------------------------------------------------------------------------


@pytest.fixture
def bwrap() -> None:
    need_bwrap()


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize("executor", ["local", pytest.param("tmux", marks=pytest.mark.tmux)])
def test_a_whole_bead_is_worked_on_closed_in(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    """Agents, merge and checks do their work; what they try outside of it comes to nothing."""
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    escape = [{"run": f"! echo x > {repo}/README.md && ! touch $HOME/x"}]
    inside = [{"run": f"touch {repo}/.git/x && git tag x && git update-ref refs/heads/main HEAD"}]
    look = [{"run": f"! touch {repo}/.git/x && touch x"}]
    script = {"*": {"dev": [*escape, *work(), *inside], "qa": [*escape, *look, *passes()]}}
    verify = [f"! touch {repo}/x && ls *.txt && git status && touch made-by-a-check"]
    project = Project.make(
        repo,
        ONE,
        sprint("1.2", "Two"),
        script=script,
        plan_settings={"verify": verify},
        sandbox="bwrap",
        executor=executor,
    )
    ran = project.run()
    assert (ran.code, len(ran.data["closed"]), ran.data["attempts"]) == (0, 2, 2), ran.out
    assert git(repo, "status", "--porcelain") == ""
    assert not (repo / ".git" / "x").exists()
    assert (git(repo, "tag"), git(repo, "log", "--format=%s", "main")) == ("", "plan\nfirst")
    assert [flag for flag in flags(project) if "not taken over" in flag] == [
        "in its sandbox an agent moved refs/heads/main, made refs/tags/x; not taken over"
    ]
    project.assert_tidy()


@pytest.mark.usefixtures("bwrap")
def test_what_git_has_of_the_beads_folder_is_there_for_whoever_works(repo: Path) -> None:
    """`init` writes some of it. Were it hidden, an agent would commit that it is gone."""
    kept = repo / ".beads" / "schemas" / "x.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}\n", "utf-8")
    git(repo, "add", "--force", str(kept))
    git(repo, "commit", "-qm", "schemas")
    look = {"run": 'test -z "$(git status --porcelain)" && cat .beads/schemas/x.json'}
    verify = ["cat .beads/schemas/x.json"]
    script = {"*": {"dev": [look, {"run": "echo x > x.txt && git add --all && git commit -qm work"}]}}
    project = Project.make(repo, ONE, script=script, plan_settings={"verify": verify}, sandbox="bwrap")
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [BEAD]), ran.out
    branch = project.bead(BEAD).metadata.branch
    assert git(repo, "diff", "--name-only", f"main...{branch}") == "x.txt"
    assert git(repo, "log", "--format=%s", f"main..{branch}") == "work"


@pytest.mark.usefixtures("bwrap")
def test_a_run_that_is_killed_leaves_nobody_in_there(repo: Path) -> None:
    script = {"*": {"dev": [{"spawn": {"count": 2, "seconds": 300, "detached": True}}, {"hang": True}]}}
    project = Project.make(repo, ONE, script=script, sandbox="bwrap")
    with project.running() as process:
        soon(lambda: len(project.strays()) > 4)
        process.kill()
        process.wait()
        soon(lambda: project.strays() == [])


@pytest.mark.usefixtures("bwrap")
def test_what_an_agent_had_committed_is_there_after_a_kill(repo: Path) -> None:
    """The next one goes on from it, although nobody could take it over in time."""
    early = (
        "if git log --format=%s | grep -q early; then touch seen; else "
        "git commit -q --allow-empty -m early; touch ready; sleep 600; fi"
    )
    project = Project.make(repo, ONE, script={"*": {"dev": [{"run": early}, *work()]}}, sandbox="bwrap")
    with project.running() as process:
        soon((repo.parent / f"{repo.name}-worktrees" / BRANCH / "ready").exists)
        process.kill()
        process.wait()
        soon(lambda: project.strays() == [])
    assert git(repo, "log", "--format=%s", f"main..{BRANCH}") == ""
    ran = project.run()
    assert ran.code == 0, ran.out
    assert git(repo, "log", "--format=%s", f"main..{BRANCH}").splitlines()[-1] == "early"
    assert "seen" in git(repo, "ls-tree", "--name-only", BRANCH).splitlines()
    project.assert_tidy()


def without_bwrap(folder: Path) -> dict[str, str]:
    """A PATH with everything that a run needs, but for bubblewrap."""
    folder.mkdir()
    for name in ("git", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return {"PATH": str(folder)}


def test_without_bubblewrap_nothing_starts(repo: Path, tmp_path: Path) -> None:
    project = Project.make(repo, ONE, sandbox="bwrap")
    ran = project.run(env=without_bwrap(tmp_path / "bin"))
    assert (ran.code, ran.error["code"]) == (1, "EXECUTION.NO_SANDBOX")
    assert "apt-get install bubblewrap" in ran.error["suggested_action"]
    assert project.events() == []


# --- on by default, where it works ------------------------------------------------------------------


def default_project(repo: Path, script: dict[str, Any] | None = None, **settings: Any) -> Project:
    """One whose settings do not say a word about the sandbox."""
    project = Project.make(repo, ONE, script=script, **settings)
    path = repo / "beads-ralph.yaml"
    said = yaml.safe_load(path.read_text("utf-8"))
    del said["sandbox"]
    path.write_text(yaml.safe_dump(said), "utf-8")
    git(repo, "commit", "-qam", "default")
    return project


@pytest.mark.usefixtures("bwrap")
def test_by_default_agents_and_checks_are_sandboxed_and_the_run_says_so(repo: Path) -> None:
    outside = repo / "outside"
    escape = {"run": f"! touch {outside}"}
    script = {"*": {"dev": [escape, *work()], "qa": [escape, *passes()]}}
    project = default_project(repo, script, plan_settings={"verify": [f"! touch {outside}"]})
    ran = project.run()
    assert (ran.code, ran.data["closed"], ran.data["sandbox"]) == (0, [BEAD], "bwrap"), ran.out
    assert not outside.exists()
    (started,) = project.events("run_started")
    assert (started["sandbox"], "sandbox_note" in started) == ("bwrap", False)
    project.assert_tidy()


@pytest.mark.usefixtures("bwrap")
def test_the_first_line_for_people_names_the_sandbox(repo: Path) -> None:
    ran = default_project(repo).ralph("run", "plan.md")
    told = [line for line in ran.err.splitlines() if "sandbox" in line or "attempt" in line]
    rooms = "checks get rooms of their own"
    assert told[0] == f"  sandbox: agents and checks run inside bwrap; {rooms}"
    assert "attempt 1" in told[1]


def test_where_it_does_not_work_the_run_says_what_that_means_and_goes_on(repo: Path, tmp_path: Path) -> None:
    project = default_project(repo)
    ran = project.ralph("run", "plan.md", env=without_bwrap(tmp_path / "bin"))
    assert ran.code == 0, ran.err
    (line,) = [line for line in ran.err.splitlines() if "no sandbox" in line]
    assert line.startswith("! no sandbox (bwrap is not on PATH): agents, and what they wrote")
    assert "read your keys and write wherever you can" in line
    assert "apt-get install bubblewrap" in line
    (started,) = project.events("run_started")
    assert (started["sandbox"], started["check_rooms"]) == ("none", "none")
    assert line == f"! {started['sandbox_note']}; checks get no rooms of their own"


def test_whoever_has_switched_it_off_is_told_what_that_means(repo: Path) -> None:
    ran = Project.make(repo, ONE).ralph("run", "plan.md")
    (line,) = [line for line in ran.err.splitlines() if "no sandbox" in line]
    assert line.startswith("! no sandbox (sandbox: none): agents")


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize("sandbox", ["auto", "bwrap"])
def test_a_model_that_cannot_be_reached_is_refused_before_anything_starts(repo: Path, sandbox: str) -> None:
    agent = {"agent": "claude", "executable": "claude"}
    agents = {"dev_agents": [agent]}
    project = Project.make(repo, ONE, plan_settings=agents, sandbox=sandbox, sandbox_network=False)
    ran = project.run()
    assert (ran.code, ran.error["code"]) == (1, "CONFIG.INVALID")
    assert "claude must reach a model over the network" in ran.error["message"]
    assert project.events() == []


@pytest.mark.usefixtures("bwrap")
def test_agents_that_need_no_network_work_without_one(repo: Path) -> None:
    assert Project.make(repo, ONE, sandbox="auto", sandbox_network=False).run().code == 0


# --- QA agents only look ----------------------------------------------------------------------------

BRANCH = "feature/1-1-one"


def flags(project: Project) -> list[str]:
    return list(project.metadata(BEAD)["last_verdict"]["flags"])


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("mkdir -p out; touch out/a", ["QA agents changed out/a in their checkout"]),
        ("git tag v9", []),  # in a repository of their own
        ("git -C {root} tag v9", ["other refs changed: refs/tags/v9"]),
        ("true", []),
    ],
)
def test_what_qa_agents_change_is_thrown_away_and_flagged(repo: Path, step: str, said: list[str]) -> None:
    step = step.format(root=repo)
    project = Project.make(repo, ONE, script={"*": {"dev": work(), "qa": [{"run": step}, *passes()]}})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1), ran.out
    found = flags(project)
    assert [any(text in flag for flag in found) for text in said] == [True] * len(said), found
    assert len(found) == len(said)
    assert git(repo, "log", "--format=%s", "-1", BRANCH) == "work"
    page = (repo / ".ralph" / "pulls" / "1.md").read_text("utf-8")
    assert [flag in page for flag in found] == [True] * len(found)


MENDS = pytest.mark.parametrize(
    ("step", "said"),
    [
        ("echo x >> README.md; touch a", "QA agents changed README.md in their checkout"),
        ("echo x > fix && git add fix && git commit -qm fix", "QA agents committed"),
        ("git commit -q --allow-empty -m fix", "QA agents committed"),
    ],
)


@MENDS
def test_a_qa_agent_that_mends_what_it_is_to_judge_is_asked_once_more(
    repo: Path, step: str, said: str
) -> None:
    once = repo.parent / "once"
    meddle = {"run": f"if [ ! -e {once} ]; then touch {once}; {step}; fi"}
    project = Project.make(repo, ONE, script={"*": {"dev": work(), "qa": [meddle, *passes()]}})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1), ran.out
    (warning,) = (row["message"] for row in project.events() if "asked again" in row.get("message", ""))
    assert said in warning
    assert len(project.metadata(BEAD)["qa_agent_executions"]) == 2, "both calls are paid for, and told"
    assert git(repo, "log", "--format=%s", "-1", BRANCH) == "work"


@pytest.mark.sampled(1)
@MENDS
def test_a_qa_agent_that_mends_again_and_again_passes_nothing(repo: Path, step: str, said: str) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": work(), "qa": [{"run": step}, *passes()]}})
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (1, []), ran.out
    assert said in ran.data["blocked"][0]["reason"]
    assert ran.data["attempts"] == 0, "its developer can do nothing about it"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("cd {tree} && echo x > qa.txt && git add qa.txt && git commit -qm mine", f"moved {BRANCH} to"),
        (
            "cd {tree} && git update-ref HEAD $(git commit-tree -p HEAD -m mine HEAD^{{tree}})",
            f"moved {BRANCH} to",
        ),
        ("cd {tree} && echo x > qa.txt && echo y >> README.md", "changed README.md, qa.txt in the bead's"),
        ("cd {tree} && git checkout -q -B mine", "left the bead's worktree on another branch"),
    ],
)
def test_a_qa_agent_that_changes_the_branch_is_caught_and_the_branch_put_back(
    repo: Path, step: str, said: str
) -> None:
    tree = repo.parent / f"{repo.name}-worktrees" / BRANCH
    meddle = step.format(tree=tree, branch=BRANCH)
    project = Project.make(repo, ONE, script={"*": {"dev": work(), "qa": [{"run": meddle}, *passes()]}})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (1, 0), ran.out
    assert said in ran.data["blocked"][0]["reason"]
    project.ralph("retry", BEAD)
    project.write_script({"*": {"dev": work()}})
    assert project.run().code == 0
    names = git(repo, "log", "--format=%s", "--name-only", f"main..{BRANCH}")
    assert "qa.txt" not in names
    assert "mine" not in names
    kept = git(repo, "for-each-ref", "--format=%(refname)", "refs/beads-ralph/discarded").split()
    aside = f"refs/beads-ralph/discarded/{BEAD}-1"
    assert kept == ([] if "checkout" in step else [aside, f"{aside}-anew"])
    project.assert_tidy()


@pytest.mark.usefixtures("bwrap")
def test_a_hook_that_an_agent_commits_is_obeyed_by_nobody_outside_of_its_sandbox(repo: Path) -> None:
    """As projects have it whose hooks are part of the tree."""
    git(repo, "config", "core.hooksPath", ".hooks")
    trace = repo.parent / "hook-was-here"
    hook = f"#!/bin/sh\ntouch {trace}\n"
    names = (
        "post-checkout",
        "post-merge",
        "pre-push",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    )
    steps: list[dict[str, Any]] = [
        {"write": {f".hooks/{name}": hook for name in names}},
        {"run": "chmod +x .hooks/*"},
        {"commit": "hooks"},
    ]
    script = {"1.1": {"dev": steps}, "*": {"dev": work()}}
    project = Project.make(repo, ONE, sprint("1.2", "Two"), script=script, sandbox="bwrap")
    assert project.run().data["ended"] == "done"
    assert not trace.exists()


def test_a_link_to_settings_that_an_agent_replaces_is_put_back_and_told(repo: Path) -> None:
    need_bwrap()
    home = Path(os.environ["HOME"])
    for folder in ("bin", "dotfiles", ".claude"):
        (home / folder).mkdir()
    link, target = home / ".claude" / "settings.json", home / "dotfiles" / "settings.json"
    target.write_text("{}\n", "utf-8")
    link.symlink_to("../dotfiles/settings.json")
    program = home / "bin" / "claude"
    replaces = f"echo x > {link}; rm {link}; echo evil > {link}"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --version) exit;; esac\n{replaces}; echo x > one.txt\n", "utf-8"
    )
    program.chmod(0o755)
    agents = {"dev_agents": [{"agent": "claude", "executable": "claude"}], "max_retry_attempts": 1}
    project = Project.make(repo, ONE, plan_settings=agents, sandbox="bwrap")
    project.run(env={"PATH": f"{home}/bin:{os.environ['PATH']}"})
    assert (link.readlink(), target.read_text("utf-8")) == (Path("../dotfiles/settings.json"), "{}\n")
    said = [row["message"] for row in project.events("warning_given")]
    (told,) = [text for text in said if text.startswith(f"in its sandbox an agent replaced the link {link}")]
    (kept,) = Path(told.rpartition(" ")[2]).iterdir()
    assert kept.read_text("utf-8") == "evil\n"


def test_what_the_sandbox_cannot_keep_from_agents_here_is_said_at_the_start(repo: Path) -> None:
    need_bwrap()
    (repo / ".git" / "reftable").mkdir()
    (repo / ".beads").mkdir()
    (repo / ".beads" / "metadata.json").write_text('{"dolt_mode": "server"}\n', "utf-8")
    found = confinement.sandbox_gaps(Config(sandbox="bwrap"), repo)
    assert [text.partition(":")[0] for text in found] == [
        "the repository's refs are a reftable",
        "bd works over a Dolt server here, whose port agents reach from the sandbox",
    ]
    assert len(confinement.sandbox_gaps(Config(sandbox="bwrap", sandbox_network=False), repo)) == 1
    assert confinement.sandbox_gaps(Config(sandbox="none"), repo) == []
    project = Project.make(repo, ONE, sandbox="bwrap")
    project.run()
    assert found[0] in [row["message"] for row in project.events("warning_given")]
