"""docs/internals/architecture.md is true to the source: its rooms, its picture, its laws in numbers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tools import architecture_page, metrics, rooms, trace_bead

LAWS = (
    "loose modules",
    "packages",
    "import layers",
    "import cycles",
    "class names used twice",
    "mocks in tests",
)
"""Rows that must be current; sizes may lag behind until somebody writes the page anew."""
RENEW = "run: make architecture"


def test_the_laws_in_the_table_are_current() -> None:
    written = metrics.read_table(architecture_page.block(metrics.BLOCK))
    measured = metrics.rows()
    assert {name: written[name] for name in LAWS} == {name: measured[name] for name in LAWS}, RENEW
    assert set(measured) <= set(written), RENEW


def test_few_modules_are_loose_and_none_import_one_another_in_a_circle() -> None:
    assert len(metrics.loose()) <= 4
    assert metrics.cycles(metrics.modules()) == []


def test_the_rooms_and_the_picture_are_current() -> None:
    found = rooms.rooms()
    assert architecture_page.block(rooms.BLOCK) == rooms.table(found, 2), RENEW
    assert architecture_page.block(rooms.BLOCK, rooms.GUIDE) == rooms.table(found, 1), RENEW
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.picture(found), RENEW


def test_every_room_says_what_belongs_there_and_has_a_layer() -> None:
    found = rooms.rooms()
    assert [room.name for room in found if not room.about] == []
    loose = [name.removesuffix(".py") for name in metrics.loose()]
    assert sorted(room.name for room in found) == sorted([*metrics.packages(), *loose])


def test_the_trace_names_rooms_and_files_that_there_are() -> None:
    text = architecture_page.block(trace_bead.BLOCK)
    files = re.findall(r"[\w/]+\.py", text)
    assert files, RENEW
    assert [name for name in files if not (metrics.SOURCE / name).is_file()] == [], RENEW


def test_a_bead_can_be_traced_from_plan_to_closed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, trace_bead.__file__, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    stages = list(dict.fromkeys(stage for stage, _, _ in found["entries"]))
    assert stages == [trace_bead.COMPILE, trace_bead.START, *trace_bead.NEXT.values()]
    assert {name for name, _ in rooms.WAY} <= set(found["rooms"])


# --- the measures themselves ------------------------------------------------------------------------


def module(folder: Path, name: str, text: str) -> metrics.Module:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return metrics.Module(name, path)


def test_a_circle_of_imports_is_found_and_one_for_types_only_is_none(tmp_path: Path) -> None:
    one = module(tmp_path, "one", "import two\n")
    two = module(tmp_path, "two", "from three import x\n")
    three = module(tmp_path, "three", "if True:\n    import one\n")
    later = module(tmp_path, "later", "def f():\n    import typed\n")
    typed = module(tmp_path, "typed", "if TYPE_CHECKING:\n    import later\nimport later\n")
    assert metrics.cycles([one, two, three, later, typed]) == [["one", "three", "two"]]


def test_copied_lines_are_a_pair_whatever_stands_between_them(tmp_path: Path) -> None:
    lines = [f"x{number} = {number}" for number in range(8)]
    one = module(tmp_path, "one", "\n".join(["import os", *lines]))
    two = module(tmp_path, "two", "\n\n# words\n".join(["y = 1", *lines]))
    other = module(tmp_path, "other", "\n".join(lines[: metrics.RUN - 1]))
    assert metrics.duplicates([one, two, other]) == [("one:2", "two:4")]


def test_broad_handlers_are_told_from_others(tmp_path: Path) -> None:
    caught = ["", " Exception", " (OSError, BaseException) as e", " OSError", " (KeyError, ValueError)"]
    text = "\n".join(f"try:\n    pass\nexcept{what}:\n    pass" for what in caught)
    assert metrics.handlers([module(tmp_path, "one", text)]) == [True, True, True, False, False]
