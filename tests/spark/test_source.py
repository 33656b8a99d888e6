"""The table of a real log, read as Spark reads it, but without Spark: Spark's own part is tested in `test_spark_source.py`.

One cluster and one log, as most of the time goes into processes that start:

    [0, 50) trimmed | native, closed | paxos, closed | native, open
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import pytest
import trio
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, IsNull, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from loglets.archive.config import decode_untrusted
from pyspark_virtuallog.clients import close_clients
from pyspark_virtuallog.committing import commit
from pyspark_virtuallog.options import stream_options
from pyspark_virtuallog.schema import SCHEMA
from pyspark_virtuallog.streaming import LogStreamReader
from server.cluster import open_local_cluster
from tests.archive.test_processes import archive
from tests.free_ports import free_ports
from tests.spark.sink_log import QUERY, attempt
from tests.spark.tables import Table, contents, plain, read, sent, whole_gaps
from virtuallog.cluster_file import ClusterFile, NodeAddress
from virtuallog.connect import connect, open_services_to
from virtuallog.errors import (
    BeyondTailError,
    CorruptionError,
    InvalidSettingError,
    TrimmedError,
    UnavailableError,
    WrongRecipientError,
)
from virtuallog.types import LogletOffset, LogPosition
from virtuallog.virtual_log import VirtualLog

pytestmark = [pytest.mark.processes, pytest.mark.slow]
ResultT = TypeVar("ResultT")
TRIM = 50
ENTRIES = 1_200
"""In each segment."""
POSITIONS = StructType([StructField("position", LongType())])


@asynccontextmanager
async def log_of_many_kinds(folder: Path) -> AsyncIterator[tuple[str, VirtualLog]]:
    """See above."""
    async with open_local_cluster(folder / "cluster", 1, base_port=0) as cluster:
        async with open_services_to(cluster.file) as services:
            await cluster.wait_ready(services)
        cluster.write_file()
        try:
            async with connect(cluster.file) as log:
                for kind in ("paxos", "native", ""):
                    for begin in range(0, ENTRIES, 100):
                        await log.append_many([b"%s %d" % (kind.encode(), begin + index) for index in range(100)])
                    if kind:
                        await log.reconfig_extend(kind)
                await log.prefix_trim(LogPosition(TRIM))
                yield str(cluster.file_path), log
        finally:
            await in_thread(close_clients)


async def in_thread(call: Callable[..., ResultT], *arguments: object) -> ResultT:
    return await trio.to_thread.run_sync(call, *arguments)


async def tail_of(log: VirtualLog) -> int:
    return (await log.check_tail()).tail


async def the_table_is_what_the_log_reads(cluster: str, log: VirtualLog) -> None:
    """However it is cut: entries, gaps, labels."""
    expected = await contents(log, await log.find_trim_point(), await tail_of(log))
    kinds = {row["loglet"] for row in expected}
    gaps = [row["gap"] for row in expected if row["gap"]]

    assert kinds >= {"paxos"} or kinds == {"archive", "native"}
    assert gaps, "nothing of the paxos loglet is empty"
    for options in ({}, {"positionsPerPartition": "100000"}, {"minPartitions": "23"}):
        table = Table(cluster, SCHEMA, **options)
        rows = await in_thread(table.rows)
        assert plain(whole_gaps(rows)) == expected
    assert len(await in_thread(table.plan)) >= 23


async def a_part_of_it_is_read_alone(cluster: str, log: VirtualLog) -> None:
    """A range of positions, or of times, or a few columns, or what filters leave."""
    tail = await tail_of(log)
    everything = await contents(log, TRIM, tail)
    entries = [row["position"] for row in everything if row["gap"] is None]

    def positions(**options: str) -> list[int]:
        return [row["position"] for row in Table(cluster, POSITIONS, **options).rows()]

    last = str(entries[-10])
    assert await in_thread(lambda: positions(startingOffsets="60", endingOffsets="75")) == [*range(60, 75)]
    assert await in_thread(lambda: positions(startingOffsets=last)) == entries[-10:]
    assert await in_thread(lambda: positions(startingOffsets=str(tail))) == []
    assert await in_thread(lambda: positions(startingTimestamp=str(1 << 50))) == []
    assert (await in_thread(lambda: positions(startingTimestamp="0")))[0] == TRIM

    table, row = Table(cluster, pushdown="true"), everything[600]
    kept = GreaterThan(("payload",), b"")
    filters = [GreaterThanOrEqual(("position",), 60), LessThan(("position",), entries[-1]), IsNull(("gap",)), kept]
    assert table.push(*filters, EqualTo(("session",), row["session"])) == [kept]
    expected = [each["position"] for each in everything if each["session"] == row["session"]]
    found = [each["position"] for each in await in_thread(table.rows)]
    assert found == [position for position in expected if 60 <= position < entries[-1]]


async def what_is_trimmed_is_missed(cluster: str, log: VirtualLog) -> None:
    """Unless that is all right: then it is a gap."""
    with pytest.raises(TrimmedError, match=str(TRIM)):
        await in_thread(Table(cluster, startingOffsets="0").plan)

    plan = await in_thread(Table(cluster, endingOffsets="60").plan)
    table = Table(cluster, startingOffsets="0", endingOffsets="60", failOnDataLoss="false")
    assert plain(whole_gaps(await in_thread(table.rows))) == await contents(log, 0, 60)
    await log.prefix_trim(LogPosition(TRIM + 1))
    with pytest.raises(TrimmedError, match=str(TRIM + 1)):
        await in_thread(read, Table(cluster).reader, plan)


async def what_cannot_be_read_is_refused(cluster: str, log: VirtualLog, folder: Path) -> None:
    """Before anything is planned, with an error that says what is wrong."""
    tail, other = await tail_of(log), "ab" * 16
    offset = json.dumps({"cluster": other, "position": 60})
    for error, options in (
        (WrongRecipientError, {"clusterId": other}),
        (WrongRecipientError, {"startingOffsets": offset}),
        (BeyondTailError, {"endingOffsets": str(tail + 1)}),
        (InvalidSettingError, {"startingOffsets": "70", "endingOffsets": "60"}),
    ):
        with pytest.raises(error):
            await in_thread(Table(cluster, SCHEMA, **options).plan)
    nobody = ClusterFile(nodes=(NodeAddress(id=1, address=f"127.0.0.1:{free_ports(1)}"),))
    (folder / "nobody.toml").write_text(nobody.spell())
    with pytest.raises(UnavailableError, match="no node of the cluster can be used"):
        await in_thread(Table(str(folder / "nobody.toml")).plan)
    with pytest.raises(InvalidSettingError, match="cannot be read"):
        await in_thread(Table(str(folder / "missing.toml")).plan)


async def a_stream_goes_on_where_it_was(cluster: str, log: VirtualLog) -> None:
    """By positions alone: each micro-batch is decided before it is read, bounded, and the same when it is asked for again."""
    reader = LogStreamReader(stream_options({"cluster": cluster, "maxOffsetsPerTrigger": "200"}), SCHEMA)
    first = await log.append_many([b"%d" % index for index in range(500)])
    offset = {"cluster": (await log.view.refresh()).cluster.hex(), "position": first.start}
    limit = reader.getDefaultReadLimit()
    found: list[int] = []
    await in_thread(reader.prepareForTriggerAvailableNow)
    await log.reconfig_extend("native")
    later = await log.append_many([b"later"])

    assert limit == ReadMaxRows(200)
    while (end := await in_thread(reader.latestOffset, offset, limit)) != offset:
        assert end["position"] - offset["position"] <= 200
        plan = sent(await in_thread(reader.partitions, offset, end))
        rows = await in_thread(read, reader, plan)
        assert rows == await in_thread(read, reader, plan)
        found += [row["position"] for row in rows]
        offset = end
    assert found == [*first]

    reader = LogStreamReader(stream_options({"cluster": cluster}), SCHEMA)
    assert (await in_thread(reader.initialOffset))["position"] == later.stop
    end = await in_thread(reader.latestOffset, offset, ReadAllAvailable())
    rows = await in_thread(read, reader, sent(await in_thread(reader.partitions, offset, end)))
    assert [row["payload"] for row in rows if row["gap"] is None] == [b"later"]
    assert await in_thread(reader.partitions, end, end) == []
    with pytest.raises(WrongRecipientError):
        await in_thread(reader.latestOffset, {**offset, "cluster": "ab" * 16}, limit)
    with pytest.raises(BeyondTailError):
        await in_thread(reader.latestOffset, {**offset, "position": later.stop + 1}, limit)
    with pytest.raises(TrimmedError):
        await in_thread(reader.partitions, {**offset, "position": 0}, end)


async def only_committed_rows_are_seen(cluster: str, log: VirtualLog) -> None:
    """If that is asked for: in the range of their commit, wherever they lie."""
    begin = await tail_of(log)
    await attempt(log, b"failed")
    winner = await attempt(log, b"one", b"two")
    middle = await tail_of(log)
    await log.append(b"of somebody else")
    await commit(log, QUERY, 0, [winner])

    def payloads(start: int, **options: str) -> list[bytes]:
        table = Table(cluster, SCHEMA, isolationLevel="read_committed", startingOffsets=str(start), **options)
        return [row["payload"] for row in table.rows()]

    assert await in_thread(payloads, begin) == [b"one", b"two"]
    assert await in_thread(payloads, middle) == [b"one", b"two"]
    assert await in_thread(partial(payloads, begin, endingOffsets=str(middle))) == []


async def archives_take_the_place_of_segments(cluster: str, log: VirtualLog, folder: Path) -> None:
    """A plan from before still reads the same; one that leads to files which are not there is read from the hot copy; damage is
    an error, and no row of what is damaged is seen."""
    tail = await tail_of(log)
    old = Table(cluster, endingOffsets=str(tail))
    plan = await in_thread(old.plan)
    expected = await in_thread(read, old.reader, plan)
    await archive(Path(cluster), "all", "--to", f"file://{folder}/archives")
    table = Table(cluster, endingOffsets=str(tail))
    archived = await in_thread(table.plan)
    assert await in_thread(read, table.reader, plan) == expected

    await the_table_is_what_the_log_reads(cluster, log)
    (folder / "archives").rename(folder / "gone")
    rows = await in_thread(read, table.reader, archived)
    assert [row["payload"] for row in rows] == [row["payload"] for row in expected]
    (folder / "gone").rename(folder / "archives")

    segment = (await log.view.refresh()).chain.segments[0]
    config = attrs.evolve(decode_untrusted(segment.config), hot=None)
    await log.reconfig_modify(segment.id, "archive", config.encode(), LogletOffset(segment.start))
    (file,) = (folder / "archives" / config.directory).glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    await in_thread(close_clients)
    with pytest.raises(CorruptionError):
        await in_thread(Table(cluster, endingOffsets=str(segment.stop)).rows)


async def test_a_log_is_a_table(tmp_path: Path) -> None:
    """Whatever lies below it: see each of the steps."""
    async with log_of_many_kinds(tmp_path) as (cluster, log):
        await the_table_is_what_the_log_reads(cluster, log)
        await a_part_of_it_is_read_alone(cluster, log)
        await what_cannot_be_read_is_refused(cluster, log, tmp_path)
        await what_is_trimmed_is_missed(cluster, log)
        await a_stream_goes_on_where_it_was(cluster, log)
        await only_committed_rows_are_seen(cluster, log)
        await archives_take_the_place_of_segments(cluster, log, tmp_path)
