"""What agents are told: Markdown files with places for values.

    {{name}}       a short value, set as code: `main/1-1-setup`
    {{name:data}}  text that others wrote, or a list of such texts, in a fence of its own
    {{name:ours}}  text that comes with the program, as it is

A fence is always longer than any run of backticks inside it, so no text can close its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, Literal, get_args

Name = Literal[
    "dev", "dev-retry", "handover", "qa", "merge", "ralph", "scrum-master", "scrum-recovery", "ask"
]
Value = str | int | Sequence[str]

NAMES: Final[tuple[Name, ...]] = get_args(Name)
PLACE: Final = re.compile(r"\{\{(\w+)(:data|:ours)?\}\}")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NOTHING: Final = "(none)"
SHORTEST_FENCE: Final = 3


def render(name: Name, **values: Value) -> str:
    """The prompt with every place filled; ValueError where a value is missing or has no place."""
    text, wanted = _template(name), places(name)
    wrong = [f"missing {key}" for key in sorted(wanted - values.keys())]
    wrong += [f"no place for {key}" for key in sorted(values.keys() - wanted)]
    if wrong:
        raise ValueError(f"prompt {name}: {', '.join(wrong)}")
    return PLACE.sub(lambda place: SHOWN[place[2] or ""](values[place[1]]), text)


def places(name: Name) -> frozenset[str]:
    """The values that a prompt needs."""
    return frozenset(place[1] for place in PLACE.finditer(_template(name)))


@cache
def agent_files() -> dict[str, str]:
    """The agent files that `init` puts into a repository, by name."""
    folder = resources.files(__name__).joinpath("agents")
    return {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir()}


@cache
def _template(name: Name) -> str:
    if name not in NAMES:
        raise ValueError(f"there is no prompt {name!r}; known are {', '.join(NAMES)}")
    return resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def code_span(value: Value) -> str:
    """One line of code; control characters are spelled out, so that it stays one line."""
    text = CONTROL.sub(lambda char: f"\\x{ord(char[0]):02x}", str(value))
    ticks = "`" * (_longest_run(text) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}" if text.strip() else NOTHING


def _data(value: Value) -> str:
    text = str(value) if isinstance(value, str | int) else _numbered(value)
    if not text.strip():
        return NOTHING
    fence = "`" * max(SHORTEST_FENCE, _longest_run(text) + 1)
    return f"{fence}text\n{text.strip(chr(10))}\n{fence}"


SHOWN: Final[Mapping[str, Callable[[Value], str]]] = {"": code_span, ":data": _data, ":ours": str}


def _numbered(items: Sequence[str]) -> str:
    """Items on lines of their own; a second line of an item is set in, lest it look like the next one."""
    return "\n".join(
        f"{n}. {item.strip().replace(chr(10), chr(10) + '   ')}" for n, item in enumerate(items, 1)
    )


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
