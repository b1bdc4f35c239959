"""YAML aliases that no program can unfold: one that holds itself, or many that hold one another."""

from __future__ import annotations

from typing import Final

import yaml

MOST_VALUES: Final = 100_000


def require_finite(root: yaml.Node | None) -> None:
    """Raise a YAMLError for a document that has no end, or none that fits into memory."""
    sizes: dict[int, int] = {}
    if root is not None and _size(root, sizes, set()) > MOST_VALUES:
        raise _refusal(f"its aliases unfold to more than {MOST_VALUES} values", root)


def _size(node: yaml.Node, sizes: dict[int, int], above: set[int]) -> int:
    """The number of values below the node, aliases unfolded; `above` are the nodes that it lies in."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in above:
        raise _refusal("an alias (*name) is inside what it names (&name)", node)
    if id(node) not in sizes:
        above.add(id(node))
        pairs = node.value if isinstance(node, yaml.MappingNode) else [(inner,) for inner in node.value]
        sizes[id(node)] = 1 + sum(_size(inner, sizes, above) for pair in pairs for inner in pair)
        above.discard(id(node))
    return sizes[id(node)]


def _refusal(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
