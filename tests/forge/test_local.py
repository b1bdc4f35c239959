"""Pull requests without a server, and how a forge is chosen."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.errors import Code, RalphError
from beads_ralph.forge import choose
from beads_ralph.forge.adapters.local import PullDirectory
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import fitting_section, with_section
from beads_ralph.process.calls import Retry
from tests.forge.places import Place, git, path_with, refs

PROPOSER = Path(__file__).with_name("proposer.py")


def _hook(bare: Path, name: str, script: str) -> None:
    hook = bare / "hooks" / name
    hook.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    hook.chmod(0o755)


# --- the record, the page, the ref ----------------------------------------------------------------


def test_the_record_says_everything(local: Place) -> None:
    proposal = local.proposal(title="Größe", body="$(x)")
    pull = local.open().propose(proposal)
    record = json.loads((local.root / ".ralph" / "pulls" / "1.json").read_text("utf-8"))
    assert record.pop("created_at") <= record.pop("updated_at")
    assert record == {
        "number": 1,
        "beads": ["bd-1"],
        "title": "Größe",
        "body": "<!-- bead bd-1 -->\n$(x)\n<!-- /bead bd-1 -->",
        "branch": "feature/one",
        "target": "main",
        "commit": proposal.commit,
        "state": "open",
    }
    assert pull.number == 1


def test_it_is_reviewed_with_git(local: Place) -> None:
    local.open().propose(local.proposal(text="the work"))
    assert git(local.root, "log", "--format=%s", "main..refs/pull/1/head") == "the work"


def test_the_address_leads_to_a_page_with_the_commands(local: Place) -> None:
    pull = local.open().propose(local.proposal())
    assert pull.url is not None
    page = Path(unquote(urlparse(pull.url).path)).read_text("utf-8")
    assert page.startswith("# 1: Do it\n")
    for line in ("git log main..refs/pull/1/head", "git diff main...refs/pull/1/head", "All checks passed."):
        assert line in page


def test_git_does_not_see_the_files(local: Place) -> None:
    local.open().propose(local.proposal())
    assert git(local.root, "status", "--porcelain") == ""


def test_nothing_new_changes_no_file(local: Place) -> None:
    forge, proposal = local.open(), local.proposal()
    forge.propose(proposal)
    before = (local.root / ".ralph" / "pulls" / "1.json").read_text("utf-8")
    forge.propose(proposal)
    assert (local.root / ".ralph" / "pulls" / "1.json").read_text("utf-8") == before


def test_a_closed_one_is_not_opened_again(local: Place) -> None:
    forge = local.open()
    forge.propose(local.proposal(text="one"))
    record = local.root / ".ralph" / "pulls" / "1.json"
    record.write_text(record.read_text("utf-8").replace('"open"', '"merged"'), encoding="utf-8")
    assert forge.find("feature/one") is None
    assert forge.propose(local.proposal(text="two")).number == 2
    assert len(refs(local.root, "refs/pull")) == 2


def test_a_ref_whose_record_was_cleaned_away_is_kept(local: Place) -> None:
    forge, proposal = local.open(), local.proposal()
    forge.propose(proposal)
    git(local.root, "clean", "-ffdxq")
    assert not (local.root / ".ralph").exists()
    assert forge.propose(local.proposal("feature/two")).number == 2
    assert refs(local.root, "refs/pull")["refs/pull/1/head"] == proposal.commit


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": 1}'])
def test_a_damaged_record_is_named_and_not_overwritten(local: Place, text: str) -> None:
    forge, proposal = local.open(), local.proposal()
    forge.propose(proposal)
    record = local.root / ".ralph" / "pulls" / "1.json"
    record.write_text(text, encoding="utf-8")
    with pytest.raises(RalphError, match=r"1\.json is not a pull request's record"):
        forge.propose(proposal)
    assert record.read_text("utf-8") == text


def test_a_file_in_the_way_is_named(local: Place) -> None:
    (local.root / ".ralph").write_text("", encoding="utf-8")
    with pytest.raises(RalphError) as failed:
        local.open().propose(local.proposal())
    assert failed.value.code == Code.WRITE_FAILED
    assert ".ralph" in failed.value.message


def test_turns_are_taken_and_waiting_for_one_ends(local: Place) -> None:
    pulls = PullDirectory(local.root)
    pulls.make()
    with pulls.turn(), pytest.raises(RalphError, match="another process has held"), pulls.turn(wait=0.1):
        pytest.fail("two at once")
    with pulls.turn(wait=0.1):
        pass


# --- the remote -----------------------------------------------------------------------------------


def test_a_push_that_did_not_arrive_is_an_error(pushed: Place) -> None:
    assert pushed.bare
    _hook(pushed.bare, "post-receive", "git update-ref -d refs/heads/feature/one")
    with pytest.raises(RalphError, match="git push reported success, but origin has feature/one at nothing"):
        pushed.open().propose(pushed.proposal())
    assert pushed.proposed("feature/one") == []


def test_a_refusal_of_the_remote_is_told_and_not_repeated(pushed: Place, tmp_path: Path) -> None:
    """The branch's name has a word of temporary trouble in it."""
    assert pushed.bare
    _hook(pushed.bare, "pre-receive", f"echo tried >> {tmp_path}/tries; echo no secrets here >&2; exit 1")
    with pytest.raises(RalphError) as refused:
        pushed.open().propose(pushed.proposal("fix/timeout"))
    assert "no secrets here" in str(refused.value.details)
    assert (tmp_path / "tries").read_text("utf-8") == "tried\n"


def test_a_branch_in_the_way_is_told(pushed: Place) -> None:
    assert pushed.bare
    git(pushed.bare, "branch", "feature", "main")
    with pytest.raises(RalphError) as refused:
        pushed.open().propose(pushed.proposal("feature/one"))
    assert refused.value.code == Code.GIT_ERROR
    assert "refs/heads/feature" in str(refused.value.details)


def test_a_foreign_commit_on_the_remote_is_not_overwritten(pushed: Place) -> None:
    assert pushed.bare
    proposal = pushed.proposal()
    foreign = git(pushed.bare, "commit-tree", "-p", "main", "-m", "theirs", "main^{tree}")
    git(pushed.bare, "update-ref", "refs/heads/feature/one", foreign)
    with pytest.raises(RalphError, match="not overwritten") as refused:
        pushed.open().propose(proposal)
    assert refused.value.code == Code.FORGE_DIVERGED
    assert "git fetch origin feature/one" in refused.value.suggested_action
    assert refs(pushed.bare)["refs/heads/feature/one"] == foreign


def _through_ssh(place: Place, tmp_path: Path, script: str) -> None:
    """Let git reach the bare repository through a command in place of ssh; arguments: host, command."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/tries\n{script}\n", encoding="utf-8")
    ssh.chmod(0o755)
    git(place.root, "config", "core.sshCommand", str(ssh))
    git(place.root, "config", "ssh.variant", "simple")
    git(place.root, "remote", "set-url", "origin", f"ssh://example.com{place.bare}")


def test_a_lost_connection_is_tried_again(pushed: Place, tmp_path: Path) -> None:
    lost = "kex_exchange_identification: Connection closed by remote host"
    _through_ssh(
        pushed,
        tmp_path,
        f'if [ "$(wc -l < {tmp_path}/tries)" -lt 3 ]; then echo "{lost}" >&2; exit 255; fi\neval "$2"',
    )
    proposal = pushed.proposal()
    assert pushed.open().propose(proposal).commit == proposal.commit
    assert (tmp_path / "tries").read_text("utf-8") == "tried\n" * 4  # the fourth is the reading back


def test_patience_ends(pushed: Place, tmp_path: Path) -> None:
    _through_ssh(pushed, tmp_path, 'echo "ssh: connect to host x: Connection refused" >&2; exit 255')
    with pytest.raises(RalphError) as failed:
        pushed.open().propose(pushed.proposal())
    assert failed.value.code == Code.GIT_ERROR
    assert "Connection refused" in str(failed.value.details)
    assert (tmp_path / "tries").read_text("utf-8") == "tried\n" * 3


def test_a_missing_key_is_not_tried_again(pushed: Place, tmp_path: Path) -> None:
    _through_ssh(pushed, tmp_path, 'echo "git@example.com: Permission denied (publickey)." >&2; exit 255')
    with pytest.raises(RalphError):
        pushed.open().propose(pushed.proposal())
    assert (tmp_path / "tries").read_text("utf-8") == "tried\n"


def test_a_push_that_hangs_is_ended(pushed: Place, tmp_path: Path) -> None:
    _through_ssh(pushed, tmp_path, "exec sleep 300")
    with pytest.raises(RalphError) as failed:
        pushed.open(Network(Retry(2, 0.01), push_timeout=0.5)).propose(pushed.proposal())
    assert "no answer within 0.5 s" in str(failed.value.details)
    assert (tmp_path / "tries").read_text("utf-8") == "tried\n" * 2


def test_credentials_in_an_address_are_not_shown(pushed: Place) -> None:
    git(pushed.root, "remote", "set-url", "origin", "http://me:hunter2@127.0.0.1:1/acme/app.git")
    with pytest.raises(RalphError) as failed:
        pushed.open().propose(pushed.proposal())
    assert "hunter2" not in json.dumps(failed.value.to_json())


def test_killed_in_the_middle_of_a_push(pushed: Place, tmp_path: Path) -> None:
    """git itself goes on for a moment; the next proposal gets along with that."""
    assert pushed.bare
    pid = tmp_path / "pid"
    _hook(pushed.bare, "update", f'[ -s {pid} ] && kill -9 "$(cat {pid})"; rm -f {pid}; exit 0')
    proposal = pushed.proposal()
    words = ["sh", "-c", f'echo $$ > {pid}; exec "$@"', "sh", sys.executable, str(PROPOSER)]
    rest = ["local", str(pushed.root), proposal.branch, proposal.commit, "0"]
    done = subprocess.run([*words, *rest], capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert pushed.open().propose(proposal).commit == proposal.commit
    assert pushed.proposed("feature/one") == [1]


# --- the choice -----------------------------------------------------------------------------------


def test_without_a_remote_it_is_local(local: Place) -> None:
    assert choose("auto", local.root).kind == "local"


def test_with_a_remote_elsewhere_it_is_local(pushed: Place) -> None:
    assert choose("auto", pushed.root).kind == "local"


def test_with_github_and_a_login_it_is_github(github: Place) -> None:
    assert choose("auto", github.root).kind == "github"


def test_an_outage_does_not_change_the_choice(github: Place, tmp_path: Path) -> None:
    (tmp_path / "s").unlink()
    assert choose("auto", github.root).kind == "github"


def test_without_a_login_it_is_local(github: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN")
    assert choose("auto", github.root).kind == "local"


def test_without_gh_it_is_local(github: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with(tmp_path / "bin", ["git"]))
    assert choose("auto", github.root).kind == "local"


def test_none_leaves_the_remote_alone(pushed: Place) -> None:
    assert pushed.bare
    before = refs(pushed.bare)
    proposal = pushed.proposal()
    pull = choose("none", pushed.root).propose(proposal)
    assert (pull.number, pull.url, pull.commit) == (None, None, proposal.commit)
    assert refs(pushed.bare) == before
    assert choose("none", pushed.root).find("feature/one") is None


def test_another_remote_can_be_named(pushed: Place) -> None:
    git(pushed.root, "remote", "rename", "origin", "company")
    proposal = pushed.proposal()
    choose("local", pushed.root, "company").propose(proposal)
    assert pushed.bare
    assert refs(pushed.bare)["refs/heads/feature/one"] == proposal.commit


def test_unknown_names_are_told(local: Place) -> None:
    with pytest.raises(RalphError, match="there is no forge 'gitlab'; there are: auto, github, local, none"):
        choose("gitlab", local.root)
    with pytest.raises(RalphError, match="there is no remote 'upstream'"):
        choose("local", local.root, "upstream")
    with pytest.raises(RalphError, match="'origin' is not a repository on GitHub"):
        choose("github", local.root)


# --- bodies ---------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(TEXT, TEXT, TEXT)
def test_a_section_is_renewed_and_the_rest_stays(written: str, one: str, two: str) -> None:
    body = with_section(with_section(written, "bd-1", "old"), "bd-2", two)
    renewed = with_section(body, "bd-1", one)
    assert with_section(renewed, "bd-1", one) == renewed
    assert one in renewed
    assert two in renewed
    assert renewed.startswith(written.strip()[:1])


@given(TEXT, st.integers(80, 200))
def test_a_long_section_is_cut_to_the_limit(written: str, limit: int) -> None:
    assert len(fitting_section(written, "bd-1", "x" * 500, limit)) <= limit


def test_a_bead_cannot_end_its_section_itself() -> None:
    body = with_section("", "bd-1", "a <!-- /bead bd-1 --> b")
    assert with_section(body, "bd-1", "c") == "<!-- bead bd-1 -->\nc\n<!-- /bead bd-1 -->"


def test_a_bead_cannot_begin_the_section_of_another() -> None:
    body = with_section("", "bd-1", "a <!-- bead bd-2 --> b")
    both = with_section(body, "bd-2", "mine")
    assert both.startswith(body)
    assert both.endswith("<!-- bead bd-2 -->\nmine\n<!-- /bead bd-2 -->")
