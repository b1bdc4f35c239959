"""Work on one order that comes over a pipe: `python -m beads_ralph.cli.session_worker CLONE`.

The clone is made from the order's remote where it is not there yet. The branch and the place where its work
began are pushed after every attempt, so that another machine can go on where this one stopped.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from beads_ralph import app
from beads_ralph.session import pipe


def main() -> None:
    asyncio.run(_main(Path(sys.argv[1])))


async def _main(clone: Path) -> None:
    running = asyncio.get_running_loop()
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        running.add_signal_handler(number, lambda: task and task.cancel())
    async with pipe.talking(sys.stdin.buffer, sys.stdout.buffer) as talk:
        place = app.CloneOfRemote(clone)
        await pipe.serve(talk, place.run_session, place.publish)


if __name__ == "__main__":
    main()
