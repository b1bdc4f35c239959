"""Runs a command and prints, as JSON, what it used: `python -I bench/launch.py COMMAND…`.

A process counts the memory of the one that started it as its own until it has grown past it. This one
is small, so what it reports is the command's own peak.
"""

import json
import os
import subprocess
import sys
import time

started = time.perf_counter()
with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
    output = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
ended = time.perf_counter()
print(
    json.dumps(
        {
            "code": process.returncode,
            "wall": ended - started,
            "cpu": usage.ru_utime + usage.ru_stime,
            "peak": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "output": output.decode("utf-8", "replace"),
        }
    )
)
