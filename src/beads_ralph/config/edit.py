"""One setting changed in the text of a file, with everything else left as the user wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from beads_ralph.config.model import INNER, SECTIONS
from beads_ralph.config.read import meaning, of_text
from beads_ralph.errors import Code, RalphError

Pair = tuple[yaml.Node, yaml.Node]


def with_setting(text: str, key: str, value: Any) -> str:
    """The text with the key set to the value; `key` is one in full, such as `plan.rig`. It is changed where
    it stands, in whatever layout, else added. Refused where it would not count."""
    new = _with_key(text, key, value)
    wanted, found = (setting_of(of_text(one).config, key) for one in (_alone(key, value), new))
    if wanted != found:
        raise _by_hand(key, value)
    return new


def setting_of(config: Any, key: str) -> Any:
    """The value of a key in full."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def _with_key(text: str, key: str, value: Any) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    said = _written(value)
    if (found := _place_of(root, key)) is not None:
        if found[1].start_mark.index < found[0].end_mark.index:  # an alias: what it means stands elsewhere
            raise _by_hand(key, value)
        return _replaced(text, found, said)
    part, _, name = key.rpartition(".")
    if not part:
        return f"{_ended(text)}{name}: {said}\n"
    section = _pair(root, part)
    if section is None:
        return f"{_ended(text)}{part}:\n  {name}: {said}\n"
    return _inside(text, section, f"{name}: {said}\n")


def _place_of(root: Any, key: str) -> Pair | None:
    """Where the file says it: by its own name, by a shorter one, or by that of a section. Where it says it
    more than once, the one that counts: `plan.rig` before a mere `rig`, and otherwise the last."""
    found = [(section in INNER, pair) for section, pair in _said(root) if _meant(section, pair) == key]
    return max(enumerate(found), key=lambda one: (one[1][0], one[0]))[1][1] if found else None


def _said(root: Any) -> Iterator[tuple[str, Pair]]:
    """Every key with its value, and the section that it stands in."""
    for name, value in root.value if isinstance(root, yaml.MappingNode) else ():
        section = str(name.value)
        if isinstance(value, yaml.MappingNode) and (section in INNER or section in SECTIONS):
            yield from ((section, pair) for pair in value.value)
        else:
            yield "", (name, value)


def _meant(section: str, pair: Pair) -> str:
    return meaning(section, str(pair[0].value))


def _alone(key: str, value: Any) -> str:
    """A file that says nothing else."""
    part, _, name = key.rpartition(".")
    return f"{part}:\n  {name}: {_written(value)}\n" if part else f"{name}: {_written(value)}\n"


def _written(value: Any) -> str:
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return dumped.removesuffix("...\n").strip()


def _by_hand(key: str, value: Any) -> RalphError:
    action = f"Set {key}: {_written(value)} in the file yourself"
    return RalphError(
        Code.CONFIG_INVALID, f"{key} cannot be changed where it stands", suggested_action=action
    )


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _pair(mapping: Any, name: str) -> Pair | None:
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else ()
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _replaced(text: str, pair: Pair, said: str) -> str:
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


def _inside(text: str, place: Pair, line: str) -> str:
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
