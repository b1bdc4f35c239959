"""Calling the agent for a Ralph bead, through the same adapters as the loop does."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph import prompts
from beads_ralph.agents.environment import passed_on
from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import Session
from beads_ralph.bead.model import CLAUDE, AgentSpec, Verifier
from beads_ralph.bead.words import plural
from beads_ralph.compile.setting import Setting
from beads_ralph.dod.files import BeadFile
from beads_ralph.dod.imports import bead_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.journal.evidence_folder import EVIDENCE, Shelf
from beads_ralph.journal.journal import EventSink
from beads_ralph.session import Order, Tools
from beads_ralph.session.agent_calls import Answered, Asked, call
from beads_ralph.session.fallback import with_defaults

DETACHED: Final = "detached"


def branch_of(place: Path) -> str:
    found = commands.find(place)
    return (found.current_branch() if found else None) or DETACHED


def commit_of(place: Path) -> str:
    """What is checked out; empty outside of git."""
    said = commands.run("rev-parse", "--verify", "--quiet", "HEAD", cwd=place)
    return said.stdout.strip() if said.ok else ""


def environment(shelf: Shelf, run_id: str, named: Collection[str]) -> dict[str, str]:
    """What verifiers have: as in the loop, and where evidence goes."""
    return {
        **passed_on(os.environ, named),
        "BEADS_RALPH_RUN_ID": run_id,
        "BEADS_RALPH_BEAD": shelf.key,
        EVIDENCE: str(shelf.evidence),
    }


def spec_of(tools: Tools, program: str | None) -> AgentSpec:
    """The program asked for, else the first dev agent of the settings, else the default program."""
    if program is not None:
        return AgentSpec(role="polecat", agent=CLAUDE, executable=program)
    configured = tools.config.plan.dev_agents
    return configured[0] if configured else AgentSpec(role="polecat", agent=CLAUDE)


@dataclass
class Caller:
    """One agent for one bead, and the session that it goes on with."""

    found: BeadFile
    shelf: Shelf
    tools: Tools
    events: EventSink
    spec: AgentSpec
    run_id: str
    session: Session | None = None

    async def call(self, attempt: int, most: int, feedback: str, seconds: float | None) -> Answered:
        """The agent's turn, and once more where it has forgotten its session."""
        asked = Asked(
            spec=self._spec(),
            role="dev",
            prompt=self._prompt(attempt, most, feedback),
            cwd=self.shelf.place,
            attempt=attempt,
            name=f"a{attempt}-agent",
            feedback=feedback,
            session=self.session,
            seconds=seconds,
        )
        done = await call(asked, self._order(), self.tools, self.events)
        if done.reply.trouble == "forgotten" and self.session is not None:
            done = await call(replace(asked, session=None), self._order(), self.tools, self.events)
        self.session = done.call.session
        if done.reply.trouble == "auth":
            raise self._not_signed_in(done)
        return done

    @property
    def program(self) -> str:
        return with_defaults(self.spec, self.tools).executable or CLAUDE

    def remember(self, said: Any) -> None:
        """Go on with the session of a run that was killed; anybody may have written there."""
        if isinstance(said, dict) and isinstance(said.get("id"), str):
            try:
                self.session = json_fields.from_json(Session, said)
            except json_fields.FieldError:
                self.session = Session(said["id"])

    def remembered(self) -> dict[str, Any] | None:
        return json_fields.to_json(self.session) if self.session else None

    def _spec(self) -> AgentSpec:
        env = {**(self.spec.env or {}), EVIDENCE: str(self.shelf.evidence)}
        return self.spec.model_copy(update={"env": env})

    def _order(self) -> Order:
        source = branch_of(self.shelf.place)
        setting = Setting(self.shelf.place, str(self.found.path), datetime.now(UTC), self.tools.config)
        bead = bead_of(self.found, setting, source)
        place = {"worktree_path": str(self.shelf.place), "branch": source, "source_branch": source}
        metadata = bead.metadata.model_copy(update=place)
        placed = bead.model_copy(update={"metadata": metadata})
        return Order(placed, self.run_id, f"exec-{self.run_id}", self.tools.root, self.tools.config)

    def _prompt(self, attempt: int, most: int, feedback: str) -> str:
        bead = self.found.bead
        return prompts.render(
            "ralph",
            bead_id=self.shelf.key,
            place=str(self.shelf.place),
            attempt=attempt,
            max_attempts=most,
            title=bead.name,
            intent=bead.intent,
            verifiers=[_described(verifier) for verifier in bead.verifiers()],
            feedback=feedback,
            evidence=self._evidence(),
        )

    def _evidence(self) -> str:
        if not self.found.bead.dod.evidence_required:
            return ""
        folder = self.shelf.shown(self.shelf.evidence)
        return f"Put at least one file that shows that it works into {folder}/, such as the output of a test."

    def _not_signed_in(self, done: Answered) -> RalphError:
        """What to do about it is part of what the program said, where that is known."""
        said = f"{done.call.program} is not signed in: {done.reply.detail}".rstrip(": ")
        action = f"Sign {done.call.program} in, then run the same command again"
        return RalphError(Code.UNAVAILABLE, said, suggested_action=action)


def _described(verifier: Verifier) -> str:
    """The command, and what is expected of it where that is not only success."""
    expect = verifier.expect
    wants = [f"exit code {expect.exit_code}"] if expect.exit_code else []
    for name, text in (("stdout", expect.stdout_contains), ("stderr", expect.stderr_contains)):
        wants += [f"{text!r} in {name}"] if text is not None else []
    limit = f"within {plural(verifier.timeout_seconds, 'second')}"
    return f"{verifier.name}: {verifier.command}\n({', '.join([*wants, limit])})"
