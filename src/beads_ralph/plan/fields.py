"""Labelled fields of a sprint → typed values, each with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, TemplateName
from beads_ralph.bead.names import MERGE, WORK
from beads_ralph.plan import blocks, markdown
from beads_ralph.plan.model import At, LabelError, SprintCheck, T
from beads_ralph.plan.pours import pour
from beads_ralph.prompts import TEMPLATES, nearest_template

NOTE: Final = re.compile(r"(?<!\s)\s+\([^()]*\)\s*$")
ANY_NOTE: Final = re.compile(r"\s*\([^()]*\)")
NOTHING: Final = frozenset({"", *personas.DASHES, "none", "n/a", "nothing", "null"})
SEPARATORS: Final = re.compile(r"(?:\s|[,;&]|and)*")
DECORATION: Final = frozenset({"sprint", "sprints", "and"})
EXPLANATION: Final = re.compile(
    rf"\s+[{personas.DASHES}]\s.*|:(?:\s.*)?$", re.DOTALL
)  # as in `1.2 - its api`
REFERENCE: Final = re.compile(r"\d+[a-z]*\.\d+[a-z]*|[^\W\d_][^/]*-[^/]+", re.ASCII)
ENTRY_END: Final = re.compile(r"\s*(?:[,;&+]|\band\b)\s*")
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


BULLETED: Final = frozenset({"dev_agents", "qa_agents", "tasks", "criteria", "verify"})
"""Fields whose values are bullets, or code, below the label."""


def name_of(label: str) -> str | None:
    """The sprint field that a label means, None for a label of the author's own. A note in brackets, as in
    `Tasks (3 days)`, is for people."""
    words = " ".join(ANY_NOTE.sub("", label).lower().split())
    name = ALIASES.get(words, words.replace(" ", "_"))
    return name if name in READERS else None


def kind_of(label: str) -> markdown.LabelKind | None:
    name = name_of(label)
    return None if name is None else "list" if name in BULLETED else "value"


def is_loose(entry: blocks.Field) -> bool:
    """True of a label in a form that gives way to the same label written out."""
    return entry.loose or ANY_NOTE.search(entry.label) is not None


def shown_label(label: str) -> str:
    return ANY_NOTE.sub("", label).strip().title().replace("Qa", "QA")


def near_miss(label: str) -> str | None:
    """The known label that this one was probably meant to be."""
    known = [*(name.replace("_", " ") for name in READERS), "acceptance criteria"]
    close = difflib.get_close_matches(label.lower(), known, n=1, cutoff=0.8)
    return close[0].title().replace("Qa", "QA") if close else None


def one(field: blocks.Field) -> At[str] | None:
    """A single value: the first code span, or the text without a trailing note in brackets."""
    place: blocks.Field | blocks.ListItem = field.items[0] if not field.text and field.items else field
    if place.codes and place.opens_with_code:
        return At(place.codes[0].text.strip(), place.line)
    text = NOTE.sub("", place.text).strip()
    return At(text, place.line) if text else None


def many(field: blocks.Field) -> tuple[At[str], ...]:
    """Several short values: comma-separated on the line, or bullets below it."""
    found = [*_split(field.text, field.codes, field.line)]
    for item in (*field.rest, *field.items):
        found += _split(item.text, item.codes, item.line)
    return tuple(value for value in found if value.value.lower() not in NOTHING)


def _split(text: str, codes: Sequence[blocks.CodeText], line: int) -> Iterator[At[str]]:
    """Code spans where the line holds nothing else; what stands between commas otherwise."""
    rest = text
    for code in codes:
        rest = rest.replace(code.text, "", 1)
    if codes and SEPARATORS.fullmatch(NOTE.sub("", rest)):
        parts = [code.text for code in codes]
    else:
        parts = NOTE.sub("", text).split(",")
    yield from (At(part.strip(), line) for part in parts if part.strip())


def sentences(field: blocks.Field) -> tuple[At[str], ...]:
    """Each bullet is one entry; a value on the label's own line is one too."""
    found = list(_entries(field, grouped=True))
    for fence in field.fences:  # a block that is not indented still belongs to the bullet above it
        above = max((at for at, entry in enumerate(found) if entry.line < fence.line), default=None)
        if above is not None:
            found[above] = At(f"{found[above].value}\n{fence.text.rstrip()}", found[above].line)
    return tuple(found)


def _entries(field: blocks.Field, *, grouped: bool) -> Iterator[At[str]]:
    """What stands on the line, and every bullet, below the heading that it has inside of the field."""
    if field.text:
        yield At(_whole(field), field.line)
    for item in field.items:
        if item.text and not item.struck:
            group = f"{item.group}: " if grouped and item.group else ""
            yield At(group + item.wording, item.line)


def _whole(field: blocks.Field) -> str:
    return " ".join([field.wording, *(item.wording for item in field.rest)])


def note(field: blocks.Field) -> str:
    """A label of the author's own, as text: nothing that a plan says is lost on its way to the agents."""
    own = f"{field.label}: {_whole(field)}".rstrip(": ") + ("" if field.text else ":")
    items = [f"- {item.wording}" for item in field.items if not item.struck]
    return "\n".join([own, *items, *(fence.text.rstrip("\n") for fence in field.fences)])


def sprint_references(field: blocks.Field) -> tuple[At[str], ...]:
    """`1.1, Sprint 1.2a and 1.2b (its api)`, or bead ids; the words and notes are decoration."""
    return tuple(At(word, value.line) for value in many(_without_notes(field)) for word in _referred(value))


def _without_notes(field: blocks.Field) -> blocks.Field:
    def bare(items: Sequence[blocks.ListItem]) -> list[blocks.ListItem]:
        return [replace(item, text=ANY_NOTE.sub("", item.text)) for item in items]

    text = ANY_NOTE.sub("", field.text)
    return replace(field, text=text, rest=bare(field.rest), items=bare(field.items))


def _referred(value: At[str]) -> list[str]:
    said = EXPLANATION.sub("", value.value)
    words = [word for word in re.split(r"[\s;&+]+", said) if word and word.lower() not in DECORATION]
    other = next((word for word in words if not REFERENCE.fullmatch(word)), None)
    if other is None or len(words) == 1:  # a word alone may be a sprint that does not exist
        return words
    known = [word for word in words if REFERENCE.fullmatch(word)]
    action = f"Write {', '.join(known) or 'the ids'} alone, and anything else in brackets behind an id"
    raise LabelError(f"**Depends On** has {value.value!r}, and {other!r} is not a sprint", value.line, action)


def agents(field: blocks.Field) -> tuple[At[AgentSpec], ...]:
    entries = _entries(field, grouped=False)
    return tuple(At(_agent(text), text.line) for text in entries if text.value.lower() not in NOTHING)


def says_nobody(field: blocks.Field) -> bool:
    """`**QA Agents**: none`; the label alone says nothing yet."""
    said = field.text or (field.items[0].text if len(field.items) == 1 else "")
    return name_of(field.label) == "qa_agents" and bool(said) and said.lower() in NOTHING


def _agent(text: At[str]) -> AgentSpec:
    """Back-ticks around the name and the model are decoration; those in what it is to do stay."""
    note = re.search(rf"[:{personas.DASHES}]\s", text.value)
    end = note.start() if note else len(text.value)
    try:
        return personas.parse_agent(text.value[:end].replace("`", "") + text.value[end:])
    except ValueError as problem:
        action = "Write it as: name (model) - what to do, where (model) is haiku, sonnet, opus, PROGRAM:MODEL"
        raise LabelError(str(problem), text.line, f"{action} or left out") from None


def _choice(
    field: blocks.Field, choices: Mapping[str, T], refusal: Callable[[str], str], action: str
) -> At[T] | None:
    """The choice that a single value names; `refusal` says what is wrong with another."""
    value = one(field)
    if value is None:
        return None
    if value.value.lower() not in choices:
        raise LabelError(refusal(value.value), value.line, action)
    return At(choices[value.value.lower()], value.line)


def priority(field: blocks.Field) -> At[int] | None:
    form = "is not one of 0, 1, 2, 3, 4 (0 critical … 4 minimal)"
    action = "Write **Priority**: and a number from 0 to 4, or critical, high, medium, low, minimal"
    return _choice(field, PRIORITIES, lambda said: f"priority {said!r} {form}", action)


def issue_type(field: blocks.Field) -> At[str] | None:
    action = "Write **Type**: work or **Type**: merge"
    return _choice(field, TYPES, lambda said: f"type {said!r} is neither work nor merge", action)


def template(field: blocks.Field) -> At[TemplateName] | None:
    action = f"Write **Template**: and one of {', '.join(TEMPLATES)}"
    return _choice(field, {name: name for name in TEMPLATES}, _no_template, action)


def _no_template(said: str) -> str:
    meant = nearest_template(said)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"template {said!r} is not one of {', '.join(TEMPLATES)}{hint}"


def formula(field: blocks.Field) -> At[str] | None:
    """A name and nothing else: what stands below it would be lost."""
    items = field.items if field.text else field.items[1:]
    lines = [place.line for place in (*field.rest, *items)] + [fence.line for fence in field.fences]
    if lines:
        message = "**Formula** is a name alone; write the values of its variables below **Pour**:"
        raise LabelError(message, lines[0], "Move these lines below **Pour**:")
    named = one(field)
    return None if named is None or named.value.lower() in NOTHING else named


def checks(field: blocks.Field) -> tuple[At[SprintCheck], ...]:
    """Commands as code spans, bullets with a code span, or a fenced block."""
    for text, line in _no_commands(field):
        if text and len(text.split()) == 1:
            raise LabelError(f"**Verify** would not run {text!r}: it is not code", line, f"Write `{text}`")
    found = [At(SprintCheck(code.text, code.text), code.line) for code in field.codes]
    for item in field.items:
        found.extend(_item_checks(item))
    for fence in field.fences:
        found.extend(_fence_checks(fence.text, fence.line))
    if field.text and not field.codes:
        message = "write each **Verify** command as `code`, or all in a fenced block"
        raise LabelError(message, field.line, f"Write `{field.text}` where that is the command")
    return tuple(found)


def remarks(name: str, field: blocks.Field) -> Iterator[LabelError]:
    """Words between commands that are run by nobody; a single one is a fault."""
    for text, line in _no_commands(field) if name == "verify" else ():
        if len(text.split()) > 1:
            message = f"**Verify** does not run {text!r}: it is not code"
            yield LabelError(message, line, f"Write `{text}` where that is a command, or put it in brackets")


def _no_commands(field: blocks.Field) -> Iterator[tuple[str, int]]:
    """Entries beside others that are code, as mypy is in ```a`, `b` and mypy``."""
    places: list[blocks.Field | blocks.ListItem] = [field, *field.rest]
    places += [item for item in field.items if not item.struck]
    for place in places:
        if place.codes and not any(code.fenced for code in place.codes):
            yield from ((text, place.line) for text in _entries_without_code(place.text, place.codes))


def _entries_without_code(text: str, codes: Sequence[blocks.CodeText]) -> Iterator[str]:
    at, marked = 0, ""
    for code in codes:
        place = text.find(code.text, at)
        if place < 0:  # over several lines
            return
        marked, at = marked + text[at:place] + CODE_MARK, place + len(code.text)
    marked += EXPLANATION.sub("", text[at:])
    for entry in ENTRY_END.split(ANY_NOTE.sub("", marked)):
        if CODE_MARK not in entry and entry.strip(" .:!"):
            yield entry.strip(" .:!")


CODE_MARK: Final = "\0"


def _item_checks(item: blocks.ListItem) -> Iterator[At[SprintCheck]]:
    if not item.codes:
        action = f"Write `{item.text}` where that is the command, else make it a criterion"
        message = f"cannot find a command in {item.text!r}: write it as `code`"
        raise LabelError(message, item.line, action)
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


READERS: Final[dict[str, Callable[[blocks.Field], Any]]] = {
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
    "runs_on": many,
    "priority": priority,
    "verify": checks,
    "may_change": many,
    "formula": formula,
    "pour": pour,
    "template": template,
    "status": one,
}
