"""Labelled fields of a sprint → typed values, each with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, TemplateName
from beads_ralph.bead.names import MERGE, WORK
from beads_ralph.plan import markdown
from beads_ralph.plan.model import At, LabelError, SprintCheck, T
from beads_ralph.plan.pours import pour
from beads_ralph.prompts import TEMPLATES, nearest_template

NOTE: Final = re.compile(r"(?<!\s)\s+\([^()]*\)\s*$")
NOTHING: Final = frozenset({"", *personas.DASHES, "none", "n/a", "nothing", "null"})
SEPARATORS: Final = re.compile(r"(?:\s|[,;&]|and)*")
DECORATION: Final = frozenset({"sprint", "sprints", "and"})
LEVELS: Final = ("critical", "high", "medium", "low", "minimal")
PRIORITIES: Final = {word: at for at, level in enumerate(LEVELS) for word in (level, f"p{at}", str(at))}
TYPES: Final = {"work": WORK, "merge": MERGE, WORK: WORK, MERGE: MERGE}
BLOCK_SCRIPT: Final = re.compile(
    r"^(if|for|while|until|case|function)\b|<<|\b(then|do)$|\{$"  # one construct over several lines
    r"|^(cd|export|set|source|\.|trap|umask|ulimit)\s|^\w+=\S*$"  # or a line that later ones rely on
)
CONTINUED: Final = ("\\", "&&", "||", "|")

ALIASES: Final = {
    "dev agent": "dev_agents",
    "qa agent": "qa_agents",
    "task": "tasks",
    "acceptance criterion": "criteria",
    "acceptance criteria": "criteria",
    "depends": "depends_on",
    "dependencies": "depends_on",
    "verifiers": "verify",
    "label": "labels",
}


def name_of(label: str) -> str | None:
    """The sprint field that a label means, None for a label of the author's own."""
    words = " ".join(label.lower().split())
    name = ALIASES.get(words, words.replace(" ", "_"))
    return name if name in READERS else None


def near_miss(label: str) -> str | None:
    """The known label that this one was probably meant to be."""
    known = [*(name.replace("_", " ") for name in READERS), "acceptance criteria"]
    close = difflib.get_close_matches(label.lower(), known, n=1, cutoff=0.8)
    return close[0].title().replace("Qa", "QA") if close else None


def one(field: markdown.Field) -> At[str] | None:
    """A single value: the first code span, or the text without a trailing note in brackets."""
    place: markdown.Field | markdown.ListItem = field.items[0] if not field.text and field.items else field
    if place.codes and place.opens_with_code:
        return At(place.codes[0].text.strip(), place.line)
    text = NOTE.sub("", place.text).strip()
    return At(text, place.line) if text else None


def many(field: markdown.Field) -> tuple[At[str], ...]:
    """Several short values: comma-separated on the line, or bullets below it."""
    found = [*_split(field.text, field.codes, field.line)]
    for item in (*field.rest, *field.items):
        found += _split(item.text, item.codes, item.line)
    return tuple(value for value in found if value.value.lower() not in NOTHING)


def _split(text: str, codes: Sequence[markdown.CodeText], line: int) -> Iterator[At[str]]:
    """Code spans where the line holds nothing else; what stands between commas otherwise."""
    rest = text
    for code in codes:
        rest = rest.replace(code.text, "", 1)
    if codes and SEPARATORS.fullmatch(NOTE.sub("", rest)):
        parts = [code.text for code in codes]
    else:
        parts = NOTE.sub("", text).split(",")
    yield from (At(part.strip(), line) for part in parts if part.strip())


def sentences(field: markdown.Field) -> tuple[At[str], ...]:
    """Each bullet is one entry; a value on the label's own line is one too."""
    own = [At(_whole(field), field.line)] if field.text else []
    found = own + [At(item.text, item.line) for item in field.items if item.text and not item.struck]
    for fence in field.fences:  # a block that is not indented still belongs to the bullet above it
        above = max((at for at, entry in enumerate(found) if entry.line < fence.line), default=None)
        if above is not None:
            found[above] = At(f"{found[above].value}\n{fence.text.rstrip()}", found[above].line)
    return tuple(found)


def _whole(field: markdown.Field) -> str:
    return " ".join([field.text, *(item.text for item in field.rest)])


def note(field: markdown.Field) -> str:
    """A label of the author's own, as text: nothing that a plan says is lost on its way to the agents."""
    own = f"{field.label}: {_whole(field)}".rstrip(": ") + ("" if field.text else ":")
    items = [f"- {item.text}" for item in field.items if not item.struck]
    return "\n".join([own, *items, *(fence.text.rstrip("\n") for fence in field.fences)])


def sprint_references(field: markdown.Field) -> tuple[At[str], ...]:
    """`1.1, Sprint 1.2a and 1.2b`, or bead ids; the words are decoration."""
    return tuple(
        At(word, value.line)
        for value in many(field)
        for word in re.split(r"[\s;&+]+", value.value)
        if word and word.lower() not in DECORATION
    )


def agents(field: markdown.Field) -> tuple[At[AgentSpec], ...]:
    return tuple(At(_agent(text), text.line) for text in sentences(field))


def _agent(text: At[str]) -> AgentSpec:
    try:
        return personas.parse_agent(text.value)
    except ValueError as problem:
        raise LabelError(str(problem), text.line) from None


def _choice(field: markdown.Field, choices: Mapping[str, T], refusal: Callable[[str], str]) -> At[T] | None:
    """The choice that a single value names; `refusal` says what is wrong with another."""
    value = one(field)
    if value is None:
        return None
    if value.value.lower() not in choices:
        raise LabelError(refusal(value.value), value.line)
    return At(choices[value.value.lower()], value.line)


def priority(field: markdown.Field) -> At[int] | None:
    form = "is not one of 0, 1, 2, 3, 4 (0 critical … 4 minimal)"
    return _choice(field, PRIORITIES, lambda said: f"priority {said!r} {form}")


def issue_type(field: markdown.Field) -> At[str] | None:
    return _choice(field, TYPES, lambda said: f"type {said!r} is neither work nor merge")


def template(field: markdown.Field) -> At[TemplateName] | None:
    return _choice(field, {name: name for name in TEMPLATES}, _no_template)


def _no_template(said: str) -> str:
    meant = nearest_template(said)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"template {said!r} is not one of {', '.join(TEMPLATES)}{hint}"


def formula(field: markdown.Field) -> At[str] | None:
    """A name and nothing else: what stands below it would be lost."""
    items = field.items if field.text else field.items[1:]
    lines = [place.line for place in (*field.rest, *items)] + [fence.line for fence in field.fences]
    if lines:
        message = "**Formula** is a name alone; write the values of its variables below **Pour**:"
        raise LabelError(message, lines[0])
    named = one(field)
    return None if named is None or named.value.lower() in NOTHING else named


def checks(field: markdown.Field) -> tuple[At[SprintCheck], ...]:
    """Commands as code spans, bullets with a code span, or a fenced block."""
    found = [At(SprintCheck(code.text, code.text), code.line) for code in field.codes]
    for item in field.items:
        found.extend(_item_checks(item))
    for fence in field.fences:
        found.extend(_fence_checks(fence.text, fence.line))
    if field.text and not field.codes:
        raise LabelError("write each **Verify** command as `code`, or all in a fenced block", field.line)
    return tuple(found)


def _item_checks(item: markdown.ListItem) -> Iterator[At[SprintCheck]]:
    if not item.codes:
        raise LabelError(f"cannot find a command in {item.text!r}: write it as `code`", item.line)
    before = item.text.partition(item.codes[0].text)[0].strip(" :" + personas.DASHES)
    for code in item.codes:
        if code.fenced:
            yield from _fence_checks(code.text, code.line)
        else:
            named = before if before and len(item.codes) == 1 else code.text
            yield At(SprintCheck(named, code.text), code.line)


def _fence_checks(text: str, first: int) -> Iterator[At[SprintCheck]]:
    """One command a line; a block that is plainly one script stays one, and fails at its first failure."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > 1 and any(BLOCK_SCRIPT.search(line.strip()) for line in lines):
        yield At(SprintCheck(_short(text), "set -e\n" + text.rstrip("\n")), first)
        return
    command, start = "", first
    for number, line in enumerate(map(str.strip, lines), first):
        if not command and line.startswith("#"):
            continue
        start = start if command else number
        goes_on = line.endswith(CONTINUED)
        command += line + "\n" if goes_on else line
        if goes_on:
            continue
        if command:
            yield At(SprintCheck(_short(command), command), start)
        command = ""
    if command:
        yield At(SprintCheck(_short(command), command), start)


def _short(command: str) -> str:
    """The first line that says something, as the verifier's name."""
    return next((line.strip() for line in command.split("\n") if line.strip()), "")


READERS: Final[dict[str, Callable[[markdown.Field], Any]]] = {
    "worktree": one,
    "branch": one,
    "source_branch": one,
    "dev_agents": agents,
    "qa_agents": agents,
    "tasks": sentences,
    "criteria": sentences,
    "team": one,
    "bead_name": one,
    "type": issue_type,
    "branches_to_merge": many,
    "depends_on": sprint_references,
    "labels": many,
    "priority": priority,
    "verify": checks,
    "formula": formula,
    "pour": pour,
    "template": template,
    "status": one,
}
