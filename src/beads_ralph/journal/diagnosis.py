"""The log of a run, for finding out what went wrong. What happened is in the journal, not here."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.redaction import redact
from beads_ralph.config.model import Logging
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.files.text_files import RALPH_DIR
from beads_ralph.journal.journal import moment_text

ROOT: Final = "beads_ralph"
DEFAULT_FILE: Final = "beads-ralph.log"
LARGEST: Final = 10 * 1024 * 1024
"""Then a new file begins, and one old one is kept: a long night must not fill the disk."""


@contextmanager
def logged(settings: Logging, root: Path) -> Iterator[Path]:
    """What the modules of this program log while it lasts goes into the file of the settings."""
    path = root / (settings.file or f"{RALPH_DIR}/{DEFAULT_FILE}")
    handler = _handler(path)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    log = logging.getLogger(ROOT)
    before = (log.level, log.propagate)
    log.addHandler(handler)
    log.setLevel(settings.level.upper())
    log.propagate = False
    try:
        yield path
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before
        handler.close()


def _handler(path: Path) -> logging.Handler:
    action = "Name another logging.file in beads-ralph.yaml"
    try:
        text_files.make_folder(path.parent)
        handler = Quiet(path, maxBytes=LARGEST, backupCount=1, encoding="utf-8", errors="backslashreplace")
    except RalphError as error:
        raise RalphError(error.code, error.message, suggested_action=action) from None
    except OSError as problem:
        code = Code.PERMISSION_DENIED if isinstance(problem, PermissionError) else Code.WRITE_FAILED
        message = f"cannot write {path}: {problem.strerror}"
        raise RalphError(code, message, suggested_action=action) from None
    return handler


class Quiet(RotatingFileHandler):
    """A log that cannot be written, as on a full disk, is no reason to end a run or to spoil its screen."""

    def _open(self) -> TextIOWrapper:
        descriptor = text_files.open_private(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding=self.encoding, errors=self.errors)

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of logging's own
        del record


class TextLines(logging.Formatter):
    """`2026-02-03T10:11:12.345Z DEBUG beads_ralph.process.jobs: …`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        del datefmt
        return _moment(record)


class JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, Any] = {
            "at": _moment(record),
            "level": record.levelname.lower(),
            "module": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False)


def _moment(record: logging.LogRecord) -> str:
    return moment_text(datetime.fromtimestamp(record.created, UTC))
