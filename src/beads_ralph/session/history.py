"""What a session remembers of a bead, as the bead's metadata keeps it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beads_ralph.agents.verdicts import Judgement
from beads_ralph.bead.agent_call import AgentCall, DevCall, QACall
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.model import Bead
from beads_ralph.bead.personas import with_sessions, without_sessions
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.forge.protocol import PullRequest
from beads_ralph.session.agent_calls import Answered

LAST_WORDS = 1000


@dataclass
class Record:
    """The history of a bead's attempts; grows as they end."""

    bead: Bead
    session_id: str
    attempts: int = 0
    """All that were ever judged; those of this session are the ones after `before`."""
    before: int = 0
    forgiven: int = 0
    """So many do not count against the bead any more: somebody has opened it again since."""
    dev: list[DevCall] = field(default_factory=list)
    qa: list[QACall] = field(default_factory=list)
    verdict: Verdict | None = None
    proven: str | None = None
    red_before: dict[str, bool] | None = None
    """Which verifiers failed before any work was done; None where nobody has looked yet."""
    spent: Usage = field(default_factory=Usage)
    """By all sessions on this bead since it was last forgiven."""
    usage: Usage = field(default_factory=Usage)
    """By this session alone."""
    seconds_before: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, bead: Bead, session_id: str) -> Record:
        """Goes on where the bead's metadata ends."""
        said = bead.metadata.to_json()
        spent = said.get("spent") or {}
        return cls(
            bead,
            session_id,
            bead.metadata.attempt_count,
            bead.metadata.attempt_count,
            int(said.get("attempts_forgiven") or 0),
            [DevCall.from_row(row) for row in said.get("dev_agent_executions") or ()],
            [QACall.from_row(row) for row in said.get("qa_agent_executions") or ()],
            proven=_proven(said),
            red_before=said.get("red_before"),
            spent=Usage(**{name: spent.get(name) for name in COUNTS}),
            seconds_before=float(spent.get("seconds") or 0.0),
        )

    def begin_anew(self) -> None:
        """What was proven is asked for again: somebody opened the bead, or the work is not there any more."""
        self.proven, self.forgiven = None, self.attempts

    @property
    def counted(self) -> int:
        """The attempts that count against the bead's maximum."""
        return self.attempts - self.forgiven

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.began

    def add_dev(self, done: Answered, feedback: str | None) -> None:
        self.dev.append(DevCall.of(done.call, feedback, done.reply.text[-LAST_WORDS:]))
        self.add_usage(done.call.usage)

    def add_qa(self, call: AgentCall, commit: str, judged: Judgement) -> None:
        self.qa.append(QACall.of(call, judged.ruling, judged.message, judged.details, commit))
        self.add_usage(call.usage)

    def add_usage(self, more: Usage) -> None:
        self.spent, self.usage = self.spent + more, self.usage + more

    def metadata(self) -> dict[str, Any]:
        """What the store keeps after each attempt."""
        return {
            "attempt_count": self.attempts,
            "attempts_forgiven": self.forgiven,
            "scrum_master_session_id": self.session_id,
            "dev_agent_session_id": self.dev[-1].session_id if self.dev else None,
            "dev_agent_executions": [call.to_row() for call in self.dev],
            "qa_agent_executions": [call.to_row() for call in self.qa],
            **self._agents(),
            "last_verdict": verdict_json(self.verdict) or self.bead.metadata.to_json().get("last_verdict"),
            "proven": {"commit": self.proven, "of": subject_of(self._said)} if self.proven else None,
            "red_before": self.red_before,
            "spent": {name: getattr(self.spent, name) for name in COUNTS}
            | {"seconds": round(self.seconds, 3)},
            "parked": None,
        }

    def _agents(self) -> dict[str, Any]:
        """Those of the bead's agents that were in another session since; each with the last of them."""
        known = {(call.role, call.seat): call.session_id for call in (*self.dev, *self.qa) if call.session_id}
        agents = with_sessions(self._said, lambda does, seat, before: known.get((does, seat), before))
        return {key: said for key, said in agents.items() if said != self._said[key]}

    @property
    def _said(self) -> dict[str, Any]:
        return self.bead.metadata.to_json()

    def result(
        self, *, success: bool, error: str | None, fatal: bool, pull: PullRequest | None
    ) -> dict[str, Any]:
        """The seed's ScrumResult."""
        return {
            "bead_id": self.bead.id,
            "success": success,
            "pr_url": pull.url if pull else None,
            "pr_number": pull.number if pull else None,
            "bead_updated": True,
            "attempt_count": self.attempts,
            "qa_results": [
                {key: call.to_row()[key] for key in ("agent_path", "status", "message", "details")}
                for call in self.qa
                if call.attempt == self.attempts
            ],
            "error": error,
            "fatal": fatal,
        }


# --- what was proven ----------------------------------------------------------------------------------


def subject_of(metadata: Mapping[str, Any]) -> str:
    """A hash of what the bead asks for: a proof of other tasks or other checks proves nothing."""
    keys = ("dev_prompts", "acceptance_criteria", "dod", "qa_agents", "branches_to_merge")
    asked = without_sessions(metadata)
    text = json.dumps([asked.get(key) for key in keys], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _proven(metadata: Mapping[str, Any]) -> str | None:
    said = metadata.get("proven") or {}
    return said.get("commit") if said.get("of") == subject_of(metadata) else None


def last_feedback(metadata: Mapping[str, Any]) -> str | None:
    """What an earlier session found: a bead that comes back is told why it came back."""
    said = metadata.get("last_verdict") or {}
    if said.get("ruling") != "fail":
        return None
    known = Evidence.__dataclass_fields__
    rows = [Evidence(**{key: row[key] for key in known if key in row}) for row in said.get("evidence", ())]
    return Verdict("fail", str(said.get("message", "")), rows).feedback


def verdict_json(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "ruling": verdict.ruling,
        "message": verdict.message,
        "flags": list(verdict.flags),
        "evidence": [row.to_json() for row in verdict.evidence],
    }
