"""All the liars, read from the files of `cast/`.

Each file is one kind. Above its first liar stand functions that all of them may use. A liar begins with

    #=== name key=value …

and its script in the first sprint follows. Sections: `#--- then` is its script in the later sprints,
`#--- qa` the reviewer's, `#--- verify` has one verifier a line, `#--- file NAME` is one more file of the
project, `#--- loose NAME` one that is not committed. The keys are those of `Liar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.liars.scene import MODES, Liar
from tests.liars.worlds import WORLDS

FOLDER: Final = Path(__file__).parent / "cast"
BY_NAME: Final = {world.name: world for world in WORLDS}
READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "world": BY_NAME.__getitem__,
    **dict.fromkeys(("sprints", "runs", "beside"), int),
    **dict.fromkeys(("alone", "racy"), "yes".__eq__),
    **dict.fromkeys(("quick", "needs"), lambda value: tuple(value.split(","))),
    "settings": lambda value: yaml.safe_load(value.replace(":", ": ", 1)),
    **dict.fromkeys(("env", "config"), lambda value: dict(pair.split(":", 1) for pair in value.split(","))),
    "verify": lambda _none: (),
}
"""How the values of keys are read."""


def _liars(path: Path) -> Iterator[Liar]:
    shared, *parts = re.split(r"^#=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for part in parts:
        head, _, body = part.partition("\n")
        name, *words = head.split()
        script, *rest = re.split(r"^#--- ", body, flags=re.MULTILINE)
        given: dict[str, Any] = {"files": {}, "loose": {}}
        for word in words:
            key, _, value = word.partition("=")
            given[key] = READ.get(key, str)(value)
        for section in rest:
            title, _, text = section.partition("\n")
            _add(given, title, text, shared)
        yield Liar(name=name, kind=path.stem, dev=shared + script, **given)


def _add(given: dict[str, Any], title: str, text: str, shared: str) -> None:
    kind, _, name = title.partition(" ")
    if kind in ("file", "loose"):
        given["files" if kind == "file" else kind][name] = text.rstrip("\n") + "\n"
    elif kind == "verify":
        given[kind] = tuple(text.strip().splitlines())
    else:
        given[kind] = shared + text


CAST: Final = tuple(liar for path in sorted(FOLDER.glob("*.sh")) for liar in _liars(path))
assert all(mode in (*MODES, "bare") for liar in CAST for mode in liar.quick)
