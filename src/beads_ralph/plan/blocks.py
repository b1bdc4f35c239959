"""What a plan's markdown consists of: headings, labelled fields, prose, each with its line."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CodeText:
    """A code span inside a line, or a fenced block."""

    text: str
    line: int
    fenced: bool = False


@dataclass(frozen=True)
class ListItem:
    """A list item: its own text, and its sub-bullets folded in below it; and the same for prompts."""

    text: str
    line: int
    wording: str
    codes: tuple[CodeText, ...] = ()
    struck: bool = False
    opens_with_code: bool = False
    group: str = ""
    """The heading that it stands below inside of its field, such as `##### Backend`."""


@dataclass
class Field:
    """`**Label**: value` and the lists and fences that follow it."""

    label: str
    line: int
    text: str = ""
    codes: list[CodeText] = field(default_factory=list)
    items: list[ListItem] = field(default_factory=list)
    fences: list[CodeText] = field(default_factory=list)
    rest: list[ListItem] = field(default_factory=list)  # the next lines, where the value ends in a comma
    opens_with_code: bool = False
    wording: str = ""
    loose: bool = False
    """True of a form that only a known label may have: without a colon, or without stars."""

    @property
    def goes_on(self) -> bool:
        return (self.rest[-1].text if self.rest else self.text).endswith(",")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    line: int
    struck: bool = False


@dataclass(frozen=True)
class Prose:
    """Text that belongs to no label: a paragraph, or what stands in a list, a quotation or a fence."""

    text: str
    line: int
    paragraph: bool = False


@dataclass(frozen=True)
class Comment:
    text: str
    line: int


@dataclass(frozen=True)
class FrontMatter:
    text: str
    line: int


@dataclass(frozen=True)
class NearLabel:
    """A line of prose that begins with a known label, but not as labels do."""

    label: str
    text: str
    line: int


@dataclass(frozen=True)
class TooDeep:
    """What is nested deeper than this cannot be read."""

    line: int


Block = FrontMatter | Heading | Field | Prose | Comment | NearLabel | TooDeep
