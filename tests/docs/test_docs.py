"""What the documents say is true: names are complete, examples run, links lead somewhere."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from beads_ralph.agents import environment
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.model import AgentSpec, Bead, Metadata
from beads_ralph.bead.schema import MODELS
from beads_ralph.cli import parser
from beads_ralph.config import model as settings
from beads_ralph.config.model import INNER, KEYS
from beads_ralph.errors import ADVICE, Code
from beads_ralph.journal import events
from beads_ralph.journal.events import BaseEvent
from beads_ralph.loop import ENDS
from beads_ralph.plan import fields
from beads_ralph.report import Tally
from tests.cli.running import ralph
from tests.liars.cast import CAST
from tests.liars.still_open import STILL_OPEN
from tests.liars.test_liars import cases as liars

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
RUNNABLE = [path for path in PAGES if "```sh run" in path.read_text("utf-8")]
MARK = "=== end of block ==="


def page(name: str) -> str:
    """A page by its name; no two pages have the same, whatever their folder."""
    (path,) = DOCS.rglob(name)
    return path.read_text(encoding="utf-8")


def tokens(path: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))


def sections(name: str, level: str = "###") -> dict[str, str]:
    """Heading → the text below it, up to the next heading of that level or above."""
    parts = re.split(rf"^{level} (.+)$|^##? .+$", page(name), flags=re.MULTILINE)
    return {title: text for title, text in zip(parts[1::2], parts[2::2], strict=True) if title}


def first_cells(text: str) -> list[str]:
    """The first cell of every table row."""
    cells = re.findall(r"^\| *((?:\\\||[^|])*?) *\|", text, flags=re.MULTILINE)
    return [cell for cell in cells if cell.strip("-: ")]


# --- commands ---------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A command as the parser knows it."""

    path: str
    options: frozenset[str]


def commands(found: Any, path: str) -> Iterator[Command]:
    inner = getattr(found, "commands", {})
    for name in inner:
        yield from commands(found.load(name), f"{path} {name}")
    if not inner:
        options = (word for parameter in found.params for word in parameter.opts if word.startswith("--"))
        yield Command(path, frozenset(options) - {"--help"})


COMMANDS = list(commands(parser.whole(), "beads-ralph"))


def command_sections() -> dict[str, str]:
    """`beads-ralph plan check` → its section; the capital words of a heading are arguments."""
    return {re.sub(r"( [A-Z]+…?)+$", "", title): text for title, text in sections("commands.md").items()}


def test_every_command_is_found_by_the_walk() -> None:
    assert {"beads-ralph init", "beads-ralph plan check", "beads-ralph mason"} <= {c.path for c in COMMANDS}


def test_every_command_has_a_section_and_no_section_is_without_one() -> None:
    assert set(command_sections()) == {command.path for command in COMMANDS} | {"beads-mason"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.path)
def test_the_section_of_a_command_names_exactly_its_options(command: Command) -> None:
    rows = "\n".join(first_cells(command_sections()[command.path]))
    assert set(re.findall(r"`(--[a-z-]+)", rows)) == command.options


def test_the_version_option_is_documented() -> None:
    root = parser.whole()
    for parameter in root.params:
        for word in set(parameter.opts) - {"--help"}:
            assert f"`beads-ralph {word}`" in page("commands.md")


def test_beads_mason_has_the_options_of_mason() -> None:
    (own,) = commands(parser.mason(), "beads-mason")
    (mason,) = [command for command in COMMANDS if command.path == "beads-ralph mason"]
    assert own.options == mason.options


# --- codes, keys, labels, fields --------------------------------------------------------------------


def test_every_code_is_in_the_table_with_whether_it_is_recoverable() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_.]+)` \|.*\| (yes|no) \|", page("errors.md"), flags=re.MULTILINE))
    assert rows == {str(code): "yes" if ADVICE[code].recoverable else "no" for code in Code}


def test_the_table_of_ends_is_that_of_the_program() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| (\S) ([^|]*) \| (.*) \|$", page("what-done-means.md"), flags=re.MULTILINE
    )
    assert rows == [(why, str(end.exit_code), end.mark, end.words, end.meaning) for why, end in ENDS.items()]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", page("errors.md"), flags=re.MULTILINE)}
    assert {end.exit_code for end in ENDS.values()} <= told
    said = sections("json.md")["run"]
    assert [why for why in ENDS if f"`{why}`" not in said] == []


def config_keys() -> set[str]:
    below = {f"{name}.{key}" for name, model in INNER.items() for key in model.model_fields}
    return set(settings.Config.model_fields) | below


def test_every_key_of_the_configuration_is_in_a_table_and_no_other() -> None:
    keys, layouts = page("configuration.md").split("## Values")
    documented = {cell.strip("`") for cell in first_cells(keys) if cell.startswith("`")}
    assert documented == config_keys()
    for section, names in settings.SECTIONS.items():
        (row,) = re.findall(rf"^\| `{section}` \|(.*)\|$", layouts, flags=re.MULTILINE)
        for name in names:
            assert f"`{name}`" in row
    for shortcut in set(settings.SHORTCUTS) - {key.rpartition(".")[2] for key in config_keys()}:
        assert f"`{shortcut}`" in layouts


def test_the_table_of_the_configuration_says_what_the_program_says() -> None:
    rows = dict(
        re.findall(r"^\| `([\w.]+)` \|[^|]*\| (.*) \|$", page("configuration.md"), flags=re.MULTILINE)
    )
    models: dict[str, type[settings.Section]] = {**dict.fromkeys(INNER, settings.Config), **KEYS}
    told = {
        key: model.model_fields[key.rpartition(".")[2]].description or "" for key, model in models.items()
    }
    assert {key: text for key, text in told.items() if not rows[key].startswith(text)} == {}


def test_every_kind_of_event_is_documented() -> None:
    text = page("json.md").partition("## The journal")[2]
    kinds = {kind for cell in first_cells(text) for kind in re.findall(r"`(\w+)`", cell)}
    assert kinds == set(events.KINDS)


@pytest.mark.parametrize("kind", events.KINDS)
def test_every_field_of_an_event_is_documented(kind: str) -> None:
    text = page("json.md").partition("## The journal")[2]
    (row,) = re.findall(rf"^\|[^|]*`{kind}`[^|]*\|[^|]*\|(.*)\|$", text, flags=re.MULTILINE)
    told = set(re.findall(r"`(\w+)`", row))
    if row.strip().startswith("the same, and"):
        told |= set(events.AgentStarted.told)
    if row.strip().startswith("as the data of `run`"):
        told |= set(re.findall(r"`(\w+)`", sections("json.md", "###")["run"]))
    common = {one.name for one in dataclasses.fields(BaseEvent)}
    own = {one.name for one in dataclasses.fields(events.KINDS[kind]) if "unwritten" not in one.metadata}
    wanted = getattr(events.KINDS[kind], "told", own - common)
    assert wanted <= told, f"not documented: {sorted(wanted - told)}"


def test_every_key_of_the_evidence_is_documented() -> None:
    cells = first_cells(sections("running.md", "##")["What is proven"])
    assert {key for cell in cells for key in re.findall(r"`(\w+)`", cell)} == set(
        Evidence.__dataclass_fields__
    )


def test_every_variable_that_an_agent_gets_is_documented() -> None:
    wanted = set(re.findall(r"BEADS_RALPH_[A-Z_]+", environment.__doc__ or ""))
    assert wanted
    assert wanted == set(re.findall(r"^\| `(BEADS_RALPH_[A-Z_]+)` \|", page("agents.md"), flags=re.MULTILINE))


def test_every_label_of_a_plan_and_each_of_its_aliases_is_documented() -> None:
    names = {"criteria": "acceptance criteria"}
    text = sections("plan-format.md", "##")["Labels"].lower()
    labels = {cell.strip("*") for cell in first_cells(text) if cell.startswith("**")}
    assert labels == {names.get(name, name.replace("_", " ")) for name in fields.READERS}
    for alias in fields.ALIASES:
        assert f"`{alias}`" in text or alias in labels


def test_every_key_of_the_front_matter_is_documented() -> None:
    text = sections("plan-format.md", "##")["Defaults and front matter"]
    keys = {key for cell in first_cells(text) for key in re.findall(r"`(\w+)`", cell)}
    assert keys == set(settings.PlanDefaults.model_fields)


@pytest.mark.parametrize("model", [Bead, Metadata, AgentSpec])
def test_every_field_of_a_bead_is_documented(model: type[Any]) -> None:
    missing = [name for name in model.model_fields if f"`{name}`" not in page("schema.md")]
    assert missing == []


def test_every_json_schema_is_named() -> None:
    assert [name for name in (*MODELS, "Config") if f"`{name}`" not in page("schema.md")] == []


# --- answers ----------------------------------------------------------------------------------------

PLAN = """\
### Sprint 1.1: Data model
**Tasks**:
- Write it
"""
POURED = """
### Sprint 1.2: Search
**Formula**: once
"""
ONCE = {"formula": "once", "steps": [{"id": "do", "title": "Do it", "type": "beads-ralph-work"}]}


FORMULA = """\
formula = "x"
vars.v = "w"
steps = [{id = "a", title = "{{v}}"}]
"""


def answer(repo: Path, *words: str) -> dict[str, Any]:
    """The data of a command's envelope."""
    return ralph(*words, "--json", cwd=repo).data


def documented_keys(name: str) -> set[str]:
    return {key for cell in first_cells(sections("json.md")[name]) for key in re.findall(r"`(\w+)`", cell)}


def test_the_answers_have_the_documented_keys(repo: Path) -> None:
    (repo / "plan.md").write_text(PLAN + POURED, encoding="utf-8")
    bead = {"init": answer(repo, "init")}
    folder = repo / ".beads" / "formulas"
    folder.mkdir(parents=True)
    (folder / "once.formula.json").write_text(json.dumps(ONCE), encoding="utf-8")
    dry = answer(repo, "mason", "plan.md", "--dry-run")
    (repo / "bead.json").write_text(json.dumps(dry["beads"][0]), encoding="utf-8")
    ralph = {"intent": "Be", "dod": {"verifiers": [{"name": "is", "command": "true"}]}}
    (repo / "ralph.json").write_text(json.dumps(ralph), encoding="utf-8")
    (repo / ".beads" / "formulas").mkdir(parents=True, exist_ok=True)
    (repo / ".beads" / "formulas" / "x.formula.toml").write_text(FORMULA, encoding="utf-8")
    found = bead | {
        "formula list": answer(repo, "formula", "list"),
        "formula show": answer(repo, "formula", "show", "x"),
        "formula check": answer(repo, "formula", "check", "x"),
        "formula find": answer(repo, "formula", "find", "plan.md"),
        "formula make": answer(repo, "formula", "make", "z", "--from", "plan.md", "--sprints", "1.1"),
        "pour, wisp pour": answer(repo, "pour", "x", "--var", "v=w")
        | answer(repo, "wisp", "x", "--var", "v=w"),
        "wisp list": answer(repo, "wisp", "list"),
        "wisp gc": answer(repo, "wisp", "gc"),
        "wisp burn": answer(repo, "wisp", "burn", "bd-x-002", "--force"),
        "doctor": answer(repo, "doctor"),
        "demo": answer(repo, "demo", "--dir", "scratch", "--plan-only"),
        "plan check": answer(repo, "plan", "check", "plan.md"),
        "plan graph": answer(repo, "plan", "graph", "plan.md"),
        "plan diff": answer(repo, "plan", "diff", "plan.md"),
        "mason": answer(repo, "mason", "plan.md") | answer(repo, "mason", "plan.md", "--update"),
        "analyze": answer(repo, "analyze"),
        "forecast": answer(repo, "forecast", "plan.md"),
        "tune": answer(repo, "tune"),
        "list, ready": answer(repo, "list"),
        "show": answer(repo, "show", dry["bead_ids"][0]),
        "exec": answer(repo, "exec", "ralph.json"),
        "import": answer(repo, "import", "ralph.json"),
        "export": answer(repo, "export", "ralph"),
        "gate check, gate status, gate list": answer(repo, "gate", "check"),
        "validate": answer(repo, "validate", "bead.json"),
        "migrate": answer(repo, "migrate", "bead.json"),
        "schema": answer(repo, "schema"),
    }
    assert {name: set(data) for name, data in found.items()} == {
        name: documented_keys(name) for name in found
    }
    for name in ("formula list", "formula check"):
        rows = found[name]["formulas"]
        assert rows
        assert [key for row in rows for key in row if f"`{key}`" not in sections("json.md")[name]] == []
    assert set(answer(repo, "ready")) == documented_keys("list, ready")
    assert set(dry) == documented_keys("mason") - {
        *("beads_updated", "beads_orphaned", "beads_left_alone", "beads_skipped", "store")
    } | {"dry_run", "beads", "items"}


def test_every_figure_and_every_rule_of_the_analysis_is_documented() -> None:
    cells = {name: first_cells(text) for name, text in sections("analysis.md", "##").items()}
    named = {
        name: {key for cell in rows for key in re.findall(r"`([\w-]+)`", cell)}
        for name, rows in cells.items()
    }
    assert named["Figures"] == set(Tally().to_json())
    source = (PROJECT / "src" / "beads_ralph" / "report" / "advice.py").read_text(encoding="utf-8")
    assert named["Recommendations"] == set(re.findall(r'Advice\(\s*"([a-z-]+)"', source))


AGENT = """\
#!/bin/sh
if [ "$BEADS_RALPH_ROLE" = qa ]; then
    printf '```json\\n{"status": "pass", "message": "fine"}\\n```\\n'
else
    echo done > done.txt
fi
"""


def test_the_answers_of_a_run_have_the_documented_keys(repo: Path) -> None:
    agent = repo.parent / "agent.sh"
    agent.write_text(AGENT, encoding="utf-8")
    agent.chmod(0o755)
    (repo / "plan.md").write_text(PLAN, encoding="utf-8")
    answer(repo, "init")
    with (repo / "beads-ralph.yaml").open("a", encoding="utf-8") as file:
        file.write(f"  default_executable: {agent}\nmin_free_gb: 0\n")
    ran = answer(repo, "run", "plan.md")
    (bead,) = ran["closed"]
    found = {
        "run": ran,
        "status": answer(repo, "status"),
        "events": answer(repo, "events"),
        "logs": answer(repo, "logs", bead),
        "clean": answer(repo, "clean"),
        "config show": answer(repo, "config", "show"),
        "config explain": answer(repo, "config", "explain", "store"),
    }
    assert {name: set(data) for name, data in found.items()} == {
        name: documented_keys(name) for name in found
    }
    (pull,) = ran["pull_requests"]
    for row, name in ((pull, "run"), (found["clean"]["worktrees"][0], "clean")):
        assert [key for key in row if f"`{key}`" not in sections("json.md")[name]] == []


def test_every_command_has_its_answer_documented() -> None:
    named = {name for title in sections("json.md") for name in title.split(", ")} - {"Details"}
    assert named == {command.path.removeprefix("beads-ralph ") for command in COMMANDS}


# --- examples ---------------------------------------------------------------------------------------


class Example(NamedTuple):
    """A block of commands, and what it prints where the document shows it."""

    code: str
    printed: str | None


def examples(path: Path) -> list[Example]:
    fences = [token for token in tokens(path) if token.type == "fence"]
    following = [*fences[1:], None]
    return [
        Example(fence.content, after.content if after and after.info == "text output" else None)
        for fence, after in zip(fences, following, strict=True)
        if fence.info == "sh run"
    ]


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.name)
def test_the_examples_run_and_print_what_is_shown(path: Path, tmp_path: Path, with_claude: None) -> None:
    found = examples(path)
    assert found
    script = "set -eu\n" + "".join(f"{example.code}\necho '{MARK}'\n" for example in found)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=scratch,
        env={**os.environ, "PATH": programs + os.pathsep + os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{MARK}\n")
    for example, output in zip(found, printed, strict=False):
        if example.printed is not None:
            assert lines(output) == lines(example.printed)


# --- links and the map ------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The names that headings get: lower case, no punctuation, a dash for a blank."""
    found = tokens(path)
    titles = [after.content for token, after in pairwise(found) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(path: Path) -> list[str]:
    children = (child for token in tokens(path) for child in token.children or [])
    names = {"link_open": "href", "image": "src"}
    return [str(child.attrs[names[child.type]]) for child in children if child.type in names]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.is_file(), f"{path.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{path.name}: {link}"


def test_the_readme_leads_to_the_map_and_the_map_to_every_page() -> None:
    index = DOCS / "index.md"
    assert "docs/index.md" in links(PROJECT / "README.md")
    reached = {(DOCS / link).resolve() for link in links(index)}
    assert {*PAGES} - {index, PROJECT / "README.md"} <= reached


def test_the_readme_fits_on_two_screens_and_its_figures_are_true() -> None:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 125
    scripts, plays, successes = map(
        int, re.findall(r"(\d+) (?:scripts that cheat|times against|plays)", text.replace("\n", " "))
    )
    assert len(CAST) >= scripts
    assert len([*liars()]) >= plays
    assert len(STILL_OPEN) <= successes


def test_the_architecture_page_names_every_module_or_its_room_and_no_other() -> None:
    source = PROJECT / "src" / "beads_ralph"
    names = set(re.findall(r"`([\w/]+(?:\.py|/))`", page("architecture.md")))
    places = [source, *source.glob("*/")]  # what a room says of itself may begin at the room
    assert [name for name in names if not any((place / name).exists() for place in places)] == []
    named = {source / name for name in names}
    unnamed = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if not path.name.startswith("__") and not {path, *path.parents} & named
    ]
    assert unnamed == []


def test_every_decision_ends_with_its_date_and_status() -> None:
    entries = [text for text in page("decisions.md").split("\n\n") if text.startswith("**")]
    status = re.compile(r"\*20\d\d-\d\d(-\d\d)?,\s(in\sforce|until\s20\d\d-\d\d:)[^*]*\*\s*$")
    assert [text.splitlines()[0] for text in entries if not status.search(text)] == []
