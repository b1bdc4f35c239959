"""Work on one order that comes over a pipe: `python -m beads_ralph.cli.session_worker CLONE`.

The clone is made from the order's remote where it is not there yet. The branch and the place where its work
began are pushed after every attempt, so that another machine can go on where this one stopped.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from beads_ralph import app
from beads_ralph.bead.model import Bead
from beads_ralph.errors import RalphError
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.git import clones, commands, proofs
from beads_ralph.git.merges import HEADS
from beads_ralph.journal import runs
from beads_ralph.process.calls import in_thread
from beads_ralph.session import Order, Outcome, SessionHost, pipe, work
from beads_ralph.session.worktree import ref_word, start_ref


@dataclass(frozen=True)
class CloneOfRemote:
    """A place of work of its own, as on another machine: commits come and go by the order's git remote."""

    root: Path

    async def run_session(self, order: Order, host: SessionHost) -> Outcome:
        try:
            await in_thread(clones.fetch, self.root, order.remote or "", order.bead.metadata.source_branch)
            folder = runs.RunFolder(ralph_dir(self.root), order.run_id)
            tools = app.tools_at(self.root, order.config, folder)
        except RalphError as error:
            return Outcome("broken", f"{error.message} ({error.suggested_action})")
        return await work(order.at(self.root), tools, host)

    async def publish(self, order: Order) -> str:
        return await in_thread(self._push, order.bead)

    def _push(self, bead: Bead) -> str:
        if not self.root.is_dir():
            return ""
        branch = f"{HEADS}{bead.metadata.branch}"
        begun = proofs.at(self.root).start(ref_word(bead.id))
        refs = {branch: commands.commit_of(branch, self.root), start_ref(bead.id): begun}
        return clones.push(self.root, refs)


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
