"""Backups of a log without a database, in memory: killed at each step, with a place that fails, and restored."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.server.backup.places import URL, EveryTenth, KilledError, MemoryPlace, Steps
from tests.virtuallog.client.world import World, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    MalformedError,
    UnavailableError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Clock
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.archive import restored_origin as origins
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_loglets.archive.loglet import ArchiveLoglet
from virtuallog_server.backup.backup_run import BackupSettings, FinishedBackup, back_up
from virtuallog_server.backup.core import manifest as manifests
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.restore import BackupRequest, RestoredCluster, restore_backup
from virtuallog_server.backup.retried_files import opened_again
from virtuallog_server.backup.verification import verify_backup

INTO = "memory://restored"
DAMAGED = (CorruptionError, InvalidSettingError, MalformedError)
"""Errors of a damaged backup; without its manifest there is none."""


async def saved(log: VirtualLog, place: OpenDirectory, **settings: Any) -> FinishedBackup:
    return await back_up(log, BackupPlace(URL, place), BackupSettings(**settings))


async def restored(place: OpenDirectory, into: str = INTO, seed: int = 1, **wanted: Any) -> RestoredCluster:
    request = BackupRequest(into=into, **wanted)
    return await restore_backup(BackupPlace(URL, place), request, place, SystemClock(), random.Random(seed))


async def entries(place: MemoryPlace, into: str = INTO) -> list[bytes]:
    """Entries of a restored log, read as the first segments of a new cluster."""
    origin = await origins.read_origin(place(into), into)
    found = list[bytes]()
    for config in origin.history:
        loglet, at = ArchiveLoglet(config, place(config.location), SystemClock(), None), config.start
        while at < config.stop:
            for item in await loglet.read(at, config.stop, 1 << 20):  # type: ignore[arg-type]
                found += [record.payload for record in item.records()] if isinstance(item, PlacedBatch) else []
                at = item.stop
    return found


async def append(log: VirtualLog, start: int, stop: int) -> list[bytes]:
    payloads = [b"entry %d" % number for number in range(start, stop)]
    for payload in payloads:
        await log.append(payload)
    return payloads


async def test_each_run_saves_what_has_come_since(autojump_clock: MockClock) -> None:
    """The first is full, the next ones are on top of it; one that finds nothing new moves the time; a full one rests on
    none of them, and on nothing that they have written."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 50)
        first = await saved(log, place)
        written += await append(log, 50, 80)
        second, third = await saved(log, place), await saved(log, place)
        assert [made.manifest.full for made in (first, second, third)] == [True, False, False]
        assert [made.manifest.stop for made in (first, second, third)] == [50, 80, 80]
        assert 0 < second.written_bytes < first.written_bytes and third.written_bytes == 0
        assert third.manifest.covered_ms >= second.manifest.covered_ms
        again = await saved(log, place, full=True)
        assert {each.number for each in again.manifest.ranges} == {4}
        assert (again.manifest.number, again.manifest.base, len(again.manifest.ranges)) == (4, 4, 1)
        made = await restored(place)
        assert made.position == 80 and made.cluster != w.register.cluster
        assert await entries(place) == written


async def test_a_restore_ends_at_any_position(autojump_clock: MockClock) -> None:
    """Three at random, by the newest backup and by an older one; what lies outside is refused, and so is an empty restore."""
    async with world() as w:
        log, place, chance = w.client(), MemoryPlace(), random.Random(5)
        written = await append(log, 0, 40)
        await saved(log, place)
        written += await append(log, 40, 90)
        await saved(log, place)
        for position in chance.sample(range(1, 91), 3):
            made = await restored(place, f"{INTO}-{position}", position=LogPosition(position))
            assert (made.position, await entries(place, f"{INTO}-{position}")) == (position, written[:position])
        await restored(place, f"{INTO}-number", number=1)
        assert await entries(place, f"{INTO}-number") == written[:40]
        for wanted in ({"position": 91}, {"position": 0}, {"number": 1, "position": 41}, {"number": 7}):
            with pytest.raises(InvalidSettingError):
                await restored(place, f"{INTO}-never", **wanted)
        assert not place.content(f"{INTO}-never")


async def test_a_restore_ends_at_a_time(autojump_clock: MockClock) -> None:
    """Everything ordered before it, by the times of the batches; a time that the backup had not reached is refused, not cut."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        clock = log.view.environment.clock
        early = await append(log, 0, 20)
        await clock.sleep(10)
        between_ms = int(clock.wall() * 1000)
        await clock.sleep(10)
        await append(log, 20, 30)
        await saved(log, place)
        await append(log, 30, 40)
        made = await saved(log, place)
        await restored(place, time_ms=between_ms)
        assert await entries(place) == early
        with pytest.raises(InvalidSettingError, match="no backup reaches there"):
            await restored(place, f"{INTO}-late", time_ms=made.manifest.covered_ms + 1)


async def test_killed_at_each_step_of_a_backup(autojump_clock: MockClock) -> None:
    """Before each request to the place, first and second backup: the former one is as good as it was, the next run completes
    it, and nothing is left behind that no backup names."""
    async with world() as w:
        log = w.client()
        written = await append(log, 0, 30)
        steps = await _steps_of_two_backups(log, written)
        for deadly in range(steps):
            await _backup_that_dies(log, written, deadly)
        assert steps > 10


async def _steps_of_two_backups(log: VirtualLog, written: Sequence[bytes]) -> int:
    counted, place = Steps(), MemoryPlace()
    await saved(log, counted.opened(place))
    return counted.taken


async def _backup_that_dies(log: VirtualLog, written: list[bytes], deadly: int) -> None:
    place, steps = MemoryPlace(), Steps(deadly)
    with pytest.raises(KilledError):
        await saved(log, steps.opened(place))
    tail = len(written)
    if await BackupPlace(URL, place).numbers():
        await restored(place, f"{INTO}-former")
        assert await entries(place, f"{INTO}-former") == written
    written += await append(log, tail, tail + 3)
    again = Steps(deadly)
    try:
        await saved(log, again.opened(place))
    except KilledError:
        made = await saved(log, place)
    else:
        made = await saved(log, place)
    assert made.manifest.stop == len(written)
    await restored(place)
    assert await entries(place) == written
    named = {(each.start, each.stop, each.number) for each in made.manifest.ranges}
    assert {*await BackupPlace(URL, place).ranges(made.manifest.cluster)} <= named


async def test_killed_at_each_step_of_a_restore(autojump_clock: MockClock) -> None:
    """An unfinished restore is no origin of a cluster; given again, it makes the cluster that was decided first. Once finished it is
    never written over."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 30)
        await saved(log, place)
        counted = Steps()
        await restored(counted.opened(place), f"{INTO}-whole")
        for deadly in range(counted.taken):
            into = f"{INTO}-{deadly}"
            with pytest.raises(KilledError):
                await restored(Steps(deadly).opened(place), into)
            if (into, origins.NAME) in place.content(into):
                assert await entries(place, into) == written
                continue
            decided = place.content(into).get((into, "restore.json"))
            made = await restored(place, into, seed=2)
            assert await entries(place, into) == written
            assert decided is None or made.cluster.hex().encode() in decided
        with pytest.raises(InvalidSettingError, match="restored cluster"):
            await restored(place, f"{INTO}-whole")


async def test_every_tenth_request_fails(autojump_clock: MockClock) -> None:
    """Two backups, a verification and a restore at a place that forgets every tenth request or its answer."""
    async with world() as w:
        log, place, faults = w.client(), MemoryPlace(), EveryTenth()
        clock = SystemClock()
        flaky = opened_again(faults.opened(place), _on(log))
        written = await append(log, 0, 30)
        for _ in range(8):
            made = await saved(log, flaky)
            written += await append(log, len(written), len(written) + 5)
        made = await saved(log, flaky)
        assert made.manifest.number == 9
        await restore_backup(BackupPlace(URL, flaky), BackupRequest(into=INTO), flaky, clock, random.Random(1))
        assert await entries(place) == written
        assert faults.failures == faults.requests // 10 > 15


def _on(log: VirtualLog) -> Clock:
    return log.view.environment.clock


async def test_a_place_that_never_answers_is_given_up(autojump_clock: MockClock) -> None:
    """After some attempts, in bounded time, with the error of the place."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        await append(log, 0, 3)
        place(URL).broken = True
        before = _on(log).monotonic()
        with pytest.raises(UnavailableError, match="does not answer"):
            await saved(log, opened_again(place, _on(log)))
        assert _on(log).monotonic() - before < 60


async def test_two_runs_at_a_time_do_not_mix(autojump_clock: MockClock) -> None:
    """One of them takes the number; the other one says so, or is the next one. The newest backup is whole either way."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 30)
        failures = list[UnavailableError | CorruptionError]()

        async def run() -> None:
            try:
                await saved(log, place)
            except (UnavailableError, CorruptionError) as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            nursery.start_soon(run)
        assert len(failures) < 2
        await restored(place)
        assert await entries(place) == written


async def test_another_cluster_and_a_trimmed_log_are_refused(autojump_clock: MockClock) -> None:
    """Nothing is written then. A full backup is the remedy for the trim, another place that for the cluster."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        await append(log, 0, 30)
        await saved(log, place)
        await append(log, 30, 60)
        await log.prefix_trim(LogPosition(40))
        before = {key: blob for key, blob in place.content(URL).items() if key[0] == URL}
        with pytest.raises(InvalidSettingError, match="--full"):
            await saved(log, place)
        assert {key: blob for key, blob in place.content(URL).items() if key[0] == URL} == before
        made = await saved(log, place, full=True)
        assert (made.manifest.start, made.manifest.stop, made.orphans) == (40, 60, 1)
        other = w.register
    async with world() as w:
        _rename(w, other.cluster)
        log = w.client()
        await append(log, 0, 5)
        with pytest.raises(WrongRecipientError):
            await saved(log, place)


def _rename(w: World, _former: ClusterId) -> None:
    w.metastore.values[-1] = attrs.evolve(w.register, cluster=ClusterId(b"d" * 16)).encode()


async def test_an_empty_log_is_refused(autojump_clock: MockClock) -> None:
    """There is nothing to restore, and an operator should hear that now."""
    async with world() as w:
        with pytest.raises(InvalidSettingError, match="nothing to back up"):
            await saved(w.client(), MemoryPlace())


async def test_damage_is_noticed(autojump_clock: MockClock) -> None:
    """Each file of a backup in turn is cut, changed and removed: a verification refuses it. So does a restore, unless the change is in a
    byte that no entry depends on."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 30)
        await saved(log, place)
        for number, (url, name) in enumerate(place.content(URL)):
            whole = place(url).content[name]
            for count, damaged in enumerate((whole[:-1], whole[:40] + b"\xff" + whole[41:], None)):
                into = f"{INTO}-{number}-{count}"
                if damaged is None:
                    del place(url).content[name]
                else:
                    place(url).content[name] = damaged
                with pytest.raises(DAMAGED):
                    await verify_backup(BackupPlace(URL, place), None, place, SystemClock(), random.Random(1))
                try:
                    await restored(place, into)
                except DAMAGED:
                    assert (into, origins.NAME) not in place.content(into)
                else:
                    assert await entries(place, into) == written
                place(url).content[name] = whole


def test_a_verification_prints_what_a_restore_takes() -> None:
    """All entries of a log without a database are read and compared; the times are those of the clock."""

    async def verify() -> None:
        async with world() as w:
            log, place = w.client(), MemoryPlace()
            await append(log, 0, 30)
            made = await saved(log, place)
            found = await verify_backup(BackupPlace(URL, place), None, place, SystemClock(), random.Random(1))
            assert found.backup == made.manifest and found.pairs == 0
            assert found.rto_seconds > 0

    trio.run(verify)


async def test_backups_may_be_deleted(autojump_clock: MockClock) -> None:
    """Manifests are deleted by hand, and the next run removes what no backup names any more; what others rest on stays."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 10)
        for full in (True, False, False, True, False):
            if full:
                await log.prefix_trim(LogPosition(len(written) - 5))
            await saved(log, place, full=full)
            written += await append(log, len(written), len(written) + 10)
        found = [manifest.number for manifest in await BackupPlace(URL, place).newest_of_each_base()]
        assert found == [5, 3]
        del place(URL).content[manifests.name_of(2)]
        assert (await saved(log, place)).orphans == 0
        await restored(place, position=LogPosition(25))
        assert await entries(place) == written[5:25]
        for number in (1, 3):
            del place(URL).content[manifests.name_of(number)]
        assert (await saved(log, place)).orphans == 3
        await restored(place, f"{INTO}-all")
        assert await entries(place, f"{INTO}-all") == written[35:]
