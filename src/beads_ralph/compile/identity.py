"""Which bead of the store is which sprint of the plan: by annotation, by number and title, by either."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import slug
from beads_ralph.compile.setting import ID_PREFIX
from beads_ralph.plan import Sprint

WORD_LENGTH: Final = 4


@dataclass(frozen=True)
class Handle:
    """A bead, or the root of a molecule, as the sprint that it was made of."""

    thing: Bead | Item
    number: str
    title: str
    plan_file: str

    @classmethod
    def of(cls, thing: Bead | Item) -> Handle:
        if isinstance(thing, Bead):
            return cls(thing, thing.metadata.plan_sprint_id, thing.title, thing.metadata.plan_file)
        said = thing.metadata
        return cls(thing, str(said.get("plan_sprint_id")), thing.title, str(said.get("plan_file")))

    @property
    def id(self) -> str:
        return self.thing.id

    @property
    def is_done(self) -> bool:
        return self.thing.status == "closed"

    @cached_property
    def titles(self) -> set[str]:
        """The title, which a person may have changed in the store, and the one of the plan's heading."""
        said = self.thing.metadata
        heading = said.get("plan_section", "") if isinstance(said, dict) else said.plan_section
        return {slug(self.title), slug(str(heading).partition(":")[2])} - {""}


def matched(sprints: Sequence[Sprint], handles: Iterable[Handle]) -> dict[str, Handle]:
    """Sprint → what the store has of it. Each bead belongs to one sprint; a run with an id suffix has made
    beads beside the first ones, and those belong to none."""
    matching = _Matching(list(sprints), list(without_twins(handles)))
    matching.by(lambda sprint, handle: handle.id in _named(sprint) and _is(sprint, handle))
    matching.by(lambda sprint, handle: handle.id in _named(sprint))
    matching.by(_is)
    matching.by_title()
    matching.by(_may_be)
    return matching.found


class _Matching:
    def __init__(self, sprints: list[Sprint], handles: list[Handle]) -> None:
        self.sprints = sprints
        self.handles = handles
        self.found: dict[str, Handle] = {}

    def by(self, rule: Callable[[Sprint, Handle], bool]) -> None:
        """Match those that are left and that the rule joins: only such as share an id or a number."""
        near: dict[str, list[Handle]] = defaultdict(list)
        for handle in self.handles:
            near[handle.id].append(handle)
            near[handle.number].append(handle)
        taken = {handle.id for handle in self.found.values()}
        for sprint in self.sprints:
            if sprint.id.text in self.found:
                continue
            others = (handle for key in (*_named(sprint), sprint.id.text) for handle in near[key])
            fits = (handle for handle in others if handle.id not in taken and rule(sprint, handle))
            self._take(sprint, next(fits, None))
            taken |= {self.found[sprint.id.text].id} if sprint.id.text in self.found else set()
        self._forget()

    def by_title(self) -> None:
        """Renumbered ones: the only sprint and the only bead that are left with a title."""
        beads: dict[str, list[Handle]] = defaultdict(list)
        for handle in self.handles:
            for title in handle.titles:
                beads[title].append(handle)
        left = [sprint for sprint in self.sprints if sprint.id.text not in self.found]
        counts = Counter(slug(sprint.title) for sprint in left)
        taken: set[str] = set()
        for sprint in left:
            title = slug(sprint.title)
            if counts[title] == 1 and len(beads[title]) == 1 and beads[title][0].id not in taken:
                self._take(sprint, beads[title][0])
                taken.add(beads[title][0].id)
        self._forget()

    def _take(self, sprint: Sprint, handle: Handle | None) -> None:
        if handle is not None:
            self.found[sprint.id.text] = handle

    def _forget(self) -> None:
        taken = {handle.id for handle in self.found.values()}
        self.handles = [handle for handle in self.handles if handle.id not in taken]


def _named(sprint: Sprint) -> list[str]:
    """The ids that the plan itself gives: by annotation, or by a **Bead Name** that is a whole id."""
    given = sprint.bead_name.value if sprint.bead_name else ""
    whole = [given] if given.startswith(f"{ID_PREFIX}-") else []
    return [*([sprint.annotation.value] if sprint.annotation else ()), *whole]


def _is(sprint: Sprint, handle: Handle) -> bool:
    same = sprint.id.text == handle.number
    return same and (sprint.title == handle.title or slug(sprint.title) in handle.titles)


def _may_be(sprint: Sprint, handle: Handle) -> bool:
    """The number is the same, so the title was edited; but finished work is not given to a sprint that has
    nothing in common with it."""
    if sprint.id.text != handle.number or not handle.is_done or not isinstance(handle.thing, Bead):
        return sprint.id.text == handle.number
    words = {word for title in handle.titles for word in title.split("-") if len(word) >= WORD_LENGTH}
    tasks = {task.value for task in sprint.tasks} & {*handle.thing.metadata.dev_prompts}
    return bool(tasks or words & {*slug(sprint.title).split("-")})


def without_twins(handles: Iterable[Handle]) -> Iterator[Handle]:
    """Those that are not the bead of the same sprint with a suffix to its id."""
    known = list(handles)
    ids: dict[str, set[str]] = defaultdict(set)
    for handle in known:
        ids[handle.number].add(handle.id)
    for handle in known:
        ends = (end for end, letter in enumerate(handle.id) if letter == "-")
        if not any(handle.id[:end] in ids[handle.number] for end in ends):
            yield handle


# --- a plan that was moved --------------------------------------------------------------------------


def former_file(
    sprints: Sequence[Sprint], elsewhere: Iterable[Handle], is_there: Callable[[str], bool]
) -> str | None:
    """The file that the plan was before it was moved or renamed: it is gone, and at least half of what was
    made of it stands in this plan, by annotation or by number and title; or all of it, by title alone, where
    it was renumbered as well."""
    groups: dict[str, list[Handle]] = defaultdict(list)
    for handle in elsewhere:
        groups[handle.plan_file].append(handle)
    known = {(sprint.id.text, slug(sprint.title)) for sprint in sprints}
    titles = {slug(sprint.title) for sprint in sprints}
    annotated = {name for sprint in sprints for name in _named(sprint)}

    def is_same(handle: Handle) -> bool:
        return handle.id in annotated or any((handle.number, title) in known for title in handle.titles)

    def score(handles: Sequence[Handle]) -> float:
        same = [is_same(handle) for handle in handles]
        renumbered = all(kept or handle.titles & titles for kept, handle in zip(same, handles, strict=True))
        return 1.0 if renumbered else sum(same) / len(handles)

    scores = {file: score(handles) for file, handles in groups.items() if not is_there(file)}
    best = max(scores, key=lambda file: scores[file], default=None)
    return best if best is not None and scores[best] >= 1 / 2 else None
