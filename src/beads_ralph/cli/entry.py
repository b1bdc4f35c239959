"""The console commands. `--version` answers here, before anything heavy is imported."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from beads_ralph import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beads_ralph.cli.answer import Answer

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

    if (command := quick.understood(words)) is not None:
        return command()
    from beads_ralph.cli import commands, parser

    return parser.answer(parser.whole(), commands.PROGRAM, words)


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
