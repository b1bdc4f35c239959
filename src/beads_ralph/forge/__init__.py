"""Where finished branches are proposed: the contract of a forge, and one module per kind.

Forges publish a commit that was proven elsewhere; they judge nothing and do not know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files.plugins import Plugins
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Forge
from beads_ralph.git import commands

FORGES: Final[Mapping[str, Callable[[Path, str | None, Network], Forge]]] = Plugins("forge.adapters", "FORGE")
SERVES: Final[Mapping[str, Callable[[Path, str, Network], bool]]] = Plugins("forge.adapters", "serves")


def choose(name: str, root: Path, remote: str | None = None, network: Network | None = None) -> Forge:
    """The forge of that name; `auto` is the one that the remote belongs to, else local.

    `remote` is the name of a git remote; None means origin, where there is one.
    """
    patience = network or Network()
    used = _remote(root, remote)
    if name == "auto":
        name = next((one for one in SERVES if used and SERVES[one](root, used, patience)), "local")
    if name not in FORGES:
        known = ", ".join(["auto", *FORGES])
        raise RalphError(Code.CONFIG_INVALID, f"there is no forge '{name}'; there are: {known}")
    return FORGES[name](root, used, patience)


def _remote(root: Path, given: str | None) -> str | None:
    if commands.remote_addresses(given or "origin", root):
        return given or "origin"
    if given is None:
        return None
    action = f"Add it (git remote add {given} URL), or name another"
    raise RalphError(Code.GIT_ERROR, f"there is no remote '{given}'", suggested_action=action)
