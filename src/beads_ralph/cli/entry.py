"""The console commands. `--version` answers here, before anything heavy is imported."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from beads_ralph import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beads_ralph.cli.answer import Answer

OURS = ("beads-ralph.yaml", ".ralph")
"""Either of them says that a repository is worked on with this program."""
COLLECTED = 100_000
"""So many new objects before cycles are looked for: imports make many objects and no garbage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """`beads-ralph` with these arguments, or those of the process; the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--version"]:
        sys.stdout.write(f"beads-ralph {__version__}\n")
        return 0
    gc.set_threshold(COLLECTED)
    from beads_ralph.cli.answer import guarded
    from beads_ralph.cli.style import settle_style

    return guarded(lambda: _answer(words), settle_style(words))


def _answer(words: Sequence[str]) -> Answer:
    from beads_ralph.cli import quick

    asked = not words and quick.COMPLETING not in os.environ  # a shell that completes gives no words either
    if asked and (shown := _board()) is not None:
        return shown
    if (command := quick.understood(words)) is not None:
        return command()
    from beads_ralph.cli import commands, parser

    return parser.answer(parser.whole(), commands.PROGRAM, words)


def _board() -> Answer | None:
    """What `beads-ralph` alone shows of a repository; None where there is nothing of ours."""
    from beads_ralph.config import workspace

    place = workspace.place()
    if place.repository is None or not any((place.root / name).exists() for name in OURS):
        return None
    from beads_ralph.cli import watching

    return watching.board()


def mason(arguments: Sequence[str] | None = None) -> int:
    """`beads-mason`: the mason command in the seed's own form, answering with fenced JSON."""
    from beads_ralph.cli import parser
    from beads_ralph.cli.answer import guarded
    from beads_ralph.cli.style import settle_style

    words = sys.argv[1:] if arguments is None else list(arguments)
    style = settle_style(words, default="fenced")
    return guarded(lambda: parser.answer(parser.mason(), parser.MASON, words), style)


if __name__ == "__main__":
    sys.exit(main())
