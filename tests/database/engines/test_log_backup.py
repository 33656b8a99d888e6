"""Bidders copy ranges of the log elsewhere, and the log is not trimmed before that (case 62)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Replicas, Running, caught_up, replicas
from virtuallog.contract.errors import StorageError
from virtuallog.contract.types import LogPosition
from virtuallog.testing.logs import capture_logs
from virtuallog_database.engines.core import backup_state, view
from virtuallog_database.engines.core.backup_state import Bid, DropBid, Uploaded
from virtuallog_database.engines.core.enabled_engines import Enable, switch
from virtuallog_database.engines.log_backup import LogBackupEngine, LogBackupSettings
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_loglets.archive.core.manifest import NAME, ArchiveManifest, decode_untrusted
from virtuallog_loglets.archive.drivers.trim_markers import marker


@attrs.define
class Place:
    """Files elsewhere, in memory."""

    directories: dict[str, dict[str, bytes]] = attrs.field(factory=dict)
    broken: bool = False
    """Nothing can be written there."""
    slow: bool = False
    """Nothing that is written there is ever done."""
    read_seconds: float = 0.0
    """Read-back is as slow as the upload."""

    def open(self, url: str) -> PlaceFiles:
        return PlaceFiles(self, self.directories.setdefault(url, {}))

    def ranges(self) -> list[tuple[int, int]]:
        """Complete archives there, in order."""
        return sorted((manifest.start, manifest.stop) for manifest in self._manifests())

    def holes(self) -> list[tuple[int, int]]:
        """Parts of ranges that had been trimmed before they were copied."""
        return [(each.start, each.trimmed) for each in self._manifests() if each.trimmed > each.start]

    def _manifests(self) -> list[ArchiveManifest]:
        return [decode_untrusted(files[NAME]) for files in self.directories.values() if NAME in files]


@attrs.define
class PlaceFiles:
    """Implements `virtuallog_loglets.archive.drivers.files.Files`."""

    place: Place
    files: dict[str, bytes]

    async def read(self, name: str) -> bytes | None:
        await trio.sleep(self.place.read_seconds)
        return self.files.get(name)

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        content = await self.read(name)
        return None if content is None else content[start:stop]

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        if self.place.broken:
            raise StorageError("no permission")
        if self.place.slow:
            await trio.sleep_forever()
        if name in self.files and not replace:
            return False
        self.files[name] = bytes(content)
        return True

    async def list(self) -> Mapping[str, int]:
        await trio.lowlevel.checkpoint()
        return {name: len(content) for name, content in self.files.items()}

    async def delete(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        self.files.pop(name, None)


def settings(place: Place | None) -> StackSettings:
    backup = LogBackupSettings(
        range_bytes=20_000, range_seconds=2.0, idle_seconds=100.0, bid_seconds=5.0, tick_seconds=0.5
    )
    if place is not None:
        backup = attrs.evolve(backup, url="file:///backups", open_files=place.open)
    return attrs.evolve(SETTINGS, view=ViewSettings(announce_seconds=1.0), log_backup=backup)


def backup(running: Running) -> LogBackupEngine:
    found = running.replica.stack.find(LogBackupEngine)
    assert found is not None
    return found


def rollout(running: Running) -> RolloutEngine:
    found = running.replica.stack.find(RolloutEngine)
    assert found is not None
    return found


async def more(running: list[Running], payload: bytes) -> None:
    """Entries that all of these have applied."""
    for _ in range(20):
        await running[0].propose(payload)
    await caught_up(*running)


async def snapshotted(running: list[Running]) -> LogPosition:
    """All of these have snapshots of now. Returns where the log starts then."""
    for each in running:
        each.replica.snapshotted(each.replica.cursor)
    await trio.sleep(5.0)
    return await running[0].log.find_trim_point()


async def enabled(world: Replicas, *places: Place | None) -> list[Running]:
    """A replica for each place, with entries."""
    running = [await world.start(node, settings=settings(place)) for node, place in enumerate(places, 1)]
    for each in running:
        await each.propose(b"hello")
    await rollout(running[0]).enable("log_backup")
    for number in range(20):
        await running[0].propose(b"entry %d" % number)
    return running


async def test_ranges_follow_each_other_and_the_log_is_trimmed_behind_them(autojump_clock: MockClock) -> None:
    """Three who can copy share the work and leave no gap: a backup with a hole is found out on the day it is needed."""
    place = Place()
    async with replicas() as world:
        running = await enabled(world, place, place, place)
        for round_ in range(3):
            await running[1].propose(b"round %d" % round_)
            await trio.sleep(4.0)
        await caught_up(*running)
        for each in running:
            each.replica.snapshotted(each.replica.cursor)
        await trio.sleep(2.0)
        progress = backup(running[2]).progress()
        assert progress is not None
        ranges = place.ranges()
        assert len(ranges) >= 3
        assert ranges[0][0] == 0 and ranges[-1][1] == progress.backed_up
        assert [start for start, _ in ranges[1:]] == [stop for _, stop in ranges[:-1]], "without gaps, without overlaps"
        assert max(world.provider.trims) == progress.backed_up


async def test_what_is_not_backed_up_is_not_trimmed(autojump_clock: MockClock) -> None:
    """While the place fails the log keeps what it lacks, and replicas go on; then both catch up by themselves."""
    place = Place(broken=True)
    async with replicas() as world:
        running = await enabled(world, place, None)
        await caught_up(*running)
        for each in running:
            each.replica.snapshotted(each.replica.cursor)
        await trio.sleep(10.0)
        assert not any(world.provider.trims)
        assert not any(each.ended.is_set() for each in running), "it is no disk of theirs that fails"

        place.broken = False
        await trio.sleep(10.0)
        assert place.ranges() and max(world.provider.trims) > 20


async def test_a_dead_bidder_loses_its_range_to_another(autojump_clock: MockClock) -> None:
    """A bid is no lock for ever: otherwise one crash would stop the backup, and with it every trim."""
    stuck, good = Place(slow=True), Place()
    async with replicas() as world:
        running = await enabled(world, stuck, None)
        await trio.sleep(4.0)
        (taken,) = backup_state.ranges(running[1].application.store).values()
        assert taken.replica == running[0].replica.identity.name
        await running[0].crash()
        third = await world.start(3, settings=settings(good))
        await trio.sleep(20.0)
        progress = backup(third).progress()
        assert progress is not None
        assert good.ranges()[0] == (0, taken.stop)
        assert progress.backed_up >= taken.stop


async def test_a_bidder_that_restarts_goes_on_with_its_range(autojump_clock: MockClock) -> None:
    """It knows its bid from the log, so no replica has to wait until the bid is given up."""
    stuck, good = Place(slow=True), Place()
    async with replicas() as world:
        (first,) = await enabled(world, stuck)
        await trio.sleep(4.0)
        (taken,) = backup_state.ranges(first.application.store).values()
        await first.crash()
        await world.start(1, first.disk, settings=settings(good))
        await trio.sleep(3.0)
        assert good.ranges()[0] == (0, taken.stop)


async def test_disabled_it_holds_back_nothing(autojump_clock: MockClock) -> None:
    """The way out when the place is gone for good: without it the disks of the log would fill up."""
    place = Place(broken=True)
    async with replicas() as world:
        (first,) = await enabled(world, place)
        first.replica.snapshotted(LogPosition(10))
        await trio.sleep(5.0)
        assert not any(world.provider.trims)
        await rollout(first).disable("log_backup")
        await trio.sleep(3.0)
        assert max(world.provider.trims) == 10


async def test_enabled_again_backups_begin_behind_what_was_trimmed_meanwhile(autojump_clock: MockClock) -> None:
    """Otherwise a range without entries would be reported as backed up: an unnoticed hole."""
    place = Place()
    async with replicas() as world:
        running = await enabled(world, place, place)
        await trio.sleep(6.0)
        await rollout(running[0]).disable("log_backup")
        await more(running, b"never backed up")
        trimmed = await snapshotted(running)
        await rollout(running[0]).enable("log_backup")
        await more(running, b"backed up")
        await trio.sleep(20.0)
        progress = backup(running[0]).progress()
        assert progress is not None and progress.backed_up > progress.begin >= trimmed > 0
        assert place.holes() == []


def test_backups_begin_where_nobody_can_have_trimmed() -> None:
    """Replicas trim when they have read that they may: the proposer's log may still have what another one's has not."""
    state = StoreTransaction(MemoryDisk().open())
    view.change_member(state, "1-a", view.Member(LogPosition(30), LogPosition(40), (backup_state.NAME,)))
    view.raise_floor(state)
    switch(state, Enable(backup_state.NAME), LogPosition(50))
    assert backup_state.apply(state, backup_state.Begin(LogPosition(0)), LogPosition(51))

    progress = backup_state.progress(state)
    assert progress is not None and progress.begin == 30
    assert not backup_state.apply(state, backup_state.Begin(LogPosition(60)), LogPosition(61)), "that was decided"


async def test_a_range_that_is_gone_is_not_told_as_backed_up(autojump_clock: MockClock) -> None:
    """After a forced trim the failure stays visible until an operator lets backups begin anew."""
    place = Place(broken=True)
    async with replicas() as world:
        running = await enabled(world, place, place)
        await trio.sleep(4.0)
        await running[0].log.prefix_trim(LogPosition(10))
        place.broken = False
        await trio.sleep(10.0)
        progress = backup(running[0]).progress()
        assert progress is not None and progress.backed_up == 0
        await rollout(running[0]).disable("log_backup")
        await rollout(running[0]).enable("log_backup")
        await more(running, b"more")
        await trio.sleep(10.0)
        progress = backup(running[0]).progress()
        assert progress is not None and progress.backed_up > progress.begin >= 10


async def test_a_marker_in_its_directory_is_not_taken_for_a_trim(autojump_clock: MockClock) -> None:
    """A restore would take the range as trimmed. So it is not reported as backed up, and the log
    stays. An operator removes the directory, and it goes on."""
    place = Marked()
    async with replicas() as world:
        with capture_logs() as told:
            running = await enabled(world, place)
            await trio.sleep(6.0)
        assert any("a marker in" in line.get("reason", "") for line in told)
        progress = backup(running[0]).progress()
        assert progress is not None and progress.backed_up == progress.begin
        assert not any(world.provider.trims)
        for files in place.directories.values():
            files.clear()
        place.is_marking = False
        await trio.sleep(10.0)
        progress = backup(running[0]).progress()
        assert progress is not None and progress.backed_up > progress.begin
        assert all(url.endswith("-backup") for url in place.directories), "an archive of these borders lies elsewhere"


@attrs.define
class Marked(Place):
    """A marker is in each directory before the range is copied, and data files are gone as soon as they are there."""

    is_marking: bool = True

    def open(self, url: str) -> PlaceFiles:
        stop = int(url.removesuffix("-backup").rpartition("-")[2])
        return Losing(self, self.directories.setdefault(url, {marker(stop): b""} if self.is_marking else {}))


class Losing(PlaceFiles):
    """See `Marked`."""

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        assert isinstance(self.place, Marked)
        return (self.place.is_marking and name != NAME) or await super().write(name, content, replace=replace)


async def test_an_upload_that_takes_longer_than_a_bid_counts(autojump_clock: MockClock) -> None:
    """Others take the range from a bidder that is slow; what is durable is durable all the same, or it would go on for ever."""
    place = Place(read_seconds=20.0)
    async with replicas() as world:
        running = await enabled(world, place, place, place)
        await trio.sleep(120.0)
        progress = backup(running[0]).progress()
        assert progress is not None and progress.backed_up > 0


async def test_a_range_is_bounded_however_much_there_is(autojump_clock: MockClock) -> None:
    """After a night in which the place did not answer it is to be had in parts, each of which is done, and one soon after the other."""
    place = Place(broken=True)
    async with replicas() as world:
        running = await enabled(world, place, None)
        for number in range(200):
            await running[1].propose(b"%d" % number + bytes(1000))
        place.broken = False
        await trio.sleep(30.0)
        progress = backup(running[1]).progress()
        assert progress is not None and progress.backed_up > 200
        assert len(place.ranges()) > 8, "of 20 KB each"


async def test_what_engines_say_by_themselves_is_backed_up_in_the_end(autojump_clock: MockClock) -> None:
    """Without writers the log still grows slowly, and it is trimmed up to the backups only."""
    place = Place()
    async with replicas() as world:
        running = await enabled(world, place, None)
        await trio.sleep(300.0)
        progress = backup(running[1]).progress()
        assert progress is not None and progress.backed_up > running[1].replica.cursor / 3
        assert len(place.ranges()) < 10


async def test_a_log_that_cannot_be_asked_where_it_begins_stops_no_replica(autojump_clock: MockClock) -> None:
    """Its oldest part may be a read-only archive; backups begin once that is mended."""
    place = Place()
    async with replicas() as world:
        world.provider.trim_refusal = StorageError("s3://archive: permission denied")
        (first,) = await enabled(world, place)
        await trio.sleep(5.0)
        assert backup(first).progress() is None and not first.ended.is_set()
        world.provider.trim_refusal = None
        await trio.sleep(5.0)
        assert backup(first).progress() is not None


async def test_bids_that_do_not_fit_do_nothing(autojump_clock: MockClock) -> None:
    """Late, doubled and lost ones are normal: each replica refuses the same, so ranges leave no gaps."""
    async with replicas() as world:
        first, second = await enabled(world, None, None)
        engine = backup(first)
        assert await engine.command(Bid(LogPosition(0), LogPosition(5), "me")) is False, "no backup has begun"
        assert await engine.command(backup_state.Begin(LogPosition(3))) is True
        assert await engine.command(backup_state.Begin(LogPosition(0))) is False
        assert await engine.command(Bid(LogPosition(4), LogPosition(9), "me")) is False, "it does not begin at the end"
        assert await engine.command(Bid(LogPosition(3), LogPosition(1 << 40), "me")) is False, "that is not written yet"
        assert await engine.command(Bid(LogPosition(3), LogPosition(9), "me")) is True
        assert await engine.command(Bid(LogPosition(3), LogPosition(9), "you")) is False, "taken"
        (bid,) = (each.bid for each in backup_state.ranges(first.application.store).values())
        assert await engine.command(Uploaded(LogPosition(3), LogPosition(8))) is False, "another range"
        assert await engine.command(DropBid(LogPosition(3), bid)) is True
        assert await engine.command(DropBid(LogPosition(3), bid)) is False, "it is free"
        assert await backup(second).command(Bid(LogPosition(3), LogPosition(9), "you")) is True
        assert await engine.command(Uploaded(LogPosition(3), LogPosition(9))) is True, "late, but it is durable"
        assert await engine.command(Uploaded(LogPosition(3), LogPosition(9))) is False, "that is known"
        progress = engine.progress()
        assert progress is not None and (progress.begin, progress.backed_up, progress.next) == (3, 9, 9)
