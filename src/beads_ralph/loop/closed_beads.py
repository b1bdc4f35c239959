"""Closed needs a proof: which closed beads count as done, and what becomes of the others."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from beads_ralph.bead.model import Bead
from beads_ralph.dod.imports import is_gate
from beads_ralph.journal.proofs import Ledger, LedgerRow
from beads_ralph.session.history import subject_of

Trust = Literal["proven", "accepted", "unproven"]
BY_HAND = "closed without a proof"
ACTION = "beads-ralph accept {bead} if the work is done, or beads-ralph retry {bead}"


def trust(bead: Bead, row: LedgerRow | None, *, before: bool) -> tuple[Trust, str]:
    """How far a closed bead may be trusted, and why not further. `before`: it was closed when the run
    began, so that no agent of the run did it."""
    proof = bead.metadata.proven
    if row is not None and row.kind == "accepted":
        return "accepted", ""
    if row is not None and row.kind == "proven" and (proof is None or proof.commit == row.commit):
        return "proven", ""
    if row is None and before and proof is not None and proof.commit and proof.of == subject_of(bead):
        return "proven", ""  # by another machine, or by a version without a ledger
    if proof is None or not proof.commit or (row is not None and row.kind == "reopened"):
        return "unproven", BY_HAND
    if row is not None:
        return "unproven", f"its proof names {proof.commit[:12]}, but {row.commit[:12]} was proven"
    return "unproven", "its proof was not made by this run"


def is_proven(bead: Bead, row: LedgerRow | None) -> bool:
    """As far as can be seen while no run is on."""
    return bead.status == "closed" and trust(bead, row, before=True)[0] == "proven"


def asked_of(bead: Bead) -> str:
    """A hash of the work, of where it is done, and of what it waits for."""
    place = bead.metadata
    parts = [
        subject_of(bead),
        place.branch,
        place.source_branch,
        place.worktree_path,
        sorted(bead.dependencies),
        sorted(place.may_change or ()),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class ClosedBeads:
    """The closed beads of a store, as far as they can be trusted."""

    ledger: Ledger
    trusted: set[str] = field(default_factory=set)
    unproven: dict[str, str] = field(default_factory=dict)
    """Closed, but not done; with the reason."""
    begun_with: dict[str, str] = field(default_factory=dict)
    """The proofs of the beads that were closed when the run began, before any agent of it was at work."""
    resumed: dict[str, str] = field(default_factory=dict)
    """The same of open beads: an earlier run was killed before it closed them."""
    asked: dict[str, str] = field(default_factory=dict)
    """Hashes of what the open beads asked for when the run began."""
    reopened: Counter[str] = field(default_factory=Counter)
    seen: tuple[int, int] = (-1, -1)

    def begin(self, beads: Sequence[Bead]) -> None:
        for bead in beads:
            proof = bead.metadata.proven
            if bead.status != "closed":
                self.asked[bead.id] = asked_of(bead)
            if proof is not None and proof.commit:
                (self.begun_with if bead.status == "closed" else self.resumed)[bead.id] = proof.commit

    def is_as_it_was(self, bead: Bead) -> bool:
        """Whether an open bead asks for what it asked for when the run began. Agents can write to a store;
        what they ask for there, nobody has asked for."""
        return self.asked.get(bead.id) in (None, asked_of(bead))

    def examine(self, beads: Iterable[Bead]) -> list[Bead]:
        """Sort closed beads into trusted and unproven; those that are newly found unproven."""
        rows = self.ledger.rows()
        fresh = []
        for bead in beads:
            if is_gate(bead) or bead.status != "closed":
                self.forget(bead.id)
                continue
            proof = bead.metadata.proven
            before = proof is not None and self.begun_with.get(bead.id) == proof.commit
            found, why = trust(bead, rows.get(bead.id), before=before)
            if found == "unproven":
                if bead.id not in self.unproven:
                    fresh.append(bead)
                self.trusted.discard(bead.id)
                self.unproven[bead.id] = why
            else:
                self.unproven.pop(bead.id, None)
                self.trusted.add(bead.id)
        return fresh

    def reopen(self, bead_id: str) -> None:
        self.reopened[bead_id] += 1
        self.ledger.reopen(bead_id)
        self.forget(bead_id)

    def forget(self, bead_id: str) -> None:
        self.trusted.discard(bead_id)
        self.unproven.pop(bead_id, None)

    def prove(self, bead_id: str, commit: str, run_id: str) -> None:
        """Note a proof. It stands in the ledger before the store says closed."""
        self.ledger.prove(bead_id, commit, run_id)
        self.trusted.add(bead_id)

    def accept(self, bead_id: str, reason: str) -> None:
        """Take a close as a person's word."""
        self.ledger.accept(bead_id, "", reason)
        self.unproven.pop(bead_id, None)
        self.trusted.add(bead_id)

    def accepted_since(self) -> bool:
        """Whether somebody has written to the ledger since the last look."""
        seen, self.seen = self.seen, self.ledger.changed()
        return seen != self.seen

    def blocked(self) -> dict[str, str]:
        """What a person should be told about each closed bead that is not done."""
        return {name: f"{why}: {ACTION.format(bead=name)}" for name, why in self.unproven.items()}
