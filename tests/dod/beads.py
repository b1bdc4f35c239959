"""Ralph beads for tests: files, agents as shell scripts, and the real command on them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.running import PROJECT, Ran, ralph

EXAMPLES = PROJECT / "tests" / "fixtures" / "ralph-beads"
SEED_SCHEMA: dict[str, Any] = json.loads((EXAMPLES / "seed.schema.json").read_text("utf-8"))
EXAMPLE_NAMES = ("gt-feature-login-001", "gt-gate-smoke-001", "gt-refactor-auth-001")
PATIENCE = 600.0
"""Only for what never happens: on a busy machine a command of a second takes many."""


def example(name: str) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text("utf-8"))
    return raw


def check(command: str, name: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name or command, "command": command, **more}


def bead(*checks: dict[str, Any] | str, evidence: bool = False, **more: Any) -> dict[str, Any]:
    verifiers = [check(one) if isinstance(one, str) else one for one in checks]
    dod: dict[str, Any] = {"verifiers": verifiers}
    if evidence:
        dod["evidence_required"] = True
    return {"id": "gt-one", "intent": "Make it so", "dod": dod, **more}


def put(path: Path, raw: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(raw, indent=2), encoding="utf-8")
    return path


def read(path: Path) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return raw


def agent(place: Path, script: str) -> Path:
    """A program that counts its calls in `calls`, keeps its prompts, and then does what the script says;
    `$n` is the number of the call."""
    path = place / "agent.sh"
    path.write_text(
        "#!/bin/sh\necho x >> calls\nn=$(wc -l < calls | tr -d ' ')\ncat > prompt-$n.txt\n" + script + "\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def calls(place: Path) -> int:
    path = place / "calls"
    return len(path.read_text("utf-8").splitlines()) if path.exists() else 0


def execute(place: Path, *words: str | Path, backoff: str = "0") -> Ran:
    return ralph("exec", *words, "--backoff", backoff, "--json", cwd=place)


def one(ran: Ran) -> dict[str, Any]:
    (found,) = ran.data["beads"]
    return dict(found)


def soon(happened: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.02)
    return found
