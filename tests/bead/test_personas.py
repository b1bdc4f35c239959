"""Agent files: which are needed, where they may lie, and which model each agent runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import doer
from beads_ralph.bead.personas import (
    Persona,
    check_agents,
    model_asked,
    parse_agent,
    persona_file,
    read_persona,
    resolve_model,
)
from tests.bead.samples import changed, sample, work

WORK_AGENTS = ("backend-dev", "qa-unit-tests", "qa-security-scan")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "app" / ".claude" / "agents"
    folder.mkdir(parents=True)
    for name in WORK_AGENTS:
        (folder / f"{name}.md").write_text("You are one.\n", encoding="utf-8")
    return tmp_path / "app"


def agent(root: Path, name: str, text: str) -> Path:
    path = root / ".claude" / "agents" / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def spec(name: str = "x", **fields: str) -> AgentSpec:
    return AgentSpec.model_validate({"role": "polecat", "agent": name, **fields})


def with_dev(name: str) -> Bead:
    return Bead.model_validate(work("metadata.dev_agents.0.agent", name))


# --- existence --------------------------------------------------------------------------------------


def test_s0_as13_the_model_never_looks_at_the_disk() -> None:
    assert with_dev("no-such-agent-anywhere").metadata.dev_agents[0].agent == "no-such-agent-anywhere"


def test_s0_as14_claude_needs_no_file(root: Path) -> None:
    assert check_agents(with_dev("claude"), root) == []


def test_s0_as15_all_files_are_there(root: Path) -> None:
    assert check_agents(Bead.model_validate(sample("work")), root) == []


def test_s0_as15_s0_as16_each_missing_file_is_named_where_it_is_used(root: Path) -> None:
    raw = work("metadata.dev_agents.0.agent", ".claude/agents/gone.md")
    raw = changed(raw, "metadata.qa_agents.1.agent", "lost")
    raw = changed(raw, "metadata.scrum_master_agent.agent", ".claude/agents/my-own-master.md")
    found = {fault.field: fault.message for fault in check_agents(Bead.model_validate(raw), root)}
    assert found == {
        "metadata.scrum_master_agent.agent": (
            "Agent path '.claude/agents/my-own-master.md' does not exist in .claude/agents/"
        ),
        "metadata.dev_agents.0.agent": (
            "Agent path '.claude/agents/gone.md' does not exist in .claude/agents/"
        ),
        "metadata.qa_agents.1.agent": "Agent path 'lost' does not exist in .claude/agents/",
    }


@pytest.mark.parametrize(
    "name", ["backend-dev", "backend-dev.md", ".claude/agents/backend-dev", ".claude/agents/backend-dev.md"]
)
def test_s0_as15_folder_and_suffix_may_be_left_out(name: str, root: Path) -> None:
    assert check_agents(with_dev(name), root) == []
    assert persona_file(name, root) == (root / ".claude" / "agents" / "backend-dev.md").resolve()


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "../x",
        ".claude/agents/../../x.md",
        ".claude/agents/../../../x",
        "agents/backend-dev.md",
        "a\0b",
        "x" * 300,
        "/",
        ".",
    ],
)
def test_s0_as15_nothing_outside_the_folder_counts(name: str, root: Path) -> None:
    for place in (root, root.parent, root / ".claude"):
        (place / "x.md").write_text("outside\n", encoding="utf-8")
    assert persona_file(name, root) is None
    assert len(check_agents(with_dev(name), root)) == 1


def test_s0_as15_a_link_is_an_agent_file_where_it_leads_to_a_file(root: Path) -> None:
    folder = root / ".claude" / "agents"
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "nowhere.md").symlink_to("gone.md")
    (root / "kept-elsewhere.md").write_text("x", encoding="utf-8")
    (folder / "mine.md").symlink_to(root / "kept-elsewhere.md")
    assert persona_file("loop", root) is None
    assert persona_file("nowhere", root) is None
    assert persona_file("mine", root) == folder / "mine.md"


def test_s0_as15_a_folder_is_no_agent_file(root: Path) -> None:
    (root / ".claude" / "agents" / "dir.md").mkdir()
    assert persona_file("dir", root) is None


def test_s0_as15_agents_may_lie_in_folders_of_their_own(root: Path) -> None:
    (root / ".claude" / "agents" / "team").mkdir()
    agent(root, "team/lead", "x")
    assert persona_file(".claude/agents/team/lead", root) is not None


def test_s0_as13_nothing_is_checked_where_there_is_no_folder_of_agents(tmp_path: Path) -> None:
    assert check_agents(with_dev("gone"), tmp_path) == []


# --- the model of an agent --------------------------------------------------------------------------


def test_s0_as12_the_spec_then_the_file_then_the_role_then_the_settings_then_sonnet(root: Path) -> None:
    agent(root, "x", "---\nrecommended_model: opus\n---\nYou are x.\n")
    agent(root, "y", "You are y.\n")
    roles = {"polecat": "haiku"}
    assert resolve_model(spec(model="haiku"), root, default_model="opus", role_models=roles) == "haiku"
    assert resolve_model(spec(), root, default_model="haiku", role_models=roles) == "opus"
    assert resolve_model(spec("y"), root, default_model="opus", role_models=roles) == "haiku"
    assert resolve_model(spec("y"), root, default_model="opus", role_models={"mayor": "haiku"}) == "opus"
    assert resolve_model(spec("y"), root, default_model="opus") == "opus"
    assert resolve_model(spec("y"), root) == "sonnet"
    assert resolve_model(spec("gone"), root) == "sonnet"
    assert resolve_model(spec("claude"), root, default_model="haiku") == "haiku"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("---\nrecommended_model: opus\n---\n", "opus"),
        ("\ufeff---\r\nname: x\r\nrecommended_model: haiku\r\n---\r\nbody", "haiku"),
        ("---\nmodel: opus\n---\n", "opus"),
        ("---\nmodel: opus\nrecommended_model: haiku\n---\n", "haiku"),
        ("---\nmodel: inherit\n---\n", None),
        ("---\nrecommended_model: 4\n---\n", None),
        ("---\nrecommended_model:\n---\n", None),
        ("---\n[broken\n---\n", None),
        ("---\nsince: 2026-99-99\nrecommended_model: opus\n---\n", None),
        ("---\n- a list\n---\n", None),
        ("---\nrecommended_model: opus\n", None),
        ("recommended_model: opus\n", None),
        ("text\n---\nrecommended_model: opus\n---\n", None),
        ("", None),
    ],
)
def test_s0_as12_the_front_matter_recommends_a_model(text: str, model: str | None, root: Path) -> None:
    assert read_persona(agent(root, "x", text)).recommended_model == model


def test_s0_as12_a_file_that_is_no_text_recommends_nothing(root: Path) -> None:
    path = agent(root, "x", "")
    path.write_bytes(b"\xff\xfe\0\0")
    assert read_persona(path).recommended_model is None


def test_what_an_agent_file_says_of_itself(root: Path) -> None:
    said = read_persona(agent(root, "x", "---\nname: Ada\ndescription: writes tests\n---\n"))
    assert (said.name, said.description) == ("Ada", "writes tests")
    assert read_persona(agent(root, "y", "no front matter")).name == "y"


# --- agents in a plan -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("dev", {"agent": ".claude/agents/dev.md"}),
        ("dev (Opus)", {"agent": ".claude/agents/dev.md", "model": "opus"}),
        ("dev (haiku) - run it", {"agent": ".claude/agents/dev.md", "model": "haiku", "context": "run it"}),
        ("claude: do it", {"agent": "claude", "context": "do it"}),
        (
            "dev (codex:gpt-5)",
            {"agent": ".claude/agents/dev.md", "executable": "codex", "model": "gpt-5"},
        ),
    ],
)
def test_an_agent_as_a_plan_writes_it(text: str, fields: dict[str, str]) -> None:
    assert parse_agent(text).to_json() == {"role": "polecat", **fields}


@pytest.mark.parametrize("text", ["", "two words", "dev (gpt)", "dev (claude:gpt-5)", "dev (a b)", "(opus)"])
def test_what_is_no_agent_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"agent|model|must be") as caught:
        parse_agent(text)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_an_agent_file_says_who_to_be(root: Path) -> None:
    text = "---\nname: careful\ndescription: Careful\ntools: Bash, Read\nmodel: opus\n---\n\nYou take care.\n"
    found = read_persona(agent(root, "x", text))
    assert found == Persona("careful", "Careful", "You take care.", "opus", ("Bash", "Read"))
    assert read_persona(agent(root, "y", "Just words.\n")) == Persona("y", body="Just words.")
    assert read_persona(agent(root, "z", "---\ntools: [Bash, 1, Edit]\n---\n")).tools == ("Bash", "Edit")


@pytest.mark.parametrize(
    ("agent", "program", "model", "said"),
    [
        ("claude", "claude", "sonnet", "claude (sonnet)"),
        ("claude", "./tools/agent.sh", "", "agent.sh"),
        ("claude", "codex", "gpt-5", "codex (gpt-5)"),
        (".claude/agents/python-dev.md", "claude", "opus", "python-dev (claude, opus)"),
        (".claude/agents/python-dev.md", "scripted", "", "python-dev (scripted)"),
        ("claude", "", "", "claude"),
    ],
)
def test_who_works_is_named_by_the_program_that_plays(
    agent: str, program: str, model: str, said: str
) -> None:
    assert doer(agent, program, model) == said


def test_claudes_models_are_nobody_elses() -> None:
    assert [model_asked("claude", name) for name in ("sonnet", "other")] == ["sonnet", "other"]
    assert [model_asked("codex", name) for name in ("sonnet", "gpt-5")] == ["", "gpt-5"]
