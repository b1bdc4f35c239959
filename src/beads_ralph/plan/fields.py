"""Labelled fields of a sprint → typed values, each with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, TemplateName
from beads_ralph.bead.names import MERGE, WORK
from beads_ralph.errors import Code, Fault
from beads_ralph.plan import markdown
from beads_ralph.plan.model import At, LabelError, SprintCheck
from beads_ralph.plan.pours import pour
from beads_ralph.prompts import TEMPLATES, nearest_template

NOTE: Final = re.compile(r"(?<!\s)\s+\([^()]*\)\s*$")
NOTHING: Final = frozenset({"", *personas.DASHES, "none", "n/a", "nothing", "null"})
SEPARATORS: Final = re.compile(r"(?:\s|[,;&]|and)*")
DECORATION: Final = frozenset({"sprint", "sprints", "and"})
PRIORITIES: Final = {"critical": 0, "high": 1, "medium": 2, "low": 3, "minimal": 4}
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
    return tuple(value for value in _short_values(field) if value.value.lower() not in NOTHING)


def _short_values(field: markdown.Field) -> Iterator[At[str]]:
    yield from _split(field.text, field.codes, field.line)
    for item in (*field.rest, *field.items):
        yield from _split(item.text, item.codes, item.line)


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


def priority(field: markdown.Field) -> At[int] | None:
    value = one(field)
    if value is None:
        return None
    word = value.value.lower()
    number = PRIORITIES.get(word)
    if number is None and re.fullmatch(r"p?[0-4]", word):
        number = int(word[-1])
    if number is None:
        raise LabelError(
            f"priority {value.value!r} is not one of 0, 1, 2, 3, 4 (0 critical … 4 minimal)", value.line
        )
    return At(number, value.line)


def issue_type(field: markdown.Field) -> At[str] | None:
    value = one(field)
    if value is None:
        return None
    kind = TYPES.get(value.value.lower())
    if kind is None:
        raise LabelError(f"type {value.value!r} is neither work nor merge", value.line)
    return At(kind, value.line)


def template(field: markdown.Field) -> At[TemplateName] | None:
    value = one(field)
    if value is None:
        return None
    name = next((name for name in TEMPLATES if name == value.value.lower()), None)
    if name is None:
        meant = nearest_template(value.value)
        hint = f"; did you mean {meant}?" if meant else ""
        known = ", ".join(TEMPLATES)
        raise LabelError(f"template {value.value!r} is not one of {known}{hint}", value.line)
    return At(name, value.line)


def formula(field: markdown.Field) -> At[str] | None:
    """A name and nothing else: what stands below it would be lost."""
    items = field.items if field.text else field.items[1:]
    lines = [place.line for place in (*field.rest, *items)] + [fence.line for fence in field.fences]
    if lines:
        raise LabelError(
            "**Formula** is a name alone; write the values of its variables below **Pour**:", lines[0]
        )
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


def fault(problem: LabelError, file: str) -> Fault:
    return Fault(Code.PLAN_PATTERN, problem.message, file=file, line=problem.line)
