"""The documents as a site, with search: plain files that a browser opens from disk, nothing fetched.

    make docs

docs/index.md is the map: its headings and links are the menu, in reading order. A link or an anchor that
leads nowhere is an error. The same parser reads the pages here, in the tests and in `beads-ralph help`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from os.path import relpath
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, select_autoescape
from markdown_it import MarkdownIt
from markdown_it.token import Token

HERE: Final = Path(__file__).parent
PROJECT: Final = HERE.parents[1]
DOCS: Final = PROJECT / "docs"
MAP: Final = DOCS / "index.md"
MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
FILES: Final = ("site.css", "search.js")


@dataclass(frozen=True)
class Heading:
    """A heading, and where a link finds it."""

    title: str
    anchor: str


@dataclass
class Page:
    """A document: where it lies, and what it becomes."""

    source: Path
    title: str
    part: str = ""
    html: str = ""
    headings: list[Heading] = field(default_factory=list)

    @property
    def url(self) -> str:
        name = self.source.relative_to(DOCS if self.source.is_relative_to(DOCS) else PROJECT)
        return name.with_suffix(".html").as_posix().lower()


@dataclass(frozen=True)
class Part:
    """A heading of the map, and the pages below it."""

    name: str
    pages: tuple[Page, ...]


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def plain(token: Token) -> str:
    return "".join(child.content for child in token.children or [] if child.type in ("text", "code_inline"))


def parsed(source: Path) -> list[Token]:
    return MARKDOWN.parse(source.read_text(encoding="utf-8"))


def headings(tokens: Sequence[Token]) -> Iterator[tuple[Token, Heading]]:
    for token, after in pairwise(tokens):
        if token.type == "heading_open":
            yield token, Heading(plain(after), slug(after.content))


def parts() -> list[Part]:
    """The menu: what the map names, in its order."""
    found: dict[str, list[Page]] = {}
    name = ""
    tokens = parsed(MAP)
    for token, after in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            name = plain(after)
        elif name and token.type == "inline":
            found.setdefault(name, []).extend(linked(token, name))
    return [Part(name, tuple(pages)) for name, pages in found.items()]


def linked(token: Token, part: str) -> Iterator[Page]:
    children = token.children or []
    for child, after in pairwise(children):
        if child.type == "link_open":
            yield Page((DOCS / str(child.attrs["href"])).resolve(), after.content, part)


# --- one page ---------------------------------------------------------------------------------------


def render(page: Page, pages: Sequence[Page]) -> list[str]:
    """Fill in the page; the links of it that lead nowhere."""
    tokens = parsed(page.source)
    lost: list[str] = []
    for token, heading in headings(tokens):
        token.attrs["id"] = heading.anchor
        page.headings += [heading] if token.tag == "h2" else []
    for token in tokens:
        for child in token.children or []:
            name = {"link_open": "href", "image": "src"}.get(child.type)
            if name:
                target = address(page, str(child.attrs[name]), pages)
                lost += [] if target else [f"{page.source.name}: {child.attrs[name]}"]
                child.attrs[name] = target
    html = str(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}))
    page.html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return lost


def address(page: Page, link: str, pages: Sequence[Page]) -> str:
    """Where a link of a source leads in the site; empty where it leads nowhere."""
    if re.match(r"[a-z]+:", link):
        return link
    file, _, anchor = link.partition("#")
    source = (page.source.parent / file).resolve() if file else page.source
    if not source.is_file() or (anchor and anchor not in anchors(source)):
        return ""
    urls = [other.url for other in pages if other.source == source]
    url = urls[0] if urls else source.relative_to(PROJECT).as_posix()
    return relpath(url, Path(page.url).parent) + (f"#{anchor}" if anchor else "")


@cache
def anchors(source: Path) -> frozenset[str]:
    return frozenset(heading.anchor for _, heading in headings(parsed(source)))


def upwards(page: Page) -> str:
    return "../" * (len(Path(page.url).parts) - 1)


def sections(page: Page) -> Iterator[dict[str, str]]:
    """What the search looks through: the text below each heading."""
    title, anchor, words = page.title, "", list[str]()
    tokens = parsed(page.source)
    opened = {id(after) for token, after in pairwise(tokens) if token.type == "heading_open"}
    for token in tokens:
        if id(token) in opened:
            if words:
                yield section(page, title, anchor, words)
            title, anchor, words = plain(token), slug(token.content), []
        elif token.type in ("inline", "fence"):
            words.append(plain(token) or token.content)
    yield section(page, title, anchor, words)


def section(page: Page, title: str, anchor: str, words: Sequence[str]) -> dict[str, str]:
    text = " ".join(" ".join(words).split())
    return {"page": page.title, "title": title, "url": f"{page.url}#{anchor}", "text": text}


# --- the site ---------------------------------------------------------------------------------------


def build(folder: Path) -> list[str]:
    """Write the site; the links that lead nowhere."""
    menu = parts()
    pages = [Page(MAP, "All pages"), *(page for part in menu for page in part.pages)]
    lost = [text for page in pages for text in render(page, pages)]
    for page in pages:
        copy_files(page, folder)
    template = Environment(loader=FileSystemLoader(HERE), autoescape=select_autoescape()).get_template(
        "page.html"
    )
    for before, page, after in zip([None, *pages], pages, [*pages[1:], None], strict=False):
        text = template.render(page=page, parts=menu, top=upwards(page), before=before, after=after)
        write(folder / page.url, text)
    found = [one for page in pages for one in sections(page)]
    write(folder / "sections.js", f"window.SECTIONS = {json.dumps(found, ensure_ascii=False)};\n")
    for name in FILES:
        shutil.copy(HERE / name, folder / name)
    return lost


def copy_files(page: Page, folder: Path) -> None:
    """Pictures, and files of the source that a page links to, lie in the site as they do in the project."""
    for name in re.findall(r'(?:href|src)="([^":#]+)"', page.html):
        source = PROJECT / relpath(Path(page.url).parent / name)
        if source.is_file():
            target = folder / source.relative_to(PROJECT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the site of the documents.")
    parser.add_argument("folder", type=Path, nargs="?", default=PROJECT / "build" / "site")
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    lost = build(folder)
    for text in lost:
        sys.stderr.write(f"leads nowhere: {text}\n")
    sys.stdout.write(f"{folder / 'index.html'}\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
