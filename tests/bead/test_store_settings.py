"""What the settings say of the store: read quickly where the same file was found sound before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph.config import read, store_settings
from beads_ralph.config.model import Config
from beads_ralph.config.settings_file import CONFIG_NAME, VARIABLE
from beads_ralph.config.store_settings import NOTE_NAME, StoreSettings
from beads_ralph.errors import RalphError

SOUND = "store: bd\nbd_timeout: 2m\nplan:\n  rig: shop\n"
READ = StoreSettings("bd", 120.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ralph").mkdir()
    (tmp_path / CONFIG_NAME).write_text(SOUND, encoding="utf-8")
    return tmp_path


def note(root: Path) -> Path:
    return root / ".ralph" / NOTE_NAME


def fail(*_: object) -> None:
    raise AssertionError("read in full")


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    assert store_settings.store_settings(tmp_path) == StoreSettings(Config().store, Config().bd_timeout)


def test_a_sound_file_is_read_in_full_only_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_settings.store_settings(root) == READ
    assert note(root).stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(read, "parse", fail)
    assert store_settings.store_settings(root) == READ


def test_an_edited_file_is_read_again(root: Path) -> None:
    store_settings.store_settings(root)
    (root / CONFIG_NAME).write_text("store: embedded\n", encoding="utf-8")
    assert store_settings.store_settings(root).store == "embedded"


def test_another_version_reads_it_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_settings.store_settings(root)
    monkeypatch.setattr(store_settings, "fingerprint", lambda *_rooms: "another")
    monkeypatch.setattr(read, "parse", fail)
    with pytest.raises(AssertionError):
        store_settings.store_settings(root)


@pytest.mark.parametrize("text", ["store: 5\n", "stor: bd\n", "- a\n", "store: [\n", "plan: {priority: 9}\n"])
def test_a_faulty_file_is_told_of_as_ever(text: str, root: Path) -> None:
    store_settings.store_settings(root)
    (root / CONFIG_NAME).write_text(text, encoding="utf-8")
    for _ in range(2):
        with pytest.raises(RalphError) as mine:
            store_settings.store_settings(root)
        with pytest.raises(RalphError) as whole:
            read.load(root)
        assert mine.value.to_json() == whole.value.to_json()


def test_warnings_are_given_every_time(root: Path) -> None:
    (root / CONFIG_NAME).write_text("rig: b\nplan:\n  rig: a\n", encoding="utf-8")
    found = [store_settings.store_settings(root).warnings for _ in range(2)]
    assert found == [tuple(read.load(root)[1])] * 2
    assert found[0]


@pytest.mark.parametrize("spoiled", ["", "{", "[]", '{"hash": 1}', "null"])
def test_a_spoiled_note_is_worth_nothing(spoiled: str, root: Path) -> None:
    store_settings.store_settings(root)
    said = json.loads(note(root).read_text("utf-8"))
    note(root).write_text(spoiled, encoding="utf-8")
    assert store_settings.store_settings(root) == READ
    assert json.loads(note(root).read_text("utf-8")) == said


@pytest.mark.parametrize("spoiled", [{"store": "other"}, {"bd_timeout": "soon"}, {"bd_timeout": -1}])
def test_a_note_that_says_what_no_file_can_say_is_worth_nothing(
    spoiled: dict[str, object], root: Path
) -> None:
    store_settings.store_settings(root)
    said = json.loads(note(root).read_text("utf-8"))
    note(root).write_text(json.dumps({**said, **spoiled}), encoding="utf-8")
    assert store_settings.store_settings(root) == READ


def test_where_nothing_can_be_noted_the_file_is_read_each_time(root: Path) -> None:
    note(root).mkdir()
    assert [store_settings.store_settings(root) for _ in range(2)] == [READ, READ]
    note(root).rmdir()
    (root / ".ralph").rmdir()
    assert store_settings.store_settings(root) == READ
    assert not (root / ".ralph").exists()


def test_the_variable_names_the_file_here_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "other.yaml").write_text("store: embedded\n", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(root / "other.yaml"))
    assert store_settings.store_settings(root).store == "embedded"
    monkeypatch.setenv(VARIABLE, str(root / "none.yaml"))
    with pytest.raises(RalphError):
        store_settings.store_settings(root)
