"""Plan of a read: cuts the range into tasks of Spark (its partitions).

    wanted      [------------------------------------------)
    chain       |--- 1.a archive ---|-- 4.b native --|-- 7.c native -->
    parts       [------)[----)[-----)[------)[-------)[----)          one segment each, and at most so many positions
    tasks       |   1   |  2  |   3  |   4   |   5    |  6  |         parts that are small share one

The number of entries in a range is unknown: loglets of the kinds paxos and zookeeper leave most
positions empty. So unless a user says otherwise, a read of any length is at most some hundred
tasks, and a short one is one task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import attrs

from pyspark_virtuallog.markers.marker import Winner
from pyspark_virtuallog.read.offsets import Offset
from pyspark_virtuallog.read.options import ReadOptions
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.errors import InvalidSettingError

POSITIONS: Final = 1_000_000
"""Positions of a task: a second or so of reading entries of 100 bytes, against the tenth of a
second that a task costs."""
TASKS: Final = 256
"""Most tasks of a read, unless options ask for more: enough for the executors that three servers
can feed."""
TASKS_MAX: Final = 100_000
"""Most tasks of a read in any case. The driver keeps some hundred bytes of each; beyond this an
option has a digit too many."""


@attrs.frozen(kw_only=True)
class Part:
    """Positions of one segment."""

    start: int
    stop: int
    segment: Segment | None
    """The segment as the chain stood when this was planned. None below the chain's start."""
    sessions: frozenset[bytes] | None = None
    """Sessions whose entries are wanted. None for all entries, and gaps."""

    @property
    def length(self) -> int:
        return self.stop - self.start


@attrs.frozen(kw_only=True)
class ReadTask:
    """One task of Spark: what it reads, and where. Executors get nothing else."""

    cluster: ClusterFile
    cluster_id: str
    near: int | None
    """Node to ask first: tasks prefer all nodes in turn."""
    parts: tuple[Part, ...]
    """Parts in order of their positions."""
    patience_seconds: float
    may_miss: bool
    """True if trimmed or lost positions become a row; otherwise they are an error."""


@attrs.frozen(kw_only=True)
class PlannedPiece:
    """A part of the log to read, of any segments."""

    start: int
    stop: int
    winners: Sequence[Winner] | None = None
    """Attempts whose entries are wanted. None for everything."""

    def clip(self, start: int, stop: int) -> PlannedPiece | None:
        """The part of it in [start, stop). None if there is none."""
        low, high = max(self.start, start), min(self.stop, stop)
        return attrs.evolve(self, start=low, stop=high) if low < high else None


def plan_tasks(
    pieces: Sequence[PlannedPiece],
    chain: Chain,
    nodes: Sequence[int],
    cluster: ClusterFile,
    cluster_id: str,
    options: ReadOptions,
) -> list[ReadTask]:
    """Tasks that read the pieces, which lie in order and below the tail that the chain had.

    Raises:
        InvalidSettingError: the options ask for too many tasks.
    """
    size = task_size(sum(piece.stop - piece.start for piece in pieces), options)
    found = list(_packed((part for piece in pieces for part in _parts_of(piece, chain, size)), size))
    return [
        ReadTask(
            cluster=cluster,
            cluster_id=cluster_id,
            near=nodes[index % len(nodes)] if nodes else None,
            parts=tuple(together),
            patience_seconds=options.patience_seconds,
            may_miss=not options.fail_on_data_loss,
        )
        for index, together in enumerate(found)
    ]


def task_size(positions: int, options: ReadOptions) -> int:
    """Positions of one task, for a read of `positions`.

    Raises:
        InvalidSettingError: that makes more than TASKS_MAX tasks.
    """
    size = options.positions_per_partition or max(POSITIONS, -(-positions // TASKS))
    size = max(1, min(size, positions // options.min_partitions))
    if positions > size * TASKS_MAX:
        option = "minPartitions" if options.positions_per_partition is None else "positionsPerPartition"
        raise InvalidSettingError(option, f"{positions} positions would be more than {TASKS_MAX} partitions")
    return size


def bounded(start: Offset, tail: int, limit: int | None) -> int:
    """End of a micro-batch that begins at `start`: at most `limit` positions later, and never
    before it."""
    stop = tail if limit is None else min(tail, start.position + limit)
    return max(stop, start.position)


def _parts_of(piece: PlannedPiece, chain: Chain, size: int) -> Sequence[Part]:
    parts = [cut for part in _of_segments(piece, chain) for cut in _cut(part, size)]
    return parts if piece.winners is None else _those_of(parts, piece.winners)


def _those_of(parts: Sequence[Part], winners: Iterable[Winner]) -> list[Part]:
    """The parts, adjacent and in order, that may have entries of these winners. Each part gets its
    own winners only: with many small batches the plan would be larger than its data otherwise."""
    starts = [part.start for part in parts]
    sessions: list[set[bytes]] = [set() for _ in parts]
    for winner in winners:
        for index in range(max(0, bisect_right(starts, winner.first) - 1), bisect_right(starts, winner.last)):
            sessions[index].add(winner.session)
    return [attrs.evolve(part, sessions=frozenset(names)) for part, names in zip(parts, sessions, strict=True) if names]


def _of_segments(piece: PlannedPiece, chain: Chain) -> Iterator[Part]:
    if piece.start < chain.start:
        stop = min(piece.stop, chain.start)
        yield Part(start=piece.start, stop=stop, segment=None)
    for segment in chain.segments:
        low = max(piece.start, segment.start)
        high = piece.stop if segment.stop is None else min(piece.stop, segment.stop)
        if low < high:
            yield Part(start=low, stop=high, segment=segment)


def _cut(part: Part, size: int) -> Iterator[Part]:
    """Pieces of about the same length, at most `size` each."""
    count = -(-part.length // size)
    borders = [part.start + part.length * index // count for index in range(count + 1)]
    for start, stop in pairwise(borders):
        yield attrs.evolve(part, start=start, stop=stop)


def _packed(parts: Iterable[Part], size: int) -> Iterator[list[Part]]:
    """Lists of adjacent parts that fit into one task, so that a chain of many short segments is not
    as many tasks."""
    together: list[Part] = []
    length = 0
    for part in parts:
        if together and length + part.length > size:
            yield together
            together, length = [], 0
        together.append(part)
        length += part.length
    if together:
        yield together
