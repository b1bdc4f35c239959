"""What gates wait for on GitHub, asked with the real gh."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.bead.items import Item, Standing
from beads_ralph.forge.adapters.github import GitHubGates
from beads_ralph.forge.network import Network
from tests.forge.github_server import GitHub, Pull, Trouble, WorkflowRun
from tests.forge.places import PATIENCE, Place, bare_beside, path_with

MADE = "2026-03-01T00:00:00Z"


def gate(kind: str, awaited: str | None, **more: str) -> Item:
    rule = {"type": kind, "await_id": awaited, **more}
    return Item(
        id="bd-g", title="Wait", issue_type="gate", metadata={"gate": rule}, created_at=MADE, status="open"
    )


def stands(place: Place, kind: str, awaited: str | None, **more: str) -> Standing:
    return GitHubGates(place.root, PATIENCE)(gate(kind, awaited, **more))


def hub_of(place: Place) -> GitHub:
    assert place.hub is not None
    return place.hub


# --- pull requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["1", "#1", "https://github.com/acme/app/pull/1", "feature/one"])
def test_a_pull_request_is_known_by_its_number_its_page_or_its_branch(github: Place, said: str) -> None:
    hub = hub_of(github)
    hub.pulls.append(Pull(1, "One", "", "feature/one", "main"))
    assert stands(github, "gh:pr", said).state == "waits"
    hub.pulls[0].state = "MERGED"
    assert stands(github, "gh:pr", said).state == "passed"
    hub.pulls[0].state = "CLOSED"
    found = stands(github, "gh:pr", said)
    assert found.state == "failed"
    assert "closed without being merged" in found.text


@pytest.mark.parametrize("said", ["7", "feature/none"])
def test_a_pull_request_that_is_not_there_is_said_to_be_missing(github: Place, said: str) -> None:
    assert stands(github, "gh:pr", said) == Standing(
        "failed",
        f"there is no pull request {said}" + (" of acme/app" if said == "7" else ""),
    )


def test_the_gate_may_name_another_repository(github: Place) -> None:
    hub_of(github).pulls.append(Pull(1, "One", "", "feature/one", "main", state="MERGED"))
    assert stands(github, "gh:pr", "1", repo="acme/other").state == "failed"
    assert stands(github, "gh:pr", "1", repo="acme/app").state == "passed"
    assert stands(github, "gh:pr", "1", repo="github.com/acme/app").state == "passed"
    wrong = stands(github, "gh:pr", "1", repo="not a repository")
    assert wrong.state == "failed", "never taken for the repository at hand"
    assert "OWNER/NAME" in wrong.text


# --- workflow runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "conclusion", "state"),
    [
        ("queued", None, "waits"),
        ("in_progress", None, "waits"),
        ("completed", "success", "passed"),
        ("completed", "failure", "failed"),
        ("completed", "cancelled", "failed"),
        ("completed", "skipped", "failed"),
    ],
)
def test_a_run_passes_only_when_it_has_succeeded(
    github: Place, status: str, conclusion: str | None, state: str
) -> None:
    hub_of(github).runs.append(WorkflowRun(42, status=status, conclusion=conclusion))
    found = stands(github, "gh:run", "42")
    assert found.state == state
    assert str(conclusion or status) in found.text


@pytest.mark.parametrize("said", ["ci.yml", ".github/workflows/ci.yml", "Tests"])
def test_a_workflow_by_its_name_means_its_newest_run_since_the_gate_was_made(
    github: Place, said: str
) -> None:
    hub = hub_of(github)
    assert stands(github, "gh:run", said).state == "failed", "there is no such workflow"
    hub.workflows[5] = (".github/workflows/ci.yml", "Tests")
    assert stands(github, "gh:run", said).state == "waits"
    old = WorkflowRun(1, 5, "completed", "success", "2026-02-28T00:00:00Z")
    hub.runs.append(old)
    assert stands(github, "gh:run", said).state == "waits", "it was over before there was a gate"
    hub.runs.append(WorkflowRun(2, 5, "in_progress"))
    assert stands(github, "gh:run", said).state == "waits"
    hub.runs[-1] = WorkflowRun(2, 5, "completed", "success", "2026-03-02T00:00:00Z")
    assert stands(github, "gh:run", said).state == "passed"


# --- trouble ----------------------------------------------------------------------------------------


def test_trouble_that_may_pass_is_waited_out(github: Place) -> None:
    hub_of(github).troubles.append(Trouble("rest"))
    assert stands(github, "gh:pr", "1").state == "waits"


def test_a_gate_that_names_nothing_and_a_repository_that_is_not_on_github_need_a_person(repo: Path) -> None:
    bare_beside(repo)
    look = GitHubGates(repo, Network())
    assert look(gate("gh:pr", None)).state == "failed"
    found = look(gate("gh:pr", "1"))
    assert found.state == "failed"
    assert "not a repository on GitHub" in found.text


def test_without_gh_a_person_is_told_to_install_it(
    github: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path_with(tmp_path / "bin", ["git"]))
    found = stands(github, "gh:run", "42")
    assert found.state == "failed"
    assert "Install gh" in found.text
