"""Figures into advice. Each piece says what it rests on; none of it changes anything by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from beads_ralph.report.figures import (
    CONFIDENT_USES,
    FINISHED,
    RunGroup,
    Spread,
    money_text,
    quantile,
    shortened,
    time_text,
)
from beads_ralph.report.tally import Tally, Whole, per_hour, ranked

TARGET_PERCENT: Final = 70
RETRY_PERCENT: Final = 30
AGENT_PERCENT: Final = 60
RUNS_NEEDED: Final = 3
AGENT_RUNS_NEEDED: Final = 2
POINTS_NEEDED: Final = 4
"""More than three: fewer are no pattern."""
AVOID_PERCENT: Final = 50
CHEAPER: Final = 0.7
FASTER: Final = 1.1
MANY_ATTEMPTS: Final = 3
MUCH_LONGER: Final = 3.0
MOST_NAMED: Final = 5
TOO_LARGE: Final = frozenset({"agent-timeout", "budget-used-up", "deadline-passed", "agent-output-limit"})


@dataclass(frozen=True)
class Advice:
    """One recommendation."""

    rule: str
    text: str
    runs: int
    """On how many runs it rests; attempts or calls where `evidence` says so."""
    evidence: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"rule": self.rule, "text": self.text, "runs": self.runs, "evidence": dict(self.evidence)}


def advice(tally: Tally) -> list[Advice]:
    """All that the figures give reason for; one sentence where there is nothing to mend."""
    found = [piece for rule in RULES for piece in rule(tally)]
    rate = tally.runs.success_rate
    text = "All within range: go on, and look again later." if rate.of else "No finished run yet."
    return found or [Advice("all-within-range", text, rate.of, {"success_rate": rate.percent})]


# --- the rules of the seed --------------------------------------------------------------------------


def _success(tally: Tally) -> Iterator[Advice]:
    rate = tally.runs.success_rate
    if rate.of >= RUNS_NEEDED and 100 * rate.hits < TARGET_PERCENT * rate.of:
        text = (
            f"The success rate, {rate}, is below {TARGET_PERCENT} %. "
            "Look at the prompts, and at how the work is cut into beads."
        )
        yield Advice("success-rate", text, rate.of, _rated(tally.runs))


def _retries(tally: Tally) -> Iterator[Advice]:
    rate = tally.runs.retry_rate
    if rate.of >= RUNS_NEEDED and 100 * rate.hits > RETRY_PERCENT * rate.of:
        text = (
            f"More than {RETRY_PERCENT} % of the runs needed a retry: {rate}. "
            "Say more in the tasks and the context, so that the first attempt can succeed."
        )
        evidence = {"retry_rate": rate.percent, "interval": rate.interval, "retried": rate.hits}
        yield Advice("retry-rate", text, rate.of, evidence)


def _agents(tally: Tally) -> Iterator[Advice]:
    """Every weak agent by itself."""
    for name, group in tally.by("agent").items():
        rate = group.success_rate
        if rate.of >= AGENT_RUNS_NEEDED and 100 * rate.hits < AGENT_PERCENT * rate.of:
            text = (
                f"Agent {name} succeeds in {rate}, below {AGENT_PERCENT} %. "
                "Give it other work, or better prompts."
            )
            yield Advice("agent-success", text, rate.of, {"agent": name, **_rated(group)})


def _failure(tally: Tally) -> Iterator[Advice]:
    rows = ranked(tally.failures)
    if rows:
        most, of = rows[0], sum(tally.failures.values())
        few = "" if of >= POINTS_NEEDED else " Few failures, so this may be chance."
        text = f"Most common failure: {most['reason']} ({most['count']} of {of}).{few}"
        yield Advice("common-failure", text, of, {**most, "failures": of})


def _templates(tally: Tally) -> Iterator[Advice]:
    for name, group in tally.by("template").items():
        rate = group.success_rate
        if rate.of >= CONFIDENT_USES and 100 * rate.hits < AVOID_PERCENT * rate.of:
            text = f"Avoid the template {name} until it is mended: it succeeds in {rate}."
            yield Advice("template-avoid", text, rate.of, {"template": name, **group.score()})


def _rated(group: RunGroup) -> dict[str, Any]:
    rate = group.success_rate
    return {"success_rate": rate.percent, "interval": rate.interval, "success": rate.hits}


# --- the rules beyond it ----------------------------------------------------------------------------


def _models(tally: Tally) -> Iterator[Advice]:
    """For each kind of bead the model that does better, or as well for less."""
    known = [
        (kind, model, group)
        for (kind, model), group in tally.by("kind", "model").items()
        if group.finished >= POINTS_NEEDED
    ]
    for kind, rows in groupby(known, key=lambda row: row[0]):
        models = {model: group for _, model, group in rows}
        if len(models) > 1:
            yield from _better_model(kind, models)


def _better_model(kind: str, models: Mapping[str, RunGroup]) -> Iterator[Advice]:
    best = max(models, key=lambda name: (models[name].success_rate.percent or 0.0, name))
    worst = min(models, key=lambda name: (models[name].success_rate.percent or 0.0, name))
    evidence = {"kind": kind, "models": {name: _priced(group) for name, group in models.items()}}
    runs = sum(group.finished for group in models.values())
    if _is_apart(models[best], models[worst]):
        text = (
            f"For {kind} beads use {best}: {models[best].success_rate}; "
            f"{worst} succeeds in {models[worst].success_rate}."
        )
        yield Advice("model-per-kind", text, runs, {**evidence, "model": best})
        return
    priced = {
        name: mean
        for name, group in models.items()
        if len(group.costs) >= POINTS_NEEDED and (mean := Spread.of(group.costs).mean) is not None
    }
    if len(priced) > 1:
        cheap, dear = min(priced, key=lambda n: (priced[n], n)), max(priced, key=lambda n: (priced[n], n))
        if priced[cheap] <= CHEAPER * priced[dear]:
            text = (
                f"For {kind} beads {cheap} succeeds about as often as {dear} "
                f"and costs {money_text(priced[cheap])} instead of {money_text(priced[dear])} a run."
            )
            yield Advice("model-per-kind", text, runs, {**evidence, "model": cheap})


def _is_apart(better: RunGroup, worse: RunGroup) -> bool:
    """True where each lies outside the other's confidence interval."""
    low, high = better.success_rate, worse.success_rate
    if low.interval is None or high.interval is None or low.percent is None or high.percent is None:
        return False
    return low.interval[0] > high.percent and high.interval[1] < low.percent


def _priced(group: RunGroup) -> dict[str, Any]:
    mean = shortened(Spread.of(group.costs).mean, 6)
    return {"runs": group.finished, **_rated(group), "avg_cost_usd": mean, "costs_known": len(group.costs)}


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
        yield Advice("parallelism", text, runs, {"max_parallel": best, **evidence})


def _split(tally: Tally) -> Iterator[Advice]:
    """Beads that were too much for one go."""
    finished = {name: whole for name, whole in tally.beads.items() if whole.outcome in FINISHED}
    times = sorted(whole.seconds for whole in finished.values() if whole.seconds)
    if len(finished) < POINTS_NEEDED or not times:
        return
    long = max(quantile(times, 0.95), MUCH_LONGER * quantile(times, 0.5))
    large = {name: why for name, whole in finished.items() if (why := _why_large(whole, long))}
    named = sorted(large, key=lambda name: (-finished[name].seconds, name))
    if named:
        listed = "; ".join(f"{name} ({large[name]})" for name in named[:MOST_NAMED])
        more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        rows = [{"bead": name, "why": large[name], "attempts": finished[name].attempts} for name in named]
        text = f"Cut work like this into smaller beads: {listed}{more}."
        yield Advice("split-beads", text, len(finished), {"beads": rows[: 10 * MOST_NAMED]})


def _why_large(whole: Whole, long: float) -> str:
    reason = whole.reason or ""
    if whole.outcome == "timeout" or reason in TOO_LARGE:
        return f"ended by {reason or 'a timeout'} after {time_text(whole.seconds)}"
    if whole.attempts >= MANY_ATTEMPTS:
        return f"{whole.attempts} attempts"
    return f"{time_text(whole.seconds)} in all" if whole.seconds > long else ""


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
