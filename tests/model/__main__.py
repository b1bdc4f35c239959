"""The scripted model by hand: `python -m tests.model` prints its address and serves until stopped."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from tests.model.server import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    with ModelServer(parser.parse_args().port) as server, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{server.root}\n")
        sys.stdout.flush()
        server.closing.wait()


if __name__ == "__main__":
    main()
