"""Look for agent programs: their versions, whether somebody has signed in, whether they answer."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.agents import programs, sign_in
from beads_ralph.agents.sign_in import Caller, SignedIn
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Exit, Job

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentCLI, AgentTask, Reply
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
    provider: str = ""
    """Whose models it is set to use, where that is not the usual one."""
    used: bool = False
    """True if an agent of the settings or of an open bead may be played by it."""
    models: tuple[str, ...] = ()
    """Those that it is asked for then; empty for its own default."""

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
    model: str = ""
    """The one that it was asked for; empty for its own default."""
    sandbox: str = "none"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


# --- who is here --------------------------------------------------------------------------------------


def look_at(cli: AgentCLI, program: str, caller: Caller | None = None, root: Path | None = None) -> Present:
    """Look at a program that this adapter plays; one that is named by its path is seen from `root`."""
    profile = cli.profile
    name = program if not profile.executable or program != profile.executable else cli.name
    search = caller.env.get("PATH") if caller else None
    path = jobs.which(programs.path_of(program, root) if root else program, search)
    if path is None:
        action = profile.install or programs.remedy(program, root or Path())
        return Present(name, profile.title, None, None, profile.tested, "unknown", action)
    # Nobody knows what a program of the user's own does with --version.
    version = version_of(path, profile.version_args) if profile.executable else None
    found = sign_in.look(cli.name, caller) if caller else sign_in.SignIn("unknown")
    return Present(
        name, profile.title, path, version, profile.tested, found.found, found.action, found.provider
    )


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


# --- do they answer -----------------------------------------------------------------------------------


def question(
    spec: AgentSpec,
    model: str,
    place: Path,
    inherits: Sequence[str] = (),
    home: Path | None = None,
    *,
    closed_in: bool = False,
) -> AgentTask:
    """One small question, as a task that changes nothing. It costs a few tokens."""
    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.bead.model import OUTPUT_SCHEMA

    return AgentTask(
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
        closed_in=closed_in,
    )


def answered(reply: Reply, ended: Exit) -> tuple[bool, str]:
    """Whether it answered, and what it said."""
    from beads_ralph.agents.verdicts import judge

    ruling, message, _details = judge(reply, ended)
    if ruling != "pass" and not reply.detail and ended.stderr.strip():
        message = f"{message}; its last words: {ended.stderr.strip().splitlines()[-1]}"
    return ruling == "pass", message
