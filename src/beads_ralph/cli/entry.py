"""The console commands. `--version` answers here, before anything heavy is imported."""

from __future__ import annotations

import sys

from beads_ralph import __version__


def main() -> int:
    """`beads-ralph`."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"beads-ralph {__version__}\n")
        return 0
    from beads_ralph.cli.app import main as answer

    return answer(arguments)


def mason() -> int:
    """`beads-mason`: the mason command in the seed's own form, answering with fenced JSON."""
    from beads_ralph.cli.app import run_mason

    return run_mason(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
