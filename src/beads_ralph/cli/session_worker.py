"""Work on one order: `python -m beads_ralph.cli.session_worker CLONE`, or `--order FOLDER`.

The first takes its order over a pipe and works in a clone that it is told. The second is started by a worker
on another machine: its order lies in a folder, it listens for the worker at a socket, and it goes on where
nobody listens. The clone is made from the order's remote where it is not there yet. The branch and the place
where its work began are pushed after every attempt, so that another machine can go on where this one stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from beads_ralph import app
from beads_ralph.bead.model import Bead
from beads_ralph.engine import clones, link
from beads_ralph.engine.asking_forge import AskingForge
from beads_ralph.engine.fence import Fenced
from beads_ralph.engine.order_folder import PLACE, TICKET, unpacked
from beads_ralph.errors import RalphError
from beads_ralph.files import text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.git import commands, proofs, settings
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal import runs
from beads_ralph.process.calls import Retry, in_thread
from beads_ralph.session import Order, Outcome, SessionHost, pipe, work
from beads_ralph.session.worktree import ref_word, start_ref

PUSH_SECONDS: Final = 300.0
REMOTE_RETRY: Final = Retry(tries=6, first=1.0, longest=60.0)
"""How often a push is tried: agents have worked for it."""


def refs_of(root: Path, bead: Bead) -> dict[str, str]:
    """What another machine needs to go on: the branch, and where its work began."""
    branch = f"{HEADS}{bead.metadata.branch}"
    begun = proofs.at(root).start(ref_word(bead.id))
    found = {branch: commands.commit_of(branch, root), start_ref(bead.id): begun}
    return {ref: commit for ref, commit in found.items() if commit}


# --- over a pipe --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CloneOfRemote:
    """A place of work of its own, as on another machine: commits come and go by the order's git remote."""

    root: Path

    async def run_session(self, order: Order, host: SessionHost) -> Outcome:
        try:
            source = order.bead.metadata.source_branch
            await in_thread(clones.fetch, self.root, order.remote or "", source)
            folder = runs.RunFolder(ralph_dir(self.root), order.run_id)
            tools = app.tools_at(self.root, order.config, folder)
        except RalphError as error:
            return Outcome("broken", f"{error.message} ({error.suggested_action})")
        with settings.until_done(self.root):
            return await work(order.at(self.root), tools, host)

    async def publish(self, order: Order) -> str:
        return await in_thread(self._publish, order.bead)

    def _publish(self, bead: Bead) -> str:
        return _push(self.root, refs_of(self.root, bead)) if self.root.is_dir() else ""


def _push(clone: Path, refs: Mapping[str, str]) -> str:
    """Push the refs, never by force; why it failed, empty where it did not."""
    if not refs:
        return ""
    words = [f"{commit}:{ref}" for ref, commit in refs.items()]
    ended = commands.run("push", "--quiet", "origin", *words, cwd=clone, timeout=PUSH_SECONDS)
    return "" if ended.ok else f"cannot push {', '.join(refs)}: {ended.stderr.strip()}"


# --- for a worker -------------------------------------------------------------------------------------


@dataclass
class OrderedSession:
    """An order in its folder, and the clone that it is worked on in."""

    folder: Path
    line: link.LastingLine
    order: Order
    clone: Path
    fenced: Fenced

    async def run(self) -> None:
        """Until its outcome was handed on; or it was cancelled, which leaves no process."""
        source = self.order.bead.metadata.source_branch
        try:
            await in_thread(clones.refresh, self.clone, self.order.remote or "", source)
        except RalphError as error:
            said = f": {error.details}" if isinstance(error.details, str) else ""
            self.line.send({"outcome": {"refused": f"{error.message}{said}"}})
            return
        host = pipe.PipedHost(self.line, self.order, self._publish)
        await pipe.serve_order(host, self._work)

    async def _work(self, order: Order, host: SessionHost) -> Outcome:
        folder = runs.RunFolder(ralph_dir(self.clone), order.run_id)
        output = folder.path / "jobs" / order.bead.id
        text_files.write_text(self.folder / PLACE, f"{output}\n")
        tools = app.tools_at(self.clone, order.config, folder)
        if isinstance(host, pipe.PipedHost):
            tools = replace(tools, forge=AskingForge(host, asyncio.get_running_loop()))
        with settings.until_done(self.clone):
            return await work(_moved(order, self.clone), tools, host)

    async def _publish(self, order: Order) -> str:
        return await in_thread(self._push, order.bead)

    def _push(self, bead: Bead) -> str:
        problem = ""
        for pause in (*REMOTE_RETRY.pauses(), 0.0):
            refs = refs_of(self.clone, bead)
            problem = self.fenced.push(refs) if refs else ""
            if not problem:
                break
            time.sleep(pause)
        return problem


def _moved(order: Order, clone: Path) -> Order:
    """The order in this clone; worktrees lie beside it, wherever they were to lie."""
    place = Path(os.path.relpath(order.bead.metadata.worktree_path, order.root))
    if place.parts[:1] != ("..",) or place.parts[1:2] == ("..",):
        trees = order.root.parent / "worktrees" / order.bead.metadata.branch
        metadata = order.bead.metadata.model_copy(update={"worktree_path": str(trees)})
        order = replace(order, bead=order.bead.model_copy(update={"metadata": metadata}))
    return order.at(clone)


async def _ordered(folder: Path) -> None:
    ticket = json.loads((folder / TICKET).read_text("utf-8"))
    order = unpacked(ticket["order"])
    # Not the name of the run: a run that is started anew ends what an earlier one left on its machine.
    order = replace(order, run_id=f"{order.run_id}-{order.id[:6]}")
    line = link.LastingLine()
    place = link.socket_of(order.id)
    place.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(line.meet, place, limit=pipe.LONGEST_LINE)
    with clones.free_clone(folder.parents[1], order.remote or "") as clone:
        fenced = Fenced(clone, order.remote or "", order.bead.id, order.id)
        session = OrderedSession(folder, line, order, clone, fenced)
        await _until_cancelled(session.run(), line)
    if not line.cancelled.is_set():
        await line.hand_over(folder)
    server.close()


async def _until_cancelled(work_: object, line: link.LastingLine) -> None:
    working = asyncio.ensure_future(work_)  # type: ignore[call-overload]
    cancelled = asyncio.create_task(line.cancelled.wait())
    try:
        await asyncio.wait({working, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    finally:
        cancelled.cancel()
        working.cancel()


def main() -> None:
    if sys.argv[1] == "--order":
        asyncio.run(_signalled(_ordered(Path(sys.argv[2]))))
    else:
        asyncio.run(_signalled(_piped(Path(sys.argv[1]))))


async def _signalled(work_: object) -> None:
    running = asyncio.get_running_loop()
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        running.add_signal_handler(number, lambda: task and task.cancel())
    await work_  # type: ignore[misc]


async def _piped(clone: Path) -> None:
    async with pipe.talking(sys.stdin.buffer, sys.stdout.buffer) as talk:
        place = CloneOfRemote(clone)
        await pipe.serve(talk, place.run_session, place.publish)


if __name__ == "__main__":
    main()
