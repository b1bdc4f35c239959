"""What the next bead on bd takes at least, by hand: python bare_bd.py BD ROOT FILE EARLIER BEAD TYPES.

Closes the earlier bead, then lists what is ready and claims the next one, and adds to the file how long each
of them took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

QUIET = ("BD_DISABLE_METRICS", "BD_DISABLE_EVENT_FLUSH", "BD_NON_INTERACTIVE", "NO_COLOR")


def main(bd: str, root: str, file: str, earlier: str, bead: str, excluded: str) -> None:
    def taken(*words: str) -> float:
        environment = {**os.environ, **dict.fromkeys(QUIET, "1"), "BEADS_DIR": f"{root}/.beads"}
        start = time.perf_counter()
        subprocess.run(
            [bd, *words, "--json", "--actor=bench"],
            cwd=root,
            env=environment,
            capture_output=True,
            check=True,
        )
        return time.perf_counter() - start

    if not earlier:
        taken("update", bead, "--claim")
        return
    ready = ("ready", "--limit=0", f"--exclude-type={excluded}")
    times = [taken(*words) for words in (("close", earlier), ready, ("update", bead, "--claim"))]
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps(times)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
