"""Remains of a log are imperfect: locations overlap, are damaged, belong to others; attempts are
killed, and repeated."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from pyspark_virtuallog.restore.coverage import Span
from pyspark_virtuallog.restore.planner import RestoreRequest
from pyspark_virtuallog.restore.range_reader import RangeReader
from pyspark_virtuallog.restore.restoration import Restored, restore
from tests.spark.synthetic_log import FORMER, MadeUp, archived
from tests.virtuallog.client.world import world
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    MalformedError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog_loglets.archive.config import directory_of
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.restore_plan import NAME as PLAN
from virtuallog_loglets.archive.restored_origin import NAME as ORIGIN
from virtuallog_server.backup.backup_run import back_up
from virtuallog_server.backup.place import BackupPlace


@attrs.frozen
class Broken:
    """A made-up log that lacks a part: it has a gap there, or an error."""

    start: int
    stop: int
    fault: GapKind | VirtualLogError

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        if start < self.start:
            return await MadeUp().read(start, min(stop, self.start))
        if start >= self.stop:
            return await MadeUp().read(start, stop)
        if isinstance(self.fault, VirtualLogError):
            raise self.fault
        gap = Gap(LogPosition(start), LogPosition(min(stop, self.stop)), self.fault)
        return [gap] if stop <= self.stop else [gap, *await MadeUp().read(self.stop, stop)]


async def restored(place: Path, into: Path, *more: Path, seed: int = 7, **wanted: Any) -> Restored:
    places = [f"file://{each}" for each in (place, *more)]
    return await restore(RestoreRequest(places=places, into=f"file://{into}", **wanted), random.Random(seed))


async def numbers(reading: RangeReader, start: int, stop: int) -> list[int]:
    """Numbers of the entries there, which must be those of the synthetic log; negative for a gap."""
    found = list[int]()
    while start < stop:
        for placed in await reading.read(start, stop):
            assert placed.start == start
            if isinstance(placed, PlacedBatch):
                records = list(placed.records())
                assert [record.payload for record in records] == [b"entry %d" % one.position for one in records]
                found += [record.position for record in records]
            else:
                found += [-position for position in range(placed.start, placed.stop)]
            start = placed.stop
    return found


@pytest.mark.parametrize(
    "fault",
    [GapKind.LOST, GapKind.TRIMMED, CorruptionError("a page"), UnavailableError("no node")],
    ids=["lost", "trimmed", "damaged", "gone"],
)
async def test_what_one_source_lacks_another_one_gives(fault: GapKind | VirtualLogError) -> None:
    """The one that reaches further is asked first, and fails in the middle of a batch; nothing is missing, nothing comes twice."""
    sources: list[Span[ReadableSegment]] = [Span(0, 1_000, MadeUp()), Span(0, 2_000, Broken(420, 777, fault))]
    assert await numbers(RangeReader(sources), 5, 1_950) == list(range(5, 1_950))


async def test_what_all_have_lost_is_lost() -> None:
    """And what one has lost while another one cannot be asked may not be: that is an error, and no gap in what is restored."""
    first, second = Broken(100, 200, GapKind.LOST), Broken(150, 250, GapKind.LOST)
    found = await numbers(RangeReader([Span(0, 300, first), Span(0, 300, second)]), 0, 300)
    assert found == [*range(150), *range(-150, -200, -1), *range(200, 300)]
    absent = Broken(0, 300, UnavailableError("no node"))
    with pytest.raises(UnavailableError, match="no node"):
        await numbers(RangeReader([Span(0, 300, first), Span(0, 300, absent)]), 0, 300)
    with pytest.raises(UnavailableError, match="from 100 on have been trimmed meanwhile"):
        await numbers(RangeReader([Span(0, 300, Broken(100, 200, GapKind.TRIMMED))]), 0, 300)


async def test_a_damaged_archive_is_passed_over_where_another_one_is_whole(tmp_path: Path) -> None:
    """A byte in a page of the longer one, and the manifest of a third one. Without the whole one it is said what is damaged."""
    long, whole, torn = tmp_path / "long", tmp_path / "whole", tmp_path / "torn"
    await archived(MadeUp(), long, 0, 2_000)
    await archived(MadeUp(), whole, 0, 1_500)
    await archived(MadeUp(), torn, 0, 2_500)
    flip(min(long.glob("*/*.parquet")), 1_000)
    (manifest,) = torn.glob("*/manifest.json")
    manifest.write_bytes(manifest.read_bytes()[:100])
    made = await restored(long, tmp_path / "into", whole, torn, position=LogPosition(1_500))
    assert made.history is not None and made.history.verified.entries == 1_500
    with pytest.raises(CorruptionError):
        await restored(long, tmp_path / "other")
    with pytest.raises(
        InvalidSettingError, match=r"positions 2000 to 2199; from 2200 on all is there; of no use: file://.*torn/.*: "
    ):
        await restored(long, tmp_path / "third", torn, await later(tmp_path), position=LogPosition(2_300))


async def later(tmp_path: Path) -> Path:
    """A place that begins behind a hole."""
    await archived(MadeUp(), tmp_path / "later", 2_200, 2_400)
    return tmp_path / "later"


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


async def test_all_there_is_stays_what_it_was_when_it_began(tmp_path: Path) -> None:
    """A restore without a position is killed at its end, and given again when there is more of the log, and less: it ends as the first one
    would have ended. So does one by time."""
    place, asked = tmp_path / "place", {"all": dict[str, Any](), "by time": {"time_ms": 1_000 + 3_210}}
    await archived(MadeUp(), place, 0, 4_000)
    first = {name: await restored(place, tmp_path / name, **wanted) for name, wanted in asked.items()}
    assert [made.origin.position for made in first.values()] == [4_000, 3_250]
    await archived(MadeUp(), place, 0, 5_000)
    for name, wanted in asked.items():
        (tmp_path / name / ORIGIN).unlink()
        assert await restored(place, tmp_path / name, seed=8, **wanted) == first[name]
        with pytest.raises(InvalidSettingError, match="another restore"):
            await restored(place, tmp_path / name, seed=8, **wanted, since=LogPosition(1))


async def test_two_at_a_time_make_one(tmp_path: Path) -> None:
    """The same command was given twice: the first decision counts for both, and both end with the
    same."""
    place, made = tmp_path / "place", list[Restored]()
    await archived(MadeUp(), place, 0, 4_000)

    async def attempt(seed: int) -> None:
        made.append(await restored(place, tmp_path / "into", seed=seed))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, 1)
        nursery.start_soon(attempt, 2)
    assert made[0].origin == made[1].origin


async def test_times_that_nothing_reaches_are_refused(tmp_path: Path) -> None:
    """Before the first entry there is nothing to restore; behind the last one all of it is."""
    await archived(MadeUp(), tmp_path / "place", 0, 1_000)
    with pytest.raises(InvalidSettingError, match="all that was found, from 0 on, is later"):
        await restored(tmp_path / "place", tmp_path / "into", time_ms=1_000)
    assert not (tmp_path / "into").exists()
    made = await restored(tmp_path / "place", tmp_path / "into", time_ms=1 << 42)
    assert made.origin.position == 1_000


async def test_what_somebody_else_has_there_is_left_alone(tmp_path: Path) -> None:
    """A directory with nothing but other directories is not empty: it may be a place. A damaged plan does not count."""
    place, into = tmp_path / "place", tmp_path / "into"
    await archived(MadeUp(), place, 0, 100)
    with pytest.raises(InvalidSettingError, match="is not empty"):
        await restored(place, place)
    into.mkdir()
    for blob in (
        b"",
        b"[]",
        b'{"cluster": "zz"}',
        b'{"asked": {}, "former": "", "cluster": "", "position": 1, "state": 7}',
    ):
        (into / PLAN).write_bytes(blob)
        with pytest.raises(MalformedError, match=PLAN):
            await restored(place, into)


def misspelled(place: Path) -> Path:
    return place.with_name("plcae")


def of_another_cluster(place: Path) -> Path:
    (there,) = place.iterdir()
    other = place.with_name("other") / directory_of("0a" * 16, 0, 100)
    other.mkdir(parents=True)
    (other / "manifest.json").write_bytes((there / "manifest.json").read_bytes())
    return other.parent


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (misspelled, InvalidSettingError, "plcae has no archives, backups or compactions"),
        (of_another_cluster, InvalidSettingError, "say whose with --cluster-id"),
    ],
)
async def test_each_place_has_something_of_the_log(
    tmp_path: Path, name: Callable[[Path], Path], error: type[VirtualLogError], words: str
) -> None:
    """One that has nothing is misspelled, most likely; one of another cluster is meant for another restore."""
    place = tmp_path / "place"
    await archived(MadeUp(), place, 0, 100)
    with pytest.raises(error, match=words):
        await restored(place, tmp_path / "into", name(place))


async def test_a_place_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """Also if others have what is wanted."""
    place = tmp_path / "place"
    await archived(MadeUp(), place, 0, 100)
    with pytest.raises(WrongRecipientError, match="0a0a"):
        await restored(place, tmp_path / "into", of_another_cluster(place), cluster_id=FORMER)
    made = await restored(place, tmp_path / "into", cluster_id=FORMER)
    assert made.former == FORMER


async def test_a_place_of_backups_is_a_source(tmp_path: Path, autojump_clock: MockClock) -> None:
    """`virtuallog backup` has put two ranges there, of two runs: a restore joins them, and one that an unfinished run has left is not missed."""
    place = BackupPlace(f"file://{tmp_path / 'backups'}", FsspecFiles)
    async with world() as w:
        log = w.client()
        for count in (30, 20):
            for number in range(count):
                await log.append(b"%d" % number)
            await back_up(log, place)
    (tmp_path / "backups" / "archives" / f"{directory_of('63' * 16, 50, 60)}-backup-0000000003").mkdir()
    made = await restored(tmp_path / "backups", tmp_path / "into")
    assert (made.origin.position, made.history and made.history.verified.entries) == (50, 50)
