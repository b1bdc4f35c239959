"""A **Pour** block → the values it gives to a formula's variables, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import yaml

from beads_ralph.files.yaml_aliases import require_finite
from beads_ralph.plan import blocks
from beads_ralph.plan.model import At, Given, LabelError, Pour

NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
PAIR: Final = re.compile(rf"\s*({NAME})\s*[=:]\s*")
NEXT: Final = re.compile(rf"\s*,\s*(?:$|(?={NAME}\s*[=:]))|\s+(?={NAME}=)|\s*$")
"""Where one pair on a line ends: before `, name=`, before ` name=`, at the end."""
NEXT_IN_BULLET: Final = re.compile(rf"\s*,\s*(?={NAME}=)|\s*$")
"""A bullet is one pair, so that its value may hold anything but the beginning of another."""
QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")  # no escapes: markdown has taken the backslashes
FORM: Final = "name=value"
# What PyYAML raises: the others come from values such as the 99th of a month and from odd tags.
NOT_YAML: Final = (yaml.YAMLError, ValueError, RecursionError, KeyError, AttributeError, TypeError)
MAX_SHOWN: Final = 60

Pairs = Iterator[tuple[str, At[Given]]]


def pour(field: blocks.Field) -> Pour:
    """On the line, as bullets below it, in a fenced block, or all of these."""
    values: dict[str, At[Given]] = {}
    for name, value in _pairs(field):
        if name in values:
            said = f"**Pour** gives {name} twice, first on line {values[name].line}"
            raise LabelError(said, value.line)
        values[name] = value
    named = values.pop("formula", None)
    if named is None:
        return Pour(field.line, None, values)
    if not isinstance(named.value, str) or not named.value:
        raise LabelError("**Pour** must name one formula", named.line)
    return Pour(field.line, At(named.value, named.line), values)


def _pairs(field: blocks.Field) -> Pairs:
    yield from _line_pairs(field.text, field.codes, field.line)
    for row in field.rest:
        yield from _line_pairs(row.text, row.codes, row.line)
    for item in field.items:
        if not item.struck:
            yield from _item_pairs(item)
    for fence in field.fences:
        yield from _fence_pairs(fence)


def _no_pair(text: str, line: int) -> LabelError:
    said = f"**Pour** has {text.strip()[:MAX_SHOWN]!r} where {FORM} is expected"
    return LabelError(f"{said}; a value with commas goes in quotes, a list in brackets: [a, b]", line)


# --- on the line and in bullets -----------------------------------------------------------------------


def _line_pairs(
    text: str, codes: Sequence[blocks.CodeText], line: int, ends: re.Pattern[str] = NEXT
) -> Pairs:
    at, spans = 0, [code.text for code in codes if not code.fenced]
    while at < len(text):
        pair = PAIR.match(text, at)
        if pair is None:
            raise _no_pair(text[at:], line)
        value, at = _value(text, pair.end(), spans, ends, line)
        yield pair[1], At(value, line)


def _value(
    text: str, start: int, spans: Iterable[str], ends: re.Pattern[str], line: int
) -> tuple[Given, int]:
    """The value that begins at `start`, and where the next pair begins.

    Back-ticks, quotes and brackets keep commas inside, where they hold the whole value.
    """
    for inside, end in _wholes(text, start, spans):
        after = ends.match(text, end)
        if after is not None:
            return inside, after.end()
    found = ends.search(text, start)
    end = found.start() if found else len(text)
    if ends is NEXT and "," in text[start:end]:
        raise _no_pair(text[start:end].partition(",")[2], line)
    return text[start:end].strip(), found.end() if found else len(text)


def _wholes(text: str, start: int, spans: Iterable[str]) -> Iterator[tuple[Given, int]]:
    """A text that may be a whole value: a code span, a quoted text, a list in brackets."""
    for span in spans:
        if text.startswith(span, start):
            yield span, start + len(span)
    quoted = QUOTED.match(text, start)
    if quoted is not None:
        yield quoted[0][1:-1], quoted.end()
    if text.startswith("[", start):
        for close in re.compile(r"\]").finditer(text, start):
            entries = _bracketed(text[start : close.end()])
            if entries is not None:
                yield entries, close.end()


def _bracketed(text: str) -> tuple[str, ...] | None:
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except NOT_YAML:
        return None
    return _entries(node) if isinstance(node, yaml.SequenceNode) else None


def _item_pairs(item: blocks.ListItem) -> Pairs:
    """`- name: api`; bullets below it make its value a list, other lines go on with it."""
    first, _, below = item.text.partition("\n")
    pairs = list(_line_pairs(first, item.codes, item.line, NEXT_IN_BULLET))
    if not pairs:
        raise _no_pair(item.text, item.line)
    if below:
        name, last = pairs.pop()
        pairs.append((name, At(_with_lines(last.value, below), item.line)))
    yield from pairs


def _with_lines(value: Given, below: str) -> Given:
    entries = re.split(r"^- ", below, flags=re.MULTILINE)
    if value == "" and entries[0] == "":
        return tuple(re.sub(r"^ {2}", "", entry.rstrip("\n"), flags=re.MULTILINE) for entry in entries[1:])
    above = value if isinstance(value, str) else ", ".join(value)
    return f"{above}\n{below}" if above else below


# --- in a fenced block --------------------------------------------------------------------------------


def _fence_pairs(fence: blocks.CodeText) -> Pairs:
    """YAML or JSON, read as texts; else one pair a line, whose values need not be YAML."""
    try:
        root = yaml.compose(fence.text, Loader=yaml.BaseLoader)
        require_finite(root)
    except NOT_YAML as problem:
        root = None
        if not all(PAIR.match(line) for _, line in _told(fence)):
            why, place = yaml_fault(problem, fence)
            message = f"**Pour** has a block that is neither YAML, JSON nor {FORM} lines: {why}"
            raise LabelError(message, place) from None
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    named = all(isinstance(key, yaml.ScalarNode) and re.fullmatch(NAME, key.value) for key, _ in pairs)
    if isinstance(root, yaml.MappingNode) and named:
        yield from _mapping_pairs(root, fence)
        return
    for number, line in _told(fence):
        pair = PAIR.match(line)
        if pair is None:
            raise _no_pair(line, number)
        value, _ = _value(line, pair.end(), (), WHOLE_LINE, number)
        yield pair[1], At(value, number)


WHOLE_LINE: Final = re.compile(r"\s*$")


def _told(fence: blocks.CodeText) -> list[tuple[int, str]]:
    """Its lines, without comments and empty ones."""
    rows = enumerate(fence.text.split("\n"), fence.line)
    return [(number, line) for number, line in rows if line.strip() and not line.lstrip().startswith("#")]


def _mapping_pairs(mapping: yaml.MappingNode, fence: blocks.CodeText) -> Pairs:
    for key, node in mapping.value:
        line = line_at(fence, key.start_mark.index)
        if isinstance(node, yaml.ScalarNode):
            yield key.value, At(_text(node, fence), line)
            continue
        if key.value == "vars" and isinstance(node, yaml.MappingNode):
            yield from _mapping_pairs(node, fence)
            continue
        if _entries(node) is None:
            raise LabelError(f"**Pour**: {key.value} must be a text or a list of texts", line)
        yield key.value, At(tuple(_text(entry, fence) for entry in node.value), line)


def _text(node: yaml.ScalarNode, fence: blocks.CodeText) -> str:
    """Without the newline that ends every block; JSON may write one character as two escapes."""
    text = node.value.rstrip("\n") if node.style in ("|", ">") else node.value
    try:
        return str(text.encode("utf-16", "surrogatepass").decode("utf-16"))
    except UnicodeDecodeError:
        message = "**Pour** has half of a character, an escape such as \\ud83d alone"
        raise LabelError(message, line_at(fence, node.start_mark.index)) from None


def _entries(node: yaml.Node) -> tuple[str, ...] | None:
    """The texts of a list; None where it is no list, or holds something else."""
    if not isinstance(node, yaml.SequenceNode):
        return None
    flat = all(isinstance(entry, yaml.ScalarNode) for entry in node.value)
    return tuple(entry.value for entry in node.value) if flat else None


def yaml_fault(problem: Exception, block: blocks.CodeText | blocks.FrontMatter) -> tuple[str, int]:
    """Why a block is no YAML, and in which line."""
    mark = getattr(problem, "problem_mark", None)
    index = mark.index if mark is not None else getattr(problem, "position", 0)
    why = str(getattr(problem, "problem", None) or problem).split("\n", maxsplit=1)[0]
    return why, line_at(block, index)


def line_at(block: blocks.CodeText | blocks.FrontMatter, index: int) -> int:
    """Counted by hand: YAML takes some characters for line breaks that markdown does not."""
    return block.line + block.text.count("\n", 0, index)
