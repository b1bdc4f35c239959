"""`python child.py UID FOLDER`: closed-in jobs as a user who may not do everything."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

from beads_ralph.process.executors import choose
from beads_ralph.process.jobs import Exit, Job, Transcript
from beads_ralph.process.process_tree import Family
from beads_ralph.process.sandbox import Sandbox

choose("local", None)  # loaded while its files can be read
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
folder = Path(sys.argv[2])
tree = folder / "tree"
tree.mkdir()


def run(script: str, seconds: float = 30.0) -> Exit:
    transcript = Transcript(folder / "out", folder / "err")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    job = Job(("sh", "-c", script), tree, env=env, timeout=seconds, grace=20.0, mark="child")
    closed_in = choose("local", Sandbox(folder))
    return asyncio.run(closed_in.run(replace(job, transcript=transcript)))


ended = run('echo x > file && echo "written $(id -u)"; echo x > ../file || echo read-only')
sys.stdout.write(ended.stdout)
ended = run("(setsid sleep 300 &) ; trap 'exit 7' TERM; sleep 300 & wait", 1.0)
sys.stdout.write(f"ends: {ended.timed_out} {ended.code}\n")
sys.stdout.write(f"left: {sorted(Family('BEADS_RALPH_JOB=child').find())}\n")
