"""The scripts that the scripted agent follows: YAML → the steps of one call, or every fault at once.

    beads:
      "1.1":                                    # a sprint, a bead id, or a pattern of either
        dev:                                    # dev, qa, merge, scrum-master; qa:NAME for one persona
          - - write: {src/app.py: "print(1)"}   # attempt 1
            - commit: add the app
          - - append: {src/app.py: "print(2)"}  # attempt 2, and every later one
            - commit: fix the app
        qa:
          - json: {status: pass, message: ok}   # a plain list of steps serves every attempt
      "*":
        dev: [{write: {notes.txt: done}}, {commit: notes}]

The first entry that matches the bead and has the role counts. A QA agent without an entry passes.
`docs/reference/scripted-agent.md` explains each step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from signal import Signals
from typing import Any, Final

from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files

SCRIPT: Final = "BEADS_RALPH_SCRIPT"
MARKS: Final = "BEADS_RALPH_SCRIPT_MARKS"
"""The folder where it is remembered which `once` steps were taken; only a script that has some needs it."""
ROLES: Final = ("dev", "qa", "merge", "scrum-master")
TROUBLES: Final = (
    *("server", "auth", "credit", "configuration", "refused", "too_long", "stalled", "forgotten"),
)
SPRINT_IN_ID: Final = re.compile(r"-(\d+[a-z]*)-(\d+[a-z]*)(?:-|$)")
PASSES: Final = {"json": {"status": "pass", "message": "the script has nothing against it"}}


@dataclass(frozen=True)
class ScriptStep:
    """One thing to do, checked."""

    kind: str
    value: Any


@dataclass(frozen=True)
class ScriptCall:
    """Who is called, for what."""

    bead_id: str
    role: str
    agent: str
    attempt: int


def load(path: Path) -> Mapping[str, Any]:
    """A sound script; CONFIG.INVALID with every fault otherwise."""
    script = _read(path)
    problems = _problems(script)
    if problems:
        raise gathered([Fault(Code.CONFIG_INVALID, text, file=str(path)) for text in problems], str(path))
    beads: Mapping[str, Any] = script["beads"]
    return {str(key): entry for key, entry in beads.items()}


def _read(path: Path) -> Any:
    """What the file says. JSON is YAML, too, and is read in a tenth of the time."""
    text = text_files.read_text(path).removeprefix("\ufeff")
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # ValueError: the 99th of a month
        raise RalphError(Code.CONFIG_INVALID, f"{path}: not valid YAML: {problem}") from None


def steps_for(beads: Mapping[str, Any], call: ScriptCall) -> list[ScriptStep]:
    """The steps of the first entry that matches; the last attempt written down serves all later ones."""
    for pattern, entry in beads.items():
        if _matches(pattern, call.bead_id):
            for key in (f"{call.role}:{call.agent}", call.role):
                if key in entry:
                    return _attempt(entry[key], call.attempt)
    if call.role == "qa":
        return [step_of(PASSES)]
    message = f"the script has no {call.role} entry for {call.bead_id}"
    raise RalphError(Code.CONFIG_INVALID, message, suggested_action="Add one, for instance under '*'")


def step_of(step: Mapping[str, Any]) -> ScriptStep:
    ((kind, value),) = step.items()
    return ScriptStep(kind, value)


def _matches(pattern: str, bead_id: str) -> bool:
    found = SPRINT_IN_ID.search(bead_id)
    sprint = f"{found[1]}.{found[2]}" if found else ""
    return fnmatchcase(bead_id, pattern) or (bool(sprint) and fnmatchcase(sprint, pattern))


def _attempt(listed: Sequence[Any], attempt: int) -> list[ScriptStep]:
    if not listed:
        return []
    steps = listed if isinstance(listed[0], dict) else listed[min(attempt, len(listed)) - 1]
    return [step_of(step) for step in steps]


# --- faults -----------------------------------------------------------------------------------------


def _problems(script: Any) -> list[str]:
    beads = script.get("beads") if isinstance(script, dict) else None
    if not isinstance(beads, dict) or not beads:
        return ["must be a mapping with the key 'beads'"]
    unknown = [f"unknown key {key!r}" for key in script if key != "beads"]
    return [
        *unknown,
        *(text for key, entry in beads.items() for text in _entry_problems(f"beads.{key}", entry)),
    ]


def _entry_problems(place: str, entry: Any) -> list[str]:
    if not isinstance(entry, dict):
        return [f"{place}: must be a mapping of roles"]
    found: list[str] = []
    for role, listed in entry.items():
        if str(role).partition(":")[0] not in ROLES:
            found.append(f"{place}: unknown role {role!r}{_hint(role, ROLES)}")
        found += _list_problems(f"{place}.{role}", listed)
    return found


def _list_problems(place: str, listed: Any) -> list[str]:
    if not isinstance(listed, list):
        return [f"{place}: must be a list of steps, or a list of such lists, one for each attempt"]
    if all(isinstance(item, list) for item in listed):
        return [text for n, steps in enumerate(listed) for text in _steps_problems(f"{place}[{n}]", steps)]
    return _steps_problems(place, listed)


def _steps_problems(place: str, steps: Any) -> list[str]:
    if not isinstance(steps, list):
        return [f"{place}: must be a list of steps"]
    return [text for n, step in enumerate(steps) for text in _step_problems(f"{place}[{n}]", step)]


def _step_problems(place: str, step: Any) -> list[str]:
    if not isinstance(step, dict) or len(step) != 1:
        return [f"{place}: a step is one 'kind: value'"]
    ((kind, value),) = step.items()
    if kind == "once":
        return _steps_problems(f"{place}.once", value)
    if kind not in KINDS:
        return [f"{place}: unknown step {kind!r}{_hint(kind, (*KINDS, 'once'))}"]
    wanted, check = KINDS[kind]
    return [] if check(value) else [f"{place}: {kind} takes {wanted}, not {value!r:.80}"]


def _hint(word: Any, known: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(str(word), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


# --- the kinds of steps -------------------------------------------------------------------------------


def is_signal(value: Any) -> bool:
    return isinstance(value, str) and f"SIG{value.removeprefix('SIG')}" in Signals.__members__


def _texts(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(_text(each) for pair in value.items() for each in pair)
    )


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _paths(value: Any) -> bool:
    return _text(value) or (isinstance(value, list) and bool(value) and all(map(_text, value)))


def _amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _count(value: Any) -> bool:
    return isinstance(value, int) and _amount(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _keyed(required: Sequence[str] = (), **checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A mapping of no other keys than these."""

    def check(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and set(required) <= set(value)
            and all(key in checks and checks[key](inner) for key, inner in value.items())
        )

    return check


_flood = _keyed(["bytes"], bytes=_count, to=lambda value: value in ("out", "err"))
_usage = _keyed(input_tokens=_count, output_tokens=_count, cache_tokens=_count, cost_usd=_amount)
_hang = _keyed(ignore_term=_flag)
_trouble = _keyed(["kind"], kind=lambda value: value in TROUBLES, detail=_text)

KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "write": ("{path: text}", _texts),
    "append": ("{path: text}", _texts),
    "delete": ("a path or a list of paths", _paths),
    "edit_gate": ("a path, or {path: text}", lambda value: _text(value) or _texts(value)),
    "commit": ("a message", _text),
    "run": ("a shell command", _text),
    "expect": ("a text that the prompt must hold", _text),
    "prompt": ("a path to write the prompt to", _text),
    "say": ("a text", _text),
    "err": ("a text", _text),
    "json": ("a mapping", lambda value: isinstance(value, dict)),
    "lie": ("true or a text", lambda value: value is True or _text(value)),
    "sleep": ("a number of seconds", _amount),
    "hang": ("true or {ignore_term: true}", lambda value: value is True or _hang(value)),
    "crash": ("an exit code or a signal's name", lambda value: _count(value) or is_signal(value)),
    "flood": ("a number of bytes, or {bytes: n, to: out or err}", lambda v: _count(v) or _flood(v)),
    "spawn": (
        "{count: n, seconds: n, detached: bool}",
        _keyed(count=_count, seconds=_amount, detached=_flag),
    ),
    "limit": ("{reset_in: seconds or null}", _keyed(reset_in=lambda v: v is None or _amount(v))),
    "trouble": (f"{{kind: {', '.join(TROUBLES[:-1])} or {TROUBLES[-1]}, detail: text}}", _trouble),
    "denied": ("the name of a tool or a list of them", _paths),
    "usage": ("{input_tokens, output_tokens, cache_tokens, cost_usd}", _usage),
}
