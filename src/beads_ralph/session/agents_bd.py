"""The `bd` that agents find first on their PATH: it reads the beads of their repository, and changes none.

bd's own instructions tell agents to close their issue. In a run that is the run's to do, after the checks.
For every other repository, such as one that an agent makes for its tests, it is bd itself.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Final

from beads_ralph.files import text_files
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job

BD: Final = "bd"
READING: Final = (
    *("blocked", "children", "completion", "context", "count", "diff", "find-duplicates", "graph", "help"),
    *("history", "human", "info", "init-safety", "lint", "list", "memories", "onboard", "orphans", "ping"),
    *("prime", "query", "quickstart", "ready", "recall", "schema", "search", "show", "stale", "status"),
    *("statuses", "types", "version", "where"),
)
WITH_A_VALUE: Final = (
    "--actor",
    "--database",
    "--db",
    "--directory",
    "-C",
    "--dolt-auto-commit",
    "--mem-profile",
)
"""The options that may stand before the command and are followed by a word."""
SCRIPT: Final = """\
#!/bin/sh
# bd for the agents of a run of beads-ralph: it reads the beads of the repository, and changes none.
real={real} root={root}
here=$(git rev-parse --path-format=absolute --git-common-dir 2> /dev/null)
case "$here $PWD ${{BEADS_DIR:-}} $*" in
    *"$root"*) ;;
    *) exec "$real" "$@" ;;
esac
command= skip=
for word in "$@"; do
    if [ "$skip" ]; then skip=; continue; fi
    case $word in
        {with_a_value}) skip=1 ;;
        -h | --help | -V | --version) command=help; break ;;
        -*) ;;
        *) command=$word; break ;;
    esac
done
case $command in
    "" | {reading}) exec "$real" --readonly "$@" ;;
esac
echo "bd: refused: agents do not change the beads of $root; only the run that they work for does." >&2
echo "Commit your work and end: the run checks it and closes the bead. Reading works, as with bd show." >&2
exit 1
"""


def with_bd(job: Job, folder: Path, root: Path) -> Job:
    """The job with such a bd on its PATH, made in this folder, where there is a bd at all."""
    env = dict(job.env or {})
    search = env.get("PATH", os.defpath)
    real = jobs.which(BD, search)
    if real is None:
        return job
    path = folder / BD
    text = SCRIPT.format(
        real=shlex.quote(real),
        root=shlex.quote(os.path.realpath(root)),
        with_a_value=" | ".join(WITH_A_VALUE),
        reading=" | ".join(READING),
    )
    if not path.exists() or path.read_text("utf-8") != text:
        text_files.make_folder(folder)
        text_files.write_text(path, text)
        path.chmod(0o700)
    return replace(job, env={**env, "PATH": f"{folder}{os.pathsep}{search}"})
