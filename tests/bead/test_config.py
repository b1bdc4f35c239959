"""beads-ralph.yaml: two layouts with one meaning, and every mistake named at once."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from beads_ralph.bead.personas import resolve_model
from beads_ralph.config import published, read
from beads_ralph.config.model import KEYS as KEYS_IN_FULL
from beads_ralph.config.model import SECTIONS, SHORTCUTS, Config, PlanDefaults
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.plan import parse
from beads_ralph.store.setup import CONFIG_TEXT
from tests.bead.samples import sample
from tests.cli.running import ralph


def parsed(text: str) -> Config:
    return read.parse(text)[0]


def refused(text: str) -> tuple[Fault, ...]:
    with pytest.raises(RalphError) as caught:
        read.parse(text)
    assert caught.value.code == Code.CONFIG_INVALID
    return caught.value.faults


# --- layouts ----------------------------------------------------------------------------------------

FLAT = """\
store: embedded
max_parallel_sessions: 2
poll_interval: 5s
scrum_master_timeout: 2h
dev_agent_timeout: 45m
qa_agent_timeout: 10m
network_timeout: 20s
max_retry_attempts: 5
pr_creation_retries: 1
cleanup_on_complete: true
min_free_gb: 2
check_before_start: false
max_network_retries: 7
retry_backoff: linear
default_model: opus
default_executable: claude
default_options: [--verbose]
role_models: {witness: haiku}
rig: shop
source_branch: develop
worktree_root: ../trees
dev_agents: ["dev (haiku) - write it"]
qa_agents: [{agent: qa, context: test it}]
verify: [make test]
"""
NESTED = """\
store: embedded
ralph: {max_parallel_sessions: 2, poll_interval: 5}
timeouts: {scrum_master: 2h, dev_agent: 2700, qa_agent: 600s, network: 20s}
retry: {max_attempts: 5, pr_creation: 1, backoff: linear}
worktrees: {cleanup_on_complete: true, root: ../trees}
disk: {min_free_gb: 2, check_before_start: false}
network: {max_retries: 7}
claude: {model: opus, executable: claude, options: [--verbose]}
agent_defaults: {role_models: {witness: haiku}}
plan:
  rig: shop
  source_branch: develop
  dev_agents: [{agent: dev, model: haiku, context: write it}]
  qa_agents: ["qa - test it"]
  verify: [{name: make test, command: make test}]
"""


def test_flat_and_nested_layouts_mean_the_same() -> None:
    flat, nested = parsed(FLAT), parsed(NESTED)
    assert flat.model_dump() == nested.model_dump()
    assert (flat.dev_agent_timeout, flat.plan.rig) == (2700.0, "shop")
    assert read.parse(FLAT)[1] == read.parse(NESTED)[1] == []


@given(
    st.permutations(FLAT.splitlines()), st.permutations(NESTED.split("plan:\n", maxsplit=1)[0].splitlines())
)
def test_the_order_of_the_keys_does_not_matter(flat: list[str], nested: list[str]) -> None:
    assert parsed("\n".join(flat)) == parsed(FLAT)
    tail = "plan:\n" + NESTED.split("plan:\n", maxsplit=1)[1]
    assert parsed(tail + "\n".join(nested)).model_dump() == parsed(NESTED).model_dump()


def test_a_section_goes_before_a_shortcut_whichever_comes_first() -> None:
    for text in ("rig: a\nplan: {rig: b}", "plan: {rig: b}\nrig: a"):
        assert parsed(text).plan.rig == "b"


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null", "\ufeff"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    assert read.parse(text) == (Config(), [])


@pytest.mark.parametrize("section", ["plan", "agent_defaults", *SECTIONS])
def test_a_section_without_keys_means_the_defaults(section: str) -> None:
    assert read.parse(f"{section}:\n  # rig: shop\n") == (Config(), [])
    assert parsed(f"{section}:\nrig: shop\n").plan.rig == "shop"


def test_s0_as8_s0_as7_the_options_and_the_program_of_agents_have_defaults() -> None:
    defaults = Config().agent_defaults
    assert defaults.default_options == ["--dangerously-skip-permissions"]
    assert defaults.default_executable == "claude"
    assert parsed("default_options: [--print]").agent_defaults.default_options == ["--print"]


def test_s0_as12_default_model_comes_from_the_settings(tmp_path: Path) -> None:
    text = "agent_defaults: {default_model: opus, role_models: {mayor: haiku}}"
    (tmp_path / "beads-ralph.yaml").write_text(text, encoding="utf-8")
    defaults = read.load(tmp_path)[0].agent_defaults
    spec = parsed("dev_agents: [claude]").plan.dev_agents
    assert spec is not None
    models = {"default_model": defaults.default_model, "role_models": defaults.role_models}
    assert resolve_model(spec[0], tmp_path, **models) == "opus"  # type: ignore[arg-type]
    mayor = spec[0].model_copy(update={"role": "mayor"})
    assert resolve_model(mayor, tmp_path, **models) == "haiku"  # type: ignore[arg-type]
    assert Config().agent_defaults.default_model is None


# --- durations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("0.5", 0.5), ("30s", 30), ("15m", 900), ("1h30m", 5400), ("1h 30m", 5400), ("500ms", 0.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parsed(f"bd_timeout: {text}").bd_timeout == pytest.approx(seconds)
    assert parsed(f"bd_timeout: '{text}'").bd_timeout == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["0", "-5", "0s", "5 days", "1h junk", "soon", "''", "null", "[1]", ".inf", ".nan", "inf", "1e999"],
)
def test_what_is_no_duration(text: str) -> None:
    [fault] = refused(f"bd_timeout: {text}")
    assert fault.field == "bd_timeout"
    assert fault.message.startswith("key bd_timeout ")


@given(st.integers(0, 99), st.integers(0, 59), st.integers(1, 59))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    found = parsed(f"poll_interval: {hours}h{minutes}m{seconds}s").poll_interval
    assert found == hours * 3600 + minutes * 60 + seconds


# --- faults -----------------------------------------------------------------------------------------


def test_every_bad_value_is_named_at_once_by_its_key() -> None:
    faults = refused(
        "store: cloud\nmax_parallel_sessions: 0\npriority: 9\nretry: {max_attempts: 0}\n"
        "dev_agents: ['two words']\nplan: {source_branch: ''}\nrole_models: 5\nretry_backoff: random\n"
    )
    assert {fault.field for fault in faults} == {
        "store",
        "max_parallel_sessions",
        "max_retry_attempts",
        "retry_backoff",
        "plan.priority",
        "plan.source_branch",
        "plan.dev_agents.0",
        "agent_defaults.role_models",
    }
    assert all(fault.message.startswith("key ") for fault in faults)
    assert all(fault.file == "beads-ralph.yaml" for fault in faults)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dev_agents: ['dev (claude:gpt)']", "must be one of haiku, sonnet, opus"),
        ("dev_agents: [{agent: dev, model: gpt}]", "must be one of haiku, sonnet, opus"),
        ("dev_agents: [{model: opus}]", "agent is required"),
        ("dev_agents: [5]", "should be a valid dictionary"),
        ("verify: [{name: x}]", "key plan.verify.0.command is required"),
    ],
)
def test_an_agent_or_a_check_is_refused_in_one_line(text: str, said: str) -> None:
    [fault] = refused(text)
    assert said in fault.message
    assert "\n" not in fault.message


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("bd_tmeout", "bd_timeout"),
        ("max_paralel_sessions", "max_parallel_sessions"),
        ("source_brnch", "source_branch"),
        ("default_modell", "default_model"),
    ],
)
def test_an_unknown_key_is_a_fault_with_a_suggestion(key: str, meant: str) -> None:
    [fault] = refused(f"store: auto\n{key}: x")
    assert fault.message == f"unknown key '{key}'; did you mean '{meant}'?"
    assert (fault.file, fault.line, fault.field) == ("beads-ralph.yaml", 2, key)


@pytest.mark.parametrize("section", ["plan", "agent_defaults", *SECTIONS])
def test_an_unknown_key_in_a_section_is_a_fault_too(section: str) -> None:
    [fault] = refused(f"{section}:\n\n  qqq: 1\n")
    assert (fault.line, fault.message) == (3, f"unknown key '{section}.qqq'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("timeouts: {dev_agnt: 5}", "did you mean 'dev_agent'?"),
        ("network: {max_retry: 5}", "did you mean 'max_retries'?"),
        ("worktree: {root: x}", "did you mean 'worktrees'?"),
        ("plan: {store: bd}", "it belongs at the top of the file"),
        ("ralph: {plan: {rig: x}}", "it belongs at the top of the file"),
    ],
)
def test_the_suggestion_is_a_key_that_may_stand_there(text: str, said: str) -> None:
    [fault] = refused(text)
    assert fault.message.endswith(f"; {said}")


def test_an_unknown_key_of_an_agent_or_a_check_is_a_fault() -> None:
    faults = refused(
        "dev_agents:\n  - dev (opus)\n  - {agent: dev, modle: opus}\n"
        "verify:\n  - {name: x, command: y, expect: {exit_kode: 1}, timeout: 5}\n"
    )
    assert [(fault.line, fault.message) for fault in faults] == [
        (1, "unknown key 'plan.dev_agents.1.modle'; did you mean 'model'?"),
        (4, "unknown key 'plan.verify.0.timeout'; did you mean 'timeout_seconds'?"),
        (4, "unknown key 'plan.verify.0.expect.exit_kode'; did you mean 'exit_code'?"),
    ]


def test_unknown_keys_and_bad_values_are_named_together_in_the_order_of_the_file() -> None:
    faults = refused("store: cloud\ntimeouts:\n  qa_agent: soon\nrigg: x\nplan:\n  verify: 5\n")
    assert [(fault.line, fault.field) for fault in faults] == [
        (1, "store"),
        (3, "qa_agent_timeout"),
        (4, "rigg"),
        (6, "plan.verify"),
    ]


def test_a_key_that_both_layouts_set_differently_is_a_warning() -> None:
    found, [warning] = read.parse("rig: b\nplan:\n  rig: a\n")
    assert found.plan.rig == "a"
    assert (warning.line, warning.message) == (1, "'rig' has no effect: 'plan.rig' sets plan.rig, too")
    found, [warning] = read.parse("timeouts: {network: 5}\nnetwork: {timeout: 6}\n")
    assert (found.network_timeout, warning.field) == (6.0, "network_timeout")
    assert read.parse("min_free_gb: 2\ndisk: {min_free_gb: 2}\n")[1] == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1,\n", 3),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\nb: 'x\n", 3),
        ("a: 1\nb: 2\nc: \x07\n", 3),
        ("a: b: c\n", 1),
        ("a: *gone\n", 1),
        ("a: !!python/object:os.system x\n", 1),
    ],
)
def test_broken_yaml_is_named_by_file_and_line(text: str, line: int) -> None:
    with pytest.raises(RalphError) as caught:
        read.parse(text, "some.yaml")
    assert caught.value.message.startswith(f"some.yaml:{line}: not valid YAML: ")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("value", ["2026-99-99", "0b_", "9" * 5000, "[" * 3000])
def test_yaml_that_is_well_formed_but_impossible_is_a_fault_not_a_crash(value: str) -> None:
    [fault] = refused(f"rig: {value}")
    assert fault.message.startswith("not valid YAML: ")


@pytest.mark.parametrize("text", ["[1]", "text", "5"])
def test_the_settings_are_a_mapping(text: str) -> None:
    assert [fault.message for fault in refused(text)] == ["must be a YAML mapping (key: value)"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from([*Config.model_fields, *SHORTCUTS, *SECTIONS])


@given(st.dictionaries(KEYS, JUNK, max_size=4))
def test_whatever_the_values_are_the_answer_is_settings_or_faults(said: dict[str, Any]) -> None:
    with contextlib.suppress(RalphError):  # anything else is a crash
        assert isinstance(parsed(yaml.safe_dump(said)), Config)


# --- where the settings come from -------------------------------------------------------------------


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    assert read.load(tmp_path) == (Config(), [])


def test_the_file_of_the_root_then_the_variable_then_the_one_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rig in (("beads-ralph.yaml", "root"), ("other.yaml", "variable"), ("named.yaml", "named")):
        (tmp_path / name).write_text(f"rig: {rig}\n", encoding="utf-8")
    assert read.load(tmp_path)[0].plan.rig == "root"
    monkeypatch.setenv("BEADS_RALPH_CONFIG", "")
    assert read.load(tmp_path)[0].plan.rig == "root"
    monkeypatch.setenv("BEADS_RALPH_CONFIG", str(tmp_path / "other.yaml"))
    assert read.load(tmp_path)[0].plan.rig == "variable"
    assert read.load(tmp_path, tmp_path / "named.yaml")[0].plan.rig == "named"


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(RalphError) as caught:
        read.load(tmp_path, tmp_path / "none.yaml")
    assert caught.value.code == Code.FILE_NOT_FOUND


def test_broken_settings_end_a_command_with_file_and_line(repo: Path) -> None:
    (repo / "beads-ralph.yaml").write_text("store: embedded\nplan: [\n", encoding="utf-8")
    ran = ralph("list", cwd=repo)
    assert ran.code == 1
    assert "beads-ralph.yaml:3: not valid YAML" in ran.err
    assert "[CONFIG.INVALID]" in ran.err


def test_where_each_setting_was_said(tmp_path: Path) -> None:
    path = tmp_path / "beads-ralph.yaml"
    path.write_text("timeouts:\n  dev_agent: 5m\nrig: x\nplan:\n  team: y\n", encoding="utf-8")
    found = read.read(tmp_path)
    assert found.lines == {"dev_agent_timeout": 2, "plan.rig": 3, "plan.team": 5}
    assert (found.file, found.named_by) == (path, "")
    assert read.read(tmp_path, path).named_by == "--config"


def test_keys_that_come_from_an_anchor_count_and_have_its_lines(tmp_path: Path) -> None:
    text = "ralph: &base\n  rig: x\nplan:\n  <<: *base\n  team: y\n"
    (tmp_path / "beads-ralph.yaml").write_text(text, encoding="utf-8")
    found = read.read(tmp_path)
    assert (found.config.plan.rig, found.lines["plan.rig"]) == ("x", 2)


# --- the published schema ---------------------------------------------------------------------------

SCHEMA = Draft202012Validator(published.json_schema())
INIT = CONFIG_TEXT.format(store="auto", rig='"shop"', source_branch='"main"', reviewer="qa", verify="")


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(published.json_schema())


@pytest.mark.parametrize("text", [FLAT, NESTED, INIT, "", "plan:\nralph:\n", "plan: {rig: null}"])
def test_the_schema_takes_what_the_reader_takes(text: str) -> None:
    parsed(text)
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "stor: bd",
        "store: cloud",
        "timeouts: {dev_agnt: 5}",
        "timeouts: {dev_agent: soon}",
        "plan: {store: bd}",
        "ralph: {plan: {rig: x}}",
        "bd_timeout: 0",
        "bd_timeout: null",
        "priority: 9",
        "dev_agents: [{model: opus}]",
        "dev_agents: [{agent: x, modle: opus}]",
        "verify: [{name: x}]",
        "fallback: codex",
        "agent_defaults: {fallback: ['claude:gpt-5']}",
        "[1]",
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    refused(text)
    assert not SCHEMA.is_valid(yaml.safe_load(text))


@given(st.dictionaries(KEYS, JUNK, max_size=4))
def test_what_the_reader_takes_is_valid_by_the_schema(said: dict[str, Any]) -> None:
    text = yaml.safe_dump(said)
    try:
        parsed(text)
    except RalphError:
        return
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize("key", KEYS_IN_FULL)
def test_every_key_says_what_it_means_and_its_example_can_be_read(key: str) -> None:
    part, _, name = key.rpartition(".")
    field = KEYS_IN_FULL[key].model_fields[name]
    assert (field.description or "").endswith(".")
    [example] = field.examples or []
    parsed(yaml.safe_dump({part: {name: example}} if part else {name: example}))


# --- front matter -----------------------------------------------------------------------------------


def test_the_front_matter_goes_before_the_settings_and_silence_changes_nothing() -> None:
    own, faults, warnings = read.plan_defaults({"rig": "own", "title": "free"}, "plan.md", {})
    assert (faults, warnings) == ([], [])
    merged = own.over(PlanDefaults(rig="weak", source_branch="main"))
    assert (merged.rig, merged.source_branch) == ("own", "main")


def test_a_slip_in_the_front_matter_is_a_warning_and_a_bad_value_a_fault_each_with_its_line() -> None:
    lines = {"source_brnch": 3, "priority": 4}
    _, [], [warning] = read.plan_defaults({"source_brnch": "x"}, "plan.md", lines)
    assert (warning.line, "did you mean 'source_branch'?" in warning.message) == (3, True)
    _, [fault], [] = read.plan_defaults({"priority": 9}, "plan.md", lines)
    assert (fault.line, fault.code) == (4, Code.PLAN_PATTERN)


def test_front_matter_that_is_well_formed_but_impossible_is_a_fault_not_a_crash() -> None:
    found = parse("---\nsince: 2026-99-99\n---\n### Sprint 1.1: Setup\n")
    assert [(fault.code, fault.line) for fault in found.faults] == [(Code.MARKDOWN, 2)]


def test_s0_rt1_the_settings_may_change_the_number_of_attempts() -> None:
    assert Config().max_retry_attempts == sample("work")["metadata"]["max_retry_attempts"] == 3
    assert parsed("retry: {max_attempts: 5}").max_retry_attempts == 5
