"""Pouring many rows: into the embedded store, and into bd against bd's own commands."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from beads_ralph.compile.pour import pour, prepare
from beads_ralph.compile.rows import Recipe, ValueRow, orders
from beads_ralph.compile.setting import Setting
from beads_ralph.config.model import Config
from beads_ralph.formula.folders import Folders
from beads_ralph.store.bd.bd_store import initialise
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from bench import places
from bench.bare_bd import QUIET
from bench.places import COMMAND, Scratch
from bench.report import Judge, Row, seconds
from bench.stores import NO_BD, timed

LINEAR = 1.5
OVERHEAD = 1.2
FEW, MANY = 50, 500
TURNS = 5
BD_ROWS = 40

PLAIN: dict[str, Any] = {
    "formula": "plain",
    "description": "A sprint of {{title}}",
    "vars": {"title": {"required": True}, "module": {"required": True, "pattern": "^[a-z0-9-]+$"}},
    "steps": [
        {"id": "work", "title": "{{title}}", "description": "Write {{module}}", "priority": 1},
        {"id": "check", "title": "Check {{title}}", "needs": ["work"], "labels": ["check"]},
    ],
}
# The same two steps, made for agents, with a label and an id of their own.
RICH: dict[str, Any] = PLAIN | {
    "formula": "rich",
    "steps": [
        {**PLAIN["steps"][0], "type": "beads-ralph-work", "labels": ["mod-{{module}}"]},
        {**PLAIN["steps"][1], "type": "beads-ralph-work", "bead_id": "bd-check-{{module}}"},
    ],
}
SETTINGS = {"source_branch": "main", "dev_agents": ["claude (sonnet)"], "qa_agents": ["claude (haiku)"]}


def values(count: int) -> list[dict[str, str]]:
    return [{"title": f"Search box {number}", "module": f"module-{number}"} for number in range(count)]


def _placed(root: Path, formula: Mapping[str, Any]) -> str:
    folder = root / ".beads" / "formulas"
    folder.mkdir(parents=True, exist_ok=True)
    name = str(formula["formula"])
    (folder / f"{name}.formula.json").write_text(json.dumps(formula), encoding="utf-8")
    return name


# --- embedded ---------------------------------------------------------------------------------------


def embedded(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """A row of 500 against a row of 50: checked, rendered, validated, and on disk."""
    few, many = (5, 20) if judge.quick else (FEW, MANY)
    taken: dict[int, list[float]] = {few: [], many: []}
    for turn in range(2 if judge.quick else TURNS + 1):
        for count in (few, many):
            spent = _embedded(scratch.repository(), count)
            taken[count] += [spent / count] if turn else []  # the first turn warms up
    small, large = median(taken[few]), median(taken[many])
    of = f" ({seconds(large * many)} in all, {seconds(large)} a row)"
    yield judge.at_most(f"embedded pour, a row of {many} against one of {few}", large / small, LINEAR, of)


def _embedded(root: Path, count: int) -> float:
    formula = Folders.of(root, None).load(_placed(root, RICH))
    config = Config.model_validate({"plan": SETTINGS})
    setting = Setting(root, "rich", datetime.now(UTC), config, agent_check=False)
    recipe = Recipe(formula, setting, "rich")
    rows = [ValueRow(number, given, "rows") for number, given in enumerate(values(count), 1)]
    store = EmbeddedStore(root)
    store.check()

    def everything() -> None:
        ordered = orders(recipe, rows, {})
        account = pour(store, prepare(store, recipe, ordered), lambda _done, _rows: None)
        if account.poured != count:
            raise subprocess.SubprocessError(f"only {account.poured} of {count} rows were poured")

    return timed(everything)


# --- bd ---------------------------------------------------------------------------------------------


def bd(judge: Judge, scratch: Scratch, count: int | None = None) -> Iterator[Row]:
    """`beads-ralph pour` of many rows against one bare `bd mol pour` a row; each in a new database."""
    program = places.bd()
    if program is None:
        yield NO_BD
        return
    rows = values(count or (3 if judge.quick else BD_ROWS))
    ways = ("bare", "plain", "rich")
    taken: dict[str, list[float]] = {name: [] for name in ways}
    work: dict[str, list[float]] = {name: [] for name in ways}
    for name in ways if judge.quick else (*ways, *reversed(ways)):
        root = scratch.repository()
        initialise(root, program)
        before = places.processor_time()
        taken[name].append(_bare(program, root, rows) if name == "bare" else _ours(program, root, name, rows))
        work[name].append(places.processor_time() - before)
    bare = min(taken["bare"])
    yield Row(
        f"bd mol pour, {len(rows)} rows one by one", f"{seconds(bare)} ({seconds(bare / len(rows))} a row)"
    )
    for name, what in (("plain", "a formula that bd pours"), ("rich", "one that is rendered here")):
        ours = min(taken[name])
        processor = min(work[name]) / min(work["bare"])
        of = f" ({seconds(ours / len(rows))} a row, processor {processor:.2f} x)"
        yield judge.at_most(f"pour of {len(rows)} rows into bd, {what}", ours / bare, OVERHEAD, of)


def _environment(root: Path) -> dict[str, str]:
    return {**os.environ, **dict.fromkeys(QUIET, "1"), "BEADS_DIR": f"{root}/.beads"}


def _bare(program: str, root: Path, rows: Sequence[Mapping[str, str]]) -> float:
    name = _placed(root, PLAIN)
    start = time.perf_counter()
    for row in rows:
        given = [f"--var={key}={value}" for key, value in row.items()]
        subprocess.run(
            [program, "mol", "pour", name, *given, "--json", "--actor=bench"],
            cwd=root,
            env=_environment(root),
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return time.perf_counter() - start


def _ours(program: str, root: Path, name: str, rows: Sequence[Mapping[str, str]]) -> float:
    _placed(root, PLAIN if name == "plain" else RICH)
    plan = json.dumps(SETTINGS)
    (root / "beads-ralph.yaml").write_text(f"store: bd\nplan: {plan}\n", encoding="utf-8")
    with (root / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
    words = [str(COMMAND), "pour", name, "--vars-file", "rows.csv", "--json"]
    environment = {**_environment(root), "PATH": path}
    start = time.perf_counter()
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=True)
    spent = time.perf_counter() - start
    data = json.loads(done.stdout)["data"]
    wanted = {"plain": "bd", "rich": "beads-ralph"}[name]
    if (data["account"]["poured"], data["poured_by"]) != (len(rows), wanted):
        raise subprocess.SubprocessError(f"not what was to be measured: {data['account']}, {data['why']}")
    return spent
