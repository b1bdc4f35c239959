"""Made-up records: as many as wanted, always the same, spread as real ones are."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

AGENTS = {"claude": ("sonnet", "opus"), "codex": ("gpt-5.3-codex",), "gemini": ("gemini-3-pro",)}
TEMPLATES = ("bug-fix", "feature", "refactor", "docs", None)
WORDS = ("Build", "Fix", "Update", "Review", "Design", "Implement", "Sort")
REASONS = ("verifier-failed", "qa-failed", "agent-timeout", "agent-crash", "nothing-changed")
START = datetime(2026, 2, 1, tzinfo=UTC)
VERIFIERS = ("unit tests", "lint", "types")


def write(state: Path, count: int, seed: int = 0) -> int:
    """So many files of run and result records below `state`; how many attempts they hold."""
    for name in ("runs", "results"):
        (state / name).mkdir(parents=True, exist_ok=True)
    files = attempts = 0
    for number in range(count):
        for name, record in bead(number, Random(seed * 1_000_003 + number)):
            (state / name).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            files += 1
            attempts += name.startswith("runs/")
            if files == count:
                return attempts
    return attempts


def bead(number: int, chance: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of one bead: each attempt's run, and the result of the last."""
    agent = chance.choice(list(AGENTS))
    model = chance.choice(AGENTS[agent])
    name = f"bd-{number:06d}"
    start = START + timedelta(minutes=number % 40_000)
    most = 3
    for attempt in range(1, most + 1):
        passed = chance.random() < 0.7
        seconds = round(300 * math.exp(chance.gauss(0, 0.7)), 3)
        status = "done" if passed else "timeout" if chance.random() < 0.2 else "failed"
        end = start + timedelta(seconds=seconds)
        run = _run(name, attempt, status, chance) | {
            "agent": agent,
            "model": model,
            "started_at": start.isoformat(),
            "finished_at": end.isoformat(),
            "duration_seconds": seconds,
        }
        last = passed or attempt == most
        yield f"runs/{name}.json" if last else f"runs/{name}.attempt-{attempt}.json", run
        start = end + timedelta(seconds=1)
        if last:
            yield f"results/{name}.json", _result(run)
            return


def _run(name: str, attempt: int, status: str, chance: Random) -> dict[str, Any]:
    prompt = f"{chance.choice(WORDS)} part {name}. " + "Say what you did, and keep the tests green. " * 12
    return {
        "schema_version": 1,
        "bead": name,
        "status": status,
        "attempt": attempt,
        "max_retries": 3,
        "exit_code": 0 if status == "done" else 1,
        "output_summary": "all green" if status == "done" else "1 failed, 12 passed",
        "repo": "/home/you/shop",
        "prompt": prompt[:200],
        "prompt_full": prompt,
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "failure_reason": None if status == "done" else chance.choice(REASONS),
        "template_name": chance.choice(TEMPLATES),
        "session_name": f"agent-{name}",
        "result_file": f"/home/you/shop/state/results/{name}.json",
        "verification": None,
        "extra": _extra(name, attempt, status, chance),
    }


def _extra(name: str, attempt: int, status: str, chance: Random) -> dict[str, Any]:
    commit = hashlib.sha256(f"{name}{attempt}".encode()).hexdigest()[:40]
    usage = {"input_tokens": 90_000, "output_tokens": 4_000, "cache_tokens": 60_000, "cost_usd": 0.31}
    return {
        "run_id": f"run-{int(name[3:]) // 40:04d}",
        "kind": "merge" if chance.random() < 0.1 else "work",
        "title": f"Part {name}",
        "branch": f"feature/{name}",
        "commit": commit,
        "parallel": chance.randint(1, 4),
        "usage": usage if chance.random() < 0.8 else {},
        "checks": [
            {
                "name": verifier,
                "kind": "verifier",
                "ruling": "pass" if status == "done" or chance.random() < 0.6 else "fail",
                "command": f"make {verifier.split()[0]}",
                "commit": commit,
                "seconds": 2.5,
                "exit_code": 0,
            }
            for verifier in VERIFIERS
        ],
    }


def _result(run: dict[str, Any]) -> dict[str, Any]:
    shared = ("schema_version", "bead", "status", "agent", "started_at", "finished_at", "duration_seconds")
    more = ("attempt", "max_retries", "exit_code", "output_summary")
    row = {key: run[key] for key in (*shared, *more)}
    return row | {
        "will_retry": False,
        "reason": "every check passed" if run["status"] == "done" else "gave up",
    }
