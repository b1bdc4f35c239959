"""Plans of other tools, written anew as plans of ours: a ralphex plan, and the user stories of a prd.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any, Final

from beads_ralph.errors import Code, RalphError

TASK: Final = re.compile(r"^#{2,4} +(?:Task|Iteration) +([\w.]+)\s*[:.)-]?\s*(.*?)\s*$", re.IGNORECASE)
HEADING: Final = re.compile(r"^#{1,4} ")
BOX: Final = re.compile(r"^( *)[-*] \[([ xX])\] (.+)$")
COMMANDS: Final = re.compile(r"^## +Validation Commands\b", re.IGNORECASE)
COMMAND: Final = re.compile(r"^[-*] .*?`([^`]+)`")
FENCE: Final = re.compile(r"^ *(```|~~~)")
DONE: Final = "**Status**: ✅ COMPLETED"
EXPECTED: Final = "a ralphex plan has headings such as '### Task 1: Title', a prd.json has userStories"


@dataclass
class Story:
    """One piece of work of the other plan."""

    title: str
    key: str = ""
    """How the other plan calls it."""
    text: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    """Bullets, with their boxes where they have some."""
    criteria: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    done: bool = False
    in_task: bool = False
    """The line before belongs to a task."""
    number: str = ""


@dataclass(frozen=True)
class Imported:
    """A plan in our form."""

    title: str
    stories: tuple[Story, ...]
    verify: tuple[str, ...] = ()

    @property
    def done(self) -> list[str]:
        return [story.number for story in self.stories if story.done]

    @property
    def text(self) -> str:
        front = ["---", f"verify: {json.dumps(list(self.verify), ensure_ascii=False)}", "---"]
        blocks = [*(["\n".join(front)] if self.verify else []), f"# {self.title}"]
        blocks += ["## Phase 1: Imported", *(_sprint(story) for story in self.stories)]
        return "\n\n".join(blocks) + "\n"


def _sprint(story: Story) -> str:
    said = [f"### Sprint {story.number}: {story.title}", DONE if story.done else "", "\n".join(story.text)]
    said += [_bullets("Tasks", story.tasks), _bullets("Acceptance Criteria", story.criteria)]
    return "\n\n".join(block for block in said if block)


def _bullets(label: str, rows: Sequence[str]) -> str:
    return "\n".join([f"**{label}**:", *rows]) if rows else ""


def convert(text: str, name: str) -> Imported:
    """The plan in our form; `name` is the file that it comes from."""
    found = _stories_of_prd(text, name) if text.lstrip()[:1] in ("{", "[") else _tasks_of_ralphex(text, name)
    if not found.stories:
        raise _not_understood(name, "nothing to import was found")
    _number(found.stories, name)
    return found


def _not_understood(name: str, problem: str) -> RalphError:
    return RalphError(Code.MARKDOWN, f"{name}: {problem}", suggested_action=f"Check the file: {EXPECTED}")


# --- ralphex: markdown ------------------------------------------------------------------------------


def _tasks_of_ralphex(text: str, name: str) -> Imported:
    title, commands = "", list[str]()
    stories: list[Story] = []
    inside: str | None = None
    for line in _outside_fences(text):
        if HEADING.match(line):
            found = TASK.match(line)
            if found:
                stories.append(Story(found[2] or f"Task {found[1]}", found[1], [_origin(name)]))
            title = title or (line[2:].strip() if line.startswith("# ") else "")
            inside = "task" if found else "commands" if COMMANDS.match(line) else None
        elif inside == "task":
            _add(stories[-1], line)
        elif inside == "commands" and (command := COMMAND.match(line)):
            commands.append(command[1])
    for story in stories:
        boxes = [box[2] for line in story.tasks if (box := BOX.match(line))]
        story.done = bool(boxes) and " " not in boxes
        story.tasks = story.tasks or [f"- {story.title}"]
        story.text = _trimmed(story.text)
    return Imported(title or name, tuple(stories), tuple(commands))


def _outside_fences(text: str) -> Iterator[str]:
    """The lines; those of code blocks are indented, so that nothing in them is read as a heading."""
    closing = ""
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence and (not closing or closing == fence[1]):
            closing = "" if closing else fence[1]
            continue
        yield f"    {line}" if closing else line


def _origin(name: str) -> str:
    return f"The context of this work is in `{name}`."


def _add(story: Story, line: str) -> None:
    """A box is a task, and so is what hangs below it; everything else describes the work."""
    story.in_task = bool(BOX.match(line) or (story.in_task and line.startswith("  ") and line.strip()))
    (story.tasks if story.in_task else story.text).append(line)


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without blank lines at the ends, and one at most between paragraphs."""
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return text.split("\n")


# --- prd.json: user stories -------------------------------------------------------------------------


def _stories_of_prd(text: str, name: str) -> Imported:
    try:
        data = json.loads(text)
    except ValueError as problem:
        raise _not_understood(name, f"not JSON: {problem}") from None
    rows = data.get("userStories") if isinstance(data, Mapping) else data
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise _not_understood(name, "userStories must be a list of objects")
    head = data if isinstance(data, Mapping) else {}
    title = next(
        (_line(head[key]) for key in ("project", "name", "projectName", "feature") if head.get(key)), name
    )
    ordered = sorted(enumerate(rows, 1), key=lambda row: _priority(row[1]))
    return Imported(title, tuple(_story(row, at, name) for at, row in ordered))


def _priority(row: Mapping[str, Any]) -> float:
    value = row.get("priority")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _story(row: Mapping[str, Any], at: int, name: str) -> Story:
    about, title = _line(row.get("description")), _line(row.get("title"))
    if not (about or title):
        raise _not_understood(name, f"story {at} has neither a title nor a description")
    steps = _lines(row.get("steps")) or [about or title]
    return Story(
        title=title or about[:60],
        key=_line(row.get("id")) or str(at),
        text=[line for line in (_line(row.get("notes")),) if line],
        tasks=[f"- {_safe(step)}" for step in steps],
        criteria=[f"- {_safe(line)}" for line in _lines(row.get("acceptanceCriteria"))],
        needs=_lines(row.get("dependsOn") or row.get("dependencies")),
        done=row.get("passes") is True,
    )


def _lines(value: object) -> list[str]:
    return [text for one in value if (text := _line(one))] if isinstance(value, list) else []


def _line(value: object) -> str:
    """A text on one line; empty for whatever is none."""
    return (
        " ".join(str(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    )


def _safe(text: str) -> str:
    """As a bullet, and not as a heading in it."""
    return f"\\{text}" if text.startswith("#") else text


# --- numbers ----------------------------------------------------------------------------------------


def _number(stories: Sequence[Story], name: str) -> None:
    """One after the other; by what they need, where the other plan says it, side by side."""
    if not any(story.needs for story in stories):
        for at, story in enumerate(stories, 1):
            story.number = f"1.{at}"
        return
    for at, wave in enumerate(_waves(stories, name), 1):
        for letter, story in zip(ascii_lowercase, wave, strict=False):
            story.number = f"1.{at}{letter if len(wave) > 1 else ''}"


def _waves(stories: Sequence[Story], name: str) -> Iterator[list[Story]]:
    """The stories whose needs were met before, again and again; no wave has more than there are letters."""
    left = {story.key: story for story in stories}
    unknown = sorted({need for story in stories for need in story.needs} - set(left))
    if unknown:
        raise _not_understood(name, f"a story needs {', '.join(unknown)}, which is not there")
    while left:
        wave = [story for story in left.values() if not set(story.needs) & set(left)][: len(ascii_lowercase)]
        if not wave:
            raise _not_understood(name, f"these stories wait for one another: {', '.join(left)}")
        for story in wave:
            del left[story.key]
        yield wave
