"""What agents are told: Markdown files with places for values, and what suits a kind of work.

    {{name}}       a short value, set as code: `main/1-1-setup`
    {{name:data}}  text that others wrote, or a list of such texts, in a fence of its own
    {{name:ours}}  text that comes with the program, as it is

A repository may have prompts of its own in `.beads-ralph/prompts/`, with the same names and places.

A section, or a point of a list, that has places and nothing to put into any of them is left out. A fence is
always longer than any run of backticks inside it, so no text can close its own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal, get_args

from beads_ralph.bead.model import TemplateName
from beads_ralph.errors import Code, Fault, gathered

Name = Literal["dev", "handover", "team", "qa", "merge", "ralph", "scrum-master", "scrum-recovery", "ask"]
Value = str | int | Sequence[str]

NAMES: Final[tuple[Name, ...]] = get_args(Name)
FOLDER: Final = ".beads-ralph/prompts"
"""Where a repository has prompts of its own."""
NEEDED: Final[Mapping[Name, tuple[str, ...]]] = {
    "dev": ("title", "description", "tasks", "findings"),
    "handover": ("commits", "last_words"),
    "team": ("done",),
    "qa": ("title", "tasks", "commit", "output_schema", "flaw", "nonce"),
    "merge": ("branch", "merging", "conflicts"),
    "ralph": ("title", "intent", "verifiers", "feedback"),
    "scrum-master": ("bead",),
    "scrum-recovery": ("bead", "problem"),
    "ask": ("question",),
}
"""The places without which nobody could do what is asked, or nobody could read the answer."""
SECTIONS: Final = re.compile(r"^(?=## |---$)", re.MULTILINE)
POINT: Final = re.compile(r"^- [^\n]*\n(?:  [^\n]*\n)*", re.MULTILINE)
"""One of a list, with the lines that are set in below it."""
PLACE: Final = re.compile(r"\{\{(\w+)(:data|:ours)?\}\}")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NOTHING: Final = "(none)"
SHORTEST_FENCE: Final = 3


@dataclass(frozen=True)
class PromptFiles:
    """The prompts of a repository at one moment: whoever changes them later steers nobody."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Those that the repository has itself, by name."""

    @classmethod
    def taken(cls, root: Path) -> PromptFiles:
        """Those that are there now; a RalphError that names every fault of them."""
        folder = root / FOLDER
        files = sorted(folder.glob("*.md")) if folder.is_dir() else []
        texts = {file.stem: file.read_text("utf-8", errors="replace") for file in files}
        faults = [fault for name, text in texts.items() for fault in _faults(name, text)]
        if faults:
            raise gathered(faults, f"{FOLDER}/")
        return cls(texts)

    def render(self, name: Name, **values: Value) -> str:
        """The prompt with every place filled; ValueError where a value is missing or has no place."""
        wanted = places(name)
        wrong = [f"missing {key}" for key in sorted(wanted - values.keys())]
        wrong += [f"no place for {key}" for key in sorted(values.keys() - wanted)]
        if wrong:
            raise ValueError(f"prompt {name}: {', '.join(wrong)}")
        return _filled(self.own.get(name) or _template(name), values)


def render(name: Name, **values: Value) -> str:
    """The program's own prompt of that name."""
    return PromptFiles().render(name, **values)


def _faults(name: str, text: str) -> Iterator[Fault]:
    """What keeps a file of the repository from being a prompt."""
    file = f"{FOLDER}/{name}.md"
    known = next((one for one in NAMES if one == name), None)
    if known is None:
        action = f"Name it after one of these: {', '.join(NAMES)}"
        yield Fault(Code.CONSTRAINT, f"there is no prompt {name!r}", file=file, suggested_action=action)
        return
    usual = {place[0] for place in PLACE.finditer(_template(known))}
    for line, place in ((n, one) for n, row in enumerate(text.split("\n"), 1) for one in PLACE.finditer(row)):
        if place[0] not in usual:
            near = [one for one in usual if PLACE.sub(r"\1", one) == place[1]]
            action = f"Write {near[0]}" if near else f"Known: {' '.join(sorted(usual))}"
            message = f"prompt {name} has no place {place[0]}"
            yield Fault(Code.CONSTRAINT, message, file=file, line=line, suggested_action=action)
    there = {place[1] for place in PLACE.finditer(text)}
    for missing in (one for one in NEEDED[known] if one not in there):
        shown = next(one for one in usual if PLACE.sub(r"\1", one) == missing)
        message = f"prompt {name} lacks the place {shown}"
        yield Fault(Code.CONSTRAINT, message, file=file, suggested_action=f"Add {shown}")


def _filled(text: str, values: Mapping[str, Value]) -> str:
    return PLACE.sub(lambda place: SHOWN[place[2] or ""](values[place[1]]), _without_empty(text, values))


def _without_empty(text: str, values: Mapping[str, Value]) -> str:
    """The template without sections and points of lists that would say nothing."""
    lists = POINT.sub(lambda point: "" if _says_nothing(point[0], values) else point[0], text)
    return "".join(part for part in SECTIONS.split(lists) if not _says_nothing(part, values))


def _says_nothing(part: str, values: Mapping[str, Value]) -> bool:
    names = [place[1] for place in PLACE.finditer(part)]
    return bool(names) and not any(_is_filled(values[name]) for name in names)


def _is_filled(value: Value) -> bool:
    return bool(str(value).strip() if isinstance(value, str | int) else value)


def places(name: Name) -> frozenset[str]:
    """The values that a prompt needs."""
    return frozenset(place[1] for place in PLACE.finditer(_template(name)))


@cache
def agent_files() -> dict[str, str]:
    """The agent files that `init` puts into a repository, by name."""
    folder = resources.files(__name__).joinpath("agents")
    return {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir()}


@cache
def _template(name: Name) -> str:
    if name not in NAMES:
        raise ValueError(f"there is no prompt {name!r}; known: {', '.join(NAMES)}")
    return resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def code_span(value: Value) -> str:
    """One line of code; control characters are spelled out, so that it stays one line."""
    text = CONTROL.sub(lambda char: f"\\x{ord(char[0]):02x}", str(value))
    ticks = "`" * (_longest_run(text) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}" if text.strip() else NOTHING


def _data(value: Value) -> str:
    text = str(value) if isinstance(value, str | int) else _numbered(value)
    if not text.strip():
        return NOTHING
    fence = "`" * max(SHORTEST_FENCE, _longest_run(text) + 1)
    return f"{fence}text\n{text.strip(chr(10))}\n{fence}"


SHOWN: Final[Mapping[str, Callable[[Value], str]]] = {"": code_span, ":data": _data, ":ours": str}


def _numbered(items: Sequence[str]) -> str:
    """Items on lines of their own; a second line of an item is set in, lest it look like the next one."""
    return "\n".join(
        f"{n}. {item.strip().replace(chr(10), chr(10) + '   ')}" for n, item in enumerate(items, 1)
    )


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


# --- templates: what is told to a developer of a bug fix, of a feature, of documents ------------------

TEMPLATES: Final[tuple[TemplateName, ...]] = get_args(TemplateName)
KEYWORDS: Final[Mapping[TemplateName, str]] = {
    "bug-fix": r"fix(es|ed|ing)?|bugs?(?!-)|repair\w*|debug\w*|regressions?|crash(es|ing)?|broken|hotfix",
    "refactor": r"refactor\w*|restructur\w*|renam\w+|extract\w*|simplif\w+|clean ?up|decoupl\w+",
    "docs": r"document(s|ed|ing|ation)?|docs?|readme|changelog|tutorials?|guides?|manual",
    "script": r"scripts?|scripting|automat(e|es|ing|ion)|shell|makefile|cron",
    "code-review": r"review(s|ed|ing)?|audit(s|ed|ing)?|inspect(s|ing)?",
    "refine": r"refin(e|es|ing|ement)|polish\w*|improv\w+|tun(e|es|ing)|optimi[sz]\w+|speed up",
}
"""Words that tell what a piece of work is; the first of them in a text decides."""
NEW: Final = re.compile(
    r"\b(add|adds|adding|build|builds|implement\w*|creat\w+|introduc\w+|support|supports|write|writes|make|new)\b",
    re.IGNORECASE,
)
"""Weaker: one can also build a script and write a document."""
PATTERNS: Final = {name: re.compile(rf"\b({words})\b", re.IGNORECASE) for name, words in KEYWORDS.items()}


def template_for(title: str, tasks: Sequence[str] = ()) -> TemplateName:
    """What the title says; else what the tasks say, the first of them first; else `custom`."""
    for text in (title, *tasks):
        found = [(match.start(), name) for name, one in PATTERNS.items() if (match := one.search(text))]
        if found:
            return min(found)[1]
        if NEW.search(text):
            return "feature"
    return "custom"


def nearest_template(word: str) -> TemplateName | None:
    """The template that was probably meant."""
    plain = re.sub(r"[\s_]+", "-", word.strip().lower())
    close = difflib.get_close_matches(plain, TEMPLATES, n=1)
    return next((name for name in TEMPLATES if close and name == close[0]), None)


@cache
def guidance(name: TemplateName) -> str:
    """What is told to a developer of such work."""
    return resources.files(__name__).joinpath("templates", f"{name}.md").read_text(encoding="utf-8").strip()
