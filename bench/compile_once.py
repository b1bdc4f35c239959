"""Compiles one plan and prints the processor time of it: what `plan check` does after its start-up."""

import sys
import time
from pathlib import Path

from beads_ralph.compile.build import compile_plan
from beads_ralph.config import workspace

space = workspace.find()
start = time.process_time()
built = compile_plan(space, Path(sys.argv[1]))
used = time.process_time() - start
if built.all_faults:
    raise SystemExit(f"{sys.argv[1]} has faults: {built.all_faults[0]}")
print(used)
