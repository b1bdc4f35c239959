"""Pull requests without a server: a record and a ref, reviewable with git."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from beads_ralph.bead.field_types import FrozenModel, Positive, Timestamp
from beads_ralph.bead.words import utc_text
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.forge.network import Network, heads, holds, publish, put_back, require_target, target
from beads_ralph.forge.protocol import Proposal, PullRequest, PushTarget, check_proposal, with_section
from beads_ralph.git import commands, guard, locking, ref_changes

TURN_SECONDS: Final = 30.0


class LocalForge:
    """`refs/pull/<n>/head` is the proposed commit, `.ralph/pulls/<n>.json` says what it is about.

    The branch is pushed first, then the record takes the number, then the ref follows. Killed anywhere on
    this way, the next proposal of the branch finds the record, if there is one, and goes the whole way again.
    """

    kind = "local"

    def __init__(self, root: Path, remote: str | None = None, network: Network | None = None) -> None:
        self.root = root
        self.remote = remote
        self.network = network or Network()
        self.pulls = PullDirectory(root)

    def push_target(self) -> PushTarget | None:
        return target(self.root, self.remote) if self.remote else None

    def require_target(self) -> None:
        if self.remote is not None:
            require_target(self.root, self.remote, self.network)

    def propose(self, proposal: Proposal) -> PullRequest:
        check_proposal(self.root, proposal)
        if self.remote is not None:
            publish(self.root, self.remote, proposal, self.network)
        self.pulls.make()
        with self.pulls.turn():
            pull = self._record(proposal)
            self.pulls.write(pull)
            guard.expect(self.root, {pull.ref: pull.commit})
            locking.printed(ref_changes.move(self.root, pull.ref, pull.commit), ("update-ref", pull.ref))
        return self._read_back(pull, proposal.commit)

    def find(self, branch: str) -> PullRequest | None:
        """Without its ref a record is a proposal that was cut short, not yet a pull request."""
        pull = self.pulls.open_one(branch)
        held = commands.commit_of(pull.ref, self.root) if pull else None
        return self._answer(pull, held) if pull and held else None

    def held(self, branches: Sequence[str]) -> Mapping[str, str] | None:
        return heads(self.root, self.remote, branches, self.network) if self.remote else None

    def is_taken(self, branch: str, target: str, commit: str) -> bool:
        """As far as the remote's target tells."""
        return self.remote is not None and holds(self.root, self.remote, target, commit, self.network)

    def declined(self, branches: Sequence[str]) -> Mapping[str, str]:
        pulls = [pull for pull in self.pulls.all() if pull.branch in branches]
        closed = {pull.branch: pull for pull in pulls if pull.state == "closed"}
        other = {pull.branch for pull in pulls if pull.state != "closed"}
        return {name: str(self.pulls.page_path(pull)) for name, pull in closed.items() if name not in other}

    def put_back(self, branch: str, commit: str, there: str | None) -> None:
        if self.remote is not None:
            put_back(self.root, self.remote, branch, commit, there, self.network)

    def _record(self, proposal: Proposal) -> PullRecord:
        now = utc_text(datetime.now(UTC))
        found = self.pulls.open_one(proposal.branch)
        if found is None:
            return self._new(proposal, now)
        self._check_forward(found, proposal)
        renewed = {
            "beads": list(dict.fromkeys([*found.beads, proposal.bead_id])),
            "body": with_section(found.body, proposal.bead_id, proposal.body),
            "target": proposal.target,
            "commit": proposal.commit,
        }
        pull = found.model_copy(update=renewed)
        return pull if pull == found else pull.model_copy(update={"updated_at": now})

    def _new(self, proposal: Proposal, now: str) -> PullRecord:
        return PullRecord(
            number=self._next_number(),
            beads=[proposal.bead_id],
            title=" ".join(proposal.title.split()),
            body=with_section("", proposal.bead_id, proposal.body),
            branch=proposal.branch,
            target=proposal.target,
            commit=proposal.commit,
            state="open",
            created_at=now,
            updated_at=now,
        )

    def _next_number(self) -> int:
        """Refs count too: a clean-up may have taken the records, and a ref is never given away."""
        named = (ref.split("/")[2] for ref in commands.refs_of(self.root, "refs/pull/"))
        taken = [int(name) for name in named if name.isdecimal()]
        return 1 + max([0, *taken, *(pull.number for pull in self.pulls.all())])

    def _check_forward(self, pull: PullRecord, proposal: Proposal) -> None:
        """As with a remote, which takes no push that would lose a commit."""
        held = commands.commit_of(pull.ref, self.root)
        if held and not commands.run("merge-base", "--is-ancestor", held, proposal.commit, cwd=self.root).ok:
            message = f"{pull.ref} has commits that are not on {pull.branch} any more; they are not given up"
            action = f"Look at them: git log {pull.branch}..{pull.ref}"
            raise RalphError(Code.FORGE_DIVERGED, message, suggested_action=action)

    def _read_back(self, pull: PullRecord, commit: str) -> PullRequest:
        held = commands.commit_of(pull.ref, self.root)
        if held != commit:
            message = f"{pull.ref} is at {held or 'nothing'} instead of {commit}"
            raise RalphError(Code.FORGE_FAILED, message)
        return self._answer(pull, held)

    def _answer(self, pull: PullRecord, held: str) -> PullRequest:
        url = self.pulls.page_path(pull).absolute().as_uri()
        return PullRequest(pull.number, url, pull.branch, pull.target, held)


def serves(_root: Path, _remote: str, _network: Network) -> bool:
    """It is what `auto` falls back to."""
    return False


# --- its records: files in `.ralph/pulls`, one to read by program and one by people ---------------


class PullRecord(FrozenModel):
    """One pull request; `commit` is what was last proposed, the ref tells what is there."""

    number: Positive
    beads: list[str]
    title: str
    body: str
    branch: str
    target: str
    commit: str
    state: Literal["open", "merged", "closed"]
    created_at: Timestamp
    updated_at: Timestamp

    @property
    def ref(self) -> str:
        return f"refs/pull/{self.number}/head"

    def page(self) -> str:
        """What a reviewer opens."""
        rows = (
            f"# {self.number}: {self.title}\n",
            f"- from `{self.branch}` into `{self.target}`, {self.state}",
            f"- commit `{self.commit}`",
            f"- beads: {', '.join(self.beads)}",
            f"- opened {self.created_at}, updated {self.updated_at}\n",
            "Review it, and take it where it is good:\n",
            f"    git log {self.target}..{self.ref}",
            f"    git diff {self.target}...{self.ref}",
            f"    git switch {self.target} && git merge --no-ff {self.ref}\n",
            f"{self.body}\n",
        )
        return "\n".join(rows)


class PullDirectory:
    """All the records of one repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / text_files.RALPH_DIR / "pulls"

    def make(self) -> None:
        text_files.ralph_dir(self.root)
        text_files.make_folder(self.path)

    @contextmanager
    def turn(self, wait: float = TURN_SECONDS) -> Iterator[None]:
        """One process and thread at a time; a process that dies gives its turn back."""
        path = self.path / "lock"
        message = f"another process has held {path} for {wait:g} s"
        with lock.held(path, wait, lambda: RalphError(Code.FORGE_FAILED, message)):
            yield

    def all(self) -> list[PullRecord]:
        numbers = sorted(int(path.stem) for path in self.path.glob("*.json") if path.stem.isdecimal())
        return [self._read(number) for number in numbers]

    def open_one(self, branch: str) -> PullRecord | None:
        return next((pull for pull in self.all() if pull.branch == branch and pull.state == "open"), None)

    def write(self, pull: PullRecord) -> None:
        """The record goes last: with it the pull request is there and has its number."""
        text_files.write_text(self.page_path(pull), pull.page())
        text = json.dumps(pull.to_json(), indent=2, ensure_ascii=False)
        text_files.write_text(self._record_path(pull.number), f"{text}\n")

    def page_path(self, pull: PullRecord) -> Path:
        return self.path / f"{pull.number}.md"

    def _record_path(self, number: int) -> Path:
        return self.path / f"{number}.json"

    def _read(self, number: int) -> PullRecord:
        path = self._record_path(number)
        try:
            return PullRecord.model_validate_json(text_files.read_text(path))
        except ValidationError as problem:
            wrong = problem.errors()[0]
            said = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}".removeprefix(": ")
            message = f"{path} is not a pull request's record"
            action = f"Fix the file, or move it away: {path}"
            raise RalphError(Code.FORGE_FAILED, message, details=said, suggested_action=action) from None


FORGE: Final = LocalForge
