"""What an agent answered, as its adapter reads it, with what every adapter would have to say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from beads_ralph.agents.agent_types import Reply
from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.agents.reply_reader import output_of
from beads_ralph.process.jobs import Exit, Job, Profile

LONGEST_LINE: Final = 16 * 1024 * 1024


def heard(cli: AgentCLI, job: Job, ended: Exit) -> Reply:
    """The reply of a job that has ended."""
    return explained(cli.reply(ended, output_of(job, LONGEST_LINE)), cli.profile)


def explained(reply: Reply, profile: Profile) -> Reply:
    """Whoever is not let in is told what to do about it, once."""
    if reply.trouble != "auth" or not profile.sign_in or profile.sign_in in reply.detail:
        return reply
    return replace(reply, detail=f"{profile.sign_in}: {reply.detail}".removesuffix(": "))
