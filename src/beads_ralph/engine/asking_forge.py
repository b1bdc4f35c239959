"""The forge of a session on another machine: the branch is pushed there, the pull request is opened here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beads_ralph.forge.protocol import Proposal, PullRequest, PushTarget
from beads_ralph.session.pipe import PipedHost


@dataclass
class AskingForge:
    """Asks the host of the session, which has the forge, its credentials and the last word on the fence."""

    host: PipedHost
    loop: asyncio.AbstractEventLoop
    kind: str = "asked"

    def propose(self, proposal: Proposal) -> PullRequest:
        return asyncio.run_coroutine_threadsafe(self._propose(proposal), self.loop).result()

    async def _propose(self, proposal: Proposal) -> PullRequest:
        await self.host.push()
        pull: PullRequest = await self.host.ask("propose", proposal)
        return pull

    def push_target(self) -> PushTarget | None:
        return None

    def require_target(self) -> None:
        return

    def find(self, _branch: str) -> PullRequest | None:
        return None

    def held(self, _branches: Sequence[str]) -> Mapping[str, str] | None:
        return None

    def is_taken(self, _branch: str, _target: str, _commit: str) -> bool:
        return False

    def declined(self, _branches: Sequence[str]) -> Mapping[str, str]:
        return {}

    def put_back(self, _branch: str, _commit: str, _there: str | None) -> None:
        return
