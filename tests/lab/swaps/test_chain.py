"""One log over ten segments of all kinds, some of them empty: read while it grows, then trimmed away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from itertools import pairwise

import pytest
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.ports import Services
from virtuallog.contract.types import Data, GapKind, LogPosition
from virtuallog.node_services import open_services_to
from virtuallog_lab.bench.targets import LOG_NODES, Target
from virtuallog_lab.harness.trial import extend, temporary_cluster
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = pytest.mark.processes

CHAIN = (
    ("paxos", True), ("native", False), ("striped", True), ("zookeeper", True), ("paxos", False), ("zookeeper", False),
    ("native", True), ("raft", True), ("striped", False), ("disaggregated", True), ("striped", True), ("paxos", True),
    ("raft", False), ("zookeeper", True),
)  # fmt: skip
"""Behind the first segment: on what the log goes on, and whether anything is appended there. The chain drops a segment that is
closed where it starts, so ten stay."""
ENTRIES = 40
"""Least entries of each segment."""
LOOK = 5
"""Number of entries that are read behind each trim."""
PATIENCE_SECONDS = 240.0


class Writer:
    """Appends one entry after the other, except while a test holds `turn`."""

    def __init__(self, log: VirtualLog) -> None:
        self.log = log
        self.written: dict[int, bytes] = {}
        self.turn = trio.Lock()

    async def run(self) -> None:
        while True:
            async with self.turn:
                payload = b"entry %d" % len(self.written)
                self.written[await self.log.append(payload)] = payload

    async def more(self, count: int) -> None:
        """Return once so many more are written."""
        goal = len(self.written) + count
        while len(self.written) < goal:
            await trio.sleep(0.002)  # noqa: TID251 -- real processes


@pytest.mark.long
async def test_ten_segments_of_all_kinds_are_one_log(targets: list[Target]) -> None:
    """One reader follows from the start on, one begins at the start when all is there and the tail still moves. Trims cut it
    down within segments and at their edges, between loglets of all kinds."""
    by_name = {target.name: target for target in targets}
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real processes
        async with (
            temporary_cluster(log_nodes=LOG_NODES) as cluster,
            open_services_to(cluster.file) as services,
            connect(cluster.file) as log,
            connect(cluster.file) as elsewhere,
        ):
            writer = Writer(log)
            followed: dict[int, bytes] = {}
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writer.run)
                nursery.start_soon(follow, elsewhere, followed)
                await grow(writer, by_name, services, cluster)
                late = await read_up_to(elsewhere, (await log.check_tail()).tail)
                await writer.more(ENTRIES)
                async with writer.turn:
                    tail = (await log.check_tail()).tail
                    nursery.cancel_scope.cancel()

            chain = (await log.view.refresh()).chain
            kinds = ["native", *(by_name[name].kind for name, is_full in CHAIN if is_full)]
            assert [segment.kind for segment in chain.segments] == kinds
            assert len(kinds) == 10
            assert late == {place: writer.written[place] for place in late}
            assert [*late] == [place for place in writer.written if place <= max(late)]
            assert followed.items() <= writer.written.items()
            assert await read_up_to(elsewhere, tail) == writer.written
            for position in cuts([segment.start for segment in chain.segments], [*writer.written]):
                await check_trim(log, elsewhere, LogPosition(position), writer.written, tail)
            assert len((await log.view.refresh()).chain.segments) == 1


async def grow(writer: Writer, by_name: dict[str, Target], services: Services, cluster: LocalCluster) -> None:
    """Add the segments of `CHAIN`; an empty one is closed before a client can append to it."""
    await writer.more(ENTRIES)
    for segments in together():
        async with writer.turn:
            for name in segments:
                await extend(services, cluster.file, by_name[name].kind, by_name[name].settings)
        await writer.more(ENTRIES)


def together() -> Iterator[list[str]]:
    """The segments of `CHAIN`, each empty one with those behind it up to one that is not."""
    group: list[str] = []
    for name, is_full in CHAIN:
        group.append(name)
        if is_full:
            yield group
            group = []


async def follow(log: VirtualLog, seen: dict[int, bytes]) -> None:
    """Note all entries that come, for ever."""
    async for record in log.reader():
        if isinstance(record, Data):
            seen[record.position] = record.payload


async def read_up_to(log: VirtualLog, tail: int) -> dict[int, bytes]:
    """All entries below `tail`, by position, in the order of the log. Fillers may be between them, nothing else."""
    found: dict[int, bytes] = {}
    async for record in log.reader(stop=LogPosition(tail)):
        if isinstance(record, Data):
            found[record.position] = record.payload
        else:
            assert record.kind is GapKind.FILLER, record
    return found


def cuts(starts: list[int], places: list[int]) -> list[int]:
    """Trim positions: each edge of the chain, one below and one behind it, and the middle of each
    segment; ascending."""
    edges = sorted({*starts[1:], places[-1]})
    near = {edge + by for edge in edges for by in (-1, 0, 1)}
    middles = {(low + high) // 2 for low, high in pairwise(starts)}
    return sorted(cut for cut in near | middles if 0 < cut <= places[-1])


async def check_trim(
    log: VirtualLog, elsewhere: VirtualLog, position: LogPosition, written: dict[int, bytes], tail: int
) -> None:
    """For another client as well, the log begins behind it and goes on as it was.

    Some kinds drop batches only as a whole, and keep the one that `position` lies in: here that is one entry. What is gone may be
    seen for a while.
    """
    effective = await log.prefix_trim(position)
    assert len([place for place in written if effective <= place < position]) <= 1
    assert await elsewhere.find_trim_point() >= effective
    left = [place for place in written if place >= effective][:LOOK]
    seen: list[int] = []
    async with aclosing(aiter(elsewhere.reader(stop=LogPosition(tail)))) as records:
        async for record in records:
            if isinstance(record, Data):
                assert written[record.position] == record.payload
                seen += [record.position] if record.position >= effective else []
            else:
                assert record.kind is GapKind.FILLER or record.stop <= effective, record
            if len(seen) >= len(left):
                break
    assert seen == left
