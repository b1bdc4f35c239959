"""Look for agent programs: their versions, whether somebody has signed in, whether they answer."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from beads_ralph.process import jobs
from beads_ralph.process.calls import run_until_ended, side_by_side
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentCLI
    from beads_ralph.bead.model import AgentSpec

PROBE_SECONDS: Final = 15.0
SMOKE_SECONDS: Final = 120.0
VERSION: Final = re.compile(r"\d+\.\d+(?:\.\d+)*[a-z]?")
QUESTION: Final = """\
This is a test of whether you can be reached. Change nothing and use no tools. Answer with exactly this, and \
nothing else:

```json
{"status": "pass", "message": "ready"}
```
"""

SignedIn = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Present:
    """One agent program as it was found."""

    name: str
    title: str
    path: str | None
    version: str | None
    tested: str
    signed_in: SignedIn
    action: str = ""
    """The advice before it can be used; empty where nothing is known to be missing."""

    @property
    def untested(self) -> str:
        """A warning where the adapter was made for another version. The last part of a version number
        changes daily with some of them, and says nothing."""
        if self.version is None or not self.tested or numbers(self.version)[:2] == numbers(self.tested)[:2]:
            return ""
        return f"{self.title} {self.version} was not tested with this program; {self.tested} was"

    def to_json(self) -> dict[str, Any]:
        said = asdict(self)
        tested, smoke_test = said.pop("tested"), f"beads-ralph agents --smoke {self.name}"
        return {**said, "tested_version": tested, "warning": self.untested, "smoke_test": smoke_test}


@dataclass(frozen=True)
class SmokeTest:
    """The result of a smoke test."""

    name: str
    ok: bool
    message: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


# --- who is here --------------------------------------------------------------------------------------


def call(clis: Iterable[AgentCLI], env: Mapping[str, str] = os.environ) -> list[Present]:
    """Look at each of them, side by side: some need a second to say their version."""
    return side_by_side(lambda cli: look_at(cli, cli.profile.executable, env), clis)


def look_at(cli: AgentCLI, program: str, env: Mapping[str, str] = os.environ) -> Present:
    """Look at a program that this adapter plays; a program may be named by its path."""
    name, profile = cli.name, cli.profile
    path = jobs.which(program, env.get("PATH"))
    if path is None:
        return Present(name, profile.title, None, None, profile.tested, "unknown", profile.install)
    version = version_of(path, profile.version_args)
    found = signed_in(profile, env)
    action = profile.sign_in if found == "no" else ""
    return Present(name, profile.title, path, version, profile.tested, found, action)


def version_of(path: str, arguments: Sequence[str] = ("--version",)) -> str | None:
    """The version that a program says it has; None where it says none in time."""
    try:
        # Somewhere else than in the repository: nobody knows what an old program takes the words for.
        ended = jobs.run(Job((path, *arguments), Path(tempfile.gettempdir()), timeout=PROBE_SECONDS))
    except OSError:
        return None
    match = VERSION.search(ended.stdout or ended.stderr)
    return match[0] if ended.ok and match else None


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def signed_in(profile: Profile, env: Mapping[str, str]) -> SignedIn:
    """By its keys and files. Elsewhere than on Linux a keychain may hold what no file shows."""
    home = Path(env.get("HOME") or Path.home())
    if any(map(env.get, profile.keys)) or any((home / name).exists() for name in profile.credentials):
        return "yes"
    known = bool(profile.keys or profile.credentials)
    return "no" if known and sys.platform == "linux" else "unknown"


# --- do they answer -----------------------------------------------------------------------------------


def smoke(
    cli: AgentCLI, spec: AgentSpec, model: str, inherits: Sequence[str] = (), home: Path | None = None
) -> SmokeTest:
    """Ask the program one small question through its adapter. It costs a few tokens."""
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.bead.model import OUTPUT_SCHEMA
    from beads_ralph.process.executors.local import LocalExecutor

    with tempfile.TemporaryDirectory(prefix="beads-ralph-smoke-") as folder:
        place = Path(folder)
        task = AgentTask(
            spec=spec,
            role="qa",
            prompt=QUESTION,
            cwd=place,
            bead_id="smoke-test",
            attempt=1,
            branch="",
            run_id=place.name,
            model=model,
            timeout=SMOKE_SECONDS,
            output_schema=OUTPUT_SCHEMA,
            inherits=tuple(inherits),
            home=home,
        )
        transcript = Transcript(place / ".out", place / ".err")
        job = cli.command(task, transcript)
        return _answered(cli, job, run_until_ended(LocalExecutor().run(job)))


def _answered(cli: AgentCLI, job: Job, ended: Exit) -> SmokeTest:
    from beads_ralph.agents.reply_reader import heard
    from beads_ralph.agents.verdicts import judge

    reply = heard(cli, job, ended)
    ruling, message, _details = judge(reply, ended)
    if ruling != "pass" and not reply.detail and ended.stderr.strip():
        message = f"{message}; its last words: {ended.stderr.strip().splitlines()[-1]}"
    return SmokeTest(cli.name, ruling == "pass", message, ended.seconds)
