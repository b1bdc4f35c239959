"""The stores by name: one table, and the settings and options name the same."""

from __future__ import annotations

from typing import get_args

from beads_ralph.config.settings_file import StoreChoice, StoreName
from beads_ralph.store.registry import STORES


def test_every_store_that_can_be_named_can_be_opened() -> None:
    assert set(get_args(StoreName)) == set(STORES)
    assert set(get_args(StoreChoice)) == {"auto", *STORES}
