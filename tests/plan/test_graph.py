"""The dependency law and what is computed from it, against the seeds' tables and independent answers."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead import graph
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import SprintId, slug
from beads_ralph.errors import Code
from tests.plan.plans import DEFAULTS, compiled, plan_of, section

Edges = dict[str, list[str]]


def ids(*texts: str) -> list[SprintId]:
    found = [SprintId.parse(text) for text in texts]
    return [sprint for sprint in found if sprint is not None]


def law(*texts: str) -> dict[str, list[str]]:
    assert len(ids(*texts)) == len(texts)
    waits = graph.dependencies(ids(*texts))
    return {sprint.text: [other.text for other in others] for sprint, others in waits.items()}


# --- the seeds' tables ----------------------------------------------------------------------------

MASON_TABLES = {
    "s1_t1": {"1.1": [], "1.2": ["1.1"], "1.3": ["1.2"]},
    "s1_t2": {"1.1": [], "1.2a": ["1.1"], "1.2b": ["1.1"]},
    "s1_t3": {"1.2a": [], "1.2b": [], "1.3": ["1.2a", "1.2b"]},
    "s1_t4": {"2.3": [], "3a.1": ["2.3"], "3b.1": ["2.3"]},
    "s1_t5": {"3a.2": [], "3b.2": [], "4.1": ["3a.2", "3b.2"]},
}

ARCHITECT_TABLES = {
    "s2_t1": {"1.1 setup": [], "1.2 backend": ["bd-1-1-setup"], "1.3 last": ["bd-1-2-backend"]},
    "s2_t2": {
        "1.1 schema": [],
        "1.2a work": ["bd-1-1-schema"],
        "1.2b merge": ["bd-1-1-schema"],
        "1.3 last": ["bd-1-2a-work", "bd-1-2b-merge"],
    },
    "s2_t3": {
        "2.1 foundation": [],
        "2.2 api": ["bd-2-1-foundation"],
        "3a.1 frontend": ["bd-2-2-api"],
        "3a.2 ui": ["bd-3a-1-frontend"],
        "3b.1 backend": ["bd-2-2-api"],
        "3b.2 services": ["bd-3b-1-backend"],
        "4.1 last": ["bd-3a-2-ui", "bd-3b-2-services"],
    },
    "s2_t4": {
        "2.1 core": [],
        "3a.1 setup": ["bd-2-1-core"],
        "3a.2a api": ["bd-3a-1-setup"],
        "3a.2b ui": ["bd-3a-1-setup"],
        "3a.3 integrate": ["bd-3a-2a-api", "bd-3a-2b-ui"],
        "3b.1 data": ["bd-2-1-core"],
        "3b.2 deploy": ["bd-3b-1-data"],
        "4.1 last": ["bd-3a-3-integrate", "bd-3b-2-deploy"],
    },
    "s2_t5_c20_alone": {
        "4.1 foundation": [],
        "4.2a loop": ["bd-4-1-foundation"],
        "4.2b agent": ["bd-4-1-foundation"],
        "4.2c monitor": ["bd-4-1-foundation"],
        "4.3 last": ["bd-4-2a-loop", "bd-4-2b-agent", "bd-4-2c-monitor"],
    },
    "s2_t5_c20_after_a_phase": {
        "3.7 before": [],
        "4.1 foundation": ["bd-3-7-before"],
        "4.2a loop": ["bd-4-1-foundation"],
        "4.2b agent": ["bd-4-1-foundation"],
        "4.2c monitor": ["bd-4-1-foundation"],
        "4.3 last": ["bd-4-2a-loop", "bd-4-2b-agent", "bd-4-2c-monitor"],
    },
    "s2_t6": {
        "1.1 schema": [],
        "1.2a work": ["bd-1-1-schema"],
        "1.2b merge": ["bd-1-1-schema"],
        "1.3 integration": ["bd-1-2a-work", "bd-1-2b-merge"],
    },
    "s2_t7": {
        "1.1 init": [],
        "1.2 complete": ["bd-1-1-init"],
        "2.1 start": ["bd-1-2-complete"],
        "2.2 last": ["bd-2-1-start"],
    },
    "s2_t8": {
        "2.1 done": [],
        "3a.1 track-a": ["bd-2-1-done"],
        "3b.1 track-b": ["bd-2-1-done"],
        "4.1 last": ["bd-3a-1-track-a", "bd-3b-1-track-b"],
    },
}


@pytest.mark.parametrize("table", MASON_TABLES.values(), ids=MASON_TABLES)
def test_s1_t1_s1_t2_s1_t3_s1_t4_s1_t5_the_five_tables_of_the_mason(table: dict[str, list[str]]) -> None:
    assert law(*table) == table


@pytest.mark.parametrize("table", ARCHITECT_TABLES.values(), ids=ARCHITECT_TABLES)
def test_s1_fr2_2_s2_st3_s2_t1_s2_t2_s2_t3_s2_t4_s2_t5_s2_t6_s2_t7_s2_t8_the_eight_tables(
    table: dict[str, list[str]],
) -> None:
    """The compiled beads carry exactly the bead ids that the seed prints."""
    text = DEFAULTS + "".join(section(*row.split()) for row in table)
    built = compiled(text)
    assert [str(fault) for fault in built.all_faults] == []
    found = {sprint: bead.dependencies for sprint, bead in built.beads.items()}
    assert found == {row.split()[0]: expected for row, expected in table.items()}


# --- patterns and edge cases ----------------------------------------------------------------------


def test_s1_fr2_1_s2_p1_a_sequential_sprint_waits_for_the_highest_lower_number() -> None:
    assert law("1.1", "1.4", "1.10")["1.10"] == ["1.4"]


def test_s2_p2_parallel_sprints_wait_for_what_is_before_and_never_for_one_another() -> None:
    found = law("1.1", "1.2a", "1.2b", "1.2c")
    assert all(found[f"1.2{letter}"] == ["1.1"] for letter in "abc")


def test_s2_p3_s2_cl3_the_sprint_after_a_parallel_group_waits_for_all_of_it() -> None:
    assert law("1.1", "1.2a", "1.2b", "1.3")["1.3"] == ["1.2a", "1.2b"]


def test_s2_p4_tracks_split_from_the_phase_before_and_are_independent() -> None:
    found = law("2.1", "2.2", "3a.1", "3b.1")
    assert found["3a.1"] == found["3b.1"] == ["2.2"]


def test_s2_p5_a_phase_after_tracks_waits_for_the_last_sprint_of_each() -> None:
    assert law("3a.1", "3a.2", "3b.1", "4.1")["4.1"] == ["3a.2", "3b.1"]


def test_s2_p6_s2_p7_s2_e4_phases_follow_one_another_and_the_first_waits_for_nothing() -> None:
    assert law("1.1", "2.1", "3.1") == {"1.1": [], "2.1": ["1.1"], "3.1": ["2.1"]}


def test_s2_e1_parallel_sprints_inside_a_track() -> None:
    found = law("2.1", "3a.1", "3a.2a", "3a.2b", "3a.3")
    assert found["3a.2a"] == found["3a.2b"] == ["3a.1"]
    assert found["3a.3"] == ["3a.2a", "3a.2b"]


def test_s2_e2_a_phase_may_start_with_parallel_sprints() -> None:
    found = law("2.1", "2.2", "3.1a", "3.1b")
    assert found["3.1a"] == found["3.1b"] == ["2.2"]


def test_s2_e3_c17_all_parallel_sprints_at_the_end_of_a_phase_are_waited_for() -> None:
    found = law("2.2", "2.3a", "2.3b", "3.1a", "3.1b")
    assert found["3.1a"] == found["3.1b"] == ["2.3a", "2.3b"]


def test_c15_numbers_and_phases_may_have_gaps() -> None:
    assert law("1.2", "1.7", "4.3", "4.9") == {"1.2": [], "1.7": ["1.2"], "4.3": ["1.7"], "4.9": ["4.3"]}


def test_c16_a_parallel_group_after_a_parallel_group_waits_for_all_of_it() -> None:
    found = law("1.1", "1.2a", "1.2b", "1.3a", "1.3b")
    assert found["1.3a"] == found["1.3b"] == ["1.2a", "1.2b"]


def test_c16_plain_and_lettered_sprints_of_one_number_are_one_group() -> None:
    assert law("1.1", "1.2", "1.2a", "1.3") == {
        "1.1": [],
        "1.2": ["1.1"],
        "1.2a": ["1.1"],
        "1.3": ["1.2", "1.2a"],
    }


def test_c18_tracks_after_tracks_wait_for_all_of_them_and_a_plain_track_counts() -> None:
    found = law("3.1", "3a.1", "3b.1", "4a.1", "4b.2")
    assert found["4a.1"] == found["4b.2"] == ["3.1", "3a.1", "3b.1"]


def test_c19_a_track_of_several_letters_converges_those_tracks() -> None:
    found = law("2.1", "3a.1", "3b.1", "3b.2", "3c.1", "3ab.1", "4.1")
    assert found["3ab.1"] == ["3a.1", "3b.2"]
    assert found["3c.1"] == ["2.1"]
    assert found["4.1"] == ["3a.1", "3ab.1", "3b.2", "3c.1"]


def test_c19_a_track_whose_letters_are_not_all_there_is_an_ordinary_track() -> None:
    assert law("2.1", "3a.1", "3ab.1")["3ab.1"] == ["2.1"]


def test_s1_fr2_3_the_order_of_writing_does_not_matter() -> None:
    texts = ["4.1", "3b.1", "1.2b", "1.1", "3a.2", "1.2a", "3a.1"]
    assert law(*texts) == law(*sorted(texts))


# --- the numbers ----------------------------------------------------------------------------------


def test_s1_fr2_4_s1_fr2_5_s2_df1_s2_df2_s2_hf1_the_parts_of_a_sprint_id() -> None:
    (sprint,) = ids("3a.2b")
    assert (sprint.phase, sprint.phase_number, sprint.phase_suffix) == ("3a", 3, "a")
    assert (sprint.sprint_number, sprint.sprint_suffix, sprint.sprint_base) == (2, "b", "3a.2")
    (plain,) = ids("12.30")
    assert (plain.phase, plain.phase_number, plain.phase_suffix) == ("12", 12, "")
    assert (plain.sprint_number, plain.sprint_suffix, plain.sprint_base) == (30, "", "12.30")


def test_s2_hf1_phases_sort_by_number_before_letter() -> None:
    ordered = ["1.1", "2.1", "3a.1", "3a.2", "3a.2b", "3a.10", "3ab.1", "3b.1", "4.1", "10.1"]
    assert [sprint.text for sprint in sorted(ids(*reversed(ordered)))] == ordered


@pytest.mark.parametrize("text", ["1", "1-2", "1.2.3", "a.1", "1.A", "", "1.", ".1", "1.1 ", "1.1\n", "१.१"])
def test_s2_c3_what_is_not_a_sprint_id(text: str) -> None:
    assert SprintId.parse(text) is None


@pytest.mark.parametrize(
    ("sprint", "among", "group", "before"),
    [
        ("1.2", ["1.1", "1.2", "1.3"], ["1.2"], ["1.1"]),  # sequential
        ("1.2a", ["1.1", "1.2a", "1.2b"], ["1.2a", "1.2b"], ["1.1"]),  # parallel
        ("1.3", ["1.2a", "1.2b", "1.3"], ["1.3"], ["1.2a", "1.2b"]),  # merge
        ("3a.1", ["2.1", "3a.1", "3b.1"], ["3a.1"], ["2.1"]),  # first of its phase
    ],
)
def test_s2_cl1_s2_cl2_s2_cl3_s2_cl4_each_class_waits_with_its_group(
    sprint: str, among: list[str], group: list[str], before: list[str]
) -> None:
    found = law(*among)
    assert all(found[member] == before for member in group)
    assert sprint in group


# --- the law as a property ------------------------------------------------------------------------

sprint_texts = st.builds(
    lambda phase, track, number, letter: f"{phase}{track}.{number}{letter}",
    st.integers(1, 5),
    st.sampled_from(["", "", "a", "b", "c", "ab", "abc", "ac", "aa"]),
    st.integers(1, 6),
    st.sampled_from(["", "", "a", "b", "ab"]),
)
plans = st.sets(sprint_texts, max_size=25)


def naive_law(text: str, everything: set[str]) -> set[str]:
    """The law word by word, with no regard to cost: an answer independent of the package."""

    def parts(sprint: str) -> tuple[int, str, int]:
        match = re.fullmatch(r"(\d+)([a-z]*)\.(\d+)[a-z]*", sprint)
        assert match
        return int(match[1]), match[2], int(match[3])

    def last_of(track: tuple[int, str]) -> set[str]:
        members = {sprint for sprint in everything if parts(sprint)[:2] == track}
        last = max(parts(sprint)[2] for sprint in members)
        return {sprint for sprint in members if parts(sprint)[2] == last}

    phase, letters, number = parts(text)
    tracks = {parts(sprint)[:2] for sprint in everything}
    earlier = [n for p, t, n in map(parts, everything) if (p, t) == (phase, letters) and n < number]
    if earlier:
        return {sprint for sprint in everything if parts(sprint) == (phase, letters, max(earlier))}
    if len(letters) > 1 and all((phase, letter) in tracks for letter in letters):
        ends = {(phase, letter) for letter in letters}
    else:
        before = [p for p, _ in tracks if p < phase]
        ends = {track for track in tracks if before and track[0] == max(before)}
    return {sprint for track in ends for sprint in last_of(track)}


@given(plans)
def test_s1_fr2_3_the_law_is_the_sentence(texts: set[str]) -> None:
    found = law(*texts)
    assert set(found) == texts
    for sprint, waits in found.items():
        assert set(waits) == naive_law(sprint, texts)
        assert waits == [other.text for other in sorted(ids(*waits))]
        assert len(waits) == len(set(waits))


@given(plans)
def test_s1_fr2_9_s2_d1_s2_d2_s2_d3_s2_d4_the_law_makes_a_sound_graph(texts: set[str]) -> None:
    found = law(*texts)
    assert graph.problems(found) == []
    directed = as_networkx(found)
    roots = [sprint for sprint, waits in found.items() if not waits]
    reached = set(roots).union(*(nx.descendants(directed, root) for root in roots))
    assert reached == texts


@given(plans)
def test_s2_p2_siblings_never_wait_for_one_another_however_far(texts: set[str]) -> None:
    found = law(*texts)
    directed = as_networkx(found)
    for sprint in ids(*texts):
        for other in ids(*texts):
            if sprint.sprint_base == other.sprint_base and sprint != other:
                assert other.text not in nx.ancestors(directed, sprint.text)


# --- cycles, waves, paths against networkx --------------------------------------------------------

nodes = [f"n{number}" for number in range(9)]


@st.composite
def any_edges(draw: st.DrawFn) -> Edges:
    """Graphs with cycles, loops, doubled edges and edges to nowhere."""
    own = draw(st.lists(st.sampled_from(nodes), unique=True))
    return {node: draw(st.lists(st.sampled_from(nodes), max_size=4)) for node in own}


@st.composite
def acyclic_edges(draw: st.DrawFn) -> Edges:
    own = draw(st.permutations(nodes))
    chosen = {node: own[:at] for at, node in enumerate(own)}
    edges = {
        node: draw(st.lists(st.sampled_from(before))) if before else [] for node, before in chosen.items()
    }
    return {node: edges[node] for node in draw(st.permutations(own))}


def as_networkx(edges: Mapping[str, Sequence[str]]) -> "nx.DiGraph[str]":
    """Arrows from what comes first to what waits for it; only nodes that exist."""
    directed: nx.DiGraph[str] = nx.DiGraph()
    directed.add_nodes_from(edges)
    directed.add_edges_from(
        (other, node) for node, others in edges.items() for other in others if other in edges
    )
    return directed


@given(any_edges())
def test_s1_fr2_6_a_cycle_is_found_exactly_when_there_is_one(edges: Edges) -> None:
    path = graph.cycle(edges)
    assert bool(path) is not nx.is_directed_acyclic_graph(as_networkx(edges))
    if path:
        assert path[0] == path[-1]
        assert len(set(path)) == len(path) - 1
        assert all(after in edges[before] for before, after in pairwise(path))


@given(any_edges())
def test_s2_d4_stuck_is_what_is_on_a_cycle_or_behind_one(edges: Edges) -> None:
    directed = as_networkx(edges)
    on_cycle = {
        node
        for group in nx.strongly_connected_components(directed)
        for node in group
        if len(group) > 1 or node in edges[node]
    }
    behind = on_cycle.union(*(nx.descendants(directed, node) for node in on_cycle))
    assert graph.stuck(edges) == [node for node in edges if node in behind]


@given(any_edges(), st.lists(st.sampled_from(nodes)))
def test_reachable_are_the_starts_and_all_behind_them_each_once(edges: Edges, starts: list[str]) -> None:
    directed: nx.DiGraph[str] = nx.DiGraph()
    directed.add_nodes_from(nodes)
    directed.add_edges_from((node, other) for node, others in edges.items() for other in others)
    found = graph.reachable(starts, edges)
    assert len(found) == len(set(found))
    assert set(found) == set(starts).union(*(nx.descendants(directed, start) for start in starts))


@given(any_edges())
def test_s1_fr2_7_dangling_is_every_edge_to_a_node_that_is_not_there(edges: Edges) -> None:
    expected = [(node, other) for node in edges for other in edges[node] if other not in edges]
    assert graph.dangling(edges) == expected
    assert graph.dangling(edges, nodes) == []


@given(acyclic_edges())
def test_waves_are_the_topological_generations_in_the_order_of_the_plan(edges: Edges) -> None:
    found = graph.waves(edges)
    assert [set(wave) for wave in found] == [
        set(wave) for wave in nx.topological_generations(as_networkx(edges))
    ]
    order = list(edges)
    assert all(wave == sorted(wave, key=order.index) for wave in found)


@given(acyclic_edges())
def test_the_critical_path_is_a_longest_chain(edges: Edges) -> None:
    path = graph.critical_path(edges)
    assert all(before in edges[after] for before, after in pairwise(path))
    assert len(path) == len(nx.dag_longest_path(as_networkx(edges)))
    longest = graph.waves(edges)[-1]
    assert path[-1] == longest[0], "among equals the first in the plan"


@given(acyclic_edges())
def test_remaining_depth_is_the_longest_chain_that_hangs_on_a_node(edges: Edges) -> None:
    directed = as_networkx(edges)
    for node, depth in graph.remaining_depth(edges).items():
        below = directed.subgraph({node} | nx.descendants(directed, node))
        assert depth == len(nx.dag_longest_path(below))
    assert set(graph.remaining_depth(edges)) == set(edges)


def test_a_chain_of_twenty_thousand_sprints_needs_no_recursion() -> None:
    size = 20_000
    found = law(*(f"1.{number}" for number in range(1, size + 1)))
    assert graph.cycle(found) == []
    assert len(graph.waves(found)) == len(graph.critical_path(found)) == size
    assert graph.remaining_depth(found)["1.1"] == size
    found["1.1"] = [f"1.{size}"]
    assert len(graph.cycle(found)) == size + 1
    assert len(graph.stuck(found)) == size


def test_nothing_at_all_is_a_sound_graph() -> None:
    assert graph.dependencies([]) == {}
    assert (graph.cycle({}), graph.waves({}), graph.critical_path({}), graph.problems({})) == ([], [], [], [])


@pytest.mark.parametrize(
    ("edges", "beginnings"),
    [
        ({"a": [], "b": ["a"]}, []),
        ({"a": [], "b": ["b"]}, ["Self-dependency: b"]),
        ({"a": [], "b": ["x"]}, ["Unknown dependency: b depends on x"]),
        ({"r": [], "a": ["b"], "b": ["a"]}, ["Circular dependency"]),
        ({"a": ["b"], "b": ["a"]}, ["Circular dependency", "No root beads"]),
        ({"a": ["a", "x"]}, ["Self-dependency: a", "Unknown dependency: a", "No root beads"]),
    ],
)
def test_s2_d5_the_words_of_the_check(edges: Edges, beginnings: list[str]) -> None:
    found = graph.problems(edges)
    assert len(found) == len(beginnings)
    assert all(text.startswith(beginning) for text, beginning in zip(found, beginnings, strict=True))


# --- the whole compiler ---------------------------------------------------------------------------


def codes(text: str) -> list[tuple[str, int | None]]:
    return [(str(fault.code), fault.line) for fault in compiled(text).all_faults]


def heading_line(text: str, sprint: str) -> int:
    return text.split("\n").index(f"### Sprint {sprint}: Part {sprint}") + 1


def test_s1_t6_s2_c3_two_sprints_with_one_bead_id() -> None:
    text = DEFAULTS + section("1.1", "bd-same") + section("1.2", "bd-same")
    found = [line for code, line in codes(text) if code == str(Code.DUPLICATE_ID)]
    assert found == [heading_line(text, "1.1"), heading_line(text, "1.2")]


def test_the_same_sprint_twice_is_a_fault_however_it_is_spelled() -> None:
    text = plan_of(["1.1", "1.01"])
    assert (str(Code.DUPLICATE_ID), heading_line(text, "1.01")) in codes(text)


def test_s1_t7_s1_fr2_7_a_reference_to_a_sprint_that_is_not_there() -> None:
    text = plan_of(["1.1"], s1_1="**Depends On**: 7.7\n")
    assert codes(text) == [(str(Code.UNRESOLVED), heading_line(text, "1.1") + 1)]
    assert "7.7" in compiled(text).all_faults[0].message


def test_s1_fr2_8_s2_d3_a_sprint_that_names_itself() -> None:
    text = plan_of(["1.1"], s1_1="**Depends On**: 1.1\n")
    assert codes(text) == [(str(Code.SELF_DEP), heading_line(text, "1.1") + 1)]


def test_s1_t8_s1_fr2_6_two_sprints_that_wait_for_one_another() -> None:
    text = plan_of(["1.1", "1.2"], s1_1="**Depends On**: 1.2\n")
    first, second = heading_line(text, "1.1"), heading_line(text, "1.2")
    (fault,) = compiled(text).all_faults
    assert (fault.code, fault.line) == (Code.CYCLE_DETECTED, first + 1), "the **Depends On** that closes it"
    assert f"1.1 (plan.md:{first}) → 1.2 (plan.md:{second}) → 1.1 (plan.md:{first})" in fault.message


def test_c21_a_cycle_through_bead_ids_of_the_plan_is_seen() -> None:
    text = plan_of(["1.1", "1.2"], s1_1="**Depends On**: `bd-1-2-part-12`\n")
    assert slug("Part 1.2") == "part-12"
    assert [code for code, _ in codes(text)] == [str(Code.CYCLE_DETECTED)]


def test_c21_a_bead_id_of_the_plan_means_its_sprint_and_counts_once() -> None:
    built = compiled(plan_of(["1.1", "1.2"], s1_2="**Depends On**: bd-1-1-part-11, 1.1\n"))
    assert built.all_faults == ()
    assert built.edges["1.2"] == ["1.1"]
    bead = built.beads["1.2"]
    assert isinstance(bead, Bead)
    assert bead.dependencies == ["bd-1-1-part-11"]


def test_a_sprint_that_names_its_own_bead_names_itself() -> None:
    text = plan_of(["1.1"], s1_1="**Depends On**: bd-1-1-part-11\n")
    assert [code for code, _ in codes(text)] == [str(Code.SELF_DEP)]


def test_every_cycle_is_reported_at_once_and_who_waits_behind_one() -> None:
    extras = {"s3a_1": "**Depends On**: 3a.2\n", "s3b_1": "**Depends On**: 3b.2\n"}
    text = plan_of(["2.1", "3a.1", "3a.2", "3b.1", "3b.2", "4.1"], **extras)
    faults = compiled(text).all_faults
    assert {fault.code for fault in faults} == {Code.CYCLE_DETECTED}
    closing = [heading_line(text, sprint) + 1 for sprint in ("3a.1", "3b.1")]
    assert [fault.line for fault in faults] == [*closing, heading_line(text, "4.1")]
    assert ["→" in fault.message for fault in faults] == [True, True, False]


def test_an_extra_dependency_comes_behind_those_of_the_law() -> None:
    built = compiled(plan_of(["1.1", "2a.1", "2b.1"], s2b_1="**Depends On**: 2a.1 and bd-elsewhere\n"))
    assert built.all_faults == ()
    assert built.edges["2b.1"] == ["1.1", "2a.1", "bd-elsewhere"]
    assert built.beads["2b.1"].dependencies == ["bd-1-1-part-11", "bd-2a-1-part-2a1", "bd-elsewhere"]


@pytest.mark.parametrize("word", ["1.1-1.3", "after", "1.2.3", "src/a-b", "1-1"])
def test_a_word_that_can_be_no_bead_is_unresolved(word: str) -> None:
    text = plan_of(["1.1", "1.2"], s1_2=f"**Depends On**: {word}\n")
    assert [code for code, _ in codes(text)] == [str(Code.UNRESOLVED)]


def test_struck_sprints_are_left_out_of_the_law_and_known_by_name() -> None:
    text = plan_of(["1.1", "1.3"], s1_3="**Depends On**: 1.2\n") + "### ~~Sprint 1.2: Gone~~\n"
    built = compiled(text)
    assert built.edges["1.3"] == ["1.1"]
    assert "struck out" in built.all_faults[0].message


def test_s2_ex4_c11_a_title_that_says_integration_with_two_dependencies_is_a_merge() -> None:
    rest = section("1.1a") + section("1.1b")
    merge = "### Sprint 1.2: Integration & Manual\n**Tasks**:\n- Do it\n"
    built = compiled(DEFAULTS + rest + merge)
    bead = built.beads["1.2"]
    assert bead.issue_type == "beads-ralph-merge"
    assert bead.dependencies == ["bd-1-1a-part-11a", "bd-1-1b-part-11b"]
    settled = compiled(DEFAULTS + rest + merge.replace("**Tasks**", "**Type**: work\n**Tasks**"))
    assert settled.beads["1.2"].issue_type == "beads-ralph-work"


def test_s2_ex4_c11_a_title_that_says_merge_with_nothing_to_merge_is_work_and_a_warning() -> None:
    built = compiled(DEFAULTS + "### Sprint 1.1: Merge bead example\n**Tasks**:\n- Do it\n")
    assert built.beads["1.1"].issue_type == "beads-ralph-work"
    assert [warning.line for warning in built.warnings] == [DEFAULTS.count("\n") + 1]
