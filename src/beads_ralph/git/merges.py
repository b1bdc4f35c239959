"""Branches: which there are, where work starts, and merging them in a worktree, conflicts as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.git import commands, locking, objects, settings, worktree_status
from beads_ralph.git.git_files import HEADS
from beads_ralph.process.jobs import Exit

MARKER: Final = re.compile(r"^(?:<{7} .*|\|{7}(?: .*)?|={7}|>{7} .*)$")
MERGE_MESSAGE: Final = re.compile(r"^Merge (?:remote-tracking )?branch '([^']+)'")
INTERRUPTED: Final = "beads-ralph-merging"
"""A file beside the index that says: the harness merges, nobody else is at work here."""
UNKNOWN_OPTION: Final = 129


@dataclass(frozen=True)
class Conflict:
    """A merge that is half done in the worktree, for an agent to resolve."""

    branch: str
    """What is being merged in."""
    into: str
    files: tuple[str, ...]
    """Files still unmerged; empty where all is staged and only the commit is missing."""
    ours: str
    """The commit before the merge; changed and merged side can be compared from these two."""
    theirs: str
    markers: tuple[str, ...] = ()
    """`file:line` of conflict markers that a resolution left behind."""

    def __str__(self) -> str:
        named = ", ".join(self.files or self.markers) or "not committed"
        return f"merging {self.branch} into {self.into}: {named}"


@dataclass(frozen=True)
class MergeOutcome:
    """How far the merging came. Nothing is left to do where `conflict` is None and `missing` is empty."""

    head: str
    merged: tuple[str, ...] = ()
    contained: tuple[str, ...] = ()
    """Branches that were in already."""
    missing: tuple[str, ...] = ()
    """Branches that exist neither here nor on origin: deleted after their pull request, or never made."""
    conflict: Conflict | None = None
    saved: str | None = None
    """The commit that holds uncommitted work found before the first merge."""


# --- branches -----------------------------------------------------------------------------------------

ORIGIN: Final = "refs/remotes/origin/"


@dataclass(frozen=True)
class Branch:
    """A branch that exists: its full name, and the commit it stands at."""

    ref: str
    commit: str


Proven = Mapping[str, Sequence[str]]
"""By branch: the commits that were proven on it, in their order."""
NOTHING: Final[Proven] = {}


def find_branches(repo: Path, names: Sequence[str]) -> dict[str, Branch]:
    """Those of the names that exist, here or else on origin. Branches below a name are found as well."""
    return _among(commands.refs_of(repo, HEADS, ORIGIN), names) if names else {}


def reliable_branches(repo: Path, names: Sequence[str]) -> dict[str, Branch]:
    """The same as a run may build on them, whoever has moved them since it began."""
    if not names:
        return {}
    run, now = settings.at(repo), commands.refs_of(repo, HEADS, ORIGIN)
    return _among(run.reliable(now) if run else now, names)


def _among(refs: Mapping[str, str], names: Sequence[str]) -> dict[str, Branch]:
    found: dict[str, Branch] = {}
    for ref, commit in sorted(refs.items()):  # what is here before what is on origin
        name = ref.removeprefix(HEADS).removeprefix(ORIGIN)
        if name != ref and any(not one or name == one or name.startswith(f"{one}/") for one in names):
            found.setdefault(name, Branch(ref, commit))
    return found


# --- source branches ---------------------------------------------------------------------------------

NOWHERE: Final = "exists neither here nor on origin"


def source_of(repo_root: Path, source: str) -> Branch:
    """The source as the run may build on it. One that came after the run began is taken as it is found first;
    from then on it is watched."""
    found = reliable_branches(repo_root, [source]).get(source)
    late = None if found else find_branches(repo_root, [source]).get(source)
    branch = found or late
    if branch is None:
        raise _missing(repo_root, source)
    run = settings.at(repo_root)
    if run and branch.ref not in run.at_work | run.expected.keys():
        run.sources.add(branch.ref)
        run.begun.setdefault(branch.ref, branch.commit)
        if run.moves == "restore" and branch.ref.startswith(HEADS):
            run.expected[branch.ref] = branch.commit
    return branch


def without_source(repo_root: Path, beads: Sequence[Bead]) -> Iterator[tuple[Bead, RalphError]]:
    """The beads that could not start for want of their source, and what to do. `beads` are those that would
    be worked on, with everything that they wait for: a source may be the branch of one of these, which is
    made by then."""
    known = find_branches(repo_root, [""])
    wanted = [bead for bead in beads if bead.metadata.source_branch not in known]
    for bead in _not_made_before(wanted, beads):
        yield bead, _missing(repo_root, bead.metadata.source_branch)


def _not_made_before(wanted: Iterable[Bead], beads: Sequence[Bead]) -> Iterator[Bead]:
    there, made = {bead.id: bead for bead in beads}, {bead.metadata.branch for bead in beads}
    for bead in wanted:
        source = bead.metadata.source_branch
        before = _before(bead, there) if source in made else ()
        if all(other.metadata.branch != source for other in before):
            yield bead


def _before(bead: Bead, there: Mapping[str, Bead]) -> Iterator[Bead]:
    """What it waits for, the nearest first."""
    waiting, seen = list(bead.dependencies), {bead.id}
    for name in waiting:
        if name in there and name not in seen:
            seen.add(name)
            yield there[name]
            waiting += there[name].dependencies


def _missing(repo_root: Path, source: str) -> RalphError:
    if commands.run("rev-parse", "--verify", "--quiet", "HEAD", cwd=repo_root).ok:
        message = f"the source branch {source} {NOWHERE}"
        action = (
            f"Create it (git branch {source}) or fetch it, or name another source branch in the plan; then "
            "run: beads-ralph mason PLAN --update"
        )
    else:
        message = f"the repository {repo_root} has no commit yet, so no branch can start from {source}"
        action = "Commit something first: git commit --allow-empty --message start"
    return RalphError(Code.GIT_ERROR, message, suggested_action=action)


# --- foresight ----------------------------------------------------------------------------------------


def foresee(repo_root: Path, pairs: Sequence[tuple[str, str]]) -> list[list[str]] | None:
    """For each pair of commits, the files in which they would conflict, without touching a working tree; one
    git for all of them.

    None where git is older than 2.39 and cannot tell.
    """
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "--stdin")
    asked = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs)
    ended = commands.run(*words, cwd=repo_root, stdin=asked) if pairs else Exit(0)
    if ended.code == UNKNOWN_OPTION:
        return None
    return list(_conflicts(locking.printed(ended, words)))


def _conflicts(printed: str) -> Iterator[list[str]]:
    """What git prints for each merge: whether it is clean, its tree, the files, and an empty field."""
    fields = iter(printed.split("\0"))
    while (clean := next(fields, "")) != "":
        _tree, *files = takewhile(bool, fields)
        yield [] if clean == "1" else sorted(set(files))


# --- merging ------------------------------------------------------------------------------------------


def merge_all(path: Path, branches: Sequence[str], proven: Proven = NOTHING) -> MergeOutcome:
    """Merge each branch in order into what is checked out at `path`; stop at the first conflict.

    May be called again at any time: what is in already is skipped, a merge of ours that was killed is
    rolled back and done anew, one that waits for its resolution is returned again as the conflict.
    Uncommitted work is committed before the first merge, since a merge could bury it. Of a branch with
    proven commits those are merged, wherever the branch leads by now.
    """
    roll_back_interrupted(path)
    start = worktree_status.head(path)
    if waiting := worktree_status.unfinished(path):
        return MergeOutcome(start, conflict=_waiting(path, waiting))
    known = reliable_branches(path, [name for name in branches if name not in proven])
    return merge_into(path, start, branches, known, proven, fresh=False)


def merge_into(
    path: Path,
    start: str,
    names: Sequence[str],
    known: Mapping[str, Branch],
    proven: Proven = NOTHING,
    *,
    fresh: bool,
) -> MergeOutcome:
    """Merge the named branches into the commit `start` that is checked out; `fresh` is a worktree that
    nobody has worked in, so that there is nothing to save."""
    outcome = MergeOutcome(start)
    for name in names:
        # the last one first: those before it are mostly in it
        commits = tuple(Branch(commit, commit) for commit in reversed(proven.get(name, ())))
        for branch in commits or (known.get(name),):
            outcome = _with(outcome, path, name, branch, fresh=fresh)
            if outcome.conflict:
                return outcome
    return outcome


def _with(
    outcome: MergeOutcome, path: Path, name: str, branch: Branch | None, *, fresh: bool
) -> MergeOutcome:
    if branch is None:
        return replace(outcome, missing=(*outcome.missing, name))
    if branch.commit == outcome.head or (not fresh and commands.contains(path, outcome.head, branch.commit)):
        return replace(outcome, contained=(*outcome.contained, name))
    if not outcome.merged and not fresh:
        outcome = _save(outcome, path)
    conflict = _merge(path, name, branch.ref)
    if conflict:
        return replace(outcome, conflict=conflict)
    head = worktree_status.head(path)
    if head == outcome.head:  # git had nothing to do
        return replace(outcome, contained=(*outcome.contained, name))
    return replace(outcome, head=head, merged=(*outcome.merged, name))


def _save(outcome: MergeOutcome, path: Path) -> MergeOutcome:
    left = worktree_status.commit_leftovers(path, "Keep uncommitted work before a merge")
    if left.unfinished and worktree_status.uncommitted(path):
        message = f"{path} has uncommitted work and a {left.unfinished}, so nothing can be merged there"
        raise RalphError(Code.GIT_ERROR, message, suggested_action="Commit the work on a branch")
    return replace(outcome, saved=left.commit, head=left.commit) if left.commit else outcome


def _merge(path: Path, branch: str, ref: str) -> Conflict | None:
    """One merge. While the mark stands, the tree was clean before and all in it is git's doing."""
    mark = worktree_status.git_dir(path) / INTERRUPTED
    text_files.write_text(mark, f"{ref}\n")
    into = worktree_status.current_branch(path) or "HEAD"
    message = f"Merge branch '{branch}' into {into}"
    # rerere may fill in a remembered resolution, but it is for somebody to look at before it is staged
    options = (*worktree_status.identity(path), "-c", "rerere.autoUpdate=false")
    words = (*options, "merge", "--no-ff", "--no-edit", "--no-verify", "--quiet", "-m", message, ref)
    ended = locking.run(*words, cwd=path)
    in_progress = not ended.ok and worktree_status.unfinished(path) == "merge" and not ended.timed_out
    if not ended.ok and not in_progress:
        roll_back_interrupted(path)
        locking.printed(ended, words[len(options) :])
    mark.unlink(missing_ok=True)
    return waiting_conflict(path) if in_progress else None


def roll_back_interrupted(path: Path) -> bool:
    """Put the worktree back to its last commit where a merge of ours was killed; True where one was.

    Nothing of anybody's is in it: before the mark of `_merge` is set all work is committed, and the mark
    is gone before anybody else is let into the worktree.
    """
    mark = worktree_status.git_dir(path) / INTERRUPTED
    if not mark.exists():
        return False
    locking.wait_for_orphans(path)
    locking.output("reset", "--hard", "--quiet", cwd=path)
    _drop_arrivals(path, mark.read_text(encoding="utf-8").strip())
    mark.unlink(missing_ok=True)
    return True


def _drop_arrivals(path: Path, ref: str) -> None:
    """Delete new files of the other side that git wrote but did not come to enter into the index."""
    listing = commands.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", ref, cwd=path).stdout
    for name in set(worktree_status.uncommitted(path)).intersection(listing.split("\0")):
        (path / name).unlink(missing_ok=True)


# --- conflicts ----------------------------------------------------------------------------------------


def _waiting(path: Path, operation: str) -> Conflict:
    if operation == "merge":
        return waiting_conflict(path)
    message = f"a {operation} is in progress in {path}"
    action = f"Conclude it there (git {operation} --continue), or undo it (git {operation} --abort)"
    raise RalphError(Code.GIT_ERROR, message, suggested_action=action)


def waiting_conflict(path: Path) -> Conflict:
    """The merge in progress at `path`, as git's own files tell it."""
    own = worktree_status.git_dir(path)
    theirs = (own / "MERGE_HEAD").read_text(encoding="utf-8").split()[0]
    message = own / "MERGE_MSG"
    named = MERGE_MESSAGE.match(message.read_text("utf-8", "replace")) if message.exists() else None
    ours = worktree_status.head(path)
    into = worktree_status.current_branch(path) or ours
    return Conflict(named[1] if named else theirs, into, _unmerged(path), ours, theirs)


def _unmerged(path: Path) -> tuple[str, ...]:
    listing = commands.output("diff", "--name-only", "-z", "--diff-filter=U", cwd=path)
    return tuple(sorted({name for name in listing.split("\0") if name}))


def finish_merge(path: Path, conflict: Conflict) -> MergeOutcome:
    """Conclude a merge that an agent was asked to resolve; the conflict again where it is not resolved.

    Resolved means: no conflict markers that neither side had, nothing unmerged (a text file without
    markers is staged for the agent; a binary file or one that a side deleted the agent must have staged
    or removed itself), and the other side's commit is contained. The merge is committed here where the
    agent did not.
    """
    if worktree_status.unfinished(path) == "merge":
        open_files = tuple(name for name in _unmerged(path) if not _resolved(path, name))
        left = leftover_markers(path, conflict.ours, conflict.theirs)
        if open_files or left:
            again = replace(waiting_conflict(path), files=open_files, markers=left, branch=conflict.branch)
            return MergeOutcome(worktree_status.head(path), conflict=again)
        worktree_status.stage_all(path)
        worktree_status.commit(path, "--no-edit", "--cleanup=strip")
    return _concluded(path, conflict)


def _concluded(path: Path, conflict: Conflict) -> MergeOutcome:
    head = worktree_status.head(path)
    left = leftover_markers(path, conflict.ours, conflict.theirs)
    if left or not commands.contains(path, head, conflict.theirs):
        return MergeOutcome(head, conflict=replace(conflict, files=(), markers=left))
    return MergeOutcome(head, merged=(conflict.branch,))


def _resolved(path: Path, name: str) -> bool:
    """True if an unmerged file was resolved though nobody staged it: text of both sides, without markers.

    Markers themselves are looked for in all changed files; here only those files count as open for which
    git writes none.
    """
    listing = commands.output("ls-files", "--unmerged", "-z", "--", f":(top,literal){name}", cwd=path)
    stages = {row.split()[2]: row.split()[1] for row in listing.split("\0") if row}
    if not {"2", "3"} <= stages.keys() or not (path / name).is_file():
        return False
    return not any(_is_binary(path, blob) for blob in stages.values())


def _is_binary(path: Path, blob: str) -> bool:
    return "\0" in commands.output("cat-file", "blob", blob, cwd=path)[: objects.BINARY_PROBE]


def leftover_markers(path: Path, ours: str, theirs: str) -> tuple[str, ...]:
    """`file:line` of each conflict marker in files that differ from `ours` and stood on neither side."""
    words = ("diff", "--name-only", "-z", "--no-renames", "--diff-filter=d", ours)
    names = [name for name in commands.output(*words, cwd=path).split("\0") if name]
    found: list[str] = []
    for name in names:
        lines = _marker_lines(_content(path / name))
        if lines:
            known = _texts(path, ours, name) | _texts(path, theirs, name)
            found += [f"{name}:{number}" for number, text in lines if text not in known]
    return tuple(found)


def _content(file: Path) -> str:
    if file.is_symlink() or not file.is_file():
        return ""
    data = file.read_bytes()
    return "" if objects.is_binary(data) else data.decode("utf-8", "replace")


def _marker_lines(text: str) -> list[tuple[int, str]]:
    lines = enumerate((line.rstrip("\r") for line in text.split("\n")), start=1)
    return [(number, line) for number, line in lines if MARKER.match(line)]


def _texts(path: Path, commit: str, name: str) -> set[str]:
    ended = commands.run("cat-file", "blob", f"{commit}:{name}", cwd=path)
    return {text for _number, text in _marker_lines(ended.stdout)} if ended.ok else set()
