"""Runs idle jobs of several processes at once, and prints how busy this process was meanwhile:
`python -m bench.watch_jobs FOLDER JOBS PROCESSES SECONDS LIMIT_MB`."""

import asyncio
import json
import sys
import time
from pathlib import Path

from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Exit, Job, Transcript

folder = Path(sys.argv[1])
jobs, processes, lasting, limit = map(int, sys.argv[2:])
# All of them wait for the same end, so that the last one starts in a full house.
IDLE = f"for _ in $(seq {processes - 1}); do sleep 1000 & done; while ! [ -e {folder}/end ]; do sleep 1; done"


def idle(number: int) -> Job:
    files = Transcript(folder / f"{number}.out", folder / f"{number}.err")
    return Job(("/bin/sh", "-c", IDLE), folder, timeout=600.0, transcript=files, memory_limit_mb=limit)


async def main() -> tuple[float, list[Exit]]:
    running = [asyncio.create_task(LocalExecutor().run(idle(number))) for number in range(jobs)]
    await asyncio.sleep(2.0)
    began, before = time.monotonic(), time.process_time()
    await asyncio.sleep(lasting)
    share = (time.process_time() - before) / (time.monotonic() - began)
    (folder / "end").touch()
    ended = await asyncio.gather(*running)
    (folder / "end").unlink()
    return share, ended


busy, exits = asyncio.run(main())
print(json.dumps({"share": busy, "ended": sum(each.ok for each in exits)}))
