"""What a session remembers of a bead, as the bead's run state keeps it."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from beads_ralph.agents.faults import FAULTS
from beads_ralph.agents.protocol import Reply
from beads_ralph.agents.verdicts import Judgement
from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import AgentCall, DevCall, QACall
from beads_ralph.bead.evidence import Verdict
from beads_ralph.bead.findings import Finding, open_after
from beads_ralph.bead.model import Bead
from beads_ralph.bead.personas import with_sessions, without_sessions
from beads_ralph.bead.redaction import redact
from beads_ralph.bead.run_state import (
    DevExecution,
    LastVerdict,
    OpenFinding,
    Proof,
    QAExecution,
    QAResult,
    RunState,
    ScrumResult,
    Spending,
    StageReached,
)
from beads_ralph.bead.stages import Reached, Review
from beads_ralph.bead.usage import Usage
from beads_ralph.forge.protocol import PullRequest
from beads_ralph.session.agent_calls import Answered

LAST_WORDS = 1000


def _last_words(reply: Reply) -> str:
    """The agent's own; a program that says its fault in their place has said nothing of the work."""
    is_fault = reply.trouble in FAULTS and bool(reply.detail) and reply.text.startswith(reply.detail)
    return "" if is_fault else reply.text


@dataclass
class BeadHistory:
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
    findings: list[Finding] = field(default_factory=list)
    """Those that are open."""
    reached: Reached | None = None
    """The stages of the attempt without a verdict."""
    proven: str | None = None
    red_before: dict[str, bool] | None = None
    """Which verifiers failed before any work was done; None where nobody has looked yet."""
    tests_before: dict[str, Any] | None = None
    """By verifier, the tests that runners told of then."""
    read_by_checks: list[str] | None = None
    """Files that the verifiers opened then, and that are theirs."""
    spent: Usage = field(default_factory=Usage)
    """By all sessions on this bead since it was last forgiven."""
    usage: Usage = field(default_factory=Usage)
    """By this session alone."""
    seconds_before: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, bead: Bead, session_id: str) -> BeadHistory:
        """Goes on where the bead's run state ends."""
        state = bead.metadata
        return cls(
            bead,
            session_id,
            state.attempt_count,
            state.attempt_count,
            state.attempts_forgiven or 0,
            state.dev_calls,
            state.qa_calls,
            findings=state.findings,
            reached=_reached(bead),
            proven=_proven(bead),
            red_before=state.red_before,
            tests_before=state.tests_before,
            read_by_checks=state.read_by_checks,
            spent=state.usage,
            seconds_before=float((state.spent and state.spent.seconds) or 0.0),
        )

    def begin_anew(self) -> None:
        """What was proven is asked for again: somebody opened the bead, or the work is not there any more."""
        self.proven, self.forgiven, self.reached = None, self.attempts, None

    @property
    def counted(self) -> int:
        """The attempts that count against the bead's maximum."""
        return self.attempts - self.forgiven

    @property
    def was_given(self) -> bool:
        """Whether anybody was ever asked to do the tasks: merging alone is not doing them."""
        return any(call.role != "merge" for call in self.dev)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.began

    @property
    def last_verdict(self) -> Verdict | None:
        """The verdict of this session, else that of an earlier one."""
        return self.verdict or self.bead.metadata.verdict

    @property
    def feedback(self) -> str | None:
        """What a developer is told before it tries again; None where nobody has found anything."""
        last = self.last_verdict
        said = [last.message] if last is not None and last.ruling != "pass" else []
        return "\n\n".join([*said, *(one.text for one in self.findings)]) or None

    def judge(self, attempt: int, verdict: Verdict) -> None:
        """An attempt has its verdict."""
        self.attempts, self.verdict, self.reached = attempt, verdict, None
        self.findings = open_after(self.findings, verdict, attempt)
        self.proven = verdict.evidence[0].commit if verdict.ruling == "pass" else None

    @property
    def stages(self) -> Reached:
        """How far the next attempt has come."""
        return self.reached or Reached(self.attempts + 1, subject_of(self.bead))

    def note_developed(self, seat: int, commit: str | None) -> None:
        """A developer has done its part of the next attempt."""
        self.reached = self.stages.developed(seat, commit)

    def note_reviewed(self, review: Review) -> None:
        self.reached = self.stages.reviewed(review)

    def forget_reviews(self) -> None:
        """What reviewers have said so far is worth nothing."""
        self.reached = replace(self.stages, reviews=())

    def add_dev(self, done: Answered, feedback: str | None) -> None:
        self.dev.append(DevCall.of(done.call, feedback, redact(_last_words(done.reply))[-LAST_WORDS:]))
        self.add_usage(done.call.usage)

    def add_qa(self, call: AgentCall, commit: str, judged: Judgement) -> None:
        self.qa.append(QACall.of(call, judged.ruling, judged.message, judged.details, commit))
        self.add_usage(call.usage)

    def add_usage(self, more: Usage) -> None:
        self.spent, self.usage = self.spent + more, self.usage + more

    def state(self) -> RunState:
        """What the store keeps after each attempt."""
        return RunState(
            attempt_count=self.attempts,
            attempts_forgiven=self.forgiven,
            scrum_master_session_id=self.session_id,
            dev_agent_session_id=self.dev[-1].session_id if self.dev else None,
            dev_agent_executions=[DevExecution.made(**call.to_row()) for call in self.dev],
            qa_agent_executions=self._qa_rows(),
            last_verdict=self._kept_verdict(),
            open_findings=[OpenFinding.made(**json_fields.to_json(one)) for one in self.findings],
            unreviewed=None,
            reached=StageReached.made(**json_fields.to_json(self.reached)) if self.reached else None,
            proven=Proof(commit=self.proven, of=subject_of(self.bead)) if self.proven else None,
            red_before=self.red_before,
            tests_before=self.tests_before,
            read_by_checks=self.read_by_checks,
            spent=Spending(**asdict(self.spent), seconds=round(self.seconds, 3)),
            parked=None,
        )

    def result(
        self, *, success: bool, error: str | None, fatal: bool, pull: PullRequest | None
    ) -> ScrumResult:
        """The seed's ScrumResult."""
        judged = [call.to_row() for call in self.qa if call.attempt == self.attempts]
        return ScrumResult.made(
            bead_id=self.bead.id,
            success=success,
            pr_url=pull.url if pull else None,
            pr_number=pull.number if pull else None,
            bead_updated=True,
            attempt_count=self.attempts,
            qa_results=[{key: row[key] for key in QAResult.model_fields} for row in judged],
            error=error,
            fatal=fatal,
        )

    def _qa_rows(self) -> list[QAExecution]:
        return [QAExecution.made(**call.to_row()) for call in self.qa]

    def _kept_verdict(self) -> LastVerdict | None:
        """That of an earlier session stays as it is."""
        known = self.bead.metadata.last_verdict
        return LastVerdict.made(**self.verdict.to_json()) if self.verdict else known


# --- what was proven ----------------------------------------------------------------------------------


def subject_of(bead: Bead) -> str:
    """A hash of what the bead asks for: a proof of other tasks or other checks proves nothing."""
    keys = ("dev_prompts", "acceptance_criteria", "dod", "qa_agents", "branches_to_merge")
    asked = without_sessions(bead.metadata.to_json())
    text = json.dumps([asked.get(key) for key in keys], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _reached(bead: Bead) -> Reached | None:
    """Where the next attempt is one that was begun before, at what the bead still asks for."""
    found = bead.metadata.stages
    goes_on = found and (found.attempt, found.of) == (bead.metadata.attempt_count + 1, subject_of(bead))
    return found if goes_on else None


def _proven(bead: Bead) -> str | None:
    proof = bead.metadata.proven
    return proof.commit if proof and proof.of == subject_of(bead) else None


def metadata_of(bead: Bead, state: RunState) -> dict[str, Any]:
    """The metadata that holds the state: its own keys, and in the bead's agents the last session of each."""
    known = {(call.role, call.seat): call.session_id for call in state.calls if call.session_id}
    before = bead.metadata.to_json()
    agents = with_sessions(before, lambda does, seat, last: known.get((does, seat), last))
    return state.to_metadata() | {key: said for key, said in agents.items() if said != before[key]}
