"""Plug-ins that are known by their file: each module of a folder, imported when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

PACKAGE: Final = __name__.partition(".")[0]
Plugin = TypeVar("Plugin")


@cache
def names(folder: str) -> tuple[str, ...]:
    """The modules in a folder of the program, such as `process.executors`; none is imported."""
    path = Path(__file__).parents[1].joinpath(*folder.split("."))
    return tuple(sorted(found.name for found in pkgutil.iter_modules([str(path)])))


if TYPE_CHECKING:
    ExecutorName = str
    ForgeName = str
else:  # what can be chosen in the settings and on the command line
    ExecutorName = Literal[names("process.executors")]
    ForgeName = Literal[("auto", *names("forge.adapters"))]


class Plugins(Mapping[str, Plugin]):
    """By the name of its module, what each module of a folder has under the name `entry`."""

    def __init__(self, folder: str, entry: str) -> None:
        self.folder = folder
        self.entry = entry

    def __getitem__(self, name: str) -> Plugin:
        if name not in names(self.folder):
            raise KeyError(name)
        found: Plugin = getattr(importlib.import_module(f"{PACKAGE}.{self.folder}.{name}"), self.entry)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(names(self.folder))

    def __len__(self) -> int:
        return len(names(self.folder))
