"""Gates: checks of the repository as a whole. While one is red, no feature starts.

A gate is a bead of the store with the label `gate`, or a bead file in `.ralph/gates/`. Green, it is closed;
red again, it is open again. A gate that waits for other beads holds nobody up: they could not start.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.model import Bead, Verifier
from beads_ralph.bead.redaction import redacted
from beads_ralph.bead.run_state import CheckResult, GateOverride, RunState
from beads_ralph.bead.words import utc_text
from beads_ralph.config.model import Config
from beads_ralph.dod import files as bead_files
from beads_ralph.dod.files import BeadFile
from beads_ralph.dod.imports import is_gate
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.files.text_files import RALPH_DIR, ralph_dir
from beads_ralph.git import commands, proofs
from beads_ralph.journal import runs
from beads_ralph.journal.events import GateChecked
from beads_ralph.process.calls import in_thread
from beads_ralph.session import verify
from beads_ralph.session.verifier_world import CheckPlace, VerifierWorld
from beads_ralph.session.verify import Bench, Subject
from beads_ralph.store.protocol import Changes, Findings, Store
from beads_ralph.store.query import ItemQuery, Query

FOLDER: Final = "gates"
LAST: Final = "gate-checks.json"
OVERRIDE: Final = "gate_override"
"""In the `ralph_meta` of a bead file; a bead of a store has it in its run state."""
CHECKS: Final = "gate-runs"
BEING_CHECKED: Final = "the gates are being checked"
LOOK_SECONDS: Final = 0.2
Colour = Literal["green", "red", "waiting"]


@dataclass(frozen=True)
class Gate:
    """One gate, as it is known now."""

    key: str
    title: str
    colour: Colour
    reason: str
    """Why it is red, or what it waits for."""
    verifiers: tuple[Verifier, ...]
    file: BeadFile | None = None
    bead: Bead | None = None
    source: str = ""
    """The bead's id in the store, or the path of its file."""
    override: Mapping[str, Any] | None = None
    """Who lets features start although it is red, and since when."""
    checked_at: str | None = None

    @property
    def holds(self) -> bool:
        return self.colour == "red" and not self.override

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.key,
            "title": self.title,
            "kind": "store" if self.bead is not None else "file",
            "source": self.source,
            "colour": self.colour,
            "reason": self.reason,
            "override": dict(self.override) if self.override else None,
            "checked_at": self.checked_at,
            "verifiers": [verifier.name for verifier in self.verifiers],
        }


# --- what there is --------------------------------------------------------------------------------------


def find(root: Path, store: Store | None) -> list[Gate]:
    """Every gate: those of the store, by priority, then the files, by name."""
    beads = store.find(Query()).beads if store is not None else ()
    return known(root, beads, store)


def known(root: Path, beads: Iterable[Bead], store: Store | None) -> list[Gate]:
    """The gates among beads that were looked up already, and the files."""
    last = _last(root)
    everything = list(beads)
    closed = {bead.id for bead in everything if bead.status == "closed"} | _items_closed(everything, store)
    found = [_of_bead(bead, closed, last.get(bead.id)) for bead in everything if is_gate(bead)]
    folder = root / RALPH_DIR / FOLDER
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return found + [_of_file(path, root, last) for path in paths]


def _items_closed(beads: Sequence[Bead], store: Store | None) -> set[str]:
    """Of what gates wait for and what is no bead; asked for only where there is such a thing."""
    ids = {bead.id for bead in beads}
    others = {name for bead in beads if is_gate(bead) for name in bead.dependencies if name not in ids}
    if store is None or not others:
        return set()
    return {item.id for item in store.items.find(ItemQuery(ids=sorted(others), statuses=["closed"]))}


def _of_bead(bead: Bead, closed: set[str], last: Mapping[str, Any] | None) -> Gate:
    waits = [name for name in bead.dependencies if name not in closed]
    said = dict(last or {})
    override = bead.metadata.gate_override
    colour: Colour = "green" if bead.status == "closed" else "waiting" if waits else "red"
    reasons = {
        "green": "",
        "waiting": f"waits for {', '.join(waits)}",
        "red": said.get("reason") or "was not checked yet",
    }
    return Gate(
        key=bead.id,
        title=bead.title,
        colour=colour,
        reason=reasons[colour],
        verifiers=tuple(bead.metadata.dod.verifiers) if bead.metadata.dod else (),
        bead=bead,
        source=bead.id,
        override=override.to_json() if override else None,
        checked_at=said.get("checked_at"),
    )


def _of_file(path: Path, root: Path, last: Mapping[str, Any]) -> Gate:
    """A gate that cannot be read is red: nobody knows what it would have said."""
    source = path.relative_to(root).as_posix()
    try:
        found = bead_files.read(path)
    except RalphError as error:
        return Gate(
            key=bead_files.key_of(path.stem),
            title=path.stem,
            colour="red",
            reason=f"cannot be read: {error.message}",
            verifiers=(),
            source=source,
        )
    said = dict(last.get(found.key) or {})
    green = found.bead.status == "completed"
    return Gate(
        key=found.key,
        title=found.bead.name,
        colour="green" if green else "red",
        reason="" if green else said.get("reason") or "was not checked yet",
        verifiers=tuple(found.bead.verifiers()),
        file=found,
        source=source,
        override=_mapping(found.meta.get(OVERRIDE)),
        checked_at=said.get("checked_at"),
    )


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) and value else None


def _last(root: Path) -> dict[str, Any]:
    """What the last checks said. The store and the files say which gate is red; this says since when."""
    try:
        said = json.loads((root / RALPH_DIR / LAST).read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: row for key, row in said.items() if isinstance(row, dict)} if isinstance(said, dict) else {}


# --- one at a time --------------------------------------------------------------------------------------


def home_of(root: Path) -> Path:
    """Where checks by hand leave what they did, and the lock of all checks lies."""
    home = ralph_dir(root) / CHECKS
    text_files.make_folder(home)
    return home


@asynccontextmanager
async def alone(root: Path, run_id: str, waits: Callable[[str], None]) -> AsyncIterator[bool]:
    """Nobody else checks gates here meanwhile; whether somebody did, so that what was known of them is old.
    `waits` is told once who it is that is waited for."""
    home, waited = home_of(root), False
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(runs.exclusive(home, run_id, BEING_CHECKED, patience=0))
                break
            except RalphError as error:
                if error.code != Code.CONFLICT:
                    raise
                if not waited:
                    waits(error.message)
            waited = True
            await asyncio.sleep(LOOK_SECONDS)
        yield waited


# --- checking -------------------------------------------------------------------------------------------


@dataclass
class Checker:
    """Runs the verifiers of gates, and puts down what they say."""

    root: Path
    config: Config
    bench: Bench
    store: Store | None
    actor: str
    warn: Callable[[str], None] = field(default=lambda _text: None)
    world: VerifierWorld | None = None
    """How checks in clean checkouts find the machine; None where they have it as it is."""

    async def check(self, gates: Sequence[Gate]) -> list[Gate]:
        """One after the other, since two may want the same port; each as it is afterwards."""
        able = any(gate.colour != "waiting" and gate.verifiers for gate in gates)
        if able and self.config.gate_checkout and commands.find(self.root) is not None:
            done = await self._check_clean(gates)
        else:
            commit = await in_thread(commands.commit_of, "HEAD", self.root) or ""
            done = [await self._one(gate, self.root, commit, self.bench) for gate in gates]
        await in_thread(self._remember, done)
        return done

    async def _check_clean(self, gates: Sequence[Gate]) -> list[Gate]:
        commit = await in_thread(self._source_commit)
        place = self._clean_place(commit, gates)
        where, bench, unfit = await in_thread(place.__enter__)
        try:
            return [await self._one(gate, where, commit, bench, unfit) for gate in gates]
        finally:
            await in_thread(place.__exit__, None, None, None)

    @contextmanager
    def _clean_place(
        self, commit: str, gates: Sequence[Gate]
    ) -> Iterator[tuple[Path, Bench, Sequence[Evidence]]]:
        """A clean checkout, the bench for it, and what keeps it from being worth anything."""
        ours = proofs.at(self.root)
        with ours.checkout(commit) as clean, ExitStack() as opened:
            if self.world is None:
                yield clean.path, self.bench, ()
                return
            words = [verifier.command for gate in gates for verifier in gate.verifiers]
            place = CheckPlace(clean.path, self.root, "", words, ours.path / "objects")
            found = opened.enter_context(self.world.around(place))()
            yield clean.path, found.bench(self.bench, self.config), found.unfit(commit)

    def _source_commit(self) -> str:
        branch = self.config.plan.source_branch or "HEAD"
        return commands.output("rev-parse", "--verify", f"{branch}^{{commit}}", cwd=self.root)

    async def _one(
        self, gate: Gate, place: Path, commit: str, bench: Bench, unfit: Sequence[Evidence] = ()
    ) -> Gate:
        if gate.colour == "waiting":
            return gate
        if not gate.verifiers:
            text = f"{gate.source} has no verifiers, so nothing can turn it green"
            return replace(gate, colour="red", reason=gate.reason or text)
        subject = Subject(gate.key, 0, place, commit, label="gate")
        rows = redacted(list(unfit) or await verify.run_verifiers(gate.verifiers, subject, bench))
        verdict = verify.verdict(rows)
        event = GateChecked(
            bead=gate.key,
            ruling=verdict.ruling,
            message=_reason(verdict),
            commit=commit,
            source=gate.source,
        )
        self.bench.events.emit(event)
        return await in_thread(self._settle, gate, verdict, rows)

    def _settle(self, gate: Gate, verdict: Verdict, rows: Sequence[Evidence]) -> Gate:
        now = utc_text(datetime.now(UTC))
        green = verdict.ruling == "pass"
        results = [row.to_json() for row in rows]
        if gate.bead is not None and self.store is not None:
            self._settle_bead(gate.bead, verdict, results)
        elif gate.file is not None:
            self._settle_file(gate.file, results, now, green=green)
        return replace(
            gate,
            colour="green" if green else "red",
            reason="" if green else _reason(verdict),
            override=None if green else gate.override,
            checked_at=now,
        )

    def _settle_bead(self, bead: Bead, verdict: Verdict, results: list[dict[str, Any]]) -> None:
        """Closed when green, opened when red again; what does not change is not written."""
        assert self.store is not None  # noqa: S101 - for the type checker
        found = RunState(gate_results=[CheckResult.made(**row) for row in results])
        try:
            if verdict.ruling == "pass" and bead.status != "closed":
                self._close(self.store, bead, verdict.message, found)
            elif verdict.ruling != "pass" and bead.status == "closed":
                changes = Changes(status="open", metadata=found.to_metadata(), expected_status="closed")
                self.store.update(bead.id, changes)
                self.store.comment(bead.id, self.actor, f"Red again: {_reason(verdict)}")
        except RalphError as error:
            if error.code not in (Code.CONFLICT, Code.BEAD_NOT_FOUND):
                raise
            self.warn(f"gate {bead.id} was not written: {error.message}")

    def _close(self, store: Store, bead: Bead, reason: str, found: RunState) -> None:
        if bead.status == "blocked":
            store.update(bead.id, Changes(status="open", expected_status="blocked"))
        claim = store.claim(bead.id, self.actor)
        if not claim.won:
            self.warn(f"gate {bead.id} is green, but cannot be closed: {claim.refusal}")
            return
        kept = found.changed(RunState(gate_override=None))
        store.close(bead.id, self.actor, f"green: {reason}", Findings(kept.to_metadata()))

    def _settle_file(self, found: BeadFile, results: list[dict[str, Any]], now: str, *, green: bool) -> None:
        status = "completed" if green else "pending"
        if found.bead.status == status:
            return
        said: dict[str, Any] = {"verifier_results": results, "last_attempt": now}
        if green:
            said[OVERRIDE] = None
        found.save(self.root / RALPH_DIR / FOLDER / "changed", status=status, **said)

    def _remember(self, gates: Iterable[Gate]) -> None:
        said = _last(self.root)
        for gate in gates:
            if gate.checked_at:
                said[gate.key] = {
                    "checked_at": gate.checked_at,
                    "colour": gate.colour,
                    "reason": gate.reason,
                }
        text_files.write_text(
            self.root / RALPH_DIR / LAST, json.dumps(said, indent=2, ensure_ascii=False) + "\n"
        )

    # --- overriding ---------------------------------------------------------------------------------

    def override(self, gates: Iterable[Gate], by: str, *, lasting: bool) -> list[Gate]:
        """Let features start although these are red, and put down who did. Lasting until it is green."""
        return [self._overridden(gate, by, lasting=lasting) if gate.holds else gate for gate in gates]

    def _overridden(self, gate: Gate, by: str, *, lasting: bool) -> Gate:
        note = {"by": by, "at": utc_text(datetime.now(UTC)), "reason": gate.reason}
        text = f"Overridden by {by} although red: {gate.reason}"
        if gate.bead is not None and self.store is not None:
            if lasting:
                kept = RunState(gate_override=GateOverride(**note))
                self.store.update(gate.bead.id, Changes(metadata=kept.to_metadata()))
            self.store.comment(gate.bead.id, self.actor, text)
        elif gate.file is not None:
            told = gate.file.meta.get("overrides")
            said: dict[str, Any] = {"overrides": [*(told if isinstance(told, list) else []), note]}
            said |= {OVERRIDE: note} if lasting else {}
            gate.file.save(self.root / RALPH_DIR / FOLDER / "changed", **said)
        return replace(gate, override=note)


def _reason(verdict: Verdict) -> str:
    failed = [f"{row.name}: {row.message}" for row in verdict.evidence if row.ruling != "pass"]
    return "; ".join(failed) or verdict.message
