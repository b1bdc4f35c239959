"""Proposes a branch in a process of its own, and dies at the step it is told to.

A step is a moment at which the outside world is about to change: a process starts, a file is created or
renamed, a lock is taken. Arguments: forge, root, branch, commit, the step (0: none).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from beads_ralph.forge import choose
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Proposal
from beads_ralph.process.calls import Retry

STEPS = frozenset({"subprocess.Popen", "os.rename", "os.mkdir", "os.remove", "fcntl.flock"})
_seen = 0


def die_at(step: int) -> None:
    def look(event: str, _details: tuple[object, ...]) -> None:
        global _seen  # noqa: PLW0603 - a hook cannot be taken away or hold anything
        if event in STEPS:
            _seen += 1
            if _seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def live_on() -> None:
    """It is proposed; what the process clears away at its end is not part of that."""
    global _seen  # noqa: PLW0603
    _seen = sys.maxsize


def main() -> None:
    kind, root, branch, commit, step = sys.argv[1:]
    forge = choose(kind, Path(root), network=Network(Retry(4, 0.05), timeout=20.0))
    proposal = Proposal("bd-1", "Do it", "All checks passed.", branch, "main", commit)
    if int(step):
        die_at(int(step))
    done = forge.propose(proposal)
    live_on()
    sys.stdout.write(json.dumps(done.to_json()))


if __name__ == "__main__":
    main()
