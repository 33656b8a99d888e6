"""Cutting reads into tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.markers.marker import Winner
from pyspark_virtuallog.read.offsets import Offset
from pyspark_virtuallog.read.options import ReadOptions
from pyspark_virtuallog.read.task_plan import (
    POSITIONS,
    TASKS,
    TASKS_MAX,
    PlannedPiece,
    ReadTask,
    bounded,
    plan_tasks,
    task_size,
)
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogPosition

CLUSTER = ClusterFile(nodes=(NodeAddress(id=1, address="127.0.0.1:7001"),))
OPTIONS = ReadOptions(cluster="c.toml")
BORDERS = (100, 150, 152, 400)
"""Borders of segments: the chain begins at 100, the last one is open."""


def chain() -> Chain:
    starts = [LogPosition(border) for border in BORDERS]
    stops = [*starts[1:], None]
    return Chain(
        4,
        tuple(
            Segment(id=SegmentId(1 + index, 0), kind="native", config=b"", start=start, stop=stop)
            for index, (start, stop) in enumerate(zip(starts, stops, strict=True))
        ),
    )


def plan(*pieces: PlannedPiece, nodes: tuple[int, ...] = (1, 2, 3), **options: Any) -> list[ReadTask]:
    return plan_tasks(pieces, chain(), nodes, CLUSTER, "c3" * 16, attrs.evolve(OPTIONS, **options))


@given(st.integers(0, 600), st.integers(0, 600), st.integers(1, 700), st.integers(1, 50))
def test_tasks_cover_what_is_wanted_once_and_in_order(one: int, other: int, size: int, least: int) -> None:
    """For any options: no position is missing, none is read twice, and each part is of one segment."""
    start, stop = sorted((one, other))
    pieces = [PlannedPiece(start=start, stop=stop)] if start < stop else []
    tasks = plan(*pieces, positions_per_partition=size, min_partitions=least)
    parts = [part for task in tasks for part in task.parts]

    edges = [part.start for part in parts] + [part.stop for part in parts[-1:]]
    assert edges[:1] + edges[-1:] == ([start, stop] if parts else [])
    assert all(before.stop == after.start for before, after in pairwise(parts))
    for part in parts:
        assert chain().segment_at(part.start) == chain().segment_at(part.stop - 1) == part.segment
    assert all(sum(part.length for part in task.parts) <= max(size, 1) for task in tasks)
    assert len(tasks) >= min(least, stop - start)


def test_a_short_read_is_one_task_though_the_chain_has_many_segments() -> None:
    """A task costs more than a few thousand entries."""
    (task,) = plan(PlannedPiece(start=100, stop=500))

    assert [(part.start, part.stop) for part in task.parts] == [(100, 150), (150, 152), (152, 400), (400, 500)]


def test_tasks_are_near_all_nodes_in_turn() -> None:
    """Tasks prefer all nodes in turn, so that each server has its share of the readers."""
    assert [task.near for task in plan(PlannedPiece(start=100, stop=500), min_partitions=4)][:4] == [1, 2, 3, 1]
    assert plan(PlannedPiece(start=100, stop=500), nodes=())[0].near is None


def test_what_lies_below_the_chain_is_of_no_segment() -> None:
    """It has been trimmed, and dropped from the chain; reading there raises the log's error."""
    (task,) = plan(PlannedPiece(start=90, stop=110))

    assert [(part.start, part.stop, part.segment is None) for part in task.parts] == [
        (90, 100, True),
        (100, 110, False),
    ]


def winner(name: str, first: int, last: int) -> Winner:
    return Winner(SessionId(name.encode() * 16), LogPosition(first), LogPosition(last), 1, 1)


def test_a_part_is_told_whose_entries_it_may_have() -> None:
    """Parts with entries of wanted sessions; others are not read at all."""
    a, b, c = winner("a", 140, 151), winner("b", 150, 155), winner("c", 158, 159)
    (task,) = plan(
        PlannedPiece(start=140, stop=160, winners=(a, b, c)),
        PlannedPiece(start=300, stop=301, winners=(winner("d", 300, 300),)),
    )

    assert [(part.start, part.stop, part.sessions) for part in task.parts] == [
        (140, 150, frozenset({a.session})),
        (150, 152, frozenset({a.session, b.session})),
        (152, 160, frozenset({b.session, c.session})),
        (300, 301, frozenset({winner("d", 0, 0).session})),
    ]
    cut = plan(PlannedPiece(start=140, stop=160, winners=(b, c)), positions_per_partition=2)
    assert [(part.start, part.stop) for task in cut for part in task.parts] == [
        (150, 152),
        (152, 154),
        (154, 156),
        (158, 160),
    ]


@given(st.lists(st.tuples(st.integers(0, 599), st.integers(0, 99)), min_size=1, max_size=8), st.integers(1, 700))
def test_every_entry_of_a_winner_is_in_a_part_that_looks_for_it(spans: list[tuple[int, int]], size: int) -> None:
    """Once, however it is cut."""
    winners = [winner(chr(97 + number), first, min(599, first + more)) for number, (first, more) in enumerate(spans)]
    parts = [
        part
        for task in plan(PlannedPiece(start=0, stop=600, winners=winners), positions_per_partition=size)
        for part in task.parts
    ]

    for each in winners:
        found = [
            place for part in parts if each.session in (part.sessions or ()) for place in range(part.start, part.stop)
        ]
        assert {*range(each.first, each.last + 1)} <= {*found}
        assert len(found) == len({*found})


def test_a_read_of_any_length_is_some_hundred_tasks() -> None:
    """Loglets that leave most positions empty make logs of millions of millions of them."""
    assert task_size(10, OPTIONS) == 10
    assert task_size(10 * POSITIONS, OPTIONS) == POSITIONS
    assert task_size(TASKS * POSITIONS * 1000, OPTIONS) == POSITIONS * 1000
    assert task_size(100, attrs.evolve(OPTIONS, min_partitions=7)) == 14


def test_options_cannot_ask_for_tasks_without_end() -> None:
    """The driver would run out of memory instead of saying what is wrong."""
    with pytest.raises(InvalidSettingError, match="positionsPerPartition"):
        task_size(TASKS_MAX + 1, attrs.evolve(OPTIONS, positions_per_partition=1))
    with pytest.raises(InvalidSettingError, match="minPartitions"):
        task_size(10 * TASKS_MAX, attrs.evolve(OPTIONS, min_partitions=10 * TASKS_MAX))


@pytest.mark.parametrize(("tail", "limit", "stop"), [(9, None, 9), (9, 3, 8), (9, 100, 9), (5, 3, 5), (2, None, 5)])
def test_a_micro_batch_is_bounded_by_the_tail_and_the_limit(tail: int, limit: int | None, stop: int) -> None:
    """And never goes back."""
    assert bounded(Offset("c3" * 16, 5), tail, limit) == stop
