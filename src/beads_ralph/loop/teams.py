"""Teams: their beads are worked on one at a time, each in the session where the last finished one ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from beads_ralph.bead.agent_call import DevCall, Session
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import UNKNOWN, Usage
from beads_ralph.session.order import TeamSession

Chair = tuple[str, int, str, str]
"""Who sits there: role, seat, agent and program."""


class Teams:
    """The sessions of the teams of a run. All of it is made from the beads of the store, so that the next run
    goes on with the same ones."""

    def __init__(self) -> None:
        self.ended: dict[str, dict[Chair, tuple[str, TeamSession]]] = defaultdict(dict)
        """By team: where its last finished bead ended, and when."""
        self.counted: dict[str, Usage] = {}
        """By session: what its program counted last, whichever bead of the team that was for."""
        self.awaited: dict[str, str] = {}
        """By bead that is ready: the one that its team is at work on."""

    def begin(self, beads: Sequence[Bead]) -> None:
        """Look at the teams that have more than one bead; most have not."""
        sizes = Counter(bead.metadata.team_name for bead in beads)
        for bead in beads:
            if sizes[bead.metadata.team_name] > 1:
                self.note(bead, bead.metadata, finished=bead.status == "closed")

    def note(self, bead: Bead, state: RunState, *, finished: bool) -> None:
        """A bead's calls so far. Others go on only with those of a bead that is done: what one is stuck with
        should not stick to the next."""
        team = self.ended[bead.metadata.team_name]
        for call in state.dev_calls:
            if session := self._counted(call):
                chair = (call.role, call.seat, call.agent, call.program)
                before, _ = team.get(chair, ("", None))
                if finished and call.started_at >= before:
                    team[chair] = call.started_at, _ended(bead, call, session)

    def _counted(self, call: DevCall) -> Session | None:
        session = call.session
        if session is None or call.trouble == "forgotten":
            return None
        self.counted[session.id] = session.counted.at_least(self.counted.get(session.id, UNKNOWN))
        return session

    def before(self, bead: Bead) -> tuple[TeamSession, ...]:
        """What the team's other beads left for this one, the latest last."""
        found = sorted(self.ended.get(bead.metadata.team_name, {}).values(), key=lambda one: one[0])
        return tuple(
            replace(one, session=replace(one.session, counted=self.counted[one.session.id]))
            for _, one in found
            if one.bead != bead.id
        )

    def own(self, bead: Bead) -> tuple[Session, ...]:
        """Sessions of the bead in which others of its team have worked since."""
        ids = dict.fromkeys(call.session_id for call in bead.metadata.dev_calls if call.session_id)
        return tuple(Session(name, self.counted[name]) for name in ids if name in self.counted)

    # --- one at a time ------------------------------------------------------------------------------

    def at_work(self, bead: Bead, running: Iterable[Bead]) -> Bead | None:
        """The bead that its team is at work on; nothing else holds a team."""
        team = bead.metadata.team_name
        return next((other for other in running if other.metadata.team_name == team), None)

    def awaits(self, bead: Bead, other: Bead) -> bool:
        """Note that a bead waits for another; False where that was told already."""
        new = self.awaited.get(bead.id) != other.id
        self.awaited[bead.id] = other.id
        return new


def _ended(bead: Bead, call: DevCall, session: Session) -> TeamSession:
    return TeamSession(
        bead=bead.id,
        title=bead.title,
        role=call.role,
        seat=call.seat,
        agent=call.agent,
        program=call.program,
        session=replace(session, of=session.of or bead.id),
        cwd=call.cwd or bead.metadata.worktree_path,
        last_words=call.last_words,
    )
