"""Figures into advice: each piece with what it rests on, how sure it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.words import plural
from beads_ralph.report import too_large
from beads_ralph.report.better_model import Preference, preferences
from beads_ralph.report.comparing import chance_below
from beads_ralph.report.figures import CONFIDENT_USES, FINISHED, Rate, RunGroup, money_text
from beads_ralph.report.tally import UNKNOWN, Tally, Whole, per_hour, ranked

TARGET_PERCENT: Final = 70
RETRY_PERCENT: Final = 30
AGENT_PERCENT: Final = 60
RUNS_NEEDED: Final = 3
AGENT_RUNS_NEEDED: Final = 2
POINTS_NEEDED: Final = 4
"""More than three: fewer are no pattern."""
AVOID_PERCENT: Final = 50
FASTER: Final = 1.1
MOST_NAMED: Final = 5
MOST_BEADS: Final = 50
NOT_YET: Final = "more-data"
FAILED: Final = ("failed", "timeout")


@dataclass(frozen=True)
class Advice:
    """One recommendation."""

    rule: str
    text: str
    runs: int
    """On how many runs it rests; attempts or calls where `evidence` says so."""
    evidence: Mapping[str, Any]
    confidence: float | None = None
    """In per cent, that it is so and not chance; None where it only tells what was counted."""
    beads: Sequence[str] = ()
    """Those that it rests on; of advice about failures, those that failed."""
    follow: str = ""
    """The command or the setting that follows it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "text": self.text,
            "runs": self.runs,
            "evidence": dict(self.evidence),
            "confidence": self.confidence,
            "beads": list(self.beads[:MOST_BEADS]),
            "beads_in_all": len(self.beads),
            "follow": self.follow,
        }


def advice(tally: Tally) -> list[Advice]:
    """All that the figures give reason for; one sentence where there is nothing to fix."""
    found = [piece for rule in RULES for piece in rule(tally)]
    if all(piece.rule == NOT_YET for piece in found):
        rate = tally.runs.success_rate
        text = "All within range: go on, and look again later." if rate.of else "No finished run yet."
        found.insert(0, Advice("all-within-range", text, rate.of, {"success_rate": rate.percent}))
    return found


def sure(chance: float) -> float:
    """A chance of being wrong as confidence, in per cent; never quite 100."""
    return min(round(100 * (1 - chance), 1), 99.9)


def _below(rate: Rate, percent: float) -> float:
    return sure(1 - chance_below(rate.hits, rate.of, percent / 100))


def _beads(tally: Tally, wanted: Callable[[Whole], bool]) -> list[str]:
    return sorted(name for name, whole in tally.beads.items() if wanted(whole))


def _look_at(beads: Sequence[str]) -> str:
    return f"beads-ralph logs {beads[0]}" if beads else ""


# --- the rules of the seed --------------------------------------------------------------------------


def _success(tally: Tally) -> Iterator[Advice]:
    rate = tally.runs.success_rate
    if rate.of >= RUNS_NEEDED and 100 * rate.hits < TARGET_PERCENT * rate.of:
        text = (
            f"The success rate, {rate}, is below {TARGET_PERCENT} %. "
            "Look at the prompts, and at how the work is cut into beads."
        )
        beads = _beads(tally, lambda whole: whole.outcome in FAILED)
        sure_ = _below(rate, TARGET_PERCENT)
        yield Advice("success-rate", text, rate.of, _rated(tally.runs), sure_, beads, _look_at(beads))


def _retries(tally: Tally) -> Iterator[Advice]:
    rate = tally.runs.retry_rate
    if rate.of >= RUNS_NEEDED and 100 * rate.hits > RETRY_PERCENT * rate.of:
        text = (
            f"More than {RETRY_PERCENT} % of the runs needed a retry: {rate}. "
            "Say more in the tasks and the context, so that the first attempt can succeed."
        )
        flaky = [seen.name for seen in tally.verifiers.flaky]
        if flaky:
            text += f" But first fix the flaky checks, which send good work back: {', '.join(flaky)}."
        evidence = {"retry_rate": rate.percent, "interval": rate.interval, "retried": rate.hits}
        beads = _beads(tally, lambda whole: whole.outcome in FINISHED and whole.attempts > 1)
        sure_ = _below(Rate(rate.of - rate.hits, rate.of), 100 - RETRY_PERCENT)
        yield Advice("retry-rate", text, rate.of, evidence, sure_, beads, _look_at(beads))


def _agents(tally: Tally) -> Iterator[Advice]:
    """Every weak agent by itself."""
    for name, group in tally.by("agent").items():
        rate = group.success_rate
        if rate.of >= AGENT_RUNS_NEEDED and 100 * rate.hits < AGENT_PERCENT * rate.of:
            text = (
                f"Agent {name} succeeds in {rate}, below {AGENT_PERCENT} %. "
                "Give it other work, or better prompts."
            )
            beads = [
                bead
                for bead, whole in sorted(tally.beads.items())
                if whole.outcome in FAILED and any(cell.agent == name for cell in whole.cells)
            ]
            sure_, evidence = _below(rate, AGENT_PERCENT), {"agent": name, **_rated(group)}
            yield Advice("agent-success", text, rate.of, evidence, sure_, beads, _look_at(beads))


def _failure(tally: Tally) -> Iterator[Advice]:
    rows = ranked(tally.failures)
    if rows:
        most, of = rows[0], sum(tally.failures.values())
        few = "" if of >= POINTS_NEEDED else " Few failures, so this may be chance."
        text = f"Most common failure: {most['reason']} ({most['count']} of {of}).{few}"
        beads = _beads(tally, lambda whole: whole.outcome in FAILED and whole.reason == most["reason"])
        follow = _look_at(beads)
        yield Advice("common-failure", text, of, {**most, "failures": of}, beads=beads, follow=follow)


def _templates(tally: Tally) -> Iterator[Advice]:
    for name, group in tally.by("template").items():
        rate = group.success_rate
        if rate.of >= CONFIDENT_USES and 100 * rate.hits < AVOID_PERCENT * rate.of:
            text = f"Avoid the template {name} until it is fixed: it succeeds in {rate}."
            beads = [
                bead
                for bead, whole in sorted(tally.beads.items())
                if whole.outcome in FAILED and any(cell.template == name for cell in whole.cells)
            ]
            sure_, evidence = _below(rate, AVOID_PERCENT), {"template": name, **group.score()}
            yield Advice("template-avoid", text, rate.of, evidence, sure_, beads, _look_at(beads))


def _rated(group: RunGroup) -> dict[str, Any]:
    rate = group.success_rate
    return {"success_rate": rate.percent, "interval": rate.interval, "success": rate.hits}


# --- the rules beyond it ----------------------------------------------------------------------------


def _models(tally: Tally) -> Iterator[Advice]:
    """For each kind of bead the model to begin with, or how many runs are missing to know it."""
    for found in preferences(tally):
        runs = sum(len(begun.names) for begun in found.models.values())
        models = {name: begun.to_json() for name, begun in found.models.items()}
        evidence: dict[str, Any] = {"kind": found.kind, "models": models}
        if found.best is not None:
            text, follow = _begin_with(found, found.best), f"agent_defaults.default_model: {found.best}"
            rests = (sure(found.chance), found.beads, follow)
            measures = sorted({test.measure for test in found.won})
            yield Advice(
                "model-per-kind", text, runs, {**evidence, "model": found.best, "better_by": measures}, *rests
            )
        elif found.won:
            yield Advice(
                "model-trade-off", _either_way(found), runs, evidence, sure(found.chance), found.beads
            )
        elif found.more_runs is not None:
            more = {**evidence, "more_runs": found.more_runs}
            yield Advice("more-data", _not_yet(found, found.more_runs), runs, more, beads=found.beads)


def _kind(kind: str) -> str:
    return "beads whose kind no record tells" if kind == UNKNOWN else f"{kind} beads"


def _begin_with(found: Preference, best: str) -> str:
    worse = list(dict.fromkeys(test.worse for test in found.won))
    models = found.models
    said = [
        f"first attempts pass in {models[best].rate}, with {name} in {models[name].rate}" for name in worse
    ]
    if any(test.measure == "cost" for test in found.won):
        others = ", ".join(f"{money_text(models[name].cost)} with {name}" for name in worse)
        said.append(f"a closed bead costs {money_text(models[best].cost)} in all, {others}")
    return f"For {_kind(found.kind)} use {best}: {'; '.join(said)}."


def _either_way(found: Preference) -> str:
    said = [
        f"{test.better} passes more often at first than {test.worse}"
        if test.measure == "first pass"
        else f"{test.better} costs less than {test.worse} for each closed bead"
        for test in found.won
    ]
    return f"For {_kind(found.kind)} you choose: {'; '.join(said)}."


def _not_yet(found: Preference, more: int) -> str:
    rates = ", ".join(f"{name} {begun.rate.hits} of {begun.rate.of}" for name, begun in found.models.items())
    return (
        f"For {_kind(found.kind)} there is not enough data to tell models apart: about "
        f"{plural(more, 'more run')} with each (first attempts that passed: {rates})."
    )


def _parallelism(tally: Tally) -> Iterator[Advice]:
    """Where more at once prove less. That few ran at once says nothing: a plan may have had no more ready."""
    rows = tally.by("parallel").items()
    levels = {n: group for n, group in rows if len(group.seconds) >= POINTS_NEEDED}
    known = {n: speed for n, group in levels.items() if (speed := per_hour(n, group)) is not None}
    if not known:
        return
    most, best = max(known), max(known, key=lambda level: known[level])
    if best < most and known[best] >= FASTER * known[most]:
        runs = sum(levels[level].finished for level in known)
        text = (
            f"With {best} at once {known[best]:.1f} beads were closed an hour, with {most} only "
            f"{known[most]:.1f}. Try --max-parallel {best}."
        )
        evidence = {"beads_per_hour": {str(level): round(speed, 2) for level, speed in known.items()}}
        follow = f"max_parallel_sessions: {best}"
        yield Advice("parallelism", text, runs, {"max_parallel": best, **evidence}, follow=follow)


def _split(tally: Tally) -> Iterator[Advice]:
    """Beads that were too much for one go."""
    large = too_large.found(tally.beads)
    if not large:
        return
    listed = "; ".join(f"{row.bead} ({row.why})" for row in large[:MOST_NAMED])
    more = f"; and {len(large) - MOST_NAMED} more" if len(large) > MOST_NAMED else ""
    rows = [{"bead": row.bead, "why": row.why, "attempts": row.attempts} for row in large[:MOST_BEADS]]
    text = f"Cut work like this into smaller beads: {listed}{more}."
    finished = sum(whole.outcome in FINISHED for whole in tally.beads.values())
    beads, confidence = [row.bead for row in large], sure(large[-1].chance)
    yield Advice(
        "split-beads", text, finished, {"beads": rows}, confidence, beads, f"beads-ralph show {beads[0]}"
    )


def _flaky(tally: Tally) -> Iterator[Advice]:
    for seen in tally.verifiers.flaky:
        if seen.runs >= POINTS_NEEDED:
            text = (
                f"The verifier {seen.name} is flaky: of {seen.repeated} commits that it judged again "
                f"it called {seen.flips} both red and green. Fix it first: it sends good work back."
            )
            yield Advice("flaky-verifier", text, seen.runs, {**seen.to_json(), "runs_are": "verifier runs"})


RULES: Final[tuple[Callable[[Tally], Iterator[Advice]], ...]] = (
    _success,
    _retries,
    _agents,
    _failure,
    _templates,
    _models,
    _parallelism,
    _split,
    _flaky,
)
