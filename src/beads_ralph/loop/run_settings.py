"""What a run is about, how it behaves, and what it ends with: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import MERGE
from beads_ralph.bead.standing import Standing
from beads_ralph.bead.usage import Budget, ProgramUse, Usage
from beads_ralph.dod.imports import is_gate
from beads_ralph.forge.protocol import PullRequest
from beads_ralph.journal.events import BeadClaimed, BlockedId, ProposedBead, PullConflict, RedGate, RunEnded
from beads_ralph.loop.blockers import Overview, Wait
from beads_ralph.loop.run_end import Why
from beads_ralph.session.agent_calls import template_of
from beads_ralph.session.history import subject_of
from beads_ralph.store.query import Query, UnreadableBead


@dataclass(frozen=True)
class Scope:
    """Which beads a run is about; empty means all."""

    beads: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    plan_file: str | None = None
    wisps: bool = False
    """Whether wisps are among them; otherwise none is, whatever else it is."""
    convoys: tuple[str, ...] = ()
    """Where `beads` come from, for whoever reads it."""

    @property
    def filters(self) -> list[str]:
        """As they are written on the command line."""
        convoys = [f"--convoy {name}" for name in self.convoys]
        beads = [f"--bead {name}" for name in sorted(self.beads)]
        return [f"--team {name}" for name in sorted(self.teams)] + (convoys or beads)

    @property
    def is_everything(self) -> bool:
        """Whether no bead is left out, wisps aside."""
        return not (self.beads or self.teams or self.plan_file)

    def query(self, *, wisps: bool) -> Query:
        """The beads that a run of these has to see. Nobody knows where those of a team are, but by a look at
        all."""
        if self.teams:
            return Query(wisps=wisps)
        return Query(ids=tuple(sorted(self.beads)), plan_file=self.plan_file, wisps=wisps, for_run=True)

    def unmatched(
        self, asked_for: Sequence[Bead], broken: Sequence[UnreadableBead], teams: set[str]
    ) -> set[str]:
        """The filters that hold no bead: teams that nobody is in, or all of them where they have no bead in
        common."""
        if self.teams - teams and not any(map(self.may_hold, broken)):
            return {f"--team {name}" for name in self.teams - teams}
        return set() if asked_for or not self.filters else {" ".join(self.filters)}

    def holds(self, bead: Bead) -> bool:
        place = bead.metadata
        return (self.wisps or not bead.ephemeral) and self._holds(bead.id, place.team_name, place.plan_file)

    def may_hold(self, broken: UnreadableBead) -> bool:
        """Of a bead that cannot be read, as much as can be."""
        said = broken.raw.get("metadata")
        place: Mapping[str, Any] = said if isinstance(said, dict) else {}
        left_out = bool(broken.raw.get("ephemeral")) and not self.wisps
        return not left_out and self._holds(
            broken.id, place.get("team_name"), place.get("plan_file", self.plan_file)
        )

    def _holds(self, bead_id: str, team: Any, plan_file: Any) -> bool:
        return (
            (not self.beads or bead_id in self.beads)
            and (not self.teams or team in self.teams)
            and self.plan_file in (None, plan_file)
        )


@dataclass(frozen=True)
class Settings:
    """How a run behaves."""

    run_id: str
    actor: str
    max_parallel: int = 4
    once: bool = False
    stop_on_failure: bool = False
    force_gates: bool = False
    """Whether features may start although a gate is red."""
    poll_seconds: float = 30.0
    heartbeat_seconds: float = 90.0
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True)
class Ended:
    """Why a run ended, and what it did."""

    why: Why
    reason: str
    closed: tuple[str, ...]
    blocked: tuple[tuple[str, str], ...]
    pull_requests: tuple[tuple[str, PullRequest], ...]
    attempts: int
    seconds: float
    waits: tuple[Wait, ...] = ()
    """What the beads that are left wait for, besides beads."""
    finished: tuple[Item, ...] = ()
    """The molecules, epics and convoys that were closed with this run."""
    for_people: tuple[Item, ...] = ()
    """Steps of people that nothing holds up any more, now that this run has done its part."""
    standing: Mapping[str, Standing] = field(default_factory=dict)
    """By bead that was closed: whether a verifier or only a review has passed it."""
    remarks: tuple[str, ...] = ()
    """What a person should look at, besides beads."""
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By bead that was closed: what failed nothing, and a person should know."""
    red_gates: tuple[RedGate, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """Tokens and money, as far as the programs tell."""
    programs: tuple[ProgramUse, ...] = ()
    """The same by program and model, in the order of their first calls."""
    conflicts: tuple[PullConflict, ...] = ()
    """The pull requests of the run that cannot both be merged as they are."""
    unreadable: tuple[str, ...] = ()
    """The beads that cannot be read."""
    untried: frozenset[str] = frozenset()
    """The beads that no attempt was made at, so that there are no logs of them."""

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for is done."""
        return self.why == "done"

    @property
    def told(self) -> RunEnded:
        """As the journal has it."""
        pulls = self.pull_requests
        return RunEnded(
            ended=self.why,
            reason=self.reason,
            closed=self.closed,
            blocked=tuple(BlockedId(bead, reason) for bead, reason in self.blocked),
            waiting_for=tuple(wait.told for wait in self.waits),
            finished=tuple(item.brief for item in self.finished),
            left_for_people=tuple(item.brief for item in self.for_people),
            pull_requests=tuple(ProposedBead(bead=bead, **pull.to_json()) for bead, pull in pulls),
            attempts=self.attempts,
            duration_seconds=round(self.seconds, 3),
            standing=self.standing or None,
            flags={bead: list(told) for bead, told in self.flags.items()} or None,
            remarks=self.remarks,
            red_gates=self.red_gates,
            usage=self.usage,
            programs=self.programs,
            conflicts=self.conflicts,
            next=tuple(self.next_commands),
        )

    def to_json(self) -> dict[str, Any]:
        """The same with every key, also those that an event has seldom."""
        said = self.told.facts()
        objects: dict[str, Any] = {"standing": {}, "flags": {}, "usage": {}}
        lists: dict[str, Any] = {"remarks": [], "red_gates": [], "conflicts": [], "programs": [], "next": []}
        return {**objects, **lists, **said}

    @property
    def next_commands(self) -> list[str]:
        """What a person would do next."""
        if first := self._first_command:
            return [first]
        steps: list[str] = []
        if self.blocked:
            bead, _ = self.blocked[0]
            look = "show" if bead in self.untried else "logs"
            steps += [f"beads-ralph {look} {bead}", f"beads-ralph retry {bead}"]
        steps += [wait.command for wait in self.waits if wait.command is not None]
        steps += [f"beads-ralph close {item.id}" for item in self.for_people]
        if self.why in ("stopped", "interrupted"):
            steps.append("beads-ralph run")
        return steps or [_review(pull) for _, pull in self.pull_requests[:1]]

    @property
    def _first_command(self) -> str | None:
        """What comes before everything else, if something does."""
        if any(gate.overridden_by is None for gate in self.red_gates) or self.why == "gates_red":
            return "beads-ralph gate check"
        if self.why == "unreadable":
            return f"beads-ralph show {self.unreadable[0]}"
        found = {
            "empty": "beads-ralph run PLAN",
            "no_match": "beads-ralph list",
            "plan_differs": "beads-ralph plan diff PLAN",
        }
        return found.get(self.why)


def _review(pull: PullRequest) -> str:
    """The command that shows a pull request."""
    if pull.number is not None and (pull.url or "").startswith("http"):
        return f"gh pr view {pull.number}"
    return f"git diff {pull.target}...{pull.branch}"


def foresee(
    beads: Sequence[Bead],
    scope: Scope,
    seen: Overview | None = None,
    refused: Mapping[str, str] | None = None,
) -> tuple[list[list[str]], dict[str, str]]:
    """What a run would start, in waves; and what it would not, with the reason. `seen` is what they wait
    for besides beads, `refused` why some cannot start."""
    closed = {bead.id for bead in beads if bead.status == "closed" or is_gate(bead)}
    known = seen or Overview()
    told = {wait.item.id: str(wait) for wait in known.survey.waits}
    left = {bead.id: bead for bead in beads if bead.id not in closed and scope.holds(bead)}
    unmet = {
        name: [other for other in known.needs.get(name, bead.dependencies) if other not in closed]
        for name, bead in left.items()
    }
    waiting = {name: "is blocked" for name, bead in left.items() if bead.status == "blocked"}
    waiting |= {name: why for name, why in (refused or {}).items() if name in left}
    while found := {
        name: f"waits for {', '.join(told.get(other, other) for other in stuck)}"
        for name, others in unmet.items()
        if name not in waiting
        and (stuck := [other for other in others if other in waiting or other not in left])
    }:
        waiting |= found
    return graph.waves({name: others for name, others in unmet.items() if name not in waiting}), waiting


def taken_up(bead: Bead) -> BeadClaimed:
    """What the journal is told of a bead that is taken up."""
    place = bead.metadata
    return BeadClaimed(
        bead=bead.id,
        team=place.team_name,
        attempt=place.attempt_count + 1,
        title=bead.title,
        bead_kind="merge" if bead.issue_type == MERGE else "work",
        sprint=place.sprint,
        plan_file=place.plan_file,
        branch=place.branch,
        template=template_of(bead),
        max_attempts=(place.attempts_forgiven or 0) + place.max_retry_attempts,
        asks=subject_of(bead),
    )
