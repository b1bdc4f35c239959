"""Setting one key in the text of a settings file, with everything else left as it is, comments included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from beads_ralph.config.model import INNER


def with_key(text: str, key: str, value: Any) -> str:
    """The text with the key set to the value; `key` is one in full, such as `plan.rig`."""
    part, _, name = key.rpartition(".")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    place = _pair(root, part) if part else None
    mapping = place[1] if place is not None else root if not part else None
    said = _written(value)
    found = _pair(mapping, name) if isinstance(mapping, yaml.MappingNode) else None
    if found is not None:
        return _replaced(text, found, said)
    line = f"{name}: {said}\n"
    if not part:
        return f"{_ended(text)}{line}"
    if place is None:
        return f"{_ended(text)}{part}:\n  {line}"
    return _inside(text, place, line)


def _written(value: Any) -> str:
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return dumped.removesuffix("...\n").strip()


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _pair(mapping: Any, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else ()
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _replaced(text: str, pair: tuple[yaml.Node, yaml.Node], said: str) -> str:
    """From behind the key's colon to the end of what stands there, but not what is remarked after it."""
    key, value = pair
    colon = text.index(":", key.end_mark.index) + 1
    end = max((leaf.end_mark.index for leaf in _leaves(value)), default=colon)
    return f"{text[:colon]} {said}{text[max(end, colon) :]}"


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    """The nodes that end where their text does: a block ends only where the next thing begins."""
    inner = [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else None
    inner = list(node.value) if isinstance(node, yaml.SequenceNode) else inner
    if not inner or getattr(node, "flow_style", False):
        yield node
    else:
        yield from (leaf for child in inner for leaf in _leaves(child))


def _inside(text: str, place: tuple[yaml.Node, yaml.Node], line: str) -> str:
    """As the first key of a section; one that is written in braces, or is empty, is written anew."""
    key, section = place
    assert key.value in INNER  # noqa: S101 - nothing else has keys of its own
    children = section.value if isinstance(section, yaml.MappingNode) else []
    if getattr(section, "flow_style", False) and children:
        start = section.start_mark.index + 1
        return f"{text[:start]}{line.strip()}, {text[start:]}"
    indent = " " * (children[0][0].start_mark.column if children else 2)
    at = text.find("\n", key.end_mark.index) + 1
    head, rest = (text[:at], text[at:]) if at else (f"{text}\n", "")
    return f"{head}{indent}{line}{rest}"
