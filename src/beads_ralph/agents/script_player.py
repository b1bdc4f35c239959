"""The program of the scripted agent: it finds the steps written down for a call and takes them, in order.

It plays a stranger, so it may do what the rest of this package must not: leave processes behind, ignore
signals, print without end. Between two calls it remembers nothing but which `once` steps were taken. A run
calls it often, so it imports no more than a step needs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from beads_ralph.agents import script
from beads_ralph.agents.script import MARKS, SCRIPT, ScriptCall, ScriptStep
from beads_ralph.errors import Code, RalphError

FAILED: Final = 1
BAD_SCRIPT: Final = 2
CHUNK: Final = 64 * 1024
EMPTIED: Final = {".py": "def test_nothing() -> None:\n    pass\n"}


def main() -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever stops listening ends us quietly
    prompt = _told()
    try:
        call = _call(os.environ)
        steps = script.steps_for(script.load(Path(_given(SCRIPT))), call)
    except RalphError as problem:
        return _complain(problem, BAD_SCRIPT)
    if session := os.environ.get("BEADS_RALPH_SESSION"):
        _err(f"BEADS_RALPH_SESSION {session}")
    try:
        _Player(call, prompt).play(steps)
    except RalphError as problem:
        return _complain(problem, FAILED)
    return 0


def _told() -> str:
    """The prompt; nothing where someone tries the player by hand."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _call(env: Mapping[str, str]) -> ScriptCall:
    attempt = _given("BEADS_RALPH_ATTEMPT")
    if not attempt.isdecimal() or int(attempt) < 1:
        raise RalphError(Code.USAGE, f"BEADS_RALPH_ATTEMPT must be 1 or more, not {attempt!r}")
    agent = env.get("BEADS_RALPH_AGENT", "")
    return ScriptCall(_given("BEADS_RALPH_BEAD"), _given("BEADS_RALPH_ROLE"), agent, int(attempt))


def _given(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise RalphError(Code.USAGE, f"{name} is not set")
    return value


def _complain(problem: RalphError, code: int) -> int:
    lines = [str(fault) for fault in problem.faults] or [problem.message, problem.text]
    for line in filter(None, lines):
        _err(f"scripted agent: {line}")
    return code


def _out(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it is a program of its own


def _err(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


class _Player:
    """Takes the steps of one call, in the current directory; a method per kind."""

    def __init__(self, call: ScriptCall, prompt: str) -> None:
        self.call = call
        self.told = prompt

    def play(self, steps: list[ScriptStep]) -> None:
        for step in steps:
            take: Callable[[Any], None] = getattr(self, step.kind)
            take(step.value)

    def once(self, steps: list[dict[str, Any]]) -> None:
        """Marked before they are taken: they may well be the last thing we do."""
        from hashlib import sha256

        call = self.call
        place = str(Path(_given(SCRIPT)).resolve())
        facts = json.dumps([place, call.bead_id, call.role, call.agent, call.attempt, steps])
        folder = Path(_given(MARKS))
        mark = folder / f"once-{sha256(facts.encode()).hexdigest()[:16]}"
        if not mark.exists():
            folder.mkdir(parents=True, exist_ok=True)
            mark.touch()
            self.play([script.step_of(step) for step in steps])

    # --- files ---

    def write(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            _save(Path(name), text, "w")

    def append(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            _save(Path(name), text, "a")

    def delete(self, names: str | list[str]) -> None:
        for name in [names] if isinstance(names, str) else names:
            Path(name).unlink(missing_ok=True)

    def edit_gate(self, gate: str | Mapping[str, str]) -> None:
        """What agents do that cannot get a check to pass: make it check nothing."""
        if isinstance(gate, str):
            gate = {gate: f"# checks nothing any more\n{EMPTIED.get(Path(gate).suffix, '')}"}
        self.write(gate)

    def prompt(self, name: str) -> None:
        _save(Path(name), self.told, "w")

    # --- processes ---

    def commit(self, message: str) -> None:
        """Everything that changed; nothing to commit is fine, so that a call can be repeated."""
        for words in (("add", "--all"), ("commit", f"--message={message}")):
            code, said = _git(*words)
            if code and "nothing to commit" not in said:
                raise RalphError(Code.GIT_ERROR, f"git {words[0]} failed", details=said.strip())

    def run(self, command: str) -> None:
        _, status = os.waitpid(_start("sh", "-c", command), 0)
        if code := os.waitstatus_to_exitcode(status):
            _err(f"scripted agent: {command!r} exited with {code}")
            raise SystemExit(FAILED)

    def spawn(self, wanted: Mapping[str, Any]) -> None:
        for _ in range(wanted.get("count", 1)):
            _start("sleep", str(wanted.get("seconds", 60)), own_session=wanted.get("detached", False))

    # --- words ---

    def say(self, text: str) -> None:
        _out(text)

    def err(self, text: str) -> None:
        _err(text)

    def json(self, result: Mapping[str, Any]) -> None:
        _out(f"```json\n{json.dumps(result, indent=2, default=str)}\n```")

    def lie(self, words: str | bool) -> None:
        _out(words if isinstance(words, str) else "All tasks are done, and I have run every check: all pass.")
        self.json(_success(self.call))

    def expect(self, text: str) -> None:
        if text not in self.told:
            _err(f"scripted agent: the prompt does not say {text!r}")
            raise SystemExit(FAILED)

    def usage(self, amounts: Mapping[str, Any]) -> None:
        _err(f"BEADS_RALPH_USAGE {json.dumps(amounts)}")

    def limit(self, wanted: Mapping[str, Any]) -> NoReturn:
        from datetime import UTC, datetime, timedelta

        seconds = wanted.get("reset_in", 60)
        reset = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        said = reset.isoformat(timespec="milliseconds") if reset else None
        _err(f"BEADS_RALPH_LIMIT {json.dumps({'reset_at': said})}")
        raise SystemExit(FAILED)

    def trouble(self, wanted: Mapping[str, str]) -> NoReturn:
        _err(f"BEADS_RALPH_TROUBLE {json.dumps(dict(wanted))}")
        raise SystemExit(FAILED)

    def denied(self, tools: str | list[str]) -> None:
        _err(f"BEADS_RALPH_DENIED {json.dumps({'tools': [tools] if isinstance(tools, str) else tools})}")

    # --- misbehaviour ---

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def hang(self, how: bool | Mapping[str, bool]) -> NoReturn:
        if isinstance(how, Mapping) and how.get("ignore_term"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _out("hanging")
        while True:
            signal.pause()

    def crash(self, how: int | str) -> NoReturn:
        if isinstance(how, int):
            raise SystemExit(how)
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would look like work
        number = signal.Signals[f"SIG{how.removeprefix('SIG')}"]
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        raise SystemExit(FAILED)  # the signal was one that ends nobody

    def flood(self, wanted: int | Mapping[str, Any]) -> None:
        given = wanted if isinstance(wanted, Mapping) else {"bytes": wanted}
        stream = sys.stderr.buffer if given.get("to") == "err" else sys.stdout.buffer
        left = given["bytes"]
        while left > 0:
            left -= stream.write((b"x" * 99 + b"\n")[:left] if left < CHUNK else b"x" * (CHUNK - 1) + b"\n")
        stream.flush()


def _success(call: ScriptCall) -> dict[str, Any]:
    if call.role != "scrum-master":
        return {"status": "pass", "message": "everything was checked"}
    url = "https://forge.invalid/pull/1"
    return {"bead_id": call.bead_id, "success": True, "pr_url": url, "pr_number": 1, "bead_updated": True}


def _save(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8", newline="") as out:
            out.write(text)
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot write {path}: {problem.strerror}") from None


def _git(*words: str) -> tuple[int, str]:
    """Its exit code, and everything that it says."""
    reading, writing = os.pipe()
    both = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, writing, 2)]
    pid = os.posix_spawnp("git", ("git", *words), {**os.environ, "LC_ALL": "C"}, file_actions=both)  # noqa: TID251
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def _start(*argv: str, own_session: bool = False) -> int:
    """A child that nobody minds: to leave it behind is part of the play."""
    return os.posix_spawnp(argv[0], argv, os.environ, setsid=own_session)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
