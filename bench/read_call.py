"""Calls a program through its adapter in a process of its own, and prints what came of it as JSON:
`python -m bench.read_call ADAPTER PROGRAM FOLDER`."""

import asyncio
import json
import sys
import time
from pathlib import Path

from beads_ralph.process.executors.local import LocalExecutor
from bench.calling import Call

name, program, folder = sys.argv[1:]
call = Call.of(name, Path(program), Path(folder), "call", {})
job = call.job()
started = time.monotonic()
ended = asyncio.run(LocalExecutor().run(job))
read = time.monotonic()
reply = call.reply(job, ended)
told = {
    "ok": ended.ok,
    "trouble": reply.trouble,
    "text": len(reply.text),
    "printed": call.transcript.out.stat().st_size,
    "running": read - started,
    "reading": time.monotonic() - read,
}
print(json.dumps(told))
