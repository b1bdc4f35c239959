#!/usr/bin/env python3
"""Validate a Ralph bead and work on it: ralph-executor-standalone.py -BeadFile my-bead.json -Standalone

--bead-file FILE and --standalone are the same; every other option is that of `beads-ralph exec`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _project import use_project

use_project(restart=True)

from beads_ralph.cli.entry import main

FILE = ("-beadfile", "--bead-file")
FLAGS = {"-standalone": None, "--standalone": None, "-dryrun": "--dry-run", "-verifyonly": "--verify-only"}
"""Spelled as PowerShell spells them, in any case; it works without a store anyway."""


def translated(words: list[str]) -> list[str]:
    """The words of `beads-ralph exec`."""
    given = iter(words)
    found = []
    for word in given:
        name, separator, value = word.partition(":" if word.startswith("-") and "=" not in word else "=")
        if name.lower() in FILE:
            found.append(value if separator else next(given, ""))
        elif word.lower() in FLAGS:
            found += [flag] if (flag := FLAGS[word.lower()]) else []
        else:
            found.append(word)
    return [word for word in found if word]


sys.exit(main(["exec", *translated(sys.argv[1:])]))
