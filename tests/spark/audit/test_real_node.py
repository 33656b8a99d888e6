"""An audit of a real log: read by tasks of Spark from its servers and from an archive, over changes of loglets, behind a trim, and over damage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import attrs
import pytest
import trio
from pyspark.sql import SparkSession

from pyspark_virtuallog.audit.core.findings import Finding, Findings, Severity
from pyspark_virtuallog.audit.job import AuditSettings, audit
from tests.spark.one_node import in_thread, log_of_one_node
from tests.spark.sink.sink_log import attempt, committed
from virtuallog.client.appender import Appender
from virtuallog.client.cluster_file import read_cluster_file
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogletOffset, LogPosition, PlacedBatch
from virtuallog_loglets.archive.config import GRACE_SECONDS, decode_untrusted
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_server.cli.archive.segment_archiver import archive_segments

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]
ENTRIES = 1_000
KINDS = ("striped", "paxos", "native")
"""Behind the native segment that every log begins with."""
NOTED = {"time goes back"}
"""Worth a note in a log that is as it should be: stripes are ordered by different clocks, one after the other in the end."""


async def audited(
    spark: SparkSession, cluster: str, start: int | None = None, stop: int | None = None
) -> tuple[Findings, dict[str, Finding]]:
    """All there is, or a range; and the findings that are not fine."""
    found = await in_thread(audit, spark, Path(cluster), AuditSettings(start=start, stop=stop))
    return found, {each.check: each for each in found.findings if each.severity is not Severity.FINE}


async def test_a_real_log_is_found_as_it_should_be(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is wrong with it, and the figures are those of what was written and not trimmed."""
    async with log_of_one_node(tmp_path) as (cluster, log):
        for segment in range(2):
            with log.appender() as appender:
                for _ in range(5):
                    await appender.append([b"%d" % segment] * (ENTRIES // 10))
            if not segment:
                await log.reconfig_extend("native")
        await log.prefix_trim(LogPosition(10))
        told: list[str] = []
        found = await in_thread(audit, spark, Path(cluster), AuditSettings(), told.append)

    assert {finding.severity for finding in found.findings} == {Severity.FINE}
    assert (found.start, found.stop) == (10, ENTRIES)
    assert [(segment.entries, segment.bytes) for segment in found.evidence.segments] == [(490, 490), (500, 500)]
    assert [session.entries for session in found.evidence.largest_sessions] == [500, 490]
    assert told == ["reading [10, 1000)", "comparing sessions", "asking segments where they end"]


async def fill(log: VirtualLog) -> list[int]:
    """Sessions that go on over segments of all kinds, and batches of the sink with attempts that have failed; where segments begin."""
    borders = [0]
    with log.appender() as first, log.appender() as second:
        for number, kind in enumerate((*KINDS, "")):
            async with trio.open_nursery() as nursery:
                for seed, appender in enumerate((first, second)):
                    nursery.start_soon(appends, appender, Random(2 * number + seed))
            await attempt(log, b"of an attempt that fails", b"and of no other")
            await committed(log, number, b"one", b"two", b"three")
            if kind:
                borders.append((await log.reconfig_extend(kind)).chain.last.start)
    return borders


async def appends(appender: Appender, random: Random) -> None:
    """In batches of ten, of bytes that no file makes smaller."""
    for _ in range(ENTRIES // 2 // 10):
        await appender.append([random.randbytes(60) for _ in range(10)])


async def archive_first(cluster: str, log: VirtualLog, place: Path) -> Path:
    """The first segment lies in a file of many row groups, and nowhere else."""
    segment = (await log.view.refresh()).chain.segments[0]
    sizes = DataFileSizes(group_bytes=4 << 10)
    file = read_cluster_file(Path(cluster))
    await archive_segments(file, str(segment.id), f"file://{place}", GRACE_SECONDS, [], sizes=sizes)
    segment = (await log.view.refresh()).chain.segments[0]
    config = attrs.evolve(decode_untrusted(segment.config), hot=None)
    await log.reconfig_modify(segment.id, "archive", config.encode(), LogletOffset(segment.start))
    (found,) = (place / config.directory).glob("*.parquet")
    return found


async def payloads_at(log: VirtualLog, *positions: int) -> list[bytes]:
    """Payloads of the entries there."""
    found = [await log.read(LogPosition(at), LogPosition(at + 1)) for at in positions]
    return [next(placed.records()).payload for (placed,) in found if isinstance(placed, PlacedBatch)]


def flip(file: Path, payload: bytes) -> None:
    """One bit in it."""
    content = bytearray(file.read_bytes())
    content[content.index(payload) + 7] ^= 1
    file.write_bytes(content)


def ranges_of(examples: Sequence[str]) -> list[range]:
    """Range in a text such as "[3, 9): why"."""
    return [range(*map(int, each[1:].split(")")[0].split(", "))) for each in examples]


async def test_a_log_of_every_kind_is_found_whole_and_damage_is_found_where_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No kind of loglet raises a false alarm, nor do sessions that go over all of them, nor batches that are committed beside attempts that
    failed. Two bits that flip in an archive are two ranges, around which all else is read; a file that is gone is reported with its segment."""
    async with log_of_one_node(tmp_path) as (cluster, log):
        borders = await fill(log)
        places = borders[1] // 6, borders[1] // 6 * 5
        payloads = await payloads_at(log, *places)
        found, notes = await audited(spark, cluster)
        assert set(notes) <= NOTED
        assert found.entries == 4 * (ENTRIES + 6)
        assert found.evidence.markers.batches == 4
        assert found.evidence.markers.committed_entries == 12

        file = await archive_first(cluster, log, tmp_path / "place")
        found, notes = await audited(spark, cluster)
        assert set(notes) <= NOTED
        assert [segment.loglet for segment in found.evidence.segments] == ["archive", *KINDS]
        assert not set((await audited(spark, cluster, borders[1] // 2, borders[2] + 77))[1]) - NOTED

        for payload in payloads:
            flip(file, payload)
        found, notes = await audited(spark, cluster)
        damaged = ranges_of(notes["damaged"].examples)
        lost = sum(map(len, damaged))
        assert [place in each for place, each in zip(places, damaged, strict=True)] == [True, True]
        assert lost < borders[1] // 2
        assert found.entries == 4 * (ENTRIES + 6) - lost
        assert not {"position missing", "position again", "segment ends"} & set(notes)

        file.unlink()
        _, notes = await audited(spark, cluster)
        assert ranges_of(notes["damaged"].examples) == [range(borders[1])]
        assert "of an archive has none of its" in notes["segment ends"].examples[0]
