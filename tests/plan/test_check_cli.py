"""`plan check` and `plan graph` as a person and a script meet them."""

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from beads_ralph.plan import draw
from tests.cli import running
from tests.plan.plans import DEFAULTS, FIXTURES, plan_of


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.out)
        return answer


def ralph(folder: Path, *words: str) -> Said:
    ran = running.ralph(*words, cwd=folder)
    return Said(ran.code, ran.out, ran.err)


def write(repo: Path, text: str) -> str:
    (repo / "plan.md").write_bytes(text.encode("utf-8"))
    return "plan.md"


SOUND = (FIXTURES / "service.md").read_text("utf-8")
FAULTY = """\
---
source_branch: develop
dev_agents: [claude]
qa_agents: [claude]
priority: 9
---
### Sprint 1.1: A
**Depends On**: 1.2
**Tasks**: x
### Sprint 1.2: B
**Branch**: `no good`
**Tasks**: x
### Sprint 1.3: C
**Depends On**: 7.7
**Tasks**: x
### Sprint 1.x: D
### Sprint 1.1: E
**Tasks**: x
### Sprint 1.4: F
"""


# --- plan check -----------------------------------------------------------------------------------


def test_s2_in1_s2_c1_a_sound_plan_passes_and_is_not_touched(repo: Path) -> None:
    plan = write(repo, SOUND)
    before = sorted(repo.rglob("*"))
    said = ralph(repo, "plan", "check", plan)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("✓ plan.md: 7 sprints")
    assert (repo / plan).read_text("utf-8") == SOUND
    assert sorted(repo.rglob("*")) == before


def test_plan_check_json_of_a_sound_plan(repo: Path) -> None:
    text = plan_of(["1.1"], s1_1="**Taks**: x\n")
    answer = ralph(repo, "plan", "check", write(repo, text), "--json").json
    assert (answer["success"], answer["error"]) == (True, None)
    assert answer["data"]["sprints"] == 1
    assert answer["data"]["faults"] == []
    (warning,) = answer["data"]["warnings"]
    assert warning["code"] == "PARSE.MARKDOWN"
    assert (warning["file"], warning["line"]) == ("plan.md", text.split("\n").index("**Taks**: x") + 1)
    assert "**Tasks**" in warning["message"]


def test_s2_o2_every_fault_at_once_in_line_order_each_with_its_place(repo: Path) -> None:
    said = ralph(repo, "plan", "check", write(repo, FAULTY), "--json")
    assert said.code == 1
    answer = said.json
    assert (answer["success"], answer["data"]) == (False, None)
    error = answer["error"]
    assert set(error) == {"code", "message", "details", "recoverable", "suggested_action"}
    rows = error["details"]["faults"]
    found = [(row["line"], row["code"]) for row in rows]
    assert found == sorted(found, key=lambda place: place[0])
    assert {
        (5, "PARSE.INVALID_PATTERN"),
        (8, "DEPENDENCY.CYCLE_DETECTED"),
        (11, "VALIDATION.INVALID_PATTERN"),
        (14, "DEPENDENCY.UNRESOLVED"),
        (16, "PARSE.INVALID_PATTERN"),
        (17, "DEPENDENCY.DUPLICATE_ID"),
        (19, "PARSE.MISSING_SECTION"),
    } <= set(found)
    assert all(row["file"] == "plan.md" and row["message"] for row in rows)
    assert error["code"] == rows[0]["code"]


def test_every_fault_is_one_line_for_a_person(repo: Path) -> None:
    said = ralph(repo, "plan", "check", write(repo, FAULTY))
    assert (said.code, said.out) == (1, "")
    lines = [line for line in said.err.split("\n") if line.startswith("error: ")]
    numbers = [int(found[1]) for line in lines if (found := re.match(r"error: plan\.md:(\d+): ", line))]
    assert len(numbers) == len(lines) >= 7
    assert numbers == sorted(numbers)


def test_s1_t8_a_cycle_is_printed_as_a_path_with_its_lines(repo: Path) -> None:
    text = plan_of(["1.1", "1.2", "1.3"], s1_1="**Depends On**: 1.3\n")
    at = {
        sprint: text.split("\n").index(f"### Sprint {sprint}: Part {sprint}") + 1
        for sprint in ("1.1", "1.2", "1.3")
    }
    said = ralph(repo, "plan", "check", write(repo, text))
    path = " → ".join(f"{sprint} (plan.md:{at[sprint]})" for sprint in ("1.1", "1.3", "1.2", "1.1"))
    assert said.code == 1
    assert path in said.err


def test_warnings_fail_only_when_asked_to(repo: Path) -> None:
    plan = write(repo, plan_of(["1.1"], s1_1="**Status**: done\n"))
    gentle, strict = ralph(repo, "plan", "check", plan), ralph(repo, "plan", "check", plan, "--strict")
    assert (gentle.code, strict.code) == (0, 1)
    assert "warning: plan.md:7" in gentle.err


def test_s2_x1_a_plan_without_sprints_advises_the_form_of_headings(repo: Path) -> None:
    error = ralph(repo, "plan", "check", write(repo, "# Nothing\n"), "--json").json["error"]
    assert (error["code"], error["recoverable"]) == ("PARSE.MARKDOWN", True)
    assert "### Sprint" in error["suggested_action"]


def test_s2_x2_a_bead_that_breaks_the_schema_names_its_field(repo: Path) -> None:
    plan = write(repo, plan_of(["1.1"], s1_1="**Branch**: `no good`\n"))
    error = ralph(repo, "plan", "check", plan, "--json").json["error"]
    assert (error["code"], error["recoverable"]) == ("VALIDATION.INVALID_PATTERN", True)
    assert error["details"]["faults"][0]["field"] == "metadata.branch"


def test_s2_x3_a_plan_that_is_not_there_is_fatal(repo: Path) -> None:
    said = ralph(repo, "plan", "check", "none.md", "--json")
    error = said.json["error"]
    assert (said.code, error["code"], error["recoverable"]) == (1, "IO.FILE_NOT_FOUND", False)
    assert "path" in error["suggested_action"]


def test_s2_x4_an_unknown_sprint_is_recoverable(repo: Path) -> None:
    plan = write(repo, plan_of(["1.1"], s1_1="**Depends On**: 9.9\n"))
    error = ralph(repo, "plan", "check", plan, "--json").json["error"]
    assert (error["code"], error["recoverable"]) == ("DEPENDENCY.UNRESOLVED", True)
    assert "sprint ids" in error["suggested_action"]


def test_a_plan_that_is_no_text_is_refused_with_its_line(repo: Path) -> None:
    (repo / "plan.md").write_bytes(b"### Sprint 1.1: A\n\xff\n")
    said = ralph(repo, "plan", "check", "plan.md")
    assert said.code == 1
    assert "plan.md:2" in said.err


def test_usage_errors_leave_with_two(repo: Path) -> None:
    assert ralph(repo, "plan", "check").code == 2
    assert ralph(repo, "plan", "graph", write(repo, SOUND), "--format", "png").code == 2


# --- the inputs and the answer of mason -----------------------------------------------------------


def test_s1_fr1_1_s2_in1_s2_st7_s2_o1_all_sprints_without_a_filter_in_a_fenced_envelope(repo: Path) -> None:
    plan = repo / write(repo, SOUND)
    program = "import sys; from beads_ralph.cli.entry import mason; sys.exit(mason())"
    done = subprocess.run(
        [sys.executable, "-c", program, "--plan-file", str(plan), "--dry-run"],
        cwd=repo,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("```json\n")
    assert done.stdout.endswith("\n```\n")
    answer = json.loads(done.stdout.removeprefix("```json\n").removesuffix("```\n"))
    assert (answer["success"], answer["error"]) == (True, None)
    assert answer["data"]["sprints_processed"] == ["1.1", "1.2a", "1.2b", "1.3", "2a.1", "2b.1", "3.1"]
    assert answer["data"]["plan_annotated"] is False
    assert plan.read_text("utf-8") == SOUND


def test_s1_fr1_1_c14_a_filter_of_several_sprints_compiles_against_the_whole_plan(repo: Path) -> None:
    words = ["mason", write(repo, SOUND), "--dry-run", "--json", "--sprint-filter", " 1.3, 1.2a "]
    data = ralph(repo, *words).json["data"]
    assert data["sprints_processed"] == ["1.2a", "1.3"]
    assert [bead["dependencies"] for bead in data["beads"]] == [
        ["bd-1-1-model"],
        ["bd-1-2a-storage", "bd-1-2b-search"],
    ]


@pytest.mark.parametrize(
    ("word", "code"), [("9.9", "DEPENDENCY.UNRESOLVED"), ("one", "PARSE.INVALID_PATTERN")]
)
def test_c14_a_filter_that_names_what_is_not_there_is_an_error(repo: Path, word: str, code: str) -> None:
    said = ralph(repo, "mason", write(repo, SOUND), "--dry-run", "--json", "--sprint-filter", f"1.1,{word}")
    assert (said.code, said.json["error"]["code"]) == (1, code)


# --- plan graph -----------------------------------------------------------------------------------


def test_plan_graph_json(repo: Path) -> None:
    plan = write(repo, SOUND)
    said = ralph(repo, "plan", "graph", plan, "--format", "json")
    data = said.json["data"]
    assert said.code == 0
    lines = SOUND.split("\n")
    first, second = data["sprints"][:2]
    assert first == {
        "sprint": "1.1",
        "bead_id": "bd-1-1-model",
        "title": "Note Model",
        "line": lines.index("### Sprint 1.1: Note Model") + 1,
        "depends_on": [],
        "depends_on_beads": [],
        "wave": 1,
    }
    assert (second["sprint"], second["depends_on"], second["wave"]) == ("1.2a", ["1.1"], 2)
    assert data["waves"] == [["1.1"], ["1.2a", "1.2b"], ["1.3"], ["2a.1", "2b.1"], ["3.1"]]
    assert data["critical_path"] == ["1.1", "1.2a", "1.3", "2a.1", "3.1"]
    assert ralph(repo, "plan", "graph", plan, "--json").json == said.json


def test_plan_graph_text_shows_waves_and_the_critical_path(repo: Path) -> None:
    said = ralph(repo, "plan", "graph", write(repo, SOUND))
    assert (said.code, said.err) == (0, "")
    rows = said.out.split("\n")
    assert [row.split()[1] for row in rows if row.startswith("wave")] == ["1", "2", "3", "4", "5"]
    starred = [row.split("★")[1].split()[0] for row in rows if "★" in row and "critical path" not in row]
    assert starred == ["1.1", "1.2a", "1.3", "2a.1", "3.1"]
    assert "7 sprints, 5 waves, up to 2 in parallel" in said.out


@pytest.mark.parametrize("form", ["text", "mermaid", "dot", "json"])
def test_a_plan_with_a_cycle_is_not_drawn(repo: Path, form: str) -> None:
    plan = write(repo, plan_of(["1.1", "1.2"], s1_1="**Depends On**: 1.2\n"))
    said = ralph(repo, "plan", "graph", plan, "--format", form)
    assert said.code == 1
    assert "Circular dependency" in said.out + said.err


def test_a_plan_with_missing_sections_is_drawn_all_the_same(repo: Path) -> None:
    said = ralph(repo, "plan", "graph", write(repo, "### Sprint 1.1: A\n### Sprint 1.2: B\n"), "--json")
    assert said.code == 0
    assert said.json["data"]["waves"] == [["1.1"], ["1.2"]]


def test_a_bead_outside_the_plan_is_listed_apart(repo: Path) -> None:
    plan = write(repo, plan_of(["1.1"], s1_1="**Depends On**: bd-else\n"))
    (row,) = ralph(repo, "plan", "graph", plan, "--json").json["data"]["sprints"]
    assert (row["depends_on"], row["depends_on_beads"], row["wave"]) == ([], ["bd-else"], 1)


def test_faults_of_a_drawing_come_in_line_order(repo: Path) -> None:
    said = ralph(repo, "plan", "graph", write(repo, FAULTY), "--json")
    lines = [row["line"] for row in said.json["error"]["details"]["faults"]]
    assert lines == sorted(lines)
    assert len(lines) > 3


# --- drawings are well-formed ---------------------------------------------------------------------

ODD_TITLE = (
    '### Sprint 1.1: "q" [b] (c) {d} <e> #f; \\n g\\\\ | %% %%{init}%% `h` & &amp; → é end\n**Tasks**: x\n'
)


def mermaid_of(text: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """A strict reader: labels by name, edges by name. Fails on anything Mermaid might take otherwise."""
    first, *rows = text.split("\n")
    assert first == "flowchart TD"
    labels: dict[str, str] = {}
    edges: set[tuple[str, str]] = set()
    for row in rows:
        if node := re.fullmatch(r'    (s\d+)\["([^"<>%\\\x00-\x1f]*)"\]', row):
            labels[node[1]] = unescaped(node[2])
        elif edge := re.fullmatch(r"    (s\d+) --> (s\d+)", row):
            edges.add((edge[1], edge[2]))
        else:
            assert re.fullmatch(r"    classDef critical [a-z0-9:-]+|    class s\d+(,s\d+)* critical", row), (
                row
            )
    assert all(end in labels for edge in edges for end in edge)
    return labels, edges


def unescaped(label: str) -> str:
    names = {"amp": "&", "quot": '"', "lt": "<", "gt": ">"}
    assert not re.search(r"[#;&]", re.sub(r"#\w+;", "", label)), label
    return re.sub(r"#(\w+);", lambda found: names.get(found[1]) or chr(int(found[1])), label)


DOT_TOKEN = re.compile(r'\s+|(->)|([{}\[\];=,])|([A-Za-z_][A-Za-z0-9_]*|-?\d+)|"((?:[^"\\]|\\["\\])*)"')


def dot_tokens(text: str) -> list[str]:
    """Graphviz's own tokens; in quoted strings only escapes that mean themselves."""
    found, at = [], 0
    while at < len(text):
        token = DOT_TOKEN.match(text, at)
        assert token is not None, text[at:]
        if token[4] is not None:
            assert "\n" not in token[4]
            found.append("'" + re.sub(r"\\(.)", r"\1", token[4]))
        elif token.group().strip():
            found.append(token.group())
        at = token.end()
    return found


def dot_of(text: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """The statements of a digraph: labels by name, edges by name."""
    tokens = dot_tokens(text)
    assert tokens[:3] == ["digraph", "plan", "{"]
    assert tokens[-1] == "}"
    labels: dict[str, str] = {}
    edges: set[tuple[str, str]] = set()
    statement: list[str] = []
    for token in tokens[3:-1]:
        if token != ";":
            statement.append(token)
            continue
        match statement:
            case ["rankdir", "=", "TB"] | ["node", "[", "shape", "=", "box", "]"]:
                pass
            case [name, "[", "label", "=", label, "]"] | [
                name,
                "[",
                "label",
                "=",
                label,
                ",",
                "penwidth",
                "=",
                _,
                "]",
            ]:
                labels[name[1:]] = label[1:]
            case [before, "->", after]:
                edges.add((before[1:], after[1:]))
            case _:
                pytest.fail(f"no statement: {statement}")
        statement = []
    assert statement == []
    assert all(end in labels for edge in edges for end in edge)
    return labels, edges


def test_plan_graph_mermaid_and_dot_hold_an_odd_title(repo: Path) -> None:
    plan = write(repo, DEFAULTS + ODD_TITLE + "### Sprint 1.2: Next\n**Tasks**: x\n")
    title = ralph(repo, "plan", "graph", plan, "--json").json["data"]["sprints"][0]["title"]
    labels, edges = mermaid_of(ralph(repo, "plan", "graph", plan, "--format", "mermaid").out.rstrip("\n"))
    assert (labels, edges) == ({"s0": f"1.1: {title}", "s1": "1.2: Next"}, {("s0", "s1")})
    labels, edges = dot_of(ralph(repo, "plan", "graph", plan, "--format", "dot").out)
    assert (labels, edges) == ({"1.1": f"1.1: {title}", "1.2": "1.2: Next"}, {("1.1", "1.2")})


titles = st.text(
    st.sampled_from("ab \"[](){}<>#;\\\n\r\t%&|`'é→\u2028\x00") | st.characters(codec="utf-8"), max_size=12
)


@given(st.lists(titles, min_size=1, max_size=4))
def test_any_title_stays_inside_its_label(given_titles: list[str]) -> None:
    nodes = [draw.Node(f"1.{at}", f"bd-{at}", title, at) for at, title in enumerate(given_titles, 1)]
    edges = {node.sprint: [other.sprint for other in nodes[:at]] for at, node in enumerate(nodes)}
    drawing = draw.Drawing.of(nodes, edges)
    shown = {node.sprint: " ".join(f"{node.sprint}: {node.title}".split()) for node in nodes}
    pairs = {(other, sprint) for sprint, others in edges.items() for other in others}

    labels, arrows = dot_of(draw.dot(drawing))
    assert {sprint: bare(label) for sprint, label in labels.items()} == {
        s: bare(text) for s, text in shown.items()
    }
    assert arrows == pairs

    labels, arrows = mermaid_of(draw.mermaid(drawing))
    names = dict(zip(labels, shown, strict=True))
    assert {names[name]: bare(label) for name, label in labels.items()} == {
        s: bare(text) for s, text in shown.items()
    }
    assert {(names[before], names[after]) for before, after in arrows} == pairs


def bare(text: str) -> str:
    """Without characters that no drawing can show."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


@given(st.lists(titles, min_size=1, max_size=3))
def test_any_title_can_be_drawn_as_text(given_titles: list[str]) -> None:
    nodes = [draw.Node(f"1.{at}", f"bd-{at}", title, at) for at, title in enumerate(given_titles, 1)]
    console = Console(file=StringIO(), width=200, highlight=False)
    draw.text(draw.Drawing.of(nodes, {node.sprint: [] for node in nodes}), console)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert f"{len(nodes)} sprint{'s' * (len(nodes) > 1)}, 1 wave," in shown
    assert len(shown.split("\n")) == len(nodes) + 3
    assert all(char.isprintable() for char in shown.replace("\n", "")), "nothing that a terminal obeys"


def test_a_title_is_shown_as_it_is_written() -> None:
    console = Console(file=StringIO(), width=200, highlight=False)
    draw.text(draw.Drawing.of([draw.Node("1.1", "bd-1", "a :x: [b]c[/b]", 1)], {"1.1": []}), console)
    assert isinstance(console.file, StringIO)
    assert "a :x: [b]c[/b]" in console.file.getvalue()
