"""The table of a real log, read as Spark reads it, but without Spark: Spark's own part is tested in `test_spark_source.py`.

One cluster and one log, as most of the time goes into processes that start:

    [0, 50) trimmed | native, closed | paxos, closed | native, open
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, IsNull, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_virtuallog import clients
from pyspark_virtuallog.clients import close_clients
from pyspark_virtuallog.read.schema import SCHEMA
from pyspark_virtuallog.read.stream import LogStreamReader
from pyspark_virtuallog.source import DefaultSource
from pyspark_virtuallog.write.batch_commit import commit
from tests.free_ports import free_ports
from tests.spark.one_node import cluster_of_one_node, in_thread
from tests.spark.sink.sink_log import QUERY, attempt, tail_of
from tests.spark.tables import Row, Table, contents, each_row, plain, read, sent, whole_gaps
from virtuallog.client.cluster_file import ClusterFile, NodeAddress, read_cluster_file
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import (
    BeyondTailError,
    CorruptionError,
    InvalidSettingError,
    RetryableError,
    TrimmedError,
    UnavailableError,
    UntrustedError,
    WrongRecipientError,
)
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog_loglets.archive.config import GRACE_SECONDS, decode_untrusted
from virtuallog_server.cli.archive.segment_archiver import archive_segments
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]
TRIM = 50
ENTRIES = 1_200
"""In each segment."""
POSITIONS = StructType([StructField("position", LongType())])


async def an_empty_log_is_an_empty_table(cluster: str, log: VirtualLog) -> None:
    """An empty log is an empty table, and one of a single entry a single row, for batches and streams."""
    reader = stream(cluster)
    begin = await in_thread(reader.initialOffset)
    assert begin["position"] == 0
    assert await in_thread(reader.latestOffset, begin, ReadAllAvailable()) == begin
    for options in ({}, {"isolationLevel": "read_committed"}, {"startingTimestamp": "0"}, {"endingOffsets": "0"}):
        assert await in_thread(Table(cluster, SCHEMA, **options).rows) == []

    await log.append(b"")
    (row,) = await in_thread(Table(cluster).rows)
    assert (row["position"], row["payload"], row["size"], row["sequence"]) == (0, b"", 0, 0)
    end = await in_thread(reader.latestOffset, begin, ReadAllAvailable())
    assert await in_thread(read, reader, sent(await in_thread(reader.partitions, begin, end))) == [row]


async def fill(log: VirtualLog) -> None:
    """Fill the log with segments of each kind."""
    for kind in ("paxos", "native", ""):
        for begin in range(0, ENTRIES, 100):
            await log.append_many([b"%s %d" % (kind.encode(), begin + index) for index in range(100)])
        if kind:
            await log.reconfig_extend(kind)
    await log.prefix_trim(LogPosition(TRIM))


def stream(cluster: str, **options: str) -> LogStreamReader:
    """Make a stream reader as Spark does."""
    made = DefaultSource({"cluster": cluster, **options}).streamReader(SCHEMA)
    assert isinstance(made, LogStreamReader)
    return made


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

    table, row = Table(cluster, pushdown="true", singleScan="true"), everything[600]
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
    unreachable = ClusterFile(nodes=(NodeAddress(id=1, address=f"127.0.0.1:{free_ports(1)}"),))
    (folder / "unreachable.toml").write_text(unreachable.spell())
    with pytest.raises(UnavailableError, match="no node of the cluster can be used"):
        await in_thread(Table(str(folder / "unreachable.toml")).plan)
    with pytest.raises(InvalidSettingError, match="cannot be read"):
        await in_thread(Table(str(folder / "missing.toml")).plan)


async def a_stream_goes_on_where_it_was(cluster: str, log: VirtualLog) -> None:
    """By positions alone: each micro-batch is decided before it is read, bounded, and the same when it is asked for again."""
    reader = stream(cluster, maxOffsetsPerTrigger="200")
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

    reader = stream(cluster)
    assert (await in_thread(reader.initialOffset))["position"] == later.stop
    end = await in_thread(reader.latestOffset, offset, ReadAllAvailable())
    rows = await in_thread(read, reader, sent(await in_thread(reader.partitions, offset, end)))
    assert [row["payload"] for row in rows if row["gap"] is None] == [b"later"]
    assert await in_thread(reader.partitions, end, end) == []
    assert await in_thread(reader.reportLatestOffset) == end
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
    await log.append(b"of another writer")
    await commit(log, QUERY, 0, [winner])

    def payloads(start: int, **options: str) -> list[bytes]:
        table = Table(cluster, SCHEMA, isolationLevel="read_committed", startingOffsets=str(start), **options)
        return [row["payload"] for row in table.rows()]

    assert await in_thread(payloads, begin) == [b"one", b"two"]
    assert await in_thread(payloads, middle) == [b"one", b"two"]
    assert await in_thread(partial(payloads, begin, endingOffsets=str(middle))) == []

    reader = stream(cluster, isolationLevel="read_committed", maxOffsetsPerTrigger="2")
    offset = {"cluster": (await log.view.refresh()).cluster.hex(), "position": begin}
    batches: list[list[bytes]] = []
    while (end := await in_thread(reader.latestOffset, offset, reader.getDefaultReadLimit())) != offset:
        rows = await in_thread(read, reader, sent(await in_thread(reader.partitions, offset, end)))
        batches, offset = [*batches, [row["payload"] for row in rows]], end
    assert len(batches) == (await tail_of(log) - begin + 1) // 2
    assert [batch for batch in batches if batch] == [[b"one", b"two"]]


async def archives_take_the_place_of_segments(cluster: str, log: VirtualLog, folder: Path) -> None:
    """A plan from before still reads the same; so does one whose files are not there, or damaged, as long as there is a hot copy. Then
    damage is an error, and no row of what is damaged is seen."""
    tail = await tail_of(log)
    old = Table(cluster, endingOffsets=str(tail))
    plan = await in_thread(old.plan)
    expected = await in_thread(read, old.reader, plan)
    place = folder / "archives"
    await archive_segments(read_cluster_file(Path(cluster)), "all", f"file://{place}", GRACE_SECONDS, [])
    table = Table(cluster, endingOffsets=str(tail))
    archived = await in_thread(table.plan)
    assert await in_thread(read, table.reader, plan) == expected

    await the_table_is_what_the_log_reads(cluster, log)
    labelled = await in_thread(read, table.reader, archived)
    place.rename(folder / "gone")
    assert await in_thread(whole_rows, table, archived) == whole_gaps(labelled)
    (folder / "gone").rename(place)

    segment = (await log.view.refresh()).chain.segments[0]
    config = attrs.evolve(decode_untrusted(segment.config), hot=None)
    (file,) = (place / config.directory).glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    await in_thread(close_clients)
    assert await in_thread(whole_rows, table, archived) == whole_gaps(labelled)

    await log.reconfig_modify(segment.id, "archive", config.encode(), LogletOffset(segment.start))
    await in_thread(close_clients)
    with pytest.raises(CorruptionError):
        await in_thread(Table(cluster, endingOffsets=str(segment.stop)).rows)


def whole_rows(table: Table, plan: list[bytes]) -> list[Row]:
    return whole_gaps(read(table.reader, plan))


async def the_chain_may_begin_later(cluster: str, log: VirtualLog) -> None:
    """Its first segment was trimmed as a whole, and is gone: what lies below is of no segment."""
    begin = (await log.view.refresh()).chain.segments[1].start + 5
    await log.prefix_trim(LogPosition(begin))
    start, tail = (await log.view.refresh()).chain.start, await tail_of(log)
    assert 0 < start < begin

    expected = await contents(log, begin, tail)
    for options in ({}, {"startingTimestamp": "0"}, {"startingOffsets": str(begin)}):
        assert plain(whole_gaps(await in_thread(Table(cluster, SCHEMA, **options).rows))) == expected
    assert (await in_thread(stream(cluster, startingOffsets="earliest").initialOffset))["position"] == begin
    with pytest.raises(TrimmedError, match=str(begin)):
        await in_thread(Table(cluster, startingOffsets=str(start)).plan)
    below, rest, *_ = whole_gaps(await in_thread(Table(cluster, startingOffsets="3", failOnDataLoss="false").rows))
    assert (below["position"], below["gap"], below["segment"], below["loglet"]) == (3, "trimmed", None, None)
    assert (rest["position"], rest["gap"]) == (start, "trimmed")
    assert rest["segment"]


async def a_node_is_away_while_a_task_reads(cluster: LocalCluster, log: VirtualLog) -> None:
    """The task waits for it, and goes on where it was; so does the plan of the next read. One without patience fails, and can be run again."""
    table = Table(str(cluster.file_path))
    plan = await in_thread(table.plan)
    expected = await in_thread(read, table.reader, plan)
    half = Table(str(cluster.file_path), endingOffsets=str(await tail_of(log)), patienceSeconds="0")
    waiting, impatient = each_row(table.reader, plan), each_row(half.reader, await in_thread(half.plan))
    rows = [await in_thread(next, waiting)]
    await in_thread(next, impatient)

    await cluster.kill(NodeId(1))
    with pytest.raises(RetryableError):
        await in_thread(list, impatient)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.start, NodeId(1))
        rows += await in_thread(list, waiting)
    assert rows == expected
    assert await in_thread(Table(str(cluster.file_path)).rows) == expected


async def a_client_that_broke_down_is_replaced(cluster: str) -> None:
    """Processes of Spark live long: the next task has another one."""
    table = Table(cluster, endingOffsets=str(TRIM + 9))
    plan = await in_thread(table.plan)
    expected = await in_thread(read, table.reader, plan)
    for broken in [*clients._clients.values()]:
        await in_thread(partial(broken.run, break_down))
        while broken.is_open:
            await trio.sleep(0.01)
    assert await in_thread(read, table.reader, plan) == expected
    assert await in_thread(table.rows) == expected


async def break_down(log: VirtualLog) -> None:
    log.view.environment.nursery.cancel_scope.cancel()


async def each_process_has_its_own_certificate(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's certificate is enough to read; its environment names it."""
    tls = cluster.tls
    assert tls is not None
    monkeypatch.setenv("VIRTUALLOG_CERTIFICATE", str(tls.certificate.with_name("client-app.pem")))
    monkeypatch.setenv("VIRTUALLOG_KEY", str(tls.key.with_name("client-app.key")))
    await in_thread(close_clients)
    assert await in_thread(Table(str(cluster.file_path), endingOffsets=str(TRIM + 9)).rows)

    node = tls.certificate.with_name("node-1.pem")
    monkeypatch.setenv("VIRTUALLOG_CERTIFICATE", str(node))
    await in_thread(close_clients)
    with pytest.raises((UntrustedError, InvalidSettingError)):
        await in_thread(Table(str(cluster.file_path)).plan)
    monkeypatch.undo()
    await in_thread(close_clients)


async def test_a_log_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any segment below it, over connections inside TLS: see each of the steps."""
    async with cluster_of_one_node(tmp_path, tls=True) as node, connect(node.file) as log:
        cluster = str(node.file_path)
        await an_empty_log_is_an_empty_table(cluster, log)
        await fill(log)
        await the_table_is_what_the_log_reads(cluster, log)
        await a_part_of_it_is_read_alone(cluster, log)
        await what_cannot_be_read_is_refused(cluster, log, tmp_path)
        await what_is_trimmed_is_missed(cluster, log)
        await a_node_is_away_while_a_task_reads(node, log)
        await each_process_has_its_own_certificate(node, monkeypatch)
        await a_client_that_broke_down_is_replaced(cluster)
        await a_stream_goes_on_where_it_was(cluster, log)
        await only_committed_rows_are_seen(cluster, log)
        await archives_take_the_place_of_segments(cluster, log, tmp_path)
        await the_chain_may_begin_later(cluster, log)
