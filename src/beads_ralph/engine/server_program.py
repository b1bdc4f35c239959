"""The program of the Temporal server: on PATH, in the user's cache, or built there from its source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job

VERSION: Final = "1.5.1"
"""The one that this program is tested with; older ones are not used, newer ones are."""
GO_WANTED: Final = (1, 25)
SOURCE: Final = "github.com/temporalio/cli"
NAMED: Final = "BEADS_RALPH_TEMPORAL"
"""The variable that names the program."""
PROBE_SECONDS: Final = 60.0
BUILD_SECONDS: Final = 3600.0
INSTALL: Final = f"Install the temporal command {VERSION} or newer and put it on PATH, or Go 1.25 or newer"
_SAID: Final = re.compile(r"version (\d+)\.(\d+)\.(\d+)")

Say = Callable[[str], None]


def find_or_build(say: Say) -> str:
    """A path. What takes long is said."""
    return found() or _built(say)


def found() -> str | None:
    """The program that is there already and new enough."""
    candidates = (os.environ.get(NAMED), jobs.which("temporal"), str(_kept()))
    return next((path for path in candidates if path and _is_usable(path)), None)


def version_of(program: str) -> tuple[int, ...]:
    """Its version, as numbers; empty where it does not run or says none."""
    try:
        said = jobs.run(Job((program, "--version"), Path("/"), timeout=PROBE_SECONDS))
    except (OSError, ValueError):
        return ()
    numbers = _SAID.search(said.stdout) if said.ok else None
    return tuple(map(int, numbers.groups())) if numbers else ()


def _is_usable(program: str) -> bool:
    return version_of(program) >= tuple(map(int, VERSION.split(".")))


def _kept() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "beads-ralph" / "temporal" / VERSION / "temporal"


# --- building -----------------------------------------------------------------------------------------


def _built(say: Say) -> str:
    go = _go()
    kept = _kept()
    text_files.make_folder(kept.parent)
    # Whoever waited for another's build finds it done.
    with lock.held(kept.with_name("lock"), BUILD_SECONDS, _still_building):
        if not _is_usable(str(kept)):
            say(f"building the Temporal server {VERSION}: five to ten minutes, once")
            _build(go, kept)
    return str(kept)


def _go() -> str:
    """Go, where it is new enough. It must not fetch another release of itself."""
    go = jobs.which("go")
    if go is None:
        raise _missing(f"there is no temporal {VERSION} or newer on PATH, and no Go to build it")
    said = jobs.run(Job((go, "env", "GOVERSION"), Path("/"), _go_environment(), timeout=PROBE_SECONDS)).stdout
    numbers = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if numbers < GO_WANTED:
        raise _missing(
            f"building the Temporal server needs Go 1.25; this is {said.strip() or 'an older one'}"
        )
    return go


def _build(go: str, kept: Path) -> None:
    fresh = kept.with_name(f"fresh.{os.getpid()}")
    flags = f"-ldflags=-s -w -X {SOURCE}/temporalcli.Version={VERSION}"
    words = (go, "install", "-trimpath", flags, f"{SOURCE}/cmd/temporal@v{VERSION}")
    env = {**_go_environment(), "GOBIN": str(fresh)}
    done = jobs.run(Job(words, Path("/"), env, timeout=BUILD_SECONDS))
    program = fresh / "temporal"
    if not done.ok or not _is_usable(str(program)):
        action = "Read the details; or install the temporal command by hand and put it on PATH"
        message = "the Temporal server could not be built"
        raise RalphError(Code.UNAVAILABLE, message, details=done.stderr[-4000:], suggested_action=action)
    program.replace(kept)  # nobody ever sees half a program
    fresh.rmdir()


def _go_environment() -> dict[str, str]:
    ours = {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}
    return jobs.environment(ours)


def _missing(message: str) -> RalphError:
    return RalphError(Code.UNAVAILABLE, message, suggested_action=INSTALL)


def _still_building() -> RalphError:
    message = "another process has been building the Temporal server for an hour"
    return RalphError(Code.UNAVAILABLE, message, suggested_action="End that process, then try again")
