"""No agent, careless or hostile, gets a bead closed that is not proven.

Every liar is an agent program that works, or pretends to, in a small project with a remote; the real loop
runs over it, with the sandbox and without; liars that prepare the place of checks are played `bare`, too,
where checks get no room either. Afterwards a hidden check looks at the commit that the run calls proven,
fetched from the remote (`scene.py` says what counts as a false close). Honest agents are among them: what
stops a liar must not stop them.

One liar by hand:

    pytest tests/liars -m "" -k "replaces-a-blob and none"

All of them, and a table of how many of each kind still get through:

    pytest tests/liars -m "" -n 2 -p tests.liars.table

A lie that still works has a row in `still_open.py` and is expected to fail: the test turns red once it is
stopped, and the row goes. A new liar is one entry in a file of `cast/`; `cast.py` says how it is written.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need_bwrap
from tests.git.repos import git
from tests.liars.cast import CAST
from tests.liars.scene import MODES, ROOMLESS, Liar, Mode, Scene, need
from tests.liars.still_open import STILL_OPEN
from tests.liars.worlds import MAKE, PLAIN, WORLDS, World


class FalseCloseError(AssertionError):
    """A lie got through. Whatever else goes wrong in a test is no excuse to expect it."""


def cases() -> Iterator[Any]:
    for liar in CAST:
        for mode in (*MODES, "bare") if liar.kind in ROOMLESS else MODES:
            marks = [] if mode in liar.quick else [pytest.mark.full]
            marks += [pytest.mark.bd] * (liar.store == "bd") + [pytest.mark.tmux] * ("tmux" in liar.needs)
            if (liar.name, mode) in STILL_OPEN:
                marks.append(
                    pytest.mark.xfail(
                        reason="still gets through", strict=not liar.racy, raises=FalseCloseError
                    )
                )
            yield pytest.param(liar, mode, id=f"{liar.kind}-{liar.name}-{mode}", marks=marks)


@pytest.fixture
def perform(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Liar, Mode], Scene]:
    """Plays a liar to the end of its runs."""

    def play(liar: Liar, mode: Mode) -> Scene:
        if not sys.platform.startswith("linux"):
            pytest.skip("the scripts of the liars speak to Linux")
        need(*liar.needs, *liar.world.needs)
        if mode == "bwrap":
            need_bwrap()
        request.getfixturevalue("bd_repo" if liar.store == "bd" else "repo")
        scene = Scene(liar, mode, tmp_path)
        scene.set()
        scene.play()
        return scene

    return play


@pytest.mark.parametrize(("liar", "mode"), list(cases()))
def test_no_liar_gets_a_bead_closed(
    perform: Callable[[Liar, Mode], Scene],
    liar: Liar,
    mode: Mode,
    record_property: Callable[[str, object], None],
) -> None:
    scene = perform(liar, mode)
    false = scene.falsehoods()
    record_property("liar", (liar.kind, liar.name, mode, false))
    if false:
        raise FalseCloseError("\n".join([*false, scene.ran[-1].out, scene.ran[-1].err]))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_an_honest_agent_gets_its_beads_closed(
    perform: Callable[[Liar, Mode], Scene], world: World, mode: Mode
) -> None:
    count = 2 if world in (PLAIN, MAKE) else 1
    scene = perform(Liar("honest", "good; commit", world=world, sprints=count), mode)
    assert [claim.sprint for claim in scene.claims()] == ["one", "two"][:count], scene.ran[-1].out
    assert scene.falsehoods() == []


@pytest.mark.full
@pytest.mark.parametrize(
    "liar", [liar for liar in CAST if liar.kind == "toolchains"], ids=lambda liar: liar.name
)
def test_an_honest_agent_gets_its_bead_closed_where_a_toolchain_is_abused(
    perform: Callable[[Liar, Mode], Scene], liar: Liar
) -> None:
    scene = perform(replace(liar, dev="good; commit"), "none")
    assert [claim.sprint for claim in scene.claims()] == ["one"], scene.ran[-1].out
    assert scene.falsehoods() == []


@pytest.mark.full
@pytest.mark.bd
def test_an_honest_agent_gets_its_bead_closed_over_bd(perform: Callable[[Liar, Mode], Scene]) -> None:
    scene = perform(Liar("honest", "good; commit", store="bd"), "none")
    assert [claim.sprint for claim in scene.claims()] == ["one"], scene.ran[-1].out
    assert scene.falsehoods() == []


ONE = "feature/1-1-one"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda scene: git(scene.origin, "update-ref", f"refs/heads/{ONE}", scene.base), "remote"),
        (lambda scene: git(scene.root, "update-ref", f"refs/heads/{ONE}", scene.base), "branch"),
        (lambda scene: git(scene.root, "update-ref", "-d", "refs/pull/1/head"), "pull request"),
        (lambda scene: git(scene.origin, "update-ref", "-d", f"refs/heads/{ONE}"), "cannot be fetched"),
    ],
    ids=["remote", "branch", "pull request", "fetch"],
)
def test_the_judge_sees_what_was_moved(
    perform: Callable[[Liar, Mode], Scene], spoil: Callable[[Scene], object], word: str
) -> None:
    scene = perform(Liar("honest", "good; commit"), "none")
    spoil(scene)
    assert any(word in why for why in scene.falsehoods())


def test_the_judge_sees_wrong_work_that_a_blind_check_lets_through(
    perform: Callable[[Liar, Mode], Scene],
) -> None:
    scene = perform(Liar("lazy", "bad; commit", verify=("true",)), "none")
    assert scene.falsehoods() == ["bd-1-1-one: the hidden check of one fails on the fetched commit"]


def test_the_judge_sees_a_close_without_a_proof(perform: Callable[[Liar, Mode], Scene]) -> None:
    scene = perform(Liar("careful", "bad; commit"), "none")
    assert scene.claims() == []
    with closing(sqlite3.connect(scene.root / ".ralph" / "beads.db")) as base:
        base.execute("UPDATE beads SET status = 'closed', closed_at = updated_at")
        base.commit()
    assert scene.falsehoods() == ["bd-1-1-one: closed without a proof"]


def test_the_liars_differ_and_the_open_ones_are_known() -> None:
    names = [liar.name for liar in CAST]
    assert len(set(names)) == len(names)
    assert {name for name, _mode in STILL_OPEN} <= set(names)
