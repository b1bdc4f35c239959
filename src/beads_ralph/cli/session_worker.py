"""Work on one order that comes over a pipe: `python -m beads_ralph.cli.session_worker CLONE`.

The clone is made from the order's remote where it is not there yet. The branch and the place where its work
began are pushed after every attempt, so that another machine can go on where this one stopped.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph import app
from beads_ralph.bead.model import Bead
from beads_ralph.errors import RalphError
from beads_ralph.files.text_files import make_folder, ralph_dir
from beads_ralph.git import commands, locking, proofs, settings
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.merges import ORIGIN
from beads_ralph.journal import runs
from beads_ralph.process.calls import in_thread
from beads_ralph.session import Order, Outcome, SessionHost, pipe, work
from beads_ralph.session.worktree import ref_word, start_ref

OURS: Final = "+refs/beads-ralph/start/*:refs/beads-ralph/start/*"
PUSH_SECONDS: Final = 300.0


@dataclass(frozen=True)
class CloneOfRemote:
    """A place of work of its own, as on another machine: commits come and go by the order's git remote."""

    root: Path

    async def run_session(self, order: Order, host: SessionHost) -> Outcome:
        try:
            await in_thread(_fetch, self.root, order.remote or "", order.bead.metadata.source_branch)
            folder = runs.RunFolder(ralph_dir(self.root), order.run_id)
            tools = app.tools_at(self.root, order.config, folder)
        except RalphError as error:
            return Outcome("broken", f"{error.message} ({error.suggested_action})")
        with settings.until_done(self.root):
            return await work(order.at(self.root), tools, host)

    async def publish(self, order: Order) -> str:
        return await in_thread(self._publish, order.bead)

    def _publish(self, bead: Bead) -> str:
        if not self.root.is_dir():
            return ""
        branch = f"{HEADS}{bead.metadata.branch}"
        begun = proofs.at(self.root).start(ref_word(bead.id))
        refs = {branch: commands.commit_of(branch, self.root), start_ref(bead.id): begun}
        return _push(self.root, refs)


# --- the clone -----------------------------------------------------------------------------------------


def _fetch(clone: Path, remote: str, source: str) -> None:
    """The clone with everything that the remote has, and the source branch checked out."""
    if not (clone / ".git").exists():
        _clone(clone, remote)
    locking.output("fetch", "--quiet", "origin", f"+{HEADS}*:{ORIGIN}*", OURS, cwd=clone)
    locking.output("checkout", "--quiet", "--detach", f"{ORIGIN}{source}", cwd=clone)


def _clone(clone: Path, remote: str) -> None:
    """Without a branch of its own: one would stay behind while the remote moves on."""
    make_folder(clone.parent)
    locking.output("clone", "--quiet", "--no-checkout", "--", remote, str(clone), cwd=clone.parent)
    branch = commands.output("symbolic-ref", "--short", "HEAD", cwd=clone)
    commands.output("checkout", "--quiet", "--detach", cwd=clone)
    commands.output("branch", "--quiet", "-D", branch, cwd=clone)


def _push(clone: Path, refs: Mapping[str, str | None]) -> str:
    """Push those of the refs that have a commit, never by force; why it failed, empty where it did not."""
    there = {ref: commit for ref, commit in refs.items() if commit}
    if not there:
        return ""
    words = [f"{commit}:{ref}" for ref, commit in there.items()]
    ended = commands.run("push", "--quiet", "origin", *words, cwd=clone, timeout=PUSH_SECONDS)
    return "" if ended.ok else f"cannot push {', '.join(there)}: {ended.stderr.strip()}"


def main() -> None:
    asyncio.run(_main(Path(sys.argv[1])))


async def _main(clone: Path) -> None:
    running = asyncio.get_running_loop()
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        running.add_signal_handler(number, lambda: task and task.cancel())
    async with pipe.talking(sys.stdin.buffer, sys.stdout.buffer) as talk:
        place = CloneOfRemote(clone)
        await pipe.serve(talk, place.run_session, place.publish)


if __name__ == "__main__":
    main()
