"""Reads a journal, and prints what that took: `python -m bench.open_journal json|board|follow JOURNAL`."""

import json
import os
import sys
import time
from pathlib import Path

from beads_ralph.board.source import BoardSource

MORE = 100_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


way, path = sys.argv[1], Path(sys.argv[2])
began = time.process_time()
if way == "json":
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    print(json.dumps({"cpu": time.process_time() - began}))
else:
    source = BoardSource.open(path.parents[3])
    said = {"cpu": time.process_time() - began}
    if way == "follow":
        with path.open("rb") as file:
            more = [line for line, _ in zip(file, range(MORE // 10), strict=False)]
        for turn in range(11):
            with path.open("ab") as journal:
                journal.writelines(more)
            source.poll()
            if turn == 0:  # the first look beside what was shown before
                said["before"] = resident()
        said |= {"after": resident(), "more": 10 * len(more)}
    print(json.dumps(said))
