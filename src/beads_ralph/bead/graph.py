"""Sprint numbers → dependencies; checks, waves and the critical path. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from beads_ralph.bead.names import SprintId

Edges = Mapping[str, Sequence[str]]
Tracks = Mapping[tuple[int, str], Mapping[int, Sequence[SprintId]]]


# --- the law ----------------------------------------------------------------------------------------


def dependencies(sprints: Iterable[SprintId]) -> dict[SprintId, tuple[SprintId, ...]]:
    """The dependencies of sprints, from their numbers alone.

    A sprint waits for every sprint of the nearest earlier number in its phase. The first number of a
    phase waits for every sprint of the last number of each track of the nearest earlier phase. A track
    of several letters, all of them sibling tracks, converges those instead.
    """
    known = sorted(sprints)
    tracks = _by_track(known)
    phases: dict[int | None, list[tuple[int, str]]] = defaultdict(list)
    for track in tracks:
        phases[track[0]].append(track)
    previous = _earlier_numbers({number for number, _ in tracks})
    entries = {track: tuple(_entry(track, tracks, phases[previous.get(track[0])])) for track in tracks}
    earlier = {track: _earlier_numbers(numbers) for track, numbers in tracks.items()}
    waits = {}
    for sprint in known:
        number = earlier[sprint.track].get(sprint.sprint_number)
        waits[sprint] = entries[sprint.track] if number is None else tuple(tracks[sprint.track][number])
    return waits


def _by_track(sprints: Iterable[SprintId]) -> Tracks:
    tracks: dict[tuple[int, str], dict[int, list[SprintId]]] = defaultdict(lambda: defaultdict(list))
    for sprint in sprints:
        tracks[sprint.track][sprint.sprint_number].append(sprint)
    return tracks


def _earlier_numbers(numbers: Iterable[int]) -> dict[int, int]:
    """For each number but the first, the nearest earlier one."""
    return {later: earlier for earlier, later in pairwise(sorted(numbers))}


def _entry(track: tuple[int, str], tracks: Tracks, before: Iterable[tuple[int, str]]) -> list[SprintId]:
    """The dependencies of a track's first number; `before` are the tracks of the nearest earlier phase."""
    number, suffix = track
    siblings = [(number, letter) for letter in suffix]
    if len(suffix) > 1 and all(sibling in tracks for sibling in siblings):
        return _lasts(sorted(set(siblings)), tracks)
    return _lasts(before, tracks)


def _lasts(ending: Iterable[tuple[int, str]], tracks: Tracks) -> list[SprintId]:
    return [sprint for track in ending for sprint in tracks[track][max(tracks[track])]]


# --- checks -----------------------------------------------------------------------------------------


def cycle(edges: Edges) -> list[str]:
    """One cycle as a path that returns to its start, empty where there is none.

    Depth first with three colours; iterative, since a plan of ten thousand sprints is a long path.
    """
    grey, black = set[str](), set[str]()
    for root in edges:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                grey.discard(node)
                black.add(node)
                path.pop()
            elif node in grey:
                return [*path[path.index(node) :], node]
            elif node not in black:
                grey.add(node)
                path.append(node)
                stack.append((node, True))
                stack.extend((other, False) for other in reversed(edges.get(node, ())))
    return []


def reachable(starts: Iterable[str], edges: Edges) -> list[str]:
    """The starts and everything behind them, each once, depth first."""
    found: dict[str, None] = {}
    stack = list(starts)[::-1]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack.extend(reversed(edges.get(node, ())))
    return list(found)


def stuck(edges: Edges) -> list[str]:
    """The nodes that never become ready: on a cycle, or behind one."""
    done = {node for wave in waves(edges) for node in wave}
    return [node for node in edges if node not in done]


def dangling(edges: Edges, also_known: Collection[str] = ()) -> list[tuple[str, str]]:
    return [
        (node, other)
        for node, others in edges.items()
        for other in others
        if other not in edges and other not in also_known
    ]


def problems(edges: Edges) -> list[str]:
    """Everything wrong with a graph, in the seed's words; empty where it is a DAG with a root."""
    found = [f"Self-dependency: {node} depends on itself" for node, others in edges.items() if node in others]
    found += [
        f"Unknown dependency: {node} depends on {other} which does not exist"
        for node, other in dangling(edges)
    ]
    path = cycle({node: [other for other in others if other != node] for node, others in edges.items()})
    if path:
        found.append(f"Circular dependency detected: {' → '.join(path)}")
    if edges and all(edges.values()):
        found.append("No root beads found (all beads have dependencies)")
    return found


# --- order ------------------------------------------------------------------------------------------


def waves(edges: Edges) -> list[list[str]]:
    """Nodes that can run together: each wave waits only for earlier ones; what hangs on a cycle is left out.

    Each wave is in the order of `edges`.
    """
    place = {node: at for at, node in enumerate(edges)}
    waiting = {node: sum(other in edges for other in others) for node, others in edges.items()}
    dependents = _dependents(edges)
    found: list[list[str]] = []
    wave = [node for node, count in waiting.items() if count == 0]
    while wave:
        found.append(wave)
        following = []
        for node in wave:
            for dependent in dependents[node]:
                waiting[dependent] -= 1
                if waiting[dependent] == 0:
                    following.append(dependent)
        wave = sorted(following, key=place.__getitem__)
    return found


def _dependents(edges: Edges) -> dict[str, list[str]]:
    dependents: dict[str, list[str]] = defaultdict(list)
    for node, others in edges.items():
        for other in others:
            dependents[other].append(node)
    return dependents


def critical_path(edges: Edges) -> list[str]:
    """The longest chain, first sprint first; among equals the one that comes first in `edges`."""
    length: dict[str, int] = {}
    before: dict[str, str | None] = {}
    for node in (node for wave in waves(edges) for node in wave):
        known = [other for other in edges[node] if other in length]
        before[node] = best = max(known, key=length.__getitem__, default=None)
        length[node] = 1 + (length[best] if best is not None else 0)
    last = max(length, key=length.__getitem__, default=None)
    path: list[str] = []
    while last is not None:
        path.append(last)
        last = before[last]
    return path[::-1]


def remaining_depth(edges: Edges) -> dict[str, int]:
    """The longest chain that hangs on each node, itself included: the scheduler's second key."""
    depth: dict[str, int] = {}
    dependents = _dependents(edges)
    for wave in reversed(waves(edges)):
        for node in wave:
            depth[node] = 1 + max((depth.get(other, 0) for other in dependents[node]), default=0)
    return depth
