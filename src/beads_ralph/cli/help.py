"""help: the pages of the documents in the terminal. An installed program has them in its package."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from beads_ralph.cli import options, parser
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import COMMANDS, PROGRAM, Group
from beads_ralph.cli.text import lines, printable
from beads_ralph.errors import Code, RalphError

if TYPE_CHECKING:
    from rich.console import Console

MAP: Final = "index.md"
ROW: Final = re.compile(r"^\| \[([^\]]+)\]\(((?:[\w-]+/)?([\w-]+)\.md)\) \| (.*) \|$")
INTERNALS: Final = "Internals"


@dataclass(frozen=True)
class Topic:
    """A page: the word that asks for it, its kind, and the map's line about it."""

    name: str
    kind: str
    title: str
    about: str
    path: str

    def to_json(self) -> dict[str, str]:
        return {"topic": self.name, "kind": self.kind, "title": self.title, "about": self.about}


def show_help(
    topic: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC…]", help="A page, or a command.", show_default=False)
    ] = None,
    json_: options.Json = False,
) -> Answer:
    """Show a page of the documents in the terminal, or the help of a command; alone: list the pages."""
    known = topics()
    if not topic:
        return Answer({"topics": [one.to_json() for one in known]}, lines(*_listed(known)))
    if len(topic) == 1 and (found := _found(topic[0], known)):
        text = (_folder() / found.path).read_text(encoding="utf-8")
        return Answer({**found.to_json(), "text": text}, lambda console: _draw(console, text))
    if _is_command(topic):
        return parser.answer(parser.whole(), PROGRAM, [*topic, "--help"])
    raise _unknown(" ".join(topic), known)


def topics() -> list[Topic]:
    """The pages for users, in the order of the map."""
    found: list[Topic] = []
    kind = ""
    for line in (_folder() / MAP).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            kind = line.lstrip("#0123456789. ")
        elif kind != INTERNALS and (row := ROW.match(line)):
            title, path, name, about = row.groups()
            found.append(Topic(name, kind, title, about.replace("`", ""), path))
    return found


def _folder() -> Traversable:
    """The pages: those in the package, or those of the checkout that the program runs from."""
    packaged = files("beads_ralph") / "pages"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "docs"


def _listed(known: Sequence[Topic]) -> list[str]:
    width = max(len(one.name) for one in known)
    said: list[str] = []
    for kind in dict.fromkeys(one.kind for one in known):
        said += [kind, *(f"  {one.name:{width}}  {one.about}" for one in known if one.kind == kind), ""]
    return [*said, f"{PROGRAM} help TOPIC shows a page, {PROGRAM} help COMMAND what a command can do."]


def _found(word: str, known: Sequence[Topic]) -> Topic | None:
    """The page of that name, or the only one whose name begins so or has it inside."""
    word = word.lower().removesuffix(".md")
    exact = [one for one in known if one.name == word]
    if exact or word in COMMANDS:
        return exact[0] if exact else None
    begun = [one for one in known if one.name.startswith(word)]
    inside = [one for one in known if word in one.name]
    return next((few[0] for few in (begun, inside) if len(few) == 1), None)


def _is_command(words: Sequence[str]) -> bool:
    table = COMMANDS
    for at, word in enumerate(words, 1):
        row = table.get(word)
        if row is None or (at < len(words) and not isinstance(row, Group)):
            return False
        table = row.commands if isinstance(row, Group) else {}
    return True


def _unknown(words: str, known: Sequence[Topic]) -> RalphError:
    near = difflib.get_close_matches(words, [*(one.name for one in known), *COMMANDS], n=1)
    action = f"Run: {PROGRAM} help {near[0]}" if near else f"Run: {PROGRAM} help, which lists the pages"
    return RalphError(Code.USAGE, f"there is no page and no command '{words}'", suggested_action=action)


def _draw(console: Console, text: str) -> None:
    """Drawn on a terminal; elsewhere the page as it is written."""
    if not console.is_terminal:
        sys.stdout.write(printable(text))
        return
    from rich.markdown import Markdown

    console.print(Markdown(re.sub(r"^```(\w+) (?:run|output)$", r"```\1", text, flags=re.MULTILINE)))
