"""A process that waits for a word and then claims a bead: `python -m tests.contract.claimer`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contract.places import Place


def main(kind: str, root: str, bd: str, bead_id: str, actor: str) -> None:
    store = Place(kind, Path(root), bd or None).open()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    claim = store.claim(bead_id, actor)
    print("won" if claim.won else claim.refusal, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
