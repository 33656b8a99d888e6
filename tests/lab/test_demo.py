"""The demo's tour, what it finds out about changes, its picture; and the figures of the benchmark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.report.demo_sample import outcome
from virtuallog.contract.chain import Chain, close, extend, genesis, modify
from virtuallog.contract.types import NodeId
from virtuallog_lab.demo.changes import ActiveSegments, RequestedChange, find_changes
from virtuallog_lab.demo.demonstration import VICTIM, tour
from virtuallog_lab.demo.picture import draw
from virtuallog_lab.workload.appends import percentile


def test_the_tour_ends_where_the_story_kills() -> None:
    """The last stop of the tour has its sequencer on the victim."""
    assert tour(())[-1].settings["sequencer"] == str(VICTIM)


def test_the_tour_goes_over_every_kind_of_our_own() -> None:
    """The tour visits every kind, and log servers without other roles; never the same twice in a row."""
    stops = tour(())

    assert {stop.kind for stop in stops} == {"native", "paxos", "raft", "striped"}
    assert any(stop.settings.get("servers") == "4,5,6" for stop in stops)
    assert all((one.kind, one.settings) != (other.kind, other.settings) for one, other in pairwise(stops))


@pytest.mark.parametrize("node", [1, 2, 3])
def test_the_first_swap_goes_to_another_node(node: int) -> None:
    """A swap to the node that orders already shows nothing."""
    assert tour([NodeId(node)])[0].settings["sequencer"] != str(node)


def chains(count: int) -> list[Chain]:
    """A chain as it grows."""
    found = [genesis("native", b"", 1)]
    while len(found) < count:
        found.append(extend(found[-1], found[-1].last.start + 10, "paxos", b"", 1))
    return found


def test_only_what_takes_appends_reigns() -> None:
    """Old pictures of the chain, loglets put under closed segments and a closed log change nothing."""
    first, second = chains(2)
    reigns = ActiveSegments()

    assert reigns.see(0.0, first)
    assert reigns.see(1.0, second)
    assert not reigns.see(1.5, first)
    assert not reigns.see(2.0, modify(second, second.segments[0].id, "archive", b"", 1))
    assert not reigns.see(3.0, close(second, 30))
    assert [reign.segment for reign in reigns.seen] == [first.last, second.last]


def test_a_change_costs_the_longest_silence_from_when_it_was_asked_for() -> None:
    """A change that was not asked for began when a node was killed, or else when it was seen."""
    reigns = ActiveSegments()
    for at, chain in zip((0.0, 1.1, 5.0, 9.0), chains(4), strict=True):
        reigns.see(at, chain)
    times = sorted({step / 100 for step in range(1000)} - {step / 100 for step in (*range(105, 109), *range(410, 505))})
    asked = [RequestedChange(1.0, 1.1, reigns.seen[1].segment.id)]

    swap, healing, sudden = find_changes(reigns.seen, asked, [4.0], times)

    assert (swap.by_itself, swap.began, swap.ended) == (False, 1.0, 1.1)
    assert swap.gap_seconds == pytest.approx(0.05)
    assert (healing.by_itself, healing.began, healing.ended) == (True, 4.0, 5.0)
    assert healing.gap_seconds == pytest.approx(0.96)
    assert (sudden.by_itself, sudden.began, sudden.ended) == (True, 9.0, 9.0)
    assert sudden.gap_seconds == pytest.approx(0.01)


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """With stretches in which nothing was acknowledged, too."""
    path = tmp_path / "demo.png"
    draw(outcome(), path)

    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    """And the smallest such value, against the slow way to say it."""
    values.sort()
    enough = [value for value in values if sum(other <= value for other in values) >= share * len(values)]

    assert percentile(values, share) == enough[0]
