"""The base of everything that is read from JSON and written back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """Strictly typed and frozen; keys it does not know are kept, never dropped."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", defer_build=True)

    def to_json(self) -> dict[str, Any]:
        """Exactly the keys that were given, so that reading and writing changes nothing."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)
