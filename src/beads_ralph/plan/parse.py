"""Markdown text → Plan, with all that is wrong in one pass; and bead ids back into the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from beads_ralph.bead import personas
from beads_ralph.bead.names import SprintId
from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.files import text_files
from beads_ralph.files.yaml_aliases import require_finite
from beads_ralph.plan import blocks, fields, markdown
from beads_ralph.plan.model import At, LabelError, Phase, Plan, Pour, Sprint, Struck
from beads_ralph.plan.pours import NOT_YAML, line_at, yaml_fault

SPRINT_LEVEL: Final = 3
HEADING: Final = re.compile(r"Sprint (\d+[a-z]*\.\d+[a-z]*): (.+)", re.ASCII)
ID_LIKE: Final = re.compile(r"Sprint\s+(\S*\d\S*)")
LOOKS_LIKE_SPRINT: Final = re.compile(r"\W*Sprint \d+[a-z]*\.\d+[a-z]*\b", re.ASCII | re.IGNORECASE)
NO_HEADING: Final = re.compile(r"#{1,6}Sprint\s|Sprint \d+[a-z]*\.\d+[a-z]*:", re.ASCII)
PHASE: Final = re.compile(rf"Phase (\d+[a-z]*)\b\s*[:.{personas.DASHES}]?\s*(.*)", re.ASCII)
ANNOTATION: Final = re.compile(r"<!--\s*beads-ralph:\s*(\S+)\s*-->")
ANY_HEADING: Final = re.compile(r"#{1,3}\s")
COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
FINISHED: Final = re.compile(r"(?i)\b(complete|completed|done|merged)\b|✅")


@dataclass
class _Draft:
    """A sprint while its section is being read."""

    id: SprintId
    title: str
    heading: str
    line: int
    struck: bool = False
    annotation: At[str] | None = None
    fields: list[blocks.Field] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    unread_pour: Pour | None = None


@dataclass
class _Parse:
    file: str
    source: list[str]
    reads_struck: bool = False
    sprints: list[Sprint] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    front_matter: At[Any] | None = None
    front_matter_lines: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    draft: _Draft | None = None

    def fault(self, code: Code, message: str, line: int, action: str | None = None) -> None:
        self.faults.append(Fault(code, message, file=self.file, line=line, suggested_action=action))

    def warn(self, code: Code, message: str, line: int, action: str | None = None) -> None:
        self.warnings.append(Fault(code, message, file=self.file, line=line, suggested_action=action))


def parse(text: str, file: str = "plan.md", *, struck: bool = False) -> Plan:
    """Read a plan. It never raises for what the plan says: every fault is in the result.

    With `struck`, sprints that are struck out are read like the others."""
    text = text.removeprefix("\ufeff")
    state = _Parse(file, re.split(r"\r\n|\r|\n", text), reads_struck=struck)
    for block in markdown.read(text, fields.kind_of):
        _take(state, block)
    _finish(state)
    _warn_of_twins(state)
    if not state.sprints and not state.struck and not state.faults:
        state.fault(Code.MARKDOWN, "no sprint headings found", 1)
    return Plan(
        file,
        tuple(state.sprints),
        tuple(state.struck),
        tuple(replace(phase, goal=_text_from(state, phase.line)) for phase in state.phases),
        state.front_matter,
        state.front_matter_lines,
        tuple(sorted(state.faults, key=lambda fault: fault.line or 0)),
        tuple(sorted(state.warnings, key=lambda fault: fault.line or 0)),
        _introduction(state),
    )


def _introduction(state: _Parse) -> str:
    """What stands before the first phase and the first sprint; the front matter is none of it."""
    sprints = [*(one.line for one in state.sprints), *(one.line for one in state.struck)]
    starts = [*sprints, *(one.line for one in state.phases)]
    lines = state.source[: min(starts) - 1] if sprints else []
    fence = [at for at, line in enumerate(lines) if line.rstrip() == "---"]
    begin = fence[1] + 1 if state.front_matter is not None and len(fence) > 1 else 0
    return _plain(lines[begin:])


def _text_from(state: _Parse, line: int) -> str:
    """The text below a heading, up to the next one."""
    rest = state.source[line:]
    end = next((at for at, text in enumerate(rest) if ANY_HEADING.match(text)), len(rest))
    return _plain(rest[:end])


def _plain(lines: Sequence[str]) -> str:
    return COMMENT.sub("", "\n".join(line.rstrip() for line in lines)).strip()


def _take(state: _Parse, block: blocks.Block) -> None:
    match block:
        case blocks.FrontMatter():
            _front_matter(state, block)
        case blocks.Heading():
            _heading(state, block)
        case blocks.Field() if state.draft is not None:
            state.draft.fields.append(block)
        case blocks.Prose():
            _prose(state, block)
        case blocks.NearLabel() if state.draft is not None:
            said = f"sprint {state.draft.id}: '{block.text}' is read as text"
            form = f"**{fields.shown_label(block.label)}**:"
            state.warn(Code.MARKDOWN, f"{said}; a label is written {form}", block.line, f"Write {form}")
        case blocks.TooDeep():
            said = f"something is nested more than {markdown.MAX_NESTING} levels deep; the rest of it is lost"
            state.fault(Code.MARKDOWN, said, block.line, "Nest it less deeply")
        case blocks.Comment() if state.draft is not None and state.draft.annotation is None:
            match = ANNOTATION.match(block.text)
            state.draft.annotation = At(match[1], block.line) if match is not None else None
        case _:
            pass  # prose and fields outside any sprint are the author's own


def _prose(state: _Parse, prose: blocks.Prose) -> None:
    for at, line in enumerate(prose.text.split("\n")):
        if prose.paragraph and NO_HEADING.match(line):
            message = f"'{line}' is skipped: a sprint's heading begins with ### and a blank"
            state.warn(Code.MARKDOWN, message, prose.line + at, f"Write: ### {line.lstrip('#').lstrip()}")
    if state.draft is not None:
        state.draft.prose.append(prose.text)


def _heading(state: _Parse, heading: blocks.Heading) -> None:
    if heading.level > SPRINT_LEVEL:
        if state.draft is None or LOOKS_LIKE_SPRINT.match(heading.text):
            _misplaced(state, heading)
        return
    _finish(state)
    if heading.level == SPRINT_LEVEL and re.match(r"Sprint\b(?!s)", heading.text):
        _sprint_heading(state, heading)
    elif phase := PHASE.fullmatch(heading.text):
        state.phases.append(Phase(phase[1], phase[2].strip(), heading.line))
    else:
        _misplaced(state, heading)


def _misplaced(state: _Parse, heading: blocks.Heading) -> None:
    if LOOKS_LIKE_SPRINT.match(heading.text):
        shown = f"{'#' * heading.level} {heading.text}"
        message = f"'{shown}' is skipped: only a ### heading that begins 'Sprint' makes a sprint"
        found = re.search(r"(?i)sprint (.*)", heading.text)
        state.warn(Code.MARKDOWN, message, heading.line, f"Write: ### Sprint {found[1] if found else ''}")


def _sprint_heading(state: _Parse, heading: blocks.Heading) -> None:
    match = HEADING.fullmatch(heading.text)
    sprint = SprintId.parse(match[1]) if match else None
    if match is None or sprint is None:
        if not heading.struck:
            _bad_heading(state, heading)
    elif heading.struck and not state.reads_struck:
        state.struck.append(Struck(sprint, heading.line))
    else:
        source = state.source[heading.line - 1].strip()
        state.draft = _Draft(sprint, match[2].strip(), source, heading.line, heading.struck)


def _bad_heading(state: _Parse, heading: blocks.Heading) -> None:
    token = ID_LIKE.match(heading.text)
    if token is None:
        message = f"malformed sprint heading '{heading.text}'"
        state.fault(Code.MARKDOWN, message, heading.line, "Write it as: ### Sprint 1.1: Title")
        return
    word, _, stuck = token[1].partition(":")
    form = "### Sprint <phase>.<number>: <title>, with ids such as 1.1, 1.2a or 3a.2b"
    message = f"sprint heading '{heading.text}': '{word}' is not a sprint id; expected {form}"
    action = f"Give it an id such as 1.1, 1.2a or 3a.2b in place of {word}"
    if SprintId.parse(word) is not None:
        message = f"sprint heading '{heading.text}' lacks ': ' and a title behind its id; expected {form}"
        title = f"{stuck}{heading.text[token.end() :]}".lstrip(": ")
        action = f"Write: ### Sprint {word}: {title or 'Title'}"
    state.fault(Code.PLAN_PATTERN, message, heading.line, action)


def _front_matter(state: _Parse, block: blocks.FrontMatter) -> None:
    try:
        require_finite(yaml.compose(block.text, Loader=yaml.SafeLoader))
        content = yaml.safe_load(block.text)
    except NOT_YAML as problem:
        why, line = yaml_fault(problem, block)
        action = "Fix the YAML between the two lines of ---"
        state.fault(Code.MARKDOWN, f"front matter is not valid YAML: {why}", line, action)
        return
    if content is None:
        return
    if not isinstance(content, dict):
        message = "front matter must be a YAML mapping (key: value)"
        state.fault(Code.MARKDOWN, message, block.line, "Write lines such as: source_branch: main")
        return
    state.front_matter = At(content, block.line)
    state.front_matter_lines = _key_lines(block)


def _key_lines(block: blocks.FrontMatter) -> dict[str, int]:
    root = yaml.compose(block.text, Loader=yaml.SafeLoader)
    pairs = list(root.value) if isinstance(root, yaml.MappingNode) else []
    for key, value in list(pairs):
        if key.value == "beads-ralph" and isinstance(value, yaml.MappingNode):
            pairs += value.value
    return {str(key.value): line_at(block, key.start_mark.index) for key, _ in pairs}


def _finish(state: _Parse) -> None:
    """Close the open section and keep its sprint."""
    draft, state.draft = state.draft, None
    if draft is None:
        return
    values: dict[str, Any] = {"description": "\n\n".join(draft.prose)}
    plain = {fields.name_of(entry.label) for entry in draft.fields if not fields.is_loose(entry)}
    for entry in draft.fields:
        if fields.is_loose(entry) and fields.name_of(entry.label) in plain:
            draft.notes.append(fields.note(entry))  # the sprint says it in so many words elsewhere
        else:
            _read_field(state, draft, entry, values)
    values |= {"notes": tuple(draft.notes), "pour": draft.unread_pour or values.get("pour")}
    values |= {"unread": frozenset(draft.unread), "struck": draft.struck}
    values["without_qa"] = any(fields.says_nobody(entry) for entry in draft.fields)
    sprint = Sprint(draft.id, draft.title, draft.heading, draft.line, draft.annotation, **values)
    if sprint.status is not None and FINISHED.search(sprint.status.value):
        said = f"sprint {sprint.id} says '{sprint.status.value}' and is still compiled"
        cure = "strike its heading out (~~…~~) to skip it, or insert it as closed with mason --adopt"
        state.warn(Code.MARKDOWN, f"{said}; {cure}", sprint.status.line, cure[0].upper() + cure[1:])
    state.sprints.append(_settle_formula(state, sprint))


def _settle_formula(state: _Parse, sprint: Sprint) -> Sprint:
    """**Formula** or **Pour** names what is poured; where both do, they must agree."""
    pour, name = sprint.pour, sprint.formula
    if pour is None or pour.unread:
        return sprint
    pour = pour if name else pour.named_by_template()
    if name is None and pour.formula is None:
        message = f"sprint {sprint.id}: **Pour** names no formula"
        action = "Add **Formula**: NAME to the sprint, or formula=NAME to its **Pour**"
        state.fault(Code.MISSING_SECTION, message, pour.line, action)
    elif name is not None and pour.formula is not None and name.value != pour.formula.value:
        said = f"**Formula** says '{name.value}' and **Pour** says '{pour.formula.value}'"
        state.fault(Code.PLAN_PATTERN, f"sprint {sprint.id}: {said}", pour.formula.line, "Name it once")
    return replace(sprint, formula=name or pour.formula, pour=pour)


def _read_field(state: _Parse, draft: _Draft, entry: blocks.Field, values: dict[str, Any]) -> None:
    name = fields.name_of(entry.label)
    if name is None:
        draft.notes.append(fields.note(entry))
        meant = fields.near_miss(entry.label)
        if meant is not None:
            message = f"sprint {draft.id}: unknown label **{entry.label}**; did you mean **{meant}**?"
            state.warn(Code.MARKDOWN, message, entry.line, f"Write **{meant}**:")
        return
    if name in values:
        message = f"sprint {draft.id} has **{entry.label}** twice"
        state.fault(Code.MARKDOWN, message, entry.line, f"Make one **{entry.label}** of the two")
        return
    for remark in fields.remarks(name, entry):
        state.warn(Code.MARKDOWN, f"sprint {draft.id}: {remark.message}", remark.line, remark.action)
    try:
        values[name] = fields.READERS[name](entry)
    except LabelError as problem:
        action = problem.action or f"Fix the value of **{entry.label}**"
        state.fault(Code.PLAN_PATTERN, f"sprint {draft.id}: {problem.message}", problem.line, action)
        draft.unread.add(name)
        if name in ("formula", "pour"):
            draft.unread_pour = Pour(entry.line, unread=True)
        return
    if not (entry.text or entry.items or entry.fences):
        said = f"sprint {draft.id}: **{entry.label}** says nothing"
        wanted = "bullets right below it" if fields.kind_of(entry.label) == "list" else "a value behind it"
        state.warn(Code.MARKDOWN, said, entry.line, f"Write {wanted}, or remove the line")


def _warn_of_twins(state: _Parse) -> None:
    """Struck out in one place and live in another: the author may mean either."""
    live = {sprint.id: sprint for sprint in reversed(state.sprints)}
    for struck in state.struck:
        if struck.id in live:
            twin = live[struck.id]
            said = f"sprint {struck.id} is struck out here, and stands on line {twin.line} all the same"
            action = f"Strike out the heading on line {twin.line} too, or remove the one that is struck out"
            state.warn(Code.DUPLICATE_ID, f"{said}; that one is compiled", struck.line, action)


LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
ANNOTATION_LINE: Final = re.compile(r" {0,3}<!--\s*beads-ralph:(?:\s*\S+\s*|(?:(?!-->).)*)-->\s*")


def annotate(text: str, plan: Plan, beads: Mapping[str, str]) -> str:
    """`text` with `<!-- beads-ralph: ID -->` on the line after the heading of each sprint in `beads`."""
    _check(plan, beads)
    lines = LINE.findall(text)
    for sprint in sorted(plan.sprints, key=lambda sprint: sprint.line, reverse=True):
        bead_id = beads.get(sprint.id.text)
        if bead_id is not None:
            _put(lines, sprint.line, f"<!-- beads-ralph: {bead_id} -->")
    return "".join(lines)


def annotate_plan_with_bead_ids(plan_file: str, sprint_to_bead_id: Mapping[str, str]) -> None:
    """Annotate a plan file in one step; sprints that the map does not name stay untouched."""
    path = Path(plan_file)
    text = text_files.read_text(path)
    plan = parse(text, plan_file)
    known = {sprint.id.text for sprint in plan.sprints}
    text_files.write_text(
        path, annotate(text, plan, {s: b for s, b in sprint_to_bead_id.items() if s in known})
    )


def _put(lines: list[str], heading: int, comment: str) -> None:
    """Replace or insert the line that follows line number `heading`."""
    if heading < len(lines) and ANNOTATION_LINE.fullmatch(lines[heading]):
        lines[heading] = comment + newline_of(lines[heading])
    else:
        insert_line(lines, heading, comment)


def insert_line(lines: list[str], after: int, text: str) -> None:
    """Insert a line behind line number `after`, which may end the file without a newline of its own."""
    newline = newline_of(lines[after - 1]) or newline_of(lines[0]) or "\n"
    if not newline_of(lines[after - 1]):
        lines[after - 1] += newline
        newline = ""
    lines.insert(after, text + newline)


def newline_of(line: str) -> str:
    """The line's own newline; empty where it has none."""
    return line[len(line.rstrip("\r\n")) :]


def _check(plan: Plan, beads: Mapping[str, str]) -> None:
    faults = [*_twice(plan, beads), *_shared(plan, beads), *_without_heading(plan, beads)]
    if faults:
        raise gathered(faults, plan.file)


def _twice(plan: Plan, beads: Mapping[str, str]) -> list[Fault]:
    counts = Counter(sprint.id.text for sprint in plan.sprints)
    return [
        Fault(Code.DUPLICATE_ID, f"sprint {sprint.id} has two headings", plan.file, sprint.line)
        for sprint in plan.sprints
        if sprint.id.text in beads and counts[sprint.id.text] > 1
    ]


def _shared(plan: Plan, beads: Mapping[str, str]) -> list[Fault]:
    """One bead id below two headings would make the way back ambiguous."""
    ids = {sprint.id.text: sprint.annotation.value for sprint in plan.sprints if sprint.annotation}
    counts = Counter({**ids, **beads}.values())
    return [
        Fault(Code.DUPLICATE_ID, f"bead {bead} is under two sprints", plan.file, sprint.line)
        for sprint in plan.sprints
        if (bead := beads.get(sprint.id.text)) is not None and counts[bead] > 1
    ]


def _without_heading(plan: Plan, beads: Mapping[str, str]) -> list[Fault]:
    known = {sprint.id.text for sprint in plan.sprints}
    if not known:
        return [Fault(Code.MARKDOWN, "no sprint headings to annotate", file=plan.file, line=1)]
    return [
        Fault(Code.UNRESOLVED, f"sprint {sprint} has a bead but no heading", file=plan.file)
        for sprint in beads
        if sprint not in known
    ]
