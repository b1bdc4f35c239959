"""Valid items for tests: `make_item("bd-gate", "gate", parent="bd-root")`."""

from __future__ import annotations

from typing import Any

from beads_ralph.bead.items import Item


def make_item(item_id: str, kind: str = "task", **fields: Any) -> Item:
    return Item.model_validate(
        {"id": item_id, "title": f"The {kind} {item_id}", "issue_type": kind, **fields}
    )
