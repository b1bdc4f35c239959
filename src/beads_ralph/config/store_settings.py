"""Which store, and how it is asked."""

from __future__ import annotations

from typing import Final, Literal

CONFIG_NAME: Final = "beads-ralph.yaml"
StoreName = Literal["embedded", "bd"]
StoreChoice = Literal["auto", StoreName]
