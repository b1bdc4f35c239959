"""The site: links and anchors lead somewhere, every page can be found, nothing is fetched from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tools.site import build


class Names(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.ids |= {said["id"]} if "id" in said else set()
        self.links += [said["href"]] if tag == "a" else []
        self.loaded += [said[name] for name in ("src", "href") if name in said and tag != "a"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build.build(folder) == []
    return folder


def lost(site: Path) -> Iterator[str]:
    names = {path: Names(path) for path in site.rglob("*.html")}
    for path, found in names.items():
        for link in (*found.links, *found.loaded):
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.is_file() or (anchor and target in names and anchor not in names[target].ids):
                yield f"{path.relative_to(site)}: {link}"


def test_every_link_and_every_file_that_a_page_loads_is_in_the_site(site: Path) -> None:
    assert [*lost(site)] == []


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    page = build.Page(tmp_path / "one.md", "One")
    page.source.write_text("[a](two.md) and [b](#none) and [c](#here)\n\n# Here\n", encoding="utf-8")
    assert build.address(page, "two.md", [page]) == build.address(page, "#none", [page]) == ""


def test_every_document_is_a_page_and_can_be_searched(site: Path) -> None:
    text = (site / "sections.js").read_text(encoding="utf-8").removeprefix("window.SECTIONS = ")
    searched = {one["url"].partition("#")[0] for one in json.loads(text.rstrip().removesuffix(";"))}
    documents = {path.relative_to(build.DOCS).with_suffix(".html") for path in build.DOCS.rglob("*.md")}
    assert {path.as_posix() for path in documents} <= searched
    assert searched == {path.relative_to(site).as_posix() for path in site.rglob("*.html")}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert "://" not in (site / "site.css").read_text("utf-8") + (site / "search.js").read_text("utf-8")
    assert [link for path in site.rglob("*.html") for link in Names(path).loaded if ":" in link] == []
