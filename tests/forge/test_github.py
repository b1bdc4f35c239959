"""The real gh against the loopback GitHub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.adapters.github import Address, address_of
from beads_ralph.forge.network import Network
from beads_ralph.process.calls import Retry
from tests.forge.github_server import Asked, GitHub, Pull, Trouble
from tests.forge.places import Place, git, path_with


@pytest.fixture
def hub(github: Place) -> GitHub:
    assert github.hub
    return github.hub


def test_the_answer_is_githubs(github: Place, hub: GitHub) -> None:
    proposal = github.proposal(title="-- $(x)", body="`y`")
    pull = github.open().propose(proposal)
    assert pull.url == "https://github.com/acme/app/pull/1"
    assert hub.pulls == [
        Pull(1, "-- $(x)", "<!-- bead bd-1 -->\n`y`\n<!-- /bead bd-1 -->", "feature/one", "main")
    ]


def test_few_requests(github: Place, hub: GitHub) -> None:
    forge, proposal = github.open(), github.proposal()
    forge.propose(proposal)
    assert hub.asked == ["list", "repository", "existing", "create", "list"]
    hub.asked.clear()
    forge.propose(proposal)
    assert hub.asked == ["list", "list"]


def test_a_forks_branch_of_the_same_name_is_another(github: Place, hub: GitHub) -> None:
    hub.pulls.append(Pull(1, "theirs", "", "feature/one", "main", from_fork=True))
    forge = github.open()
    assert forge.find("feature/one") is None
    assert forge.propose(github.proposal()).number == 2
    assert [pull.from_fork for pull in hub.pulls] == [True, False]


def test_a_changed_target_does_not_double_it(github: Place, hub: GitHub) -> None:
    """GitHub itself changes it when the branch below was merged and deleted."""
    forge, proposal = github.open(), github.proposal()
    forge.propose(proposal)
    hub.pulls[0].base = "release"
    assert forge.propose(proposal).target == "release"
    assert len(hub.pulls) == 1


def test_a_merged_one_is_followed_by_another(github: Place, hub: GitHub) -> None:
    forge = github.open()
    forge.propose(github.proposal(text="one"))
    hub.merge(1)
    assert forge.propose(github.proposal(text="two")).number == 2


def test_one_that_a_person_merged_meanwhile_is_the_one(github: Place, hub: GitHub) -> None:
    """Killed between the pull request and the bead's close; the person did not wait."""
    forge, proposal = github.open(), github.proposal()
    forge.propose(proposal)
    hub.merge(1)
    again = forge.propose(proposal)
    assert (again.number, again.commit) == (1, proposal.commit)
    assert forge.find(proposal.branch) is None, "it is not open any more"


def test_one_that_a_person_closed_is_followed_by_another(github: Place, hub: GitHub) -> None:
    forge, proposal = github.open(), github.proposal()
    forge.propose(proposal)
    hub.pulls[0].state = "CLOSED"
    assert forge.propose(proposal).number == 2


def test_opening_has_a_patience_of_its_own(github: Place, hub: GitHub) -> None:
    hub.troubles = [Trouble("create"), Trouble("create")]
    patient = Network(Retry(1, 0.01), timeout=20.0, creation=Retry(3, 0.01))
    assert github.open(patient).propose(github.proposal()).number == 1
    hub.troubles = [Trouble("create"), Trouble("create")]
    hasty = Network(Retry(6, 0.01), timeout=20.0, creation=Retry(2, 0.01))
    with pytest.raises(RalphError, match="503"):
        github.open(hasty).propose(github.proposal("feature/two"))
    assert hub.troubles == []


def test_what_people_wrote_stays(github: Place, hub: GitHub) -> None:
    forge = github.open()
    forge.propose(github.proposal(body="old"))
    hub.pulls[0].body = hub.pulls[0].body.replace("\n", "\r\n") + "\r\n\r\nReviewed by me."
    hub.pulls[0].title = "A better title"
    forge.propose(github.proposal(text="more", body="new"))
    assert hub.pulls[0].body == "<!-- bead bd-1 -->\nnew\n<!-- /bead bd-1 -->\n\nReviewed by me."
    assert hub.pulls[0].title == "A better title"


def test_a_body_beyond_the_limit_is_cut(github: Place, hub: GitHub) -> None:
    forge = github.open()
    forge.propose(github.proposal(body="x" * 100_000))
    forge.propose(github.proposal(bead_id="bd-2", body="y" * 100_000, text="more"))
    assert "(cut here" in hub.pulls[0].body
    assert len(hub.pulls[0].body) <= 65_536


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("asked", ["list", "repository", "existing", "create"])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, "{}"),
        (502, "<html>bad gateway</html>"),
        (503, '{"message": "Service Unavailable"}'),
        (429, '{"message": "You have exceeded a secondary rate limit"}'),
        (200, '{"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}]}'),
    ],
)
def test_a_passing_failure_is_tried_again(
    github: Place, hub: GitHub, asked: Asked, status: int, body: str
) -> None:
    hub.troubles = [Trouble(asked, status, body), Trouble(asked, status, body)]
    assert github.open().propose(github.proposal()).number == 1
    assert len(hub.pulls) == 1
    assert hub.troubles == []


@pytest.mark.parametrize("status", [502, 503])
def test_a_body_is_renewed_in_spite_of_a_failure(github: Place, hub: GitHub, status: int) -> None:
    forge = github.open()
    forge.propose(github.proposal())
    hub.troubles = [Trouble("patch", status, "<html>" if status == 502 else "{}")]
    forge.propose(github.proposal(text="more", body="Newer."))
    assert "Newer." in hub.pulls[0].body


@pytest.mark.parametrize(
    "trouble", [Trouble("create", 502, after=True), Trouble("create", hangs=True, after=True)]
)
def test_opened_but_the_answer_was_lost(github: Place, hub: GitHub, trouble: Trouble) -> None:
    hub.troubles = [trouble]
    assert github.open(Network(Retry(3, 0.01), timeout=3.0)).propose(github.proposal()).number == 1
    assert len(hub.pulls) == 1


def test_patience_ends(github: Place, hub: GitHub) -> None:
    hub.troubles = [Trouble("list") for _ in range(10)]
    with pytest.raises(RalphError) as failed:
        github.open().propose(github.proposal())
    assert failed.value.code == Code.FORGE_FAILED
    assert "503" in failed.value.message
    assert hub.asked == ["list"] * 3


def test_a_server_that_hangs_is_left(github: Place, hub: GitHub) -> None:
    hub.troubles = [Trouble("list", hangs=True), Trouble("list", hangs=True)]
    with pytest.raises(RalphError, match=r"no answer within 0\.5 s"):
        github.open(Network(Retry(2, 0.01), timeout=0.5)).find("feature/one")


def test_an_outage(github: Place, tmp_path: Path) -> None:
    (tmp_path / "s").unlink()
    with pytest.raises(RalphError) as failed:
        github.open().find("feature/one")
    assert failed.value.code == Code.FORGE_FAILED


@pytest.mark.parametrize("token", ["wrong", None])
def test_without_a_valid_login_it_says_what_to_do(
    github: Place, hub: GitHub, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    forge = github.open()
    if token:
        monkeypatch.setenv("GH_TOKEN", token)
    else:
        monkeypatch.delenv("GH_TOKEN")
    with pytest.raises(RalphError) as failed:
        forge.propose(github.proposal())
    assert failed.value.code == Code.FORGE_FAILED
    assert failed.value.suggested_action == "Run: gh auth login"
    assert hub.asked == []


def test_without_gh_it_says_what_to_do(
    github: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = github.proposal()
    monkeypatch.setenv("PATH", path_with(tmp_path / "bin", ["git"]))
    with pytest.raises(RalphError, match="not installed") as failed:
        github.open().propose(proposal)
    assert "gh auth login" in failed.value.suggested_action


@pytest.mark.parametrize("status", [403, 404])
def test_a_lasting_failure_is_not_tried_again(github: Place, hub: GitHub, status: int) -> None:
    hub.troubles = [Trouble("list", status, '{"message": "Resource not accessible by integration"}')]
    with pytest.raises(RalphError) as failed:
        github.open().propose(github.proposal())
    assert "Resource not accessible" in failed.value.message
    assert hub.asked == ["list"]


def test_another_program_of_that_name(github: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = path_with(tmp_path / "bin", ["git"])
    (tmp_path / "bin" / "gh").write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    (tmp_path / "bin" / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", programs)
    with pytest.raises(RalphError, match="did not answer with a list"):
        github.open().find("feature/one")


def test_an_empty_proposal_is_refused_by_github(github: Place) -> None:
    git(github.root, "branch", "feature/same", "main")
    proposal = github.proposal("feature/other")
    same = git(github.root, "rev-parse", "main")
    with pytest.raises(RalphError, match="No commits between main and feature/same"):
        github.open().propose(type(proposal)("bd-1", "t", "b", "feature/same", "main", same))


def test_a_target_that_github_does_not_have(github: Place) -> None:
    with pytest.raises(RalphError, match="Base ref must be a branch"):
        github.open().propose(github.proposal(target="release/9"))


def test_it_appeared_while_we_looked(github: Place, hub: GitHub) -> None:
    """Somebody else opens it between our looking and our opening."""
    refusal = "A pull request already exists for acme:feature/one."
    answer = f'{{"data": null, "errors": [{{"type": "UNPROCESSABLE", "message": "{refusal}"}}]}}'
    hub.troubles = [Trouble("create", 200, answer, after=True)]
    assert github.open().propose(github.proposal()).number == 1
    assert len(hub.pulls) == 1


def _listed(hub: GitHub, commit: str) -> str:
    pull = hub.pulls[0]
    row = {
        "number": 1,
        "url": pull.url,
        "headRefOid": commit,
        "baseRefName": pull.base,
        "isCrossRepository": False,
        "body": pull.body,
    }
    return json.dumps({"data": {"repository": {"pullRequests": {"totalCount": 1, "nodes": [row]}}}})


def test_github_shows_a_push_later(github: Place, hub: GitHub) -> None:
    forge = github.open()
    old = forge.propose(github.proposal(text="one")).commit
    hub.troubles = [Trouble("list", 200, _listed(hub, old)) for _ in range(2)]
    new = github.proposal(text="two")
    assert forge.propose(new).commit == new.commit


def test_github_never_shows_the_push(github: Place, hub: GitHub) -> None:
    forge = github.open()
    old = forge.propose(github.proposal(text="one")).commit
    hub.troubles = [Trouble("list", 200, _listed(hub, old)) for _ in range(10)]
    with pytest.raises(RalphError, match=f"GitHub shows #1 at {old}"):
        forge.propose(github.proposal(text="two"))


def test_settings_of_the_caller_do_not_reach_gh(github: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_REPO", "stranger/other")
    monkeypatch.setenv("GH_FORCE_TTY", "120")
    monkeypatch.setenv("GH_DEBUG", "api")
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert github.open().propose(github.proposal()).number == 1


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/app",
        "https://github.com/acme/app.git",
        "https://me:token@github.com/acme/app.git/",
        "https://GitHub.com/acme/app.git",
        "git@github.com:acme/app.git",
        "github.com:acme/app",
        "ssh://git@github.com/acme/app.git",
        "ssh://git@github.com:22/acme/app",
        "ssh://git@ssh.github.com:443/acme/app.git",
        "git://github.com/acme/app.git",
    ],
)
def test_addresses_on_github(url: str) -> None:
    assert address_of(url) == Address("github.com", "acme/app")


@pytest.mark.parametrize(
    "url", ["/srv/git/acme/app.git", "../app.git", "file:///srv/acme/app.git", "", "app"]
)
def test_paths_are_no_addresses(url: str) -> None:
    assert address_of(url) is None


def test_other_hosts_are_told_apart() -> None:
    assert address_of("https://git.example.com/acme/app.git") == Address("git.example.com", "acme/app")
    assert address_of("https://github.com.example.com/acme/app") == Address(
        "github.com.example.com", "acme/app"
    )
    assert address_of("https://github.com/acme/app.js") == Address("github.com", "acme/app.js")
