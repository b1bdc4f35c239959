"""How every command answers: one envelope for scripts, text for people, one table of exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from beads_ralph.bead.words import several, visible
from beads_ralph.cli import page
from beads_ralph.cli.text import printable
from beads_ralph.errors import Code, Envelope, Fault, RalphError, failed, succeeded

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.cli.page import Page
    from beads_ralph.store.protocol import Progress

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BUG: Final = 3
INTERRUPTED: Final = 130

Style = Literal["text", "json", "fenced"]
NUMBER: Final = re.compile(r"\d+[a-z]*(?:\.\d+[a-z]*)?")
MOST_ALIKE: Final = 3


@dataclass(frozen=True)
class Answer:
    """What a command found: data for scripts, and how to show it to a person."""

    data: Mapping[str, Any] = field(default_factory=dict)
    text: Callable[[Console], None] | None = None
    warnings: Sequence[Fault] = ()
    error: RalphError | None = None
    error_text: Callable[[], str] | None = None
    always_json: bool = False
    exit_code: int = OK
    printed: bool = False
    """The parser itself has answered, as it does for --help."""
    page: Callable[[], Page] | None = None
    """In place of `text`, for a command that does without rich where nothing has to be drawn."""


EXIT_CODES: Final = {Code.USAGE: USAGE, Code.BUG: BUG, Code.INTERRUPTED: INTERRUPTED}


def exit_code_of(answer: Answer) -> int:
    return answer.exit_code if answer.error is None else EXIT_CODES.get(answer.error.code, FAILED)


def give(answer: Answer, style: Style) -> None:
    """Print an answer."""
    if answer.always_json and style == "text":
        style = "json"
    if answer.error is not None:
        if style == "text" and answer.text is not None:  # what went well, beside what did not
            answer.text(page.console())
            sys.stdout.flush()
        _give_error(answer.error, style, answer.error_text)
    elif style == "text":
        _say(*_warning_lines(answer.warnings))
        if answer.text is not None:
            answer.text(page.console())
        elif answer.page is not None:
            page.give(answer.page())
    elif not answer.printed:
        _print_envelope(succeeded(answer.data), style)


def _give_error(error: RalphError, style: Style, text: Callable[[], str] | None = None) -> None:
    if style != "text":
        _print_envelope(failed(error), style)
    elif text is not None:
        _say(text())
    else:
        _say(*_error_lines(error))


def _print_envelope(envelope: Envelope, style: Style) -> None:
    text = json.dumps(envelope.to_json(), indent=2, ensure_ascii=False)
    out(f"```json\n{text}\n```" if style == "fenced" else text)


def _error_lines(error: RalphError) -> list[str]:
    """Every fault with what to do about it; many of one kind as one."""
    if len(error.faults) <= 1:
        lines = [f"error: {error.message} [{error.code}]"]
        if error.text:
            lines += [f"  {line}" for line in error.text.splitlines()]
        return [*lines, *_warning_lines(error.warnings), f"  → {error.suggested_action}"]
    lines, rows = [], list(_alike(error.faults))
    for row, following in zip_longest(rows, rows[1:]):
        lines += [f"error: {row[0]} [{row[0].code}]", *_and_more(row)]
        if following is None or following[0].remedy != row[0].remedy:
            lines.append(f"  → {row[0].remedy}")
    return [*lines, *_warning_lines(error.warnings)]


def _warning_lines(warnings: Sequence[Fault]) -> list[str]:
    return [line for row in _alike(warnings) for line in (f"warning: {row[0]}", *_and_more(row))]


def _alike(faults: Sequence[Fault]) -> Iterator[list[Fault]]:
    """Faults that differ in nothing but numbers, together; a few of them are still told one by one."""
    rows: dict[tuple[str | None, ...], list[Fault]] = {}
    for fault in faults:
        kind = (NUMBER.sub("", text) for text in (fault.message, fault.remedy))
        rows.setdefault((fault.code, fault.file, *kind), []).append(fault)
    many = {id(row[0]): row for row in rows.values() if len(row) > MOST_ALIKE}
    told = {id(fault) for row in many.values() for fault in row[1:]}
    return (many.get(id(fault), [fault]) for fault in faults if id(fault) not in told)


def _and_more(row: Sequence[Fault]) -> list[str]:
    if len(row) == 1:
        return []
    lines = [str(fault.line) for fault in row[1:] if fault.line is not None]
    where = f", on lines {several(lines)}" if lines else ""
    return [f"  and {len(row) - 1} more like it{where}"]


def out(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(visible(line) + "\n")


def speaker(style: Style) -> Progress:
    """A progress listener: a person is told on stderr, a script is not."""
    return _say if style == "text" else lambda _message: None


def guarded(command: Callable[[], Answer], style: Style) -> int:
    """Run a command and answer for it, whatever happens."""
    _usable_streams()
    answer = _outcome(command)
    problem = _given(answer, style)
    if problem is None:
        return exit_code_of(answer)
    _give_error(problem, "text")  # stdout has failed, or showing the answer has
    return exit_code_of(Answer(error=problem))


def _outcome(command: Callable[[], Answer]) -> Answer:
    try:
        return command()
    except RalphError as error:
        return Answer(error=error)
    except KeyboardInterrupt:
        return Answer(error=RalphError(Code.INTERRUPTED, "interrupted"))
    except BrokenPipeError:  # while the parser printed its help
        silence(sys.stdout)
        return Answer(printed=True)
    except Exception as problem:  # noqa: BLE001 - the outer edge: anything else is a bug of ours
        return Answer(error=_bug(problem))


def _given(answer: Answer, style: Style) -> RalphError | None:
    """Print down to the last byte: what stays in a buffer fails when nobody can say so any more."""
    try:
        give(answer, style)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the reader went away, as `| head` does; rich makes an exit of it
        silence(sys.stdout)
    except OSError as problem:
        silence(sys.stdout)
        message = f"the answer could not be written to stdout: {problem.strerror or problem}"
        return RalphError(Code.WRITE_FAILED, message, suggested_action="Send the output elsewhere")
    except KeyboardInterrupt:
        return RalphError(Code.INTERRUPTED, "interrupted")
    except Exception as problem:  # noqa: BLE001 - the outer edge, as above
        return _bug(problem)
    return None


def _bug(problem: Exception) -> RalphError:
    import tempfile
    import traceback

    handle, name = tempfile.mkstemp(prefix="beads-ralph-crash-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as crash:
        crash.write(f"{sys.argv!r}\nPython {sys.version}\n\n")
        traceback.print_exception(problem, file=crash)
    return RalphError(
        Code.BUG, f"a bug in beads-ralph: {type(problem).__name__}: {problem}", details=f"crash file: {name}"
    )


def _usable_streams() -> None:
    """A title that the terminal cannot show must not end the program, nor must a stream that is closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # at once, since the next file opened would get the number of the closed one
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for good
        elif name != "stdin":
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")


def silence(stream: TextIO) -> None:
    """Where nobody reads any more, Python would complain once more when it flushes at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(Path(os.devnull), os.O_WRONLY), stream.fileno())


class Display:
    """Something shown on stderr beside the work."""

    silent = False

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[None]:
        """Where nobody looks any more, as after `| head` or in a closed window, the work goes on unseen."""
        try:
            yield
        except (OSError, SystemExit):  # rich makes an exit of a broken pipe
            self.silent = True
            silence(sys.stderr)
