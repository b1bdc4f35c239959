"""Where finished branches are proposed: the contract of a forge, and one module per kind.

Forges publish a commit that was proven elsewhere; they judge nothing and do not know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from beads_ralph.config.kinds import Push
from beads_ralph.errors import Code, RalphError
from beads_ralph.files.plugins import Plugins
from beads_ralph.forge.network import Network, target
from beads_ralph.forge.protocol import Forge, PushTarget
from beads_ralph.git import commands

FORGES: Final[Mapping[str, Callable[[Path, str | None, Network], Forge]]] = Plugins("forge.adapters", "FORGE")
SERVES: Final[Mapping[str, Callable[[Path, str, Network], bool]]] = Plugins("forge.adapters", "serves")


LOCAL: Final = "local"
NEEDS_NO_PUSH: Final = (LOCAL, "none")


def choose(
    name: str,
    root: Path,
    remote: str | None = None,
    network: Network | None = None,
    push: Push = "yes",
) -> Forge:
    """The forge of that name; `auto` is the one that the remote belongs to, else local.

    `remote` is the name of a git remote; None means origin, where there is one. A forge that needs no push
    gets one only by a `yes`; of any other it is part of what it is for, unless there is a `no`.
    """
    patience = network or Network()
    used = None if push == "no" else _remote(root, remote)
    if push == "no" and name not in ("auto", *NEEDS_NO_PUSH) and name in FORGES:
        message = f"push: no, and the forge {name} opens pull requests for branches that are pushed"
        action = "Set push: yes in beads-ralph.yaml, or choose the forge 'local'"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action=action)
    if name == "auto":
        name = next((one for one in SERVES if used and SERVES[one](root, used, patience)), LOCAL)
    if name not in FORGES:
        known = ", ".join(["auto", *FORGES])
        raise RalphError(Code.CONFIG_INVALID, f"there is no forge '{name}'; there are: {known}")
    unasked = name in NEEDS_NO_PUSH and push != "yes"
    return FORGES[name](root, None if unasked else used, patience)


def origin(root: Path) -> PushTarget | None:
    """The remote that could be pushed to; None where there is none."""
    return target(root, "origin") if _remote(root, None) else None


def _remote(root: Path, given: str | None) -> str | None:
    if commands.remote_addresses(given or "origin", root):
        return given or "origin"
    if given is None:
        return None
    action = f"Add it (git remote add {given} URL), or name another"
    raise RalphError(Code.GIT_ERROR, f"there is no remote '{given}'", suggested_action=action)
