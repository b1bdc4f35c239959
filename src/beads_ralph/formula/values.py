"""The values of a pour's variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Value = str | int | bool | tuple[str, ...]


@dataclass(frozen=True)
class Values(Mapping[str, Value]):
    """Name → value, typed as the variable says; checked, and with the defaults filled in."""

    typed: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.typed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.typed)

    def __len__(self) -> int:
        return len(self.typed)

    def text(self, name: str) -> str:
        """As it stands in a text: a list is its lines, a boolean `true` or `false`."""
        value = self.typed[name]
        if isinstance(value, tuple):
            return "\n".join(value)
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def entries(self, name: str) -> tuple[str, ...]:
        """The entries of a list; any other value is its only entry."""
        value = self.typed[name]
        return value if isinstance(value, tuple) else (self.text(name),)

    def texts(self) -> dict[str, str]:
        """All of them as texts, which is how bd takes them."""
        return {name: self.text(name) for name in self.typed}
