"""A process that pours, works and settles: `python -m tests.contract.settler`."""

from __future__ import annotations

import sys
from pathlib import Path

from beads_ralph.bead.names import GATE, MOLECULE
from tests.beads import make_bead
from tests.contract.places import Place
from tests.items import make_item


def main(kind: str, root: str, bd: str, name: str) -> None:
    store = Place(kind, Path(root), bd or None).open()
    for turn in range(5 if kind == "embedded" else 1):
        molecule = f"bd-{name}-{turn}"
        gate, bead = f"{molecule}-gate", f"{molecule}-bead"
        store.create(
            [
                make_item(molecule, MOLECULE),
                make_item(gate, GATE, parent=molecule),
                make_bead(bead, parent=molecule, dependencies=[gate]),
            ]
        )
        store.items.track("bd-all", [molecule])
        store.items.close(gate, name, "go")
        if not store.claim(bead, name).won:
            raise SystemExit(f"{bead} was not free")
        store.close(bead, name, "done")
        store.items.settle()


if __name__ == "__main__":
    main(*sys.argv[1:])
