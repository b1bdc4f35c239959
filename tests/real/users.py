"""Running a program as another user, for the difference that root makes to agent CLIs."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

NOBODY = 65534
SOMEBODY = 47_110


@cache
def as_nobody() -> tuple[str, ...]:
    """The words before a command that make it an unprivileged user's; empty where that cannot be had.

    It may look into every folder, as installations lie in root's home, and write only where nobody may.
    """
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        return ()
    only = "-all,+dac_read_search"
    words = (
        setpriv,
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        f"--inh-caps={only}",
        f"--ambient-caps={only}",
        f"--bounding-set={only}",
        # Without it access(2) would not count that right, and git asks with it.
        "--securebits=+no_setuid_fixup",
    )
    tried = subprocess.run([*words, "true"], capture_output=True, timeout=60, check=False)
    return words if tried.returncode == 0 else ()


@cache
def in_a_namespace() -> tuple[str, ...]:
    """The words before a command that take the network from it; empty where that cannot be had."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    for words in ((unshare, "--net"), (unshare, "--net", "--map-root-user")):
        tried = subprocess.run([*words, "true"], capture_output=True, timeout=60, check=False)
        if tried.returncode == 0:
            return words
    return ()


@cache
def unprivileged() -> tuple[str, ...]:
    """The same by a namespace, in which our own files are those of that user, who has no right besides;
    empty where that cannot be had. bubblewrap refuses to work for anybody with a part of root's rights."""
    unshare = shutil.which("unshare")
    if os.getuid() != 0 or unshare is None:
        return ()
    # Not nobody: CLIs keep a folder for each user, which would be the real one's.
    words = (unshare, "--user", f"--map-user={SOMEBODY}", f"--map-group={SOMEBODY}")
    tried = subprocess.run([*words, "true"], capture_output=True, timeout=60, check=False)
    return words if tried.returncode == 0 else ()
