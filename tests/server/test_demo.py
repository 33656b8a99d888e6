"""The demo's picture, and the figures of the benchmark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from server.bench.appends import percentile
from server.demo.picture import draw
from server.demo.story import Event, Outcome, tour
from server.workload.verdict import Verdict
from server.workload.writers import Told, Workload
from virtuallog.clock import SystemClock
from virtuallog.types import LogPosition


def test_the_tour_ends_where_the_story_kills() -> None:
    """The last stop of the tour has its sequencer on node 3, the victim."""
    assert list(tour())[-1] == ("native", {"sequencer": "3"})


def test_the_tour_goes_over_paxos_and_back() -> None:
    """From the native loglet to every other kind that is installed, and home again."""
    kinds = [kind for kind, _ in tour()]

    assert "paxos" in kinds
    assert all(after == "native" for kind, after in pairwise(kinds) if kind != "native")


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """With stretches in which nothing was acknowledged, too."""
    workload = Workload(SystemClock())
    writer = workload.told[0] = Told()
    for step in range(100):
        writer.add(LogPosition(step), 0.009 * step, 0.01 * step)
    writer.add(LogPosition(100), 1.0, 3.0)
    path = tmp_path / "demo.png"
    draw(Outcome(workload, (Event(1.0, "kill -9 node 3", is_fault=True),), Verdict(101, ())), path)

    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    """And the smallest such value, against the slow way to say it."""
    values.sort()
    enough = [value for value in values if sum(other <= value for other in values) >= share * len(values)]

    assert percentile(values, share) == enough[0]
